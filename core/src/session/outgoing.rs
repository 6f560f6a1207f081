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
use crate::session::inbox::Inbound;
use crate::session::log::Entry;
use crate::session::stream::{Place, RequestKey};
use crate::session::{Counters, Effect, Phase, Session};
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
        self.send_request(now, config, id, raw, Some(related), origin).map(|()| key)
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
        related: Option<RequestKey>,
    ) {
        if self.outgoing.contains(&id) {
            self.counters.server_requests_failed += 1;
            self.answer_app(&id, -32600, "a request with this id is still waiting for the client");
            return;
        }
        let sent = self.send_request(now, config, id.clone(), raw, related, Origin::Inbox);
        if let Err(error) = sent {
            self.answer_app(&id, -32603, error.as_str());
        }
    }

    /// A request of the app that belongs to a request that is over.
    pub(super) fn refuse_server_request(&mut self, id: &RequestId) {
        self.counters.server_requests_failed += 1;
        self.answer_app(id, -32603, AnswerError::Ended.as_str());
    }

    fn send_request(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        id: RequestId,
        raw: Bytes,
        related: Option<RequestKey>,
        origin: Origin,
    ) -> Result<(), AnswerError> {
        let fail = |counters: &mut Counters, error| {
            counters.server_requests_failed += 1;
            Err(error)
        };
        if self.outgoing.len() >= config.max_server_requests {
            return fail(&mut self.counters, AnswerError::TooMany);
        }
        let place = match related {
            None => Place::Standalone,
            Some(key) => match self.streams.get(key.stream) {
                // A single JSON body can carry nothing but the response; an open GET has to do.
                Some(stream) if stream.is_json() && self.standalone_carrier().is_some() => Place::Standalone,
                Some(stream) if stream.is_open() && !stream.is_json() => Place::Request(key.stream),
                _ => return fail(&mut self.counters, AnswerError::NoWire),
            },
        };
        let until = now.saturating_add(config.server_request_timeout);
        self.outgoing.insert(id.clone(), ServerRequest { origin, place, related, untaken_until: Some(until) });
        self.append(config, place, Entry::Request(id), raw);
        self.expect(until);
        Ok(())
    }

    /// A response of the client.
    pub(super) fn handle_answer(&mut self, id: Option<&RequestId>, message: Message, context: X) {
        let Some(request) = id.and_then(|id| self.outgoing.get_mut(id)) else {
            self.counters.client_responses_unmatched += 1;
            return;
        };
        match &mut request.origin {
            Origin::Call { key, answer } => {
                let key = *key;
                *answer = Some(Ok(message));
                // It can't expire any more.
                request.untaken_until = None;
                self.effects.push_back(Effect::WakeAnswer(key));
            }
            Origin::Inbox => {
                if let Some(id) = id {
                    self.outgoing.remove(id);
                }
                self.push_inbox(Inbound { message, context: Some(context) });
            }
        }
    }

    /// The app takes its request back; which stream it belongs to, if a connection has taken it already.
    pub(super) fn cancel_server_request(&mut self, id: &RequestId) -> Option<Place> {
        let request = self.outgoing.remove(id)?;
        if self.take_back(request.place, id) { None } else { Some(request.place) }
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
