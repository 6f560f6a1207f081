//! Looking at the sessions, all or some, and ending them from outside.

use std::sync::Arc;
use std::time::Duration;

use sessile_core::table::{CloseReason, SessionInfo as InTable};
use sessile_core::{Fingerprint, ProtocolVersion, SessionKey, Timestamp};

use super::Manager;
use super::cell::Cell;
use super::client::{ClientInfo, Harmless, cut};
use super::hub::Hub;
use super::stats::Stats;
use crate::app::Backend;
use crate::principal::Principal;
use crate::runtime::Runtime;

/// One session as it was seen. Never its id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionSummary {
    /// How long ago it was opened.
    pub age: Duration,
    /// Who its client says it is. `None` while the session is being opened.
    pub client: Option<ClientInfo>,
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
    /// How many GET streams of it are open.
    pub streams: usize,
    /// What was negotiated, once it was.
    pub version: Option<ProtocolVersion>,
}

impl<R: Runtime, B: Backend> Manager<R, B> {
    /// Every live session, the oldest first.
    ///
    /// Like all look-ups but [`session`](Self::session), it goes through all of them under the manager's lock: for people and
    /// their tools, not for each request. For numbers see [`stats`](Self::stats).
    #[must_use]
    pub fn list(&self) -> Vec<SessionSummary> {
        self.shared.hub.list(|_| true)
    }

    /// The live sessions of this principal, the oldest first.
    #[must_use]
    pub fn list_of(&self, principal: &Principal) -> Vec<SessionSummary> {
        self.shared.hub.list(|session| session.principal == *principal)
    }

    /// The live sessions with this fingerprint, which logs show. There is hardly ever more than one; but a fingerprint is short, and
    /// with ten thousand sessions it happens in one server of a hundred that two share theirs.
    ///
    /// ```
    /// # fn example<R: sessile::runtime::Runtime, B: sessile::app::Backend>(manager: &sessile::Manager<R, B>) {
    /// if let Ok(fingerprint) = "9f86d081".parse() {
    ///     for session in manager.find(fingerprint) {
    ///         manager.close_because(session.key, "asked for by its owner");
    ///     }
    /// }
    /// # }
    /// ```
    #[must_use]
    pub fn find(&self, fingerprint: Fingerprint) -> Vec<SessionSummary> {
        self.shared.hub.list(|session| session.fingerprint == fingerprint)
    }

    /// The session with this handle, if it is live.
    #[must_use]
    pub fn session(&self, key: SessionKey) -> Option<SessionSummary> {
        self.shared.hub.look_at(key)
    }

    /// Ends a session, busy or not: every open request of it gets an error, and its id is unknown from then on. Whether it
    /// was live. Hooks and numbers are told [`ReapReason::Dismissed`](sessile_core::ReapReason::Dismissed).
    pub fn close(&self, key: SessionKey) -> bool {
        self.shared.hub.close(key, CloseReason::Dismissed)
    }

    /// The same with a reason for the log, cut to 256 bytes.
    pub fn close_because(&self, key: SessionKey, why: &str) -> bool {
        let Some(SessionSummary { fingerprint, .. }) = self.session(key) else { return false };
        let closed = self.close(key);
        if closed {
            tracing::info!(session = %fingerprint, why = %Harmless(cut(why, 256)), "session dismissed");
        }
        closed
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

/// A session as the table sees it, and where to find out the rest.
type Seen<S> = (SessionSummary, Option<Arc<Cell<S>>>);

impl<S> Hub<S> {
    fn list(&self, wanted: impl Fn(&SessionSummary) -> bool) -> Vec<SessionSummary> {
        let now = self.now();
        let tables = self.lock();
        let seen = tables.table.sessions().map(|(key, session)| self.seen(now, key, &session));
        let wanted: Vec<Seen<S>> = seen
            .filter(|session| wanted(session))
            .map(|session| {
                let cell = tables.cell(session.key);
                (session, cell)
            })
            .collect();
        drop(tables);
        wanted.into_iter().map(complete).collect()
    }

    fn look_at(&self, key: SessionKey) -> Option<SessionSummary> {
        let now = self.now();
        let tables = self.lock();
        let session = self.seen(now, key, &tables.table.session(key)?);
        let cell = tables.cell(key);
        drop(tables);
        Some(complete((session, cell)))
    }

    fn seen(&self, now: Timestamp, key: SessionKey, session: &InTable<'_, Principal>) -> SessionSummary {
        SessionSummary {
            age: now.saturating_since(session.created),
            client: None,
            fingerprint: self.fingerprints.fingerprint(&session.id),
            idle: session.idle_since.map(|since| now.saturating_since(since)),
            in_flight: session.in_flight,
            key,
            principal: session.principal.clone(),
            streams: 0,
            version: session.version,
        }
    }

    /// Ends the sessions of a principal, all of them before it can open another.
    fn close_all_of(self: &Arc<Self>, principal: &Principal) -> usize {
        let now = self.now();
        self.reap_with(|table| {
            let its = table.sessions().filter(|(_, session)| session.principal == principal);
            let keys: Vec<_> = its.map(|(key, _)| key).collect();
            keys.into_iter().filter_map(|key| table.handle_close(now, key, CloseReason::Dismissed)).collect::<Vec<_>>()
        })
    }
}

/// Adds what only the session knows. Its lock is never held together with the table's.
fn complete<S>((mut summary, cell): Seen<S>) -> SessionSummary {
    if let Some(cell) = cell {
        summary.client = cell.client().cloned();
        summary.streams = cell.lock().session.streams_open();
    }
    summary
}
