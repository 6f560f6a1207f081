//! Connections: when a head leaves, what a reader gets, and what happens when it goes.

use bytes::{Bytes, BytesMut};

use crate::config::{ResponseMode, SessionConfig};
use crate::id::EventId;
use crate::message::{Message, MessageKind};
use crate::outcome::Outcome;
use crate::session::log::Entry;
use crate::session::stream::{Closing, ConnectionKey, Place, Reader, StandaloneReader};
use crate::session::{Effect, Kind, Phase, Session};
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
    /// The stream has ended, after what was written now.
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
    /// by [`Effect::Release`].
    Detached,
    /// The exchange is over.
    Done,
}

impl<X> Session<X> {
    /// Decides the head of a connection that answers a request. Once it is decided, it is so for good.
    pub fn poll_head(&mut self, now: Timestamp, connection: ConnectionKey) -> Head {
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
            Head::Refuse(refusal)
        } else if mode == ResponseMode::Json && !answered {
            return Head::Hold { until: None };
        } else if answered {
            let alone = stream.log.first().is_some_and(|first| first.entry == Entry::Response);
            let one_body = match mode {
                ResponseMode::Json => true,
                ResponseMode::Auto => alone,
                // An error decides the status, which a stream could not carry.
                ResponseMode::Sse => alone && modern && stream.log.first().is_some_and(|first| is_error(&first.data)),
            };
            match one_body.then(|| stream.log.take_response()).flatten() {
                Some(response) => Head::Json(response),
                None => Head::Stream,
            }
        } else {
            let spoken = !stream.log.is_empty() && !starting;
            if !spoken && until.is_some_and(|until| now < until) {
                return Head::Hold { until };
            }
            Head::Stream
        };
        match head {
            Head::Stream => stream.reader = Some(Reader::Streaming { begun: false }),
            Head::Hold { .. } | Head::Json(_) | Head::Refuse(_) => self.remove_stream(key),
        }
        head
    }

    /// Opens a connection that reads the standalone stream. The newest gets the messages; beyond the limit the
    /// oldest ends.
    ///
    /// # Errors
    ///
    /// If the session has ended or is shutting down.
    pub fn open_standalone(
        &mut self,
        config: &SessionConfig,
        last_event_id: Option<EventId>,
    ) -> Result<ConnectionKey, Outcome> {
        if self.is_over() {
            return Err(Outcome::SessionNotFound);
        }
        if self.draining {
            return Err(Outcome::ShuttingDown);
        }
        // Nothing was given an id, so a position in a request stream can't be ours.
        if last_event_id.is_some_and(|id| id.stream != 0) {
            return Err(Outcome::NotResumable);
        }
        let standalone = self.standalone.get_or_insert_default();
        standalone.attached = standalone.attached.wrapping_add(1);
        let attached = standalone.attached;
        if standalone.readers.len() >= config.max_standalone {
            // Forgotten at once, so that sockets which never take their end can't pile up here.
            let oldest = standalone.readers.remove(0);
            let oldest = ConnectionKey { place: Place::Standalone, attached: oldest.attached };
            self.effects.push_back(Effect::WakeConnection(oldest));
        }
        standalone.readers.push(StandaloneReader { attached, begun: false, closing: None });
        Ok(ConnectionKey { place: Place::Standalone, attached })
    }

    /// Writes what a connection may read into `out`, up to about `limit` bytes beyond which it stops between events. The very first
    /// byte of a stream that has nothing to say is a comment.
    pub fn poll_frames(
        &mut self,
        config: &SessionConfig,
        connection: ConnectionKey,
        out: &mut BytesMut,
        limit: usize,
    ) -> ReaderOutput {
        match connection.place {
            Place::Request(key) => {
                let stream = self.streams.get_mut(key).filter(|stream| stream.attached == connection.attached);
                let Some(stream) = stream else { return ReaderOutput::Finished };
                let Some(Reader::Streaming { begun }) = &mut stream.reader else { return ReaderOutput::Finished };
                let begun = std::mem::replace(begun, true);
                let over = stream.open == 0;
                let output = self.take_frames(connection, out, limit);
                if output != ReaderOutput::Pending {
                    return output;
                }
                if !begun && out.is_empty() {
                    out.extend_from_slice(sse::COMMENT);
                }
                if !over {
                    return ReaderOutput::Pending;
                }
                self.remove_stream(key);
                ReaderOutput::Finished
            }
            Place::Standalone => {
                let Some(standalone) = &mut self.standalone else { return ReaderOutput::Finished };
                let carrier = standalone.carrier() == Some(connection);
                let Some(reader) = standalone.readers.iter_mut().find(|reader| reader.attached == connection.attached)
                else {
                    return ReaderOutput::Finished;
                };
                let begun = std::mem::replace(&mut reader.begun, true);
                let closing = reader.closing;
                let output = if carrier { self.take_frames(connection, out, limit) } else { ReaderOutput::Pending };
                match (output, closing) {
                    (ReaderOutput::Ready, _) => ReaderOutput::Ready,
                    (_, Some(closing)) => {
                        if closing == Closing::Retry {
                            sse::write_retry(out, config.retry);
                        }
                        self.drop_standalone_reader(connection);
                        ReaderOutput::Finished
                    }
                    (_, None) => {
                        if !begun && out.is_empty() {
                            out.extend_from_slice(sse::COMMENT);
                        }
                        ReaderOutput::Pending
                    }
                }
            }
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
        let key = match connection.place {
            Place::Request(key) => key,
            Place::Standalone => {
                self.drop_standalone_reader(connection);
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
                self.remove_stream(key);
                Disconnect::Done
            }
            Some(Reader::Held { .. } | Reader::Streaming { .. }) if self.kind == Kind::Modern => {
                let members = stream.members.keys(key);
                for request in members {
                    self.counters.requests_cancelled += u32::from(self.is_in_flight(request));
                    self.end_request(request, Outcome::Accepted);
                }
                Disconnect::Done
            }
            Some(Reader::Held { .. } | Reader::Streaming { .. }) => {
                stream.attached = stream.attached.wrapping_add(1);
                stream.detached = Some(now);
                let unread = std::mem::take(&mut stream.log);
                self.counters.notes_dropped += unread.notes();
                self.fail_untaken_at(connection.place);
                if let Some(timeout) = config.detached_timeout {
                    self.expect(now.saturating_add(timeout));
                }
                Disconnect::Detached
            }
        }
    }

    fn take_frames(&mut self, connection: ConnectionKey, out: &mut BytesMut, limit: usize) -> ReaderOutput {
        loop {
            let log = match connection.place {
                Place::Request(key) => self.streams.get_mut(key).map(|stream| &mut stream.log),
                Place::Standalone => self.standalone.as_mut().map(|standalone| &mut standalone.log),
            };
            let Some(log) = log.filter(|log| !log.is_empty()) else { return ReaderOutput::Pending };
            if !out.is_empty() && out.len() >= limit {
                return ReaderOutput::Ready;
            }
            let Some(logged) = log.take_first() else { return ReaderOutput::Pending };
            sse::write_message(out, None, &logged.data);
            if let Entry::Request(id) = &logged.entry {
                self.mark_taken(id);
            }
        }
    }

    fn drop_standalone_reader(&mut self, connection: ConnectionKey) {
        let Some(standalone) = &mut self.standalone else { return };
        standalone.readers.retain(|reader| reader.attached != connection.attached);
        match standalone.carrier() {
            None => self.give_up_standalone(),
            // When the carrier goes, the next carries on with what has not been taken.
            Some(carrier) if !standalone.log.is_empty() => self.effects.push_back(Effect::WakeConnection(carrier)),
            Some(_) => {}
        }
    }

    /// Where no connection can come any more, nothing waits for one.
    pub(super) fn give_up_standalone(&mut self) {
        let over = self.draining || self.is_over();
        let Some(standalone) = self.standalone.as_ref().filter(|standalone| over && standalone.readers.is_empty())
        else {
            return;
        };
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
