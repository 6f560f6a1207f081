//! Connections: when a head leaves, what a reader gets, and what happens when it goes. Reading live and reading what was
//! missed are the same code; see `resume` for how a connection comes to a stream again.

use bytes::{Bytes, BytesMut};

use crate::config::{ResponseMode, SessionConfig};
use crate::id::EventId;
use crate::message::{Message, MessageKind};
use crate::outcome::Outcome;
use crate::session::log::{Entry, Log};
use crate::session::store::{StoredEvent, log_of};
use crate::session::stream::{Closing, ConnectionKey, Place, Reader, Standalone, StandaloneReader};
use crate::session::{Effect, Kind, Phase, Session};
use crate::slab::Key;
use crate::sse;
use crate::time::Timestamp;

/// What the head of an answer is to be.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Head {
    /// Not yet decided; ask again when woken, or at this time.
    Hold {
        /// `None`: only when woken.
        until: Option<Timestamp>,
    },
    /// One JSON body, and the exchange is over.
    Json(Bytes),
    /// An error, or 202 for a request that was cancelled; the exchange is over.
    Refuse(Outcome),
    /// A stream of events: read it with [`Session::poll_frames`].
    Stream,
}

/// What a reader got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ReaderOutput {
    /// The connection ends after what was written now, and the request goes on without it: as with
    /// [`Disconnect::Detached`], the exchange is given back later.
    Detached,
    /// The connection ends after what was written now, and its exchange is over.
    Finished,
    /// Nothing is left for now; what was written, if anything, may leave.
    Pending,
    /// The buffer has as much as was asked for, and there is more.
    Ready,
}

/// What became of the exchange of a connection that has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Disconnect {
    /// The client left before the head of `initialize`: the session has to be closed.
    Abandoned,
    /// A request goes on without a connection and keeps its session busy: the exchange is given back later,
    /// by [`Effect::Release`], when the request ends or when it has a connection again.
    Detached,
    /// The exchange is over.
    Done,
}

impl<X> Session<X> {
    /// Decides the head of a connection that answers a request. Once it is decided, it is so for good.
    pub fn poll_head(&mut self, now: Timestamp, config: &SessionConfig, connection: ConnectionKey) -> Head {
        if let Some(head) = self.poll_resuming(connection) {
            return head;
        }
        let Place::Request(key) = connection.place else { return Head::Stream };
        let starting = matches!(self.phase, Phase::Starting { request, .. } if request.stream == key);
        let modern = self.kind == Kind::Modern;
        let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.attached == connection.attached) else {
            return Head::Refuse(Outcome::SessionEnded);
        };
        let (mode, until) = match &stream.reader {
            Some(Reader::Held { mode, until }) => (*mode, *until),
            Some(Reader::Streaming { .. }) => return Head::Stream,
            None => return Head::Refuse(Outcome::SessionEnded),
        };
        let answered = stream.open == 0;
        let head = if let Some(refusal) = stream.refusal.take() {
            Head::Refuse(*refusal)
        } else if mode == ResponseMode::Json && !answered {
            return Head::Hold { until: None };
        } else if answered {
            let alone = stream.log.first_unread() == Some(&Entry::Response);
            let one_body = match mode {
                ResponseMode::Json => true,
                ResponseMode::Auto => alone,
                // An error decides the status, which a stream could not carry.
                ResponseMode::Sse => alone && modern && stream.log.first_data().is_some_and(is_error),
            };
            let take = if stream.batch { Log::take_responses } else { Log::take_response };
            match one_body.then(|| take(&mut stream.log)).flatten() {
                Some(response) => Head::Json(response),
                None => Head::Stream,
            }
        } else {
            let spoken = stream.pause.is_some() || (stream.log.has_unread() && !starting);
            if !spoken && until.is_some_and(|until| now < until) {
                return Head::Hold { until };
            }
            Head::Stream
        };
        match head {
            Head::Stream => {
                stream.reader = Some(Reader::Streaming { begun: false, since: now, moved: now });
                self.expect_pause(now, config);
                self.begin_stored(now, config, connection.place, true);
            }
            Head::Hold { .. } | Head::Json(_) | Head::Refuse(_) => self.remove_stream(key),
        }
        head
    }

    /// Opens a connection for a GET. Without the id of an event, or with one of the standalone stream, it reads that: the newest
    /// gets the messages, beyond the limit the oldest ends. After an event of a request's stream it reads that one, which
    /// has one reader.
    ///
    /// The standalone stream goes on from the oldest event that is kept if those before it are not, since clients give it
    /// up for ever when they are refused.
    ///
    /// # Errors
    ///
    /// If the session has ended or is shutting down, if the stream can't be resumed after this event, or if it has nothing
    /// more to give.
    pub fn open_get(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        last_event_id: Option<EventId>,
    ) -> Result<ConnectionKey, Outcome> {
        if self.is_over() {
            return Err(Outcome::SessionNotFound);
        }
        match last_event_id.filter(|id| id.stream != 0) {
            Some(after) => self.resume(now, config, after),
            None if self.draining => Err(Outcome::ShuttingDown),
            None => {
                let after = last_event_id.filter(|_| self.has_ids(config)).map(|id| id.sequence.get());
                let standalone = self.standalone.get_or_insert_default();
                standalone.attached = standalone.attached.wrapping_add(1);
                let attached = standalone.attached;
                let stored = after.filter(|after| standalone.log.is_stored_after(*after));
                if let Some(after) = stored {
                    return self.resume_from_store(now, config, Place::Standalone, attached, after);
                }
                self.attach_standalone(now, config, attached, after.map(|after| (after, Vec::new())));
                Ok(ConnectionKey { place: Place::Standalone, attached })
            }
        }
    }

    /// A connection reads the standalone stream from now on. `after`: the last event that its client knows, and what comes next if it was
    /// read back from the store.
    pub(super) fn attach_standalone(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        attached: u32,
        after: Option<(u64, Vec<StoredEvent>)>,
    ) {
        let resumed = after.is_some();
        let standalone = self.standalone.get_or_insert_default();
        let mut gone = Vec::new();
        if standalone.log.is_rereading() {
            // It would miss the rest of what it has come for, and can come again.
            gone.extend(standalone.readers.pop());
        }
        match after {
            Some((after, fetched)) if standalone.log.reaches(after) || !fetched.is_empty() => {
                standalone.log.rewind(after);
                standalone.log.fetch(fetched);
            }
            Some(_) => {
                standalone.log.rewind_to_oldest();
                self.counters.resumed_with_gap += 1;
            }
            None => standalone.log.settle(),
        }
        if standalone.readers.len() >= config.max_standalone {
            // Forgotten at once, so that sockets which never take their end can't pile up here.
            gone.push(standalone.readers.remove(0));
        }
        standalone.readers.push(StandaloneReader { attached, begun: false, moved: now, resumed, closing: None });
        for reader in gone {
            let connection = ConnectionKey { place: Place::Standalone, attached: reader.attached };
            self.effects.push_back(Effect::WakeConnection(connection));
        }
        self.expect_kept(config);
        self.begin_stored(now, config, Place::Standalone, !resumed);
    }

    /// Writes what a connection may read into `out`, up to about `limit` bytes beyond which it stops between events. The very first
    /// byte of a stream that has nothing to say is a comment, or the event that says where it can be resumed.
    pub fn poll_frames(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        connection: ConnectionKey,
        out: &mut BytesMut,
        limit: usize,
    ) -> ReaderOutput {
        match connection.place {
            Place::Request(key) => self.poll_request(now, config, key, connection, out, limit),
            Place::Standalone => self.poll_standalone(now, config, connection, out, limit),
        }
    }

    fn poll_request(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        key: Key,
        connection: ConnectionKey,
        out: &mut BytesMut,
        limit: usize,
    ) -> ReaderOutput {
        let primes = self.has_polling(config) && !config.store;
        let stream = self.streams.get_mut(key).filter(|stream| stream.attached == connection.attached);
        let Some(stream) = stream else { return ReaderOutput::Finished };
        let Some(Reader::Streaming { begun, moved, .. }) = &mut stream.reader else { return ReaderOutput::Finished };
        *moved = now;
        let begun = std::mem::replace(begun, true);
        let (over, pause) = (stream.open == 0, stream.pause);
        if !begun && primes && !stream.is_known() {
            self.prime(config, connection.place, out);
        }
        if !pause.is_some_and(|pause| pause.at_once) {
            let output = self.take_frames(now, config, connection, out, limit);
            // What the store has still to take or to give comes before the end.
            let waits = self.streams.get(key).is_some_and(|stream| stream.log.has_unread());
            if output != ReaderOutput::Pending || waits {
                if !begun && out.is_empty() {
                    self.write_beginning(config, connection.place, out);
                }
                return output;
            }
        }
        if !begun && out.is_empty() {
            self.write_beginning(config, connection.place, out);
        }
        match pause {
            Some(pause) if !over || pause.at_once => {
                sse::write_retry(out, pause.retry());
                if over {
                    self.finish_stream(key, Some((now, config)));
                    return ReaderOutput::Finished;
                }
                self.detach(now, config, key);
                ReaderOutput::Detached
            }
            _ if over => {
                self.finish_stream(key, Some((now, config)));
                ReaderOutput::Finished
            }
            _ => ReaderOutput::Pending,
        }
    }

    fn poll_standalone(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        connection: ConnectionKey,
        out: &mut BytesMut,
        limit: usize,
    ) -> ReaderOutput {
        let primes = self.has_polling(config) && !config.store;
        let Some(standalone) = &mut self.standalone else { return ReaderOutput::Finished };
        let carrier = standalone.carrier() == Some(connection);
        let Some(reader) = standalone.readers.iter_mut().find(|reader| reader.attached == connection.attached) else {
            return ReaderOutput::Finished;
        };
        reader.moved = now;
        let begun = std::mem::replace(&mut reader.begun, true);
        let (closing, resumed) = (reader.closing, reader.resumed);
        if !begun && primes && !resumed {
            self.prime(config, connection.place, out);
        }
        let output =
            if carrier { self.take_frames(now, config, connection, out, limit) } else { ReaderOutput::Pending };
        if output == ReaderOutput::Pending && !begun && out.is_empty() {
            self.write_beginning(config, connection.place, out);
        }
        let waits = carrier && self.standalone.as_ref().is_some_and(|standalone| standalone.log.has_unread());
        match (output, closing) {
            (ReaderOutput::Ready, _) => ReaderOutput::Ready,
            (_, Some(closing)) if !waits => {
                if let Closing::Retry(retry) = closing {
                    sse::write_retry(out, retry);
                }
                self.drop_standalone_reader(now, config, connection);
                ReaderOutput::Finished
            }
            (_, None | Some(_)) => ReaderOutput::Pending,
        }
    }

    /// The connection has gone, or its exchange is over. Up to 2025-11-25 that cancels nothing; in the modern era it
    /// cancels the request (2026-07-28, streamable HTTP, cancellation).
    pub fn handle_disconnect(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        connection: ConnectionKey,
    ) -> Disconnect {
        if self.leave_resuming(connection) {
            return Disconnect::Done;
        }
        let key = match connection.place {
            Place::Request(key) => key,
            Place::Standalone => {
                self.drop_standalone_reader(now, config, connection);
                return Disconnect::Done;
            }
        };
        let alive = !self.is_over();
        let Some(stream) = self.streams.get_mut(key).filter(|stream| stream.attached == connection.attached) else {
            return Disconnect::Done;
        };
        let (initialize, open) = (stream.initialize, stream.open > 0);
        match stream.reader.take() {
            None => Disconnect::Done,
            // Answered or not, the client has never learnt the session's id.
            Some(Reader::Held { .. }) if initialize && alive => {
                if !open {
                    self.remove_stream(key);
                }
                Disconnect::Abandoned
            }
            Some(_) if !open => {
                self.finish_stream(key, Some((now, config)));
                Disconnect::Done
            }
            Some(Reader::Held { .. } | Reader::Streaming { .. }) if self.kind == Kind::Modern => {
                let members = stream.members.keys(key);
                for request in members {
                    self.counters.requests_cancelled += u32::from(self.is_in_flight(request));
                    self.end_request(request, Outcome::Accepted, None);
                }
                Disconnect::Done
            }
            Some(Reader::Held { .. } | Reader::Streaming { .. }) => {
                self.detach(now, config, key);
                Disconnect::Detached
            }
        }
    }

    /// A request goes on without a connection. What was not taken waits for the next one, if the client can come back.
    fn detach(&mut self, now: Timestamp, config: &SessionConfig, key: Key) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.reader = None;
        stream.attached = stream.issue();
        stream.detached = Some(now);
        stream.pause = None;
        if stream.is_known() {
            stream.log.settle();
            self.expect_kept(config);
        } else {
            let (unread, number) = (std::mem::take(&mut stream.log), stream.number);
            self.counters.notes_dropped += unread.notes();
            self.forget_stored(Place::Request(key), number, &unread);
            self.fail_untaken_at(Place::Request(key));
        }
        if let Some(timeout) = config.detached_timeout {
            self.expect(now.saturating_add(timeout));
        }
    }

    fn take_frames(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        connection: ConnectionKey,
        out: &mut BytesMut,
        limit: usize,
    ) -> ReaderOutput {
        let place = connection.place;
        let keep = self.has_ids(config);
        let mut taken_one = false;
        let output = loop {
            let log = log_of(&mut self.streams, &mut self.standalone, place);
            let Some(log) = log.filter(|log| log.has_ready()) else { break ReaderOutput::Pending };
            if !out.is_empty() && out.len() >= limit {
                break ReaderOutput::Ready;
            }
            let Some(taken) = log.take(now, keep) else { break ReaderOutput::Pending };
            taken_one = true;
            let id = taken.sequence.map(|sequence| EventId { stream: self.number_of(place), sequence });
            match id {
                Some(id) if taken.data.is_empty() => sse::write_priming(out, id, config.retry),
                _ => sse::write_message(out, id, &taken.data),
            }
            if let Some(id) = &taken.request {
                self.mark_taken(id);
            }
        };
        if taken_one && keep {
            self.expect(now.saturating_add(config.log_age));
        }
        if self.desk.is_none() {
            return output;
        }
        self.tend_store(now, config, place);
        self.read_back(now, config, place);
        // The store may have been found silent just now.
        let ready = |log: &mut Log| log.has_ready();
        if log_of(&mut self.streams, &mut self.standalone, place).is_some_and(ready) {
            ReaderOutput::Ready
        } else {
            output
        }
    }

    fn drop_standalone_reader(&mut self, now: Timestamp, config: &SessionConfig, connection: ConnectionKey) {
        let Some(standalone) = &mut self.standalone else { return };
        let carried = standalone.carrier() == Some(connection);
        standalone.readers.retain(|reader| reader.attached != connection.attached);
        if carried {
            standalone.log.settle();
            self.expect_kept(config);
        }
        self.after_carrier(now);
    }

    /// A connection of the standalone stream has gone.
    pub(super) fn after_carrier(&mut self, now: Timestamp) {
        let Some(standalone) = &mut self.standalone else { return };
        if let Some(carrier) = standalone.readers.last_mut() {
            carrier.moved = now;
        }
        match standalone.carrier() {
            None => self.give_up_standalone(),
            // When the carrier goes, the next carries on with what nobody has taken.
            Some(carrier) if standalone.log.has_unread() => self.effects.push_back(Effect::WakeConnection(carrier)),
            Some(_) => {}
        }
    }

    /// Where no connection can come any more, nothing waits for one.
    pub(super) fn give_up_standalone(&mut self) {
        let over = self.draining || self.is_over();
        let is_left = |standalone: &&Standalone| standalone.readers.is_empty() && !standalone.log.has_resuming();
        let Some(standalone) = self.standalone.as_deref().filter(|_| over).filter(is_left) else { return };
        self.counters.notes_dropped += standalone.log.notes();
        self.standalone = None;
        self.fail_untaken_at(Place::Standalone);
    }
}

/// Whether a response is an error. What can't be read is none.
fn is_error(raw: &Bytes) -> bool {
    let message = Message::parse(raw.clone());
    matches!(message.as_ref().map(Message::kind), Ok(MessageKind::Response(response)) if response.is_error)
}
