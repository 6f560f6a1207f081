//! A connection's stream with a deadline for writes that make no progress.
//!
//! The deadline exists only while a write is pending, and each byte that goes out starts it anew: a stream may be silent,
//! or long, for ever; only a reader that does not read is cut.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};

use super::connection::Progress;
use crate::runtime::{Runtime, Timer};

/// A stream that is watched.
pub(super) struct Io<T, R: Runtime> {
    stream: T,
    progress: Arc<Progress>,
    deadline: WriteDeadline<R>,
}

impl<T, R: Runtime> Io<T, R> {
    /// Watches `stream`; a `write_timeout` of zero is none.
    pub(super) const fn new(stream: T, runtime: R, write_timeout: Duration, progress: Arc<Progress>) -> Self {
        Self {
            stream,
            progress,
            deadline: WriteDeadline { runtime, timeout: write_timeout, armed: false, timer: None },
        }
    }

    /// Turns a write that has waited too long into an error.
    fn watch<V>(&mut self, cx: &mut Context<'_>, written: Poll<io::Result<V>>) -> Poll<io::Result<V>> {
        if written.is_ready() {
            if self.deadline.armed {
                self.deadline.armed = false;
                self.progress.set_writing(false);
            }
            return written;
        }
        if !self.deadline.armed {
            self.progress.set_writing(true);
        }
        self.deadline.poll_pending(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

struct WriteDeadline<R: Runtime> {
    runtime: R,
    timeout: Duration,
    /// Whether a write is pending and the timer is set for it.
    armed: bool,
    /// Made at the first pending write, then moved. A stale one wakes the task once for nothing.
    timer: Option<R::Timer>,
}

impl<R: Runtime> WriteDeadline<R> {
    fn poll_pending(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.armed {
            self.armed = true;
            if self.timeout.is_zero() {
                return Poll::Pending;
            }
            let at = self.runtime.now().saturating_add(self.timeout);
            match &mut self.timer {
                None => self.timer = Some(self.runtime.timer_at(at)),
                Some(timer) => timer.reset(at),
            }
        }
        self.timer.as_mut().map_or(Poll::Pending, |timer| Pin::new(timer).poll(cx))
    }
}

// Nothing in it is pinned but the stream, which need not stay where it is.
impl<T: Unpin, R: Runtime> Unpin for Io<T, R> {}

impl<T: Read + Unpin, R: Runtime> Read for Io<T, R> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if read.is_ready() {
            self.progress.read();
        }
        read
    }
}

impl<T: Write + Unpin, R: Runtime> Write for Io<T, R> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch(cx, shut)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.watch(cx, written)
    }
}
