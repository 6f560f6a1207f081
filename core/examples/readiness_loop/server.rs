//! One exchange, step by step: gate, table, session, and what follows from each.
//!
//! Owns the composition, in the order that the front page of `sessile_core` gives. It is all that a driver has to get right, and holds
//! no socket: connections are names here. Does not own bytes of HTTP (`http`, `connection`) nor what tools say (`app`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response};
use mio::Token;
use sessile_core::session::{
    BatchAction, ConnectionKey, Delivery, Disconnect, Effect, Head, MessageAction, ReaderOutput, RequestKey, Session,
};
use sessile_core::table::CloseReason;
use sessile_core::{
    BodyAction, Config, ConfigError, Eras, Gate, GetHead, HeadAction, LastEventId, MCP_SESSION_ID, Message, Outcome,
    PostHead, ProtocolVersion, Reap, RequestAction, RequestHead, RequestId, SessionId, SessionKey, SessionTable,
    Timestamp, sse,
};

use crate::app::{App, Say};

/// Sessions with revisions up to 2025-11-25. Whoever serves 2026-07-28 too answers `BodyAction::Sessionless` with a
/// `Session::sessionless` of its own, counted by a second table (`SessionlessConfig::table`).
const SERVED: Eras = Eras::LEGACY;

/// Gate, table, sessions, and the app behind them.
pub(crate) struct Server {
    app: App,
    config: Config,
    /// Which connection to wake for a reader of a session.
    connections: BTreeMap<(SessionKey, ConnectionKey), Token>,
    gate: Gate,
    is_draining: bool,
    /// Ended ones too, for the connections that still read their last words.
    sessions: BTreeMap<SessionKey, Session<()>>,
    /// Everybody is the same principal here. With credentials, `Gate::head_with_credentials` verifies them.
    table: SessionTable<()>,
    woken: BTreeSet<Token>,
}

/// What a connection does next.
pub(crate) enum Step {
    /// Write this answer. `owes`: the session whose exchange is over when it has left, or the client has.
    Answer { response: Response<Bytes>, owes: Option<SessionKey> },
    /// Ask for the head of the answer, then for frames.
    Exchange(Exchange),
    /// Read the body.
    Upload(Upload),
}

/// The head of a POST whose body is on its way. Ends in `Server::body` or in `Server::finish`.
pub(crate) struct Upload {
    headers: HeaderMap,
    post: PostHead,
    live: Option<(SessionKey, Option<ProtocolVersion>)>,
}

impl Upload {
    /// The session that counts the exchange.
    pub(crate) fn owes(&self) -> Option<SessionKey> {
        self.live.map(|(key, _)| key)
    }
}

/// A reader of a session. Ends in an answer, in its last frame, or in `Server::disconnect`.
pub(crate) struct Exchange {
    pub(crate) session: SessionKey,
    connection: ConnectionKey,
    /// The request's, for an answer that is ours.
    id: Option<RequestId>,
    /// The session's, if this is its `initialize`.
    announce: Option<SessionId>,
}

/// What was decided about the head of an answer.
pub(crate) enum Decided {
    Answer(Response<Bytes>),
    Hold { until: Option<Timestamp> },
    Stream(HeaderMap),
}

impl Server {
    pub(crate) fn new(config: Config) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            app: App::default(),
            connections: BTreeMap::new(),
            gate: Gate::new(&config.gate)?,
            is_draining: false,
            sessions: BTreeMap::new(),
            table: SessionTable::new(config.table.clone())?,
            woken: BTreeSet::new(),
            config,
        })
    }

    pub(crate) const fn gate(&self) -> &Gate {
        &self.gate
    }

    pub(crate) const fn is_draining(&self) -> bool {
        self.is_draining
    }

    pub(crate) const fn keep_alive(&self) -> Option<Duration> {
        let every = self.config.session.keep_alive;
        if every.is_zero() { None } else { Some(every) }
    }

    /// A head has arrived.
    pub(crate) fn head(&mut self, now: Timestamp, token: Token, parts: Parts) -> Step {
        match self.gate.head(SERVED, &parts) {
            HeadAction::Answer { era, outcome } => Step::Answer { response: outcome.respond_in(era, None), owes: None },
            HeadAction::Delete(id) => match self.route(now, id) {
                Err(outcome) => refuse(&outcome, None, None),
                Ok((key, _)) => {
                    let reap = self.table.handle_close(now, key, CloseReason::Deleted);
                    self.bury(now, reap);
                    refuse(&Outcome::Deleted, None, None)
                }
            },
            HeadAction::Get(get) => match self.route(now, get.session) {
                Err(outcome) => refuse(&outcome, None, None),
                Ok((key, _)) => self.open_get(now, token, key, &get),
            },
            // The look-up comes before the body, so that a dead session costs none, and a live one can't become idle meanwhile.
            HeadAction::Post(post) => match post.look_up().map(|id| self.route(now, id)).transpose() {
                Err(outcome) => refuse(&outcome, None, None),
                Ok(live) => Step::Upload(Upload { headers: parts.headers, post, live }),
            },
        }
    }

    /// The body is there, or more of it than is read.
    pub(crate) fn body(&mut self, now: Timestamp, token: Token, upload: Upload, body: Bytes) -> Step {
        let Upload { headers, post, live } = upload;
        let (key, version) = live.unzip();
        match (self.gate.body(SERVED, &headers, &post, version, body), key) {
            (BodyAction::Answer { era, id, outcome }, owes) => {
                Step::Answer { response: outcome.respond_in(era, id.as_ref()), owes }
            }
            (BodyAction::Batch(messages), Some(key)) => self.deliver_batch(now, token, key, &post, messages),
            (BodyAction::Create(message), _) => match self.create(now) {
                Ok((key, id)) => self.deliver(now, token, key, &post, message, Some(id)),
                Err(outcome) => refuse(&outcome, message.as_request().map(|request| &request.id), None),
            },
            (BodyAction::Deliver(message), Some(key)) => self.deliver(now, token, key, &post, message, None),
            // The gate delivers to a live session only, refuses the modern era itself, and is not configured to be stateless.
            (
                BodyAction::Batch(_) | BodyAction::Deliver(_) | BodyAction::Sessionless(_) | BodyAction::Stateless(_),
                owes,
            ) => refuse(&Outcome::SessionNotFound, None, owes),
        }
    }

    fn route(&mut self, now: Timestamp, id: SessionId) -> Result<(SessionKey, Option<ProtocolVersion>), Outcome> {
        let head = RequestHead { session: Some(id), principal: &(), may_create: false };
        match self.table.handle_request(now, head, &mut random_id) {
            RequestAction::Route { key, version } => Ok((key, version)),
            RequestAction::Reject(rejection) => Err(rejection.outcome()),
            // A look-up never creates.
            RequestAction::Create { .. } => Err(Outcome::SessionNotFound),
        }
    }

    fn create(&mut self, now: Timestamp) -> Result<(SessionKey, SessionId), Outcome> {
        let head = RequestHead { session: None, principal: &(), may_create: true };
        match self.table.handle_request(now, head, &mut random_id) {
            RequestAction::Create { key, id, evicted } => {
                self.bury(now, evicted);
                self.sessions.insert(key, Session::new(Delivery::Call));
                Ok((key, id))
            }
            RequestAction::Reject(rejection) => Err(rejection.outcome()),
            // Nothing was named that it could be routed to.
            RequestAction::Route { .. } => Err(Outcome::SessionNotFound),
        }
    }

    fn deliver(
        &mut self,
        now: Timestamp,
        token: Token,
        key: SessionKey,
        post: &PostHead,
        message: Message,
        announce: Option<SessionId>,
    ) -> Step {
        let id = message.as_request().map(|request| request.id.clone());
        let Some(session) = self.sessions.get_mut(&key) else {
            return refuse(&Outcome::SessionNotFound, id.as_ref(), Some(key));
        };
        let step = match session.handle_message(now, &self.config.session, message, (), post.mode) {
            MessageAction::Accepted { call } => {
                // This app has no use for notifications, so that their call is over at once.
                if let Some(inbound) = call {
                    session.handle_note_done(inbound.message.raw().len());
                }
                refuse(&Outcome::Accepted, None, Some(key))
            }
            MessageAction::Refuse { id, outcome } => refuse(&outcome, id.as_ref(), Some(key)),
            MessageAction::Open { call, connection, request } => {
                self.connections.insert((key, connection), token);
                if let Some(inbound) = call {
                    self.call(now, key, request, &inbound.message);
                }
                Step::Exchange(Exchange { session: key, connection, id, announce })
            }
        };
        self.settle(now, key);
        step
    }

    fn deliver_batch(
        &mut self,
        now: Timestamp,
        token: Token,
        key: SessionKey,
        post: &PostHead,
        messages: Vec<Message>,
    ) -> Step {
        let Some(session) = self.sessions.get_mut(&key) else {
            return refuse(&Outcome::SessionNotFound, None, Some(key));
        };
        let (calls, step) = match session.handle_batch(now, &self.config.session, messages, &(), post.mode) {
            BatchAction::Accepted { calls } => (calls, refuse(&Outcome::Accepted, None, Some(key))),
            BatchAction::Refuse(outcome) => (Vec::new(), refuse(&outcome, None, Some(key))),
            BatchAction::Open { calls, connection, .. } => {
                self.connections.insert((key, connection), token);
                (calls, Step::Exchange(Exchange { session: key, connection, id: None, announce: None }))
            }
        };
        for call in calls {
            match (call.request, self.sessions.get_mut(&key)) {
                (Some(request), _) => self.call(now, key, request, &call.inbound.message),
                (None, Some(session)) => session.handle_note_done(call.inbound.message.raw().len()),
                (None, None) => {}
            }
        }
        self.settle(now, key);
        step
    }

    fn open_get(&mut self, now: Timestamp, token: Token, key: SessionKey, get: &GetHead) -> Step {
        let position = match get.last_event_id {
            None => None,
            Some(LastEventId::Position(id)) => Some(id),
            Some(LastEventId::Unreadable) => return refuse(&Outcome::NotResumable, None, Some(key)),
        };
        let Some(session) = self.sessions.get_mut(&key) else {
            return refuse(&Outcome::SessionNotFound, None, Some(key));
        };
        let step = match session.open_get(now, &self.config.session, position) {
            Err(outcome) => refuse(&outcome, None, Some(key)),
            Ok(connection) => {
                self.connections.insert((key, connection), token);
                Step::Exchange(Exchange { session: key, connection, id: None, announce: None })
            }
        };
        self.settle(now, key);
        step
    }

    /// Decides the head of an answer. An answer or a stream is final; after an answer the exchange is owed.
    pub(crate) fn poll_head(&mut self, now: Timestamp, exchange: &Exchange) -> Decided {
        let key = exchange.session;
        let Some(session) = self.sessions.get_mut(&key) else {
            return Decided::Answer(Outcome::SessionEnded.respond(exchange.id.as_ref()));
        };
        let head = session.poll_head(now, &self.config.session, exchange.connection);
        let mut headers = HeaderMap::new();
        if let Some(id) = exchange.announce.filter(|_| session.announces_id()) {
            headers.insert(MCP_SESSION_ID, id.to_header());
        }
        let decided = match head {
            Head::Hold { until } => return Decided::Hold { until },
            Head::Json(body) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                let mut response = Response::new(body);
                *response.headers_mut() = headers;
                Decided::Answer(response)
            }
            Head::Refuse(outcome) => Decided::Answer(outcome.respond(exchange.id.as_ref())),
            Head::Stream => {
                sse::set_headers(&mut headers);
                Decided::Stream(headers)
            }
        };
        if matches!(decided, Decided::Answer(_)) {
            self.connections.remove(&(key, exchange.connection));
        }
        self.settle(now, key);
        decided
    }

    /// Frames for a stream whose head has left. After `Finished` the exchange is owed, after `Detached` the session has it.
    pub(crate) fn poll_frames(&mut self, now: Timestamp, exchange: &Exchange, out: &mut BytesMut) -> ReaderOutput {
        let key = exchange.session;
        let Some(session) = self.sessions.get_mut(&key) else { return ReaderOutput::Finished };
        let output = session.poll_frames(now, &self.config.session, exchange.connection, out, 16 << 10);
        if matches!(output, ReaderOutput::Detached | ReaderOutput::Finished) {
            self.connections.remove(&(key, exchange.connection));
        }
        self.settle(now, key);
        output
    }

    /// The client of an exchange has gone.
    pub(crate) fn disconnect(&mut self, now: Timestamp, exchange: &Exchange) {
        let key = exchange.session;
        self.connections.remove(&(key, exchange.connection));
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let disconnect = session.handle_disconnect(now, &self.config.session, exchange.connection);
        self.settle(now, key);
        match disconnect {
            Disconnect::Abandoned => {
                let reap = self.table.handle_close(now, key, CloseReason::Abandoned);
                self.bury(now, reap);
            }
            // The request goes on, and `Effect::Release` will give the exchange back.
            Disconnect::Detached => {}
            Disconnect::Done => self.finish(now, Some(key)),
        }
    }

    /// An exchange is over.
    pub(crate) fn finish(&mut self, now: Timestamp, owes: Option<SessionKey>) {
        if let Some(key) = owes {
            self.table.handle_response_finished(now, key);
        }
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Timestamp) {
        while let Some((key, request, say)) = self.app.poll(now) {
            self.say(now, key, request, say);
        }
        while let Some(reap) = self.table.poll_reap(now) {
            self.bury(now, Some(reap));
        }
        while let Some(key) = self.table.poll_alarm(now) {
            if let Some(session) = self.sessions.get_mut(&key) {
                session.handle_timeout(now, &self.config.session);
            }
            self.settle(now, key);
        }
    }

    /// When something is due next.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.table.next_deadline().into_iter().chain(self.app.next_deadline()).min()
    }

    /// The connections that have something to read since the last call.
    pub(crate) fn take_woken(&mut self) -> BTreeSet<Token> {
        std::mem::take(&mut self.woken)
    }

    /// No new sessions and requests from now on; GETs end, calls go on.
    pub(crate) fn begin_shutdown(&mut self, now: Timestamp) {
        self.is_draining = true;
        self.table.begin_shutdown();
        for key in self.live() {
            if let Some(session) = self.sessions.get_mut(&key) {
                session.begin_drain(now, &self.config.session);
            }
            self.settle(now, key);
        }
    }

    /// Whether an exchange is in flight.
    pub(crate) const fn is_busy(&self) -> bool {
        self.table.counts().in_flight > 0
    }

    /// Ends every session; what is open gets an error.
    pub(crate) fn finish_shutdown(&mut self, now: Timestamp) {
        self.table.finish_shutdown();
        self.tick(now);
    }

    fn live(&self) -> Vec<SessionKey> {
        self.table.sessions().map(|(key, _)| key).collect()
    }

    fn call(&mut self, now: Timestamp, key: SessionKey, request: RequestKey, message: &Message) {
        if let Some(say) = self.app.call(now, key, request, message) {
            self.say(now, key, request, say);
        }
    }

    /// The app speaks.
    fn say(&mut self, now: Timestamp, key: SessionKey, request: RequestKey, say: Say) {
        if let Say::Shout { note, .. } = &say {
            for other in self.live() {
                if let Some(session) = self.sessions.get_mut(&other) {
                    session.push_call_note(now, &self.config.session, note.clone(), None);
                }
                self.settle(now, other);
            }
        }
        let Some(session) = self.sessions.get_mut(&key) else { return };
        match say {
            Say::Answer(raw) | Say::Shout { answer: raw, .. } => {
                session.handle_response(now, &self.config.session, request, raw);
            }
            Say::Note(raw) => session.push_call_note(now, &self.config.session, raw, Some(request)),
        }
        self.settle(now, key);
    }

    /// Does what a session asks for. Comes after every call to it.
    fn settle(&mut self, now: Timestamp, key: SessionKey) {
        while let Some(effect) = self.sessions.get_mut(&key).and_then(Session::poll_effect) {
            match effect {
                Effect::Alarm(at) => self.table.set_alarm(key, at),
                Effect::End(reason) => {
                    let reap = self.table.handle_task_exited(now, key, reason.into());
                    self.bury(now, reap);
                }
                Effect::Established => {
                    let version = self.sessions.get(&key).and_then(Session::version);
                    self.table.handle_initialized(now, key, version.unwrap_or(ProtocolVersion::ASSUMED));
                }
                Effect::Release => self.table.handle_response_finished(now, key),
                Effect::WakeCall(request) => self.app.cancel(key, Some(request)),
                Effect::WakeConnection(connection) => self.woken.extend(self.connections.get(&(key, connection))),
                // Events are kept in memory. This app asks its clients nothing, and has no task that could sleep.
                Effect::AskStore | Effect::WakeAnswer(_) | Effect::WakeApp => {}
            }
        }
        if self.sessions.get(&key).is_some_and(Session::is_drained) {
            self.sessions.remove(&key);
        }
    }

    /// Ends what hangs on a session that the table has reaped.
    fn bury(&mut self, now: Timestamp, reap: Option<Reap>) {
        let Some(Reap { key, reason, .. }) = reap else { return };
        println!("session closed: {}", reason.as_str());
        self.app.cancel(key, None);
        if let Some(session) = self.sessions.get_mut(&key) {
            session.end(reason.into());
        }
        self.settle(now, key);
    }
}

fn refuse(outcome: &Outcome, id: Option<&RequestId>, owes: Option<SessionKey>) -> Step {
    Step::Answer { response: outcome.respond(id), owes }
}

/// Whoever knows an id and is of its principal may use the session, so its bits must be unpredictable.
fn random_id() -> SessionId {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system's random generator works");
    SessionId::from_bytes(bytes)
}
