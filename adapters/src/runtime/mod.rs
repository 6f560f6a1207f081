//! What we need of an async runtime, and its bindings.
//!
//! Owns the traits and, in one file each, what binds them. Nothing outside this folder names a runtime; what is
//! written above it is written once, with static dispatch.

use std::future::Future;
#[cfg(any(feature = "hyper", feature = "stdio"))]
use std::io;
use std::pin::Pin;
#[cfg(feature = "stdio")]
use std::process::{Command, ExitStatus};
#[cfg(feature = "stdio")]
use std::task::Context;
use std::task::Poll;
#[cfg(feature = "hyper")]
use std::time::Duration;

use sessile_core::Timestamp;

#[cfg(any(feature = "smol", feature = "async-std"))]
pub mod async_io;
#[cfg(feature = "async-std")]
pub mod async_std;
#[cfg(feature = "stdio")]
pub mod process;
#[cfg(all(feature = "hyper", any(feature = "tokio", feature = "smol", feature = "async-std")))]
mod scratch;
#[cfg(feature = "smol")]
pub mod smol;
#[cfg(feature = "hyper")]
mod socket;
#[cfg(feature = "tokio")]
pub mod tokio;

#[cfg(feature = "hyper")]
pub use self::socket::{Socket, TcpOrUnix};
/// What the program runs on is chosen here alone.
#[cfg(feature = "cli")]
pub(crate) use self::tokio::program;

/// A clock, timers and tasks: all that the manager and the HTTP service need.
///
/// Implement it to bring a runtime of your own, or a simulated one with virtual time.
pub trait Runtime: Clone + Send + Sync + 'static {
    /// The timer of this runtime.
    type Timer: Timer;

    /// The time now. The epoch is this runtime's own; it never runs backwards.
    fn now(&self) -> Timestamp;

    /// A timer that is due at `at`.
    fn timer_at(&self, at: Timestamp) -> Self::Timer;

    /// Starts a task that nobody waits for. May be called from `Drop` and outside the runtime's own threads; never
    /// panics. After the runtime has shut down the task is dropped.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static);
}

/// A timer that can be moved. It completes when its time has come.
pub trait Timer: Future<Output = ()> + Send + Unpin + 'static {
    /// Moves the timer to `at`, whether it has completed or not.
    fn reset(&mut self, at: Timestamp);
}

/// Completes `None` when `at` has come before `future` was done.
pub async fn timeout_at<R: Runtime, F: Future>(runtime: &R, at: Timestamp, future: F) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    let mut timer = None;
    std::future::poll_fn(|cx| {
        if let Poll::Ready(output) = future.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        let timer = timer.get_or_insert_with(|| runtime.timer_at(at));
        Pin::new(timer).poll(cx).map(|()| None)
    })
    .await
}

/// A runtime with sockets, for serving on a listener of our own.
#[cfg(feature = "hyper")]
pub trait Net: Runtime {
    /// A bound socket.
    type Listener: Send + Sync + 'static;
    /// A connection.
    type Stream: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static;

    /// Makes an async listener of a bound socket, which becomes non-blocking.
    ///
    /// # Errors
    ///
    /// Whatever the runtime's reactor reports.
    fn listener(&self, socket: Socket) -> io::Result<Self::Listener>;

    /// Waits for the next connection. Cancel-safe.
    fn accept(listener: &Self::Listener) -> impl Future<Output = io::Result<Self::Stream>> + Send;

    /// Sets the options that a served TCP connection needs: `TCP_NODELAY`, and an end for peers that vanish without a word,
    /// at most `user_timeout` after data stayed unacknowledged (`None`: left to the system). Others need none.
    ///
    /// # Errors
    ///
    /// What the system reports; the connection can be served all the same.
    fn tune(stream: &Self::Stream, user_timeout: Option<Duration>) -> io::Result<()>;
}

/// A runtime with child processes.
#[cfg(feature = "stdio")]
pub trait Processes: Runtime {
    /// A running child.
    type Child: Child;

    /// Starts `command` with its three streams piped and in a process group of its own.
    ///
    /// # Errors
    ///
    /// If it can't be started; nothing is left behind then.
    fn start(&self, command: Command) -> io::Result<Started<Self::Child>>;
}

/// A child that has just been started, with its pipes.
#[cfg(feature = "stdio")]
#[derive(Debug)]
pub struct Started<C: Child> {
    /// The process.
    pub child: C,
    /// Its standard input.
    pub stdin: C::Writer,
    /// Its standard output.
    pub stdout: C::Reader,
    /// Its standard error.
    pub stderr: C::Reader,
}

/// A child process, the leader of a process group of its own.
///
/// The group is signalled only while the leader has not been reaped: until then its number can't have been given to
/// others. Dropping a child neither ends nor reaps it: that is the duty of whoever holds it.
#[cfg(feature = "stdio")]
pub trait Child: Send + 'static {
    /// The end that we read.
    type Reader: Read;
    /// The end that we write.
    type Writer: Write;

    /// The number of the leader and of its group.
    fn id(&self) -> u32;

    /// Waits until the leader has exited, without reaping it. Ready again when it is asked again.
    fn poll_exited(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Sends a signal to the whole group; a no-op once the leader is reaped.
    fn signal_group(&mut self, signal: GroupSignal);

    /// Reaps the leader if it has exited; never waits.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if it has not exited; another if it was reaped by somebody else.
    fn reap(&mut self) -> io::Result<ExitStatus>;
}

/// The signals that end a group.
#[cfg(feature = "stdio")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupSignal {
    /// SIGKILL.
    Kill,
    /// SIGTERM.
    Terminate,
}

/// A pipe's end that is read.
///
/// The buffer is the caller's and grows only when there is something to read: who waits needs none.
#[cfg(feature = "stdio")]
pub trait Read: Send + Unpin + 'static {
    /// Waits until there is something, then makes room for at least `room` bytes at the end of `buffer` and reads
    /// once; 0 is the end of input.
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>, room: usize) -> Poll<io::Result<usize>>;

    /// The same, but asks the system what is there now and never waits.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::WouldBlock`] if the pipe is empty and still open at the other end, else what the system
    /// reports.
    fn try_read(&mut self, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize>;
}

/// A pipe's end that is written; dropping it closes it.
#[cfg(feature = "stdio")]
pub trait Write: Send + Unpin + 'static {
    /// Writes as much of `bytes` as fits, once there is room for some of it.
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
}
