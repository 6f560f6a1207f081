//! Sockets on async-io.

use std::io::{self, IoSlice};
use std::net::{Shutdown, TcpListener, TcpStream};
#[cfg(unix)]
use std::os::unix::net::{UnixListener, UnixStream};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

// There are none there; the names only keep the types the same.
#[cfg(not(unix))]
use std::net::{TcpListener as UnixListener, TcpStream as UnixStream};

use async_io::Async;
use futures_io::{AsyncRead, AsyncWrite};
use hyper::rt::ReadBufCursor;
use socket2::SockRef;

use super::InARow;
use crate::runtime::scratch::read_through;
use crate::runtime::socket::{self, Socket, TcpOrUnix};

/// A bound socket on async-io's reactor.
pub type AsyncIoListener = TcpOrUnix<Async<TcpListener>, Async<UnixListener>>;

/// A connection on async-io's reactor, as hyper wants it.
pub type AsyncIoStream = TcpOrUnix<Watched<TcpStream>, Watched<UnixStream>>;

/// See [`Net::listener`](crate::runtime::Net::listener).
pub(in crate::runtime) fn listener(socket: Socket) -> io::Result<AsyncIoListener> {
    Ok(match socket {
        Socket::Tcp(listener) => TcpOrUnix::Tcp(Async::new(listener)?),
        #[cfg(unix)]
        Socket::Unix(listener) => TcpOrUnix::Unix(Async::new(listener)?),
    })
}

/// See [`Net::accept`](crate::runtime::Net::accept).
pub(in crate::runtime) async fn accept(listener: &AsyncIoListener) -> io::Result<AsyncIoStream> {
    Ok(match listener {
        TcpOrUnix::Tcp(listener) => TcpOrUnix::Tcp(Watched::new(listener.accept().await?.0)),
        TcpOrUnix::Unix(listener) => TcpOrUnix::Unix(Watched::new(listener.accept().await?.0)),
    })
}

/// See [`Net::tune`](crate::runtime::Net::tune).
pub(in crate::runtime) fn tune(stream: &AsyncIoStream, user_timeout: Option<Duration>) -> io::Result<()> {
    match stream {
        TcpOrUnix::Tcp(stream) => socket::tune(&SockRef::from(stream.io.get_ref()), user_timeout),
        TcpOrUnix::Unix(_) => Ok(()),
    }
}

/// One kind of connection.
#[derive(Debug)]
pub struct Watched<T> {
    io: Async<T>,
    reads: InARow,
}

impl<T> Watched<T> {
    fn new(io: Async<T>) -> Self {
        Self { io, reads: InARow::default() }
    }
}

/// What async-io leaves out: to close, it only flushes.
trait HalfClose {
    fn half_close(&self) -> io::Result<()>;
}

impl HalfClose for TcpStream {
    fn half_close(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

#[cfg(unix)]
impl HalfClose for UnixStream {
    fn half_close(&self) -> io::Result<()> {
        self.shutdown(Shutdown::Write)
    }
}

impl<T> hyper::rt::Read for Watched<T>
where
    Async<T>: AsyncRead + Unpin,
{
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        ready!(this.reads.poll_turn(cx));
        let read = read_through(buffer, |scratch| Pin::new(&mut this.io).poll_read(cx, scratch));
        this.reads.count(&read);
        read
    }
}

#[allow(private_bounds, reason = "the two kinds of streams are all that there is")]
impl<T: HalfClose> hyper::rt::Write for Watched<T>
where
    Async<T>: AsyncWrite + Unpin,
{
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.io.get_ref().half_close())
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::io::Write as _;
    use std::task::Waker;

    use hyper::rt::{Read as _, ReadBuf};

    use super::*;

    #[test]
    fn a_flood_leaves_others_a_turn() {
        let (mut peer, stream) = UnixStream::pair().expect("a pair");
        peer.write_all(&[0; 100]).expect("it fits");
        let mut stream = Watched::new(Async::new(stream).expect("a reactor"));
        let mut cx = Context::from_waker(Waker::noop());
        let mut found = Vec::new();
        for _ in 0..101 {
            let mut byte = [0];
            let mut buffer = ReadBuf::new(&mut byte);
            found.push(Pin::new(&mut stream).poll_read(&mut cx, buffer.unfilled()).is_ready());
        }
        let pauses: Vec<_> = (0..101).filter(|at| !found[*at]).collect();
        assert_eq!(pauses, [32, 65, 98]);
    }
}
