//! Resuming: what is kept for a client that comes back, how it comes back, and how the server makes it.
//!
//! A stream gets its number with the first event that it gives out. It can be resumed after an event as long as everything
//! after that is in its log; when it has finished it is kept for a time, within bounds of the session. A
//! stream that nobody can know of is forgotten when its connection goes.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::BytesMut;

use crate::config::SessionConfig;
use crate::id::EventId;
use crate::outcome::Outcome;
use crate::session::sorted::SortedMap;
use crate::session::store::{StoredEvent, log_of};
use crate::session::stream::{Closing, ConnectionKey, Pause, Place, Reader, RequestKey, RequestStream};
use crate::session::{Effect, Kind, LARGE, Session};
use crate::slab::Key;
use crate::sse;
use crate::time::Timestamp;

/// A reader for which something has waited so long, and more than may, is not behind but stuck.
const STALLED: Duration = Duration::from_secs(5);

/// What a session keeps so that its streams can be resumed.
#[derive(Debug, Default)]
pub(super) struct Kept {
    last_number: u64,
    numbered: SortedMap<u64, Key>,
    /// The streams that have finished and that no connection reads, the oldest first.
    finished: VecDeque<Finished>,
    /// What they take in all.
    bytes: usize,
}

#[derive(Debug)]
struct Finished {
    number: u64,
    key: Key,
    at: Timestamp,
    bytes: usize,
}

impl Kept {
    /// The stream is gone.
    pub(super) fn forget(&mut self, number: u64) {
        self.numbered.remove(&number);
        self.forget_finished(number);
    }

    /// The stream is gone, or somebody reads it again.
    fn forget_finished(&mut self, number: u64) {
        if let Some(at) = self.finished.iter().position(|finished| finished.number == number) {
            self.take_finished(at);
        }
    }

    /// Takes one from those that have finished.
    fn take_finished(&mut self, at: usize) -> Option<Key> {
        let finished = self.finished.remove(at)?;
        self.bytes -= finished.bytes;
        if self.finished.is_empty() && self.finished.capacity() > LARGE {
            self.finished = VecDeque::new();
        }
        Some(finished.key)
    }
}

impl<X> Session<X> {
    /// Whether events have ids. Where there is no session nothing could be asked for with one.
    pub(super) fn has_ids(&self, config: &SessionConfig) -> bool {
        config.resume && self.kind == Kind::Session
    }

    /// Whether events are kept in a store.
    pub(super) fn has_store(&self, config: &SessionConfig) -> bool {
        config.store && self.has_ids(config)
    }

    /// Whether clients expect the server to end a connection before its stream's end, and then resume it (SEP-1699). They are
    /// told by an event with an id and nothing else at the beginning of each stream.
    pub(super) fn has_polling(&self, config: &SessionConfig) -> bool {
        self.has_ids(config) && self.version.is_some_and(|version| version.has_priming_events())
    }

    /// Ends the connection that reads the stream of a request, after what waits for it, so that the client comes back for the rest
    /// after `retry`; by default that of the settings. If the head is still held, a stream is opened for it.
    ///
    /// `false`, and nothing changes, if that client can't: it is of a revision before 2025-11-25, it takes one JSON body, or
    /// nothing can be resumed here. `false` too if the request is over.
    pub fn close_stream(&mut self, config: &SessionConfig, request: RequestKey, retry: Option<Duration>) -> bool {
        if !self.has_polling(config) || !self.is_in_flight(request) {
            return false;
        }
        let Some(stream) = self.streams.get_mut(request.stream).filter(|stream| stream.has_wire()) else {
            return false;
        };
        if stream.reader.is_some() {
            let retry = retry.unwrap_or(config.retry);
            let at_once = stream.pause.is_some_and(|pause| pause.at_once);
            stream.pause = Some(if at_once { Pause::at_once(retry) } else { Pause::new(retry) });
            let connection = ConnectionKey { place: Place::Request(request.stream), attached: stream.attached };
            self.effects.push_back(Effect::WakeConnection(connection));
        }
        true
    }

    /// Ends the connections that read the standalone stream, the newest after what waits for it, so that the client comes back
    /// after `retry`; by default that of the settings. `false`, and nothing changes, if clients of this revision don't expect
    /// it or nothing can be resumed here.
    pub fn close_standalone_stream(&mut self, config: &SessionConfig, retry: Option<Duration>) -> bool {
        if !self.has_polling(config) || self.is_over() {
            return false;
        }
        self.close_standalone(Closing::Retry(retry.unwrap_or(config.retry)));
        true
    }

    /// Attaches a new connection to a stream of a request, after this event. One that still reads it ends.
    pub(super) fn resume(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        after: EventId,
    ) -> Result<ConnectionKey, Outcome> {
        let kept = self.kept.as_ref().ok_or(Outcome::NotResumable)?;
        let key = *kept.numbered.get(&after.stream).ok_or(Outcome::NotResumable)?;
        let stream = self.streams.get(key).ok_or(Outcome::NotResumable)?;
        let sequence = after.sequence.get();
        if sequence > stream.log.given() {
            return Err(Outcome::NotResumable);
        }
        if stream.open == 0 {
            // Cancelled, it has nothing to come; else the client has all of it if it knows the last event.
            if !stream.answered || (stream.log.reaches(sequence) && !stream.log.has_after(sequence)) {
                return Err(Outcome::StreamOver);
            }
        }
        let (here, stored) = (stream.log.reaches(sequence), stream.log.is_stored_after(sequence));
        if !here && !stored {
            return Err(Outcome::NotResumable);
        }
        let Some(attached) = self.streams.get_mut(key).map(RequestStream::issue) else {
            return Err(Outcome::NotResumable);
        };
        let place = Place::Request(key);
        if !here {
            return self.resume_from_store(now, config, place, attached, sequence);
        }
        self.attach_request(now, config, key, attached, sequence, Vec::new());
        Ok(ConnectionKey { place, attached })
    }

    /// A connection reads a request's stream from now on, after this event. `fetched`: what comes next, if it was read back from the store.
    pub(super) fn attach_request(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        key: Key,
        attached: u32,
        after: u64,
        fetched: Vec<StoredEvent>,
    ) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        // The newest wins: one that came earlier and still waits for the store does not take the stream from it.
        let earlier = stream.log.depot.as_mut().and_then(|depot| depot.resuming.take());
        let earlier = earlier.map(|earlier| ConnectionKey { place: Place::Request(key), attached: earlier.attached });
        self.effects.extend(earlier.map(Effect::WakeConnection));
        stream.log.rewind(after);
        stream.log.fetch(fetched);
        if let Some(kept) = &mut self.kept {
            kept.forget_finished(stream.number);
        }
        self.effects.extend(stream.connection(key).map(Effect::WakeConnection));
        if stream.detached.take().is_some() {
            self.effects.push_back(Effect::Release);
        }
        stream.attached = attached;
        stream.pause = None;
        stream.reader = Some(Reader::Streaming { begun: false, since: now, moved: now });
        // A stream that has finished was kept as a whole; now its events are of their own age again.
        self.expect_kept(config);
        self.tend_store(now, config, Place::Request(key));
    }

    /// A connection of a request's stream begins to stream now, and may have to be ended one day.
    pub(super) fn expect_pause(&mut self, now: Timestamp, config: &SessionConfig) {
        if let Some(time) = config.poll_after.filter(|_| self.has_polling(config)) {
            self.expect(now.saturating_add(time));
        }
    }

    /// The number of a stream, which it gets when it is first asked for.
    pub(super) fn number_of(&mut self, place: Place) -> u64 {
        let Place::Request(key) = place else { return 0 };
        let Some(stream) = self.streams.get_mut(key) else { return 0 };
        if stream.number == 0 {
            let kept = self.kept.get_or_insert_default();
            kept.last_number += 1;
            stream.number = kept.last_number;
            kept.numbered.insert(stream.number, key);
        }
        stream.number
    }

    /// A stream begins, or has a reader: where there is a store it takes what was said, and before that the event that a stream begins with.
    pub(super) fn begin_stored(&mut self, now: Timestamp, config: &SessionConfig, place: Place, prime: bool) {
        if !self.has_store(config) {
            return;
        }
        if prime
            && self.has_polling(config)
            && let Some(log) = log_of(&mut self.streams, &mut self.standalone, place)
        {
            log.push_priming();
        }
        self.tend_store(now, config, place);
    }

    /// Writes the event that a stream begins with.
    pub(super) fn prime(&mut self, config: &SessionConfig, place: Place, out: &mut BytesMut) {
        let stream = self.number_of(place);
        if let Some(log) = log_of(&mut self.streams, &mut self.standalone, place) {
            sse::write_priming(out, EventId { stream, sequence: log.number() }, config.retry);
        }
    }

    /// Writes what a connection begins with that has nothing to read yet: a comment, or where its client is. Clients look for
    /// that in the last connection alone, so one that ended without an id would be the last that they resume.
    pub(super) fn write_beginning(&mut self, config: &SessionConfig, place: Place, out: &mut BytesMut) {
        let primes = self.has_polling(config);
        let log = log_of(&mut self.streams, &mut self.standalone, place);
        match log.and_then(|log| log.position()).filter(|_| primes) {
            Some(sequence) => {
                let stream = self.number_of(place);
                sse::write_priming(out, EventId { stream, sequence }, config.retry);
            }
            None => out.extend_from_slice(sse::COMMENT),
        }
    }

    /// More waits for the reader of this stream than may. One that has stalled is cut off: its client expects that, and can come
    /// back for what is there then. For one that is merely behind for a moment, notes have to go; so too for one whose client
    /// knows of no event, after which it could come back.
    pub(super) fn cut_off(&mut self, now: Timestamp, config: &SessionConfig, place: Place) {
        let stalled = |moved: Timestamp| now.saturating_since(moved) >= STALLED;
        match place {
            Place::Request(key) => {
                let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.is_known()) else { return };
                if matches!(stream.reader, Some(Reader::Streaming { moved, .. }) if stalled(moved)) {
                    stream.pause = Some(Pause::at_once(config.retry));
                    stream.log.settle();
                    self.expect_kept(config);
                }
            }
            Place::Standalone => {
                let Some(standalone) = &mut self.standalone else { return };
                let Some(carrier) = standalone.readers.pop_if(|reader| reader.begun && stalled(reader.moved)) else {
                    return;
                };
                standalone.log.settle();
                let carrier = ConnectionKey { place, attached: carrier.attached };
                self.effects.push_back(Effect::WakeConnection(carrier));
                self.after_carrier(now);
                self.expect_kept(config);
            }
        }
    }

    /// All requests of a stream were answered and no connection reads it. If its client may come back, it is kept for
    /// that. `keep`: the time, and how long; `None` when the session is over.
    pub(super) fn finish_stream(&mut self, key: Key, keep: Option<(Timestamp, &SessionConfig)>) {
        let keep = keep.filter(|_| !self.is_over());
        let stream = self.streams.get_mut(key);
        let (Some((now, config)), Some(stream)) = (keep, stream.filter(|stream| stream.is_known())) else {
            self.remove_stream(key);
            return;
        };
        stream.reader = None;
        stream.attached = stream.issue();
        stream.detached = None;
        stream.pause = None;
        stream.log.settle();
        if !stream.answered {
            self.counters.notes_dropped += stream.log.notes();
            stream.log.clear();
        }
        self.counters.notes_dropped += stream.log.enforce(config);
        let (number, bytes, cancelled) = (stream.number, stream.log.bytes(), !stream.answered);
        if cancelled {
            self.fail_untaken_at(Place::Request(key));
        }
        let kept = self.kept.get_or_insert_default();
        let at = kept.finished.back().map_or(now, |last| last.at.max(now));
        kept.bytes += bytes;
        kept.finished.push_back(Finished { number, key, at, bytes });
        self.expect(at.saturating_add(config.log_age));
        self.bound_finished(config);
    }

    /// Forgets finished streams while there are too many, first those that were read to their end. The newest stays.
    fn bound_finished(&mut self, config: &SessionConfig) {
        while let Some(kept) = &mut self.kept
            && kept.finished.len() > 1
            && (kept.finished.len() > config.log_count || kept.bytes > config.log_bytes)
        {
            let read =
                |finished: &Finished| self.streams.get(finished.key).is_none_or(|stream| !stream.log.has_unread());
            let first = kept.finished.iter().take(kept.finished.len() - 1).position(read);
            let Some(key) = kept.take_finished(first.unwrap_or(0)) else { return };
            self.remove_stream(key);
        }
    }

    /// The session is over: nobody comes back.
    pub(super) fn forget_finished(&mut self) {
        while let Some(key) = self.kept.as_mut().and_then(|kept| kept.take_finished(0)) {
            self.remove_stream(key);
        }
    }

    /// Forgets what is too old to be resumed.
    pub(super) fn expire_kept(&mut self, now: Timestamp, config: &SessionConfig) {
        let is_due = |finished: &Finished| finished.at.saturating_add(config.log_age) <= now;
        while let Some(kept) = &mut self.kept
            && kept.finished.front().is_some_and(is_due)
            && let Some(key) = kept.take_finished(0)
        {
            self.remove_stream(key);
        }
        for stream in self.streams.values_mut().filter(|stream| !is_finished(stream)) {
            stream.log.expire(now, config.log_age);
        }
        if let Some(standalone) = &mut self.standalone {
            standalone.log.expire(now, config.log_age);
        }
    }

    /// Ends connections that have been open long enough, so that their clients poll.
    pub(super) fn pause_long(&mut self, now: Timestamp, config: &SessionConfig) {
        let Some(after) = config.poll_after.filter(|_| self.has_polling(config)) else { return };
        let is_due = |stream: &RequestStream| pause_at(stream, after).is_some_and(|at| at <= now);
        let due: Vec<Key> = self.streams.iter().filter(|(_, stream)| is_due(stream)).map(|(key, _)| key).collect();
        for key in due {
            let Some(stream) = self.streams.get_mut(key) else { continue };
            stream.pause = Some(Pause::new(config.retry));
            let connection = ConnectionKey { place: Place::Request(key), attached: stream.attached };
            self.effects.push_back(Effect::WakeConnection(connection));
        }
    }

    /// Something of this may be due earlier than was known: a cursor was moved, or a revision has become known.
    pub(super) fn expect_kept(&mut self, config: &SessionConfig) {
        if let Some(at) = self.next_of_kept(config) {
            self.expect(at);
        }
    }

    /// When something of this is due.
    pub(super) fn next_of_kept(&self, config: &SessionConfig) -> Option<Timestamp> {
        if !self.has_ids(config) {
            return None;
        }
        let finished = self.kept.as_ref().and_then(|kept| kept.finished.front()).map(|first| first.at);
        let open = || self.streams.iter().map(|(_, stream)| stream).filter(|stream| !is_finished(stream));
        let logs = open().map(|stream| &stream.log).chain(self.standalone.as_ref().map(|standalone| &standalone.log));
        let aged = logs.filter_map(|log| log.oldest_read()).chain(finished).min();
        let poll_after = config.poll_after.filter(|_| self.has_polling(config));
        let pause = poll_after.and_then(|after| open().filter_map(|stream| pause_at(stream, after)).min());
        aged.map(|at| at.saturating_add(config.log_age)).into_iter().chain(pause).min()
    }
}

/// Whether it is one of those that are kept as a whole.
const fn is_finished(stream: &RequestStream) -> bool {
    stream.open == 0 && stream.reader.is_none()
}

/// When the connection of this stream has been open for so long.
fn pause_at(stream: &RequestStream, after: Duration) -> Option<Timestamp> {
    match stream.reader {
        Some(Reader::Streaming { since, .. }) if stream.open > 0 && stream.pause.is_none() => {
            Some(since.saturating_add(after))
        }
        Some(Reader::Held { .. } | Reader::Streaming { .. }) | None => None,
    }
}
