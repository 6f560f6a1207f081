//! The behaviours of sessile, written once and run over every stack: each runtime, each HTTP stack, each version of HTTP.
//!
//! A *behaviour* is an async function that gets a [`world::World`], starts a server in it and speaks to that over HTTP; it knows
//! neither runtime nor stack. `list` names them all, and makes of each a test for each stack. What takes time runs where time is
//! virtual: on the simulated runtime and on tokio with its clock paused, both with connections in memory. Sockets, smol and async-std
//! know no virtual time; there such a test says so and is over. That the timers of those runtimes keep time is for their own
//! tests, what is done with them is the same code everywhere.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "the suites of the wire use more of it")]
#[path = "../wire/apps.rs"]
mod apps;
#[path = "../wire/expect.rs"]
mod expect;
#[allow(dead_code, reason = "the suites of the wire use more of it")]
#[path = "../wire/row.rs"]
mod row;

mod answers;
mod apps_of_sessions;
mod asking;
mod cancelling;
mod ending;
mod fixture;
mod limits;
mod list;
mod modern;
mod opening;
mod owners;
mod refusals;
mod resuming;
mod rows;
mod shutdown;
mod stacks;
mod stateless;
mod streams;
mod talk;
mod world;
