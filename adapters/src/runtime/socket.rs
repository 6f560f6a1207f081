//! Sockets, as far as they are the same under every runtime.

use std::io::{self, IoSlice};
use std::net::TcpListener;
#[cfg(unix)]
use std::os::unix::net::UnixListener;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};

/// A bound socket to serve on.
#[derive(Debug)]
pub enum Socket {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix domain socket. Who may connect is what the permissions of its path say.
    #[cfg(unix)]
    Unix(UnixListener),
}

impl From<TcpListener> for Socket {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

#[cfg(unix)]
impl From<UnixListener> for Socket {
    fn from(listener: UnixListener) -> Self {
        Self::Unix(listener)
    }
}

/// Something of a runtime that is either of the two kinds.
#[derive(Debug)]
pub enum TcpOrUnix<T, U> {
    /// TCP.
    Tcp(T),
    /// Unix domain. There are none where the system has none.
    Unix(U),
}

impl<T: Read + Unpin, U: Read + Unpin> Read for TcpOrUnix<T, U> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl<T: Write + Unpin, U: Write + Unpin> Write for TcpOrUnix<T, U> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(cx),
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }
}

#[cfg(any(feature = "tokio", feature = "smol", feature = "async-std"))]
pub(super) use self::options::tune;

/// The options of a served TCP socket.
#[cfg(any(feature = "tokio", feature = "smol", feature = "async-std"))]
mod options {
    use std::io;
    use std::time::Duration;

    use socket2::SockRef;

    /// Sets `TCP_NODELAY`, and an end for peers that vanish: writes to them go on succeeding until the system gives up, which
    /// takes a quarter of an hour when nobody says otherwise.
    pub(in crate::runtime) fn tune(socket: &SockRef<'_>, user_timeout: Option<Duration>) -> io::Result<()> {
        socket.set_tcp_nodelay(true)?;
        let Some(timeout) = user_timeout else { return Ok(()) };
        end_for_vanished_peers(socket, timeout)
    }

    #[cfg(any(target_os = "android", target_os = "linux"))]
    fn end_for_vanished_peers(socket: &SockRef<'_>, timeout: Duration) -> io::Result<()> {
        socket.set_tcp_user_timeout(Some(timeout))
    }

    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    fn end_for_vanished_peers(socket: &SockRef<'_>, timeout: Duration) -> io::Result<()> {
        // The system wants whole seconds, and at least one.
        let idle = (timeout / 2).max(Duration::from_secs(1));
        socket.set_tcp_keepalive(&socket2::TcpKeepalive::new().with_time(idle))
    }
}
