//! Looking at the sessions, and ending them from outside.

use std::time::Duration;

use sessile_core::table::CloseReason;
use sessile_core::{Fingerprint, ProtocolVersion, SessionKey};

use super::Manager;
use super::hub::Hub;
use super::stats::Stats;
use crate::app::Backend;
use crate::principal::Principal;
use crate::runtime::Runtime;

/// One session as [`Manager::list`] saw it. Never its id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSummary {
    /// How long ago it was opened.
    pub age: Duration,
    /// Its short name in logs.
    pub fingerprint: Fingerprint,
    /// For how long it has been idle, if it is.
    pub idle: Option<Duration>,
    /// How many of its exchanges are in flight.
    pub in_flight: u32,
    /// Its handle.
    pub key: SessionKey,
    /// Whose it is.
    pub principal: Principal,
    /// What was negotiated, once it was.
    pub version: Option<ProtocolVersion>,
}

impl<R: Runtime, B: Backend> Manager<R, B> {
    /// Every live session, the oldest first. Goes through all of them under the manager's lock: for people and their tools, not for
    /// each request. For numbers see [`stats`](Self::stats).
    #[must_use]
    pub fn list(&self) -> Vec<SessionSummary> {
        self.shared.hub.list()
    }

    /// Ends a session, busy or not: every open request of it gets an error, and its id is unknown from then on. Whether it
    /// was live.
    pub fn close(&self, key: SessionKey) -> bool {
        self.shared.hub.close(key, CloseReason::Dismissed)
    }

    /// Ends every session of this principal, when its credential is revoked for one; how many there were. Whoever authenticates
    /// requests must refuse those that come later.
    pub fn close_all_of(&self, principal: &Principal) -> usize {
        self.shared.hub.close_all_of(principal)
    }

    /// The numbers: what there is now and what has been.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats { header_checks_skipped: self.shared.tools.skipped(), ..Stats::of(self.shared.hubs().map(|hub| &**hub)) }
    }
}

impl<S> Hub<S> {
    fn list(&self) -> Vec<SessionSummary> {
        let now = self.now();
        let tables = self.lock();
        let summary = |(key, session): (SessionKey, sessile_core::SessionInfo<'_, Principal>)| SessionSummary {
            age: now.saturating_since(session.created),
            fingerprint: self.fingerprints.fingerprint(&session.id),
            idle: session.idle_since.map(|since| now.saturating_since(since)),
            in_flight: session.in_flight,
            key,
            principal: session.principal.clone(),
            version: session.version,
        };
        tables.table.sessions().map(summary).collect()
    }

    /// Ends the sessions of a principal, all of them before it can open another.
    fn close_all_of(&self, principal: &Principal) -> usize {
        let now = self.now();
        self.reap_with(|table| {
            let its = table.sessions().filter(|(_, session)| session.principal == principal);
            let keys: Vec<_> = its.map(|(key, _)| key).collect();
            keys.into_iter().filter_map(|key| table.handle_close(now, key, CloseReason::Dismissed)).collect::<Vec<_>>()
        })
    }
}
