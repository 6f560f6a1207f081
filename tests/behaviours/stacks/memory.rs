//! hyper on tokio with its clock paused, over connections in memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use http::Request;
use sessile::runtime::tokio::Tokio;
use sessile_tests::line::{Exchange, Line, Lost, Sending};
use sessile_tests::sim::{Faults, Memory};

use super::server::{Hyper, start};
use super::{Needs, Stack};
use crate::world::{Boxed, Host, Running, Setup, World};

/// hyper on tokio with its clock paused.
pub(crate) struct TokioPaused;

impl Stack for TokioPaused {
    const LACKS: &[(Needs, &str)] = &[];

    fn run(behaviour: fn(World) -> Boxed<()>) {
        paused(async move {
            let memory = Memory::new(Tokio::current(), Rng::with_seed(0));
            behaviour(World(Arc::new(PausedHost { memory }))).await;
        });
    }
}

/// Runs a future on a thread of tokio whose clock moves only when nothing else can happen.
pub(super) fn paused(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime").block_on(future);
}

struct PausedHost {
    memory: Memory<Tokio>,
}

impl Host for PausedHost {
    fn serve(&self, setup: Setup) -> Running {
        start(self.memory.clone(), &Hyper, &setup)
    }

    fn send(&self, to: SocketAddr, request: Request<Sending>) -> Boxed<Result<Exchange, Lost>> {
        let memory = self.memory.clone();
        Box::pin(async move {
            // The listener may be about to be there.
            tokio::task::yield_now().await;
            let stream = memory.connect(to, [Faults::NONE; 2]).map_err(|error| Lost(error.into()))?;
            Ok(Line::open(stream).await?.send(request))
        })
    }

    fn sleep(&self, time: Duration) -> Option<Boxed<()>> {
        Some(Box::pin(tokio::time::sleep(time)))
    }

    fn spawn(&self, task: Boxed<()>) {
        tokio::spawn(task);
    }
}
