//! The pure core of sessile.
pub mod config;
pub mod gate;
mod id;
mod message;
mod outcome;
pub mod session;
mod slab;
pub mod sse;
mod time;
mod version;

pub use config::{Config, ConfigError};
pub use gate::{
    BodyAction, Gate, GetHead, HeadAction, LAST_EVENT_ID, LastEventId, MCP_PROTOCOL_VERSION, MCP_SESSION_ID, PostHead,
    SessionHeader, VersionHeader,
};
pub use id::{EventId, Fingerprint, FingerprintKey, IdSource, RequestId, SessionId, SessionKey};
pub use message::{Initialize, Message, MessageError, MessageKind, Notification, Request, Response};
pub use outcome::Outcome;
pub use time::Timestamp;
pub use version::ProtocolVersion;
