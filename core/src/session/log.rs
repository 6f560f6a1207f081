//! The log of one stream: what the app has said and no reader has taken yet.
//!
//! Owns order, numbering and bounds. A connection is a cursor into it; with resumption off a message leaves
//! the log when it is taken.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::config::SessionConfig;
use crate::id::RequestId;
use crate::session::LARGE;

/// What a logged message is, which decides what may become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// May be dropped when there is no room.
    Note,
    /// A request of the app to the client.
    Request(RequestId),
    /// Never dropped.
    Response,
}

#[derive(Debug)]
pub(super) struct Logged {
    pub(super) entry: Entry,
    pub(super) data: Bytes,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    entries: VecDeque<Logged>,
    bytes: usize,
}

impl Log {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn first(&self) -> Option<&Logged> {
        self.entries.front()
    }

    /// Appends. The bounds are [`Log::enforce`]'s.
    pub(super) fn push(&mut self, entry: Entry, data: Bytes) {
        self.bytes += data.len();
        self.entries.push_back(Logged { entry, data });
    }

    /// Drops the oldest notes until the bounds hold again, if notes are what there is too much of; how many were
    /// dropped. A log takes one message of any size.
    pub(super) fn enforce(&mut self, config: &SessionConfig) -> u32 {
        let mut dropped = 0;
        while self.entries.len() > 1 && (self.entries.len() > config.log_count || self.bytes > config.log_bytes) {
            let Some(at) = self.entries.iter().position(|logged| logged.entry == Entry::Note) else { break };
            self.remove_at(at);
            dropped += 1;
        }
        dropped
    }

    /// Whether a message that can't be dropped, of `len` bytes, fits in beside the others of its kind.
    pub(super) fn has_room(&self, config: &SessionConfig, len: usize) -> bool {
        let kept = self.entries.iter().filter(|logged| logged.entry != Entry::Note);
        let (count, bytes) = kept.fold((0, 0), |(count, bytes), logged| (count + 1, bytes + logged.data.len()));
        count == 0 || (count < config.log_count && bytes + len <= config.log_bytes)
    }

    /// How many notes there are.
    pub(super) fn notes(&self) -> u32 {
        let notes = self.entries.iter().filter(|logged| logged.entry == Entry::Note).count();
        u32::try_from(notes).unwrap_or(u32::MAX)
    }

    pub(super) fn take_first(&mut self) -> Option<Logged> {
        self.remove_at(0)
    }

    /// Takes a request of the app back out, if no reader has taken it.
    pub(super) fn remove_request(&mut self, id: &RequestId) -> bool {
        let is_it = |logged: &Logged| matches!(&logged.entry, Entry::Request(other) if other == id);
        match self.entries.iter().position(is_it) {
            Some(at) => self.remove_at(at).is_some(),
            None => false,
        }
    }

    /// The response, for an answer that is one body.
    pub(super) fn take_response(&mut self) -> Option<Bytes> {
        let at = self.entries.iter().position(|logged| logged.entry == Entry::Response)?;
        self.remove_at(at).map(|logged| logged.data)
    }

    fn remove_at(&mut self, at: usize) -> Option<Logged> {
        let logged = self.entries.remove(at)?;
        self.bytes -= logged.data.len();
        if self.entries.is_empty() && self.entries.capacity() > LARGE {
            self.entries = VecDeque::new();
        }
        Some(logged)
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(count: usize, bytes: usize) -> SessionConfig {
        SessionConfig { log_count: count, log_bytes: bytes, ..SessionConfig::default() }
    }

    // R019, R020
    #[test]
    fn bounds_of_count_and_bytes_cost_the_oldest_notes_only() {
        let mut log = Log::default();
        let config = config(3, 10);
        let mut push = |entry, data: &'static [u8]| {
            log.push(entry, Bytes::from_static(data));
            log.enforce(&config)
        };
        assert_eq!(push(Entry::Response, b"12345678"), 0);
        assert_eq!(push(Entry::Note, b"a"), 0);
        assert_eq!(push(Entry::Note, b"b"), 0);
        assert_eq!(push(Entry::Note, b"c"), 1);
        assert_eq!(push(Entry::Response, b"12345678"), 2);
        let left: Vec<_> = std::iter::from_fn(|| log.take_first()).map(|logged| logged.data).collect();
        assert_eq!(left, [&b"12345678"[..], b"12345678"]);
        assert_eq!(log.bytes, 0);
    }
}
