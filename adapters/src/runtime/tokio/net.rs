//! Sockets on tokio.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::ReadBufCursor;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};

// There are none there; the names only keep the types the same.
#[cfg(not(unix))]
use tokio::net::{TcpListener as UnixListener, TcpStream as UnixStream};

use super::Tokio;
use crate::runtime::Net;
use crate::runtime::scratch::read_through;
use crate::runtime::socket::{self, Socket, TcpOrUnix};

/// A bound socket on tokio's reactor.
pub type TokioListener = TcpOrUnix<TcpListener, UnixListener>;

/// A connection on tokio's reactor, as hyper wants it.
pub type TokioStream = TcpOrUnix<Watched<TcpStream>, Watched<UnixStream>>;

impl Net for Tokio {
    type Listener = TokioListener;
    type Stream = TokioStream;

    fn listener(&self, socket: Socket) -> io::Result<TokioListener> {
        let _guard = self.handle().enter();
        Ok(match socket {
            Socket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                TcpOrUnix::Tcp(TcpListener::from_std(listener)?)
            }
            #[cfg(unix)]
            Socket::Unix(listener) => {
                listener.set_nonblocking(true)?;
                TcpOrUnix::Unix(UnixListener::from_std(listener)?)
            }
        })
    }

    async fn accept(listener: &TokioListener) -> io::Result<TokioStream> {
        Ok(match listener {
            TcpOrUnix::Tcp(listener) => TcpOrUnix::Tcp(Watched(listener.accept().await?.0)),
            TcpOrUnix::Unix(listener) => TcpOrUnix::Unix(Watched(listener.accept().await?.0)),
        })
    }

    fn tune(stream: &TokioStream, user_timeout: Option<Duration>) -> io::Result<()> {
        match stream {
            TcpOrUnix::Tcp(stream) => socket::tune(&SockRef::from(&stream.0), user_timeout),
            TcpOrUnix::Unix(_) => Ok(()),
        }
    }
}

/// One kind of connection.
#[derive(Debug)]
pub struct Watched<T>(T);

impl<T: AsyncRead + Unpin> hyper::rt::Read for Watched<T> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        read_through(buffer, |scratch| {
            let mut scratch = ReadBuf::new(scratch);
            Pin::new(&mut self.0).poll_read(cx, &mut scratch).map_ok(|()| scratch.filled().len())
        })
    }
}

impl<T: AsyncWrite + Unpin> hyper::rt::Write for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, slices)
    }
}
