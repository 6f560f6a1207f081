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
//! | [`store`] | where events can be kept for clients that come back, beside a bounded part in memory |
//!
//! The [`guide`] has a page for each kind of reader, whether you serve a server of your own, drive the core from your own loop, test
//! session logic or only run the program, and the tables of [limits](guide::limits) and [errors](guide::errors).
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
//! # Embedding
//!
//! The manager is a value, and `Clone`, `Send` and `Sync`: keep it where your server keeps its state, serve
//! [`Manager::service`] on a route, and use the rest from anywhere. It installs no signal handler, and spawns nothing before it is
//! started. [`Builder::build`] checks all settings and names the one that is wrong ([`core::ConfigError`]).
//!
//! | wish | how |
//! | --- | --- |
//! | hear of sessions that open and close | [`Builder::hooks`] |
//! | numbers | [`Manager::stats`] |
//! | look at sessions | [`Manager::list`], [`Manager::list_of`] a principal, [`Manager::find`] by fingerprint, [`Manager::session`] by key |
//! | tell clients something | [`Manager::notify`], [`Manager::notify_all`], [`Manager::notify_all_of`] a principal |
//! | end sessions | [`Manager::close`], [`Manager::close_because`], [`Manager::close_all_of`] a principal |
//! | end all | [`Manager::shutdown`] |
//!
//! ```
//! # #[cfg(feature = "tokio")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::time::Duration;
//!
//! use sessile::app::{Demo, SessionInfo};
//! use sessile::core::ReapReason;
//! use sessile::{Builder, Hooks, Principal, runtime::tokio::Tokio};
//!
//! struct Log;
//!
//! impl Hooks for Log {
//!     fn closed(&self, session: &SessionInfo, reason: ReapReason) {
//!         println!("{} is over: {}", session.fingerprint(), reason.as_str());
//!     }
//! }
//!
//! let manager = Builder::new(Tokio::current()).handler(Demo::new()).hooks(Log).build()?;
//! manager.start()?;
//! let service = manager.service()?; // for a route of your server; answers any `http::Request`
//!
//! for session in manager.list() {
//!     println!("{} of {}, open for {:?}", session.fingerprint, session.principal, session.age);
//!     manager.notify(session.key, "notifications/message", &serde_json::json!({ "level": "info", "data": "hello" }))?;
//! }
//! // Whoever wants to hear of it does, in sessions and in subscriptions alike.
//! manager.notify_all("notifications/tools/list_changed", &())?;
//! manager.close_all_of(&Principal::named("mallory"));
//!
//! // Calls may go on for ten seconds, and apps have two to return.
//! manager.shutdown(Duration::from_secs(10), Duration::from_secs(2)).await?;
//! # drop(service);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "tokio"))]
//! # fn main() {}
//! ```
//!
//! The example `embedded` is a whole server of that kind.
//!
//! # Spans
//!
//! Each message that an app sees is a `tracing` span of level `INFO` and target `sessile::mcp`, by the OpenTelemetry conventions for MCP
//! servers: `otel.name`, `mcp.method.name`, `mcp.protocol.version`, `jsonrpc.request.id`, `gen_ai.tool.name` and so on, and `error.type`
//! if it fails. A call of a [`app::Handler`] runs in its span; an [`app::App`] gets the span of a request from
//! [`app::Sender::span`]. Its parent is the span that the service is polled in. Members of a batch (2025-03-26) have spans only where
//! the app is called; the list of tools that is asked for here to check headers has one too.
//!
//! - There is no `mcp.session.id`: whoever knows a session's id, and is of its principal, can use the session. `sessile.session` is its
//!   fingerprint, which names it in logs too.
//! - `mcp.resource.uri` is without user information, query and fragment, which may hold credentials, and what a client chooses is cut.
//! - The trace context of a client, `traceparent` and its like in `params._meta` (SEP-414; 2026-07-28, basic, `_meta`), goes to the app
//!   unchanged, and is not read here. The header `traceparent` is for the HTTP server around.
//! - Where no subscriber wants them, spans cost nothing but a look at that.
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
#[cfg(doc)]
pub mod guide;
pub mod http;
mod manager;
mod principal;
pub mod runtime;
pub mod store;
mod trace;

pub use manager::{
    Builder, ClientInfo, Hooks, Initialized, LifecycleError, Manager, RefusedCounts, RequestCounts, SessionInfo,
    SessionSummary, Stats,
};
pub use principal::Principal;
pub use sessile_core as core;
pub use sessile_core::session::OutsideNoteError;

/// The Rust in the README compiles and runs.
#[cfg(all(doctest, feature = "axum", feature = "hyper", feature = "rmcp"))]
#[doc = include_str!("../../README.md")]
struct Readme;
