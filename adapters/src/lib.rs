//! MCP sessions over Streamable HTTP.

pub mod app;
mod clock;
pub mod http;
mod manager;
mod principal;
pub mod runtime;

pub use manager::{Builder, LifecycleError, Manager, SessionInfo};
pub use principal::Principal;
pub use sessile_core as core;
