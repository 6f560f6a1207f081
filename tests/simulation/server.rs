//! One run: a server with random limits, a few clients, and the end of it all.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use fastrand::Rng;
use sessile::app::Backend;
use sessile::http::{ServeConfig, serve};
use sessile::runtime::{Runtime as _, timeout_at};
use sessile::{Builder, Manager};
use sessile_core::Config;
use sessile_core::config::{ResponseMode, WhenFull};
use sessile_tests::principals::InHeader;
use sessile_tests::sim::{Memory, Sim, promise};

use crate::app::Planned;
use crate::client::Client;
use crate::ledger::Ledger;

/// What serves the sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    App,
    Handler,
}

/// What everybody in a run shares.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    pub(crate) config: Config,
    pub(crate) ledger: Ledger,
    pub(crate) memory: Memory<Sim>,
    pub(crate) sim: Sim,
}

pub(crate) async fn story(sim: Sim, kind: Kind) -> Ledger {
    let mut rng = sim.fork();
    let ledger = Ledger::default();
    let config = limits(&mut rng);
    let memory = Memory::simulated(sim.clone());
    let builder = Builder::new(memory.clone()).config(config.clone()).hooks(ledger.clone());
    let app = Planned { ledger: ledger.clone(), sim: sim.clone() };
    let start = Site { address: ([127, 0, 0, 1], 0).into(), config, ledger, memory, sim };
    match kind {
        Kind::App => play(start, builder.app(app).build().expect("good limits"), rng).await,
        Kind::Handler => play(start, builder.handler(app).build().expect("good limits"), rng).await,
    }
}

async fn play<B: Backend>(mut site: Site, manager: Manager<Memory<Sim>, B>, mut rng: Rng) -> Ledger {
    manager.start().expect("started once");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    site.address = listener.local_addr().expect("an address");
    let service = manager.service().expect("running").path("/mcp").authenticate(InHeader);
    let (closing, close) = promise();
    let serving = serve(site.memory.clone(), listener, service, times(&mut rng), close);
    let serving = site.sim.task(serving);
    // Nobody is there before the listener is.
    site.sim.sleep(Duration::from_millis(1)).await;

    let names = ["alice", "bob", "carol"];
    let count = rng.usize(1..=4);
    let clients: Vec<_> = (0..count).map(|number| Client::new(&site, names[number % 3], number, rng.fork())).collect();
    let clients: Vec<_> = clients.into_iter().map(|client| site.sim.task(client.live())).collect();
    if rng.bool() {
        site.memory.fail_accept(site.address, std::io::ErrorKind::ConnectionAborted);
        site.memory.fail_accept(site.address, std::io::ErrorKind::OutOfMemory);
    }
    // Now and then the server ends in the midst of things.
    if rng.u32(..4) == 0 {
        site.sim.sleep(Duration::from_millis(rng.u64(..60_000))).await;
    } else {
        for client in clients {
            client.await;
        }
        if rng.bool() {
            site.sim.sleep(Duration::from_secs(rng.u64(..200))).await;
        }
    }
    // No app of ours is deaf for longer than for 8 s.
    let (drain, stop) = (Duration::from_secs(rng.u64(..10)), Duration::from_secs(9));
    manager.shutdown(drain, stop).await.expect("it was running");
    closing.put(());
    // Whoever reads slowly is read to by then, or cut.
    let patience = site.sim.now().saturating_add(Duration::from_secs(3_600));
    timeout_at(&site.sim, patience, serving).await.expect("the connections end").expect("the listener is good");
    site.ledger.settle(&manager.stats());
    site.ledger
}

/// Limits of every size, and some of them hit.
fn limits(rng: &mut Rng) -> Config {
    let mut config = Config::default();
    let pick = |rng: &mut Rng, few: usize, many: usize| if rng.u32(..4) == 0 { few } else { many };
    config.gate.response_mode = *rng.choice(&[ResponseMode::Auto, ResponseMode::Json, ResponseMode::Sse]).expect("one");
    config.gate.body_timeout = Duration::from_secs(rng.u64(1..30));
    config.table.idle_timeout = Some(Duration::from_secs(if rng.bool() { rng.u64(1..60) } else { 1_800 }));
    config.table.init_timeout = Some(Duration::from_secs(rng.u64(1..60)));
    config.table.max_lifetime = (rng.u32(..6) == 0).then(|| Duration::from_secs(rng.u64(5..120)));
    config.table.max_sessions = pick(rng, 2, 100);
    config.table.when_full = if rng.bool() { WhenFull::EvictIdle } else { WhenFull::Refuse };
    config.session.resume = rng.u32(..4) != 0;
    config.session.log_count = pick(rng, 4, 1_024);
    config.session.log_bytes = pick(rng, 4_096, 4 << 20);
    config.session.keep_alive = Duration::from_secs(rng.u64(..16));
    config.session.inbox_count = pick(rng, 1, 1_024);
    config.session.max_in_flight = pick(rng, 2, 1_024);
    config.session.max_standalone = rng.usize(1..5);
    config.session.max_request_age = (rng.u32(..6) == 0).then(|| Duration::from_secs(rng.u64(1..60)));
    config.session.poll_after = (rng.u32(..4) == 0).then(|| Duration::from_millis(rng.u64(100..5_000)));
    config.sessionless.max_requests = pick(rng, 1, 1_024);
    config
}

fn times(rng: &mut Rng) -> ServeConfig {
    ServeConfig {
        head_timeout: Duration::from_secs(rng.u64(5..60)),
        idle_timeout: Duration::from_secs(rng.u64(5..80)),
        write_timeout: Duration::from_secs(rng.u64(5..60)),
        max_connections: if rng.u32(..4) == 0 { 3 } else { 65_536 },
        ..ServeConfig::default()
    }
}
