//! The log of one stream: what the app has said, in order.
//!
//! Owns order, numbering and bounds. A connection is a cursor into it. With resumption off a message leaves the log when
//! it is taken; with it on it is numbered then, and kept behind the cursor until the bounds or its age cost it. So
//! reading live and reading again are the same, and a resume is nothing but moving the cursor.
//!
//! A number means that a client may know of the event: from then on it is skipped for nobody. A notification that had to go
//! before anybody took it never was an event, and leaves no gap.
//!
//! Where the events are in a store as well, `depot` has what changes.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::time::Duration;

use bytes::Bytes;

use crate::config::SessionConfig;
use crate::id::RequestId;
use crate::session::LARGE;
use crate::session::depot::{Deposit, Depot};
use crate::time::Timestamp;

/// What a logged message is, which decides what may become of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// May be dropped when there is no room.
    Note,
    /// The event that a stream begins with, without data; it is in the log only where there is a store.
    Priming,
    /// A request of the app to the client.
    Request(RequestId),
    /// Never dropped.
    Response,
}

#[derive(Debug)]
pub(super) struct Logged {
    pub(super) entry: Entry,
    pub(super) data: Bytes,
    /// Its number, once a reader has got it, or it was offered to the store.
    pub(super) sequence: Option<NonZeroU64>,
    /// When a reader last got it.
    pub(super) taken: Timestamp,
    /// Whether the store has it.
    pub(super) deposit: Deposit,
}

/// What a reader gets.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) data: Bytes,
    /// Its number, if it has one.
    pub(super) sequence: Option<NonZeroU64>,
    /// The request of the app that it is, if no reader had got it before.
    pub(super) request: Option<RequestId>,
}

#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) entries: VecDeque<Logged>,
    bytes: usize,
    /// How many of them the reader is past.
    pub(super) read: usize,
    /// The last number that was given out.
    pub(super) given: u64,
    /// The greatest number of an event that is here no longer.
    pub(super) lost: u64,
    /// How it stands with the store, once anything was offered to it.
    pub(super) depot: Option<Box<Depot>>,
}

impl Logged {
    pub(super) const fn new(entry: Entry, data: Bytes) -> Self {
        Self { entry, data, sequence: None, taken: Timestamp::ZERO, deposit: Deposit::None }
    }
}

impl Log {
    /// Whether something waits for the reader.
    pub(super) fn has_unread(&self) -> bool {
        self.read < self.entries.len() || self.is_behind()
    }

    /// What the reader gets next.
    pub(super) fn first_unread(&self) -> Option<&Entry> {
        self.entries.get(self.read).map(|logged| &logged.entry)
    }

    /// The bytes of that.
    pub(super) fn first_data(&self) -> Option<&Bytes> {
        self.entries.get(self.read).map(|logged| &logged.data)
    }

    /// The last number that a reader has got; 0 if a client can't know of any event.
    pub(super) const fn given(&self) -> u64 {
        match &self.depot {
            Some(depot) => depot.told,
            None => self.given,
        }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Appends. The bounds are [`Log::enforce`]'s.
    pub(super) fn push(&mut self, entry: Entry, data: Bytes) {
        self.bytes += data.len();
        self.entries.push_back(Logged::new(entry, data));
    }

    /// Makes the bounds hold again, as far as events that were read and notes can: the first to go is what was read, oldest
    /// first, then the oldest notes that nobody was given. How many of these were dropped. A log takes one message of any size.
    pub(super) fn enforce(&mut self, config: &SessionConfig) -> u32 {
        self.trim(config);
        let mut dropped = 0;
        while self.is_over(config) {
            let droppable = |logged: &Logged| logged.entry == Entry::Note && logged.sequence.is_none();
            let Some(at) = self.entries.iter().position(droppable) else { break };
            self.remove_at(at);
            dropped += 1;
        }
        dropped
    }

    /// Forgets what was read, oldest first, while there is too much; also what the store has, from where it is read then.
    pub(super) fn trim(&mut self, config: &SessionConfig) {
        while self.is_over(config) && (self.read > 0 || self.can_leave()) {
            self.remove_at(0);
        }
    }

    /// Forgets what was read longer ago than `age`.
    pub(super) fn expire(&mut self, now: Timestamp, age: Duration) {
        while self.oldest_read().is_some_and(|taken| taken.saturating_add(age) <= now) {
            self.remove_at(0);
        }
    }

    /// When the oldest of what was read was taken.
    pub(super) fn oldest_read(&self) -> Option<Timestamp> {
        self.entries.front().filter(|_| self.read > 0).map(|logged| logged.taken)
    }

    /// Whether there is more than the bounds allow; once it is trimmed, what waits for the reader alone is too much.
    pub(super) fn is_over(&self, config: &SessionConfig) -> bool {
        self.entries.len() > 1 && (self.entries.len() > config.log_count || self.bytes > config.log_bytes)
    }

    /// Whether a message that can't be dropped, of `len` bytes, fits in beside the others of its kind that wait.
    pub(super) fn has_room(&self, config: &SessionConfig, len: usize) -> bool {
        let must_arrive = |logged: &&Logged| matches!(logged.entry, Entry::Request(_) | Entry::Response);
        let waiting = self.entries.range(self.read..).filter(must_arrive);
        let (count, bytes) = waiting.fold((0, 0), |(count, bytes), logged| (count + 1, bytes + logged.data.len()));
        count == 0 || (count < config.log_count && bytes + len <= config.log_bytes)
    }

    /// How many notes there are that nobody was given.
    pub(super) fn notes(&self) -> u32 {
        let given = self.given();
        let is_new = |logged: &Logged| logged.sequence.is_none_or(|sequence| sequence.get() > given);
        let is_note = |logged: &&Logged| logged.entry == Entry::Note && is_new(logged);
        u32::try_from(self.entries.range(self.read..).filter(is_note).count()).unwrap_or(u32::MAX)
    }

    /// Gives the reader the next message. `keep`: it gets a number and stays for readers to come.
    pub(super) fn take(&mut self, now: Timestamp, keep: bool) -> Option<Taken> {
        if self.depot.is_some() {
            return self.take_stored(now);
        }
        if !keep {
            let Logged { entry, data, .. } = self.remove_at(0)?;
            let request = if let Entry::Request(id) = entry { Some(id) } else { None };
            return Some(Taken { data, sequence: None, request });
        }
        let logged = self.entries.get_mut(self.read)?;
        let request = match &logged.entry {
            Entry::Request(id) if logged.sequence.is_none() => Some(id.clone()),
            Entry::Note | Entry::Priming | Entry::Request(_) | Entry::Response => None,
        };
        if logged.sequence.is_none() {
            self.given += 1;
            logged.sequence = NonZeroU64::new(self.given);
        }
        logged.taken = now;
        self.read += 1;
        Some(Taken { data: logged.data.clone(), sequence: logged.sequence, request })
    }

    /// The number of the event behind which the cursor is. `None` if nothing was given out up to there.
    pub(super) fn position(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.next().map_or(self.given, |next| next - 1))
    }

    /// The number of what the reader gets next, if it has one.
    fn next(&self) -> Option<u64> {
        let first = || self.entries.get(self.read).and_then(|logged| logged.sequence).map(NonZeroU64::get);
        self.behind().map(|behind| behind + 1).or_else(first)
    }

    /// Gives out a number for an event without a message, which nobody ever needs again.
    pub(super) fn number(&mut self) -> NonZeroU64 {
        self.given += 1;
        NonZeroU64::MIN.saturating_add(self.given - 1)
    }

    /// Whether a client that knows of all events up to this one can be given all after it.
    pub(super) const fn reaches(&self, after: u64) -> bool {
        self.lost <= after && after <= self.given()
    }

    /// Whether there is anything after the event with this number.
    pub(super) fn has_after(&self, after: u64) -> bool {
        if self.depot.is_some() && after < self.given {
            return true;
        }
        let last = self.entries.back();
        last.is_some_and(|logged| logged.sequence.is_none_or(|sequence| sequence.get() > after))
    }

    /// Moves the cursor behind the event with this number, or to the oldest that there is after it.
    pub(super) fn rewind(&mut self, after: u64) {
        if self.goes_behind(after) {
            return;
        }
        let past = |logged: &Logged| logged.sequence.is_some_and(|sequence| sequence.get() <= after);
        self.read = self.entries.partition_point(past);
    }

    /// Moves the cursor to the oldest that is here, or that nobody was given.
    pub(super) fn rewind_to_oldest(&mut self) {
        self.rewind(self.lost.min(self.given()));
    }

    /// Moves the cursor behind everything that anybody was given.
    pub(super) fn settle(&mut self) {
        if self.depot.is_some() || self.is_rereading() {
            self.rewind(self.given());
        }
    }

    /// Whether what the reader gets next was given to another before.
    pub(super) fn is_rereading(&self) -> bool {
        self.next().is_some_and(|next| next <= self.given())
    }

    /// Takes a request of the app back out, if nobody was given it, and the store was not offered it.
    pub(super) fn remove_request(&mut self, id: &RequestId) -> bool {
        if let Some(depot) = &mut self.depot {
            depot.forget_request(id);
        }
        let is_it = |logged: &Logged| {
            logged.sequence.is_none() && matches!(&logged.entry, Entry::Request(other) if other == id)
        };
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

    /// All responses, for an answer that is one array.
    pub(super) fn take_responses(&mut self) -> Option<Bytes> {
        let mut array = Vec::new();
        while let Some(response) = self.take_response() {
            array.push(if array.is_empty() { b'[' } else { b',' });
            array.extend_from_slice(&response);
        }
        if array.is_empty() {
            return None;
        }
        array.push(b']');
        Some(array.into())
    }

    /// Forgets everything but the numbers.
    pub(super) fn clear(&mut self) {
        let depot = self.depot.take().map(|depot| Box::new(depot.cleared(self.given)));
        *self = Self { given: self.given, lost: self.given, depot, ..Self::default() };
    }

    pub(super) fn remove_at(&mut self, at: usize) -> Option<Logged> {
        let logged = self.entries.remove(at)?;
        self.bytes -= logged.data.len();
        if let (Some(depot), Some(sequence)) = (&mut self.depot, logged.sequence) {
            depot.leave(&logged, sequence.get(), at >= self.read);
        }
        if at < self.read {
            self.read -= 1;
        }
        self.lost = self.lost.max(logged.sequence.map_or(0, NonZeroU64::get));
        if self.entries.is_empty() && self.entries.capacity() > LARGE {
            self.entries = VecDeque::new();
        }
        Some(logged)
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(count: usize, bytes: usize) -> SessionConfig {
        SessionConfig { log_count: count, log_bytes: bytes, ..SessionConfig::default() }
    }

    fn left(log: &mut Log) -> Vec<Bytes> {
        std::iter::from_fn(|| log.take(Timestamp::ZERO, false)).map(|taken| taken.data).collect()
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
        assert_eq!(left(&mut log), [&b"12345678"[..], b"12345678"]);
        assert_eq!(log.bytes, 0);
    }

    #[test]
    fn what_was_read_goes_first_and_what_was_given_is_skipped_for_nobody() {
        let mut log = Log::default();
        let config = config(3, 100);
        for data in ["a", "b", "c"] {
            log.push(Entry::Note, Bytes::from_static(data.as_bytes()));
        }
        for sequence in 1..=2 {
            let taken = log.take(Timestamp::ZERO, true).expect("a note");
            assert_eq!(taken.sequence.map(NonZeroU64::get), Some(sequence));
        }
        log.push(Entry::Note, Bytes::from_static(b"d"));
        assert_eq!(log.enforce(&config), 0, "`a` had been read");
        assert!(log.reaches(1) && log.reaches(2) && !log.reaches(0) && !log.reaches(3));
        log.rewind(1);
        assert!(log.is_rereading());
        log.push(Entry::Note, Bytes::from_static(b"e"));
        assert_eq!(log.enforce(&config), 1, "`c` was never an event, and `b` waits for whoever resumed");
        let read: Vec<_> = std::iter::from_fn(|| log.take(Timestamp::ZERO, true))
            .map(|taken| (taken.sequence.map_or(0, NonZeroU64::get), taken.data))
            .collect();
        assert_eq!(read, [(2, "b".into()), (3, "d".into()), (4, "e".into())]);
        assert_eq!((log.read, log.bytes), (3, 3));
    }

    #[test]
    fn age_costs_what_was_read_alone() {
        let mut log = Log::default();
        for (second, data) in ["a", "b", "c"].iter().enumerate() {
            log.push(Entry::Note, Bytes::from_static(data.as_bytes()));
            if second < 2 {
                let _ = log.take(Timestamp::from_secs(second as u64), true);
            }
        }
        assert_eq!(log.oldest_read(), Some(Timestamp::ZERO));
        log.expire(Timestamp::from_secs(10), Duration::from_secs(10));
        assert!(!log.reaches(0) && log.reaches(1));
        log.expire(Timestamp::from_secs(1_000), Duration::from_secs(10));
        assert_eq!((log.len(), log.oldest_read()), (1, None));
    }
}
