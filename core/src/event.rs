//! The table as data: one [`Event`] in, one [`Action`] out.
//!
//! Owns the translation and nothing else; the machine is [`SessionTable`]. Replay, fuzzing, logs and simple drivers use
//! it.
//!
//! ```
//! use sessile_core::config::TableConfig;
//! use sessile_core::{Action, Event, SessionId, SessionTable, Timestamp};
//!
//! let mut table = SessionTable::new(TableConfig::default())?;
//! let mut ids = || SessionId::from_bytes([7; 16]);
//! let event = Event::RequestArrived { session: None, principal: "alice", may_create: true };
//! assert!(matches!(table.handle_event(Timestamp::ZERO, event, &mut ids), Action::Create { .. }));
//!
//! // A driver ticks until it may sleep.
//! while !matches!(table.handle_event(Timestamp::ZERO, Event::Tick, &mut ids), Action::Idle { .. }) {}
//! # Ok::<(), sessile_core::ConfigError>(())
//! ```

use crate::id::{IdSource, SessionId, SessionKey};
use crate::table::{CloseReason, Reap, Rejection, RequestAction, RequestHead, SessionTable, TaskExit};
use crate::time::Timestamp;
use crate::version::ProtocolVersion;

/// What can happen to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<P> {
    /// See [`SessionTable::begin_shutdown`].
    BeginShutdown,
    /// See [`SessionTable::handle_close`].
    Close {
        /// The session.
        key: SessionKey,
        /// Why.
        reason: CloseReason,
    },
    /// See [`SessionTable::finish_shutdown`].
    FinishShutdown,
    /// See [`SessionTable::handle_initialized`].
    Initialized {
        /// The session.
        key: SessionKey,
        /// What was negotiated.
        version: ProtocolVersion,
    },
    /// See [`SessionTable::handle_request`].
    RequestArrived {
        /// The id in the session header, if there is one.
        session: Option<SessionId>,
        /// Who asks.
        principal: P,
        /// Whether it is a complete, valid `initialize`.
        may_create: bool,
    },
    /// See [`SessionTable::handle_response_finished`].
    ResponseFinished {
        /// The session.
        key: SessionKey,
    },
    /// See [`SessionTable::set_alarm`].
    SetAlarm {
        /// The session.
        key: SessionKey,
        /// When, if at all.
        at: Option<Timestamp>,
    },
    /// See [`SessionTable::handle_task_exited`].
    TaskExited {
        /// The session.
        key: SessionKey,
        /// How.
        exit: TaskExit,
    },
    /// Time has passed. See [`SessionTable::poll_reap`] and [`SessionTable::poll_alarm`].
    Tick,
}

/// What a driver must do. Exhaustive on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an action that is not carried out is lost"]
pub enum Action {
    /// The alarm of this session is due. Tick again.
    Alarm {
        /// The session.
        key: SessionKey,
    },
    /// See [`RequestAction::Create`].
    Create {
        /// The new session.
        key: SessionKey,
        /// Its name on the wire.
        id: SessionId,
        /// The session that made room, if one had to.
        evicted: Option<Reap>,
    },
    /// Nothing, until `next`. After a tick nothing is due before it; after another event it may have passed already,
    /// which means to tick at once.
    Idle {
        /// The next deadline, if there is one.
        next: Option<Timestamp>,
    },
    /// A session has ended. Where a tick said so: tick again.
    Reap(Reap),
    /// See [`RequestAction::Reject`].
    Reject(Rejection),
    /// See [`RequestAction::Route`].
    Route {
        /// The session.
        key: SessionKey,
        /// What was negotiated, once it was.
        version: Option<ProtocolVersion>,
    },
}

impl From<RequestAction> for Action {
    fn from(action: RequestAction) -> Self {
        match action {
            RequestAction::Create { key, id, evicted } => Self::Create { key, id, evicted },
            RequestAction::Reject(rejection) => Self::Reject(rejection),
            RequestAction::Route { key, version } => Self::Route { key, version },
        }
    }
}

impl<P: Eq + Clone> SessionTable<P> {
    /// Handles one event. A tick yields what is due one by one, reaps before alarms, and `Idle` last; every other event
    /// yields its one consequence, or `Idle` if it has none.
    pub fn handle_event(&mut self, now: Timestamp, event: Event<P>, ids: &mut impl IdSource) -> Action {
        let reaped = match event {
            Event::BeginShutdown => {
                self.begin_shutdown();
                None
            }
            Event::Close { key, reason } => self.handle_close(now, key, reason),
            Event::FinishShutdown => {
                self.finish_shutdown();
                None
            }
            Event::Initialized { key, version } => {
                self.handle_initialized(now, key, version);
                None
            }
            Event::RequestArrived { session, principal, may_create } => {
                let head = RequestHead { session, principal: &principal, may_create };
                return self.handle_request(now, head, ids).into();
            }
            Event::ResponseFinished { key } => {
                self.handle_response_finished(now, key);
                None
            }
            Event::SetAlarm { key, at } => {
                self.set_alarm(key, at);
                None
            }
            Event::TaskExited { key, exit } => self.handle_task_exited(now, key, exit),
            Event::Tick => match self.poll_reap(now) {
                Some(reap) => Some(reap),
                None => match self.poll_alarm(now) {
                    Some(key) => return Action::Alarm { key },
                    None => None,
                },
            },
        };
        match reaped {
            Some(reap) => Action::Reap(reap),
            None => Action::Idle { next: self.next_deadline() },
        }
    }
}
