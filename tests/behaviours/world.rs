//! Where a behaviour takes place.

use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::Request;
use sessile::Stats;
use sessile::http::ServeConfig;
use sessile_core::{Config, Eras};
use sessile_tests::line::{Exchange, Lost, Sending};
use sessile_tests::pure::Upload;

use crate::fixture::Seen;

pub(crate) type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// One run of one behaviour on one stack. Cheap to clone.
#[derive(Clone)]
pub(crate) struct World(pub(crate) Arc<dyn Host>);

/// What a stack does for a behaviour.
pub(crate) trait Host: Send + Sync {
    /// Starts a server.
    fn serve(&self, setup: Setup) -> Running;

    /// Whether such a request can be sent at all. Not every version of HTTP can say everything.
    fn carries(&self, request: &Request<Upload>) -> bool {
        let _ = request;
        true
    }

    /// Whether heads can speak of their connection.
    fn has_connection_headers(&self) -> bool {
        true
    }

    /// Sends a request on a connection of its own, or on a stream of its own where a connection has many.
    fn send(&self, to: SocketAddr, request: Request<Sending>) -> Boxed<Result<Exchange, Lost>>;

    /// Time passes. `None` where it does so only by itself.
    fn sleep(&self, time: Duration) -> Option<Boxed<()>>;

    fn spawn(&self, task: Boxed<()>);
}

/// What a server is to be like.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) eras: Eras,
    pub(crate) kind: Kind,
    pub(crate) serve: ServeConfig,
}

/// What serves the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    App,
    Handler,
}

/// A server, as whoever runs it sees it.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) seen: Seen,
    pub(crate) stats: Box<dyn Fn() -> Stats + Send + Sync>,
    pub(crate) shutdown: Box<dyn Fn(Duration) -> Boxed<()> + Send + Sync>,
}

impl Default for Setup {
    fn default() -> Self {
        Self { config: Config::default(), eras: Eras::BOTH, kind: Kind::Handler, serve: ServeConfig::default() }
    }
}

impl World {
    /// Time passes, and everything that is due happens.
    pub(crate) async fn pass(&self, time: Duration) {
        // What is due at that very time is let happen.
        self.0
            .sleep(time + Duration::from_millis(1))
            .expect("a behaviour that needs time runs where it is virtual")
            .await;
    }

    /// Whether time is virtual.
    pub(crate) fn has_time(&self) -> bool {
        self.0.sleep(Duration::ZERO).is_some()
    }

    /// `None` when the time has passed before `future` was done.
    pub(crate) async fn within<F: Future>(&self, time: Duration, future: F) -> Option<F::Output> {
        let (mut future, mut pass) = (pin!(future), pin!(self.pass(time)));
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => pass.as_mut().poll(cx).map(|()| None),
        })
        .await
    }
}
