//! The streams of HTTP/2, each a task of the runtime.
//!
//! Owns what hyper leaves to us: where streams run, their timer, and the deadline for a client that keeps a stream's window shut.
//! The connection's own write deadline does not see that one, since the socket may well be writable; the stream is reset, and the
//! others go on.
//!
//! A body is handed over in pieces, so that what has left us and waits for a window is bounded, and its stream counts as being
//! answered until the last piece.

use std::cell::Cell;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::rt::{Executor, Sleep};
use hyper::service::Service;
use pin_project_lite::pin_project;
use sessile_core::Timestamp;

use crate::runtime::{Runtime, Timer};

/// How much of a stream waits below us at most, beside one piece.
pub(super) const SEND_BUFFER: usize = 64 << 10;
/// The size of a piece, which is that of a frame. Progress is seen whenever the next one is asked for.
const PIECE: usize = 16 << 10;

thread_local! {
    /// What the body of the stream that is being polled has said last in this poll.
    static SAID: Cell<Said> = const { Cell::new(Said::Nothing) };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// It was not asked.
    Nothing,
    /// It has nothing to send now.
    Wait,
    /// It gave something, or it has ended.
    Data,
}

/// Runs the streams of a connection.
#[derive(Clone, Debug)]
pub(super) struct Streams<R> {
    runtime: R,
    write_timeout: Duration,
}

impl<R> Streams<R> {
    /// A `write_timeout` of zero is none.
    pub(super) const fn new(runtime: R, write_timeout: Duration) -> Self {
        Self { runtime, write_timeout }
    }
}

impl<R: Runtime, F: Future<Output = ()> + Send + 'static> Executor<F> for Streams<R> {
    fn execute(&self, stream: F) {
        let runtime = self.runtime.clone();
        self.runtime.spawn(Stream { stream, runtime, timeout: self.write_timeout, stalled: false, timer: None });
    }
}

pin_project! {
    /// A stream that is reset when its client does not let go on what there is to send.
    struct Stream<F, R: Runtime> {
        #[pin]
        stream: F,
        runtime: R,
        timeout: Duration,
        // Whether something waits for the window, and the timer is set for it.
        stalled: bool,
        // Made when first needed, then moved. A stale one wakes the task once for nothing.
        timer: Option<R::Timer>,
    }
}

impl<F: Future<Output = ()>, R: Runtime> Future for Stream<F, R> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        // An outer one is there if polling this one is part of polling that one.
        let outer = SAID.replace(Said::Nothing);
        let polled = this.stream.poll(cx);
        let said = SAID.replace(outer);
        if polled.is_ready() {
            return Poll::Ready(());
        }
        match said {
            Said::Wait => *this.stalled = false,
            Said::Data if this.timeout.is_zero() => {}
            Said::Data => {
                *this.stalled = true;
                let at = this.runtime.now().saturating_add(*this.timeout);
                match &mut *this.timer {
                    Some(timer) => timer.reset(at),
                    none => *none = Some(this.runtime.timer_at(at)),
                }
            }
            Said::Nothing => {}
        }
        match this.timer {
            Some(timer) if *this.stalled => {
                ready!(Pin::new(timer).poll(cx));
                tracing::debug!(limit = "write_timeout", "stream reset");
                Poll::Ready(())
            }
            Some(_) | None => Poll::Pending,
        }
    }
}

/// A service whose answers are fit for HTTP/2 where that is what is spoken.
#[derive(Debug)]
pub(super) struct Multiplexed<S>(pub(super) S);

impl<S, B> Service<Request<Incoming>> for Multiplexed<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes>,
{
    type Response = Response<Pieces<B>>;
    type Error = Infallible;
    type Future = MultiplexedCall<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let multiplexed = request.version() == Version::HTTP_2;
        // hyper leaves this out of HTTP/1.1 alone, and clients of HTTP/2 reset the stream.
        let unsent = multiplexed && request.method() == Method::HEAD;
        MultiplexedCall { call: self.0.call(request), multiplexed, unsent }
    }
}

pin_project! {
    pub(super) struct MultiplexedCall<F> {
        #[pin]
        call: F,
        multiplexed: bool,
        unsent: bool,
    }
}

impl<F, B> Future for MultiplexedCall<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
    B: Body<Data = Bytes>,
{
    type Output = Result<Response<Pieces<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let (multiplexed, unsent) = (*this.multiplexed, *this.unsent);
        let Ok(mut response) = ready!(this.call.poll(cx));
        if unsent && let Some(length) = response.body().size_hint().exact() {
            response.headers_mut().entry(CONTENT_LENGTH).or_insert_with(|| length.into());
        }
        Poll::Ready(Ok(response.map(|body| Pieces { body, rest: Bytes::new(), multiplexed, unsent })))
    }
}

pin_project! {
    /// A body that comes in pieces, and says what it does.
    pub(super) struct Pieces<B> {
        #[pin]
        body: B,
        rest: Bytes,
        multiplexed: bool,
        // Only its length is told: it answers HEAD.
        unsent: bool,
    }
}

impl<B: Body<Data = Bytes>> Body for Pieces<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let this = self.project();
        if !*this.multiplexed {
            return this.body.poll_frame(cx);
        }
        let frame = if this.rest.is_empty() {
            let Poll::Ready(frame) = this.body.poll_frame(cx) else {
                SAID.set(Said::Wait);
                return Poll::Pending;
            };
            frame
        } else {
            Some(Ok(Frame::data(std::mem::take(this.rest))))
        };
        SAID.set(Said::Data);
        Poll::Ready(frame.map(|frame| {
            frame.map(|frame| match frame.into_data() {
                Ok(mut data) => {
                    *this.rest = data.split_off(data.len().min(PIECE));
                    Frame::data(data)
                }
                Err(frame) => frame,
            })
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.unsent || self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(hint.lower().saturating_add(rest));
        hint
    }
}

/// The runtime's clock and timers, as hyper wants them.
#[derive(Debug)]
pub(super) struct RuntimeTimer<R> {
    runtime: R,
    /// The same moment on both clocks.
    epoch: (Instant, Timestamp),
}

impl<R: Runtime> RuntimeTimer<R> {
    pub(super) fn new(runtime: R) -> Self {
        let epoch = (Instant::now(), runtime.now());
        Self { runtime, epoch }
    }

    fn timestamp(&self, at: Instant) -> Timestamp {
        self.epoch.1.saturating_add(at.saturating_duration_since(self.epoch.0))
    }
}

impl<R: Runtime> hyper::rt::Timer for RuntimeTimer<R> {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(RuntimeSleep(Mutex::new(self.runtime.timer_at(self.runtime.now().saturating_add(duration)))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(RuntimeSleep(Mutex::new(self.runtime.timer_at(self.timestamp(deadline)))))
    }

    fn now(&self) -> Instant {
        self.epoch.0 + self.runtime.now().saturating_since(self.epoch.1)
    }

    fn reset(&self, sleep: &mut Pin<Box<dyn Sleep>>, new_deadline: Instant) {
        match sleep.as_mut().downcast_mut_pin::<RuntimeSleep<R::Timer>>() {
            Some(sleep) => sleep.get_mut().timer().reset(self.timestamp(new_deadline)),
            None => *sleep = self.sleep_until(new_deadline),
        }
    }
}

/// The lock is never taken: it makes a timer shareable, which hyper asks for without sharing it.
struct RuntimeSleep<T>(Mutex<T>);

impl<T> RuntimeSleep<T> {
    fn timer(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Timer> Future for RuntimeSleep<T> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(self.get_mut().timer()).poll(cx)
    }
}

impl<T: Timer> Sleep for RuntimeSleep<T> {}
