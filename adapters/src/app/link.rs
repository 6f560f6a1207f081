//! The link between a session and an app that runs as long as it.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use http::request::Parts;
#[cfg(feature = "stdio")]
use sessile_core::session::EndReason;
use sessile_core::session::Relation;
#[cfg(feature = "stdio")]
use sessile_core::table::TaskExit;
use sessile_core::{Message, ProtocolVersion, RequestId};
use tracing::Span;

use crate::manager::SessionInfo;
use crate::manager::cell::Cell;
use crate::manager::hub::Hub;
use crate::trace;

/// Both directions of the link. No channel lies between: receiving and sending go through the session's lock.
#[derive(Debug)]
pub struct AppLink {
    receiver: Receiver,
    sender: Sender,
}

/// A message of the client.
#[derive(Clone, Debug)]
pub struct Inbound {
    /// The message, as it arrived.
    pub message: Message,
    /// Head of the HTTP request that brought it: headers and extensions. `None` for a message that the session made up, such as the error
    /// for a request of the server that could not be delivered.
    pub parts: Option<Arc<Parts>>,
}

/// The client's messages, in the order in which their bodies were complete.
#[derive(Debug)]
pub struct Receiver(Half<()>);

/// The server's messages. They never wait: what has no way to the client is dropped (notifications) or answered with an error
/// (requests), and responses always have one.
#[derive(Clone, Debug)]
pub struct Sender(Half<()>);

/// Who waits for the end alone; whoever receives is 0.
#[cfg(feature = "rmcp")]
const BESIDES: usize = 1;

/// A session that has ended takes no more messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session has ended")]
pub struct SendError;

/// The session, and the tables that its effects go to.
#[expect(unnameable_types, reason = "passed within a sealed trait")]
pub struct Half<S> {
    pub(crate) cell: Arc<Cell<S>>,
    pub(crate) hub: Arc<Hub<S>>,
}

impl<S> Clone for Half<S> {
    fn clone(&self) -> Self {
        Self { cell: Arc::clone(&self.cell), hub: Arc::clone(&self.hub) }
    }
}

impl<S> std::fmt::Debug for Half<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.cell.info.fmt(f)
    }
}

impl AppLink {
    pub(crate) fn new(half: Half<()>) -> Self {
        Self { receiver: Receiver(half.clone()), sender: Sender(half) }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &SessionInfo {
        self.sender.session()
    }

    /// The server's direction.
    #[must_use]
    pub const fn sender(&self) -> &Sender {
        &self.sender
    }

    /// Both directions, for loops of their own.
    #[must_use]
    pub fn split(self) -> (Receiver, Sender) {
        (self.receiver, self.sender)
    }

    /// See [`Receiver::recv`].
    pub async fn recv(&mut self) -> Option<Inbound> {
        self.receiver.recv().await
    }

    /// See [`Sender::send`].
    ///
    /// # Errors
    ///
    /// If the session has ended.
    pub fn send(&self, message: Message) -> Result<(), SendError> {
        self.sender.send(message)
    }
}

impl Receiver {
    /// Waits for the next message. `None`: the session has ended. Cancel-safe.
    ///
    /// Requests that the client cancels, and those that expire, are told by `notifications/cancelled`.
    pub async fn recv(&mut self) -> Option<Inbound> {
        poll_fn(|cx| {
            let mut inner = self.0.cell.lock();
            if let Some(inbound) = inner.session.poll_inbox() {
                return Poll::Ready(Some(Inbound { message: inbound.message, parts: inbound.context }));
            }
            inner.poll_ended(cx).map(|()| None)
        })
        .await
    }

    /// Waits until the session has ended, and takes no message: for an app that can't take one now. Cancel-safe.
    pub async fn ended(&mut self) {
        poll_fn(|cx| self.0.cell.lock().poll_ended(cx)).await;
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &SessionInfo {
        &self.0.cell.info
    }
}

impl Sender {
    /// Sends a message of the server, which can't say what request it belongs to: that is derived, see
    /// [`sessile_core::session::Relation::Derived`].
    ///
    /// # Errors
    ///
    /// If the session has ended.
    pub fn send(&self, message: Message) -> Result<(), SendError> {
        self.push(message, |_| Relation::Derived)
    }

    /// Sends a message that belongs to the client's request with this id. If that is no longer in flight, notifications are dropped and
    /// requests get an error.
    ///
    /// # Errors
    ///
    /// If the session has ended.
    pub fn send_related(&self, message: Message, request: &RequestId) -> Result<(), SendError> {
        self.push(message, |session| session.request_with_id(request).map_or(Relation::Over, Relation::Request))
    }

    /// Sends a message that belongs to no request: it goes to the standalone stream.
    ///
    /// # Errors
    ///
    /// If the session has ended.
    pub fn send_unrelated(&self, message: Message) -> Result<(), SendError> {
        self.push(message, |_| Relation::Unrelated)
    }

    /// Ends the connection that the client's request with this id is answered over, so that the client comes back for the rest after
    /// `retry` (SEP-1699); what the server says meanwhile waits for it.
    ///
    /// `false`, and nothing changes, if the client can't come back: resumption is off, the client is of a revision before
    /// 2025-11-25, it takes one JSON body, or the request is over.
    #[must_use]
    pub fn close_stream(&self, request: &RequestId, retry: Option<Duration>) -> bool {
        let Half { cell, hub } = &self.0;
        let mut inner = cell.lock();
        let request = inner.session.request_with_id(request);
        let closed = request.is_some_and(|request| inner.session.close_stream(&hub.config.session, request, retry));
        hub.settle(cell, inner);
        closed
    }

    /// Ends the connections that wait for messages which belong to no request, so that the client comes back after `retry`. `false` as
    /// with [`Sender::close_stream`].
    #[must_use]
    pub fn close_standalone_stream(&self, retry: Option<Duration>) -> bool {
        let Half { cell, hub } = &self.0;
        let mut inner = cell.lock();
        let closed = inner.session.close_standalone_stream(&hub.config.session, retry);
        hub.settle(cell, inner);
        closed
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &SessionInfo {
        &self.0.cell.info
    }

    /// Waits until the session has ended, for one who waits for something else besides, while nobody or somebody else receives.
    #[cfg(feature = "rmcp")]
    pub(crate) async fn ended(&self) {
        poll_fn(|cx| self.0.cell.lock().poll_ended_for(BESIDES, cx)).await;
    }

    /// Ends the session, for a server that can't serve it any more but has not yet returned.
    #[cfg(feature = "stdio")]
    pub(crate) fn end_session(&self) {
        self.0.hub.exit(self.0.cell.info.key, TaskExit::Crashed);
    }

    /// The span of the client's request with this id while it is in flight, for the server to do its work in: by the OpenTelemetry
    /// conventions for MCP, with target `sessile::mcp`. It ends with the answer. Disabled where no subscriber wants it.
    #[must_use]
    pub fn span(&self, request: &RequestId) -> Span {
        let inner = self.0.cell.lock();
        let span = inner.session.request_with_id(request).and_then(|request| inner.spans.of(request));
        span.cloned().unwrap_or_else(Span::none)
    }

    /// Whether the session has ended for a reason that the server has nothing to do with.
    #[cfg(feature = "stdio")]
    pub(crate) fn was_ended_for_it(&self) -> bool {
        let ended = self.0.cell.lock().session.ended();
        matches!(ended, Some(EndReason::Closed | EndReason::Shutdown))
    }

    /// The negotiated revision, once the server has answered `initialize`.
    #[must_use]
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.0.cell.version()
    }

    fn push(
        &self,
        message: Message,
        relation: impl FnOnce(&sessile_core::session::Session<Arc<Parts>>) -> Relation,
    ) -> Result<(), SendError> {
        let Half { cell, hub } = &self.0;
        let now = hub.now();
        let mut inner = cell.lock();
        if inner.session.ended().is_some() {
            return Err(SendError);
        }
        let relation = relation(&inner.session);
        let answered = inner.take_span(&message).map(|span| (span, message.raw().clone()));
        inner.session.handle_app_message(now, &hub.config.session, message, relation);
        hub.settle(cell, inner);
        if let Some((span, answer)) = answered {
            trace::answered(&span, &answer);
        }
        Ok(())
    }
}
