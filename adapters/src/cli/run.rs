//! From settings to a server, and to its end.

use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::{Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::Incoming;

use crate::http::{ServeConfig, serve};
use crate::runtime::{Net, Socket, timeout_at};

/// How long the last bytes may take to leave once all work is done.
const LAST_BYTES: Duration = Duration::from_millis(500);

/// How serving ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    /// All was brought to an end.
    Drained,
    /// A second signal came before that.
    Stopped,
}

/// Serves until a signal comes; then `shutdown` runs while connections still work, then they are closed.
///
/// `signal` waits for the next signal each time that it is called.
pub(super) async fn until_signal<R, S, B>(
    runtime: R,
    listener: Socket,
    service: S,
    config: ServeConfig,
    mut signal: impl AsyncFnMut() -> &'static str,
    shutdown: impl AsyncFnOnce(),
) -> io::Result<End>
where
    R: Net,
    S: hyper::service::Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let close = Gong::default();
    let mut serving = pin!(serve(runtime.clone(), listener, service, config, close.rung()));
    match first_of(serving.as_mut(), pin!(signal())).await {
        First::Left(ended) => return ended.map(|()| End::Drained),
        First::Right(name) => tracing::info!(signal = name, "shutting down"),
    }
    let second = pin!(signal());
    let ending = pin!(async {
        let mut shutdown = pin!(shutdown());
        match first_of(serving.as_mut(), shutdown.as_mut()).await {
            First::Left(ended) => {
                shutdown.await;
                return ended;
            }
            First::Right(()) => close.ring(),
        }
        // Whoever still does not read what it was sent loses it.
        let until = runtime.now().saturating_add(LAST_BYTES);
        timeout_at(&runtime, until, serving).await.unwrap_or(Ok(()))
    });
    match first_of(ending, second).await {
        First::Left(ended) => ended.map(|()| End::Drained),
        First::Right(name) => {
            tracing::warn!(signal = name, "stopping at once");
            Ok(End::Stopped)
        }
    }
}

enum First<L, R> {
    Left(L),
    Right(R),
}

/// Waits for one of two; if both are done, the left.
async fn first_of<L: Future + Unpin, R: Future + Unpin>(mut left: L, mut right: R) -> First<L::Output, R::Output> {
    poll_fn(|cx| {
        if let Poll::Ready(output) = std::pin::Pin::new(&mut left).poll(cx) {
            return Poll::Ready(First::Left(output));
        }
        std::pin::Pin::new(&mut right).poll(cx).map(First::Right)
    })
    .await
}

/// Rings once, for one who waits.
#[derive(Debug, Default)]
struct Gong(Arc<Mutex<(bool, Option<Waker>)>>);

impl Gong {
    fn ring(&self) {
        let waker = {
            let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn rung(&self) -> impl Future<Output = ()> + Send + use<> {
        let state = Arc::clone(&self.0);
        poll_fn(move |cx| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.0 {
                return Poll::Ready(());
            }
            state.1 = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}
