//! The MCP servers behind the sessions.
//!
//! Owns the two ways to be one: [`Handler`], for servers that answer message by message, and [`App`], for servers that run for
//! the whole session. Does not own streams or sessions: an app speaks, the session decides where it is heard.

mod context;
pub mod demo;
mod function;
mod link;
#[cfg(feature = "rmcp")]
pub mod rmcp;
#[cfg(feature = "stdio")]
pub mod stdio;

use std::error::Error;
use std::future::Future;
use std::io;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll};

#[cfg(feature = "rmcp")]
pub use self::rmcp::RmcpApp;
pub(crate) use context::{Answering, ReplyKind, error_message};
pub use context::{Context, Reply, RequestError};
pub use demo::Demo;
pub use function::{Function, handler_fn};
pub(crate) use link::Half;
pub use link::{AppLink, Inbound, Receiver, SendError, Sender};
use sessile_core::session::Delivery;
use sessile_core::{Eras, Message};

pub use crate::manager::SessionInfo;

/// A server that answers message by message, with a state for each session and no task of its own.
///
/// An answer that is ready at once leaves in one write and costs no task. A call that takes longer goes on when its client has
/// gone (up to revision 2025-11-25 a lost connection cancels nothing); it is dropped when the client cancels it, or when its session ends.
pub trait Handler: Send + Sync + 'static {
    /// What it keeps for each session.
    type State: Send + Sync + 'static;

    /// The eras that it speaks. In the modern era each request is served as by a new instance: with a state of its own, and without a
    /// way to ask its client. Default: the legacy era alone.
    fn eras(&self) -> Eras {
        Eras::LEGACY
    }

    /// Makes the state of a new session, or of a request without one.
    fn open(&self, session: &SessionInfo) -> Self::State;

    /// Answers one request, `initialize` included, or takes one notification, to which the reply is [`Reply::none`].
    fn call(&self, context: Context<Self::State>, message: Message) -> impl Future<Output = Reply> + Send;
}

/// A server that runs for the whole session: a child process, a server of another crate.
pub trait App: Send + Sync + 'static {
    /// The eras that it speaks; asked when a request of the modern era comes, and kept. Default: the legacy era alone.
    ///
    /// In the modern era there are no sessions: this is run for each request, of [`Kind::Modern`](sessile_core::session::Kind::Modern). The
    /// link gives that one message and ends when the client has gone.
    fn eras(&self) -> impl Future<Output = Eras> + Send {
        std::future::ready(Eras::LEGACY)
    }

    /// Runs one session. It ends when this returns: with `Ok` as finished, with `Err` as crashed. When the session ends for
    /// another reason the link gives no more messages, and this should clean up and return.
    ///
    /// A client may use the id of a request that it has cancelled again. So the answer to a cancelled request is best not sent at all: it
    /// would be taken for that of the new one.
    ///
    /// # Errors
    ///
    /// Whatever keeps the server from serving; it is logged.
    fn run(&self, link: AppLink) -> impl Future<Output = Result<(), AppError>> + Send;
}

/// Why an app could not serve its session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppError {
    /// The server ended by itself.
    #[error("the server ended: {0}")]
    Exited(String),
    /// Reading from or writing to it failed.
    #[error("input or output of the server failed: {0}")]
    Io(#[source] io::Error),
    /// Anything else.
    #[error("{0}")]
    Other(#[source] Box<dyn Error + Send + Sync>),
    /// It panicked.
    #[error("the app panicked")]
    Panicked,
    /// It could not be started.
    #[error("the server could not be started: {0}")]
    Start(#[source] io::Error),
}

/// The future of one call.
pub(crate) type CallFuture = Pin<Box<dyn Future<Output = Reply> + Send>>;
/// The future of the eras of an app.
pub(crate) type ErasFuture<'a> = Pin<Box<dyn Future<Output = Eras> + Send + 'a>>;
/// The future of one session's app.
pub(crate) type RunFuture = Pin<Box<dyn Future<Output = Result<(), AppError>> + Send>>;

/// What the manager needs of either kind.
pub trait Backend: sealed::Sealed + Send + Sync + 'static {
    /// The state of a session.
    type State: Send + Sync + 'static;
}

pub(crate) mod sealed {
    use super::{CallFuture, Context, Delivery, Eras, ErasFuture, Message, RunFuture, SessionInfo};

    /// The workings of a [`super::Backend`].
    #[expect(unnameable_types, reason = "sealed")]
    pub trait Sealed {
        type State: Send + Sync + 'static;
        const DELIVERY: Delivery;
        /// The eras, if they are known yet.
        fn known_eras(&self) -> Option<Eras>;
        fn eras(&self) -> ErasFuture<'_>;
        fn open(&self, session: &SessionInfo) -> Self::State;
        fn run(&self, link: super::Half<Self::State>) -> Option<RunFuture>;
        fn call(&self, context: Context<Self::State>, message: Message) -> Option<CallFuture>;
    }
}

/// A [`Handler`] behind a manager.
#[derive(Debug)]
pub struct Calls<H>(Arc<H>);

/// An [`App`] behind a manager.
#[derive(Debug)]
pub struct Tasks<A> {
    app: Arc<A>,
    eras: OnceLock<Eras>,
}

impl<H> Calls<H> {
    pub(crate) fn new(handler: H) -> Self {
        Self(Arc::new(handler))
    }
}

impl<A> Tasks<A> {
    pub(crate) fn new(app: A) -> Self {
        Self { app: Arc::new(app), eras: OnceLock::new() }
    }
}

impl<H: Handler> Backend for Calls<H> {
    type State = H::State;
}

impl<H: Handler> sealed::Sealed for Calls<H> {
    type State = H::State;
    const DELIVERY: Delivery = Delivery::Call;

    fn known_eras(&self) -> Option<Eras> {
        Some(self.0.eras())
    }

    fn eras(&self) -> ErasFuture<'_> {
        Box::pin(std::future::ready(self.0.eras()))
    }

    fn open(&self, session: &SessionInfo) -> H::State {
        self.0.open(session)
    }

    fn run(&self, _: Half<H::State>) -> Option<RunFuture> {
        None
    }

    fn call(&self, context: Context<H::State>, message: Message) -> Option<CallFuture> {
        let handler = Arc::clone(&self.0);
        Some(Box::pin(async move { handler.call(context, message).await }))
    }
}

impl<A: App> Backend for Tasks<A> {
    type State = ();
}

impl<A: App> sealed::Sealed for Tasks<A> {
    type State = ();
    const DELIVERY: Delivery = Delivery::Inbox;

    fn known_eras(&self) -> Option<Eras> {
        self.eras.get().copied()
    }

    fn eras(&self) -> ErasFuture<'_> {
        Box::pin(async {
            let eras = self.app.eras().await;
            *self.eras.get_or_init(|| eras)
        })
    }

    fn open(&self, _: &SessionInfo) {}

    fn run(&self, half: Half<()>) -> Option<RunFuture> {
        let app = Arc::clone(&self.app);
        Some(Box::pin(async move { app.run(AppLink::new(half)).await }))
    }

    fn call(&self, _: Context<()>, _: Message) -> Option<CallFuture> {
        None
    }
}

/// Polls a future of an app; a panic in it is its failure and nobody else's. Afterwards the future must not be polled again.
pub(crate) fn poll_guarded<F: Future + ?Sized>(
    future: Pin<&mut F>,
    cx: &mut TaskContext<'_>,
) -> Poll<Result<F::Output, AppError>> {
    match std::panic::catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
        Ok(poll) => poll.map(Ok),
        Err(_) => Poll::Ready(Err(AppError::Panicked)),
    }
}
