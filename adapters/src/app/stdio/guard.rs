//! A child is never left behind.
//!
//! Owns the process from its start to its reaping. The order is always the same: SIGKILL to the group, then a word to the
//! watcher, then the reaping of the leader; while it is unreaped nobody else can have its number.

use std::future::poll_fn;
use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use super::GroupWatcher;
use super::launch::Counters;
use crate::runtime::{Child, GroupSignal, Processes};

/// Kills the group and reaps the leader when it is dropped.
pub(super) struct Guard<R: Processes> {
    runtime: R,
    /// `None`: reaped.
    child: Option<R::Child>,
    alive: Alive,
    /// `None`: there is none, or it has been told of the end.
    watcher: Option<Arc<dyn GroupWatcher>>,
}

/// Counts a child until it is reaped.
#[derive(Debug)]
struct Alive(Arc<Counters>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.children.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<R: Processes> Guard<R> {
    pub(super) fn new(
        runtime: R,
        child: R::Child,
        counters: Arc<Counters>,
        watcher: Option<Arc<dyn GroupWatcher>>,
    ) -> Self {
        if let Some(watcher) = &watcher {
            watcher.born(child.id());
        }
        counters.children.fetch_add(1, Ordering::Relaxed);
        Self { runtime, child: Some(child), alive: Alive(counters), watcher }
    }

    /// The number of the leader, 0 once it is reaped.
    pub(super) fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Waits until the leader has exited; it stays unreaped.
    pub(super) fn poll_exited(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.child.as_mut().map_or(Poll::Ready(Ok(())), |child| child.poll_exited(cx))
    }

    pub(super) fn signal(&mut self, signal: GroupSignal) {
        if let Some(child) = &mut self.child {
            child.signal_group(signal);
        }
    }

    /// Kills what is left of the group and reaps the leader, which has exited.
    pub(super) fn reap(&mut self) -> io::Result<ExitStatus> {
        let child = self.child.as_mut().ok_or_else(|| io::Error::other("already reaped"))?;
        child.signal_group(GroupSignal::Kill);
        // Nobody escapes SIGKILL, not even by a fork at that moment: whether the leader can be reaped yet changes nothing.
        if let Some(watcher) = self.watcher.take() {
            watcher.gone(child.id());
        }
        let status = child.reap()?;
        self.child = None;
        Ok(status)
    }
}

impl<R: Processes> Drop for Guard<R> {
    fn drop(&mut self) {
        if self.reap().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            // Killed, but not yet gone. If the runtime no longer runs tasks, the program is about to end, and the
            // system reaps.
            let Some(mut child) = self.child.take() else { return };
            let alive = Alive(Arc::clone(&self.alive.0));
            alive.0.children.fetch_add(1, Ordering::Relaxed);
            self.runtime.spawn(async move {
                let _ = poll_fn(|cx| child.poll_exited(cx)).await;
                let _ = child.reap();
                drop(alive);
            });
        }
    }
}
