//! A store outside this process for the events of a session's streams: what is asked of it, and what its answers change.
//!
//! The session asks by [`Session::poll_store_request`] and is told by [`Session::handle_stored`] and [`Session::handle_read`]. It never
//! trusts that an answer comes, comes in time, or is right: a store that fails or is slow costs clients the resumption of what it does
//! not have, and neither an event of a connection that stays nor a response. An answer that nobody waits for any more changes nothing.
//!
//! Owns what is outstanding and for how long. What a stream knows of the store is in `depot`, how connections come back in `resume`.
//! How long a store keeps what is not forgotten here is its own affair; what it no longer has counts as gone.

use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU64;

use bytes::Bytes;

use crate::config::SessionConfig;
use crate::outcome::Outcome;
use crate::session::depot::{Asked, Reading, Reads, Resuming};
use crate::session::log::Log;
use crate::session::stream::{ConnectionKey, Pause, Place, Reader, RequestStream, Standalone};
use crate::session::{Effect, Head, LARGE, Session};
use crate::slab::{Key, Slab};
use crate::time::Timestamp;

/// After something took too long, the store is left alone for so many times `store_timeout`.
const SILENCE: u32 = 6;

/// So many streams to forget may wait for the driver. Those beyond are forgotten with their session.
const MAX_FORGET: usize = 1_024;

/// The handle of something that was asked of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoreTicket {
    place: Place,
    serial: u64,
}

/// An event as the store keeps it.
#[derive(Clone, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its place in its stream, from 1.
    pub sequence: NonZeroU64,
    /// The message; empty for the event that a stream begins with.
    pub data: Bytes,
}

/// Says nothing of the payload.
impl fmt::Debug for StoredEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoredEvent").field("len", &self.data.len()).finish_non_exhaustive()
    }
}

/// What is asked of the store. Streams are named by their number in the session; that of the standalone stream is 0.
#[derive(Clone, PartialEq, Eq)]
pub enum StoreRequest {
    /// Keep these events, and answer with [`Session::handle_stored`].
    Append {
        /// Names the request in the answer.
        ticket: StoreTicket,
        /// The stream.
        stream: u64,
        /// Its next events, in order and at least one. Their numbers are contiguous; those before the first are in the store, or the
        /// store has failed to take them, and then nobody asks for what lies before these.
        events: Vec<StoredEvent>,
    },
    /// Nothing of this stream is needed any more. No answer.
    Forget {
        /// The stream.
        stream: u64,
    },
    /// Nothing of the session is needed any more: it is over. The last request, with no answer.
    ForgetSession,
    /// Give back events, and answer with [`Session::handle_read`].
    Read {
        /// Names the request in the answer.
        ticket: StoreTicket,
        /// The stream.
        stream: u64,
        /// The first event to give is the one right after this; 0 is before all.
        after: u64,
        /// The last that may be given.
        through: u64,
        /// How many may be given, at most.
        max_count: usize,
        /// How many bytes of data they may have together, one of any size excepted.
        max_bytes: usize,
    },
}

impl StoreRequest {
    const fn ticket(&self) -> Option<StoreTicket> {
        match self {
            Self::Append { ticket, .. } | Self::Read { ticket, .. } => Some(*ticket),
            Self::Forget { .. } | Self::ForgetSession => None,
        }
    }
}

/// Says neither what is kept nor where clients are.
impl fmt::Debug for StoreRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Append { .. } => "Append",
            Self::Forget { .. } => "Forget",
            Self::ForgetSession => "ForgetSession",
            Self::Read { .. } => "Read",
        })
    }
}

/// What a read of the store has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreRead {
    /// The first of the events that were asked for, in order and without a gap; none is the same as `Gone`.
    Events(Vec<StoredEvent>),
    /// The store could not say.
    Failed,
    /// The store does not have the first of them.
    Gone,
}

/// What waits for the store in a session.
#[derive(Debug, Default)]
pub(super) struct Desk {
    requests: VecDeque<StoreRequest>,
    serial: u64,
    /// Until then the store is asked for nothing, since something took too long.
    silent_until: Timestamp,
    closed: bool,
}

impl Desk {
    /// Asks something for a stream. What nobody waits for any more makes room: a driver that takes its time lets nothing pile up.
    fn ask(&mut self, place: Place, log: &Log, request: impl FnOnce(StoreTicket) -> StoreRequest) {
        self.requests
            .retain(|request| request.ticket().is_none_or(|ticket| ticket.place != place || log.awaits(ticket.serial)));
        self.requests.push_back(request(StoreTicket { place, serial: self.serial }));
    }

    /// Asks for the events of a stream after the first of these two and up to the second.
    fn ask_read(
        &mut self,
        config: &SessionConfig,
        (place, stream, log): (Place, u64, &Log),
        (after, through): (u64, u64),
        until: Timestamp,
    ) -> Reading {
        self.serial += 1;
        let (max_count, max_bytes) = (config.store_batch_count, config.store_batch_bytes);
        self.ask(place, log, |ticket| StoreRequest::Read { ticket, stream, after, through, max_count, max_bytes });
        Reading { asked: Asked { serial: self.serial, until }, after, through }
    }
}

/// The log of a stream.
pub(super) fn log_of<'a>(
    streams: &'a mut Slab<RequestStream>,
    standalone: &'a mut Option<Box<Standalone>>,
    place: Place,
) -> Option<&'a mut Log> {
    match place {
        Place::Request(key) => streams.get_mut(key).map(|stream| &mut stream.log),
        Place::Standalone => standalone.as_mut().map(|standalone| &mut standalone.log),
    }
}

impl<X> Session<X> {
    /// The next thing to ask of the store, until `None`. [`Effect::AskStore`] says when there may be something.
    ///
    /// A driver asks in this order: what comes later may rest on what came before.
    pub fn poll_store_request(&mut self) -> Option<StoreRequest> {
        while let Some(request) = self.desk.as_mut()?.requests.pop_front() {
            let awaited = |ticket: StoreTicket| {
                let log = log_of(&mut self.streams, &mut self.standalone, ticket.place);
                log.is_some_and(|log| log.awaits(ticket.serial))
            };
            if request.ticket().is_none_or(awaited) {
                return Some(request);
            }
        }
        if let Some(desk) = &mut self.desk
            && desk.requests.capacity() > LARGE
        {
            desk.requests = VecDeque::new();
        }
        None
    }

    /// The store has kept the events of an append, or it has failed to. Late and unknown tickets change nothing and are counted.
    pub fn handle_stored(&mut self, now: Timestamp, config: &SessionConfig, ticket: StoreTicket, stored: bool) {
        let StoreTicket { place, serial } = ticket;
        let log = log_of(&mut self.streams, &mut self.standalone, place);
        if !log.is_some_and(|log| log.finish_append(serial, stored)) {
            self.counters.store_late += 1;
            return;
        }
        self.counters.store_failures += u32::from(!stored);
        self.after_append(now, config, place);
    }

    /// The events of an append can be read now, whether the store has them or not.
    fn after_append(&mut self, now: Timestamp, config: &SessionConfig, place: Place) {
        if let Some(log) = log_of(&mut self.streams, &mut self.standalone, place) {
            log.trim(config);
        }
        self.wake_reader(now, place);
        self.tend_store(now, config, place);
    }

    /// The store has answered a read. What it gives is checked: events that don't follow each other from where the read began, or more
    /// than was asked for, are a failure. Late and unknown tickets change nothing and are counted.
    pub fn handle_read(&mut self, now: Timestamp, config: &SessionConfig, ticket: StoreTicket, found: StoreRead) {
        let log = log_of(&mut self.streams, &mut self.standalone, ticket.place);
        let Some((reads, reading)) = log.and_then(|log| log.reading(ticket.serial)) else {
            self.counters.store_late += 1;
            return;
        };
        let found = checked(found, reading, config);
        self.counters.store_failures += u32::from(found == StoreRead::Failed);
        self.finish_read(now, config, ticket.place, reads, found);
    }

    fn finish_read(&mut self, now: Timestamp, config: &SessionConfig, place: Place, reads: Reads, found: StoreRead) {
        let Some(log) = log_of(&mut self.streams, &mut self.standalone, place) else { return };
        match (reads, found) {
            (Reads::Reader, StoreRead::Events(events)) => {
                log.fetch(events);
                self.wake_reader(now, place);
            }
            (Reads::Reader, StoreRead::Failed) => self.fail_reader(now, config, place),
            (Reads::Reader, StoreRead::Gone) => {
                if let Some(behind) = log.behind() {
                    log.lose_after(behind);
                }
                match place {
                    Place::Request(_) => self.fail_reader(now, config, place),
                    Place::Standalone => {
                        log.skip_to_memory();
                        self.counters.resumed_with_gap += 1;
                        self.wake_reader(now, place);
                    }
                }
            }
            (Reads::Resuming, found) => {
                let Some(resuming) = log.depot.as_mut().and_then(|depot| depot.resuming.take()) else { return };
                self.finish_resume(now, config, place, resuming, found);
            }
        }
    }

    fn finish_resume(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        place: Place,
        resuming: Resuming,
        found: StoreRead,
    ) {
        let (attached, after) = (resuming.attached, resuming.reading.after);
        self.effects.push_back(Effect::WakeConnection(ConnectionKey { place, attached }));
        let Some(log) = log_of(&mut self.streams, &mut self.standalone, place) else { return };
        if found == StoreRead::Gone {
            log.lose_after(after);
        }
        let refusal = match (place, found) {
            (_, StoreRead::Failed) => Outcome::StoreUnavailable,
            (Place::Request(key), StoreRead::Events(_)) if self.is_cancelled(key) => Outcome::StreamOver,
            (Place::Request(key), StoreRead::Events(events)) => {
                return self.attach_request(now, config, key, attached, after, events);
            }
            (Place::Request(_), StoreRead::Gone) => Outcome::NotResumable,
            (Place::Standalone, _) if self.draining => Outcome::ShuttingDown,
            (Place::Standalone, StoreRead::Events(events)) => {
                return self.attach_standalone(now, config, attached, Some((after, events)));
            }
            (Place::Standalone, StoreRead::Gone) => {
                return self.attach_standalone(now, config, attached, Some((after, Vec::new())));
            }
        };
        if let Some(log) = log_of(&mut self.streams, &mut self.standalone, place) {
            log.begin_resume(Resuming { refusal: Some(refusal), ..resuming });
        }
    }

    /// Whether all requests of a stream ended without an answer, so that it has nothing to give.
    fn is_cancelled(&self, key: Key) -> bool {
        self.streams.get(key).is_some_and(|stream| stream.open == 0 && !stream.answered)
    }

    /// What the reader of a stream misses can't be read back. Its connection ends: the client knows where it is, and can come
    /// back when the store does, or then learns that it can't.
    fn fail_reader(&mut self, now: Timestamp, config: &SessionConfig, place: Place) {
        match place {
            Place::Request(key) => {
                let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.reader.is_some()) else { return };
                stream.log.settle();
                stream.pause = Some(Pause::at_once(config.retry));
            }
            Place::Standalone => {
                let Some(standalone) = &mut self.standalone else { return };
                standalone.log.settle();
                let Some(carrier) = standalone.carrier() else { return };
                standalone.readers.pop();
                self.effects.push_back(Effect::WakeConnection(carrier));
                self.after_carrier(now);
                self.expect_kept(config);
                return;
            }
        }
        self.wake_reader(now, place);
    }

    /// Offers the next events of a stream to the store. One of which no client knows and that nobody streams has none: its answer may be
    /// one body.
    pub(super) fn tend_store(&mut self, now: Timestamp, config: &SessionConfig, place: Place) {
        if !self.has_store(config) || self.is_over() {
            return;
        }
        let (reads, known) = match place {
            Place::Request(key) => {
                let Some(stream) = self.streams.get(key) else { return };
                (matches!(stream.reader, Some(Reader::Streaming { .. })), stream.is_known())
            }
            Place::Standalone => {
                let Some(standalone) = &self.standalone else { return };
                (!standalone.readers.is_empty(), standalone.log.given() > 0)
            }
        };
        if !reads && !known {
            return;
        }
        let stream = self.number_of(place);
        let desk = self.desk.get_or_insert_default();
        let Some(log) = log_of(&mut self.streams, &mut self.standalone, place) else { return };
        let silent = now < desk.silent_until;
        let until = now.saturating_add(config.store_timeout);
        let Some(events) = log.offer(config, Asked { serial: desk.serial + 1, until }, silent) else { return };
        desk.serial += 1;
        desk.ask(place, log, |ticket| StoreRequest::Append { ticket, stream, events });
        self.effects.push_back(Effect::AskStore);
        self.expect(until);
    }

    /// Asks the store for what a reader misses that has got all that is here for it.
    pub(super) fn read_back(&mut self, now: Timestamp, config: &SessionConfig, place: Place) {
        let stream = self.number_of(place);
        let Some(desk) = self.desk.as_mut().filter(|desk| !desk.closed) else { return };
        let Some(log) = log_of(&mut self.streams, &mut self.standalone, place) else { return };
        let Some(missing) = log.missing() else { return };
        if now < desk.silent_until {
            self.fail_reader(now, config, place);
            return;
        }
        let until = now.saturating_add(config.store_timeout);
        let reading = desk.ask_read(config, (place, stream, log), missing, until);
        log.begin_read(reading);
        self.effects.push_back(Effect::AskStore);
        self.expect(until);
    }

    /// Asks the store for what a connection has missed that wants to read a stream on after this event.
    ///
    /// # Errors
    ///
    /// If the store is left alone for the time being.
    pub(super) fn resume_from_store(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        place: Place,
        attached: u32,
        after: u64,
    ) -> Result<ConnectionKey, Outcome> {
        let stream = self.number_of(place);
        let desk = self.desk.get_or_insert_default();
        if now < desk.silent_until {
            return Err(Outcome::StoreUnavailable);
        }
        let log = log_of(&mut self.streams, &mut self.standalone, place).ok_or(Outcome::NotResumable)?;
        let until = now.saturating_add(config.store_timeout);
        let earlier = log.depot.as_mut().and_then(|depot| depot.resuming.take());
        let reading = desk.ask_read(config, (place, stream, log), (after, log.lost), until);
        log.begin_resume(Resuming { attached, reading, refusal: None });
        if let Some(earlier) = earlier {
            let connection = ConnectionKey { place, attached: earlier.attached };
            self.effects.push_back(Effect::WakeConnection(connection));
        }
        self.effects.push_back(Effect::AskStore);
        self.expect(until);
        Ok(ConnectionKey { place, attached })
    }

    /// The head of a connection that waits for the store; `None` if this one doesn't.
    pub(super) fn poll_resuming(&mut self, connection: ConnectionKey) -> Option<Head> {
        let log = log_of(&mut self.streams, &mut self.standalone, connection.place)?;
        let resuming = &mut log.depot.as_mut()?.resuming;
        let waits = resuming.as_mut().filter(|resuming| resuming.attached == connection.attached)?;
        let Some(refusal) = waits.refusal.take() else { return Some(Head::Hold { until: None }) };
        *resuming = None;
        self.give_up_standalone();
        Some(Head::Refuse(refusal))
    }

    /// A connection that waits for the store has gone. Whether it was one.
    pub(super) fn leave_resuming(&mut self, connection: ConnectionKey) -> bool {
        let log = log_of(&mut self.streams, &mut self.standalone, connection.place);
        let Some(depot) = log.and_then(|log| log.depot.as_mut()) else { return false };
        let left = depot.resuming.take_if(|resuming| resuming.attached == connection.attached).is_some();
        if left {
            self.give_up_standalone();
        }
        left
    }

    /// What has taken too long has failed, and the store is left alone for a while.
    pub(super) fn expire_store(&mut self, now: Timestamp, config: &SessionConfig) {
        if self.desk.is_none() {
            return;
        }
        let is_due = |log: &Log| log.depot.as_ref().and_then(|depot| depot.due()).is_some_and(|due| due <= now);
        let requests = self.streams.iter().filter(|(_, stream)| is_due(&stream.log));
        let mut due: Vec<Place> = requests.map(|(key, _)| Place::Request(key)).collect();
        due.extend(self.standalone.iter().filter(|standalone| is_due(&standalone.log)).map(|_| Place::Standalone));
        if let Some(desk) = self.desk.as_mut().filter(|_| !due.is_empty()) {
            desk.silent_until = now.saturating_add(config.store_timeout.saturating_mul(SILENCE));
        }
        for place in due {
            while let Some(log) = log_of(&mut self.streams, &mut self.standalone, place)
                && let Some(serial) = log.overdue(now)
            {
                self.counters.store_failures += 1;
                if log.finish_append(serial, false) {
                    self.after_append(now, config, place);
                } else if let Some((reads, _)) = log.reading(serial) {
                    self.finish_read(now, config, place, reads, StoreRead::Failed);
                }
            }
        }
    }

    /// When the first of what was asked is given up.
    pub(super) fn next_of_store(&self) -> Option<Timestamp> {
        self.desk.as_ref()?;
        let logs = self.streams.iter().map(|(_, stream)| &stream.log);
        let logs = logs.chain(self.standalone.as_ref().map(|standalone| &standalone.log));
        logs.filter_map(|log| log.depot.as_ref()?.due()).min()
    }

    /// A stream is gone, or what it had is of use to nobody.
    pub(super) fn forget_stored(&mut self, place: Place, stream: u64, log: &Log) {
        let (Some(depot), Some(desk)) = (&log.depot, &mut self.desk) else { return };
        if let Some(resuming) = &depot.resuming {
            let connection = ConnectionKey { place, attached: resuming.attached };
            self.effects.push_back(Effect::WakeConnection(connection));
        }
        desk.requests.retain(|request| request.ticket().is_none_or(|ticket| ticket.place != place));
        if !desk.closed && desk.requests.len() < MAX_FORGET {
            desk.requests.push_back(StoreRequest::Forget { stream });
            self.effects.push_back(Effect::AskStore);
        }
    }

    /// The session is over: the store is asked no more, nobody waits for it, and what is in memory leaves without it.
    pub(super) fn close_store(&mut self) {
        let Some(desk) = &mut self.desk else { return };
        desk.closed = true;
        desk.requests.clear();
        desk.requests.push_back(StoreRequest::ForgetSession);
        self.effects.push_back(Effect::AskStore);
        let requests = self.streams.iter().filter(|(_, stream)| stream.log.depot.is_some());
        let mut places: Vec<Place> = requests.map(|(key, _)| Place::Request(key)).collect();
        places.extend(self.standalone.iter().map(|_| Place::Standalone));
        for place in places {
            let Some(log) = log_of(&mut self.streams, &mut self.standalone, place) else { continue };
            self.counters.resumed_with_gap += u32::from(log.close());
            if let Some(resuming) = log.depot.as_mut().and_then(|depot| depot.resuming.as_mut()) {
                let connection = ConnectionKey { place, attached: resuming.attached };
                resuming.refusal.get_or_insert(Outcome::SessionEnded);
                self.effects.push_back(Effect::WakeConnection(connection));
            }
            let reader = match place {
                Place::Request(key) => self.streams.get(key).and_then(|stream| stream.connection(key)),
                Place::Standalone => self.standalone_carrier(),
            };
            self.effects.extend(reader.map(Effect::WakeConnection));
        }
    }

    /// There is something to read, or the connection is to end.
    fn wake_reader(&mut self, now: Timestamp, place: Place) {
        let reader = match place {
            Place::Request(key) => self.streams.get_mut(key).and_then(|stream| {
                if let Some(Reader::Streaming { moved, .. }) = &mut stream.reader {
                    *moved = now;
                }
                stream.connection(key)
            }),
            Place::Standalone => self.standalone.as_mut().and_then(|standalone| {
                standalone.readers.last_mut()?.moved = now;
                standalone.carrier()
            }),
        };
        self.effects.extend(reader.map(Effect::WakeConnection));
    }
}

/// What a read has found, if it can be right.
fn checked(found: StoreRead, reading: Reading, config: &SessionConfig) -> StoreRead {
    let StoreRead::Events(events) = &found else { return found };
    let Some((last, others)) = events.split_last() else { return StoreRead::Gone };
    let follow = events.iter().zip(reading.after + 1..).all(|(event, sequence)| event.sequence.get() == sequence);
    let bytes: usize = others.iter().map(|event| event.data.len()).sum();
    let fit = events.len() <= config.store_batch_count
        && (others.is_empty() || bytes + last.data.len() <= config.store_batch_bytes)
        && last.sequence.get() <= reading.through;
    if follow && fit { found } else { StoreRead::Failed }
}
