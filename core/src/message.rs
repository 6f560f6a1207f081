//! JSON-RPC messages: kept as the bytes they arrived in, looked at once.
//!
//! Owns the envelope (JSON-RPC 2.0, section 4 and 5, as MCP narrows it): which kind of message it is, its id, its method, and
//! the few members that routing needs. Does not own what may be done with a message, and never builds a
//! tree or rewrites a byte.

mod params;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

pub(crate) use params::Name;
use params::{Params, object, present};

use crate::id::RequestId;

/// A JSON-RPC message with what the envelope says about it.
#[derive(Clone)]
pub struct Message {
    raw: Bytes,
    kind: MessageKind,
}

/// What kind of message it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// A notification: a method without an id.
    Notification(Notification),
    /// A request: a method with an id.
    Request(Request),
    /// A response: a result or an error.
    Response(Response),
}

/// The envelope of a notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The method, unescaped.
    pub method: Cow<'static, str>,
    /// `params.progressToken`, if it is a string or an integer.
    pub progress_token: Option<RequestId>,
    /// `params.requestId`, if it is a string or an integer: what a cancellation names.
    pub request_id: Option<RequestId>,
    /// `params._meta["io.modelcontextprotocol/protocolVersion"]`, as in [`Modern::version`].
    pub modern_version: Option<Box<str>>,
    /// `params._meta["io.modelcontextprotocol/subscriptionId"]`, if it is a string or an integer: the request whose stream
    /// asked for it (2026-07-28, basic, patterns, subscriptions).
    pub subscription_id: Option<RequestId>,
}

/// The envelope of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The id, with its JSON type.
    pub id: RequestId,
    /// The method, unescaped.
    pub method: Cow<'static, str>,
    /// `params._meta.progressToken`, if it is a string or an integer.
    pub progress_token: Option<RequestId>,
    /// For `initialize` alone: what is needed of its parameters.
    pub initialize: Option<Initialize>,
    /// For a request that bears the mark of the modern era alone: what it says of itself.
    pub modern: Option<Box<Modern>>,
    /// For `resources/subscribe` and `resources/unsubscribe` alone: `params.uri`, if it is a string.
    pub resource: Option<Box<str>>,
}

impl Request {
    /// Whether it opens a subscription, which has no answer until somebody ends it (2026-07-28, subscriptions).
    #[must_use]
    pub fn is_subscription(&self) -> bool {
        self.method == "subscriptions/listen"
    }
}

/// What a request of the modern era says of itself (2026-07-28, basic, `_meta`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Modern {
    /// Whether `params._meta["io.modelcontextprotocol/clientCapabilities"]` is an object.
    pub has_capabilities: bool,
    /// What the header `Mcp-Name` has to repeat: `params.name` of `tools/call` and `prompts/get`, `params.uri` of `resources/read`,
    /// `params.taskId` of the requests of the tasks extension (SEP-2663).
    /// `None` if it is no string there.
    pub name: Option<Box<str>>,
    /// `params._meta["io.modelcontextprotocol/protocolVersion"]`, which marks the era; its text, or its JSON where it
    /// is no string.
    pub version: Box<str>,
}

/// What `initialize` says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Initialize {
    /// Whether `protocolVersion` is a string and `capabilities` and `clientInfo` are objects, as the schema of every legacy
    /// revision demands.
    pub complete: bool,
}

/// The envelope of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The id of the request that it answers. `None` is JSON-RPC's null, allowed for errors only.
    pub id: Option<RequestId>,
    /// Whether it is an error.
    pub is_error: bool,
}

/// Why bytes are no message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessageError {
    /// An array, which JSON-RPC calls a batch.
    Batch,
    /// JSON, but not one JSON-RPC message. The id is that of the request where it could be read.
    NotAMessage {
        /// The request's id, if one was readable.
        id: Option<RequestId>,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Not JSON in UTF-8.
    NotJson,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Batch => "a batch is not one message",
            Self::NotAMessage { why, .. } => why,
            Self::NotJson => "not JSON in UTF-8",
        })
    }
}

impl std::error::Error for MessageError {}

impl Message {
    /// Looks at `raw`, which must be one JSON-RPC message in UTF-8. One pass, no copy of the payload.
    ///
    /// # Errors
    ///
    /// If it isn't; whatever a peer sends gives an error and never a panic, at any depth of nesting.
    pub fn parse(raw: Bytes) -> Result<Self, MessageError> {
        let text = std::str::from_utf8(&raw).map_err(|_| MessageError::NotJson)?;
        match text.trim_start_matches(JSON_SPACE).as_bytes().first() {
            Some(b'{') => {}
            Some(b'[') if is_json(text) => return Err(MessageError::Batch),
            Some(_) if is_json(text) => return Err(not_a_message(text, "a JSON-RPC message is an object")),
            _ => return Err(MessageError::NotJson),
        }
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(text) else {
            return Err(if is_json(text) {
                not_a_message(text, "an envelope member is malformed or given twice")
            } else {
                MessageError::NotJson
            });
        };
        let kind = envelope.into_kind().map_err(|why| not_a_message(text, why))?;
        Ok(Self { raw, kind })
    }

    /// The bytes as they arrived.
    #[must_use]
    pub const fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The bytes as they arrived, without a copy.
    #[must_use]
    pub fn into_raw(self) -> Bytes {
        self.raw
    }

    /// What the envelope says.
    #[must_use]
    pub const fn kind(&self) -> &MessageKind {
        &self.kind
    }

    /// The method of a request or notification.
    #[must_use]
    pub fn method(&self) -> Option<&str> {
        match &self.kind {
            MessageKind::Notification(note) => Some(&note.method),
            MessageKind::Request(request) => Some(&request.method),
            MessageKind::Response(_) => None,
        }
    }

    /// The method, if it is one of the protocol's; what a client makes up is none.
    #[must_use]
    pub const fn known_method(&self) -> Option<&'static str> {
        match &self.kind {
            MessageKind::Notification(Notification { method: Cow::Borrowed(known), .. })
            | MessageKind::Request(Request { method: Cow::Borrowed(known), .. }) => Some(known),
            MessageKind::Notification(_) | MessageKind::Request(_) | MessageKind::Response(_) => None,
        }
    }

    /// The envelope of a request, if this is one.
    #[must_use]
    pub const fn as_request(&self) -> Option<&Request> {
        match &self.kind {
            MessageKind::Request(request) => Some(request),
            MessageKind::Notification(_) | MessageKind::Response(_) => None,
        }
    }

    /// The version that the message bears as its mark of the modern era, its text or its JSON.
    #[must_use]
    pub fn modern_version(&self) -> Option<&str> {
        match &self.kind {
            MessageKind::Notification(note) => note.modern_version.as_deref(),
            MessageKind::Request(request) => request.modern.as_ref().map(|modern| &*modern.version),
            MessageKind::Response(_) => None,
        }
    }

    /// Reads the parameters as `T`, straight from the bytes; members that `T` doesn't have are skipped. Absent parameters read as `{}`.
    ///
    /// # Errors
    ///
    /// If they don't have that shape.
    pub fn params<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        #[derive(Deserialize)]
        struct Outer<T> {
            params: Option<T>,
        }
        match serde_json::from_slice::<Outer<T>>(&self.raw)?.params {
            Some(params) => Ok(params),
            None => serde_json::from_str("{}"),
        }
    }
}

/// Shows the envelope only: payloads may hold what a log must not.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("kind", &self.kind).field("len", &self.raw.len()).finish()
    }
}

const JSON_SPACE: [char; 4] = [' ', '\t', '\n', '\r'];
const INITIALIZE: &str = "initialize";

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The error path may be slow: it looks a second time, for the id alone.
fn not_a_message(text: &str, why: &'static str) -> MessageError {
    let members: BTreeMap<Name<'_>, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    let member = |name| members.get(&Name(Cow::Borrowed(name)));
    // The id of a response is not ours to repeat.
    let id = member("method").and_then(|_| RequestId::from_json(member("id")?.get()));
    MessageError::NotAMessage { id, why }
}

/// The members of an envelope. A known member given twice is an error of the derived visitor.
#[derive(Deserialize)]
struct Envelope<'a> {
    // serde borrows a `Cow` only where it is not inside something else.
    #[serde(borrow)]
    jsonrpc: Option<Name<'a>>,
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "params::params")]
    params: Params<'a>,
    #[serde(default, deserialize_with = "present")]
    result: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "object")]
    error: Option<()>,
}

impl Envelope<'_> {
    fn into_kind(self) -> Result<MessageKind, &'static str> {
        if self.jsonrpc.is_none_or(|Name(version)| version != "2.0") {
            return Err("jsonrpc must be \"2.0\"");
        }
        let id = match self.id {
            None => None,
            Some(raw) if raw.get() == "null" => Some(None),
            Some(raw) => {
                Some(Some(RequestId::from_json(raw.get()).ok_or("id must be a string or an integer within 2^53-1")?))
            }
        };
        match (self.method, id, self.result, self.error) {
            (Some(_), _, Some(_), _) | (Some(_), _, _, Some(_)) => {
                Err("a message has a method, or a result, or an error")
            }
            (None, _, Some(_), Some(_)) => Err("a response has a result or an error, not both"),
            (Some(_), Some(None), None, None) => Err("the id of a request must not be null"),
            (Some(method), Some(Some(id)), None, None) => {
                let method = method_name(method)?;
                let initialize = (method == INITIALIZE).then(|| self.params.initialize());
                let modern = self.params.modern(&method);
                let progress_token = self.params.request_token();
                let resource = self.params.resource(&method);
                Ok(MessageKind::Request(Request { id, method, progress_token, initialize, modern, resource }))
            }
            (Some(method), None, None, None) => Ok(MessageKind::Notification(Notification {
                method: method_name(method)?,
                modern_version: self.params.modern_version(),
                progress_token: self.params.progress_token.and_then(|raw| RequestId::from_json(raw.get())),
                request_id: self.params.request_id.and_then(|raw| RequestId::from_json(raw.get())),
                subscription_id: self.params.subscription_id(),
            })),
            (None, Some(None), Some(_), None) | (None, None, Some(_), None) => {
                Err("a result needs the id of its request")
            }
            (None, None, None, Some(())) => Err("an error needs an id, or null"),
            (None, Some(id), result, error) if result.is_some() || error.is_some() => {
                Ok(MessageKind::Response(Response { id, is_error: error.is_some() }))
            }
            (None, _, _, _) => Err("a message needs a method, a result or an error"),
        }
    }
}

/// The methods that are common enough to be worth no allocation.
const KNOWN_METHODS: [&str; 31] = [
    "completion/complete",
    "elicitation/create",
    INITIALIZE,
    "logging/setLevel",
    "notifications/cancelled",
    "notifications/initialized",
    "notifications/message",
    "notifications/progress",
    "notifications/prompts/list_changed",
    "notifications/resources/list_changed",
    "notifications/resources/updated",
    "notifications/roots/list_changed",
    "notifications/subscriptions/acknowledged",
    "notifications/tools/list_changed",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "roots/list",
    "sampling/createMessage",
    "server/discover",
    "subscriptions/listen",
    "tasks/cancel",
    "tasks/get",
    "tasks/update",
    "tools/call",
    "tools/list",
];

fn method_name(raw: &RawValue) -> Result<Cow<'static, str>, &'static str> {
    let text = raw.get();
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or("method must be a string")?;
    if let Some(known) = KNOWN_METHODS.iter().find(|known| **known == inner) {
        return Ok(Cow::Borrowed(known));
    }
    let unescaped: String = serde_json::from_str(text).map_err(|_| "method must be a string")?;
    // What was written with escapes may be a known method after all.
    Ok(match KNOWN_METHODS.iter().find(|known| **known == unescaped) {
        Some(known) => Cow::Borrowed(known),
        None => Cow::Owned(unescaped),
    })
}
