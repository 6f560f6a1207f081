//! A runtime of nothing but threads, for what must not depend on tokio, and for what a task may do before whoever has spawned it
//! goes on.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

use sessile::core::Timestamp;
use sessile::runtime::{Runtime, Timer};

/// Runs a task at once as far as it goes, and the rest on a thread of its own. No timer is ever due.
#[derive(Clone, Copy, Debug)]
pub struct Threads(Instant);

/// A timer that is never due.
#[derive(Clone, Copy, Debug)]
pub struct Never;

impl Default for Threads {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Runtime for Threads {
    type Timer = Never;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO.saturating_add(self.0.elapsed())
    }

    fn timer_at(&self, _: Timestamp) -> Never {
        Never
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut task = Box::pin(task);
        if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            thread::spawn(|| block_on(task));
        }
    }
}

impl Future for Never {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

impl Timer for Never {
    fn reset(&mut self, _: Timestamp) {}
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future in this thread.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = Box::pin(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}
