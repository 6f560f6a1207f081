//! What a child says on its standard error.
//!
//! Owns the draining: from the first byte, whatever comes, in bounded memory, so that a child never blocks on it. Lines
//! go to the log as events of the target `sessile::child`, cut and rated; the last ones are kept for the report of a
//! crash.

use std::collections::VecDeque;
use std::fmt;
use std::task::{Context, Poll};
use std::time::Duration;

use memchr::memchr;
use sessile_core::Timestamp;

use super::BUDGET;
use super::launch::Client;
use crate::runtime::{Read, Runtime};

const READ: usize = 4 * 1024;
/// Longer lines are cut.
const MAX_LINE: usize = 4 * 1024;
/// How much of the last lines is kept, in all.
const MAX_TAIL: usize = 8 * 1024;
const TAIL_LINES: usize = 20;
const LINES_PER_SECOND: u32 = 100;

/// A child's standard error.
#[derive(Debug)]
pub(super) struct Stderr<Rd> {
    /// `None`: at its end.
    reader: Option<Rd>,
    session: Client,
    line: Vec<u8>,
    tail: Tail,
    rate: Rate,
}

impl<Rd: Read> Stderr<Rd> {
    pub(super) fn new(reader: Rd, session: Client) -> Self {
        Self {
            reader: Some(reader),
            session,
            line: Vec::new(),
            tail: Tail::default(),
            rate: Rate::new(LINES_PER_SECOND),
        }
    }

    /// Reads what there is, and sees to it that it is woken for more.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, runtime: &impl Runtime) {
        let mut buffer = Vec::new();
        for _ in 0..BUDGET {
            let Some(reader) = &mut self.reader else { return };
            buffer.clear();
            match reader.poll_read(cx, &mut buffer, READ) {
                Poll::Pending => return,
                Poll::Ready(Ok(1..)) => self.push(&buffer, runtime),
                Poll::Ready(Ok(0) | Err(_)) => self.reader = None,
            }
        }
        cx.waker().wake_by_ref();
    }

    /// Reads what a child that has exited left behind, at most `limit` bytes.
    pub(super) fn finish(&mut self, runtime: &impl Runtime, limit: usize) {
        let mut buffer = Vec::new();
        let mut total = 0;
        while let Some(reader) = self.reader.as_mut().filter(|_| total < limit) {
            buffer.clear();
            match reader.try_read(&mut buffer, READ) {
                Ok(count @ 1..) => {
                    total += count;
                    self.push(&buffer, runtime);
                }
                Ok(0) | Err(_) => break,
            }
        }
        self.reader = None;
        self.end_line(runtime);
    }

    /// The last lines, for a log.
    pub(super) const fn tail(&self) -> &Tail {
        &self.tail
    }

    fn push(&mut self, mut bytes: &[u8], runtime: &impl Runtime) {
        while let Some(end) = memchr(b'\n', bytes) {
            self.extend_line(&bytes[..end]);
            self.end_line(runtime);
            bytes = &bytes[end + 1..];
        }
        self.extend_line(bytes);
    }

    fn extend_line(&mut self, bytes: &[u8]) {
        let room = MAX_LINE - self.line.len();
        self.line.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self, runtime: &impl Runtime) {
        let line = std::mem::take(&mut self.line);
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        if tracing::enabled!(target: "sessile::child", tracing::Level::DEBUG)
            && let Some(unlogged) = self.rate.admit(runtime.now())
        {
            let text = String::from_utf8_lossy(&line);
            tracing::debug!(target: "sessile::child", session = %self.session, unlogged, "{:?}", text.trim_end());
        }
        self.tail.push(line);
    }
}

/// The last lines within bounds.
#[derive(Debug, Default)]
pub(super) struct Tail {
    lines: VecDeque<Vec<u8>>,
    len: usize,
}

impl Tail {
    fn push(&mut self, mut line: Vec<u8>) {
        line.shrink_to_fit();
        self.len += line.len();
        self.lines.push_back(line);
        while self.len > MAX_TAIL || self.lines.len() > TAIL_LINES {
            let Some(line) = self.lines.pop_front() else { break };
            self.len -= line.len();
        }
    }
}

/// One line for all of them, control characters escaped: a child must not forge lines of our log.
impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.lines.iter().map(|line| String::from_utf8_lossy(line).trim_end().to_owned()))
            .finish()
    }
}

/// How many times a second something may be logged; the rest is counted.
#[derive(Debug)]
pub(super) struct Rate {
    per_second: u32,
    since: Timestamp,
    admitted: u32,
    refused: u64,
}

impl Rate {
    pub(super) const fn new(per_second: u32) -> Self {
        Self { per_second, since: Timestamp::ZERO, admitted: 0, refused: 0 }
    }

    /// Whether to log now; if so, how many were refused since the last time.
    pub(super) fn admit(&mut self, now: Timestamp) -> Option<u64> {
        if now.saturating_since(self.since) >= Duration::from_secs(1) {
            self.since = now;
            self.admitted = 0;
        }
        if self.admitted >= self.per_second {
            self.refused += 1;
            return None;
        }
        self.admitted += 1;
        Some(std::mem::take(&mut self.refused))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_admits_so_many_a_second_and_counts_the_rest() {
        let mut rate = Rate::new(2);
        let at = Timestamp::from_millis;
        assert_eq!([0, 1, 2, 999].map(|ms| rate.admit(at(ms))), [Some(0), Some(0), None, None]);
        assert_eq!([1_000, 1_001, 1_002].map(|ms| rate.admit(at(ms))), [Some(2), Some(0), None]);
    }

    #[test]
    fn the_tail_keeps_the_last_lines_within_bounds() {
        let mut tail = Tail::default();
        for number in 0..100 {
            tail.push(format!("line {number}").into_bytes());
        }
        assert_eq!(tail.lines.len(), TAIL_LINES);
        assert!(tail.to_string().ends_with("\"line 99\"]"));
        for _ in 0..3 {
            tail.push(vec![b'\x1b'; MAX_LINE]);
        }
        assert_eq!((tail.lines.len(), tail.len), (2, MAX_TAIL));
        assert!(!tail.to_string().contains('\x1b'));
    }
}
