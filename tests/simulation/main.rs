//! The whole adapter layer in a simulated run: manager, service and hyper over a network in memory that delays, shortens, stalls and
//! resets, with clients and apps that do anything at all, in an order and with a virtual clock that a seed decides.
//!
//! What must hold whatever happens is in `ledger` and in what a `client` asserts of its answers. See [`sessile_tests::sim`] for
//! how to replay a seed, or run more of them.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod app;
mod calls;
mod client;
mod executor;
mod ledger;
mod listening;
mod plan;
mod requests;
mod server;

use sessile_tests::sim::{run, seeds};

/// How many runs there are of each kind of app.
const RUNS: u64 = 100;

/// Runs stories, and sees to it that they were about something.
fn tell_stories(kind: server::Kind) {
    let seeds = seeds(RUNS);
    let enough = seeds.end - seeds.start >= RUNS;
    let mut counts = ledger::Counts::new();
    for seed in seeds {
        let (ledger, _) = run(seed, |sim| server::story(sim, kind));
        assert_eq!(ledger.calls(), 0, "calls that have not ended, with seed {seed}");
        for (what, count) in ledger.counts() {
            *counts.entry(what).or_default() += count;
        }
    }
    let app = matches!(kind, server::Kind::App).then_some("finished");
    let missing: Vec<_> =
        SEEN.into_iter().chain(app).filter(|what| counts.get(what).is_none_or(|count| *count == 0)).collect();
    assert!(!enough || missing.is_empty(), "never seen: {missing:?} in {counts:#?}");
}

/// What clients see, at least once in so many runs, and how sessions end.
const SEEN: [&str; 26] = [
    "a call answered as JSON",
    "a call answered later",
    "a call answered on its stream",
    "a call cancelled before its head",
    "a call lost before its head",
    "a call too many",
    "a modern request answered as JSON",
    "a modern request answered on its stream",
    "a note of a session",
    "a question on a call's stream",
    "a session deleted",
    "a session that was over",
    "a stream that can't be resumed",
    "a stream that is over",
    "junk cut off",
    "no room",
    "somebody else's session",
    "abandoned",
    "crashed",
    "deleted",
    "evicted",
    "idle",
    "lifetime",
    "never initialized",
    "refused by the app",
    "shutdown",
];

#[test]
fn nothing_is_lost_or_mixed_up_behind_a_handler() {
    tell_stories(server::Kind::Handler);
}

#[test]
fn nothing_is_lost_or_mixed_up_behind_an_app() {
    tell_stories(server::Kind::App);
}

/// Whatever is found can be found again.
#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in seeds(5) {
        let one = run(seed, |sim| server::story(sim, server::Kind::Handler)).1;
        let two = run(seed, |sim| server::story(sim, server::Kind::Handler)).1;
        let differs = one.iter().zip(&two).position(|(one, two)| one != two);
        assert_eq!((differs, one.len()), (None, two.len()), "seed {seed}");
        let other = run(seed ^ 0xFFFF, |sim| server::story(sim, server::Kind::Handler)).1;
        assert_ne!(one, other, "seed {seed}");
    }
}
