//! The signals that ask a program to end, on tokio.

use std::io;

/// The signals that ask a program to end: SIGINT and SIGTERM. From the first value on, the system's own reaction to them
/// is off.
#[derive(Debug)]
pub struct Signals {
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// If the system does not let us.
    #[cfg(unix)]
    pub fn listen() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next one and returns its name. Cancel-safe.
    #[cfg(unix)]
    pub async fn next(&mut self) -> &'static str {
        std::future::poll_fn(|cx| {
            use std::task::Poll;
            if self.interrupt.poll_recv(cx).is_ready() {
                return Poll::Ready("SIGINT");
            }
            self.terminate.poll_recv(cx).map(|_| "SIGTERM")
        })
        .await
    }

    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// Never.
    #[cfg(not(unix))]
    pub fn listen() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for the next one and returns its name. Cancel-safe.
    #[cfg(not(unix))]
    pub async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}
