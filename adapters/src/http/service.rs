//! The service: HTTP requests in, answers out, in the fixed order of the gate.
//!
//! Owns the order of look-up, body and delivery. Every refusal is the core's.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context as TaskContext, Poll};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, COOKIE, PROXY_AUTHORIZATION};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, Version};
use sessile_core::config::ResponseMode;
use sessile_core::session::{BatchAction, BatchCall, Delivery, Inbound, Kind, MessageAction, RequestKey};
use sessile_core::table::CloseReason;
use sessile_core::{
    BodyAction, Era, GetHead, HeadAction, LAST_EVENT_ID, LastEventId, MCP_SESSION_ID, Message, ModernRequest, Outcome,
    PostHead, ProtocolVersion,
};

use tracing::Span;

use super::authenticate::{Authenticate, CredentialsError};
use super::body::Body;
use super::exchange::{Answer, Call, Connection, era_of, resume, take_in};
use super::read::{ReadError, discard, read_body};
use super::tools;
use crate::app::sealed::Sealed;
use crate::app::{Answering, Backend, Context, Half, poll_guarded};
use crate::manager::Shared;
use crate::manager::cell::Cell;
use crate::manager::hooks::Word;
use crate::manager::hub::{Hub, Ticket};
use crate::principal::Principal;
use crate::runtime::Runtime;
use crate::trace;

/// Answers the HTTP requests of one endpoint. Cheap to clone.
///
/// It is a [`tower_service::Service`] and, with the feature `hyper`, hyper's own; both are always ready and never fail. By
/// default it answers on every path, for routers that have chosen it by path already.
///
/// Who asks is what [`McpService::authenticate`] was given to find out; without it, a layer before the service may put a
/// [`Principal`] into the request's extensions, and a request without one is anonymous.
pub struct McpService<R: Runtime, B: Backend> {
    shared: Arc<Shared<R, B>>,
    authenticate: Option<Arc<dyn Authenticate>>,
    path: Option<Arc<str>>,
}

/// The answer to one request, on its way. Dropping it means that the client has gone.
pub struct ResponseFuture(Pin<Box<dyn Future<Output = Response<Body>> + Send>>);

type State<B> = <B as Sealed>::State;

impl<R: Runtime, B: Backend> McpService<R, B> {
    pub(crate) const fn new(shared: Arc<Shared<R, B>>) -> Self {
        Self { shared, authenticate: None, path: None }
    }

    /// Answers on this path alone, with or without a slash at its end; others are a plain 404, never a redirect.
    #[must_use]
    pub fn path(mut self, path: &str) -> Self {
        self.path = Some(path.trim_end_matches('/').into());
        self
    }

    /// Verifies the credentials of every request, after its method, `Host` and `Origin` and before all else: whoever has none
    /// gets 401, whatever session is named, and costs neither a session nor a child.
    ///
    /// It decides alone: a [`Principal`] in the extensions no longer counts. An `Authorization` header that it has seen goes no
    /// further, since an app that is not its audience must not have it.
    #[must_use]
    pub fn authenticate(mut self, authenticate: impl Authenticate) -> Self {
        self.authenticate = Some(Arc::new(authenticate));
        self
    }

    /// Answers one request.
    pub fn handle<Q>(&self, request: Request<Q>) -> ResponseFuture
    where
        Q: http_body::Body + Send + 'static,
        Q::Data: Send,
    {
        let (parts, body) = request.into_parts();
        let elsewhere = self.path.as_deref().is_some_and(|path| parts.uri.path().trim_end_matches('/') != path);
        let shared = Arc::clone(&self.shared);
        let hub = Arc::clone(&self.shared.hub);
        let authenticate = self.authenticate.clone();
        ResponseFuture(Box::pin(async move {
            // Every answer has these, so that the script of a page that may ask learns why it was refused.
            let cors = shared.gate.cors(&parts);
            let mut response = if elsewhere {
                Outcome::NotTheEndpoint.respond(None).map(Body::whole)
            } else {
                answer(shared, authenticate, parts, body).await
            };
            hub.totals.refuse(response.status());
            if let Some(cors) = cors {
                cors.apply(response.headers_mut());
            }
            response
        }))
    }
}

/// Headers whose values open doors: credentials, and what names a session or an event.
const SECRET: [HeaderName; 5] = [AUTHORIZATION, COOKIE, LAST_EVENT_ID, MCP_SESSION_ID, PROXY_AUTHORIZATION];

async fn answer<R: Runtime, B: Backend, Q: http_body::Body + Send>(
    shared: Arc<Shared<R, B>>,
    authenticate: Option<Arc<dyn Authenticate>>,
    mut parts: Parts,
    body: Q,
) -> Response<Body> {
    // Whoever prints the head from here on does not print a secret.
    for (_, value) in parts.headers.iter_mut().filter(|(name, _)| SECRET.contains(name)) {
        value.set_sensitive(true);
    }
    let hub = &shared.hub;
    let mut principal = Principal::ANONYMOUS;
    let action = shared.gate.head_with_credentials(shared.served(shared.backend.known_eras()), &parts, || {
        principal = match &authenticate {
            Some(authenticate) => authenticate.authenticate(&parts).map_err(CredentialsError::outcome)?,
            None => parts.extensions.get::<Principal>().cloned().unwrap_or_default(),
        };
        Ok(())
    });
    if authenticate.is_some() {
        parts.headers.remove(AUTHORIZATION);
    }
    match action {
        HeadAction::Answer { era, outcome } => refuse_unread(&shared, &parts, body, era, &outcome).await,
        HeadAction::Delete(id) => match hub.route(id, &principal) {
            Err(rejection) => rejection.outcome().respond(None).map(Body::whole),
            Ok((ticket, _)) => {
                hub.close(ticket.cell.info.key, CloseReason::Deleted);
                Outcome::Deleted.respond(None).map(Body::whole)
            }
        },
        HeadAction::Get(get) => match hub.route(get.session, &principal) {
            Err(rejection) => rejection.outcome().respond(None).map(Body::whole),
            Ok((ticket, _)) => open_stream(&shared, ticket, &get).await,
        },
        HeadAction::Post(post) => {
            let live = match post.look_up() {
                None => None,
                Some(id) => match hub.route(id, &principal) {
                    Ok(live) => Some(live),
                    Err(rejection) => {
                        return refuse_unread(&shared, &parts, body, Era::Legacy, &rejection.outcome()).await;
                    }
                },
            };
            let bytes = match read_body(&shared.runtime, body, shared.gate.max_body(), shared.gate.body_timeout()).await
            {
                Ok(bytes) => bytes,
                Err(ReadError::Refused(outcome)) => {
                    return with_close(&parts, outcome.respond_in(post.era, None).map(Body::whole));
                }
                // Nobody is there to read it.
                Err(ReadError::Gone) => return Outcome::NotJson.respond(None).map(Body::whole),
            };
            let version = live.as_ref().map(|(_, version)| *version);
            let ticket = live.map(|(ticket, _)| ticket);
            match look_at(&shared, &parts, &post, version, bytes).await {
                BodyAction::Answer { era, outcome, id } => outcome.respond_in(era, id.as_ref()).map(Body::whole),
                BodyAction::Batch(messages) => match ticket {
                    Some(ticket) => deliver_batch(&shared, post.mode, ticket, &Arc::new(parts), messages).await,
                    None => Outcome::SessionNotFound.respond(None).map(Body::whole),
                },
                BodyAction::Create(message) => {
                    let open = Open { hub, kind: Kind::Session, mode: post.mode, ours: false };
                    open.serve(&shared, parts, &principal, message).await
                }
                BodyAction::Deliver(message) => match ticket {
                    Some(ticket) => deliver(&shared, post.mode, ticket, Arc::new(parts), message, |_| ()).await,
                    None => Outcome::SessionNotFound.respond(None).map(Body::whole),
                },
                BodyAction::Stateless(message) => {
                    let open = Open { hub: &shared.requests, kind: Kind::Stateless, mode: post.mode, ours: false };
                    open.serve(&shared, parts, &principal, message).await
                }
                BodyAction::Sessionless(ModernRequest { message, mode, .. }) => {
                    if let Err(outcome) = tools::check(&shared, &parts, &principal, &message).await {
                        let id = message.as_request().map(|request| &request.id);
                        return outcome.respond_in(Era::Modern, id).map(Body::whole);
                    }
                    let hub = if message.as_request().is_some_and(sessile_core::Request::is_subscription) {
                        &shared.subscriptions
                    } else {
                        &shared.requests
                    };
                    let open = Open { hub, kind: Kind::Modern, mode, ours: false };
                    open.serve(&shared, parts, &principal, message).await
                }
            }
        }
    }
}

/// The gate's look at a body. Whether an app speaks the modern era may have to be found out first, and only a request of that era waits
/// for it.
async fn look_at<R: Runtime, B: Backend>(
    shared: &Shared<R, B>,
    parts: &Parts,
    post: &PostHead,
    live: Option<Option<ProtocolVersion>>,
    body: Bytes,
) -> BodyAction {
    let look = |served, body| shared.gate.body(served, &parts.headers, post, live, body);
    let known = shared.backend.known_eras();
    if known.is_some() || !shared.eras.modern {
        return look(shared.served(known), body);
    }
    match look(shared.served(None), body.clone()) {
        BodyAction::Answer { era: Era::Modern, .. } | BodyAction::Sessionless(_) => {
            let eras = shared.backend.eras().await;
            look(shared.served(Some(eras)), body)
        }
        action @ (BodyAction::Answer { .. }
        | BodyAction::Batch(_)
        | BodyAction::Create(_)
        | BodyAction::Deliver(_)
        | BodyAction::Stateless(_)) => action,
    }
}

/// A refusal before the body was read. Clients that are still writing it must get to read the answer, so the body is read and
/// thrown away; a connection that would carry too much of it is closed.
async fn refuse_unread<R: Runtime, B: Backend, Q: http_body::Body>(
    shared: &Shared<R, B>,
    parts: &Parts,
    body: Q,
    era: Era,
    outcome: &Outcome,
) -> Response<Body> {
    let gate = &shared.gate;
    let response = outcome.respond_in(era, None).map(Body::whole);
    if body.is_end_stream() || gate.may_drain(parts) && discard(&shared.runtime, body, gate.max_body()).await {
        response
    } else {
        with_close(parts, response)
    }
}

fn with_close(parts: &Parts, mut response: Response<Body>) -> Response<Body> {
    // Later versions of HTTP have no such header.
    if parts.version <= Version::HTTP_11 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

async fn open_stream<R: Runtime, B: Backend>(
    shared: &Shared<R, B>,
    ticket: Ticket<State<B>>,
    get: &GetHead,
) -> Response<Body> {
    let position = match get.last_event_id {
        None => None,
        Some(LastEventId::Position(id)) => Some(id),
        Some(LastEventId::Unreadable) => return Outcome::NotResumable.respond(None).map(Body::whole),
    };
    let opened = {
        let mut inner = ticket.cell.lock();
        let opened = inner.session.open_get(shared.hub.now(), &shared.hub.config.session, position);
        shared.hub.settle(&ticket.cell, inner);
        opened
    };
    match opened {
        Ok(key) => resume(shared.runtime.clone(), Connection::new(ticket, key)).await,
        Err(outcome) => outcome.respond(None).map(Body::whole),
    }
}

/// What a message opens: a session, or what stands for one while it is served.
pub(super) struct Open<'a, S> {
    pub(super) hub: &'a Arc<Hub<S>>,
    pub(super) kind: Kind,
    pub(super) mode: ResponseMode,
    /// Whether it is we who ask, and no client.
    pub(super) ours: bool,
}

impl<S: Send + Sync + 'static> Open<'_, S> {
    /// The session exists before its app hears of it.
    pub(super) async fn serve<R: Runtime, B: Backend + Sealed<State = S>>(
        self,
        shared: &Arc<Shared<R, B>>,
        parts: Parts,
        principal: &Principal,
        message: Message,
    ) -> Response<Body> {
        let delivery = <B as Sealed>::DELIVERY;
        let ticket = match self.hub.create(principal, self.kind, delivery, |info| shared.backend.open(info)) {
            Ok(ticket) => ticket,
            Err(outcome) => {
                let id = message.as_request().map(|request| &request.id);
                return outcome.respond_in(era_of(self.kind), id).map(Body::whole);
            }
        };
        if self.ours {
            ticket.cell.lock().is_ours();
        }
        if self.kind == Kind::Session {
            self.hub.hooks.introduce(&ticket.cell, &message);
        }
        let start = |ticket: &Ticket<S>| {
            if delivery == Delivery::Inbox {
                run_app(shared, ticket);
            }
        };
        deliver(shared, self.mode, ticket, Arc::new(parts), message, start).await
    }
}

/// Starts the app of a session. However it ends, the session ends with it.
fn run_app<R: Runtime, B: Backend>(shared: &Arc<Shared<R, B>>, ticket: &Ticket<State<B>>) {
    let half = Half { cell: Arc::clone(&ticket.cell), hub: Arc::clone(&ticket.hub) };
    let Some(mut run) = shared.backend.run(half.clone()) else { return };
    ticket.hub.task_started();
    let mut ending = Ending(Some(half));
    shared.runtime.spawn(async move {
        let result = std::future::poll_fn(|cx| poll_guarded(run.as_mut(), cx)).await;
        // What the app holds goes before anybody hears that it has ended.
        drop(run);
        ending.end(result.and_then(std::convert::identity));
    });
}

/// Ends the session when its app's task ends, also when the runtime drops the task.
struct Ending<S>(Option<Half<S>>);

impl<S> Ending<S> {
    fn end(&mut self, result: Result<(), crate::app::AppError>) {
        if let Some(Half { cell, hub }) = self.0.take() {
            hub.task_ended(&cell, result);
        }
    }
}

impl<S> Drop for Ending<S> {
    fn drop(&mut self) {
        self.end(Ok(()));
    }
}

/// Hands a message to its session and answers the exchange. `start` is called in between: an app that fails at once must find what
/// its failure is the answer to.
async fn deliver<R: Runtime, B: Backend>(
    shared: &Arc<Shared<R, B>>,
    mode: ResponseMode,
    ticket: Ticket<State<B>>,
    parts: Arc<Parts>,
    message: Message,
    start: impl FnOnce(&Ticket<State<B>>),
) -> Response<Body> {
    let hub = &Arc::clone(&ticket.hub);
    let cell = Arc::clone(&ticket.cell);
    let era = era_of(cell.info.kind);
    let asked = message.as_request().map(|request| {
        let answering = (request.id.clone(), request.progress_token.clone());
        (answering, request.initialize.is_some())
    });
    let word = Word::of(&message);
    let mut span = trace::begin(&cell, &message, &parts);
    let action = {
        let now = hub.now();
        let mut inner = cell.lock();
        let action = inner.session.handle_message(now, &hub.config.session, message, parts, mode);
        if !matches!(action, MessageAction::Refuse { .. }) {
            inner.told.hear(word);
        }
        if let MessageAction::Open { call: None, request, .. } = &action {
            inner.spans.put(*request, std::mem::replace(&mut span, Span::none()));
        }
        hub.settle(&cell, inner);
        action
    };
    start(&ticket);
    match (action, asked) {
        (MessageAction::Refuse { id, outcome }, _) => {
            trace::refused(&span, &outcome);
            outcome.respond_in(era, id.as_ref()).map(Body::whole)
        }
        (MessageAction::Open { call: inbound, connection, request }, Some(((id, token), initialize))) => {
            let connection = Connection::new(ticket, connection);
            let answering = Answering { id: id.clone(), key: request, token };
            let call = inbound.and_then(|inbound| call(shared, hub, &cell, inbound, Some(answering), span));
            Answer::new(shared.runtime.clone(), connection, call, (request, id), initialize).await
        }
        (MessageAction::Accepted { call: inbound }, _) => {
            if let Some(call) = inbound.and_then(|inbound| call(shared, hub, &cell, inbound, None, span)) {
                take_in(&shared.runtime, call).await;
            }
            Outcome::Accepted.respond(None).map(Body::whole)
        }
        // Only a request opens a stream.
        (MessageAction::Open { .. }, None) => {
            Outcome::NotOneMessage { why: "no request" }.respond(None).map(Body::whole)
        }
    }
}

/// Hands a batch to its session and answers the exchange. Calls begin in the order of the batch, and go on as tasks.
async fn deliver_batch<R: Runtime, B: Backend>(
    shared: &Arc<Shared<R, B>>,
    mode: ResponseMode,
    ticket: Ticket<State<B>>,
    parts: &Arc<Parts>,
    messages: Vec<Message>,
) -> Response<Body> {
    let hub = &Arc::clone(&ticket.hub);
    let cell = Arc::clone(&ticket.cell);
    let first = messages.iter().find_map(Message::as_request).map(|request| request.id.clone());
    let action = {
        let now = hub.now();
        let mut inner = cell.lock();
        let action = inner.session.handle_batch(now, &hub.config.session, messages, parts, mode);
        hub.settle(&cell, inner);
        action
    };
    let (calls, opened) = match action {
        BatchAction::Refuse(outcome) => return outcome.respond(None).map(Body::whole),
        BatchAction::Accepted { calls } => (calls, None),
        BatchAction::Open { calls, connection, request } => {
            (calls, first.map(|id| (Connection::new(ticket, connection), (request, id))))
        }
    };
    for BatchCall { inbound, request } in calls {
        let answering = request.zip(inbound.message.as_request());
        let answering = answering.map(|(key, request)| Answering {
            id: request.id.clone(),
            key,
            token: request.progress_token.clone(),
        });
        let span = trace::begin(&cell, &inbound.message, parts);
        if let Some(call) = call(shared, hub, &cell, inbound, answering, span) {
            take_in(&shared.runtime, call).await;
        }
    }
    match opened {
        Some((connection, request)) => Answer::new(shared.runtime.clone(), connection, None, request, false).await,
        None => Outcome::Accepted.respond(None).map(Body::whole),
    }
}

/// The call of an app that is called, for one message.
fn call<R: Runtime, B: Backend>(
    shared: &Shared<R, B>,
    hub: &Arc<Hub<State<B>>>,
    cell: &Arc<Cell<State<B>>>,
    inbound: Inbound<Arc<Parts>>,
    answering: Option<Answering>,
    span: Span,
) -> Option<Call<State<B>>> {
    let request: Option<(RequestKey, _)> = answering.as_ref().map(|request| (request.key, request.id.clone()));
    let len = inbound.message.raw().len();
    let context = Context::new(hub, cell, inbound.context?, answering);
    let future = shared.backend.call(context, inbound.message)?;
    Some(Call::new(future, Arc::clone(hub), Arc::clone(cell), request, len, span))
}

impl<R: Runtime, B: Backend, Q> tower_service::Service<Request<Q>> for McpService<R, B>
where
    Q: http_body::Body + Send + 'static,
    Q::Data: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> ResponseFuture {
        self.handle(request)
    }
}

#[cfg(feature = "hyper")]
impl<R: Runtime, B: Backend, Q> hyper::service::Service<Request<Q>> for McpService<R, B>
where
    Q: http_body::Body + Send + 'static,
    Q::Data: Send,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ResponseFuture;

    fn call(&self, request: Request<Q>) -> ResponseFuture {
        self.handle(request)
    }
}

impl Future for ResponseFuture {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(cx).map(Ok)
    }
}

impl fmt::Debug for ResponseFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture")
    }
}

impl<R: Runtime, B: Backend> Clone for McpService<R, B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), authenticate: self.authenticate.clone(), path: self.path.clone() }
    }
}

impl<R: Runtime, B: Backend> fmt::Debug for McpService<R, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpService").field("path", &self.path).finish_non_exhaustive()
    }
}
