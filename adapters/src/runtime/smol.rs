//! The smol binding.
//!
//! Tasks go to smol's global executor, or to one of your own. Timers, sockets, child processes and signals are those of async-io,
//! whose reactor smol's `block_on` drives.
//!
//! ```no_run
//! use sessile::app::Demo;
//! # #[cfg(feature = "hyper")]
//! use sessile::http::{ServeConfig, serve};
//! use sessile::runtime::smol::{Signals, Smol};
//! use sessile::Builder;
//!
//! # #[cfg(feature = "hyper")]
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let runtime = Smol::global();
//!     let manager = Builder::new(runtime.clone()).handler(Demo::new()).build()?;
//!     manager.start()?;
//!     let listener = std::net::TcpListener::bind("127.0.0.1:8080")?;
//!     let mut signals = Signals::listen()?;
//!     let signal = async move {
//!         signals.next().await;
//!     };
//!     smol::block_on(serve(runtime, listener, manager.service()?.path("/mcp"), ServeConfig::default(), signal))?;
//!     Ok(())
//! }
//! # #[cfg(not(feature = "hyper"))]
//! # fn main() {}
//! ```

use std::fmt;
use std::future::Future;
#[cfg(any(feature = "hyper", feature = "stdio"))]
use std::io;
#[cfg(feature = "stdio")]
use std::process::Command;
use std::sync::{Arc, Weak};
#[cfg(feature = "hyper")]
use std::time::Duration;

use sessile_core::Timestamp;
use smol::Executor;

use super::Runtime;
#[cfg(feature = "stdio")]
use super::async_io::AsyncIoReactor;
#[cfg(feature = "hyper")]
use super::async_io::{AsyncIoListener, AsyncIoStream};
use super::async_io::{AsyncIoTimer, Clock};
#[cfg(feature = "hyper")]
use super::{Net, socket::Socket};
#[cfg(feature = "stdio")]
use super::{Processes, Started, process};

#[cfg(unix)]
pub use super::async_io::Signals;

/// The smol runtime.
#[derive(Clone)]
pub struct Smol {
    clock: Clock,
    tasks: Tasks,
}

#[derive(Clone)]
enum Tasks {
    Global,
    /// Weak, because a task that waits holds its runtime: an executor that were held by its own tasks would never end them.
    Own(Weak<Executor<'static>>),
}

impl Smol {
    /// Binds to the global executor: one thread, or as many as the variable `SMOL_THREADS` says.
    ///
    /// # Panics
    ///
    /// If its threads can't be started; see [`Smol::on`].
    #[must_use]
    pub fn global() -> Self {
        // Its first task starts its threads. That must not fail later.
        smol::spawn(std::future::ready(())).detach();
        Self { clock: Clock::start(), tasks: Tasks::Global }
    }

    /// Binds to `executor`, which you run on as many threads as you like: one, if you want an executor for each thread.
    ///
    /// It is not kept alive: when the last of your references goes, so do its tasks.
    #[must_use]
    pub fn on(executor: &Arc<Executor<'static>>) -> Self {
        Self { clock: Clock::start(), tasks: Tasks::Own(Arc::downgrade(executor)) }
    }
}

impl Runtime for Smol {
    type Timer = AsyncIoTimer;

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn timer_at(&self, at: Timestamp) -> AsyncIoTimer {
        self.clock.timer_at(at)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        match &self.tasks {
            Tasks::Global => smol::spawn(task).detach(),
            Tasks::Own(executor) => {
                if let Some(executor) = executor.upgrade() {
                    executor.spawn(task).detach();
                }
            }
        }
    }
}

#[cfg(feature = "hyper")]
impl Net for Smol {
    type Listener = AsyncIoListener;
    type Stream = AsyncIoStream;

    fn listener(&self, socket: Socket) -> io::Result<AsyncIoListener> {
        super::async_io::listener(socket)
    }

    async fn accept(listener: &AsyncIoListener) -> io::Result<AsyncIoStream> {
        super::async_io::accept(listener).await
    }

    fn tune(stream: &AsyncIoStream, user_timeout: Option<Duration>) -> io::Result<()> {
        super::async_io::tune(stream, user_timeout)
    }
}

#[cfg(feature = "stdio")]
impl Processes for Smol {
    type Child = process::Leader<AsyncIoReactor>;

    fn start(&self, command: Command) -> io::Result<Started<Self::Child>> {
        process::start(command)
    }
}

impl fmt::Debug for Smol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tasks = match self.tasks {
            Tasks::Global => "global",
            Tasks::Own(_) => "own",
        };
        f.debug_struct("Smol").field("executor", &tasks).finish_non_exhaustive()
    }
}
