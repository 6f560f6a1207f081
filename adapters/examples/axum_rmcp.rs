//! A server of the crate rmcp in axum, beside other routes.
//!
//! `cargo run --example axum_rmcp --features axum,rmcp`, then give a client the URL that it prints.

#![allow(clippy::print_stdout, reason = "a program says where it listens")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::serve::ListenerExt as _;
use rmcp::handler::server::tool::Extension;
use rmcp::{tool, tool_router};
use sessile::Builder;
use sessile::app::{RmcpApp, SessionInfo};
use sessile::http::axum::route;
use sessile::runtime::tokio::Tokio;

/// Counts for one session.
#[derive(Debug, Default)]
struct Counter(AtomicU64);

#[tool_router(server_handler)]
impl Counter {
    #[tool(description = "Adds one to the session's counter and tells it")]
    fn increment(&self) -> String {
        (self.0.fetch_add(1, Ordering::Relaxed) + 1).to_string()
    }

    #[tool(description = "Tells who the session belongs to")]
    fn whoami(&self, Extension(session): Extension<SessionInfo>) -> String {
        session.principal().to_string()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manager = Builder::new(Tokio::current()).app(RmcpApp::new(|_| Ok(Counter::default()))).build()?;
    manager.start()?;
    let router = axum::Router::new()
        .route("/health", axum::routing::get(|| async { "fine" }))
        .merge(route("/mcp", manager.service()?));

    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    // Small answers don't wait for the client's delayed acknowledgement.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    let end = async move {
        // Streams end with their sessions, and only then does axum.
        let _ = tokio::signal::ctrl_c().await;
        let _ = manager.shutdown(Duration::from_secs(10), Duration::from_secs(5)).await;
    };
    axum::serve(listener, router).with_graceful_shutdown(end).await?;
    Ok(())
}
