//! How many tasks of ours run, for whoever has to wait for their end.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// Counts tasks.
#[derive(Debug, Default)]
pub(super) struct Tasks(Mutex<(usize, Vec<Waker>)>);

/// One task; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Running(Arc<Tasks>);

impl Tasks {
    pub(super) fn begin(self: &Arc<Self>) -> Running {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0 += 1;
        Running(Arc::clone(self))
    }

    /// Waits until none runs.
    pub(super) async fn none(&self) {
        poll_fn(|cx| {
            let (count, waiting) = &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if *count == 0 {
                return Poll::Ready(());
            }
            waiting.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let woken = {
            let (count, waiting) = &mut *self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
            *count -= 1;
            if *count == 0 { std::mem::take(waiting) } else { Vec::new() }
        };
        woken.into_iter().for_each(Waker::wake);
    }
}
