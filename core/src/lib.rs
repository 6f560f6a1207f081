//! The pure core of sessile.
pub mod config;
mod event;
pub mod gate;
mod id;
mod message;
mod outcome;
pub mod session;
mod slab;
pub mod sse;
pub mod table;
mod time;
mod timers;
mod version;

pub use config::{Config, ConfigError};
pub use event::{Action, Event};
pub use gate::{
    BodyAction, Gate, GetHead, HeadAction, LAST_EVENT_ID, LastEventId, MCP_PROTOCOL_VERSION, MCP_SESSION_ID, PostHead,
    SessionHeader, VersionHeader,
};
pub use id::{EventId, Fingerprint, FingerprintKey, IdSource, RequestId, SessionId, SessionKey};
pub use message::{Initialize, Message, MessageError, MessageKind, Notification, Request, Response};
pub use outcome::Outcome;
pub use table::{
    CloseReason, Reap, ReapReason, Rejection, RequestAction, RequestHead, SessionInfo, SessionTable, TaskExit,
};
pub use time::Timestamp;
pub use version::ProtocolVersion;
