//! Serving on a listener of our own: HTTP/1.1 and HTTP/2 by hyper, under any runtime.
//!
//! Owns the accept loop, the options and deadlines of sockets, and the end of it all. Does not own what is answered. Each
//! connection is one task, in which its requests are answered; nothing is spawned per request, but for the streams of HTTP/2.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::body::Incoming;
use hyper::service::Service;
use sessile_core::Timestamp;

use super::connection::{Limits, drive};
use super::connections::{Connections, Phase};
use super::protocol::{MIN_HEAD, Protocol};
use crate::runtime::{Net, Socket};

/// How connections are served. Every time may be zero, which turns it off.
///
/// With the feature `http2`, clients that begin with the preface of HTTP/2 (prior knowledge) are served by it on the same socket; what a
/// limit means for them is said where it is not the same.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// How long a client may take to send a complete request head, counted from accept for the first and from its first
    /// byte for each later one. Coarse: it may take half as long again. In HTTP/2 only the first head has it, preface
    /// included; a later one that does not get complete is no request, so that [`idle_timeout`](Self::idle_timeout) runs
    /// unless others are being answered. Default: 30 s.
    pub head_timeout: Duration,
    /// How long a connection may be open between two requests; as coarse as the other. In HTTP/2: without a stream that is
    /// being answered, whatever else the peer sends. Default: 75 s.
    pub idle_timeout: Duration,
    /// How often silent streams carry a comment. A peer that has not acknowledged what was sent for twice this time
    /// is given up (`TCP_USER_TIMEOUT`; TCP keep-alive where there is none). An HTTP/2 connection that was silent for
    /// this time is sent a PING, and given up if the answer takes as long again. Default: 15 s.
    pub keep_alive: Duration,
    /// Connections open at once; beyond it new ones wait in the listener's backlog. Default: 65,536.
    pub max_connections: usize,
    /// The size of a request's head in bytes; far beyond it the answer is 431. At least 8,192. In HTTP/2, where every field
    /// counts 32 bytes more, the answer is 431 as soon as it is beyond. Default: 64 KiB.
    pub max_head: usize,
    /// How long a pending write may make no progress before its connection is cut. A response as a whole may take any
    /// time. In HTTP/2 the same holds for a stream that has something to send and whose window stays shut: that stream
    /// is reset, and the others go on; progress counts there from 16 KiB on. Default: 30 s.
    pub write_timeout: Duration,
    /// Whether HTTP/2 is spoken with clients that begin with it. Default: true.
    #[cfg(feature = "http2")]
    pub http2: bool,
    /// HTTP/2: streams open at once on one connection, each of them a request; clients are told, and more are refused. At
    /// least 1. A client that floods the server with streams only to reset them loses its connection. Default: 256.
    #[cfg(feature = "http2")]
    pub max_streams: u32,
}

impl Default for ServeConfig {
    fn default() -> Self {
        Self {
            head_timeout: Duration::from_secs(30),
            idle_timeout: Duration::from_secs(75),
            keep_alive: Duration::from_secs(15),
            max_connections: 65_536,
            max_head: MIN_HEAD * 8,
            write_timeout: Duration::from_secs(30),
            #[cfg(feature = "http2")]
            http2: true,
            #[cfg(feature = "http2")]
            max_streams: 256,
        }
    }
}

/// Serves `service` on `listener` until `shutdown` completes and every connection has then finished what it had begun.
///
/// `listener` is a bound TCP or Unix socket of the standard library.
///
/// When `shutdown` completes the listener is closed, idle connections are closed, and the others when they have sent the
/// response they are at; HTTP/2 clients are told by GOAWAY, and all streams that they have opened finish. How long that may
/// take is the caller's to bound: dropping the future ends all connections at once. A connection whose client closes its
/// sending half counts as gone.
///
/// The service is cloned for every connection. Its futures and bodies live in the connection's task; in HTTP/2, in one task
/// for each stream.
///
/// # Errors
///
/// If the listener can't be used. What goes wrong later is logged, and survived.
pub async fn serve<R, S, B>(
    runtime: R,
    listener: impl Into<Socket>,
    service: S,
    config: ServeConfig,
    shutdown: impl Future<Output = ()> + Send,
) -> io::Result<()>
where
    R: Net,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let listener = runtime.listener(listener.into())?;
    let connections = Arc::new(Connections::default());
    let _end = EndOnDrop(Arc::clone(&connections));
    {
        let mut accepting = pin!(accept_all(&runtime, &listener, &service, &config, &connections));
        let mut shutdown = pin!(shutdown);
        std::future::poll_fn(|cx| {
            if shutdown.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            accepting.as_mut().poll(cx).map(|never| match never {})
        })
        .await;
    }
    drop(listener);
    connections.enter(Phase::Draining);
    std::future::poll_fn(|cx| connections.poll_below(cx, 1)).await;
    Ok(())
}

/// Ends all connections when the server's future is dropped.
struct EndOnDrop(Arc<Connections>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        self.0.enter(Phase::Ended);
    }
}

async fn accept_all<R, S, B>(
    runtime: &R,
    listener: &R::Listener,
    service: &S,
    config: &ServeConfig,
    connections: &Arc<Connections>,
) -> Infallible
where
    R: Net,
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let protocol = Protocol::new(config);
    let limits = Limits::new(config);
    let user_timeout = (!config.keep_alive.is_zero()).then(|| config.keep_alive.saturating_mul(2));
    let limit = config.max_connections.max(1);
    let mut trouble = Trouble::default();
    let mut in_a_row = 0;
    loop {
        if in_a_row == IN_A_ROW {
            pass_on().await;
            in_a_row = 0;
        }
        in_a_row += 1;
        std::future::poll_fn(|cx| connections.poll_below(cx, limit)).await;
        let stream = match R::accept(listener).await {
            Ok(stream) => stream,
            Err(error) => {
                if let Some(wait) = trouble.wait_after(&error, runtime.now()) {
                    runtime.timer_at(runtime.now().saturating_add(wait)).await;
                }
                continue;
            }
        };
        trouble.over();
        if let Err(error) = R::tune(&stream, user_timeout) {
            tracing::debug!(%error, "socket options");
        }
        let place = connections.open();
        runtime.spawn(drive(runtime.clone(), stream, service.clone(), protocol, limits, place));
    }
}

/// How many connections are accepted in a row. Not every runtime interrupts a task that always finds something to do, and a
/// crowd at the door must not keep those who are in, or the end, waiting.
const IN_A_ROW: u32 = 32;

/// Lets the other tasks have a turn.
async fn pass_on() {
    let mut passed = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut passed, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What `accept` reports, and how it is borne.
#[derive(Debug, Default)]
struct Trouble {
    wait: Duration,
    quiet_until: Timestamp,
    unlogged: u64,
}

impl Trouble {
    const FIRST_WAIT: Duration = Duration::from_millis(5);
    const LONGEST_WAIT: Duration = Duration::from_millis(500);
    const QUIET: Duration = Duration::from_secs(10);

    /// How long to wait after `error`; `None` if it concerns only the connection that would have been.
    fn wait_after(&mut self, error: &io::Error, now: Timestamp) -> Option<Duration> {
        if matches!(
            error.kind(),
            io::ErrorKind::ConnectionAborted
                | io::ErrorKind::ConnectionRefused
                | io::ErrorKind::ConnectionReset
                | io::ErrorKind::Interrupted
        ) {
            return None;
        }
        // Most often the process has no file descriptor left. Accepting again at once would only burn time, and the
        // log would tell of it many times a second.
        if now >= self.quiet_until {
            tracing::warn!(%error, unlogged = self.unlogged, "can't accept connections");
            self.quiet_until = now.saturating_add(Self::QUIET);
            self.unlogged = 0;
        } else {
            self.unlogged += 1;
        }
        self.wait = (self.wait * 2).clamp(Self::FIRST_WAIT, Self::LONGEST_WAIT);
        Some(self.wait)
    }

    const fn over(&mut self) {
        self.wait = Duration::ZERO;
    }
}

#[cfg(test)]
#[cfg(all(feature = "http2", feature = "tokio"))]
mod http2_tests;
#[cfg(test)]
#[cfg(feature = "tokio")]
mod tests;
