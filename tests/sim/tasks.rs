//! What comes to be known later, for whoever waits for it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Completes with what is put into its [`Outlet`], such as the output of a task. Dropping it leaves the task alone.
#[derive(Debug)]
pub struct Joined<T>(Arc<Mutex<Slot<T>>>);

/// Where it is put, once.
#[derive(Debug)]
pub struct Outlet<T>(Arc<Mutex<Slot<T>>>);

/// The two ends of something that comes to be known later.
#[must_use]
pub fn promise<T>() -> (Outlet<T>, Joined<T>) {
    let slot = Arc::new(Mutex::new(Slot { output: None, waker: None }));
    (Outlet(Arc::clone(&slot)), Joined(slot))
}

#[derive(Debug)]
struct Slot<T> {
    output: Option<T>,
    waker: Option<Waker>,
}

impl<T> Outlet<T> {
    /// Lets whoever waits go on.
    ///
    /// # Panics
    ///
    /// Never: nothing panics while the lock is held.
    pub fn put(self, output: T) {
        let waker = {
            let mut slot = self.0.lock().expect("nothing panics while it is held");
            slot.output = Some(output);
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Joined<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut slot = self.0.lock().expect("nothing panics while it is held");
        match slot.output.take() {
            Some(output) => Poll::Ready(output),
            None => {
                slot.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}
