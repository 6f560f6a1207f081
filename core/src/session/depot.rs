//! The log of a stream whose events are kept in a store: what was offered to it, what it has, and what is read back from it.
//!
//! An event is offered to the store before a reader gets it, and a batch of a stream at a time; what comes meanwhile waits without a
//! number, so that the bounds of the log can still cost notes. What a reader has got and the store has leaves memory at once, and what
//! the store has alone may leave it for want of room. So memory is the end of the stream, without a gap, and a cursor before
//! it is moved on by what is read back.
//!
//! An event that the store does not have is delivered all the same. It stays in memory as without a store, and once it has gone,
//! nothing before it can be resumed.

use std::collections::VecDeque;
use std::num::NonZeroU64;

use bytes::Bytes;

use crate::config::SessionConfig;
use crate::id::RequestId;
use crate::outcome::Outcome;
use crate::session::log::{Entry, Log, Logged, Taken};
use crate::session::store::StoredEvent;
use crate::time::Timestamp;

/// Whether the store has an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deposit {
    /// It was offered, and nothing is known yet.
    Asked,
    /// It does.
    Done,
    /// It was not offered, or has failed to take it.
    None,
}

/// What is asked of the store and not yet answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) serial: u64,
    pub(super) until: Timestamp,
}

/// A read of the store that is not yet answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) asked: Asked,
    /// The events after this one ...
    pub(super) after: u64,
    /// ... and none after this one.
    pub(super) through: u64,
}

/// A connection that comes to the stream once the store has found what it has missed.
#[derive(Debug)]
pub(super) struct Resuming {
    pub(super) attached: u32,
    pub(super) reading: Reading,
    /// It won't.
    pub(super) refusal: Option<Outcome>,
}

#[derive(Debug)]
pub(super) struct Depot {
    /// The last number that a reader has got.
    pub(super) told: u64,
    /// The greatest number of an event that is neither here nor in the store.
    floor: u64,
    append: Option<Asked>,
    /// The store takes nothing for the time being: events go without it.
    bypass: bool,
    /// The store is asked no more.
    closed: bool,
    /// Where the reader is, if what comes next is in the store alone.
    behind: Option<u64>,
    /// What was read back for it.
    fetched: VecDeque<StoredEvent>,
    read: Option<Reading>,
    /// The requests of the app that went to the store before a reader got them.
    requests: Vec<(u64, RequestId)>,
    pub(super) resuming: Option<Resuming>,
}

impl Depot {
    const fn new(told: u64, lost: u64) -> Self {
        Self {
            told,
            floor: lost,
            append: None,
            bypass: false,
            closed: false,
            behind: None,
            fetched: VecDeque::new(),
            read: None,
            requests: Vec::new(),
            resuming: None,
        }
    }

    /// What is left of it when the stream has nothing more to give.
    pub(super) fn cleared(self, given: u64) -> Self {
        Self { closed: self.closed, resuming: self.resuming, ..Self::new(self.told, given) }
    }

    /// An event leaves memory. `unread`: it is not behind the reader.
    pub(super) fn leave(&mut self, logged: &Logged, sequence: u64, unread: bool) {
        if logged.deposit != Deposit::Done {
            self.floor = self.floor.max(sequence);
            return;
        }
        if unread && self.behind.is_none() {
            self.behind = Some(sequence - 1);
        }
        if let Entry::Request(id) = &logged.entry
            && sequence > self.told
        {
            self.requests.push((sequence, id.clone()));
        }
    }

    /// Nobody waits for the answer to this request of the app any more, whether a reader gets it or not.
    pub(super) fn forget_request(&mut self, id: &RequestId) {
        self.requests.retain(|(_, other)| other != id);
    }

    /// The read of a connection that waits for it.
    fn resuming(&self) -> Option<Reading> {
        self.resuming.as_ref().filter(|resuming| resuming.refusal.is_none()).map(|resuming| resuming.reading)
    }

    fn asked(&self) -> impl Iterator<Item = Asked> {
        self.append.into_iter().chain(self.read.into_iter().chain(self.resuming()).map(|reading| reading.asked))
    }

    #[cfg(test)]
    pub(super) fn requests(&self) -> usize {
        self.requests.len()
    }

    /// When the first of what is asked is given up.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.asked().map(|asked| asked.until).min()
    }
}

/// Whose read it is that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// The reader's of the stream.
    Reader,
    /// That of a connection which waits to become it.
    Resuming,
}

impl Log {
    /// Whether the reader can have something now.
    pub(super) fn has_ready(&self) -> bool {
        let Some(depot) = &self.depot else { return self.has_unread() };
        let first = self.entries.get(self.read).filter(|_| depot.behind.is_none());
        !depot.fetched.is_empty() || first.is_some_and(|logged| is_ready(logged, depot.bypass))
    }

    pub(super) fn behind(&self) -> Option<u64> {
        self.depot.as_ref()?.behind
    }

    pub(super) fn is_behind(&self) -> bool {
        self.behind().is_some()
    }

    /// Whether the oldest event can leave memory without being lost.
    pub(super) fn can_leave(&self) -> bool {
        // A client that knows of nothing can't come back, should the store fail to give it back.
        self.given() > 0 && self.entries.front().is_some_and(|logged| logged.deposit == Deposit::Done)
    }

    /// Whether a client that knows of all events up to this one can be given all after it with the help of the store.
    pub(super) fn is_stored_after(&self, after: u64) -> bool {
        let depot = self.depot.as_ref().filter(|depot| !depot.closed);
        depot.is_some_and(|depot| depot.floor <= after && after <= depot.told && after < self.lost)
    }

    /// Moves the cursor before what is in memory, if it has to be there.
    pub(super) fn goes_behind(&mut self, after: u64) -> bool {
        let Some(depot) = &mut self.depot else { return false };
        depot.fetched = VecDeque::new();
        depot.read = None;
        depot.behind = Some(after).filter(|after| *after < self.lost && !depot.closed);
        if depot.behind.is_some() {
            self.read = 0;
        }
        depot.behind.is_some()
    }

    /// Puts the event that a stream begins with before all that have no number yet.
    pub(super) fn push_priming(&mut self) {
        let at = self.numbered();
        self.entries.insert(at, Logged::new(Entry::Priming, Bytes::new()));
    }

    fn numbered(&self) -> usize {
        self.entries.partition_point(|logged| logged.sequence.is_some())
    }

    /// Numbers the next events and gives them for the store, unless it has to take others first. `silent`: it is asked for nothing.
    pub(super) fn offer(&mut self, config: &SessionConfig, asked: Asked, silent: bool) -> Option<Vec<StoredEvent>> {
        let (given, lost, start) = (self.given, self.lost, self.numbered());
        let depot = self.depot.get_or_insert_with(|| Box::new(Depot::new(given, lost)));
        depot.bypass = silent;
        // What has a number can't be dropped: of what can't leave memory either, there is no more than a batch.
        let stays = |logged: &Logged| {
            let untold = logged.sequence.is_some_and(|sequence| sequence.get() > depot.told);
            untold && (depot.told == 0 || logged.deposit == Deposit::None)
        };
        let waits = start.checked_sub(1).and_then(|last| self.entries.get(last)).is_some_and(stays);
        if silent || depot.closed || depot.append.is_some() || waits {
            return None;
        }
        let mut events = Vec::new();
        let mut bytes = 0;
        for logged in self.entries.range_mut(start..) {
            let len = logged.data.len();
            if !events.is_empty()
                && (events.len() >= config.store_batch_count || bytes + len > config.store_batch_bytes)
            {
                break;
            }
            bytes += len;
            self.given += 1;
            let sequence = NonZeroU64::MIN.saturating_add(self.given - 1);
            logged.sequence = Some(sequence);
            logged.deposit = Deposit::Asked;
            events.push(StoredEvent { sequence, data: logged.data.clone() });
        }
        if events.is_empty() {
            return None;
        }
        depot.append = Some(asked);
        Some(events)
    }

    /// The store has taken what was offered under this number, or it hasn't. `false`: nothing was, or it was given up.
    pub(super) fn finish_append(&mut self, serial: u64, stored: bool) -> bool {
        let Some(depot) = &mut self.depot else { return false };
        if depot.append.take_if(|asked| asked.serial == serial).is_none() {
            return false;
        }
        self.mark_asked(if stored { Deposit::Done } else { Deposit::None });
        true
    }

    fn mark_asked(&mut self, deposit: Deposit) {
        let end = self.numbered();
        for logged in self.entries.range_mut(..end).rev().take_while(|logged| logged.deposit == Deposit::Asked) {
            logged.deposit = deposit;
        }
    }

    /// Where the reader has to be read back from, if nobody does so yet: after the first and up to the second.
    pub(super) fn missing(&self) -> Option<(u64, u64)> {
        let depot = self.depot.as_ref().filter(|depot| depot.fetched.is_empty() && depot.read.is_none())?;
        depot.behind.map(|behind| (behind, self.lost))
    }

    pub(super) fn begin_read(&mut self, reading: Reading) {
        if let Some(depot) = &mut self.depot {
            depot.read = Some(reading);
        }
    }

    /// Whether a connection waits for the store, or to hear that it has waited in vain.
    pub(super) fn has_resuming(&self) -> bool {
        self.depot.as_ref().is_some_and(|depot| depot.resuming.is_some())
    }

    pub(super) fn begin_resume(&mut self, resuming: Resuming) {
        if let Some(depot) = &mut self.depot {
            depot.resuming = Some(resuming);
        }
    }

    /// The read that was asked for under this number, if anybody still waits for it.
    pub(super) fn reading(&self, serial: u64) -> Option<(Reads, Reading)> {
        let depot = self.depot.as_ref()?;
        let resuming = depot.resuming().map(|reading| (Reads::Resuming, reading));
        let reads = depot.read.map(|reading| (Reads::Reader, reading));
        reads.into_iter().chain(resuming).find(|(_, reading)| reading.asked.serial == serial)
    }

    /// Whether an append or a read of this number is awaited.
    pub(super) fn awaits(&self, serial: u64) -> bool {
        self.depot.as_ref().is_some_and(|depot| depot.asked().any(|asked| asked.serial == serial))
    }

    /// The number of something that should have been answered by `now`.
    pub(super) fn overdue(&self, now: Timestamp) -> Option<u64> {
        self.depot.as_ref()?.asked().find(|asked| asked.until <= now).map(|asked| asked.serial)
    }

    /// The reader goes on with these, which come right after where it is.
    pub(super) fn fetch(&mut self, events: Vec<StoredEvent>) {
        if let Some(depot) = &mut self.depot {
            depot.read = None;
            depot.fetched = events.into();
        }
    }

    /// The event after this one is nowhere any more.
    pub(super) fn lose_after(&mut self, after: u64) {
        if let Some(depot) = &mut self.depot {
            depot.floor = depot.floor.max(after + 1);
        }
    }

    /// The reader goes on with what is in memory, though something is missing before it.
    pub(super) fn skip_to_memory(&mut self) {
        if let Some(depot) = &mut self.depot {
            depot.floor = depot.floor.max(self.lost);
            depot.told = depot.told.max(self.lost);
            depot.requests.retain(|(sequence, _)| *sequence > self.lost);
        }
        self.rewind(self.lost);
    }

    /// The store is asked no more: all that is here can be read. Whether the reader misses something.
    pub(super) fn close(&mut self) -> bool {
        let Some(depot) = &mut self.depot else { return false };
        depot.append = None;
        depot.read = None;
        depot.bypass = true;
        depot.closed = true;
        let fetched = depot.fetched.back().map(|event| event.sequence.get());
        let misses = depot.behind.is_some() && fetched != Some(self.lost);
        if depot.fetched.is_empty() {
            depot.behind = None;
        }
        self.mark_asked(Deposit::None);
        misses
    }

    /// Gives the reader the next event, from memory or from what was read back.
    pub(super) fn take_stored(&mut self, now: Timestamp) -> Option<Taken> {
        loop {
            let told = self.given();
            let taken = self.take_fetched().or_else(|| self.take_ready(now))?;
            // The event that a stream once began with says nothing to whoever resumes it.
            let again = taken.sequence.is_some_and(|sequence| sequence.get() <= told);
            if !(again && taken.data.is_empty()) {
                return Some(taken);
            }
        }
    }

    fn take_fetched(&mut self) -> Option<Taken> {
        let depot = self.depot.as_mut()?;
        let StoredEvent { sequence, data } = depot.fetched.pop_front()?;
        let at = depot.requests.iter().position(|(other, _)| *other == sequence.get());
        let request = at.map(|at| depot.requests.swap_remove(at).1);
        depot.told = depot.told.max(sequence.get());
        let is_last = depot.fetched.is_empty();
        if is_last {
            depot.fetched = VecDeque::new();
        }
        let more = sequence.get() < self.lost && !(is_last && depot.closed);
        depot.behind = more.then_some(sequence.get());
        Some(Taken { data, sequence: Some(sequence), request })
    }

    fn take_ready(&mut self, now: Timestamp) -> Option<Taken> {
        let depot = self.depot.as_mut().filter(|depot| depot.behind.is_none())?;
        let logged = self.entries.get_mut(self.read).filter(|logged| is_ready(logged, depot.bypass))?;
        if logged.sequence.is_none() {
            self.given += 1;
            logged.sequence = NonZeroU64::new(self.given);
        }
        let new = logged.sequence.is_some_and(|sequence| sequence.get() > depot.told);
        let request = if let Entry::Request(id) = &logged.entry { Some(id.clone()).filter(|_| new) } else { None };
        let taken = Taken { data: logged.data.clone(), sequence: logged.sequence, request };
        depot.told = depot.told.max(logged.sequence.map_or(0, NonZeroU64::get));
        logged.taken = now;
        self.read += 1;
        while self.read > 0 && self.can_leave() {
            self.remove_at(0);
        }
        Some(taken)
    }
}

/// Whether a reader may have an event of memory: not while it is on its way to the store.
fn is_ready(logged: &Logged, bypass: bool) -> bool {
    logged.deposit != Deposit::Asked && (bypass || logged.sequence.is_some())
}
