//! What a table has done, in numbers.
//!
//! Owns the tallies by reason. They are kept where the decisions are made, so that no count is ever found by going through
//! the sessions.

use std::fmt;

use super::SessionTable;
use super::answer::{ReapReason, Rejection};

/// What a table counts. `in_flight` is what there is now; the others only ever grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableCounts {
    /// Sessions that have ended, by reason.
    pub closed: ClosedCounts,
    /// Exchanges in flight, of all sessions together.
    pub in_flight: u64,
    /// Sessions that were created.
    pub opened: u64,
    /// Requests that were refused, by reason.
    pub rejected: RejectedCounts,
}

impl<P> SessionTable<P> {
    /// What has been counted since the table was made. Costs a copy.
    #[must_use]
    pub const fn counts(&self) -> TableCounts {
        self.counts
    }
}

/// How many sessions have ended, by reason.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ClosedCounts([u64; ReapReason::ALL.len()]);

impl ClosedCounts {
    pub(super) const fn add(&mut self, reason: ReapReason) {
        self.0[reason as usize] += 1;
    }

    /// How many have ended for this reason.
    #[must_use]
    pub const fn of(&self, reason: ReapReason) -> u64 {
        self.0[reason as usize]
    }

    /// Every reason with its count.
    pub fn iter(&self) -> impl Iterator<Item = (ReapReason, u64)> + use<> {
        ReapReason::ALL.into_iter().zip(self.0)
    }

    /// How many have ended.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl fmt::Debug for ClosedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().filter(|(_, count)| *count > 0)).finish()
    }
}

/// How many requests were refused by a table, by reason.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct RejectedCounts([u64; REJECTIONS.len()]);

/// One rejection of each kind, in the order of [`place`].
const REJECTIONS: [Rejection; 7] = [
    Rejection::AtCapacity { retry_after: 1 },
    Rejection::ForeignPrincipal,
    Rejection::IdsExhausted,
    Rejection::MissingSession,
    Rejection::PrincipalAtCapacity,
    Rejection::ShuttingDown,
    Rejection::UnknownSession,
];

const fn place(rejection: Rejection) -> usize {
    match rejection {
        Rejection::AtCapacity { .. } => 0,
        Rejection::ForeignPrincipal => 1,
        Rejection::IdsExhausted => 2,
        Rejection::MissingSession => 3,
        Rejection::PrincipalAtCapacity => 4,
        Rejection::ShuttingDown => 5,
        Rejection::UnknownSession => 6,
    }
}

impl RejectedCounts {
    pub(super) const fn add(&mut self, rejection: Rejection) {
        self.0[place(rejection)] += 1;
    }

    /// How many were refused for this reason. What a client is told of when to come back makes no difference.
    #[must_use]
    pub const fn of(&self, rejection: Rejection) -> u64 {
        self.0[place(rejection)]
    }

    /// Every reason, as [`Rejection::log_reason`] names it, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        REJECTIONS.map(Rejection::log_reason).into_iter().zip(self.0)
    }

    /// How many were refused.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl fmt::Debug for RejectedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().filter(|(_, count)| *count > 0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_place_of_its_own() {
        let mut closed = ClosedCounts::default();
        for (times, reason) in ReapReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, times, "{reason:?}");
            (0..times).for_each(|_| closed.add(reason));
        }
        assert!(closed.iter().eq(ReapReason::ALL.into_iter().zip(0..)));
        assert_eq!(closed.total(), 45);

        let mut rejected = RejectedCounts::default();
        for (times, rejection) in REJECTIONS.into_iter().enumerate() {
            (0..times).for_each(|_| rejected.add(rejection));
            assert_eq!(rejected.of(rejection), times as u64, "{rejection:?}");
        }
        assert!(rejected.iter().map(|(_, count)| count).eq(0..7));
        assert_eq!(rejected.of(Rejection::AtCapacity { retry_after: 60 }), 0);
        assert_eq!(rejected.total(), 21);
    }

    #[test]
    fn only_what_has_happened_is_shown() {
        let mut counts = TableCounts::default();
        counts.closed.add(ReapReason::Idle);
        counts.rejected.add(Rejection::AtCapacity { retry_after: 7 });
        assert_eq!(
            format!("{counts:?}"),
            r#"TableCounts { closed: {Idle: 1}, in_flight: 0, opened: 0, rejected: {"at capacity": 1} }"#
        );
    }
}
