//! hyper on the simulated runtime, over connections in memory.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use sessile::runtime::Runtime as _;
use sessile_tests::line::{Exchange, Line, Lost, Sending};
use sessile_tests::sim::{Faults, Memory, Sim, run};

use super::server::{Hyper, start};
use super::{Needs, Stack};
use crate::world::{Boxed, Host, Running, Setup, World};

/// hyper on the simulated runtime.
pub(crate) struct Simulated;

impl Stack for Simulated {
    const LACKS: &[(Needs, &str)] = &[];

    fn run(behaviour: fn(World) -> Boxed<()>) {
        // The order of tasks must not matter.
        for seed in 0..3 {
            run(seed, |sim| async move {
                let memory = Memory::simulated(sim.clone());
                behaviour(World(Arc::new(SimulatedHost { memory, sim: sim.clone() }))).await;
                // Servers are never told to end.
                sim.abandon();
            });
        }
    }
}

struct SimulatedHost {
    memory: Memory<Sim>,
    sim: Sim,
}

impl Host for SimulatedHost {
    fn serve(&self, setup: Setup) -> Running {
        start(self.memory.clone(), &Hyper, &setup)
    }

    fn send(&self, to: SocketAddr, request: Request<Sending>) -> Boxed<Result<Exchange, Lost>> {
        let (memory, sim) = (self.memory.clone(), self.sim.clone());
        Box::pin(async move {
            // The listener may be about to be there.
            sim.sleep(Duration::from_nanos(1)).await;
            let stream = memory.connect(to, [Faults::NONE; 2]).map_err(|error| Lost(error.into()))?;
            Ok(Line::open(stream).await?.send(request))
        })
    }

    fn sleep(&self, time: Duration) -> Option<Boxed<()>> {
        let sim = self.sim.clone();
        Some(Box::pin(async move { sim.sleep(time).await }))
    }

    fn spawn(&self, task: Boxed<()>) {
        self.sim.spawn(task);
    }
}
