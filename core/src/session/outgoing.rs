//! Requests of the app to the client.
//!
//! Owns their ids, their deadline and their answers. The ids of the two directions are separate spaces. A request
//! waits a bounded time for a connection to take it; taken, it waits for the client, for the end of the
//! request that it belongs to, or for the end of the session.

use bytes::Bytes;

use crate::config::SessionConfig;
use crate::id::RequestId;
use crate::message::Message;
use crate::outcome::error_body;
use crate::session::app::Relation;
use crate::session::inbox::Inbound;
use crate::session::log::Entry;
use crate::session::stream::{Place, RequestKey, RequestStream};
use crate::session::{Effect, Kind, Phase, Session};
use crate::time::Timestamp;

/// The handle of a request that the session sends for an app that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerRequestKey(i64);

/// Why a request of the app has no answer from the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AnswerError {
    /// The session, or the request that it belongs to, has ended.
    Ended,
    /// There is no way to the client: one JSON body is the whole answer and no GET is open, or the client has gone.
    NoWire,
    /// No connection took it in time.
    NotTaken,
    /// Too many requests of the app are waiting.
    TooMany,
}

impl AnswerError {
    /// What it means, for people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ended => "the session or the request that this belongs to has ended",
            Self::NoWire => "there is no connection that could carry a request to the client",
            Self::NotTaken => "no connection of the client took the request in time",
            Self::TooMany => "too many requests to the client are waiting",
        }
    }
}

#[derive(Debug)]
pub(super) struct ServerRequest {
    origin: Origin,
    pub(super) place: Place,
    /// The request of the client that it belongs to.
    pub(super) related: Option<RequestKey>,
    /// Until when a connection must have taken it; `None` once one has.
    pub(super) untaken_until: Option<Timestamp>,
}

#[derive(Debug)]
enum Origin {
    /// An app that runs with the session: the answer goes to its inbox.
    Inbox,
    /// An app that is called: the answer waits here for whoever asked.
    Call { key: ServerRequestKey, answer: Option<Result<Message, AnswerError>> },
}

impl<X> Session<X> {
    /// Sends a request to the client for a call that answers `related`. `params` is JSON.
    ///
    /// # Errors
    ///
    /// At once if it can't be delivered.
    pub fn request_client(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        related: RequestKey,
        method: &str,
        params: &str,
    ) -> Result<ServerRequestKey, AnswerError> {
        if !self.is_in_flight(related) {
            return Err(AnswerError::Ended);
        }
        self.serial += 1;
        // The serial counts requests of a session; it stays far below 2^53.
        let key = ServerRequestKey(i64::try_from(self.serial).unwrap_or(RequestId::MAX_NUMBER));
        let id = RequestId::Number(key.0);
        // A method is a short word of the app's; a string always serializes.
        let method = serde_json::to_string(method).unwrap_or_default();
        let raw = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{},"method":{method},"params":{params}}}"#, key.0));
        let origin = Origin::Call { key, answer: None };
        let sent = self.place_request(Relation::Request(related)).and_then(|place| {
            let request = ServerRequest { origin, place, related: Some(related), untaken_until: None };
            self.send_request(now, config, id, raw, request)
        });
        if sent.is_err() {
            self.counters.server_requests_failed += 1;
        }
        sent.map(|()| key)
    }

    /// The answer to such a request: the client's response, or why there is none. `None`: not yet.
    pub fn poll_answer(&mut self, key: ServerRequestKey) -> Option<Result<Message, AnswerError>> {
        let id = RequestId::Number(key.0);
        let answer = match self.outgoing.get_mut(&id) {
            None => return Some(Err(AnswerError::Ended)),
            Some(ServerRequest { origin: Origin::Call { answer, .. }, .. }) => answer.take()?,
            Some(ServerRequest { origin: Origin::Inbox, .. }) => return Some(Err(AnswerError::Ended)),
        };
        self.outgoing.remove(&id);
        Some(answer)
    }

    /// Whoever asked has lost interest: the request is taken back if no connection has taken it.
    pub fn forget_request(&mut self, key: ServerRequestKey) {
        let id = RequestId::Number(key.0);
        if let Some(request) = self.outgoing.remove(&id) {
            self.take_back(request.place, &id);
        }
    }

    /// A request of an app that runs with the session.
    pub(super) fn handle_server_request(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        id: RequestId,
        raw: Bytes,
        relation: Relation,
    ) {
        // An app that goes on asking and never reads the answers is left without.
        if self.inbox_is_full(config, 3, 0) {
            self.counters.server_requests_failed += 1;
            return;
        }
        if self.outgoing.contains(&id) {
            self.counters.server_requests_failed += 1;
            self.answer_app(&id, -32600, "a request with this id is still waiting for the client");
            return;
        }
        let sent = self.place_request(relation).and_then(|place| {
            // A guess decides where a request travels, not how long it lives.
            let related = if let Relation::Request(key) = relation { Some(key) } else { None };
            let request = ServerRequest { origin: Origin::Inbox, place, related, untaken_until: None };
            self.send_request(now, config, id.clone(), raw, request)
        });
        if let Err(error) = sent {
            self.counters.server_requests_failed += 1;
            self.answer_app(&id, -32603, error.as_str());
        }
    }

    /// Which stream carries a request of the app.
    fn place_request(&self, relation: Relation) -> Result<Place, AnswerError> {
        let carrier = self.standalone_carrier().is_some();
        // One that no GET carries yet waits for it, while one may come.
        let standalone = if self.draining && !carrier { Err(AnswerError::NoWire) } else { Ok(Place::Standalone) };
        match relation {
            Relation::Over => Err(AnswerError::Ended),
            // No answer of the client would find its way back to one request.
            _ if self.kind != Kind::Session => Err(AnswerError::NoWire),
            Relation::Unrelated => standalone,
            Relation::Derived => match self.newest_with_wire() {
                Some(key) => Ok(Place::Request(key.stream)),
                None if self.in_flight.is_empty() || carrier => standalone,
                None => Err(AnswerError::NoWire),
            },
            Relation::Request(key) => match self.streams.get(key.stream) {
                _ if !self.is_in_flight(key) => Err(AnswerError::Ended),
                // A single JSON body can carry nothing but the response; an open GET has to do.
                Some(stream) if stream.is_json() && carrier => Ok(Place::Standalone),
                Some(stream) if stream.has_wire() => Ok(Place::Request(key.stream)),
                _ => Err(AnswerError::NoWire),
            },
        }
    }

    fn send_request(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        id: RequestId,
        raw: Bytes,
        request: ServerRequest,
    ) -> Result<(), AnswerError> {
        let place = request.place;
        let log = match place {
            Place::Request(key) => self.streams.get(key).map(|stream| &stream.log),
            Place::Standalone => self.standalone.as_ref().map(|standalone| &standalone.log),
        };
        let fits = log.is_none_or(|log| log.has_room(config, raw.len()));
        if self.outgoing.len() >= config.max_server_requests || !fits {
            return Err(AnswerError::TooMany);
        }
        let until = now.saturating_add(config.server_request_timeout);
        self.outgoing.insert(id.clone(), ServerRequest { untaken_until: Some(until), ..request });
        self.append(now, config, place, Entry::Request(id), raw);
        self.expect(until);
        Ok(())
    }

    /// Whether a response with this id is one that the app waits for: the client can only answer what a connection has
    /// taken, and once.
    pub(super) fn awaits_answer(&self, id: &RequestId) -> bool {
        self.outgoing.get(id).is_some_and(|request| {
            request.untaken_until.is_none() && !matches!(request.origin, Origin::Call { answer: Some(_), .. })
        })
    }

    /// A response of the client that the app waits for.
    pub(super) fn handle_answer(&mut self, id: &RequestId, message: Message, context: X) {
        let Some(request) = self.outgoing.get_mut(id) else { return };
        match &mut request.origin {
            Origin::Call { key, answer } => {
                let key = *key;
                *answer = Some(Ok(message));
                self.effects.push_back(Effect::WakeAnswer(key));
            }
            Origin::Inbox => {
                self.outgoing.remove(id);
                self.push_inbox(Inbound { message, context: Some(context) });
            }
        }
    }

    /// The app takes its request back. If a connection has taken it already, the client is told: the same way, or
    /// through the standalone stream if that is closed by now.
    pub(super) fn cancel_server_request(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        id: Option<&RequestId>,
        note: Bytes,
    ) {
        let Some((id, request)) = id.and_then(|id| Some((id, self.outgoing.remove(id)?))) else {
            // About something that is over.
            self.counters.notes_dropped += 1;
            return;
        };
        if self.take_back(request.place, id) {
            return;
        }
        let place = match request.place {
            Place::Request(key) if self.streams.get(key).is_some_and(RequestStream::has_wire) => request.place,
            Place::Request(_) | Place::Standalone => Place::Standalone,
        };
        self.push_note(now, config, place, note);
    }

    /// A connection has taken it: from now on the client decides how long it takes.
    pub(super) fn mark_taken(&mut self, id: &RequestId) {
        if let Some(request) = self.outgoing.get_mut(id) {
            request.untaken_until = None;
        }
    }

    /// The request that these belonged to has ended.
    pub(super) fn fail_outgoing_of(&mut self, related: RequestKey) {
        if !self.outgoing.is_empty() {
            self.fail_where(AnswerError::Ended, |request| request.related == Some(related));
        }
    }

    /// The connection of this stream has gone, and what it had not taken nobody will take.
    pub(super) fn fail_untaken_at(&mut self, place: Place) {
        if !self.outgoing.is_empty() {
            self.fail_where(AnswerError::NoWire, |request| request.place == place && request.untaken_until.is_some());
        }
    }

    /// Those that no connection has taken in time.
    pub(super) fn expire_outgoing(&mut self, now: Timestamp) {
        self.fail_where(AnswerError::NotTaken, |request| request.untaken_until.is_some_and(|until| until <= now));
    }

    /// The session is over.
    pub(super) fn fail_all_outgoing(&mut self) {
        self.fail_where(AnswerError::Ended, |_| true);
    }

    fn fail_where(&mut self, error: AnswerError, matches: impl Fn(&ServerRequest) -> bool) {
        let failed: Vec<RequestId> =
            self.outgoing.iter().filter(|(_, request)| matches(request)).map(|(id, _)| id.clone()).collect();
        for id in failed {
            let Some(request) = self.outgoing.get_mut(&id) else { continue };
            let place = request.place;
            request.untaken_until = None;
            match &mut request.origin {
                // Whoever polls for it learns that it has ended from its not being there.
                Origin::Call { key, answer } if error == AnswerError::Ended => {
                    let (key, answered) = (*key, answer.is_some());
                    self.outgoing.remove(&id);
                    if answered {
                        continue;
                    }
                    self.effects.push_back(Effect::WakeAnswer(key));
                }
                Origin::Call { answer: Some(_), .. } => continue,
                Origin::Call { key, answer } => {
                    let key = *key;
                    *answer = Some(Err(error));
                    self.effects.push_back(Effect::WakeAnswer(key));
                }
                Origin::Inbox => {
                    self.outgoing.remove(&id);
                    if !matches!(self.phase, Phase::Ended(_)) {
                        self.answer_app(&id, -32603, error.as_str());
                    }
                }
            }
            self.counters.server_requests_failed += 1;
            self.take_back(place, &id);
        }
    }

    fn take_back(&mut self, place: Place, id: &RequestId) -> bool {
        match place {
            Place::Request(key) => self.streams.get_mut(key).is_some_and(|stream| stream.log.remove_request(id)),
            Place::Standalone => self.standalone.as_mut().is_some_and(|standalone| standalone.log.remove_request(id)),
        }
    }

    /// We answer the app ourselves, since the client never will.
    fn answer_app(&mut self, id: &RequestId, code: i32, why: &str) {
        if let Ok(message) = Message::parse(error_body(Some(id), code, why, None)) {
            self.push_inbox(Inbound { context: None, message });
        }
    }
}
