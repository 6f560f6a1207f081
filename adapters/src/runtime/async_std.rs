//! The async-std binding.
//!
//! async-std is discontinued upstream (RUSTSEC-2025-0052) and gets no more repairs; its authors point to smol. The binding stays
//! for programs that stand on it. Tasks go to its executor; timers, sockets, child processes and signals are those of
//! async-io, which is maintained, which async-std itself stands on, and which the binding of smol shares.
//!
//! ```no_run
//! use sessile::app::Demo;
//! # #[cfg(feature = "hyper")]
//! use sessile::http::{ServeConfig, serve};
//! use sessile::runtime::async_std::{AsyncStd, Signals};
//! use sessile::Builder;
//!
//! # #[cfg(feature = "hyper")]
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let runtime = AsyncStd::global();
//!     let manager = Builder::new(runtime.clone()).handler(Demo::new()).build()?;
//!     manager.start()?;
//!     let listener = std::net::TcpListener::bind("127.0.0.1:8080")?;
//!     let mut signals = Signals::listen()?;
//!     let signal = async move {
//!         signals.next().await;
//!     };
//!     async_std::task::block_on(serve(runtime, listener, manager.service()?.path("/mcp"), ServeConfig::default(), signal))?;
//!     Ok(())
//! }
//! # #[cfg(not(feature = "hyper"))]
//! # fn main() {}
//! ```

use std::future::Future;
#[cfg(any(feature = "hyper", feature = "stdio"))]
use std::io;
#[cfg(feature = "stdio")]
use std::process::Command;
#[cfg(feature = "hyper")]
use std::time::Duration;

use async_std::task;
use sessile_core::Timestamp;

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

/// The async-std runtime, of which there is one in a process.
#[derive(Clone, Debug)]
pub struct AsyncStd {
    clock: Clock,
}

impl AsyncStd {
    /// Binds to the runtime: as many threads as there are processors, or as the variable `ASYNC_STD_THREAD_COUNT` says.
    ///
    /// # Panics
    ///
    /// If its threads can't be started.
    #[must_use]
    pub fn global() -> Self {
        // Its first task starts its threads. That must not fail later.
        drop(task::spawn(std::future::ready(())));
        Self { clock: Clock::start() }
    }
}

impl Runtime for AsyncStd {
    type Timer = AsyncIoTimer;

    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn timer_at(&self, at: Timestamp) -> AsyncIoTimer {
        self.clock.timer_at(at)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // Unlike `task::spawn` it has no panic; a handle that is dropped leaves its task alone.
        drop(task::Builder::new().spawn(task));
    }
}

#[cfg(feature = "hyper")]
impl Net for AsyncStd {
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
impl Processes for AsyncStd {
    type Child = process::Leader<AsyncIoReactor>;

    fn start(&self, command: Command) -> io::Result<Started<Self::Child>> {
        process::start(command)
    }
}
