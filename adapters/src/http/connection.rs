//! One connection: served by hyper, cut when it asks for nothing, told when the server drains.
//!
//! HTTP/1.1 has one request at a time:
//!
//! ```text
//!            bytes              head complete            response's last frame
//!   waiting ───────► head begun ─────────────► answering ──────────────────────► waiting
//!      │                 │
//!      └─ idle_timeout   └─ head_timeout (from accept to the first complete head: this one alone)
//! ```
//!
//! HTTP/2 has many, and is answering as long as one of them is. Its bytes are not all heads, so between requests it waits, whatever
//! comes.
//!
//! A request costs a few uncontended atomic operations here. One timer per connection looks at them from time to time, so the two
//! limits are coarse: a connection may live half a `head_timeout` longer than they say.

use std::convert::Infallible;
#[cfg(not(feature = "http2"))]
use std::error::Error as _;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use pin_project_lite::pin_project;
use sessile_core::Timestamp;

use super::connections::{Connection, Phase};
use super::io::Io;
use super::protocol::{self, Protocol};
use super::serve::ServeConfig;
use crate::runtime::{Runtime, Timer};

/// Limits of a connection that asks for nothing. Zero is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    head: Duration,
    idle: Duration,
    write: Duration,
}

impl Limits {
    pub(super) const fn new(config: &ServeConfig) -> Self {
        Self { head: config.head_timeout, idle: config.idle_timeout, write: config.write_timeout }
    }
}

/// Serves one connection until it ends. Why it ended is nobody's concern but the log's.
pub(super) async fn drive<R, T, S, B>(
    runtime: R,
    stream: T,
    service: S,
    protocol: Protocol,
    limits: Limits,
    mut place: Connection,
) where
    R: Runtime,
    T: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let progress = Arc::new(Progress::default());
    let mut watch = Watch::new(&runtime, limits, Arc::clone(&progress));
    let io = Io::new(stream, runtime.clone(), limits.write, Arc::clone(&progress));
    let http = protocol.speaker(&runtime, limits.write);
    let mut connection = std::pin::pin!(http.serve_connection(io, protocol::prepare(Tracked { service, progress })));
    let mut draining = false;
    std::future::poll_fn(|cx| {
        match place.poll_phase(cx) {
            Phase::Open => {}
            Phase::Draining if draining => {}
            Phase::Draining => {
                draining = true;
                connection.as_mut().graceful_shutdown();
            }
            Phase::Ended => return Poll::Ready(()),
        }
        if let Poll::Ready(end) = connection.as_mut().poll(cx) {
            if let Err(error) = end {
                // A peer that hangs up is everyday life.
                tracing::debug!(%error, cause = error.source(), "connection ended");
            }
            return Poll::Ready(());
        }
        watch.poll(cx, &runtime).map(|limit| tracing::debug!(limit, "connection closed"))
    })
    .await;
}

/// What a connection does now. With HTTP/2 its streams are tasks of their own.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// In the high half, requests begun and ended; in the low half, those that are being answered.
    calls: AtomicU64,
    /// Bytes have come since the last answer. Means something to HTTP/1 alone: in HTTP/2 not all bytes are heads.
    head_begun: AtomicBool,
    /// It is HTTP/2; known with the first request.
    multiplexed: AtomicBool,
    writing: AtomicBool,
}

const TURN: u64 = 1 << 32;
const IN_FLIGHT: u64 = TURN - 1;

impl Progress {
    /// Bytes came.
    pub(super) fn read(&self) {
        if self.calls.load(Ordering::Relaxed) & IN_FLIGHT == 0 {
            self.head_begun.store(true, Ordering::Relaxed);
        }
    }

    /// A write waits for the peer, or no longer does.
    pub(super) fn set_writing(&self, writing: bool) {
        self.writing.store(writing, Ordering::Relaxed);
    }

    /// A head is complete.
    fn called(&self, version: Version) {
        if version == Version::HTTP_2 {
            self.multiplexed.store(true, Ordering::Relaxed);
        }
        self.head_begun.store(false, Ordering::Relaxed);
        self.calls.fetch_add(TURN + 1, Ordering::Relaxed);
    }

    /// A response has been handed over to its last frame.
    fn answered(&self) {
        self.calls.fetch_add(TURN - 1, Ordering::Relaxed);
    }

    fn look(&self) -> Look {
        let calls = self.calls.load(Ordering::Relaxed);
        // The first head has one deadline from accept on, bytes or not.
        let head_begun =
            calls != 0 && !self.multiplexed.load(Ordering::Relaxed) && self.head_begun.load(Ordering::Relaxed);
        Look { calls, head_begun }
    }
}

/// What there is to see of a connection's progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Look {
    calls: u64,
    head_begun: bool,
}

impl Look {
    /// The limit of what the connection is at, and its name.
    fn limit(self, limits: Limits) -> Option<(Duration, &'static str)> {
        let (limit, name) = if self.calls & IN_FLIGHT != 0 {
            return None;
        } else if self.calls == 0 || self.head_begun {
            (limits.head, "head_timeout")
        } else {
            (limits.idle, "idle_timeout")
        };
        (!limit.is_zero()).then_some((limit, name))
    }
}

/// Looks at a connection's progress from time to time.
struct Watch<T> {
    limits: Limits,
    progress: Arc<Progress>,
    /// What was seen last, and since when it has been so.
    seen: Look,
    since: Timestamp,
    /// How often we look. `None`: never, since there is no limit.
    step: Option<Duration>,
    timer: Option<T>,
}

impl<T: Timer> Watch<T> {
    fn new<R: Runtime<Timer = T>>(runtime: &R, limits: Limits, progress: Arc<Progress>) -> Self {
        let shortest = [limits.head, limits.idle].into_iter().filter(|limit| !limit.is_zero()).min();
        let step = shortest.map(|limit| limit / 2);
        Self { limits, progress, seen: Look::default(), since: runtime.now(), step, timer: None }
    }

    /// Ready with the name of the limit that was hit.
    fn poll<R: Runtime<Timer = T>>(&mut self, cx: &mut Context<'_>, runtime: &R) -> Poll<&'static str> {
        let Some(step) = self.step else { return Poll::Pending };
        let first = self.since.saturating_add(step);
        let timer = self.timer.get_or_insert_with(|| runtime.timer_at(first));
        loop {
            ready!(Pin::new(&mut *timer).poll(cx));
            let now = runtime.now();
            let seen = self.progress.look();
            if seen != self.seen || self.progress.writing.load(Ordering::Relaxed) {
                self.seen = seen;
                self.since = now;
            }
            let mut next = now.saturating_add(step);
            if let Some((limit, name)) = seen.limit(self.limits) {
                let due = self.since.saturating_add(limit);
                if due <= now {
                    return Poll::Ready(name);
                }
                next = next.min(due);
            }
            timer.reset(next);
        }
    }
}

/// A service whose calls and answers are noted.
#[derive(Debug)]
struct Tracked<S> {
    service: S,
    progress: Arc<Progress>,
}

impl<S, B> Service<Request<Incoming>> for Tracked<S>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
{
    type Response = Response<TrackedBody<B>>;
    type Error = Infallible;
    type Future = TrackedCall<S::Future>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.progress.called(request.version());
        TrackedCall { call: self.service.call(request), answered: Some(Answered(Arc::clone(&self.progress))) }
    }
}

pin_project! {
    pub(super) struct TrackedCall<F> {
        #[pin]
        call: F,
        answered: Option<Answered>,
    }
}

impl<F, B> Future for TrackedCall<F>
where
    F: Future<Output = Result<Response<B>, Infallible>>,
{
    type Output = Result<Response<TrackedBody<B>>, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let Ok(response) = ready!(this.call.poll(cx));
        let answered = this.answered.take();
        Poll::Ready(Ok(response.map(|body| TrackedBody { body, answered })))
    }
}

/// Notes the answer when it is dropped.
#[derive(Debug)]
struct Answered(Arc<Progress>);

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.answered();
    }
}

pin_project! {
    pub(super) struct TrackedBody<B> {
        #[pin]
        body: B,
        answered: Option<Answered>,
    }
}

impl<B: Body> Body for TrackedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        self.project().body.poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
