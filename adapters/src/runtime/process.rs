//! Child processes of [`std::process`], on the reactor of any runtime.
//!
//! Owns the process, its pipes, and how its exit is noticed *without* reaping it: what runtimes bring themselves reaps as soon as
//! it sees the exit, after which the number of the group may belong to strangers. On Linux a process descriptor turns
//! readable; where there is none (other systems, Linux before 5.3) every SIGCHLD makes us look. Does not own a reactor: each
//! runtime brings its [`Reactor`].

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{self, Command, ExitStatus, Stdio};
use std::task::{Context, Poll, ready};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};

use super::{Child, GroupSignal, Read, Started, Write};

/// What tells when a descriptor is ready, and when a child has changed.
pub trait Reactor: fmt::Debug + 'static {
    /// A descriptor that is watched.
    type Descriptor: Descriptor;
    /// Where SIGCHLD is heard.
    type Signals: ChildSignals;
}

/// What a descriptor is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// That there is something to read, or the end.
    Read,
    /// That there is room to write.
    Write,
}

/// What an operation has left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The descriptor is not ready any more: what comes next is a new event, and a look that finds nothing is saved.
    Nothing,
    /// It may still be ready.
    Unknown,
}

/// A descriptor that a reactor watches for one interest.
pub trait Descriptor: fmt::Debug + Send + Unpin + Sized + 'static {
    /// Starts to watch `fd`, which is non-blocking already where that matters. Called in the context of the runtime, if
    /// it has one.
    ///
    /// # Errors
    ///
    /// Whatever the reactor reports.
    fn watch(fd: OwnedFd, interest: Interest) -> io::Result<Self>;

    /// The descriptor itself.
    fn get(&self) -> &OwnedFd;

    /// Waits until it is ready, then calls `io`, again and again while that would block.
    ///
    /// # Errors
    ///
    /// What `io` or the reactor reports.
    fn poll_io<T>(
        &mut self,
        cx: &mut Context<'_>,
        io: impl FnMut(&OwnedFd) -> io::Result<(T, Left)>,
    ) -> Poll<io::Result<T>>;
}

/// Hears SIGCHLD, which says only that some child has changed. Several at once may be heard as one.
pub trait ChildSignals: fmt::Debug + Send + Sized + 'static {
    /// Starts to listen, in the context of the runtime, if it has one.
    ///
    /// # Errors
    ///
    /// If the system does not let us.
    fn listen() -> io::Result<Self>;

    /// Waits for the next.
    ///
    /// # Errors
    ///
    /// If the runtime delivers none any more.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

/// Starts `command` with its three streams piped and in a process group of its own. For [`Processes`](super::Processes), in
/// the context of the runtime, if it has one.
///
/// # Errors
///
/// If it can't be started; nothing is left behind then.
pub fn start<R: Reactor>(command: Command) -> io::Result<Started<Leader<R>>> {
    start_noticed_by(command, Exit::of)
}

fn start_noticed_by<R: Reactor>(
    mut command: Command,
    exit: impl FnOnce(&process::Child) -> io::Result<Exit<R>>,
) -> io::Result<Started<Leader<R>>> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut process = command.spawn()?;
    match bind(&mut process, exit) {
        Ok((exit, stdin, stdout, stderr)) => {
            Ok(Started { child: Leader { process, exit, exited: false, reaped: false }, stdin, stdout, stderr })
        }
        Err(error) => {
            // Out of descriptors, most likely. It has hardly begun to live, so this does not wait for long.
            let _ = rustix::process::kill_process_group(Pid::from_child(&process), Signal::KILL);
            let _ = process.wait();
            Err(error)
        }
    }
}

type Pipe<R> = <R as Reactor>::Descriptor;
type Bound<R> = (Exit<R>, PipeWriter<Pipe<R>>, PipeReader<Pipe<R>>, PipeReader<Pipe<R>>);

fn bind<R: Reactor>(
    process: &mut process::Child,
    exit: impl FnOnce(&process::Child) -> io::Result<Exit<R>>,
) -> io::Result<Bound<R>> {
    let missing = || io::Error::other("a pipe is missing");
    let exit = exit(process)?;
    let stdin = nonblocking(process.stdin.take().ok_or_else(missing)?.into(), Interest::Write)?;
    let stdout = nonblocking(process.stdout.take().ok_or_else(missing)?.into(), Interest::Read)?;
    let stderr = nonblocking(process.stderr.take().ok_or_else(missing)?.into(), Interest::Read)?;
    Ok((exit, PipeWriter(stdin), PipeReader(stdout), PipeReader(stderr)))
}

/// Only our end of the pipe changes its mode: the child's end is another open file.
fn nonblocking<D: Descriptor>(fd: OwnedFd, interest: Interest) -> io::Result<D> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    D::watch(fd, interest)
}

/// A child process, the leader of a group.
#[derive(Debug)]
pub struct Leader<R: Reactor> {
    process: process::Child,
    exit: Exit<R>,
    /// It has been seen to have exited.
    exited: bool,
    reaped: bool,
}

/// How the exit is noticed.
#[derive(Debug)]
enum Exit<R: Reactor> {
    /// A process descriptor, readable once the process has exited.
    #[cfg(target_os = "linux")]
    Descriptor(R::Descriptor),
    /// SIGCHLD.
    Signal(R::Signals),
}

impl<R: Reactor> Exit<R> {
    fn of(process: &process::Child) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Ok(fd) = rustix::process::pidfd_open(Pid::from_child(process), rustix::process::PidfdFlags::empty()) {
            return R::Descriptor::watch(fd, Interest::Read).map(Self::Descriptor);
        }
        Self::by_signal(process)
    }

    fn by_signal(_process: &process::Child) -> io::Result<Self> {
        R::Signals::listen().map(Self::Signal)
    }
}

impl<R: Reactor> Child for Leader<R>
where
    Self: Send,
{
    type Reader = PipeReader<R::Descriptor>;
    type Writer = PipeWriter<R::Descriptor>;

    fn id(&self) -> u32 {
        self.process.id()
    }

    fn poll_exited(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.exited || self.reaped {
            return Poll::Ready(Ok(()));
        }
        match &mut self.exit {
            #[cfg(target_os = "linux")]
            Exit::Descriptor(fd) => {
                ready!(fd.poll_io(cx, |_| Ok(((), Left::Unknown))))?;
                self.exited = true;
                Poll::Ready(Ok(()))
            }
            Exit::Signal(signal) => loop {
                let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
                match rustix::process::waitid(WaitId::Pid(Pid::from_child(&self.process)), look) {
                    Ok(Some(_)) => return Poll::Ready(Ok(())),
                    Ok(None) => {}
                    // Where SIGCHLD is ignored the system reaps by itself: the number is no longer ours to signal.
                    Err(rustix::io::Errno::CHILD) => {
                        self.reaped = true;
                        return Poll::Ready(Ok(()));
                    }
                    Err(error) => return Poll::Ready(Err(error.into())),
                }
                ready!(signal.poll_next(cx))?;
            },
        }
    }

    fn signal_group(&mut self, signal: GroupSignal) {
        if self.reaped {
            return;
        }
        let signal = match signal {
            GroupSignal::Kill => Signal::KILL,
            GroupSignal::Terminate => Signal::TERM,
        };
        // Fails if nobody is left to signal (on some systems also for a leader that has exited), which is what we want.
        let _ = rustix::process::kill_process_group(Pid::from_child(&self.process), signal);
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        match self.process.try_wait() {
            Ok(Some(status)) => {
                self.reaped = true;
                Ok(status)
            }
            Ok(None) => Err(io::ErrorKind::WouldBlock.into()),
            Err(error) => {
                // Somebody else has reaped it: the number is no longer ours to signal.
                self.reaped = true;
                Err(error)
            }
        }
    }
}

/// The end of a child's pipe that we read.
#[derive(Debug)]
pub struct PipeReader<D>(D);

impl<D: Descriptor> Read for PipeReader<D> {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>, room: usize) -> Poll<io::Result<usize>> {
        self.0.poll_io(cx, |fd| {
            let count = read(fd, buffer, room)?;
            // A read that leaves room has emptied the pipe.
            let emptied = count > 0 && buffer.len() < buffer.capacity();
            Ok((count, if emptied { Left::Nothing } else { Left::Unknown }))
        })
    }

    fn try_read(&mut self, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize> {
        read(self.0.get(), buffer, room)
    }
}

fn read(fd: &OwnedFd, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize> {
    buffer.reserve(room.max(1));
    Ok(rustix::io::retry_on_intr(|| rustix::io::read(fd, rustix::buffer::spare_capacity(buffer)))?)
}

/// The end of a child's pipe that we write.
#[derive(Debug)]
pub struct PipeWriter<D>(D);

impl<D: Descriptor> Write for PipeWriter<D> {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.poll_io(cx, |fd| Ok((rustix::io::retry_on_intr(|| rustix::io::write(fd, bytes))?, Left::Unknown)))
    }
}

#[cfg(test)]
#[cfg(any(feature = "tokio", feature = "smol", feature = "async-std"))]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// On tokio.
    #[cfg(feature = "tokio")]
    fn tokio(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn on_tokio_an_exit_is_noticed_by_either_way_without_reaping() {
        tokio(an_exit_is_noticed_by_either_way_without_reaping::<crate::runtime::tokio::TokioReactor>());
    }

    #[cfg(any(feature = "smol", feature = "async-std"))]
    #[test]
    fn on_async_io_an_exit_is_noticed_by_either_way_without_reaping() {
        async_io::block_on(
            an_exit_is_noticed_by_either_way_without_reaping::<crate::runtime::async_io::AsyncIoReactor>(),
        );
    }

    type How<R> = fn(&process::Child) -> io::Result<Exit<R>>;

    async fn an_exit_is_noticed_by_either_way_without_reaping<R: Reactor>()
    where
        Leader<R>: Send,
    {
        for how in [Exit::<R>::of as How<R>, Exit::by_signal as How<R>] {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", "read line; echo \"got $line\"; exit 7"]);
            let Started { mut child, mut stdin, mut stdout, .. } = start_noticed_by(command, how).expect("it starts");
            let unready = poll_fn(|cx| Poll::Ready(child.poll_exited(cx).is_pending())).await;
            assert!(unready);
            assert_eq!(child.reap().expect_err("it runs").kind(), io::ErrorKind::WouldBlock);
            let mut buffer = Vec::new();
            assert_eq!(stdout.try_read(&mut buffer, 1).expect_err("it is silent").kind(), io::ErrorKind::WouldBlock);

            let line = b"a line\n";
            assert_eq!(poll_fn(|cx| stdin.poll_write(cx, line)).await.expect("it fits"), line.len());
            while poll_fn(|cx| stdout.poll_read(cx, &mut buffer, 1)).await.expect("readable") > 0 {}
            assert_eq!(buffer, b"got a line\n");

            poll_fn(|cx| child.poll_exited(cx)).await.expect("it exits");
            child.signal_group(GroupSignal::Terminate);
            poll_fn(|cx| child.poll_exited(cx)).await.expect("it stays so");
            assert_eq!(child.reap().expect("it has exited").code(), Some(7));
            // R198: from here on its number may be anybody's.
            assert!(child.reaped);
            child.signal_group(GroupSignal::Kill);
        }
    }

    #[cfg(feature = "tokio")]
    #[test]
    fn on_tokio_what_cannot_be_bound_is_not_left_running() {
        tokio(async { what_cannot_be_bound_is_not_left_running::<crate::runtime::tokio::TokioReactor>() });
    }

    #[cfg(any(feature = "smol", feature = "async-std"))]
    #[test]
    fn on_async_io_what_cannot_be_bound_is_not_left_running() {
        what_cannot_be_bound_is_not_left_running::<crate::runtime::async_io::AsyncIoReactor>();
    }

    fn what_cannot_be_bound_is_not_left_running<R: Reactor>()
    where
        Leader<R>: Send,
    {
        let mut command = Command::new("/bin/sleep");
        command.arg("1000");
        let mut id = None;
        let started = start_noticed_by::<R>(command, |process| {
            id = Some(Pid::from_child(process));
            Err(io::Error::other("out of descriptors"))
        });
        assert_eq!(started.expect_err("refused").to_string(), "out of descriptors");
        let id = id.expect("it was started");
        assert_eq!(rustix::process::test_kill_process(id), Err(rustix::io::Errno::SRCH));
    }
}
