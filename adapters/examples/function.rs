//! A server that is one async function, on tokio, with one tool that tells how far it has come.
//!
//! `cargo run --example function --features hyper,tokio`, then give a client the URL that it prints.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::time::Duration;

use serde_json::json;
use sessile::Builder;
use sessile::app::{Context, Reply, handler_fn};
use sessile::core::Message;
use sessile::http::{ServeConfig, serve};
use sessile::runtime::tokio::{Signals, Tokio};

#[derive(serde::Deserialize)]
struct Call {
    name: String,
}

async fn server(context: Context<()>, message: Message) -> Reply {
    match message.method() {
        Some("initialize") => context.result(&json!({
            "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
            "serverInfo": { "name": "function", "version": "1.0.0" } })),
        Some("ping") => context.result(&json!({})),
        Some("tools/list") => context.result(&json!({ "tools": [{
            "name": "countdown", "description": "Counts from three to zero", "inputSchema": { "type": "object" } }] })),
        Some("tools/call") => match message.params::<Call>() {
            Ok(call) if call.name == "countdown" => {
                // Goes to whoever has asked for it, ahead of the result.
                (1..=3_u8).for_each(|done| context.progress(done.into(), Some(3.0), None));
                context.result(&json!({ "content": [{ "type": "text", "text": "zero" }] }))
            }
            Ok(call) => context.error(-32602, &format!("Unknown tool: {}", call.name)),
            Err(error) => context.error(-32602, &format!("Invalid params: {error}")),
        },
        _ => context.error(-32601, "Method not found"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let manager = Builder::new(Tokio::current()).handler(handler_fn(server)).build()?;
    manager.start()?;
    let listener = std::net::TcpListener::bind(std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:8080"))?;
    let mut signals = Signals::listen()?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    let service = manager.service()?.path("/mcp");
    serve(Tokio::current(), listener, service, ServeConfig::default(), async {
        signals.next().await;
        let _ = manager.shutdown(Duration::from_secs(10), Duration::from_secs(2)).await;
    })
    .await?;
    Ok(())
}
