//! What a call of a [`Handler`](super::Handler) knows and can do.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sessile_core::session::{AnswerError, Kind, RequestKey, ServerRequestKey};
use sessile_core::{ClientCapability, Message, MessageKind, Outcome, ProtocolVersion, RequestId, Timestamp};

use super::AppError;
use crate::manager::SessionInfo;
use crate::manager::cell::Cell;
use crate::manager::hub::Hub;

/// One call: the session with its state, the request, and ways to speak to the client while it runs.
pub struct Context<S> {
    cell: Arc<Cell<S>>,
    hub: Arc<Hub<S>>,
    parts: Arc<Parts>,
    request: Option<Answering>,
}

/// The request that a call answers.
pub(crate) struct Answering {
    pub(crate) id: RequestId,
    pub(crate) key: RequestKey,
    pub(crate) token: Option<RequestId>,
}

/// What a call gives back.
#[derive(Debug)]
pub struct Reply(pub(crate) ReplyKind);

#[derive(Debug)]
pub(crate) enum ReplyKind {
    Crash(AppError),
    Message(Bytes),
    None,
}

/// Why a request to the client has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The client's own error.
    #[error("the client answered with error {code}: {message}")]
    Client {
        /// Its code.
        code: i64,
        /// Its text.
        message: String,
    },
    /// There is no answer, and none will come.
    #[error("no answer from the client: {0}")]
    Lost(&'static str),
    /// The parameters can't be written as JSON, or the answer can't be read.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl<S> Context<S> {
    pub(crate) fn new(hub: &Arc<Hub<S>>, cell: &Arc<Cell<S>>, parts: Arc<Parts>, request: Option<Answering>) -> Self {
        Self { cell: Arc::clone(cell), hub: Arc::clone(hub), parts, request }
    }

    /// What the handler keeps for this session.
    #[must_use]
    pub fn state(&self) -> &S {
        &self.cell.state
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &SessionInfo {
        &self.cell.info
    }

    /// The negotiated revision; `None` until `initialize` is answered.
    #[must_use]
    pub fn version(&self) -> Option<ProtocolVersion> {
        self.cell.version()
    }

    /// Head of the HTTP request that brought the message: headers, and the extensions that layers before the service have set.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// The result of the request that is being answered.
    #[must_use]
    pub fn result<T: Serialize + ?Sized>(&self, result: &T) -> Reply {
        let Some(request) = &self.request else { return Reply::none() };
        let mut message = Roomy(Vec::with_capacity(256));
        message.0.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
        message.0.extend_from_slice(request.id.to_json().as_bytes());
        message.0.extend_from_slice(br#","result":"#);
        match serde_json::to_writer(&mut message, result) {
            Ok(()) => {
                message.0.push(b'}');
                Reply(ReplyKind::Message(message.0.into()))
            }
            Err(error) => self.error(INTERNAL_ERROR, &format!("the result can't be written as JSON: {error}")),
        }
    }

    /// A JSON-RPC error for the request that is being answered.
    #[must_use]
    pub fn error(&self, code: i32, text: &str) -> Reply {
        let Some(request) = &self.request else { return Reply::none() };
        Reply(ReplyKind::Message(error_message(&request.id, code, text)))
    }

    /// The same with `data`, for those who want to know more. Data that can't be written as JSON is left out.
    #[must_use]
    pub fn error_with<T: Serialize + ?Sized>(&self, code: i32, text: &str, data: &T) -> Reply {
        let Some(request) = &self.request else { return Reply::none() };
        let data = serde_json::value::to_raw_value(data).ok();
        Reply(ReplyKind::Message(error_message_with(&request.id, code, text, data.as_deref())))
    }

    /// Refuses the request that is being answered, since its client has not declared what serving it takes.
    ///
    /// In the modern era the client learns which capabilities those are and that it may try again with them: code -32021 and status
    /// 400 (2026-07-28, basic, `_meta`). Where there are sessions, capabilities are settled by `initialize`, and the code is not
    /// known: it is a plain error, -32600.
    ///
    /// ```
    /// use sessile::app::{Context, Reply};
    /// use sessile::core::ClientCapability;
    ///
    /// fn refuse(context: &Context<()>) -> Reply {
    ///     context.capability_missing(&[ClientCapability::ElicitationForm])
    /// }
    /// ```
    #[must_use]
    pub fn capability_missing(&self, required: &[ClientCapability]) -> Reply {
        let Some(request) = &self.request else { return Reply::none() };
        let outcome = Outcome::CapabilityMissing { required: required.to_vec() };
        match self.cell.info.kind() {
            Kind::Modern => Reply(ReplyKind::Message(outcome.to_message(&request.id))),
            Kind::Session | Kind::Stateless => self.error(INVALID_REQUEST, &outcome.message()),
        }
    }

    /// Sends a notification that belongs to this request; it arrives before the answer.
    pub fn notify<T: Serialize + ?Sized>(&self, method: &str, params: &T) {
        self.push_note(method, params, self.request.as_ref().map(|request| request.key));
    }

    /// Sends a notification that belongs to no request, on the standalone stream.
    pub fn notify_session<T: Serialize + ?Sized>(&self, method: &str, params: &T) {
        self.push_note(method, params, None);
    }

    /// Whether the client wants to hear of progress.
    #[must_use]
    pub fn wants_progress(&self) -> bool {
        self.request.as_ref().is_some_and(|request| request.token.is_some())
    }

    /// Tells how far the request has come, if the client wants to hear of it. `progress` must grow from one to the next.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Progress<'a> {
            progress_token: &'a RawValue,
            progress: f64,
            #[serde(skip_serializing_if = "Option::is_none")]
            total: Option<f64>,
            #[serde(skip_serializing_if = "Option::is_none")]
            message: Option<&'a str>,
        }
        let token = self.request.as_ref().and_then(|request| request.token.as_ref());
        let token = token.and_then(|token| RawValue::from_string(token.to_json()).ok());
        if let Some(progress_token) = &token {
            self.notify("notifications/progress", &Progress { progress_token, progress, total, message });
        }
    }

    /// Asks the client something that belongs to this request (sampling, elicitation, roots) and waits for its result.
    ///
    /// # Errors
    ///
    /// The client's error; or at once, or after a time, that it can't be reached.
    pub async fn request<T: Serialize + ?Sized>(
        &self,
        method: &str,
        params: &T,
    ) -> Result<Box<RawValue>, RequestError> {
        let Some(request) = &self.request else {
            return Err(RequestError::Lost("only a request can ask the client"));
        };
        let key = self.ask(request.key, method, &serde_json::to_string(params)?).map_err(lost)?;
        let asked = Asked { context: self, key };
        let answer = poll_fn(|cx| {
            let mut inner = self.cell.lock();
            match inner.session.poll_answer(asked.key) {
                Some(answer) => Poll::Ready(answer),
                None => {
                    inner.answers.register(asked.key, cx.waker());
                    Poll::Pending
                }
            }
        })
        .await;
        read_answer(&answer.map_err(lost)?)
    }

    /// Ends the connection that this request is answered over, so that the client comes back for the rest after `retry` (SEP-1699); what
    /// the call says meanwhile waits for it. For calls that take long and say little.
    ///
    /// `false`, and nothing changes, if the client can't come back: resumption is off, the client is of a revision before
    /// 2025-11-25, it takes one JSON body, or the request is over.
    #[must_use]
    pub fn close_stream(&self, retry: Option<Duration>) -> bool {
        let Some(request) = &self.request else { return false };
        let mut inner = self.cell.lock();
        let closed = inner.session.close_stream(&self.hub.config.session, request.key, retry);
        self.hub.settle(&self.cell, inner);
        closed
    }

    /// Ends the connections that wait for messages which belong to no request, so that the client comes back after `retry`. `false` as
    /// with [`Context::close_stream`].
    #[must_use]
    pub fn close_standalone_stream(&self, retry: Option<Duration>) -> bool {
        let mut inner = self.cell.lock();
        let closed = inner.session.close_standalone_stream(&self.hub.config.session, retry);
        self.hub.settle(&self.cell, inner);
        closed
    }

    /// Waits on the clock of the runtime that the manager was built with.
    pub async fn sleep(&self, duration: Duration) {
        self.hub.clock.sleep_until(self.hub.now().saturating_add(duration)).await;
    }

    /// The time on that clock.
    pub(crate) fn now(&self) -> Timestamp {
        self.hub.now()
    }

    fn ask(&self, related: RequestKey, method: &str, params: &str) -> Result<ServerRequestKey, AnswerError> {
        let now = self.hub.now();
        let mut inner = self.cell.lock();
        let asked = inner.session.request_client(now, &self.hub.config.session, related, method, params);
        self.hub.settle(&self.cell, inner);
        asked
    }

    fn push_note<T: Serialize + ?Sized>(&self, method: &str, params: &T, related: Option<RequestKey>) {
        #[derive(Serialize)]
        struct Note<'a, T: ?Sized> {
            jsonrpc: &'static str,
            method: &'a str,
            params: &'a T,
        }
        let Ok(raw) = serde_json::to_vec(&Note { jsonrpc: "2.0", method, params }) else {
            tracing::warn!(session = %self.cell.info.fingerprint, method, "a notification can't be written as JSON");
            return;
        };
        let now = self.hub.now();
        let mut inner = self.cell.lock();
        inner.session.push_call_note(now, &self.hub.config.session, raw.into(), related);
        self.hub.settle(&self.cell, inner);
    }
}

impl<S> fmt::Debug for Context<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("session", &self.cell.info).finish_non_exhaustive()
    }
}

/// A request to the client that somebody waits for; when they stop waiting it is forgotten.
struct Asked<'a, S> {
    context: &'a Context<S>,
    key: ServerRequestKey,
}

impl<S> Drop for Asked<'_, S> {
    fn drop(&mut self) {
        let mut inner = self.context.cell.lock();
        inner.answers.take(self.key);
        inner.session.forget_request(self.key);
        self.context.hub.settle(&self.context.cell, inner);
    }
}

const INTERNAL_ERROR: i32 = -32603;
const INVALID_REQUEST: i32 = -32600;

/// A buffer that grows by more than what it is given, so that the brackets behind a long text don't double it.
struct Roomy(Vec<u8>);

impl std::io::Write for Roomy {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    fn write_all(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        if self.0.capacity() - self.0.len() < bytes.len() {
            self.0.reserve(bytes.len() + 256);
        }
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

pub(crate) fn error_message(id: &RequestId, code: i32, text: &str) -> Bytes {
    error_message_with(id, code, text, None)
}

fn error_message_with(id: &RequestId, code: i32, text: &str, data: Option<&RawValue>) -> Bytes {
    #[derive(Serialize)]
    struct Failure<'a> {
        code: i32,
        message: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        data: Option<&'a RawValue>,
    }
    // Members that are plain, or JSON already, always serialize.
    let error = serde_json::to_string(&Failure { code, message: text, data }).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","id":{},"error":{error}}}"#, id.to_json()).into()
}

fn lost(error: AnswerError) -> RequestError {
    RequestError::Lost(error.as_str())
}

fn read_answer(message: &Message) -> Result<Box<RawValue>, RequestError> {
    #[derive(Deserialize)]
    struct Answer {
        result: Option<Box<RawValue>>,
        error: Option<Failure>,
    }
    #[derive(Deserialize)]
    struct Failure {
        #[serde(default)]
        code: i64,
        #[serde(default)]
        message: String,
    }
    debug_assert!(matches!(message.kind(), MessageKind::Response(_)));
    let answer: Answer = serde_json::from_slice(message.raw())?;
    match (answer.result, answer.error) {
        (_, Some(Failure { code, message })) => Err(RequestError::Client { code, message }),
        (Some(result), None) => Ok(result),
        (None, None) => Ok(RawValue::NULL.to_owned()),
    }
}

impl Reply {
    /// No answer, for notifications.
    #[must_use]
    pub const fn none() -> Self {
        Self(ReplyKind::None)
    }

    /// The server can't go on: the session ends, and every open request of it gets an error.
    #[must_use]
    pub const fn crash(error: AppError) -> Self {
        Self(ReplyKind::Crash(error))
    }
}
