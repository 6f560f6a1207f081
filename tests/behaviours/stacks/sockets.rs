//! hyper on each runtime with real sockets. The clients are always the same ones, on tokio.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper_util::rt::TokioIo;
use sessile::runtime::Net;
use sessile::runtime::async_std::AsyncStd;
use sessile::runtime::smol::Smol;
use sessile::runtime::tokio::Tokio;
use sessile_tests::line::{Exchange, Line, Lost, Sending};
use tokio::net::TcpStream;

use super::server::{Hyper, start};
use super::{Needs, Stack};
use crate::world::{Boxed, Host, Running, Setup, World};

/// hyper on tokio, with sockets.
pub(crate) struct TokioSockets;

/// hyper on smol, with sockets.
pub(crate) struct SmolSockets;

/// hyper on async-std, with sockets.
pub(crate) struct AsyncStdSockets;

const REAL: &[(Needs, &str)] = &[(Needs::OneExchange, WHY), (Needs::OurConnections, WHY), (Needs::Time, WHY)];
const WHY: &str = "time is real here; the stacks with connections in memory run it";

impl Stack for TokioSockets {
    const LACKS: &[(Needs, &str)] = REAL;

    fn run(behaviour: fn(World) -> Boxed<()>) {
        with_sockets(Tokio::current, behaviour);
    }
}

impl Stack for SmolSockets {
    const LACKS: &[(Needs, &str)] = REAL;

    fn run(behaviour: fn(World) -> Boxed<()>) {
        with_sockets(Smol::global, behaviour);
    }
}

impl Stack for AsyncStdSockets {
    const LACKS: &[(Needs, &str)] = REAL;

    fn run(behaviour: fn(World) -> Boxed<()>) {
        with_sockets(AsyncStd::global, behaviour);
    }
}

/// How long a behaviour may take before it has failed. Nothing waits so long unless it fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn with_sockets<R: Net>(runtime: impl FnOnce() -> R, behaviour: fn(World) -> Boxed<()>) {
    let clients = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    clients.block_on(async {
        let host = SocketHost(runtime());
        tokio::time::timeout(PATIENCE, behaviour(World(Arc::new(host)))).await.expect("a behaviour that ends");
    });
}

struct SocketHost<R>(R);

impl<R: Net> Host for SocketHost<R> {
    fn serve(&self, setup: Setup) -> Running {
        start(self.0.clone(), &Hyper, &setup)
    }

    fn send(&self, to: SocketAddr, request: Request<Sending>) -> Boxed<Result<Exchange, Lost>> {
        Box::pin(async move {
            let stream = TcpStream::connect(to).await.map_err(|error| Lost(error.into()))?;
            Ok(Line::open(TokioIo::new(stream)).await?.send(request))
        })
    }

    fn sleep(&self, _: Duration) -> Option<Boxed<()>> {
        None
    }

    fn spawn(&self, task: Boxed<()>) {
        tokio::spawn(task);
    }
}
