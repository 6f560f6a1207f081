//! The tokio binding.

use std::future::Future;
#[cfg(feature = "stdio")]
use std::io;
use std::pin::Pin;
#[cfg(feature = "stdio")]
use std::process::Command;
use std::task::{Context, Poll};

use sessile_core::Timestamp;
use tokio::runtime::Handle;
use tokio::time::Instant;

#[cfg(feature = "stdio")]
use super::process::Leader;
#[cfg(feature = "stdio")]
use super::{Processes, Started};
use super::{Runtime, Timer};

#[cfg(feature = "hyper")]
mod net;
#[cfg(feature = "stdio")]
mod process;
#[cfg(feature = "cli")]
pub(crate) mod program;
mod signals;

#[cfg(feature = "hyper")]
pub use self::net::{TokioListener, TokioStream, Watched};
#[cfg(feature = "stdio")]
pub use self::process::{TokioDescriptor, TokioReactor};
pub use self::signals::Signals;

/// The tokio runtime. Its clock is tokio's, so that a paused clock in tests moves everything.
#[derive(Clone, Debug)]
pub struct Tokio {
    handle: Handle,
    epoch: Instant,
}

impl Tokio {
    /// Binds to the runtime that this is called in.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime; see [`Tokio::from_handle`].
    #[must_use]
    pub fn current() -> Self {
        Self::from_handle(Handle::current())
    }

    /// Binds to the runtime of `handle`.
    #[must_use]
    pub fn from_handle(handle: Handle) -> Self {
        Self { handle, epoch: Instant::now() }
    }

    /// The runtime that this is bound to.
    #[must_use]
    pub const fn handle(&self) -> &Handle {
        &self.handle
    }

    fn instant(&self, at: Timestamp) -> Instant {
        let after = at.saturating_since(Timestamp::ZERO);
        // A point too far for the clock to name is as good as a century away.
        self.epoch.checked_add(after).unwrap_or_else(|| self.epoch + CENTURY)
    }
}

const CENTURY: std::time::Duration = std::time::Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl Runtime for Tokio {
    type Timer = TokioTimer;

    fn now(&self) -> Timestamp {
        Timestamp::ZERO.saturating_add(self.epoch.elapsed())
    }

    fn timer_at(&self, at: Timestamp) -> TokioTimer {
        let _guard = self.handle.enter();
        TokioTimer { sleep: Box::pin(tokio::time::sleep_until(self.instant(at))), runtime: self.clone() }
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        drop(self.handle.spawn(task));
    }
}

#[cfg(feature = "stdio")]
impl Processes for Tokio {
    type Child = Leader<TokioReactor>;

    fn start(&self, command: Command) -> io::Result<Started<Self::Child>> {
        let _guard = self.handle.enter();
        super::process::start(command)
    }
}

/// A timer of tokio's wheel.
#[derive(Debug)]
pub struct TokioTimer {
    sleep: Pin<Box<tokio::time::Sleep>>,
    runtime: Tokio,
}

impl Timer for TokioTimer {
    fn reset(&mut self, at: Timestamp) {
        let at = self.runtime.instant(at);
        self.sleep.as_mut().reset(at);
    }
}

impl Future for TokioTimer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.sleep.as_mut().poll(cx)
    }
}
