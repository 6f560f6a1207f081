//! Child processes under tokio.
//!
//! Owns the process of [`std::process`], its pipes on tokio's reactor, and how its exit is noticed *without* reaping
//! it: tokio's own `Child` reaps as soon as it sees the exit, after which the number of the group may belong to
//! strangers. On Linux a process descriptor turns readable; where there is none (other systems, Linux before 5.3) every
//! SIGCHLD makes us look.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{self, Command, ExitStatus, Stdio};
use std::task::{Context, Poll, ready};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::SignalKind;

use super::Tokio;
use crate::runtime::{Child, GroupSignal, Processes, Read, Started, Write};

impl Processes for Tokio {
    type Child = TokioChild;

    fn start(&self, command: Command) -> io::Result<Started<TokioChild>> {
        let _guard = self.handle().enter();
        start(command, Exit::of)
    }
}

fn start(
    mut command: Command,
    exit: impl FnOnce(&process::Child) -> io::Result<Exit>,
) -> io::Result<Started<TokioChild>> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut process = command.spawn()?;
    match bind(&mut process, exit) {
        Ok((exit, stdin, stdout, stderr)) => {
            Ok(Started { child: TokioChild { process, exit, reaped: false }, stdin, stdout, stderr })
        }
        Err(error) => {
            // Out of descriptors, most likely. It has hardly begun to live, so this does not wait for long.
            let _ = rustix::process::kill_process_group(Pid::from_child(&process), Signal::KILL);
            let _ = process.wait();
            Err(error)
        }
    }
}

type Bound = (Exit, TokioWriter, TokioReader, TokioReader);

fn bind(process: &mut process::Child, exit: impl FnOnce(&process::Child) -> io::Result<Exit>) -> io::Result<Bound> {
    let missing = || io::Error::other("a pipe is missing");
    let exit = exit(process)?;
    let stdin = nonblocking(process.stdin.take().ok_or_else(missing)?.into(), Interest::WRITABLE)?;
    let stdout = nonblocking(process.stdout.take().ok_or_else(missing)?.into(), Interest::READABLE)?;
    let stderr = nonblocking(process.stderr.take().ok_or_else(missing)?.into(), Interest::READABLE)?;
    Ok((exit, TokioWriter(stdin), TokioReader(stdout), TokioReader(stderr)))
}

/// Only our end of the pipe changes its mode: the child's end is another open file.
fn nonblocking(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    rustix::io::ioctl_fionbio(&fd, true)?;
    register(fd, interest)
}

// Its successor is unsafe, since a type may give out another descriptor each time that it is asked. `OwnedFd` does not.
#[allow(deprecated, reason = "sound for `OwnedFd`, and unsafe code is forbidden here")]
fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, interest)
}

/// A child process on tokio's reactor.
#[derive(Debug)]
pub struct TokioChild {
    process: process::Child,
    exit: Exit,
    reaped: bool,
}

/// How the exit is noticed.
#[derive(Debug)]
enum Exit {
    /// A process descriptor, readable once the process has exited.
    #[cfg(target_os = "linux")]
    Descriptor(AsyncFd<OwnedFd>),
    /// SIGCHLD, which says only that some child has changed.
    Signal(tokio::signal::unix::Signal),
}

impl Exit {
    fn of(process: &process::Child) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Ok(fd) = rustix::process::pidfd_open(Pid::from_child(process), rustix::process::PidfdFlags::empty()) {
            return register(fd, Interest::READABLE).map(Self::Descriptor);
        }
        Self::by_signal(process)
    }

    fn by_signal(_process: &process::Child) -> io::Result<Self> {
        tokio::signal::unix::signal(SignalKind::child()).map(Self::Signal)
    }
}

impl Child for TokioChild {
    type Reader = TokioReader;
    type Writer = TokioWriter;

    fn id(&self) -> u32 {
        self.process.id()
    }

    fn poll_exited(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.reaped {
            return Poll::Ready(Ok(()));
        }
        match &mut self.exit {
            // Never cleared, so it stays ready.
            #[cfg(target_os = "linux")]
            Exit::Descriptor(fd) => fd.poll_read_ready(cx).map_ok(drop),
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
                if ready!(signal.poll_recv(cx)).is_none() {
                    return Poll::Ready(Err(io::Error::other("the runtime delivers no more signals")));
                }
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
pub struct TokioReader(AsyncFd<OwnedFd>);

impl Read for TokioReader {
    fn poll_read(&mut self, cx: &mut Context<'_>, buffer: &mut Vec<u8>, room: usize) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(cx))?;
            match read(guard.get_inner(), buffer, room) {
                Ok(count) => {
                    // A read that leaves room has emptied the pipe: the next byte or the end is a new event, and a look
                    // that finds nothing is saved. Events since the guard was made are kept.
                    if count > 0 && buffer.len() < buffer.capacity() {
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(count));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }

    fn try_read(&mut self, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize> {
        read(self.0.get_ref(), buffer, room)
    }
}

fn read(fd: &OwnedFd, buffer: &mut Vec<u8>, room: usize) -> io::Result<usize> {
    buffer.reserve(room.max(1));
    Ok(rustix::io::retry_on_intr(|| rustix::io::read(fd, rustix::buffer::spare_capacity(buffer)))?)
}

/// The end of a child's pipe that we write.
#[derive(Debug)]
pub struct TokioWriter(AsyncFd<OwnedFd>);

impl Write for TokioWriter {
    fn poll_write(&mut self, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(cx))?;
            match rustix::io::retry_on_intr(|| rustix::io::write(guard.get_inner(), bytes)) {
                Ok(count) => return Poll::Ready(Ok(count)),
                Err(rustix::io::Errno::AGAIN) => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error.into())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    type How = fn(&process::Child) -> io::Result<Exit>;

    #[test]
    fn an_exit_is_noticed_by_either_way_without_reaping() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            for how in [Exit::of as How, Exit::by_signal as How] {
                let mut command = Command::new("/bin/sh");
                command.args(["-c", "read line; echo \"got $line\"; exit 7"]);
                let Started { mut child, mut stdin, mut stdout, .. } = start(command, how).expect("it starts");
                let unready = poll_fn(|cx| Poll::Ready(child.poll_exited(cx).is_pending())).await;
                assert!(unready);
                assert_eq!(child.reap().expect_err("it runs").kind(), io::ErrorKind::WouldBlock);
                let mut buffer = Vec::new();
                assert_eq!(
                    stdout.try_read(&mut buffer, 1).expect_err("it is silent").kind(),
                    io::ErrorKind::WouldBlock
                );

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
        });
    }

    #[test]
    fn what_cannot_be_bound_is_not_left_running() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let mut command = Command::new("/bin/sleep");
            command.arg("1000");
            let mut id = None;
            let started = start(command, |process| {
                id = Some(Pid::from_child(process));
                Err(io::Error::other("out of descriptors"))
            });
            assert_eq!(started.expect_err("refused").to_string(), "out of descriptors");
            let id = id.expect("it was started");
            assert_eq!(rustix::process::test_kill_process(id), Err(rustix::io::Errno::SRCH));
        });
    }
}
