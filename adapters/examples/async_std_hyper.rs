//! The demo server on async-std and hyper; no tokio runs.
//!
//! `cargo run --example async_std_hyper --features async-std,hyper`, then give a client the URL that it prints.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::time::Duration;

use sessile::Builder;
use sessile::app::Demo;
use sessile::http::{ServeConfig, serve};
use sessile::runtime::async_std::{AsyncStd, Signals};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = AsyncStd::global();
    let manager = Builder::new(runtime.clone()).handler(Demo::new()).build()?;
    manager.start()?;
    let listener = std::net::TcpListener::bind(std::env::args().nth(1).as_deref().unwrap_or("127.0.0.1:8080"))?;
    let mut signals = Signals::listen()?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    let service = manager.service()?.path("/mcp");
    async_std::task::block_on(serve(runtime, listener, service, ServeConfig::default(), async {
        signals.next().await;
        let _ = manager.shutdown(Duration::from_secs(10), Duration::from_secs(2)).await;
    }))?;
    Ok(())
}
