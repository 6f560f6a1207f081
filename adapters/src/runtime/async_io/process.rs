//! What child processes need of async-io.
//!
//! Not async-process: it reaps children by itself, in a thread or a task of its own, as soon as they have exited. From then
//! on the number of the group may belong to strangers, and nobody could signal what is left of it.

use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_io::Async;
use async_signal::Signal;
use futures_core::Stream;

use super::InARow;
use crate::runtime::process::{ChildSignals, Descriptor, Interest, Left, Reactor};

/// The reactor of async-io.
#[derive(Debug)]
pub struct AsyncIoReactor;

impl Reactor for AsyncIoReactor {
    type Descriptor = AsyncIoDescriptor;
    type Signals = async_signal::Signals;
}

/// A descriptor on async-io's reactor.
#[derive(Debug)]
pub struct AsyncIoDescriptor {
    fd: Async<OwnedFd>,
    interest: Interest,
    /// Whether there may be something, as far as we know. Asking the reactor again costs a system call.
    ready: bool,
    found: InARow,
}

impl Descriptor for AsyncIoDescriptor {
    fn watch(fd: OwnedFd, interest: Interest) -> io::Result<Self> {
        Ok(Self { fd: Async::new_nonblocking(fd)?, interest, ready: false, found: InARow::default() })
    }

    fn get(&self) -> &OwnedFd {
        self.fd.get_ref()
    }

    fn poll_io<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut io: impl FnMut(&OwnedFd) -> io::Result<(T, Left)>,
    ) -> Poll<io::Result<T>> {
        ready!(self.found.poll_turn(cx));
        let found = self.poll_found(cx, &mut io);
        self.found.count(&found);
        found
    }
}

impl AsyncIoDescriptor {
    fn poll_found<T>(
        &mut self,
        cx: &mut Context<'_>,
        io: &mut impl FnMut(&OwnedFd) -> io::Result<(T, Left)>,
    ) -> Poll<io::Result<T>> {
        loop {
            if !self.ready {
                ready!(match self.interest {
                    Interest::Read => self.fd.poll_readable(cx),
                    Interest::Write => self.fd.poll_writable(cx),
                })?;
                self.ready = true;
            }
            match io(self.fd.get_ref()) {
                Ok((value, left)) => {
                    self.ready = left == Left::Unknown;
                    return Poll::Ready(Ok(value));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.ready = false,
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl ChildSignals for async_signal::Signals {
    fn listen() -> io::Result<Self> {
        Self::new([Signal::Child])
    }

    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match ready!(Stream::poll_next(Pin::new(self), cx)) {
            Some(signal) => Poll::Ready(signal.map(drop)),
            None => Poll::Ready(Err(io::Error::other("the runtime delivers no more signals"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_flood_leaves_others_a_turn() {
        let (reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(&[0; 100]).expect("it fits");
        let mut reader = AsyncIoDescriptor::watch(reader.into(), Interest::Read).expect("a reactor");
        async_io::block_on(std::future::poll_fn(|cx| reader.poll_io(cx, |_| Ok(((), Left::Unknown))))).expect("ready");
        let mut cx = Context::from_waker(Waker::noop());
        let mut poll = || reader.poll_io(&mut cx, |_| Ok(((), Left::Unknown))).is_ready();
        // One was found above.
        let pauses: Vec<_> = (1..100).filter(|_| !poll()).collect();
        assert_eq!(pauses, [32, 65, 98]);
    }
}
