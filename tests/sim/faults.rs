//! What goes wrong on a connection.

use std::time::Duration;

use fastrand::Rng;

/// How bytes travel in one direction of a connection.
#[derive(Clone, Debug)]
pub struct Faults {
    /// How many bytes may be on their way before a write waits.
    pub capacity: usize,
    /// How long bytes take, at most; they never overtake each other.
    pub delay: Duration,
    /// After how many bytes the connection is reset, in both directions.
    pub reset_after: Option<u64>,
    /// Whether reads and writes may take less than they could.
    pub short: bool,
    /// Of how many reads and writes one does nothing the first time, though it could. Zero: none.
    pub hesitate: u32,
    /// Once so many bytes have gone through, nothing arrives for this long.
    pub stall: Option<(u64, Duration)>,
}

impl Faults {
    /// A network without faults, with the buffers of a usual socket.
    pub const NONE: Self =
        Self { capacity: 64 << 10, delay: Duration::ZERO, reset_after: None, short: false, hesitate: 0, stall: None };

    /// Any network. About one connection in four is reset at some point.
    pub fn random(rng: &mut Rng) -> Self {
        let one_in = |rng: &mut Rng, n: u32| rng.u32(..n) == 0;
        Self {
            capacity: 1 << rng.u32(7..17),
            delay: if one_in(rng, 2) { Duration::ZERO } else { Duration::from_millis(rng.u64(..400)) },
            reset_after: one_in(rng, 8).then(|| 1 << rng.u32(..13)).map(|most| rng.u64(..most)),
            short: !one_in(rng, 3),
            hesitate: if one_in(rng, 2) { 0 } else { rng.u32(2..8) },
            stall: one_in(rng, 8).then(|| (rng.u64(..4_096), Duration::from_millis(rng.u64(..90_000)))),
        }
    }
}
