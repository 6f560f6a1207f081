//! Sockets on tokio.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::ReadBufCursor;
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::Tokio;
use crate::runtime::scratch::read_through;
use crate::runtime::{Net, socket};

impl Net for Tokio {
    type Listener = TcpListener;
    type Stream = TokioStream;

    fn listener(&self, listener: std::net::TcpListener) -> io::Result<TcpListener> {
        listener.set_nonblocking(true)?;
        let _guard = self.handle().enter();
        TcpListener::from_std(listener)
    }

    async fn accept(listener: &TcpListener) -> io::Result<(TokioStream, SocketAddr)> {
        let (stream, peer) = listener.accept().await?;
        Ok((TokioStream(stream), peer))
    }

    fn tune(stream: &TokioStream, user_timeout: Option<Duration>) -> io::Result<()> {
        socket::tune(&SockRef::from(&stream.0), user_timeout)
    }
}

/// A TCP connection of tokio, as hyper wants it.
#[derive(Debug)]
pub struct TokioStream(TcpStream);

impl hyper::rt::Read for TokioStream {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        read_through(buffer, |scratch| {
            let mut scratch = ReadBuf::new(scratch);
            Pin::new(&mut self.0).poll_read(cx, &mut scratch).map_ok(|()| scratch.filled().len())
        })
    }
}

impl hyper::rt::Write for TokioStream {
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
