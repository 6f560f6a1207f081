//! One exchange: a request of the client, from its message to the end of its answer.
//!
//! Owns the guards that tell the session that a connection has gone and the table that an exchange is over, whatever the way out.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use sessile_core::session::{ConnectionKey, Disconnect, Head, Kind, ReaderOutput, RequestKey};
use sessile_core::table::CloseReason;
use sessile_core::{Era, MCP_SESSION_ID, RequestId, Timestamp, modern_status, sse};
use tracing::{Span, warn};

use super::body::{Body, Events};
use crate::app::{AppError, CallFuture, Reply, ReplyKind, error_message, poll_guarded};
use crate::manager::cell::{Cell, Inner};
use crate::manager::hub::{Hub, Ticket};
use crate::runtime::{Runtime, Timer};
use crate::trace;

/// A connection that reads a stream of a session. Dropping it is a disconnect, or the orderly end.
pub(super) struct Connection<S> {
    ticket: Ticket<S>,
    key: ConnectionKey,
    /// The session has said that this connection gets nothing more.
    finished: bool,
}

impl<S> Connection<S> {
    pub(super) const fn new(ticket: Ticket<S>, key: ConnectionKey) -> Self {
        Self { ticket, key, finished: false }
    }

    fn hub(&self) -> &Arc<Hub<S>> {
        &self.ticket.hub
    }

    fn cell(&self) -> &Arc<Cell<S>> {
        &self.ticket.cell
    }

    /// Whether the session has said that this connection gets nothing more. Whether its exchange is kept for the request is said with
    /// it.
    fn ends_with(&mut self, output: ReaderOutput) -> bool {
        self.finished = match output {
            ReaderOutput::Detached => {
                self.ticket.kept = true;
                true
            }
            ReaderOutput::Finished => true,
            ReaderOutput::Pending | ReaderOutput::Ready => false,
        };
        self.finished
    }
}

impl<S> Drop for Connection<S> {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let Ticket { hub, cell, kept } = &mut self.ticket;
        let now = hub.now();
        let mut inner = cell.lock();
        inner.connections.take(self.key);
        let disconnect = inner.session.handle_disconnect(now, &hub.config.session, self.key);
        *kept = disconnect == Disconnect::Detached;
        hub.settle(cell, inner);
        if disconnect == Disconnect::Abandoned {
            hub.close(cell.info.key, CloseReason::Abandoned);
        }
    }
}

/// The call of a handler, which ends early when its request is cancelled or its session ends.
pub(super) struct Call<S> {
    future: CallFuture,
    hub: Arc<Hub<S>>,
    cell: Arc<Cell<S>>,
    /// `None` for a notification.
    request: Option<(RequestKey, RequestId)>,
    /// The size of the message, by which the session counts notifications.
    len: usize,
    span: Span,
    /// It has been polled, so that its request may have been cancelled since.
    waiting: bool,
    /// It has given its reply.
    replied: bool,
}

impl<S> Call<S> {
    pub(super) const fn new(
        future: CallFuture,
        hub: Arc<Hub<S>>,
        cell: Arc<Cell<S>>,
        request: Option<(RequestKey, RequestId)>,
        len: usize,
        span: Span,
    ) -> Self {
        Self { future, hub, cell, request, len, span, waiting: false, replied: false }
    }

    /// `None` once the request is over without the call's doing.
    fn poll_reply(&mut self, cx: &mut Context<'_>) -> Poll<Option<Reply>> {
        let request = self.request.as_ref().map(|(key, _)| *key);
        if std::mem::replace(&mut self.waiting, true) {
            let mut inner = self.cell.lock();
            match request {
                Some(request) if !inner.session.is_in_flight(request) => {
                    inner.calls.take(request);
                    return Poll::Ready(None);
                }
                None if inner.session.ended().is_some() => return Poll::Ready(None),
                None | Some(_) => {}
            }
        }
        let polled = self.span.in_scope(|| poll_guarded(self.future.as_mut(), cx));
        match polled {
            Poll::Ready(result) => {
                let reply = result.unwrap_or_else(|error| self.failed(&error));
                self.replied = true;
                match &reply.0 {
                    ReplyKind::Crash(_) => trace::failed(&self.span, "app_failed"),
                    ReplyKind::Message(answer) => trace::answered(&self.span, answer),
                    ReplyKind::None if request.is_some() => trace::failed(&self.span, "no_answer"),
                    ReplyKind::None => {}
                }
                Poll::Ready(Some(reply))
            }
            Poll::Pending => {
                let Some(request) = request else {
                    let who = self.number();
                    return self.cell.lock().poll_ended_for(who, cx).map(|()| None);
                };
                let mut inner = self.cell.lock();
                if !inner.session.is_in_flight(request) {
                    inner.calls.take(request);
                    return Poll::Ready(None);
                }
                inner.calls.register(request, cx.waker());
                Poll::Pending
            }
        }
    }

    /// Tells the calls of a session apart: no two that live share the address of their future.
    fn number(&self) -> usize {
        std::ptr::from_ref(&*self.future).addr()
    }

    /// A call that panicked costs its own request, not the session.
    fn failed(&self, error: &AppError) -> Reply {
        warn!(session = %self.cell.info.fingerprint, %error, "a call failed");
        match &self.request {
            Some((_, id)) => Reply(ReplyKind::Message(error_message(id, -32603, "Internal error"))),
            None => Reply::none(),
        }
    }

    /// Hands the reply to the session.
    fn complete<'a>(
        hub: &Arc<Hub<S>>,
        cell: &'a Arc<Cell<S>>,
        request: Option<RequestKey>,
        reply: Reply,
    ) -> Option<MutexInner<'a>> {
        let now = hub.now();
        match reply.0 {
            ReplyKind::Message(raw) => {
                let request = request?;
                let mut inner = cell.lock();
                inner.calls.take(request);
                inner.session.handle_response(now, &hub.config.session, request, raw);
                Some(inner)
            }
            ReplyKind::None => {
                let request = request?;
                warn!(session = %cell.info.fingerprint, "a request was given no answer");
                let mut inner = cell.lock();
                inner.calls.take(request);
                let id = inner.session.request_id(request)?.clone();
                let error = error_message(&id, -32603, "No answer");
                inner.session.handle_response(now, &hub.config.session, request, error);
                Some(inner)
            }
            ReplyKind::Crash(error) => {
                warn!(session = %cell.info.fingerprint, %error, "the app failed");
                hub.exit(cell.info.key, sessile_core::table::TaskExit::Crashed);
                None
            }
        }
    }
}

type MutexInner<'a> = std::sync::MutexGuard<'a, Inner>;

/// A call whose head has left, or whose client has: a task of its own from now on.
impl<S> Future for Call<S> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        match this.poll_reply(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(()),
            Poll::Ready(Some(reply)) => {
                let request = this.request.as_ref().map(|(key, _)| *key);
                if let Some(inner) = Self::complete(&this.hub, &this.cell, request, reply) {
                    this.hub.settle(&this.cell, inner);
                }
                Poll::Ready(())
            }
        }
    }
}

impl<S> Unpin for Call<S> {}

impl<S> Drop for Call<S> {
    /// However the call for a notification has ended, there is room for another.
    fn drop(&mut self) {
        if !self.replied {
            trace::cancelled(&self.span);
        }
        if self.request.is_none() {
            let who = self.number();
            let mut inner = self.cell.lock();
            inner.forget(who);
            inner.session.handle_note_done(self.len);
        }
    }
}

/// Takes a notification to a handler: what it does at once is done before the 202; the rest is a task, of which the session
/// has let in only so many.
pub(super) async fn take_in<R: Runtime, S: Send + Sync + 'static>(runtime: &R, call: Call<S>) {
    let mut call = Some(call);
    std::future::poll_fn(|cx| {
        if let Some(running) = &mut call
            && Pin::new(running).poll(cx).is_ready()
        {
            call = None;
        }
        Poll::Ready(())
    })
    .await;
    if let Some(call) = call {
        runtime.spawn(call);
    }
}

/// The answer to one request. The call, if the app is called, runs in here as long as the head is held.
pub(super) struct Answer<R: Runtime, S: Send + Sync + 'static> {
    /// Dropped first: the session learns that the client has gone before the call goes on as a task.
    connection: Option<Connection<S>>,
    call: Option<Call<S>>,
    request: RequestKey,
    id: RequestId,
    initialize: bool,
    runtime: R,
    alarm: Alarm<R>,
}

impl<R: Runtime, S: Send + Sync + 'static> Answer<R, S> {
    pub(super) fn new(
        runtime: R,
        connection: Connection<S>,
        call: Option<Call<S>>,
        request: (RequestKey, RequestId),
        initialize: bool,
    ) -> Self {
        let (request, id) = request;
        Self { connection: Some(connection), call, request, id, initialize, runtime, alarm: Alarm::new() }
    }

    fn respond(&mut self, head: Head, mut connection: Connection<S>, mut inner: MutexInner<'_>) -> Response<Body> {
        let cell = Arc::clone(connection.cell());
        inner.connections.take(connection.key);
        let announced = (self.initialize && inner.session.announces_id()).then(|| cell.id.to_header());
        let mut response = match head {
            Head::Json(bytes) => {
                connection.finished = true;
                connection.hub().settle(&cell, inner);
                let modern = cell.info.kind() == Kind::Modern;
                let status = if modern { modern_status(error_code(&bytes)) } else { StatusCode::OK };
                json(status, bytes)
            }
            Head::Refuse(outcome) => {
                connection.finished = true;
                connection.hub().settle(&cell, inner);
                return outcome.respond_in(era_of(cell.info.kind()), Some(&self.id)).map(Body::whole);
            }
            Head::Stream | Head::Hold { .. } => {
                let mut first = BytesMut::new();
                let (now, config) = (connection.hub().now(), &connection.hub().config.session);
                let output = inner.session.poll_frames(now, config, connection.key, &mut first, CHUNK);
                connection.hub().settle(&cell, inner);
                let first = first.freeze();
                if connection.ends_with(output) {
                    event_stream(Body::whole(first))
                } else {
                    let alarm = std::mem::replace(&mut self.alarm, Alarm::new());
                    let reader = EventReader::new(self.runtime.clone(), connection, first, alarm);
                    event_stream(Body::events(Box::new(reader)))
                }
            }
        };
        if let Some(id) = announced {
            response.headers_mut().insert(MCP_SESSION_ID, id);
        }
        response
    }
}

/// How many bytes of events go into one write at most, but for the last event.
const CHUNK: usize = 64 << 10;

impl<R: Runtime, S: Send + Sync + 'static> Future for Answer<R, S> {
    type Output = Response<Body>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response<Body>> {
        let this = &mut *self;
        let reply = match this.call.as_mut().map(|call| call.poll_reply(cx)) {
            Some(Poll::Ready(reply)) => {
                this.call = None;
                reply
            }
            Some(Poll::Pending) | None => None,
        };
        let Some(connection) = &this.connection else {
            // Polled again after the answer, which no caller does.
            return Poll::Pending;
        };
        let (hub, cell) = (Arc::clone(connection.hub()), Arc::clone(connection.cell()));
        let completed = reply.and_then(|reply| Call::complete(&hub, &cell, Some(this.request), reply));
        let mut inner = completed.unwrap_or_else(|| cell.lock());
        loop {
            let head = inner.session.poll_head(hub.now(), &hub.config.session, connection.key);
            let Head::Hold { until } = head else {
                let Some(connection) = this.connection.take() else { return Poll::Pending };
                let response = this.respond(head, connection, inner);
                if let Some(call) = this.call.take() {
                    this.runtime.spawn(call);
                }
                return Poll::Ready(response);
            };
            inner.connections.register(connection.key, cx.waker());
            hub.settle(&cell, inner);
            let Some(until) = until else { return Poll::Pending };
            if this.alarm.poll_until(&this.runtime, until, cx).is_pending() {
                return Poll::Pending;
            }
            inner = cell.lock();
        }
    }
}

impl<R: Runtime, S: Send + Sync + 'static> Unpin for Answer<R, S> {}

impl<R: Runtime, S: Send + Sync + 'static> Drop for Answer<R, S> {
    /// The client has left before the head: up to 2025-11-25 that cancels nothing, so that the call goes on as a task.
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        let cell = Arc::clone(connection.cell());
        drop(connection);
        if let Some(call) = self.call.take()
            && cell.lock().session.is_in_flight(self.request)
        {
            self.runtime.spawn(call);
        }
    }
}

/// The events of one connection, with comments when it is silent.
struct EventReader<R: Runtime, S: Send + Sync + 'static> {
    connection: Connection<S>,
    first: Bytes,
    runtime: R,
    alarm: Alarm<R>,
    /// When the next comment is due; known once the stream has been silent.
    quiet: Option<Timestamp>,
    finished: bool,
}

impl<R: Runtime, S: Send + Sync + 'static> EventReader<R, S> {
    const fn new(runtime: R, connection: Connection<S>, first: Bytes, alarm: Alarm<R>) -> Self {
        Self { connection, first, runtime, alarm, quiet: None, finished: false }
    }
}

impl<R: Runtime, S: Send + Sync + 'static> Events for EventReader<R, S> {
    fn poll_events(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if !self.first.is_empty() {
            return Poll::Ready(Some(std::mem::take(&mut self.first)));
        }
        if self.finished {
            return Poll::Ready(None);
        }
        let hub = Arc::clone(self.connection.hub());
        let config = &hub.config.session;
        let mut frames = BytesMut::new();
        let now = hub.now();
        let mut inner = self.connection.cell().lock();
        let output = inner.session.poll_frames(now, config, self.connection.key, &mut frames, CHUNK);
        if output == ReaderOutput::Pending && frames.is_empty() {
            inner.connections.register(self.connection.key, cx.waker());
        } else {
            inner.connections.take(self.connection.key);
        }
        hub.settle(self.connection.cell(), inner);
        self.finished = self.connection.ends_with(output);
        if !frames.is_empty() {
            self.quiet = None;
            return Poll::Ready(Some(frames.freeze()));
        }
        if self.finished {
            return Poll::Ready(None);
        }
        if config.keep_alive.is_zero() {
            return Poll::Pending;
        }
        let quiet = *self.quiet.get_or_insert_with(|| self.runtime.now().saturating_add(config.keep_alive));
        if self.alarm.poll_until(&self.runtime, quiet, cx).is_pending() {
            return Poll::Pending;
        }
        self.quiet = None;
        Poll::Ready(Some(Bytes::from_static(sse::COMMENT)))
    }
}

/// Opens a stream for GET. Its head leaves at once, with a first byte; or once the store has found what its client has missed.
pub(super) async fn resume<R: Runtime, S: Send + Sync + 'static>(
    runtime: R,
    mut connection: Connection<S>,
) -> Response<Body> {
    let head = std::future::poll_fn(|cx| {
        let (hub, cell) = (connection.hub(), connection.cell());
        let mut inner = cell.lock();
        let head = inner.session.poll_head(hub.now(), &hub.config.session, connection.key);
        if matches!(head, Head::Hold { .. }) {
            inner.connections.register(connection.key, cx.waker());
        } else {
            inner.connections.take(connection.key);
        }
        hub.settle(cell, inner);
        if matches!(head, Head::Hold { .. }) { Poll::Pending } else { Poll::Ready(head) }
    })
    .await;
    if let Head::Refuse(outcome) = head {
        connection.finished = true;
        return outcome.respond(None).map(Body::whole);
    }
    event_stream(Body::events(Box::new(EventReader::new(runtime, connection, Bytes::new(), Alarm::new()))))
}

/// The one timer of a response: made on the first wait, moved afterwards.
struct Alarm<R: Runtime> {
    timer: Option<R::Timer>,
    at: Timestamp,
}

impl<R: Runtime> Alarm<R> {
    const fn new() -> Self {
        Self { timer: None, at: Timestamp::MAX }
    }

    fn poll_until(&mut self, runtime: &R, until: Timestamp, cx: &mut Context<'_>) -> Poll<()> {
        let timer = match &mut self.timer {
            Some(timer) => {
                if self.at != until {
                    timer.reset(until);
                }
                timer
            }
            none => none.insert(runtime.timer_at(until)),
        };
        self.at = until;
        let polled = Pin::new(timer).poll(cx);
        if polled.is_ready() {
            // A timer that has completed is moved before it is polled again.
            self.at = Timestamp::MAX;
        }
        polled
    }
}

fn json(status: StatusCode, bytes: Bytes) -> Response<Body> {
    let mut response = Response::new(Body::whole(bytes));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn event_stream(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    sse::set_headers(response.headers_mut());
    response
}

/// The code of an answer that is an error.
fn error_code(answer: &[u8]) -> Option<i64> {
    #[derive(serde::Deserialize)]
    struct Answer {
        error: Option<Failure>,
    }
    #[derive(serde::Deserialize)]
    struct Failure {
        code: i64,
    }
    Some(serde_json::from_slice::<Answer>(answer).ok()?.error?.code)
}

/// The era of what is served.
pub(super) const fn era_of(kind: Kind) -> Era {
    match kind {
        Kind::Modern => Era::Modern,
        Kind::Session | Kind::Stateless => Era::Legacy,
    }
}
