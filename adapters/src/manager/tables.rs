//! What the one lock of the manager guards.
//!
//! Owns that the table of the core, the cells of its sessions, and what the reaper sleeps for agree. Takes no lock itself.

use std::sync::Arc;
use std::task::Waker;

use sessile_core::table::{Reap, ReapReason, SessionTable};
use sessile_core::{SessionKey, Timestamp};

use super::cell::Cell;
use crate::principal::Principal;

/// What the one lock of the manager guards.
pub(super) struct Tables<S> {
    pub(super) table: SessionTable<Principal>,
    /// By the index of their key.
    cells: Vec<Option<Arc<Cell<S>>>>,
    /// Sessions whose app's state is just being made, and why they have ended meanwhile.
    pub(super) opening: Vec<(SessionKey, Option<ReapReason>)>,
    pub(super) reaper: Reaper,
    /// Tasks of apps that have not returned.
    pub(super) tasks: usize,
    /// Whoever waits for work to end.
    pub(super) shutdown: Option<Waker>,
}

/// What the reaper last went to sleep for.
pub(super) struct Reaper {
    pub(super) armed: Timestamp,
    pub(super) waker: Option<Waker>,
    /// The manager is gone, or shut down.
    pub(super) stopped: bool,
}

impl<S> Tables<S> {
    pub(super) fn new(table: SessionTable<Principal>) -> Self {
        Self {
            table,
            cells: Vec::new(),
            opening: Vec::new(),
            reaper: Reaper { armed: Timestamp::MAX, waker: None, stopped: false },
            tasks: 0,
            shutdown: None,
        }
    }

    /// Every session that has a cell.
    pub(super) fn cells(&self) -> impl Iterator<Item = &Arc<Cell<S>>> {
        self.cells.iter().flatten()
    }

    pub(super) fn cell(&self, key: SessionKey) -> Option<Arc<Cell<S>>> {
        self.cells.get(key.index())?.as_ref().filter(|cell| cell.info.key == key).cloned()
    }

    pub(super) fn put(&mut self, key: SessionKey, cell: Arc<Cell<S>>) {
        if self.cells.len() <= key.index() {
            self.cells.resize_with(key.index() + 1, || None);
        }
        self.cells[key.index()] = Some(cell);
    }

    /// The cell of a session that has ended. One that is still being opened has none: whoever opens it is told.
    pub(super) fn take_cell(&mut self, reap: &Reap) -> Option<Arc<Cell<S>>> {
        if let Some((_, ended)) = self.opening.iter_mut().find(|(key, _)| *key == reap.key) {
            *ended = Some(reap.reason);
            return None;
        }
        let slot = self.cells.get_mut(reap.key.index())?;
        slot.take_if(|cell| cell.info.key == reap.key)
    }

    /// A session is no longer being opened. Why it has ended, if it has.
    pub(super) fn end_of_opening(&mut self, key: SessionKey) -> Option<ReapReason> {
        let at = self.opening.iter().position(|(other, _)| *other == key)?;
        self.opening.swap_remove(at).1
    }

    /// Wakes the reaper if a deadline has come nearer than what it sleeps for. Its waker only marks it runnable, so the lock may be held.
    pub(super) fn arm(&mut self) {
        if self.table.next_deadline().is_some_and(|next| next < self.reaper.armed) {
            self.reaper.armed = Timestamp::ZERO;
            if let Some(waker) = self.reaper.waker.take() {
                waker.wake();
            }
        }
    }
}
