//! What a program of its own needs of tokio: to run it, and to make it deaf.

use std::future::Future;
use std::io;
use std::time::Duration;

pub(crate) use super::Signals;
use super::Tokio;

/// How long tasks that don't end by themselves are waited for when the program is done.
const LEFTOVERS: Duration = Duration::from_millis(200);

/// Runs a program on a multi-threaded runtime, until its future completes. Tasks that are left then are dropped.
///
/// # Errors
///
/// If the runtime can't be started.
pub(crate) fn run<F, T>(program: impl FnOnce(Tokio) -> F) -> io::Result<T>
where
    F: Future<Output = T>,
{
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let output = runtime.block_on(async { program(Tokio::current()).await });
    runtime.shutdown_timeout(LEFTOVERS);
    Ok(output)
}

/// From now on SIGHUP, SIGINT and SIGTERM do nothing to this process, for as long as the value lives.
///
/// # Errors
///
/// If the system does not let us.
#[cfg(unix)]
pub(crate) fn deafen() -> io::Result<impl Sized> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let signals = {
        let _guard = runtime.enter();
        [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::terminate()].map(signal)
    };
    Ok((signals, runtime))
}
