//! The tables behind their locks: what the manager, its exchanges and its apps share.
//!
//! Owns the order of locks (a session's and the table's are never held together) and what an effect of a session means to the
//! table. Decides nothing itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use sessile_core::session::{Delivery, EndReason, Kind};
use sessile_core::table::{
    CloseReason, Reap, ReapReason, Rejection, RequestAction, RequestHead, SessionTable, TableCounts, TaskExit,
};
use sessile_core::{Config, ConfigError, FingerprintKey, Outcome, ProtocolVersion, SessionId, SessionKey, Timestamp};
use tracing::{debug, info, warn};

use super::asking::Asking;
use super::cell::{Cell, Inner, SessionInfo, Todo};
use super::hooks::HookSet;
use super::tables::Tables;
use super::totals::Totals;
use crate::app::AppError;
use crate::clock::Clock;
use crate::principal::Principal;

pub(crate) struct Hub<S> {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) config: Config,
    pub(crate) hooks: HookSet,
    /// Asks the store, if there is one.
    asking: Option<Asking<S>>,
    pub(crate) totals: Totals,
    pub(super) fingerprints: FingerprintKey,
    tables: Mutex<Tables<S>>,
    draining: AtomicBool,
    counted: Counted,
}

/// What a table counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    /// Requests without a session, each of which ends with its exchange.
    Requests,
    Sessions,
    /// The same as requests, but that they last.
    Subscriptions,
}

/// What the table has counted, how many sessions there are now, and how many tasks of apps.
pub(super) struct HubCounts {
    pub(super) counts: TableCounts,
    pub(super) live: usize,
    pub(super) tasks: usize,
}

/// One exchange of a session, counted in the table until it is given back.
pub(crate) struct Ticket<S> {
    pub(crate) hub: Arc<Hub<S>>,
    pub(crate) cell: Arc<Cell<S>>,
    /// Whether a request without a connection keeps it.
    pub(crate) kept: bool,
}

impl<S> Drop for Ticket<S> {
    fn drop(&mut self) {
        if !self.kept {
            self.hub.finish(self.cell.info.key, 1);
        }
    }
}

impl<S> Hub<S> {
    /// The tables for sessions, or for what belongs to none.
    pub(crate) fn new(
        config: &Config,
        counted: Counted,
        hooks: HookSet,
        asking: Option<Asking<S>>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ConfigError> {
        let table = SessionTable::new(match counted {
            Counted::Requests => config.sessionless.table(),
            Counted::Sessions => config.table.clone(),
            Counted::Subscriptions => config.sessionless.subscriptions_table(),
        })?;

        Ok(Self {
            clock,
            config: config.clone(),
            hooks,
            asking,
            totals: Totals::default(),
            fingerprints: FingerprintKey::from_bytes(random_bytes()),
            tables: Mutex::new(Tables::new(table)),
            draining: AtomicBool::new(false),
            counted,
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Tables<S>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn len(&self) -> usize {
        self.lock().table.len()
    }

    pub(super) fn counts(&self) -> HubCounts {
        let tables = self.lock();
        HubCounts { counts: tables.table.counts(), live: tables.table.len(), tasks: tables.tasks }
    }

    /// Routes an exchange to a live session of this principal.
    pub(crate) fn route(
        self: &Arc<Self>,
        id: SessionId,
        principal: &Principal,
    ) -> Result<(Ticket<S>, Option<ProtocolVersion>), Rejection> {
        let head = RequestHead { session: Some(id), principal, may_create: false };
        let now = self.now();
        let mut tables = self.lock();
        match tables.table.handle_request(now, head, &mut no_id) {
            RequestAction::Route { key, version } => {
                let Some(cell) = tables.cell(key) else { return Err(Rejection::UnknownSession) };
                drop(tables);
                Ok((Ticket { hub: Arc::clone(self), cell, kept: false }, version))
            }
            RequestAction::Reject(rejection) => {
                drop(tables);
                if matches!(rejection, Rejection::ForeignPrincipal) {
                    warn!(session = %self.fingerprints.fingerprint(&id), %principal, "foreign session asked for");
                } else {
                    debug!(session = %self.fingerprints.fingerprint(&id), reason = rejection.log_reason(), "request rejected");
                }
                Err(rejection)
            }
            RequestAction::Create { .. } => Err(Rejection::UnknownSession),
        }
    }

    /// Makes a session for a valid `initialize`, or what stands for one while a request without a session is served.
    pub(crate) fn create(
        self: &Arc<Self>,
        principal: &Principal,
        kind: Kind,
        delivery: Delivery,
        open: impl FnOnce(&SessionInfo) -> S,
    ) -> Result<Ticket<S>, Outcome> {
        let head = RequestHead { session: None, principal, may_create: true };
        let now = self.now();
        let mut tables = self.lock();
        let action = tables.table.handle_request(now, head, &mut random_id);
        let (key, id, evicted) = match action {
            RequestAction::Create { key, id, evicted } => (key, id, evicted),
            RequestAction::Reject(rejection) => {
                drop(tables);
                debug!(reason = rejection.log_reason(), "initialize rejected");
                return Err(rejection.outcome());
            }
            RequestAction::Route { .. } => return Err(Outcome::SessionNotFound),
        };
        let evicted = evicted.map(|reap| (tables.take_cell(&reap), reap));
        tables.opening.push((key, None));
        drop(tables);
        if let Some((evicted, reap)) = evicted {
            self.bury(evicted, &reap);
        }
        // Nobody knows the id yet, so nobody misses the session while the app's own code makes its state.
        let info =
            SessionInfo { fingerprint: self.fingerprints.fingerprint(&id), key, kind, principal: principal.clone() };
        self.hooks.opened(&info);
        let Ok(state) = catch_unwind(AssertUnwindSafe(|| open(&info))) else {
            warn!(session = %info.fingerprint, error = %AppError::Panicked, "a session could not be opened");
            self.exit(key, TaskExit::Crashed);
            let ended = self.lock().end_of_opening(key);
            self.hooks.closed(&info, ended.unwrap_or(ReapReason::Crashed));
            return Err(Outcome::AppFailed);
        };
        let cell = Arc::new(Cell::new(id, info, state, delivery));
        let mut tables = self.lock();
        if let Some(reason) = tables.end_of_opening(key) {
            drop(tables);
            self.hooks.closed(&cell.info, reason);
            return Err(if reason == ReapReason::Shutdown { Outcome::ShuttingDown } else { Outcome::SessionEnded });
        }
        tables.put(key, Arc::clone(&cell));
        tables.arm();
        drop(tables);
        match kind {
            Kind::Session => info!(session = %cell.info.fingerprint, %principal, "session opened"),
            Kind::Modern | Kind::Stateless => debug!(request = %cell.info.fingerprint, %principal, "request opened"),
        }
        Ok(Ticket { hub: Arc::clone(self), cell, kept: false })
    }

    /// Gives exchanges of a session back.
    pub(crate) fn finish(self: &Arc<Self>, key: SessionKey, count: u32) {
        let now = self.now();
        let mut tables = self.lock();
        for _ in 0..count {
            tables.table.handle_response_finished(now, key);
        }
        // A request without a session is over with its exchange.
        let over = self.counted != Counted::Sessions && tables.table.in_flight(key) == 0;
        let reap = if over { tables.table.handle_task_exited(now, key, TaskExit::Finished) } else { None };
        let reaped = reap.map(|reap| (tables.take_cell(&reap), reap));
        tables.arm();
        let waker = if self.draining.load(Ordering::Relaxed) { tables.shutdown.take() } else { None };
        drop(tables);
        if let Some((cell, reap)) = reaped {
            self.bury(cell, &reap);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Does what the effects of a call of the session ask for. Takes the lock of the session, to give it up first.
    pub(crate) fn settle(self: &Arc<Self>, cell: &Arc<Cell<S>>, mut inner: MutexGuard<'_, Inner>) {
        let mut todo = inner.take_effects(&self.totals);
        let version = inner.session.version();
        drop(inner);
        self.carry_out(cell, &mut todo, version);
    }

    /// The table first, then the hooks, the wakers last: whatever a client may rely on when it hears an answer exists by then.
    fn carry_out(self: &Arc<Self>, cell: &Arc<Cell<S>>, todo: &mut Todo, version: Option<ProtocolVersion>) {
        if todo.concerns_the_table() {
            let key = cell.info.key;
            if todo.established || todo.alarm.is_some() {
                let now = self.now();
                let mut tables = self.lock();
                if todo.established {
                    tables.table.handle_initialized(now, key, version.unwrap_or(ProtocolVersion::ASSUMED));
                }
                if let Some(alarm) = todo.alarm.take().filter(|alarm| cell.is_news(alarm)) {
                    tables.table.set_alarm(key, alarm.at);
                }
                tables.arm();
            }
            if todo.released > 0 {
                self.finish(key, todo.released);
            }
            if let Some(reason) = todo.end {
                if reason == EndReason::NotStarted {
                    warn!(session = %cell.info.fingerprint, "the app has not answered initialize in time");
                }
                self.exit(key, reason.into());
            }
        }
        if let Some(initialized) = todo.initialized.take() {
            self.hooks.initialized(cell, &initialized);
        }
        self.ask_store(cell, todo);
        todo.wake();
    }

    /// Somebody asks the store what the session has to ask.
    fn ask_store(self: &Arc<Self>, cell: &Arc<Cell<S>>, todo: &Todo) {
        if todo.store
            && let Some(asking) = &self.asking
        {
            asking(self, cell);
        }
    }

    /// A task of an app has begun.
    pub(crate) fn task_started(&self) {
        self.lock().tasks += 1;
    }

    /// A task of an app has ended, and its session with it.
    pub(crate) fn task_ended(self: &Arc<Self>, cell: &Cell<S>, result: Result<(), AppError>) {
        let exit = match result {
            Ok(()) => TaskExit::Finished,
            Err(error) => {
                warn!(session = %cell.info.fingerprint, %error, "the app failed");
                TaskExit::Crashed
            }
        };
        self.exit(cell.info.key, exit);
        let mut tables = self.lock();
        tables.tasks -= 1;
        let waker = tables.shutdown.take();
        drop(tables);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The app of a session is gone, so the session is.
    pub(crate) fn exit(self: &Arc<Self>, key: SessionKey, exit: TaskExit) {
        let now = self.now();
        self.reap_with(|table| table.handle_task_exited(now, key, exit));
    }

    /// The client ended it, or left before it began, or whoever runs the server wants it to end. Whether it was live.
    pub(crate) fn close(self: &Arc<Self>, key: SessionKey, reason: CloseReason) -> bool {
        let now = self.now();
        self.reap_with(|table| table.handle_close(now, key, reason)) > 0
    }

    /// Ends the sessions that `decide` has taken out of the table; how many.
    pub(super) fn reap_with<I: IntoIterator<Item = Reap>>(
        self: &Arc<Self>,
        decide: impl FnOnce(&mut SessionTable<Principal>) -> I,
    ) -> usize {
        let mut tables = self.lock();
        let mut reaped = Vec::new();
        for reap in decide(&mut tables.table) {
            reaped.push((tables.take_cell(&reap), reap));
        }
        let waker = if self.draining.load(Ordering::Relaxed) { tables.shutdown.take() } else { None };
        drop(tables);
        let count = reaped.len();
        for (cell, reap) in reaped {
            self.bury(cell, &reap);
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        count
    }

    /// Ends a session that the table has removed: errors for its open requests, ends for its streams.
    pub(crate) fn bury(self: &Arc<Self>, cell: Option<Arc<Cell<S>>>, reap: &Reap) {
        let Some(cell) = cell else { return };
        let mut inner = cell.lock();
        inner.session.end(reap.reason.into());
        let tell = inner.told.close(reap.reason);
        let mut todo = inner.take_effects(&self.totals);
        let counters = inner.session.counters();
        drop(inner);
        if tell {
            self.hooks.closed(&cell.info, reap.reason);
        }
        self.ask_store(&cell, &todo);
        todo.wake();
        if self.counted == Counted::Sessions {
            info!(session = %cell.info.fingerprint, reason = reap.reason.as_str(), "session closed");
            debug!(session = %cell.info.fingerprint, ?counters, "what came to nothing");
        } else {
            debug!(request = %cell.info.fingerprint, ?counters, "request closed");
        }
    }

    /// One round of the reaper: everything that is due. Gives the next deadline.
    pub(crate) fn sweep(self: &Arc<Self>, waker: &Waker) -> Option<Timestamp> {
        loop {
            let now = self.now();
            let mut tables = self.lock();
            if tables.reaper.stopped {
                return None;
            }
            if let Some(reap) = tables.table.poll_reap(now) {
                let cell = tables.take_cell(&reap);
                drop(tables);
                self.bury(cell, &reap);
            } else if let Some(key) = tables.table.poll_alarm(now) {
                let cell = tables.cell(key);
                drop(tables);
                if let Some(cell) = cell {
                    let mut inner = cell.lock();
                    inner.session.handle_timeout(now, &self.config.session);
                    self.settle(&cell, inner);
                }
            } else {
                let next = tables.table.next_deadline().unwrap_or(Timestamp::MAX);
                tables.reaper.armed = next;
                match &mut tables.reaper.waker {
                    Some(known) => known.clone_from(waker),
                    none => *none = Some(waker.clone()),
                }
                return Some(next);
            }
        }
    }

    /// Refuses new work; what is in flight goes on.
    pub(crate) fn begin_shutdown(self: &Arc<Self>) {
        self.draining.store(true, Ordering::Relaxed);
        let now = self.now();
        let mut tables = self.lock();
        tables.table.begin_shutdown();
        let cells: Vec<_> = tables.cells().cloned().collect();
        drop(tables);
        for cell in cells {
            let mut inner = cell.lock();
            inner.session.begin_drain(now, &self.config.session);
            self.settle(&cell, inner);
        }
    }

    /// Ends every session that is left.
    pub(crate) fn finish_shutdown(self: &Arc<Self>) {
        let now = self.now();
        self.lock().table.finish_shutdown();
        loop {
            let mut tables = self.lock();
            let Some(reap) = tables.table.poll_reap(now) else { break };
            let cell = tables.take_cell(&reap);
            drop(tables);
            self.bury(cell, &reap);
        }
    }

    /// Whether no exchange is under way; `waker` is woken when that may have changed.
    pub(crate) fn poll_quiet(&self, waker: &Waker) -> bool {
        let mut tables = self.lock();
        let busy = tables.table.sessions().any(|(key, _)| tables.table.in_flight(key) > 0);
        tables.shutdown = busy.then(|| waker.clone());
        !busy
    }

    /// Whether no task of an app is left.
    pub(crate) fn poll_tasks_ended(&self, waker: &Waker) -> bool {
        let mut tables = self.lock();
        let busy = tables.tasks > 0;
        tables.shutdown = busy.then(|| waker.clone());
        !busy
    }

    /// Ends the reaper.
    pub(crate) fn stop_reaper(&self) {
        let mut tables = self.lock();
        tables.reaper.stopped = true;
        let waker = tables.reaper.waker.take();
        drop(tables);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Routing never makes an id.
fn no_id() -> SessionId {
    SessionId::from_bytes([0; 16])
}

fn random_id() -> SessionId {
    SessionId::from_bytes(random_bytes())
}

/// 128 bits of the system's generator.
///
/// # Panics
///
/// If the system has no randomness to give: better no session than one whose id can be guessed.
pub(super) fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system's random generator works");
    bytes
}
