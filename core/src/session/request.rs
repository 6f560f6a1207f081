//! The life of a request of the client: admitted, registered with its stream, ended once.
//!
//! Owns the ways in and the ends that are not the app's answer. Does not own the answer (`app`) nor what a reader
//! gets of it (`reader`).

use std::time::Duration;

use crate::config::{ResponseMode, SessionConfig};
use crate::message::{Notification, Request};
use crate::outcome::Outcome;
use crate::session::log::{Entry, Log};
use crate::session::outside::Wish;
use crate::session::stream::{ConnectionKey, Member, Members, Place, Reader, RequestKey, RequestStream};
use crate::session::{Effect, Kind, LARGE, Phase, Session};
use crate::slab::Key;
use crate::time::Timestamp;

impl<X> Session<X> {
    pub(super) fn admit(&self, config: &SessionConfig, request: &Request, len: usize) -> Result<(), Outcome> {
        if self.draining {
            return Err(Outcome::ShuttingDown);
        }
        if self.kind == Kind::Session && request.initialize.is_some() && self.phase != Phase::New {
            return Err(Outcome::AlreadyInitialized);
        }
        if self.in_flight.contains(&request.id) {
            return Err(Outcome::DuplicateRequestId);
        }
        if self.in_flight.len() >= config.max_in_flight {
            return Err(Outcome::TooManyRequests);
        }
        if self.inbox_is_full(config, 1, len) {
            return Err(Outcome::InboxFull { request: true });
        }
        Ok(())
    }

    /// Registers a request with a stream of its own. The head of its connection is held.
    pub(super) fn open_stream(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        request: &Request,
        mode: ResponseMode,
    ) -> Option<(RequestKey, ConnectionKey)> {
        self.open_stream_of(now, config, &[request], mode, false)
    }

    /// The same for the requests of a batch, all or none; gives the first.
    pub(super) fn open_stream_of(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        requests: &[&Request],
        mode: ResponseMode,
        batch: bool,
    ) -> Option<(RequestKey, ConnectionKey)> {
        let initialize = self.kind == Kind::Session && requests.iter().any(|request| request.initialize.is_some());
        let window = match mode {
            ResponseMode::Json => None,
            // The status is the app's answer, so that it is worth waiting for; but a proxy must hear something in time.
            _ if self.kind == Kind::Modern => Some(config.keep_alive).filter(|keep_alive| !keep_alive.is_zero()),
            _ if initialize => Some(config.initialize_window),
            ResponseMode::Auto => Some(config.auto_window),
            ResponseMode::Sse => Some(Duration::ZERO),
        };
        let serial = &mut self.serial;
        let members = Members::new(requests.iter().map(|request| {
            *serial += 1;
            Member {
                id: request.id.clone(),
                token: request.progress_token.clone(),
                open: true,
                wish: Wish::of(request),
                serial: *serial,
                since: now,
                spoken: now,
            }
        }))?;
        let open = members.len();
        let stream = self.streams.insert(RequestStream {
            initialize,
            batch,
            log: Log::default(),
            members,
            open,
            reader: Some(Reader::Held { mode, until: window.map(|window| now.saturating_add(window)) }),
            attached: 0,
            issued: 0,
            number: 0,
            answered: false,
            detached: None,
            pause: None,
            refusal: None,
        })?;
        let key = RequestKey { stream, position: 0 };
        for (position, request) in (0..).zip(requests) {
            self.in_flight.insert(request.id.clone(), RequestKey { stream, position });
            self.counters.requests += 1;
        }
        if initialize {
            let until = now.saturating_add(config.start_timeout);
            self.phase = Phase::Starting { request: key, until };
            self.expect(until);
        }
        if let Some(age) = config.max_request_age {
            self.expect(now.saturating_add(age));
        }
        Some((key, ConnectionKey { place: Place::Request(stream), attached: 0 }))
    }

    /// `notifications/cancelled` of the client: the request's stream ends without a response and its id is free. Naming
    /// nothing in flight changes nothing here. Whether the app should see it: not if it names `initialize`, which
    /// can't be cancelled (2025-11-25, cancellation).
    pub(super) fn cancel(&mut self, now: Timestamp, config: &SessionConfig, note: &Notification) -> bool {
        let request = note.request_id.as_ref().and_then(|id| self.request_with_id(id));
        match request {
            Some(key) if self.is_starting(key) => {
                self.counters.cancellations_unmatched += 1;
                return false;
            }
            Some(key) => {
                self.counters.requests_cancelled += 1;
                self.end_request(key, Outcome::Accepted, Some((now, config)));
            }
            None => self.counters.cancellations_unmatched += 1,
        }
        true
    }

    pub(super) fn member(&self, request: RequestKey) -> Option<&Member> {
        self.streams.get(request.stream)?.members.get(request.position)
    }

    /// Whether this is the `initialize` that the app has not answered.
    pub(super) fn is_starting(&self, key: RequestKey) -> bool {
        matches!(self.phase, Phase::Starting { request, .. } if request == key)
    }

    /// Ends a request that the app has not answered. The outcome answers a head that is still held; after the head,
    /// the log says it, if it is an error. `keep`: see [`Session::after_answer`].
    pub(super) fn end_request(&mut self, key: RequestKey, outcome: Outcome, keep: Option<(Timestamp, &SessionConfig)>) {
        let Some(stream) = self.streams.get_mut(key.stream) else { return };
        let Some(member) = stream.members.get_mut(key.position).filter(|member| member.open) else { return };
        member.open = false;
        self.in_flight.remove(&member.id);
        stream.open -= 1;
        match stream.reader {
            // Of a batch, some may have an answer: the head can't speak for all of them.
            Some(Reader::Held { .. }) if stream.batch && outcome.code().is_some() => {
                stream.answered = true;
                stream.log.push(Entry::Response, outcome.to_message(&member.id));
            }
            Some(Reader::Held { .. }) if stream.open == 0 && !stream.answered => {
                stream.refusal = Some(Box::new(outcome));
            }
            Some(Reader::Held { .. }) => {}
            Some(Reader::Streaming { .. }) | None if outcome.code().is_some() => {
                let error = outcome.to_message(&member.id);
                stream.answered = true;
                if stream.has_reader() {
                    stream.log.push(Entry::Response, error);
                }
            }
            Some(Reader::Streaming { .. }) | None => {}
        }
        if let Some((now, config)) = keep {
            self.tend_store(now, config, Place::Request(key.stream));
        }
        self.fail_outgoing_of(key);
        self.effects.push_back(Effect::WakeCall(key));
        self.after_answer(key, keep);
    }

    /// A request of the stream was answered or ended: its reader looks, or the stream has finished without one. `keep`: the
    /// time, and how long it may be resumed then; `None` when the session is over.
    pub(super) fn after_answer(&mut self, key: RequestKey, keep: Option<(Timestamp, &SessionConfig)>) {
        let Some(stream) = self.streams.get(key.stream) else { return };
        if stream.reader.is_some() {
            let connection = ConnectionKey { place: Place::Request(key.stream), attached: stream.attached };
            self.effects.push_back(Effect::WakeConnection(connection));
        } else if stream.open == 0 {
            if stream.detached.is_some() {
                self.effects.push_back(Effect::Release);
            }
            self.finish_stream(key.stream, keep);
        }
    }

    /// Forgets a stream. What nobody has taken from it nobody will.
    pub(super) fn remove_stream(&mut self, key: Key) {
        let Some(stream) = self.streams.remove(key) else { return };
        self.streams.shrink_if_empty(LARGE);
        if let Some(kept) = &mut self.kept {
            kept.forget(stream.number);
        }
        self.counters.notes_dropped += stream.log.notes();
        self.forget_stored(Place::Request(key), stream.number, &stream.log);
        self.fail_untaken_at(Place::Request(key));
    }
}
