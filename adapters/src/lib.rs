//! MCP (Model Context Protocol) servers over Streamable HTTP: sessions, streams, limits and a graceful end, under the runtime and the
//! HTTP stack of your choice.
//!
//! The decisions are taken in [`sessile_core`], a set of pure state machines; this crate is what is impure, and thin:
//!
//! | module | what it is |
//! | --- | --- |
//! | [`app`] | the servers behind the sessions: [`app::Handler`] answers message by message, [`app::App`] runs for the whole session |
//! | [`Manager`] | the sessions of one app; started, served from, looked at, shut down |
//! | [`Hooks`] | what you are told of the life of the sessions |
//! | [`http`] | [`http::McpService`], a `tower_service::Service` for any body, and `serve` on sockets of our own |
//! | [`runtime`] | what is needed of an async runtime, and its bindings |
//!
//! # A server in a few lines
//!
//! ```no_run
//! use sessile::app::Demo;
//! # #[cfg(all(feature = "tokio", feature = "hyper"))]
//! use sessile::http::{ServeConfig, serve};
//! # #[cfg(all(feature = "tokio", feature = "hyper"))]
//! use sessile::{Builder, runtime::tokio::Tokio};
//!
//! # #[cfg(all(feature = "tokio", feature = "hyper"))]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Tokio::current();
//! let manager = Builder::new(runtime.clone()).handler(Demo::new()).build()?;
//! manager.start()?;
//! let listener = std::net::TcpListener::bind("127.0.0.1:8080")?;
//! let shutdown = std::future::pending();
//! serve(runtime, listener, manager.service()?.path("/mcp"), ServeConfig::default(), shutdown).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Sockets that are not ours
//!
//! Mounted in a server of your own, the service answers but the sockets are yours. Set `TCP_NODELAY`, or small answers wait for the
//! client's delayed acknowledgement (some 40 ms). Let a peer that vanishes without a word be noticed: writes to it go on succeeding, so
//! that only `TCP_USER_TIMEOUT`, TCP keep-alive or a deadline on pending writes ends its streams. hyper takes a client that has
//! closed its sending half for gone, and notices a disconnect only when no pipelined request lies before it.
//!
//! # Features
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `async-std` | `runtime::async_std`; async-std itself is discontinued, and stays supported here |
//! | `axum` | `http::axum`: mounting the service in axum's router |
//! | `cli` (default) | the program `sessile`, on tokio |
//! | `http2` | HTTP/2 with prior knowledge for `http::serve`, on the same sockets |
//! | `hyper` | `http::serve`: HTTP/1.1 on sockets of our own, TCP and Unix |
//! | `rmcp` | [`app::RmcpApp`](app): handlers of the crate rmcp on our sessions |
//! | `smol` | `runtime::smol` |
//! | `stdio` | `app::stdio`: a child process for each session |
//! | `tokio` | `runtime::tokio` |
//!
//! They add to each other in any combination. Without a runtime the service is all there, for a [`runtime::Runtime`] of your own.

pub mod app;
#[cfg(feature = "cli")]
pub mod cli;
mod clock;
pub mod http;
mod manager;
mod principal;
pub mod runtime;
mod trace;

pub use manager::{
    Builder, ClientInfo, Hooks, Initialized, LifecycleError, Manager, RefusedCounts, RequestCounts, SessionInfo,
    SessionSummary, Stats,
};
pub use principal::Principal;
pub use sessile_core as core;
pub use sessile_core::session::OutsideNoteError;

/// The Rust in the README compiles and runs.
#[cfg(all(doctest, feature = "tokio", feature = "hyper"))]
#[doc = include_str!("../../README.md")]
struct Readme;
