//! A simulated runtime: tasks in an order that a seed decides, time that passes only when nothing else can happen, and a network in
//! memory that fails as real ones do.
//!
//! Owns the executor ([`Sim`], [`run`]), the network ([`Memory`], which any runtime can have) and its faults ([`Faults`]). Knows nothing
//! of HTTP. The same seed gives the same run, step by step: what differs from one run to another must come from the seed, never from
//! a clock, a thread or the system. Session ids do come from the system, so that nothing here may depend on their bytes; their length
//! is always the same.
//!
//! A run that fails says its seed. `SESSILE_SEED=n` replays that one alone; `SESSILE_SEEDS=n` runs so many instead of the usual
//! number.

mod executor;
mod faults;
mod memory;
mod pipe;
mod tasks;

use std::ops::Range;

pub use executor::{Sim, SimTimer, Step, run};
pub use faults::Faults;
pub use memory::{Memory, MemoryListener, MemoryStream};
pub use tasks::{Joined, Outlet, promise};

/// The seeds of a test that usually runs `count` of them: from 0 on, or as the environment says.
///
/// # Panics
///
/// If the environment says something that is no number.
#[must_use]
pub fn seeds(count: u64) -> Range<u64> {
    let number = |name: &str| {
        let text = std::env::var(name).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|error| panic!("{name}={text}: {error}")))
    };
    match number("SESSILE_SEED") {
        Some(seed) => seed..seed.saturating_add(1),
        None => 0..number("SESSILE_SEEDS").unwrap_or(count),
    }
}
