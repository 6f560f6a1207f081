//! One session: requests in flight, streams, and the messages between client and app.
//!
//! Owns which request is in flight, which message belongs to which stream and in which order a reader gets
//! them: the stream's log is the truth, a connection is a cursor. Does not own who may use the session or when
//! it is idle (the table does), nor sockets, tasks or wakers: it names connections and calls by handles, and what
//! follows from an input is told by [`Session::poll_effect`], drained after every call. Phases and streams are drawn on
//! the [front page](crate#states).
//!
//! Rests on 2025-11-25, basic, transports (sending messages, listening, multiple connections) and cancellation.

mod app;
mod batch;
mod calls;
mod depot;
mod end;
mod inbox;
mod log;
mod outgoing;
mod outside;
mod reader;
mod request;
mod resume;
mod sorted;
mod store;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use app::Relation;
pub use batch::{BatchAction, BatchCall};
pub use end::EndReason;
pub use inbox::Inbound;
pub use outgoing::{AnswerError, ServerRequestKey};
pub use outside::{OutsideNote, OutsideNoteError};
pub use reader::{Disconnect, Head, ReaderOutput};
pub use store::{StoreRead, StoreRequest, StoreTicket, StoredEvent};
pub use stream::{ConnectionKey, RequestKey};

use crate::config::{ResponseMode, SessionConfig};
use crate::id::RequestId;
use crate::message::{Message, MessageKind};
use crate::outcome::Outcome;
use crate::session::calls::NoteCalls;
use crate::session::inbox::Inbox;
use crate::session::outgoing::ServerRequest;
use crate::session::outside::Resources;
use crate::session::resume::Kept;
use crate::session::sorted::SortedMap;
use crate::session::store::Desk;
use crate::session::stream::{RequestStream, Standalone};
use crate::slab::Slab;
use crate::time::Timestamp;
use crate::version::ProtocolVersion;

/// One session. `X` is what a driver attaches to each message of the client.
///
/// Every method that may change something is followed by [`Session::poll_effect`] until it gives `None`.
#[derive(Debug)]
pub struct Session<X> {
    delivery: Delivery,
    kind: Kind,
    phase: Phase,
    draining: bool,
    version: Option<ProtocolVersion>,
    streams: Slab<RequestStream>,
    in_flight: SortedMap<RequestId, RequestKey>,
    standalone: Option<Box<Standalone>>,
    /// What its client has subscribed to, once it has.
    resources: Option<Box<Resources>>,
    /// What resuming needs, once an event was numbered.
    kept: Option<Box<Kept>>,
    /// What waits for the store, once anything was asked of it.
    desk: Option<Box<Desk>>,
    outgoing: SortedMap<RequestId, ServerRequest>,
    inbox: Inbox<X>,
    note_calls: NoteCalls,
    effects: VecDeque<Effect>,
    serial: u64,
    /// A time before which nothing is due here; `MAX` if nothing ever is.
    deadline: Timestamp,
    counters: Counters,
}

/// How the app gets the client's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The driver calls the app with each message, which [`Session::handle_message`] gives back.
    Call,
    /// They wait in the inbox for an app that runs as long as the session.
    Inbox,
}

/// What kind of conversation it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One request of the modern era (2026-07-28): a client that goes cancels it, and the status of the answer is the app's.
    Modern,
    /// A session, from `initialize` to its end.
    Session,
    /// One request of the legacy era that is served without a session.
    Stateless,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    Starting {
        request: RequestKey,
        until: Timestamp,
    },
    Open,
    /// The start has come to nothing: the driver was told to end the session, and nothing else happens any more.
    Failed,
    Ended(EndReason),
}

/// Buffers with room for more than this are given back once they are empty.
const LARGE: usize = 8;

/// What a message of the client leads to.
#[derive(Debug)]
#[must_use]
pub enum MessageAction<X> {
    /// A notification or response was taken in: 202.
    Accepted {
        /// The message, for a session whose app is called and has to see it. Of a notification the driver owes one
        /// [`Session::handle_note_done`].
        call: Option<Inbound<X>>,
    },
    /// A request is in flight now; its answer leaves through `connection`, whose head is held.
    Open {
        /// The message, for a session whose app is called.
        call: Option<Inbound<X>>,
        /// The connection that reads the request's stream.
        connection: ConnectionKey,
        /// The request.
        request: RequestKey,
    },
    /// It was refused and has left nothing behind.
    Refuse {
        /// The request's id.
        id: Option<RequestId>,
        /// Why.
        outcome: Outcome,
    },
}

/// What a driver has to do because of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Come back with [`Session::handle_timeout`] at this time, which may have changed.
    Alarm(Option<Timestamp>),
    /// There is something to ask of the store: call [`Session::poll_store_request`] until it gives `None`.
    AskStore,
    /// The session is over: reap it, by [`handle_task_exited`](crate::SessionTable::handle_task_exited) with the exit that the reason
    /// converts into.
    End(EndReason),
    /// The app has answered `initialize` with a result.
    Established,
    /// A request that had outlived its connection has ended, or has a connection again: give one exchange of the session
    /// back. Once for each time that the session was told to keep one.
    Release,
    /// The answer to a request of the app is there.
    WakeAnswer(ServerRequestKey),
    /// The app has something to receive, or to learn that the session is over.
    WakeApp,
    /// The request was cancelled or has expired: the call that answers it should stop.
    WakeCall(RequestKey),
    /// A reader has something to read.
    WakeConnection(ConnectionKey),
}

/// What a session has taken in, what was dropped and what came to nothing, counted since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Cancellations of the client that name no request in flight.
    pub cancellations_unmatched: u32,
    /// Responses of the client to no request of the app.
    pub client_responses_unmatched: u32,
    /// Notifications dropped for want of room or of a way to the client.
    pub notes_dropped: u32,
    /// Requests of the client taken in.
    pub requests: u64,
    /// Requests that the client has cancelled.
    pub requests_cancelled: u32,
    /// Requests ended because they had no connection, or took too long.
    pub requests_expired: u32,
    /// Resumes of the standalone stream that could not go on from where the client was; also readers of what the store no longer had,
    /// or had when the session ended.
    pub resumed_with_gap: u32,
    /// Responses of the app to no request in flight.
    pub responses_unmatched: u32,
    /// Requests of the app that were answered with an error here.
    pub server_requests_failed: u32,
    /// Appends and reads that the store has failed, took too long for, or answered with what can't be right.
    pub store_failures: u32,
    /// Answers of the store that nobody waited for any more.
    pub store_late: u32,
}

impl<X> Session<X> {
    /// A session that waits for its `initialize`.
    #[must_use]
    pub fn new(delivery: Delivery) -> Self {
        Self {
            delivery,
            kind: Kind::Session,
            phase: Phase::New,
            draining: false,
            version: None,
            streams: Slab::default(),
            in_flight: SortedMap::default(),
            standalone: None,
            resources: None,
            kept: None,
            desk: None,
            outgoing: SortedMap::default(),
            inbox: Inbox::default(),
            note_calls: NoteCalls::default(),
            effects: VecDeque::new(),
            serial: 0,
            deadline: Timestamp::MAX,
            counters: Counters::default(),
        }
    }

    /// The life of one request that belongs to no session. It has neither a standalone stream nor requests of the app, and a driver
    /// ends it when the exchange is over.
    #[must_use]
    pub fn sessionless(delivery: Delivery, kind: Kind) -> Self {
        Self { kind, phase: Phase::Open, ..Self::new(delivery) }
    }

    /// What was negotiated, once it was. `None` too if the app negotiated something unknown.
    #[must_use]
    pub const fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }

    /// Whether a head that leaves now may carry the session's id: not on an error, and not once the app has refused
    /// to begin.
    #[must_use]
    pub const fn announces_id(&self) -> bool {
        matches!(self.kind, Kind::Session) && matches!(self.phase, Phase::Open | Phase::Starting { .. })
    }

    /// How many requests of the client are in flight.
    #[must_use]
    pub fn requests_in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Whether this request has neither been answered nor cancelled.
    #[must_use]
    pub fn is_in_flight(&self, request: RequestKey) -> bool {
        self.member(request).is_some_and(|member| member.open)
    }

    /// The id of a request in flight.
    #[must_use]
    pub fn request_id(&self, request: RequestKey) -> Option<&RequestId> {
        self.member(request).filter(|member| member.open).map(|member| &member.id)
    }

    /// The request in flight with this id.
    #[must_use]
    pub fn request_with_id(&self, id: &RequestId) -> Option<RequestKey> {
        self.in_flight.get(id).copied()
    }

    /// Why the session is over, if it is.
    #[must_use]
    pub const fn ended(&self) -> Option<EndReason> {
        match self.phase {
            Phase::Ended(reason) => Some(reason),
            Phase::Failed | Phase::New | Phase::Open | Phase::Starting { .. } => None,
        }
    }

    /// Whether the session has ended and no reader has anything left to read: it can be dropped.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        matches!(self.phase, Phase::Ended(_)) && self.streams.is_empty() && self.standalone.is_none()
    }

    const fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Ended(_) | Phase::Failed)
    }

    /// What has been counted so far.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        self.counters
    }

    /// The next thing to do because of earlier inputs, until `None`.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        let effect = self.effects.pop_front();
        if effect.is_none() && self.effects.capacity() > LARGE {
            self.effects = VecDeque::new();
        }
        effect
    }

    /// A message of the client, which the gate has let through. `mode` is how a request wants to be answered.
    ///
    /// A request with an id that is in flight is refused and cannot disturb the first. Notifications and responses are
    /// taken in even if they name something unknown or late, since clients end on a refusal.
    pub fn handle_message(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        message: Message,
        context: X,
        mode: ResponseMode,
    ) -> MessageAction<X> {
        let refuse = |id: Option<RequestId>, outcome| MessageAction::Refuse { id, outcome };
        if self.is_over() {
            let id = message.as_request().map(|request| request.id.clone());
            return refuse(id, Outcome::SessionNotFound);
        }
        match message.kind() {
            MessageKind::Request(request) => match self.admit(config, request, message.raw().len()) {
                Err(outcome) => refuse(Some(request.id.clone()), outcome),
                Ok(()) => {
                    let Some((request, connection)) = self.open_stream(now, config, request, mode) else {
                        return refuse(Some(request.id.clone()), Outcome::TooManyRequests);
                    };
                    MessageAction::Open { call: self.deliver(message, context), connection, request }
                }
            },
            MessageKind::Notification(_) => {
                if self.notes_are_full(config, message.raw().len()) {
                    return refuse(None, Outcome::InboxFull { request: false });
                }
                MessageAction::Accepted { call: self.take_in(now, config, message, context) }
            }
            MessageKind::Response(response) => {
                let awaited = response.id.as_ref().is_some_and(|id| self.awaits_answer(id));
                if awaited && self.inbox_is_full(config, 2, message.raw().len()) {
                    return refuse(None, Outcome::InboxFull { request: false });
                }
                MessageAction::Accepted { call: self.take_in(now, config, message, context) }
            }
        }
    }

    /// Takes in a notification or a response, for which there is room.
    fn take_in(&mut self, now: Timestamp, config: &SessionConfig, message: Message, context: X) -> Option<Inbound<X>> {
        match message.kind() {
            MessageKind::Notification(note) => {
                if note.method == "notifications/cancelled" && !self.cancel(now, config, note) {
                    return None;
                }
                self.begin_note(message.raw().len());
                self.deliver(message, context)
            }
            MessageKind::Response(response) => {
                match response.id.clone().filter(|id| self.awaits_answer(id)) {
                    Some(id) => self.handle_answer(&id, message, context),
                    None => self.counters.client_responses_unmatched += 1,
                }
                None
            }
            MessageKind::Request(_) => None,
        }
    }

    /// The next message for an app that runs as long as the session.
    pub fn poll_inbox(&mut self) -> Option<Inbound<X>> {
        self.inbox.pop()
    }

    /// Gives a message to the app: into the inbox, or back to a driver that calls it.
    fn deliver(&mut self, message: Message, context: X) -> Option<Inbound<X>> {
        let inbound = Inbound { message, context: Some(context) };
        match self.delivery {
            Delivery::Call => Some(inbound),
            Delivery::Inbox => {
                self.push_inbox(inbound);
                None
            }
        }
    }

    fn push_inbox(&mut self, inbound: Inbound<X>) {
        self.inbox.push(inbound);
        self.effects.push_back(Effect::WakeApp);
    }

    fn inbox_is_full(&self, config: &SessionConfig, times: usize, len: usize) -> bool {
        self.delivery == Delivery::Inbox && self.inbox.is_full(config, times, len)
    }

    /// Remembers that something is due at `at`. The alarm is only ever moved forward here; what has become void is noticed
    /// when it rings.
    fn expect(&mut self, at: Timestamp) {
        if at < self.deadline {
            self.deadline = at;
            self.effects.push_back(Effect::Alarm(Some(at)));
        }
    }
}
