//! A driver of the core without sockets, tasks and clocks: it composes gate, table and session as the front page of
//! [`sessile_core`] says, one exchange step by step, in virtual time.
//!
//! Owns the exchanges and the speech of a scripted app. Decides nothing that the core decides, so a suite that
//! runs over it and over the adapters tells which of the two a fault is in.

mod answers;
mod events;
pub mod script;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, Request, StatusCode};
use sessile_core::session::{
    BatchAction, BatchCall, ConnectionKey, Delivery, Disconnect, MessageAction, RequestKey, Session,
};
use sessile_core::table::CloseReason;
use sessile_core::{
    BodyAction, Config, ConfigError, CorsHeaders, Era, Eras, Gate, HeadAction, Message, Outcome, PostHead,
    ProtocolVersion, ReapReason, RequestAction, RequestHead, RequestId, SessionId, SessionKey, SessionTable, Timestamp,
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
    served: Eras,
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
    cors: Option<CorsHeaders>,
    /// That of the request, as far as it is known.
    era: Era,
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
            served: Eras::LEGACY,
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

    /// From now on these eras are served; before, the legacy one.
    pub const fn serve(&mut self, served: Eras) {
        self.served = served;
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
        let cors = self.gate.cors(&parts);
        let exchange = self.exchanges.len();
        let answer = Answer::default();
        self.exchanges.push(Exchange {
            answer,
            cors,
            era: Era::Legacy,
            id: None,
            initialize: false,
            state: State::Done,
        });
        let principal = principal.map(str::to_owned);
        match self.gate.head(self.served, &parts) {
            HeadAction::Answer { era, outcome } => {
                self.exchanges[exchange].era = era;
                self.refuse_unread(exchange, &parts, &upload, &outcome);
            }
            HeadAction::Delete(id) => match self.route(id, &principal) {
                Err(outcome) => self.refuse(exchange, None, &outcome),
                Ok((key, _)) => {
                    let reap = self.table.handle_close(self.now, key, CloseReason::Deleted);
                    self.bury(reap);
                    self.refuse(exchange, None, &Outcome::Deleted);
                    self.table.handle_response_finished(self.now, key);
                }
            },
            HeadAction::Get(get) => match self.route(get.session, &principal) {
                Err(outcome) => self.refuse(exchange, None, &outcome),
                Ok((key, _)) => self.open_standalone(exchange, key, &get),
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
                session.begin_drain(self.now, &self.config.session);
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

    fn route(
        &mut self,
        id: SessionId,
        principal: &Option<String>,
    ) -> Result<(SessionKey, Option<ProtocolVersion>), Outcome> {
        let head = RequestHead { session: Some(id), principal, may_create: false };
        match self.table.handle_request(self.now, head, &mut || unreachable!("routing makes no id")) {
            RequestAction::Route { key, version } => Ok((key, version)),
            RequestAction::Reject(rejection) => Err(rejection.outcome()),
            RequestAction::Create { .. } => unreachable!("a request that names a session creates none"),
        }
    }

    fn post(&mut self, exchange: usize, parts: &Parts, post: &PostHead, principal: &Option<String>, upload: Upload) {
        self.exchanges[exchange].era = post.era;
        let live = match post.look_up().map(|id| self.route(id, principal)) {
            None => None,
            Some(Ok(live)) => Some(live),
            Some(Err(outcome)) => return self.refuse_unread(exchange, parts, &upload, &outcome),
        };
        let (key, version) = live.unzip();
        match upload {
            Upload::Never => {
                let until = self.now.saturating_add(self.gate.body_timeout());
                self.exchanges[exchange].state = State::Uploading { key, until };
                return;
            }
            Upload::Whole(body) => match self.gate.body(self.served, &parts.headers, post, version, body) {
                BodyAction::Answer { era, id, outcome } => {
                    self.exchanges[exchange].era = era;
                    self.refuse(exchange, id.as_ref(), &outcome);
                    // There was more than is read.
                    if outcome == Outcome::BodyTooLarge {
                        self.close_connection(exchange);
                    }
                }
                BodyAction::Batch(messages) => match key {
                    Some(key) => return self.deliver_batch(exchange, key, post, messages),
                    None => self.refuse(exchange, None, &Outcome::SessionNotFound),
                },
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
                BodyAction::Sessionless(request) => self.answer_sessionless(exchange, &request),
                BodyAction::Stateless(message) => panic!("this world has sessions: {message:?}"),
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

    fn deliver_batch(&mut self, exchange: usize, key: SessionKey, post: &PostHead, messages: Vec<Message>) {
        let Some(session) = self.sessions.get_mut(&key) else { return };
        match session.handle_batch(self.now, &self.config.session, messages, &(), post.mode) {
            BatchAction::Accepted { .. } => self.refuse(exchange, None, &Outcome::Accepted),
            BatchAction::Refuse(outcome) => self.refuse(exchange, None, &outcome),
            BatchAction::Open { calls, connection, .. } => {
                let state = State::Held { key, connection, until: None };
                self.exchanges[exchange].state = state;
                self.settle(key);
                for BatchCall { inbound, request } in calls {
                    if let (Some(request), Some(asked)) = (request, inbound.message.as_request()) {
                        self.schedule(key, request, asked.id.clone(), script::script(&inbound.message));
                    }
                }
                self.speak_due();
                return self.poll(exchange);
            }
        }
        self.settle(key);
        self.table.handle_response_finished(self.now, key);
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
                    cors: self.exchanges[exchange].cors.take(),
                    era: Era::Legacy,
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
}
