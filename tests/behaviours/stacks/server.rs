//! A manager and its service, on any runtime.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use sessile::app::Backend;
use sessile::http::{McpService, serve};
use sessile::runtime::{Net, Runtime};
use sessile::{Builder, Manager};
use sessile_tests::principals::InHeader;

use crate::fixture::{Fixture, Seen};
use crate::world::{Boxed, Kind, Running, Setup};

/// How a service gets its connections.
pub(crate) trait Front<R: Runtime>: Clone + Send + 'static {
    /// Serves on this listener; the listening begins before this returns or in a task.
    fn start<B: Backend>(&self, runtime: &R, listener: TcpListener, service: McpService<R, B>, setup: &Setup);
}

/// Starts a server on a loopback port of its own.
pub(crate) fn start<R: Runtime>(runtime: R, front: &impl Front<R>, setup: &Setup) -> Running {
    let seen = Seen::default();
    let app = Fixture::new(runtime.clone(), setup.eras, seen.clone());
    let builder = Builder::new(runtime.clone()).config(setup.config.clone()).eras(setup.eras);
    match setup.kind {
        Kind::App => running(&runtime, front, setup, builder.app(app).build().expect("good settings"), seen),
        Kind::Handler => running(&runtime, front, setup, builder.handler(app).build().expect("good settings"), seen),
    }
}

fn running<R: Runtime, B: Backend>(
    runtime: &R,
    front: &impl Front<R>,
    setup: &Setup,
    manager: Manager<R, B>,
    seen: Seen,
) -> Running {
    manager.start().expect("started once");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let service = manager.service().expect("running").path("/mcp").authenticate(InHeader);
    front.start(runtime, listener, service, setup);
    let manager = Arc::new(manager);
    let closing = Arc::clone(&manager);
    let shutdown = move |drain| -> Boxed<()> {
        let manager = Arc::clone(&closing);
        Box::pin(async move { manager.shutdown(drain, Duration::ZERO).await.expect("it was running") })
    };
    Running { address, seen, stats: Box::new(move || manager.stats()), shutdown: Box::new(shutdown) }
}

/// `serve`, with hyper on sockets of ours.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hyper;

impl<R: Net> Front<R> for Hyper {
    fn start<B: Backend>(&self, runtime: &R, listener: TcpListener, service: McpService<R, B>, setup: &Setup) {
        let serving = serve(runtime.clone(), listener, service, setup.serve.clone(), std::future::pending());
        runtime.spawn(async move { serving.await.expect("the listener is good") });
    }
}
