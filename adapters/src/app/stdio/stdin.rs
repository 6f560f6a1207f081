//! What a child is told: one message a line.
//!
//! Owns the compaction of messages and what is not yet written of them, which is at most one message and a few short
//! answers of our own. Does not own the queue: who waits for the child waits in its session.

use std::io;
use std::task::{Context, Poll, ready};

use memchr::memchr2;

use crate::runtime::Write;

/// More is given back to the allocator once it is written.
const KEEP: usize = 4 * 1024;
/// How much may wait when we answer the child ourselves.
const MAX_WAITING: usize = 16 * 1024;

/// A child's standard input.
#[derive(Debug)]
pub(super) struct Stdin<W> {
    /// `None`: closed.
    writer: Option<W>,
    lines: Vec<u8>,
    written: usize,
}

impl<W: Write> Stdin<W> {
    pub(super) const fn new(writer: W) -> Self {
        Self { writer: Some(writer), lines: Vec::new(), written: 0 }
    }

    /// Whether everything is written.
    pub(super) const fn is_idle(&self) -> bool {
        self.lines.is_empty()
    }

    /// Adds one message, which must be JSON.
    pub(super) fn push(&mut self, message: &[u8]) {
        if self.writer.is_some() {
            push_line(&mut self.lines, message);
        }
    }

    /// Adds one message that may be lost, and is if the child does not read.
    pub(super) fn try_push(&mut self, message: &[u8]) {
        if self.lines.len() - self.written + message.len() <= MAX_WAITING {
            self.push(message);
        }
    }

    /// Writes what there is to write; ready once all is written.
    pub(super) fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writer) = &mut self.writer else { return Poll::Ready(Ok(())) };
        while self.written < self.lines.len() {
            match ready!(writer.poll_write(cx, &self.lines[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.written += count,
            }
        }
        self.written = 0;
        self.lines.clear();
        if self.lines.capacity() > KEEP {
            self.lines = Vec::new();
        }
        Poll::Ready(Ok(()))
    }

    /// Closes it, with whatever is not yet written.
    pub(super) fn close(&mut self) {
        self.writer = None;
        self.written = 0;
        self.lines = Vec::new();
    }
}

/// Appends `message` as one line. CR and LF can only be white space between tokens in JSON, so they may become spaces.
fn push_line(lines: &mut Vec<u8>, message: &[u8]) {
    lines.reserve(message.len() + 1);
    let mut from = lines.len();
    lines.extend_from_slice(message);
    while let Some(at) = memchr2(b'\n', b'\r', &lines[from..]) {
        lines[from + at] = b' ';
        from += at + 1;
    }
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_becomes_one_line_and_stays_the_same_json() {
        let message = "{\r\n\t\"jsonrpc\": \"2.0\",\n\n\"method\":\"a\\n\\r\u{2028}\",\r\"params\":{\"n\":1.0e400}\n}";
        let mut lines = Vec::new();
        push_line(&mut lines, message.as_bytes());
        push_line(&mut lines, b"{}");
        let text = String::from_utf8(lines).expect("UTF-8");
        let [line, "{}", ""] = text.split('\n').collect::<Vec<_>>()[..] else { panic!("{text:?}") };
        assert!(!line.contains('\r'));
        assert_eq!(line.len(), message.len());
        let strip = |text: &str| text.replace(['\r', '\n', ' '], "");
        assert_eq!(strip(line), strip(message));
    }
}
