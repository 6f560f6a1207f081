//! The transport that rmcp serves over: our link, with rmcp's types at one end and the bytes of messages at the other.
//!
//! Owns the translation of one message either way and nothing else: no queue, no task, no state beyond the message that
//! a conversation began with.

use std::borrow::Cow;
use std::future::{Future, ready};
use std::sync::Arc;

use http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, ClientRequest, ErrorData, Extensions, GetExtensions, JsonRpcMessage,
    JsonRpcNotification, JsonRpcRequest, NumberOrString, ServerJsonRpcMessage,
};
use rmcp::service::OriginatingRequestId;
use rmcp::transport::Transport;
use sessile_core::{Message, MessageError, MessageKind, RequestId};
use tokio_util::sync::CancellationToken;

use crate::app::{AppLink, Inbound, Receiver, SendError, Sender, error_message};

/// A link, as rmcp wants it.
pub(super) struct LinkTransport {
    receiver: Receiver,
    sender: Sender,
    /// What was received already.
    first: Option<ClientJsonRpcMessage>,
    /// Cancelled when the link has ended, so that running handlers learn of it at once.
    ended: CancellationToken,
}

/// Why a message of the handler did not reach its session.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error(transparent)]
    Ended(#[from] SendError),
    #[error("it can't be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("it is not a message: {0:?}")]
    Message(MessageError),
}

impl LinkTransport {
    pub(super) fn new(link: AppLink, ended: CancellationToken) -> Self {
        let (receiver, sender) = link.split();
        Self { receiver, sender, first: None, ended }
    }

    /// Receives what the conversation begins with, and keeps it for rmcp. `None`: the link ended before that.
    pub(super) async fn first(&mut self) -> Option<&ClientJsonRpcMessage> {
        let first = self.receive().await?;
        Some(self.first.insert(first))
    }

    /// What rmcp can read of a message. A request that it can't is answered here, and who waits for a response learns that none
    /// will come: nobody is left waiting.
    fn read(&self, Inbound { message, parts }: Inbound) -> Option<ClientJsonRpcMessage> {
        let raw = message.raw();
        let read = match message.kind() {
            MessageKind::Request(_) => serde_json::from_slice(raw).map(|mut read: JsonRpcRequest<ClientRequest>| {
                self.attach(read.request.extensions_mut(), parts);
                JsonRpcMessage::Request(read)
            }),
            MessageKind::Notification(_) => {
                serde_json::from_slice(raw).map(|mut read: JsonRpcNotification<ClientNotification>| {
                    self.attach(read.notification.extensions_mut(), parts);
                    JsonRpcMessage::Notification(read)
                })
            }
            MessageKind::Response(response) if response.is_error => {
                serde_json::from_slice(raw).map(JsonRpcMessage::Error)
            }
            MessageKind::Response(_) => serde_json::from_slice(raw).map(JsonRpcMessage::Response),
        };
        let error = match read {
            Ok(read) => return Some(read),
            Err(error) => error,
        };
        // The error's text may hold what the client has said, which is for nobody's log.
        let session = self.sender.session().fingerprint();
        tracing::debug!(%session, at = error.column(), "a message of the client can't be read");
        match message.kind() {
            MessageKind::Request(request) => {
                answer(&self.sender, &request.id, INVALID_PARAMS, &format!("Invalid params: {error}"));
                None
            }
            MessageKind::Notification(_) => None,
            MessageKind::Response(response) => {
                let error = ErrorData::internal_error(format!("the client's answer can't be read: {error}"), None);
                Some(JsonRpcMessage::error(error, response.id.as_ref().map(theirs)))
            }
        }
    }

    /// What handlers find in the extensions of a request or a notification.
    fn attach(&self, extensions: &mut Extensions, parts: Option<Arc<Parts>>) {
        let session = self.sender.session();
        if let Some(parts) = parts {
            extensions.insert(Arc::unwrap_or_clone(parts));
        }
        extensions.insert(session.principal().clone());
        extensions.insert(session.clone());
    }

    fn write(&self, message: &ServerJsonRpcMessage) -> Result<(), LinkError> {
        let related = match message {
            JsonRpcMessage::Request(request) => originating(request.request.extensions()),
            JsonRpcMessage::Notification(note) => originating(note.notification.extensions()),
            JsonRpcMessage::Error(_) | JsonRpcMessage::Response(_) => None,
        };
        let message = Message::parse(serde_json::to_vec(message)?.into()).map_err(LinkError::Message)?;
        match related {
            Some(request) => self.sender.send_related(message, &request)?,
            None => self.sender.send(message)?,
        }
        Ok(())
    }
}

impl Transport<RoleServer> for LinkTransport {
    type Error = LinkError;

    fn name() -> Cow<'static, str> {
        "sessile".into()
    }

    /// Done when it returns: the session takes a message at once.
    fn send(&mut self, message: ServerJsonRpcMessage) -> impl Future<Output = Result<(), LinkError>> + Send + 'static {
        let sent = self.write(&message);
        if let (Err(LinkError::Json(_) | LinkError::Message(_)), JsonRpcMessage::Response(response)) = (&sent, &message)
        {
            answer(&self.sender, &ours(&response.id), INTERNAL_ERROR, "the result can't be written as JSON");
        }
        ready(sent)
    }

    /// Cancel-safe, as rmcp needs it: nothing is awaited once a message has been taken.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        while let Some(inbound) = self.receiver.recv().await {
            if let Some(message) = self.read(inbound) {
                return Some(message);
            }
        }
        self.ended.cancel();
        None
    }

    async fn close(&mut self) -> Result<(), LinkError> {
        Ok(())
    }
}

const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;

/// Answers a request in place of the handler. In vain if the session has ended, which has answered it.
fn answer(sender: &Sender, request: &RequestId, code: i32, text: &str) {
    if let Ok(message) = Message::parse(error_message(request, code, text)) {
        let _ = sender.send(message);
    }
}

/// The request of the client that a message was sent from, where rmcp or the handler has noted it.
fn originating(extensions: &Extensions) -> Option<RequestId> {
    extensions.get::<OriginatingRequestId>().map(|OriginatingRequestId(id)| ours(id))
}

fn ours(id: &NumberOrString) -> RequestId {
    match id {
        NumberOrString::Number(number) => RequestId::Number(*number),
        NumberOrString::String(text) => RequestId::String((**text).into()),
    }
}

fn theirs(id: &RequestId) -> NumberOrString {
    match id {
        RequestId::Number(number) => NumberOrString::Number(*number),
        RequestId::String(text) => NumberOrString::String((**text).into()),
    }
}
