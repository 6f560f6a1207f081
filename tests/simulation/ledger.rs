//! What is known of a run from behind the service, and what must hold at its end.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use sessile::app::SessionInfo;
use sessile::{Hooks, Initialized, Stats};
use sessile_core::{ReapReason, SessionKey};

/// How often clients saw what.
pub(crate) type Counts = BTreeMap<&'static str, usize>;

/// Shared by hooks, apps and clients.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ledger(Arc<Mutex<Books>>);

#[derive(Debug, Default)]
struct Books {
    calls: usize,
    counts: Counts,
    /// What was wrong with a hook. The manager catches a panic in one.
    faults: Vec<String>,
    sessions: BTreeMap<SessionKey, Entry>,
    /// Ids that clients were given, with whose they are.
    ids: Vec<(String, String)>,
}

#[derive(Debug, Default)]
struct Entry {
    closed: Option<ReapReason>,
    initialized: bool,
    tag: Option<String>,
}

impl Ledger {
    /// Counts a call of an app until it is dropped, done or not.
    pub(crate) fn call(&self) -> Call {
        self.lock().calls += 1;
        Call(self.clone())
    }

    /// The client of this session calls it so.
    pub(crate) fn name(&self, session: &SessionInfo, tag: &str) {
        if let Some(entry) = self.lock().sessions.get_mut(&session.key()) {
            entry.tag = Some(tag.to_owned());
        }
    }

    /// A client has this id.
    pub(crate) fn given(&self, id: &str, owner: &str) {
        let mut books = self.lock();
        assert!(books.ids.iter().all(|(other, _)| other != id), "an id is given once");
        books.ids.push((id.to_owned(), owner.to_owned()));
    }

    /// The `choice`th of the sessions that are not `who`'s.
    pub(crate) fn foreign(&self, who: &str, choice: usize) -> Option<String> {
        let books = self.lock();
        let foreign: Vec<_> = books.ids.iter().filter(|(_, owner)| owner != who).collect();
        (!foreign.is_empty()).then(|| foreign[choice % foreign.len()].0.clone())
    }

    /// Whether the session with this name has ended.
    pub(crate) fn has_closed(&self, tag: &str) -> bool {
        self.lock().sessions.values().any(|entry| entry.tag.as_deref() == Some(tag) && entry.closed.is_some())
    }

    /// A client saw this.
    pub(crate) fn count(&self, what: &'static str) {
        *self.lock().counts.entry(what).or_default() += 1;
    }

    /// How many calls of apps have not ended.
    pub(crate) fn calls(&self) -> usize {
        self.lock().calls
    }

    /// What clients saw, and how sessions ended.
    pub(crate) fn counts(&self) -> Counts {
        let books = self.lock();
        let mut counts = books.counts.clone();
        for reason in books.sessions.values().filter_map(|entry| entry.closed) {
            *counts.entry(reason.as_str()).or_default() += 1;
        }
        counts
    }

    /// Everybody has gone: nothing is left.
    pub(crate) fn settle(&self, stats: &Stats) {
        let books = self.lock();
        assert_eq!(books.faults, Vec::<String>::new());
        for (key, entry) in &books.sessions {
            assert!(entry.closed.is_some(), "{key:?} was opened and never closed");
        }
        let gauges = [stats.exchanges, stats.requests_in_flight, stats.streams];
        assert_eq!(gauges, [0; 3], "{stats:?}");
        assert_eq!([stats.app_tasks, stats.sessionless, stats.sessions], [0; 3], "{stats:?}");
        assert_eq!((stats.opened, stats.closed.total()), (books.sessions.len() as u64, books.sessions.len() as u64));
    }

    fn lock(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Each hook comes once, in its order.
impl Hooks for Ledger {
    fn opened(&self, session: &SessionInfo) {
        let mut books = self.lock();
        if books.sessions.insert(session.key(), Entry::default()).is_some() {
            books.faults.push("opened twice".to_owned());
        }
    }

    fn initialized(&self, session: &SessionInfo, _: &Initialized) {
        let mut books = self.lock();
        match books.sessions.get_mut(&session.key()) {
            Some(entry) if !entry.initialized && entry.closed.is_none() => entry.initialized = true,
            entry => {
                let fault = format!("initialized after {entry:?}");
                books.faults.push(fault);
            }
        }
    }

    fn closed(&self, session: &SessionInfo, reason: ReapReason) {
        let mut books = self.lock();
        match books.sessions.get_mut(&session.key()) {
            Some(entry) if entry.closed.is_none() => entry.closed = Some(reason),
            entry => {
                let fault = format!("closed after {entry:?}");
                books.faults.push(fault);
            }
        }
    }
}

pub(crate) struct Call(Ledger);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.lock().calls -= 1;
    }
}
