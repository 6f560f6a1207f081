//! The sums of what the sessions and requests of one table count.
//!
//! Owns how a session's own numbers become part of the whole: whenever it has been called, what has changed in it is added. So
//! reading them costs the same with one session and with ten thousand, and what a session has counted outlives it.

use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use sessile_core::session::{Counters, Kind, Session};

use super::stats::{RefusedCounts, RequestCounts};

/// The sums. Gauges go up and down by wrapping around.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    cancellations_unmatched: AtomicU64,
    client_responses_unmatched: AtomicU64,
    notes_dropped: AtomicU64,
    requests_of_sessions: AtomicU64,
    requests_modern: AtomicU64,
    requests_stateless: AtomicU64,
    requests_cancelled: AtomicU64,
    requests_expired: AtomicU64,
    requests_in_flight: AtomicU64,
    responses_unmatched: AtomicU64,
    server_requests_failed: AtomicU64,
    store_failures: AtomicU64,
    store_late: AtomicU64,
    streams: AtomicU64,
    refused: [AtomicU64; RefusedCounts::PLACES],
}

/// What a session has counted, or the sums of that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers {
    pub(super) cancellations_unmatched: u64,
    pub(super) client_responses_unmatched: u64,
    pub(super) notes_dropped: u64,
    pub(super) requests: RequestCounts,
    pub(super) requests_cancelled: u64,
    pub(super) requests_expired: u64,
    pub(super) requests_in_flight: u64,
    pub(super) responses_unmatched: u64,
    pub(super) server_requests_failed: u64,
    pub(super) store_failures: u64,
    pub(super) store_late: u64,
    pub(super) streams: u64,
}

/// What was last added of a session.
#[derive(Debug)]
pub(super) struct Added {
    kind: Kind,
    /// Whether no client has asked for it.
    ours: bool,
    counters: Counters,
    requests_in_flight: usize,
    streams: usize,
}

impl Added {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, ours: false, counters: Counters::default(), requests_in_flight: 0, streams: 0 }
    }

    /// From now on nothing is added.
    pub(super) const fn is_ours(&mut self) {
        self.ours = true;
    }
}

impl Totals {
    /// Adds what has changed in a session since the last time.
    pub(super) fn add<X>(&self, added: &mut Added, session: &Session<X>) {
        if added.ours {
            return;
        }
        let counters = session.counters();
        let (requests_in_flight, streams) = (session.requests_in_flight(), session.streams_open());
        let add = |sum: &AtomicU64, now: u64, before: u64| {
            if now != before {
                sum.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
            }
        };
        add(&self.requests_in_flight, requests_in_flight as u64, added.requests_in_flight as u64);
        add(&self.streams, streams as u64, added.streams as u64);
        (added.requests_in_flight, added.streams) = (requests_in_flight, streams);
        let before = std::mem::replace(&mut added.counters, counters);
        if before == counters {
            return;
        }
        let requests = match added.kind {
            Kind::Modern => &self.requests_modern,
            Kind::Session => &self.requests_of_sessions,
            Kind::Stateless => &self.requests_stateless,
        };
        add(requests, counters.requests, before.requests);
        for (sum, now, before) in [
            (&self.cancellations_unmatched, counters.cancellations_unmatched, before.cancellations_unmatched),
            (&self.client_responses_unmatched, counters.client_responses_unmatched, before.client_responses_unmatched),
            (&self.notes_dropped, counters.notes_dropped, before.notes_dropped),
            (&self.requests_cancelled, counters.requests_cancelled, before.requests_cancelled),
            (&self.requests_expired, counters.requests_expired, before.requests_expired),
            (&self.responses_unmatched, counters.responses_unmatched, before.responses_unmatched),
            (&self.server_requests_failed, counters.server_requests_failed, before.server_requests_failed),
            (&self.store_failures, counters.store_failures, before.store_failures),
            (&self.store_late, counters.store_late, before.store_late),
        ] {
            add(sum, now.into(), before.into());
        }
    }

    /// An answer leaves with this status; those that are no refusals are not counted.
    pub(crate) fn refuse(&self, status: StatusCode) {
        if let Some(place) = RefusedCounts::place(status) {
            self.refused[place].fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn numbers(&self) -> Numbers {
        let read = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        Numbers {
            cancellations_unmatched: read(&self.cancellations_unmatched),
            client_responses_unmatched: read(&self.client_responses_unmatched),
            notes_dropped: read(&self.notes_dropped),
            requests: RequestCounts {
                legacy: read(&self.requests_of_sessions),
                modern: read(&self.requests_modern),
                stateless: read(&self.requests_stateless),
            },
            requests_cancelled: read(&self.requests_cancelled),
            requests_expired: read(&self.requests_expired),
            requests_in_flight: read(&self.requests_in_flight),
            responses_unmatched: read(&self.responses_unmatched),
            server_requests_failed: read(&self.server_requests_failed),
            store_failures: read(&self.store_failures),
            store_late: read(&self.store_late),
            streams: read(&self.streams),
        }
    }

    pub(super) fn refused(&self) -> RefusedCounts {
        RefusedCounts::new(self.refused.each_ref().map(|sum| sum.load(Ordering::Relaxed)))
    }
}
