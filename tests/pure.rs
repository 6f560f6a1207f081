//! A driver of the core without sockets, tasks and clocks: it composes gate, table and session as the front page of
//! [`sessile_core`] says, one exchange step by step, in virtual time.
//!
//! Owns the exchanges and the speech of a scripted app. Decides nothing that the core decides, so a suite that
//! runs over it and over the adapters tells which of the two a fault is in.

pub mod script;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode};
use sessile_core::session::{
    ConnectionKey, Delivery, Disconnect, Effect, EndReason, Head, MessageAction, ReaderOutput, Relation, RequestKey,
    Session,
};
use sessile_core::table::CloseReason;
use sessile_core::{
    BodyAction, Config, ConfigError, Gate, GetHead, HeadAction, LastEventId, MCP_SESSION_ID, Message, Outcome,
    PostHead, ProtocolVersion, Reap, ReapReason, RequestAction, RequestHead, RequestId, SessionId, SessionKey,
    SessionTable, TaskExit, Timestamp,
};

use script::Say;

/// The body of a request, as far as it comes.
#[derive(Clone, Debug)]
pub enum Upload {
    /// Its last byte never comes.
    Never,
    /// All of it is there.
    Whole(Bytes),
}

/// What a client has got of an answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Status and headers, once they have left.
    pub head: Option<(StatusCode, HeaderMap)>,
    /// The bytes of the body so far.
    pub body: Vec<u8>,
    /// Whether it is complete.
    pub done: bool,
}

/// The handle of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeKey(usize);

/// Gate, table and sessions with their scripted apps, and the exchanges of their clients.
#[derive(Debug)]
pub struct World {
    config: Config,
    delivery: Delivery,
    exchanges: Vec<Exchange>,
    gate: Gate,
    /// The app reads its inbox no further than `initialize`.
    deaf: bool,
    ids: u128,
    now: Timestamp,
    reaped: Vec<ReapReason>,
    serial: u64,
    /// Ended ones too, for the connections that still read them.
    sessions: BTreeMap<SessionKey, Session<()>>,
    /// What apps will do, in order.
    speech: BTreeMap<(Timestamp, u64), Speech>,
    started: usize,
    table: SessionTable<Option<String>>,
    names: BTreeMap<SessionKey, SessionId>,
}

#[derive(Debug)]
struct Exchange {
    answer: Answer,
    id: Option<RequestId>,
    initialize: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    Done,
    Held { key: SessionKey, connection: ConnectionKey, until: Option<Timestamp> },
    Streaming { key: SessionKey, connection: ConnectionKey },
    Uploading { key: Option<SessionKey>, until: Timestamp },
}

#[derive(Debug)]
struct Speech {
    key: SessionKey,
    request: RequestKey,
    id: RequestId,
    say: Say,
}

impl World {
    /// A manager without sessions, at time zero.
    ///
    /// # Errors
    ///
    /// A setting that can't be served.
    pub fn new(config: Config, delivery: Delivery) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            gate: Gate::new(&config.gate)?,
            table: SessionTable::new(config.table.clone())?,
            config,
            delivery,
            exchanges: Vec::new(),
            deaf: false,
            ids: 0,
            now: Timestamp::ZERO,
            reaped: Vec::new(),
            serial: 0,
            sessions: BTreeMap::new(),
            speech: BTreeMap::new(),
            started: 0,
            names: BTreeMap::new(),
        })
    }

    /// From now on apps with an inbox read nothing but `initialize`.
    pub const fn deafen(&mut self) {
        self.deaf = true;
    }

    /// How many sessions there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// How many apps were ever started.
    #[must_use]
    pub const fn started(&self) -> usize {
        self.started
    }

    /// Why sessions have ended, in order.
    #[must_use]
    pub fn reaped(&self) -> &[ReapReason] {
        &self.reaped
    }

    /// What the client of an exchange has got so far.
    #[must_use]
    pub fn answer(&self, exchange: ExchangeKey) -> &Answer {
        &self.exchanges[exchange.0].answer
    }

    /// A request arrives. Whatever can be said at once is said.
    pub fn request(&mut self, principal: Option<&str>, request: Request<Upload>) -> ExchangeKey {
        let (parts, upload) = request.into_parts();
        let exchange = self.exchanges.len();
        let answer = Answer::default();
        self.exchanges.push(Exchange { answer, id: None, initialize: false, state: State::Done });
        let principal = principal.map(str::to_owned);
        match self.gate.head(&parts) {
            HeadAction::Answer(outcome) => self.refuse_unread(exchange, &parts, &upload, &outcome),
            HeadAction::Delete(id) => match self.route(id, &principal) {
                Err(outcome) => self.refuse(exchange, None, &outcome),
                Ok(key) => {
                    let reap = self.table.handle_close(self.now, key, CloseReason::Deleted);
                    self.bury(reap);
                    self.refuse(exchange, None, &Outcome::Deleted);
                    self.table.handle_response_finished(self.now, key);
                }
            },
            HeadAction::Get(get) => match self.route(get.session, &principal) {
                Err(outcome) => self.refuse(exchange, None, &outcome),
                Ok(key) => self.open_standalone(exchange, key, &get),
            },
            HeadAction::Post(post) => self.post(exchange, &parts, &post, &principal, upload),
        }
        ExchangeKey(exchange)
    }

    /// The client of an exchange has gone.
    pub fn hang_up(&mut self, exchange: ExchangeKey) {
        let state = std::mem::replace(&mut self.exchanges[exchange.0].state, State::Done);
        match state {
            State::Done => {}
            State::Held { key, connection, .. } | State::Streaming { key, connection } => {
                let Some(session) = self.sessions.get_mut(&key) else { return };
                let disconnect = session.handle_disconnect(self.now, &self.config.session, connection);
                self.settle(key);
                if disconnect == Disconnect::Abandoned {
                    let reap = self.table.handle_close(self.now, key, CloseReason::Abandoned);
                    self.bury(reap);
                }
                if disconnect != Disconnect::Detached {
                    self.table.handle_response_finished(self.now, key);
                }
            }
            State::Uploading { key, .. } => {
                if let Some(key) = key {
                    self.table.handle_response_finished(self.now, key);
                }
            }
        }
    }

    /// Time passes, and everything that falls due in it happens in order.
    pub fn advance(&mut self, by: Duration) {
        let until = self.now.saturating_add(by);
        while let Some(next) = self.next_due().filter(|next| *next <= until) {
            self.now = self.now.max(next);
            self.run_due();
        }
        self.now = until;
    }

    /// Refuses new sessions; what is in flight goes on.
    pub fn begin_shutdown(&mut self) {
        self.table.begin_shutdown();
        let live: Vec<_> = self.table.sessions().map(|(key, _)| key).collect();
        for key in live {
            if let Some(session) = self.sessions.get_mut(&key) {
                session.begin_drain();
            }
            self.settle(key);
        }
    }

    /// Ends every session that is left.
    pub fn finish_shutdown(&mut self) {
        self.table.finish_shutdown();
        while let Some(reap) = self.table.poll_reap(self.now) {
            self.bury(Some(reap));
        }
    }

    fn route(&mut self, id: SessionId, principal: &Option<String>) -> Result<SessionKey, Outcome> {
        let head = RequestHead { session: Some(id), principal, may_create: false };
        match self.table.handle_request(self.now, head, &mut || unreachable!("routing makes no id")) {
            RequestAction::Route { key, .. } => Ok(key),
            RequestAction::Reject(rejection) => Err(rejection.outcome()),
            RequestAction::Create { .. } => unreachable!("a request that names a session creates none"),
        }
    }

    fn post(&mut self, exchange: usize, parts: &Parts, post: &PostHead, principal: &Option<String>, upload: Upload) {
        let key = match post.look_up().map(|id| self.route(id, principal)) {
            None => None,
            Some(Ok(key)) => Some(key),
            Some(Err(outcome)) => return self.refuse_unread(exchange, parts, &upload, &outcome),
        };
        match upload {
            Upload::Never => {
                let until = self.now.saturating_add(self.gate.body_timeout());
                self.exchanges[exchange].state = State::Uploading { key, until };
                return;
            }
            Upload::Whole(body) if body.len() > self.gate.max_body() => {
                self.refuse(exchange, None, &Outcome::BodyTooLarge);
                self.close_connection(exchange);
            }
            Upload::Whole(body) => match self.gate.body(post, key.is_some(), body) {
                BodyAction::Answer { outcome, id } => self.refuse(exchange, id.as_ref(), &outcome),
                BodyAction::Create(message) => {
                    let id = message.as_request().map(|request| request.id.clone());
                    return match self.create(principal) {
                        Ok(key) => self.deliver(exchange, key, post, message),
                        Err(outcome) => self.refuse(exchange, id.as_ref(), &outcome),
                    };
                }
                BodyAction::Deliver(message) => match key {
                    Some(key) => return self.deliver(exchange, key, post, message),
                    None => self.refuse(exchange, None, &Outcome::SessionNotFound),
                },
            },
        }
        if let Some(key) = key {
            self.table.handle_response_finished(self.now, key);
        }
    }

    fn create(&mut self, principal: &Option<String>) -> Result<SessionKey, Outcome> {
        let head = RequestHead { session: None, principal, may_create: true };
        let ids = &mut self.ids;
        let mut next = || {
            *ids += 1;
            // Far apart, so that no test takes one for another.
            SessionId::from_bytes(ids.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835).to_be_bytes())
        };
        match self.table.handle_request(self.now, head, &mut next) {
            RequestAction::Create { key, id, evicted } => {
                self.bury(evicted);
                self.sessions.insert(key, Session::new(self.delivery));
                self.names.insert(key, id);
                self.started += 1;
                Ok(key)
            }
            RequestAction::Reject(rejection) => Err(rejection.outcome()),
            RequestAction::Route { .. } => unreachable!("a request without a session is not routed"),
        }
    }

    fn deliver(&mut self, exchange: usize, key: SessionKey, post: &PostHead, message: Message) {
        let id = message.as_request().map(|request| request.id.clone());
        let initialize = message.as_request().is_some_and(|request| request.initialize.is_some());
        let Some(session) = self.sessions.get_mut(&key) else { return };
        match session.handle_message(self.now, &self.config.session, message, (), post.mode) {
            MessageAction::Accepted { .. } => self.refuse(exchange, None, &Outcome::Accepted),
            MessageAction::Refuse { id, outcome } => self.refuse(exchange, id.as_ref(), &outcome),
            MessageAction::Open { call, connection, request } => {
                self.exchanges[exchange] = Exchange {
                    answer: Answer::default(),
                    id: id.clone(),
                    initialize,
                    state: State::Held { key, connection, until: None },
                };
                self.settle(key);
                if let (Some(inbound), Some(id)) = (call, id) {
                    self.schedule(key, request, id, script::script(&inbound.message));
                }
                self.speak_due();
                return self.poll(exchange);
            }
        }
        self.settle(key);
        self.table.handle_response_finished(self.now, key);
    }

    fn open_standalone(&mut self, exchange: usize, key: SessionKey, get: &GetHead) {
        let position = match get.last_event_id {
            None => None,
            Some(LastEventId::Position(id)) => Some(id),
            Some(LastEventId::Unreadable) => {
                self.refuse(exchange, None, &Outcome::NotResumable);
                return self.table.handle_response_finished(self.now, key);
            }
        };
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let opened = session.open_standalone(&self.config.session, position);
        self.settle(key);
        match opened {
            Err(outcome) => {
                self.refuse(exchange, None, &outcome);
                self.table.handle_response_finished(self.now, key);
            }
            Ok(connection) => {
                self.exchanges[exchange].state = State::Streaming { key, connection };
                self.exchanges[exchange].answer.head = Some((StatusCode::OK, event_stream()));
                self.poll(exchange);
            }
        }
    }

    /// Decides a head that is held, and reads what a stream has.
    fn poll(&mut self, exchange: usize) {
        if let State::Held { key, connection, .. } = self.exchanges[exchange].state {
            let Some(session) = self.sessions.get_mut(&key) else { return };
            let head = session.poll_head(self.now, connection);
            let initialize = self.exchanges[exchange].initialize;
            let announced = initialize && session.announces_id();
            let mut headers = match head {
                Head::Hold { until } => {
                    self.exchanges[exchange].state = State::Held { key, connection, until };
                    return self.settle(key);
                }
                Head::Refuse(outcome) => {
                    self.exchanges[exchange].state = State::Done;
                    let id = self.exchanges[exchange].id.clone();
                    self.refuse(exchange, id.as_ref(), &outcome);
                    self.settle(key);
                    return self.table.handle_response_finished(self.now, key);
                }
                Head::Json(body) => {
                    let answer = &mut self.exchanges[exchange].answer;
                    answer.body = body.to_vec();
                    answer.done = true;
                    self.exchanges[exchange].state = State::Done;
                    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))])
                }
                Head::Stream => {
                    self.exchanges[exchange].state = State::Streaming { key, connection };
                    event_stream()
                }
            };
            if announced && let Some(id) = self.names.get(&key) {
                headers.insert(MCP_SESSION_ID, id.to_header());
            }
            self.exchanges[exchange].answer.head = Some((StatusCode::OK, headers));
            self.settle(key);
            if self.exchanges[exchange].answer.done {
                return self.table.handle_response_finished(self.now, key);
            }
        }
        if let State::Streaming { key, connection } = self.exchanges[exchange].state {
            let Some(session) = self.sessions.get_mut(&key) else { return };
            let mut out = BytesMut::new();
            let mut output = ReaderOutput::Ready;
            while output == ReaderOutput::Ready {
                output = session.poll_frames(&self.config.session, connection, &mut out, usize::MAX);
            }
            let answer = &mut self.exchanges[exchange].answer;
            answer.body.extend_from_slice(&out);
            answer.done = output == ReaderOutput::Finished;
            let done = answer.done;
            if done {
                self.exchanges[exchange].state = State::Done;
            }
            self.settle(key);
            if done {
                self.table.handle_response_finished(self.now, key);
            }
        }
    }

    /// Does what the effects of a session ask for.
    fn settle(&mut self, key: SessionKey) {
        while let Some(effect) = self.sessions.get_mut(&key).and_then(Session::poll_effect) {
            match effect {
                Effect::Alarm(at) => self.table.set_alarm(key, at),
                Effect::End(reason) => {
                    let exit = if reason == EndReason::NotStarted { TaskExit::Crashed } else { TaskExit::Finished };
                    let reap = self.table.handle_task_exited(self.now, key, exit);
                    self.bury(reap);
                }
                Effect::Established => {
                    let version = self.sessions.get(&key).and_then(Session::version);
                    self.table.handle_initialized(self.now, key, version.unwrap_or(ProtocolVersion::ASSUMED));
                }
                Effect::Release => self.table.handle_response_finished(self.now, key),
                Effect::WakeAnswer(_) => {}
                Effect::WakeApp => self.run_app(key),
                Effect::WakeCall(request) => {
                    self.speech.retain(|_, speech| (speech.key, speech.request) != (key, request));
                }
                Effect::WakeConnection(connection) => {
                    let woken = self.exchanges.iter().position(|exchange| match exchange.state {
                        State::Held { key: of, connection: at, .. } | State::Streaming { key: of, connection: at } => {
                            (of, at) == (key, connection)
                        }
                        State::Done | State::Uploading { .. } => false,
                    });
                    if let Some(exchange) = woken {
                        self.poll(exchange);
                    }
                }
            }
        }
    }

    /// An app that runs as long as its session reads its inbox.
    fn run_app(&mut self, key: SessionKey) {
        while let Some(inbound) = self.sessions.get_mut(&key).and_then(|session| {
            // A deaf app reads its first message and no other.
            (!self.deaf || session.version().is_none()).then(|| session.poll_inbox()).flatten()
        }) {
            let Some(id) = inbound.message.as_request().map(|request| request.id.clone()) else { continue };
            let request = self.sessions.get(&key).and_then(|session| session.request_with_id(&id));
            if let Some(request) = request {
                self.schedule(key, request, id, script::script(&inbound.message));
                self.speak_due();
            }
        }
    }

    fn schedule(&mut self, key: SessionKey, request: RequestKey, id: RequestId, says: Vec<Say>) {
        let mut at = self.now;
        for say in says {
            if let Say::Wait(time) = say {
                at = at.saturating_add(time);
                continue;
            }
            self.serial += 1;
            self.speech.insert((at, self.serial), Speech { key, request, id: id.clone(), say });
        }
    }

    fn speak_due(&mut self) {
        while let Some(first) = self.speech.first_entry().filter(|first| first.key().0 <= self.now) {
            let Speech { key, request, id, say } = first.remove();
            let config = &self.config.session;
            let Some(session) = self.sessions.get_mut(&key) else { continue };
            let related = Relation::Request(request);
            let (text, relation) = match say {
                Say::Crash => {
                    let reap = self.table.handle_task_exited(self.now, key, TaskExit::Crashed);
                    self.bury(reap);
                    continue;
                }
                Say::Wait(_) => continue,
                Say::Error(code, text) => (script::error(&id, code, &text), related),
                Say::Note(params) => (script::note(&params), related),
                Say::Result(result) => (script::result(&id, &result), related),
                Say::SessionNote(params) => (script::note(&params), Relation::Unrelated),
            };
            let message = Message::parse(text.into()).expect("a script writes messages");
            match (self.delivery, message.as_request().is_none() && message.method().is_none()) {
                (Delivery::Call, true) => session.handle_response(request, message.into_raw()),
                (Delivery::Call, false) => {
                    let related = (relation == related).then_some(request);
                    session.push_call_note(self.now, config, message.into_raw(), related);
                }
                (Delivery::Inbox, _) => session.handle_app_message(self.now, config, message, relation),
            }
            self.settle(key);
        }
    }

    fn next_due(&self) -> Option<Timestamp> {
        let held = self.exchanges.iter().filter_map(|exchange| match exchange.state {
            State::Held { until, .. } => until,
            State::Uploading { until, .. } => Some(until),
            State::Done | State::Streaming { .. } => None,
        });
        let speech = self.speech.keys().next().map(|(at, _)| *at);
        held.chain(speech).chain(self.table.next_deadline()).min()
    }

    fn run_due(&mut self) {
        self.speak_due();
        for exchange in 0..self.exchanges.len() {
            match self.exchanges[exchange].state {
                State::Held { until: Some(until), .. } if until <= self.now => self.poll(exchange),
                State::Uploading { key, until } if until <= self.now => {
                    self.exchanges[exchange].state = State::Done;
                    self.refuse(exchange, None, &Outcome::BodyTooSlow);
                    self.close_connection(exchange);
                    if let Some(key) = key {
                        self.table.handle_response_finished(self.now, key);
                    }
                }
                State::Done | State::Held { .. } | State::Streaming { .. } | State::Uploading { .. } => {}
            }
        }
        while let Some(reap) = self.table.poll_reap(self.now) {
            self.bury(Some(reap));
        }
        while let Some(key) = self.table.poll_alarm(self.now) {
            if let Some(session) = self.sessions.get_mut(&key) {
                session.handle_timeout(self.now, &self.config.session);
            }
            self.settle(key);
        }
    }

    fn bury(&mut self, reap: Option<Reap>) {
        let Some(reap) = reap else { return };
        self.reaped.push(reap.reason);
        let reason = match reap.reason {
            ReapReason::Crashed | ReapReason::Finished => EndReason::AppEnded,
            ReapReason::Shutdown => EndReason::Shutdown,
            ReapReason::Abandoned
            | ReapReason::Deleted
            | ReapReason::Evicted
            | ReapReason::Idle
            | ReapReason::Lifetime
            | ReapReason::NeverInitialized => EndReason::Closed,
        };
        self.speech.retain(|_, speech| speech.key != reap.key);
        if let Some(session) = self.sessions.get_mut(&reap.key) {
            session.end(reason);
        }
        self.settle(reap.key);
    }

    fn refuse(&mut self, exchange: usize, id: Option<&RequestId>, outcome: &Outcome) {
        let (head, body) = Response::into_parts(outcome.respond(id));
        let answer = &mut self.exchanges[exchange].answer;
        *answer = Answer { head: Some((head.status, head.headers)), body: body.to_vec(), done: true };
    }

    /// A refusal before the body was read: the connection can go on if the rest of the body comes, and is small.
    fn refuse_unread(&mut self, exchange: usize, parts: &Parts, upload: &Upload, outcome: &Outcome) {
        self.refuse(exchange, None, outcome);
        let drained = match upload {
            Upload::Never => false,
            Upload::Whole(body) => body.is_empty() || self.gate.may_drain(parts) && body.len() <= self.gate.max_body(),
        };
        if !drained {
            self.close_connection(exchange);
        }
    }

    fn close_connection(&mut self, exchange: usize) {
        if let Some((_, headers)) = &mut self.exchanges[exchange].answer.head {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

fn event_stream() -> HeaderMap {
    HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("text/event-stream")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform")),
        (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no")),
    ])
}
