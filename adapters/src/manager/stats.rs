//! The numbers of a manager.
//!
//! Owns their names and what they mean. They come from the tables that decide and from the sums of the sessions; none is found by going
//! through the sessions.

use std::fmt;

use http::StatusCode;
use sessile_core::table::{ClosedCounts, RejectedCounts};

use super::hub::Hub;
use super::totals::Numbers;

/// What there is now, and what has been since the manager was built. Costs three short locks and a copy, however many sessions there
/// are. What happens while it is taken may be in one number already and not yet in another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Apps whose task has not returned, those of sessions that are over included. None for a `Handler`, which has no task.
    pub app_tasks: usize,
    /// Exchanges in flight: HTTP requests of live sessions, or without a session, whose answers have not ended. One that was given
    /// up by its client counts for as long as its request goes on.
    pub exchanges: u64,
    /// Requests of clients that have no answer yet.
    pub requests_in_flight: u64,
    /// Requests without a session under way, but for subscriptions. Here, and in `exchanges`, a list of tools is one too that is asked
    /// for so that headers can be checked: it takes the place of a request. In other numbers it is none.
    pub sessionless: usize,
    /// Live sessions.
    pub sessions: usize,
    /// GET streams that are open.
    pub streams: u64,
    /// Subscriptions without a session that are open.
    pub subscriptions: usize,

    /// Cancellations of clients that named no request in flight.
    pub cancellations_unmatched: u64,
    /// Responses of clients to no request of an app.
    pub client_responses_unmatched: u64,
    /// Sessions that have ended, by reason.
    pub closed: ClosedCounts,
    /// Calls of tools in the modern era whose headers were not checked against their parameters, since the app's list of tools could not
    /// be had.
    pub header_checks_skipped: u64,
    /// Notifications of apps dropped for want of room or of a way to the client.
    pub notes_dropped: u64,
    /// Sessions that were opened.
    pub opened: u64,
    /// Answers that were refusals, by status. In the modern era the status of an app's own error counts too.
    pub refused: RefusedCounts,
    /// HTTP requests that the table of the sessions has rejected, by reason. Each is among `refused` too.
    pub rejected: RejectedCounts,
    /// Requests of clients that were taken in, `initialize` included.
    pub requests: RequestCounts,
    /// Requests that clients have cancelled.
    pub requests_cancelled: u64,
    /// Requests ended because they had no connection, or took too long.
    pub requests_expired: u64,
    /// Responses of apps to no request in flight.
    pub responses_unmatched: u64,
    /// Requests of apps that were answered with an error here, since no client could or would.
    pub server_requests_failed: u64,
    /// Requests without a session that were rejected, by reason, but for subscriptions. Each is among `refused` too.
    pub sessionless_rejected: RejectedCounts,
    /// What the event store has failed, took too long for, or answered with what can't be right.
    pub store_failures: u64,
    /// Answers of the event store that nobody waited for any more.
    pub store_late: u64,
    /// Subscriptions that were rejected, by reason. Each is among `refused` too.
    pub subscriptions_rejected: RejectedCounts,
}

/// Requests by what they belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestCounts {
    /// Those of sessions.
    pub legacy: u64,
    /// Those of the revision without sessions, 2026-07-28.
    pub modern: u64,
    /// Those of the earlier revisions that were served without a session.
    pub stateless: u64,
}

/// Refusals by status.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct RefusedCounts([u64; Self::PLACES]);

/// The statuses of refusals. Another one has no place of its own.
const STATUSES: [u16; 12] = [400, 401, 403, 404, 405, 406, 408, 413, 415, 429, 500, 503];

impl RefusedCounts {
    pub(super) const PLACES: usize = STATUSES.len() + 1;

    pub(super) const fn new(counts: [u64; Self::PLACES]) -> Self {
        Self(counts)
    }

    /// Where a status is counted; `None` if it is no refusal.
    pub(super) fn place(status: StatusCode) -> Option<usize> {
        let refusal = status.is_client_error() || status.is_server_error();
        refusal.then(|| STATUSES.iter().position(|other| status == *other).unwrap_or(STATUSES.len()))
    }

    /// How many had this status.
    #[must_use]
    pub fn of(&self, status: u16) -> u64 {
        STATUSES.iter().zip(self.0).find(|(other, _)| **other == status).map_or(0, |(_, count)| count)
    }

    /// How many had a status that is not listed.
    #[must_use]
    pub const fn others(&self) -> u64 {
        self.0[STATUSES.len()]
    }

    /// Every status that is listed, with its count.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u64)> + use<> {
        STATUSES.into_iter().zip(self.0)
    }

    /// How many there were.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}

impl fmt::Debug for RefusedCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().filter(|(_, count)| *count > 0)).finish()
    }
}

impl Stats {
    /// The numbers of the sessions, of the requests without one, and of the subscriptions without one.
    pub(super) fn of<S>(hubs: [&Hub<S>; 3]) -> Self {
        let [sessions, requests, subscriptions] = hubs.map(Hub::counts);
        let numbers = hubs.map(|hub| hub.totals.numbers());
        let sum = |of: fn(&Numbers) -> u64| numbers.iter().map(of).sum();
        Self {
            app_tasks: sessions.tasks + requests.tasks + subscriptions.tasks,
            exchanges: sessions.counts.in_flight + requests.counts.in_flight + subscriptions.counts.in_flight,
            requests_in_flight: sum(|of| of.requests_in_flight),
            sessionless: requests.live,
            sessions: sessions.live,
            streams: sum(|of| of.streams),
            subscriptions: subscriptions.live,
            cancellations_unmatched: sum(|of| of.cancellations_unmatched),
            client_responses_unmatched: sum(|of| of.client_responses_unmatched),
            closed: sessions.counts.closed,
            header_checks_skipped: 0,
            notes_dropped: sum(|of| of.notes_dropped),
            opened: sessions.counts.opened,
            // The service counts them with the sessions, whatever they would have been.
            refused: hubs[0].totals.refused(),
            rejected: sessions.counts.rejected,
            requests: RequestCounts {
                legacy: sum(|of| of.requests.legacy),
                modern: sum(|of| of.requests.modern),
                stateless: sum(|of| of.requests.stateless),
            },
            requests_cancelled: sum(|of| of.requests_cancelled),
            requests_expired: sum(|of| of.requests_expired),
            responses_unmatched: sum(|of| of.responses_unmatched),
            server_requests_failed: sum(|of| of.server_requests_failed),
            sessionless_rejected: requests.counts.rejected,
            store_failures: sum(|of| of.store_failures),
            store_late: sum(|of| of.store_late),
            subscriptions_rejected: subscriptions.counts.rejected,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_are_counted_and_each_status_has_a_place() {
        for status in [200, 202, 204, 304] {
            assert_eq!(RefusedCounts::place(StatusCode::from_u16(status).expect("a status")), None);
        }
        let mut counts = [0; RefusedCounts::PLACES];
        for status in STATUSES.into_iter().chain([418, 599]) {
            counts[RefusedCounts::place(StatusCode::from_u16(status).expect("a status")).expect("a place")] += 1;
        }
        let counts = RefusedCounts::new(counts);
        assert!(STATUSES.into_iter().all(|status| counts.of(status) == 1));
        assert_eq!((counts.of(418), counts.others(), counts.total()), (0, 2, 14));
    }
}
