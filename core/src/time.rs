//! Points in time, as numbers that the driver supplies.
//!
//! Owns [`Timestamp`] and its arithmetic. Does not own a clock: the core never asks what time it is, so
//! that a test, a fuzzer or a replay decides it.

use std::fmt;
use std::time::Duration;

/// A point in time: nanoseconds since an epoch that the driver chooses.
///
/// There is deliberately no conversion from [`std::time::Instant`]; the driver's clock owns the epoch.
/// All arithmetic saturates, so every value is valid and nothing overflows (the range is about 584 years).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The epoch itself, the earliest point there is.
    pub const ZERO: Self = Self(0);
    /// The latest point there is; a deadline that never comes.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `nanos` nanoseconds after the epoch.
    #[must_use]
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// The point `millis` milliseconds after the epoch, saturating.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// The point `secs` seconds after the epoch, saturating.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// Nanoseconds since the epoch.
    #[must_use]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// This point plus `after`, saturating at [`Timestamp::MAX`].
    #[must_use]
    pub fn saturating_add(self, after: Duration) -> Self {
        let nanos = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(nanos))
    }

    /// How long after `earlier` this point is; zero if it isn't.
    #[must_use]
    pub const fn saturating_since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", Duration::from_nanos(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let later = Timestamp::from_secs(2);
        assert_eq!(Timestamp::ZERO.saturating_add(Duration::from_secs(2)), later);
        assert_eq!(later.saturating_add(Duration::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::ZERO.saturating_since(later), Duration::ZERO);
        assert_eq!(later.saturating_since(Timestamp::from_millis(500)), Duration::from_millis(1_500));
    }
}
