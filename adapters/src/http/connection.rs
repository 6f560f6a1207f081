//! One connection: served by hyper, cut when it asks for nothing, told when the server drains.
//!
//! ```text
//!            bytes              head complete            response's last frame
//!   waiting ───────► head begun ─────────────► answering ──────────────────────► waiting
//!      │                 │
//!      └─ idle_timeout   └─ head_timeout (from accept to the first complete head: this one alone)
//! ```
//!
//! A request costs three plain stores here. One timer per connection looks at them from time to time, so the two limits
//! are coarse: a connection may live half a `head_timeout` longer than they say.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use pin_project_lite::pin_project;
use sessile_core::Timestamp;

use super::connections::{Connection, Phase};
use super::io::Io;
use crate::runtime::{Runtime, Timer};

/// Limits of a connection that asks for nothing. Zero is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) head: Duration,
    pub(super) idle: Duration,
    pub(super) write: Duration,
}

/// Serves one connection until it ends. Why it ended is nobody's concern but the log's.
pub(super) async fn drive<R, T, S, B>(
    runtime: R,
    stream: T,
    service: S,
    http: http1::Builder,
    limits: Limits,
    mut place: Connection,
) where
    R: Runtime,
    T: hyper::rt::Read + hyper::rt::Write + Send + Unpin + 'static,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible>,
    B: Body<Data = Bytes> + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let progress = Arc::new(Progress::default());
    let mut watch = Watch::new(&runtime, limits, Arc::clone(&progress));
    let io = Io::new(stream, runtime.clone(), limits.write, Arc::clone(&progress));
    let mut connection = std::pin::pin!(http.serve_connection(io, Tracked { service, progress }));
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
                tracing::debug!(%error, cause = std::error::Error::source(&error), "connection ended");
            }
            return Poll::Ready(());
        }
        watch.poll(cx, &runtime).map(|limit| tracing::debug!(limit, "connection closed"))
    })
    .await;
}

/// What a connection does now. Used by its task alone; atomic only so that the task may move between threads.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Requests begun and ended, times four, plus the stage.
    stage: AtomicU64,
    writing: AtomicBool,
}

const STAGE: u64 = 0b11;
const WAITING: u64 = 0;
const HEAD_BEGUN: u64 = 1;
const ANSWERING: u64 = 2;

impl Progress {
    /// Bytes came.
    pub(super) fn read(&self) {
        let seen = self.stage.load(Ordering::Relaxed);
        if seen & STAGE == WAITING {
            self.stage.store(seen | HEAD_BEGUN, Ordering::Relaxed);
        }
    }

    /// A write waits for the peer, or no longer does.
    pub(super) fn set_writing(&self, writing: bool) {
        self.writing.store(writing, Ordering::Relaxed);
    }

    /// A head is complete.
    fn called(&self) {
        self.next(ANSWERING);
    }

    /// The response has been handed over to its last frame.
    fn answered(&self) {
        self.next(WAITING);
    }

    fn next(&self, stage: u64) {
        let seen = self.stage.load(Ordering::Relaxed);
        self.stage.store((seen & !STAGE).wrapping_add(STAGE + 1) | stage, Ordering::Relaxed);
    }
}

/// Looks at a connection's progress from time to time.
struct Watch<T> {
    limits: Limits,
    progress: Arc<Progress>,
    /// What was seen last, and since when it has been so.
    seen: u64,
    since: Timestamp,
    /// How often we look. `None`: never, since there is no limit.
    step: Option<Duration>,
    timer: Option<T>,
}

impl<T: Timer> Watch<T> {
    fn new<R: Runtime<Timer = T>>(runtime: &R, limits: Limits, progress: Arc<Progress>) -> Self {
        let shortest = [limits.head, limits.idle].into_iter().filter(|limit| !limit.is_zero()).min();
        let step = shortest.map(|limit| limit / 2);
        Self { limits, progress, seen: WAITING, since: runtime.now(), step, timer: None }
    }

    /// Ready with the name of the limit that was hit.
    fn poll<R: Runtime<Timer = T>>(&mut self, cx: &mut Context<'_>, runtime: &R) -> Poll<&'static str> {
        let Some(step) = self.step else { return Poll::Pending };
        let first = self.since.saturating_add(step);
        let timer = self.timer.get_or_insert_with(|| runtime.timer_at(first));
        loop {
            ready!(Pin::new(&mut *timer).poll(cx));
            let now = runtime.now();
            if look(&self.progress, &mut self.seen) {
                self.since = now;
            }
            let mut next = now.saturating_add(step);
            if let Some((limit, name)) = limit_of(self.limits, self.seen) {
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

/// Whether the connection has moved on since `seen`, which is brought up to date.
fn look(progress: &Progress, seen: &mut u64) -> bool {
    let mut stage = progress.stage.load(Ordering::Relaxed);
    if stage == HEAD_BEGUN {
        // The first head has one deadline from accept on, bytes or not.
        stage = WAITING;
    }
    let moved = stage != *seen || progress.writing.load(Ordering::Relaxed);
    *seen = stage;
    moved
}

/// The limit of a stage, and its name.
fn limit_of(limits: Limits, seen: u64) -> Option<(Duration, &'static str)> {
    let (limit, name) = match seen & STAGE {
        WAITING if seen == WAITING => (limits.head, "head_timeout"),
        WAITING => (limits.idle, "idle_timeout"),
        HEAD_BEGUN => (limits.head, "head_timeout"),
        _ => return None,
    };
    (!limit.is_zero()).then_some((limit, name))
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
        self.progress.called();
        TrackedCall { call: self.service.call(request), progress: Some(Answered(Arc::clone(&self.progress))) }
    }
}

pin_project! {
    struct TrackedCall<F> {
        #[pin]
        call: F,
        progress: Option<Answered>,
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
        let progress = this.progress.take();
        Poll::Ready(Ok(response.map(|body| TrackedBody { body, progress })))
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
    struct TrackedBody<B> {
        #[pin]
        body: B,
        progress: Option<Answered>,
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
