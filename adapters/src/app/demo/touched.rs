//! The one thing that changes here, and who waits for it to change.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

/// How often the tool `touch` was called, by anybody.
#[derive(Debug, Default)]
pub(super) struct Touched(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    times: u64,
    /// The number of the next who waits.
    next: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl Touched {
    pub(super) fn times(&self) -> u64 {
        self.lock().times
    }

    /// Counts once more, and tells all who wait.
    pub(super) fn touch(&self) -> u64 {
        let mut inner = self.lock();
        inner.times += 1;
        let (times, waiting) = (inner.times, std::mem::take(&mut inner.waiting));
        drop(inner);
        waiting.into_values().for_each(Waker::wake);
        times
    }

    /// The changes from now on.
    pub(super) fn changes(&self) -> Changes<'_> {
        let mut inner = self.lock();
        inner.next += 1;
        Changes { touched: self, number: inner.next, seen: inner.times }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits for changes.
pub(super) struct Changes<'a> {
    touched: &'a Touched,
    number: u64,
    seen: u64,
}

impl Changes<'_> {
    /// Waits until something has changed since the last time. Several changes may be told as one.
    pub(super) async fn next(&mut self) {
        poll_fn(|cx| {
            let mut inner = self.touched.lock();
            if inner.times == self.seen {
                inner.waiting.insert(self.number, cx.waker().clone());
                return Poll::Pending;
            }
            self.seen = inner.times;
            Poll::Ready(())
        })
        .await;
    }
}

impl Drop for Changes<'_> {
    fn drop(&mut self) {
        self.touched.lock().waiting.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    #[test]
    fn whoever_waits_is_told_and_who_has_gone_is_forgotten() {
        let touched = Touched::default();
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(touched.touch(), 1);
        let mut changes = touched.changes();
        assert!(pin!(changes.next()).poll(&mut cx).is_pending(), "what was before is not told");
        assert_eq!(touched.lock().waiting.len(), 1);
        assert_eq!((touched.touch(), touched.touch()), (2, 3));
        assert_eq!(touched.lock().waiting.len(), 0);
        assert!(pin!(changes.next()).poll(&mut cx).is_ready());
        assert!(pin!(changes.next()).poll(&mut cx).is_pending(), "two changes were one");
        drop(changes);
        assert_eq!(touched.lock().waiting.len(), 0);
    }
}
