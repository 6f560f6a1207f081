//! axum on tokio with its clock paused, over connections in memory.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::serve::Listener;
use http::Request;
use hyper_util::rt::TokioIo;
use sessile::app::Backend;
use sessile::http::McpService;
use sessile::http::axum::route;
use sessile::runtime::tokio::Tokio;
use sessile_tests::line::{Exchange, Line, Lost, Sending};
use tokio::io::{DuplexStream, duplex};
use tokio::sync::mpsc;

use super::memory::paused;
use super::server::{Front, start};
use super::{Needs, Stack};
use crate::world::{Boxed, Host, Running, Setup, World};

/// axum on tokio with its clock paused.
pub(crate) struct Axum;

impl Stack for Axum {
    const LACKS: &[(Needs, &str)] = &[
        (Needs::OneExchange, "connections are axum's here, and have no deadlines of ours"),
        (Needs::OurConnections, "connections are axum's here, and have no deadlines of ours"),
    ];

    fn run(behaviour: fn(World) -> Boxed<()>) {
        paused(async move { behaviour(World(Arc::new(AxumHost(AxumFront::default())))).await });
    }
}

/// The servers of a run, by their addresses.
#[derive(Clone, Default)]
struct AxumFront(Arc<Mutex<BTreeMap<SocketAddr, mpsc::UnboundedSender<DuplexStream>>>>);

struct AxumHost(AxumFront);

/// Where connections in memory arrive.
struct Arriving(mpsc::UnboundedReceiver<DuplexStream>, SocketAddr);

impl Listener for Arriving {
    type Io = DuplexStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (DuplexStream, SocketAddr) {
        match self.0.recv().await {
            Some(stream) => (stream, self.1),
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.1)
    }
}

impl Front<Tokio> for AxumFront {
    fn start<B: Backend>(&self, _: &Tokio, listener: TcpListener, service: McpService<Tokio, B>, _: &Setup) {
        let address = listener.local_addr().expect("an address");
        let (sender, arriving) = mpsc::unbounded_channel();
        self.0.lock().expect("nothing panics while it is held").insert(address, sender);
        // What is not routed is a 404 of the service too, with the headers that pages need to read it.
        let router: Router = route("/mcp", service.clone()).fallback_service(service);
        tokio::spawn(async move {
            // So that no other server gets its name.
            let _name = listener;
            axum::serve(Arriving(arriving, address), router).await.expect("a listener that never fails");
        });
    }
}

impl Host for AxumHost {
    fn serve(&self, setup: Setup) -> Running {
        start(Tokio::current(), &self.0, &setup)
    }

    fn send(&self, to: SocketAddr, request: Request<Sending>) -> Boxed<Result<Exchange, Lost>> {
        let servers = Arc::clone(&self.0.0);
        Box::pin(async move {
            let (ours, theirs) = duplex(64 << 10);
            let sent =
                servers.lock().expect("nothing panics while it is held").get(&to).map(|server| server.send(theirs));
            sent.ok_or_else(|| Lost("nobody listens".into()))?.map_err(|error| Lost(error.into()))?;
            Ok(Line::open(TokioIo::new(ours)).await?.send(request))
        })
    }

    fn sleep(&self, time: Duration) -> Option<Boxed<()>> {
        Some(Box::pin(tokio::time::sleep(time)))
    }

    fn spawn(&self, task: Boxed<()>) {
        tokio::spawn(task);
    }
}
