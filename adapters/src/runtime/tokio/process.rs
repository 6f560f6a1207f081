//! What child processes need of tokio.

use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::signal::unix::SignalKind;

use crate::runtime::process::{ChildSignals, Descriptor, Interest, Left, Reactor};

/// The reactor of the tokio runtime that is entered.
#[derive(Debug)]
pub struct TokioReactor;

impl Reactor for TokioReactor {
    type Descriptor = TokioDescriptor;
    type Signals = tokio::signal::unix::Signal;
}

/// A descriptor on tokio's reactor.
#[derive(Debug)]
pub struct TokioDescriptor {
    fd: AsyncFd<OwnedFd>,
    interest: Interest,
}

impl Descriptor for TokioDescriptor {
    fn watch(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        Ok(Self { fd: register(fd, interest)?, interest })
    }

    fn get(&self) -> &OwnedFd {
        self.fd.get_ref()
    }

    fn poll_io<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut io: impl FnMut(&OwnedFd) -> io::Result<(T, Left)>,
    ) -> Poll<io::Result<T>> {
        loop {
            let mut guard = ready!(match self.interest {
                Interest::Read => self.fd.poll_read_ready(cx),
                Interest::Write => self.fd.poll_write_ready(cx),
            })?;
            match io(guard.get_inner()) {
                Ok((value, left)) => {
                    if left == Left::Nothing {
                        // Events since the guard was made are kept.
                        guard.clear_ready();
                    }
                    return Poll::Ready(Ok(value));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

// Its successor is unsafe, since a type may give out another descriptor each time that it is asked. `OwnedFd` does not.
#[allow(deprecated, reason = "sound for `OwnedFd`, and unsafe code is forbidden here")]
fn register(fd: OwnedFd, interest: Interest) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(
        fd,
        match interest {
            Interest::Read => tokio::io::Interest::READABLE,
            Interest::Write => tokio::io::Interest::WRITABLE,
        },
    )
}

impl ChildSignals for tokio::signal::unix::Signal {
    fn listen() -> io::Result<Self> {
        tokio::signal::unix::signal(SignalKind::child())
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(self.poll_recv(cx)) {
            Some(()) => Poll::Ready(Ok(())),
            None => Poll::Ready(Err(io::Error::other("the runtime delivers no more signals"))),
        }
    }
}
