//! HTTP: the service, its bodies, and serving on sockets of our own.

mod body;
mod exchange;
mod read;
mod service;

pub use body::Body;
pub use service::{McpService, ResponseFuture};
