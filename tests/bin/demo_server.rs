//! The demo server as a library serves it, on each of the runtimes: what real clients are checked against beside the program
//! `sessile`, which is on tokio alone.
//!
//! Prints the line of `sessile` when it is ready, and ends with 0 after SIGTERM or SIGINT and an orderly end.

#![allow(clippy::print_stdout, reason = "it says where it listens")]

use std::error::Error;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use clap::{Parser, ValueEnum};
use sessile::Builder;
use sessile::app::Demo;
use sessile::core::Config;
use sessile::http::{ServeConfig, serve};
use sessile::runtime::{self, Net};

#[derive(Parser)]
struct Options {
    /// The runtime to serve on
    #[arg(long, value_enum)]
    runtime: Runtime,
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// End the connection of a request's stream after so long, so that its client polls
    #[arg(long, value_name = "TIME", value_parser = duration)]
    poll_after: Option<Duration>,
    /// When clients come back to a stream that was ended early
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    retry: Duration,
}

#[derive(Clone, Copy, ValueEnum)]
enum Runtime {
    AsyncStd,
    Smol,
    Tokio,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = Options::parse();
    match options.runtime {
        Runtime::AsyncStd => {
            let mut signals = runtime::async_std::Signals::listen()?;
            async_std::task::block_on(run(runtime::async_std::AsyncStd::global(), &options, signals.next()))
        }
        Runtime::Smol => {
            let mut signals = runtime::smol::Signals::listen()?;
            smol::block_on(run(runtime::smol::Smol::global(), &options, signals.next()))
        }
        Runtime::Tokio => tokio::runtime::Runtime::new()?.block_on(async {
            let mut signals = runtime::tokio::Signals::listen()?;
            run(runtime::tokio::Tokio::current(), &options, signals.next()).await
        }),
    }
}

/// Serves until `signal` is there, and then until running calls have finished or ten seconds are over.
async fn run<R: Net>(
    runtime: R,
    options: &Options,
    signal: impl Future<Output = &'static str> + Send,
) -> Result<(), Box<dyn Error>> {
    let mut config = Config::default();
    config.session.poll_after = options.poll_after;
    config.session.resume = true;
    config.session.retry = options.retry;
    let manager = Builder::new(runtime.clone()).config(config).handler(Demo::new()).build()?;
    manager.start()?;
    let listener = TcpListener::bind(options.listen)?;
    let address = listener.local_addr()?;
    let service = manager.service()?.path("/mcp");
    let ended = async {
        signal.await;
        manager.shutdown(Duration::from_secs(10), Duration::from_secs(2)).await
    };
    println!("sessile listening on http://{address}/mcp");
    let mut shutdown = Ok(());
    serve(runtime, listener, service, ServeConfig::default(), async { shutdown = ended.await }).await?;
    Ok(shutdown?)
}

/// Parses `1s` or `200ms`.
fn duration(text: &str) -> Result<Duration, String> {
    let (count, unit): (_, fn(u64) -> Duration) = match text.strip_suffix("ms") {
        Some(count) => (count, Duration::from_millis),
        None => (text.strip_suffix('s').ok_or("expected a duration such as 1s or 200ms")?, Duration::from_secs),
    };
    count.parse().map(unit).map_err(|error| error.to_string())
}
