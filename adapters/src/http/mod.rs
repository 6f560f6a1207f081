//! HTTP: the service, its bodies, and serving on sockets of our own.

mod authenticate;
#[cfg(feature = "axum")]
pub mod axum;
mod body;
#[cfg(feature = "hyper")]
mod connection;
#[cfg(feature = "hyper")]
mod connections;
mod exchange;
#[cfg(feature = "hyper")]
mod io;
#[cfg(feature = "http2")]
mod multiplex;
#[cfg(feature = "hyper")]
mod protocol;
mod read;
#[cfg(feature = "hyper")]
mod serve;
mod service;
mod tools;

pub use authenticate::{Authenticate, BearerTokens, BearerTokensError, CredentialsError};
pub use body::Body;
#[cfg(feature = "hyper")]
pub use serve::{ServeConfig, serve};
pub use service::{McpService, ResponseFuture};
pub(crate) use tools::Tools;
