//! What a child says on its standard output.
//!
//! Owns the reading and which line is a message; hands each message to the session at once. Whatever is no message is
//! skipped and counted, before `initialize` is answered as after it. The content of a line is never logged.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use serde_json::value::RawValue;
use sessile_core::{Message, MessageError};

use super::BUDGET;
use super::launch::{Client, Counters};
use super::pump::Outbox;
use super::splitter::{Splitter, TooLong};
use super::stderr::Rate;
use super::stdin::Stdin;
use crate::runtime::{Read, Runtime, Write};

const SKIPS_PER_SECOND: u32 = 5;

/// A child's standard output.
#[derive(Debug)]
pub(super) struct Stdout<Rd, O> {
    /// `None`: at its end, which was told.
    reader: Option<Rd>,
    splitter: Splitter,
    sink: Sink<O>,
    /// Whether anything is still listened to.
    heard: bool,
}

/// Why nothing more comes.
#[derive(Debug)]
pub(super) enum Silence {
    Closed,
    Failed(io::Error),
    TooLong,
}

impl<Rd: Read, O: Outbox> Stdout<Rd, O> {
    pub(super) const fn new(reader: Rd, max_line: usize, session: Client, outbox: O, counters: Arc<Counters>) -> Self {
        Self {
            reader: Some(reader),
            splitter: Splitter::new(max_line),
            sink: Sink { outbox, session, counters, skipped: 0, rate: Rate::new(SKIPS_PER_SECOND) },
            heard: true,
        }
    }

    /// Reads what there is, and sees to it that it is woken for more. Ready once, when nothing more will come; after a
    /// line that was too long it goes on reading, so that the child does not block, but listens no more.
    pub(super) fn poll<W: Write>(
        &mut self,
        cx: &mut Context<'_>,
        runtime: &impl Runtime,
        stdin: &mut Stdin<W>,
    ) -> Poll<Silence> {
        for _ in 0..BUDGET {
            let Some(reader) = &mut self.reader else { return Poll::Pending };
            let (buffer, room) = self.splitter.space();
            match reader.poll_read(cx, buffer, room) {
                Poll::Pending => {
                    self.splitter.settle();
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => {
                    self.reader = None;
                    self.end(runtime, stdin);
                    return Poll::Ready(Silence::Closed);
                }
                Poll::Ready(Ok(_)) => {
                    if let Err(TooLong) = self.take_lines(runtime, stdin) {
                        return Poll::Ready(Silence::TooLong);
                    }
                }
                Poll::Ready(Err(error)) => {
                    self.reader = None;
                    return Poll::Ready(Silence::Failed(error));
                }
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Reads what a child that has exited left behind, at most `limit` bytes. Does not wait: all that it wrote is in
    /// the pipe, and whoever else still holds the pipe has left the group.
    pub(super) fn finish<W: Write>(&mut self, runtime: &impl Runtime, stdin: &mut Stdin<W>, limit: usize) {
        let mut total = 0;
        while let Some(reader) = self.reader.as_mut().filter(|_| total < limit) {
            let (buffer, room) = self.splitter.space();
            match reader.try_read(buffer, room) {
                Ok(count @ 1..) => {
                    total += count;
                    if self.take_lines(runtime, stdin).is_err() {
                        break;
                    }
                }
                Ok(0) | Err(_) => break,
            }
        }
        if self.reader.take().is_some() {
            self.end(runtime, stdin);
        }
    }

    /// Listens no more, but goes on reading.
    pub(super) fn ignore(&mut self) {
        self.heard = false;
        self.splitter.clear();
    }

    /// Ends the session for which it was read.
    pub(super) fn end_session(&mut self) {
        self.sink.outbox.end();
    }

    /// How many lines were no messages.
    pub(super) const fn skipped(&self) -> u64 {
        self.sink.skipped
    }

    fn take_lines<W: Write>(&mut self, runtime: &impl Runtime, stdin: &mut Stdin<W>) -> Result<(), TooLong> {
        if !self.heard {
            self.splitter.clear();
            return Ok(());
        }
        loop {
            match self.splitter.next_line() {
                Ok(Some(line)) => self.sink.line(line, runtime, stdin),
                Ok(None) => return Ok(()),
                Err(TooLong) => {
                    self.ignore();
                    return Err(TooLong);
                }
            }
        }
    }

    /// A last line without an LF is taken as it is: if it is a whole message, nothing of it can be missing.
    fn end<W: Write>(&mut self, runtime: &impl Runtime, stdin: &mut Stdin<W>) {
        if let Some(line) = self.splitter.finish() {
            self.sink.line(line, runtime, stdin);
        }
    }
}

/// Where messages go.
#[derive(Debug)]
struct Sink<O> {
    outbox: O,
    session: Client,
    counters: Arc<Counters>,
    skipped: u64,
    rate: Rate,
}

impl<O: Outbox> Sink<O> {
    fn line<W: Write>(&mut self, line: Bytes, runtime: &impl Runtime, stdin: &mut Stdin<W>) {
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        let line = well_formed(line);
        match Message::parse(line.clone()) {
            Ok(message) => self.outbox.send(message),
            // Up to 2025-03-26 a server may answer with a batch.
            Err(MessageError::Batch) => {
                let members = serde_json::from_slice::<Vec<&RawValue>>(&line).unwrap_or_default();
                if members.is_empty() {
                    self.skip(line.len(), &MessageError::Batch, runtime);
                }
                for member in members {
                    match Message::parse(line.slice_ref(member.get().as_bytes())) {
                        Ok(message) => self.outbox.send(message),
                        Err(error) => self.refuse(member.get().len(), &error, runtime, stdin),
                    }
                }
            }
            Err(error) => self.refuse(line.len(), &error, runtime, stdin),
        }
    }

    /// Skips what is no message, with an answer where one is due: to a request whose id can be told.
    fn refuse<W: Write>(&mut self, len: usize, error: &MessageError, runtime: &impl Runtime, stdin: &mut Stdin<W>) {
        if let MessageError::NotAMessage { id: Some(id), why } = error {
            let why = serde_json::to_string(why).unwrap_or_default();
            let answer =
                format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32600,"message":{why}}}}}"#, id.to_json());
            stdin.try_push(answer.as_bytes());
        }
        self.skip(len, error, runtime);
    }

    fn skip(&mut self, len: usize, error: &MessageError, runtime: &impl Runtime) {
        self.skipped += 1;
        self.counters.skipped_lines.fetch_add(1, Ordering::Relaxed);
        if let Some(unlogged) = self.rate.admit(runtime.now()) {
            let why = match error {
                MessageError::NotAMessage { why, .. } => why,
                MessageError::Batch => "an empty or malformed batch",
                MessageError::NotJson | _ => "not JSON",
            };
            let session = self.session;
            tracing::warn!(target: "sessile::child", %session, len, why, unlogged, "skipped a line of standard output");
        }
    }
}

/// Bad UTF-8 is replaced rather than skipped: the message may be a response that somebody waits for.
fn well_formed(line: Bytes) -> Bytes {
    match String::from_utf8_lossy(&line) {
        std::borrow::Cow::Borrowed(_) => line,
        std::borrow::Cow::Owned(text) => Bytes::from(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_utf8_becomes_replacement_characters() {
        assert_eq!(well_formed(Bytes::from_static(b"a\xff\xc3\xa9")), "a\u{fffd}é");
    }
}
