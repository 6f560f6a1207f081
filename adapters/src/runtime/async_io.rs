//! What smol and async-std share: the timer, sockets, child processes and signals of async-io.
//!
//! Both stand on the same async-io 2, so that a program has one reactor, whichever of the two it uses, or both. Owns nothing
//! of tasks: each runtime spawns them itself. The reactor is driven by whoever blocks on a future of async-io, smol or
//! async-std, and by a thread of async-io's own when nobody does.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sessile_core::Timestamp;

use super::Timer;

#[cfg(feature = "hyper")]
mod net;
#[cfg(feature = "stdio")]
mod process;
#[cfg(unix)]
mod signals;

#[cfg(feature = "hyper")]
pub use self::net::{AsyncIoListener, AsyncIoStream, Watched};
#[cfg(feature = "hyper")]
pub(super) use self::net::{accept, listener, tune};
#[cfg(feature = "stdio")]
pub use self::process::{AsyncIoDescriptor, AsyncIoReactor};
#[cfg(unix)]
pub use self::signals::Signals;

/// Counts what a task finds to do in a row, and lets others have a turn.
///
/// tokio interrupts a task that always finds something; async-io does not, and a peer that floods us would have a thread to itself.
#[cfg(any(feature = "hyper", feature = "stdio"))]
#[derive(Debug, Default)]
struct InARow(u32);

#[cfg(any(feature = "hyper", feature = "stdio"))]
impl InARow {
    const MOST: u32 = 32;

    /// Pending now and then, though there may be something to do; the task is woken at once.
    fn poll_turn(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.0 < Self::MOST {
            return Poll::Ready(());
        }
        self.0 = 0;
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Counts what was found.
    const fn count<T>(&mut self, found: &Poll<T>) {
        self.0 = if found.is_ready() { self.0 + 1 } else { 0 };
    }
}

/// The clock of the system, from an epoch of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    epoch: Instant,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { epoch: Instant::now() }
    }

    pub(super) fn now(self) -> Timestamp {
        Timestamp::ZERO.saturating_add(self.epoch.elapsed())
    }

    pub(super) fn timer_at(self, at: Timestamp) -> AsyncIoTimer {
        AsyncIoTimer { timer: async_io::Timer::at(self.instant(at)), clock: self }
    }

    fn instant(self, at: Timestamp) -> Instant {
        let after = at.saturating_since(Timestamp::ZERO);
        // A point too far for the clock to name is as good as a century away.
        self.epoch.checked_add(after).unwrap_or_else(|| self.epoch + CENTURY)
    }
}

const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// A timer of async-io's reactor.
#[derive(Debug)]
pub struct AsyncIoTimer {
    timer: async_io::Timer,
    clock: Clock,
}

impl Timer for AsyncIoTimer {
    fn reset(&mut self, at: Timestamp) {
        self.timer.set_at(self.clock.instant(at));
    }
}

impl Future for AsyncIoTimer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.timer).poll(cx).map(drop)
    }
}
