//! What the table is asked and what it answers, as data.
//!
//! Owns the words of the table and the way from a rejection to its outcome. Does not own the decisions.

use crate::id::{SessionId, SessionKey};
use crate::outcome::Outcome;
use crate::version::ProtocolVersion;

/// What the table needs to know of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a, P> {
    /// The id in the session header, if there is one.
    pub session: Option<SessionId>,
    /// Who asks: the verified identity.
    pub principal: &'a P,
    /// Whether it is a complete, valid `initialize`, the only request that may open a session. It makes no difference
    /// where a session is named: a name that is unknown is never adopted.
    pub may_create: bool,
}

/// What becomes of a request. Exhaustive on purpose: a driver must handle all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a session that was created or an exchange that was counted must be handled"]
pub enum RequestAction {
    /// There is a new session, with this exchange in flight.
    Create {
        /// Its handle.
        key: SessionKey,
        /// Its name on the wire.
        id: SessionId,
        /// The session that made room for it, if one had to. Its slot is not the new one's.
        evicted: Option<Reap>,
    },
    /// The session has one more exchange in flight.
    Route {
        /// Its handle.
        key: SessionKey,
        /// What was negotiated, once it was.
        version: Option<ProtocolVersion>,
    },
    /// It is refused, and nothing has changed.
    Reject(Rejection),
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rejection {
    /// All sessions are taken and none may be evicted.
    AtCapacity {
        /// Seconds to the next idle deadline, rounded up, 1 to 60; 60 if no session is idle.
        retry_after: u8,
    },
    /// The session belongs to another principal, which the client must not learn.
    ForeignPrincipal,
    /// The source of ids gave only ids that are in use.
    IdsExhausted,
    /// The request names no session and may not open one.
    MissingSession,
    /// The principal has as many sessions as it may have.
    PrincipalAtCapacity,
    /// New sessions are no longer opened, or nothing is served any longer.
    ShuttingDown,
    /// No live session has this id.
    UnknownSession,
}

impl Rejection {
    /// How the exchange ends. A foreign session and an unknown one are the same here.
    #[must_use]
    pub const fn outcome(self) -> Outcome {
        match self {
            Self::AtCapacity { retry_after } => Outcome::TableFull { retry_after },
            Self::ForeignPrincipal | Self::UnknownSession => Outcome::SessionNotFound,
            Self::IdsExhausted => Outcome::TableFull { retry_after: 1 },
            Self::MissingSession => Outcome::MissingSession,
            Self::PrincipalAtCapacity => Outcome::TooManyRequests,
            Self::ShuttingDown => Outcome::ShuttingDown,
        }
    }

    /// The reason for the log, which tells foreign from unknown.
    #[must_use]
    pub const fn log_reason(self) -> &'static str {
        match self {
            Self::AtCapacity { .. } => "at capacity",
            Self::ForeignPrincipal => "foreign principal",
            Self::IdsExhausted => "session ids exhausted",
            Self::MissingSession => "missing session id",
            Self::PrincipalAtCapacity => "principal at capacity",
            Self::ShuttingDown => "shutting down",
            Self::UnknownSession => "unknown session",
        }
    }
}

/// A session has ended and is gone from the table. There is exactly one for each session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "what hangs on the session must be ended with it"]
pub struct Reap {
    /// Its handle, dead from now on.
    pub key: SessionKey,
    /// Its name on the wire, unknown from now on.
    pub id: SessionId,
    /// Why it ended.
    pub reason: ReapReason,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReapReason {
    /// The client left before the head of `initialize`.
    Abandoned,
    /// The app's task failed.
    Crashed,
    /// The client ended it by DELETE.
    Deleted,
    /// Whoever runs the server ended it.
    Dismissed,
    /// It was idle and made room for another.
    Evicted,
    /// The app's task returned.
    Finished,
    /// It was idle for the idle timeout.
    Idle,
    /// It was as old as a session may get.
    Lifetime,
    /// No exchange came within the init timeout after the answer to `initialize`.
    NeverInitialized,
    /// The table was shut down.
    Shutdown,
}

impl ReapReason {
    /// All of them, in the order of their names.
    pub const ALL: [Self; 10] = [
        Self::Abandoned,
        Self::Crashed,
        Self::Deleted,
        Self::Dismissed,
        Self::Evicted,
        Self::Finished,
        Self::Idle,
        Self::Lifetime,
        Self::NeverInitialized,
        Self::Shutdown,
    ];

    /// The reason for logs and labels.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Abandoned => "abandoned",
            Self::Crashed => "crashed",
            Self::Deleted => "deleted",
            Self::Dismissed => "dismissed",
            Self::Evicted => "evicted",
            Self::Finished => "finished",
            Self::Idle => "idle",
            Self::Lifetime => "lifetime",
            Self::NeverInitialized => "never initialized",
            Self::Shutdown => "shutdown",
        }
    }
}

/// How the task of an app came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TaskExit {
    /// With an error or a panic.
    Crashed,
    /// It returned.
    Finished,
}

impl From<TaskExit> for ReapReason {
    fn from(exit: TaskExit) -> Self {
        match exit {
            TaskExit::Crashed => Self::Crashed,
            TaskExit::Finished => Self::Finished,
        }
    }
}

/// Why a driver closes a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CloseReason {
    /// The client left before the head of `initialize`.
    Abandoned,
    /// The client ended it by DELETE.
    Deleted,
    /// Whoever runs the server wants it to end: its principal may no longer use it, for one.
    Dismissed,
}

impl From<CloseReason> for ReapReason {
    fn from(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Abandoned => Self::Abandoned,
            CloseReason::Deleted => Self::Deleted,
            CloseReason::Dismissed => Self::Dismissed,
        }
    }
}
