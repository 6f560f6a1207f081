//! A server with a state for each session, on smol and hyper; no tokio runs.
//!
//! `cargo run --example smol_hyper --features hyper,smol`, then give a client the URL that it prints.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::json;
use sessile::Builder;
use sessile::app::{Context, Handler, Reply, SessionInfo};
use sessile::core::Message;
use sessile::http::{ServeConfig, serve};
use sessile::runtime::smol::{Signals, Smol};

/// Counts the calls of each session.
struct Counter;

impl Handler for Counter {
    type State = AtomicU64;

    fn open(&self, _: &SessionInfo) -> AtomicU64 {
        AtomicU64::new(0)
    }

    async fn call(&self, context: Context<AtomicU64>, message: Message) -> Reply {
        match message.method() {
            Some("initialize") => context.result(&json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "counter", "version": "1.0.0" } })),
            Some("ping") => context.result(&json!({})),
            Some("tools/list") => context.result(&json!({ "tools": [{
                "name": "increment", "description": "Counts the calls", "inputSchema": { "type": "object" } }] })),
            Some("tools/call") => {
                let count = context.state().fetch_add(1, Ordering::Relaxed) + 1;
                context.result(&json!({ "content": [{ "type": "text", "text": count.to_string() }] }))
            }
            _ => context.error(-32601, "Method not found"),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Smol::global();
    let manager = Builder::new(runtime.clone()).handler(Counter).build()?;
    manager.start()?;
    let listener = std::net::TcpListener::bind(std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:8080"))?;
    let mut signals = Signals::listen()?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    let service = manager.service()?.path("/mcp");
    smol::block_on(serve(runtime, listener, service, ServeConfig::default(), async {
        signals.next().await;
        let _ = manager.shutdown(Duration::from_secs(10), Duration::from_secs(2)).await;
    }))?;
    Ok(())
}
