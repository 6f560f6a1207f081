//! The open connections of one server: how many they are, and how they learn that they must end.
//!
//! Owns a count and one waker per connection. Does not own the connections: each is a task that nobody joins, so that an
//! ended one leaves nothing to collect.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What is asked of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Serve.
    Open,
    /// Finish what was begun, take nothing new.
    Draining,
    /// End at once.
    Ended,
}

/// The set, shared by the server and its connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    /// A [`Phase`], which only rises. Written under the lock; read without it.
    phase: AtomicU8,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Wakers by slot; free slots are `None` and listed in `free`.
    slots: Vec<Option<Waker>>,
    free: Vec<usize>,
    open: usize,
    /// Waits for one connection to end.
    server: Option<Waker>,
}

impl Connections {
    /// Counts one more connection, until the value is dropped.
    pub(super) fn open(self: &Arc<Self>) -> Connection {
        let mut state = self.lock();
        state.open += 1;
        let slot = state.free.pop().unwrap_or_else(|| {
            state.slots.push(None);
            state.slots.len() - 1
        });
        drop(state);
        Connection { all: Arc::clone(self), slot, waker: None }
    }

    /// Asks all connections to enter `phase`.
    pub(super) fn enter(&self, phase: Phase) {
        let wakers: Vec<_> = {
            let state = self.lock();
            self.phase.store(phase as u8, Ordering::Release);
            state.slots.iter().flatten().cloned().collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until fewer than `limit` are open. For one waiter, the server.
    pub(super) fn poll_below(&self, cx: &Context<'_>, limit: usize) -> Poll<()> {
        let mut state = self.lock();
        if state.open < limit {
            return Poll::Ready(());
        }
        state.server = Some(cx.waker().clone());
        Poll::Pending
    }

    fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            0 => Phase::Open,
            1 => Phase::Draining,
            _ => Phase::Ended,
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it is held, and a count stays a count.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open connection's place in the set.
#[derive(Debug)]
pub(super) struct Connection {
    all: Arc<Connections>,
    slot: usize,
    /// What the slot holds, so that the lock is taken only when the task's waker changes: once, in practice.
    waker: Option<Waker>,
}

impl Connection {
    /// What is asked of this connection. The task is woken when that changes.
    pub(super) fn poll_phase(&mut self, cx: &Context<'_>) -> Phase {
        if !self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            self.waker = Some(cx.waker().clone());
            self.all.lock().slots[self.slot] = self.waker.clone();
        }
        self.all.phase()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut state = self.all.lock();
        let waker = state.slots[self.slot].take();
        state.free.push(self.slot);
        state.open -= 1;
        let server = state.server.take();
        drop(state);
        drop(waker);
        if let Some(server) = server {
            server.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_reused_and_the_server_learns_of_each_end() {
        let all = Arc::new(Connections::default());
        let cx = Context::from_waker(Waker::noop());
        let (first, second) = (all.open(), all.open());
        assert!(all.poll_below(&cx, 2).is_pending());
        drop(first);
        assert!(all.poll_below(&cx, 2).is_ready());
        let third = all.open();
        assert_eq!(all.lock().slots.len(), 2);
        drop((second, third));
        assert!(all.poll_below(&cx, 1).is_ready());
    }

    #[test]
    fn a_phase_reaches_those_that_come_after_it() {
        let all = Arc::new(Connections::default());
        let cx = Context::from_waker(Waker::noop());
        let mut before = all.open();
        assert_eq!(before.poll_phase(&cx), Phase::Open);
        all.enter(Phase::Draining);
        assert_eq!(before.poll_phase(&cx), Phase::Draining);
        assert_eq!(all.open().poll_phase(&cx), Phase::Draining);
    }
}
