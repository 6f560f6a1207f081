//! JSON-RPC messages: kept as the bytes they arrived in, looked at once.
//!
//! Owns the envelope (JSON-RPC 2.0, section 4 and 5, as MCP narrows it): which kind of message it is, its id, its method, and
//! the few members that routing needs. Does not own what may be done with a message, and never builds a
//! tree or rewrites a byte.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

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
    /// `params._meta["io.modelcontextprotocol/protocolVersion"]`, as in [`Request::modern_version`].
    pub modern_version: Option<Box<str>>,
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
    /// `params._meta["io.modelcontextprotocol/protocolVersion"]`, which marks the modern era; its text, or
    /// its JSON where it is no string.
    pub modern_version: Option<Box<str>>,
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

    /// The envelope of a request, if this is one.
    #[must_use]
    pub const fn as_request(&self) -> Option<&Request> {
        match &self.kind {
            MessageKind::Request(request) => Some(request),
            MessageKind::Notification(_) | MessageKind::Response(_) => None,
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
    #[serde(borrow)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(default, borrow, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(default, borrow, deserialize_with = "params")]
    params: Params<'a>,
    #[serde(default, deserialize_with = "present")]
    result: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "object")]
    error: Option<()>,
}

impl Envelope<'_> {
    fn into_kind(self) -> Result<MessageKind, &'static str> {
        if self.jsonrpc.as_deref() != Some("2.0") {
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
                let modern_version = self.params.modern_version();
                Ok(MessageKind::Request(Request {
                    id,
                    method,
                    progress_token: self.params.request_token(),
                    initialize,
                    modern_version,
                }))
            }
            (Some(method), None, None, None) => Ok(MessageKind::Notification(Notification {
                method: method_name(method)?,
                modern_version: self.params.modern_version(),
                progress_token: self.params.progress_token.and_then(|raw| RequestId::from_json(raw.get())),
                request_id: self.params.request_id.and_then(|raw| RequestId::from_json(raw.get())),
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

/// The few members of `params` that routing needs, borrowed.
#[derive(Default)]
struct Params<'a> {
    capabilities: Option<&'a RawValue>,
    client_info: Option<&'a RawValue>,
    meta: Meta<'a>,
    progress_token: Option<&'a RawValue>,
    protocol_version: Option<&'a RawValue>,
    request_id: Option<&'a RawValue>,
}

impl Params<'_> {
    fn initialize(&self) -> Initialize {
        let starts = |raw: Option<&RawValue>, with: char| raw.is_some_and(|raw| raw.get().starts_with(with));
        Initialize {
            complete: starts(self.protocol_version, '"')
                && starts(self.capabilities, '{')
                && starts(self.client_info, '{'),
        }
    }

    fn request_token(&self) -> Option<RequestId> {
        RequestId::from_json(self.meta.progress_token?.get())
    }

    fn modern_version(&self) -> Option<Box<str>> {
        let raw = self.meta.protocol_version?.get();
        Some(serde_json::from_str(raw).unwrap_or_else(|_| raw.into()))
    }
}

#[derive(Default)]
struct Meta<'a> {
    progress_token: Option<&'a RawValue>,
    protocol_version: Option<&'a RawValue>,
}

/// A member that is there, `null` included: `Option` alone would take null for absent.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// An object whose content doesn't matter here.
fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<()>, D::Error> {
    struct Object;
    impl<'de> Visitor<'de> for Object {
        type Value = ();
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(())
        }
    }
    deserializer.deserialize_map(Object).map(Some)
}

/// Takes one borrowed value; the same member a second time is an error, since peers would disagree on which
/// one counts.
fn take<'de, A: MapAccess<'de>>(slot: &mut Option<&'de RawValue>, map: &mut A) -> Result<(), A::Error> {
    if slot.replace(map.next_value()?).is_some() {
        return Err(serde::de::Error::custom("a member is given twice"));
    }
    Ok(())
}

fn params<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Params<'de>, D::Error> {
    struct ParamsVisitor;
    impl<'de> Visitor<'de> for ParamsVisitor {
        type Value = Params<'de>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        /// Some clients write `null` for no parameters.
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Params::default())
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut seen = Params::default();
            let mut meta = false;
            while let Some(Name(key)) = map.next_key()? {
                match &*key {
                    "_meta" if meta => return Err(serde::de::Error::custom("_meta is given twice")),
                    "_meta" => {
                        seen.meta = map.next_value()?;
                        meta = true;
                    }
                    "capabilities" => take(&mut seen.capabilities, &mut map)?,
                    "clientInfo" => take(&mut seen.client_info, &mut map)?,
                    "progressToken" => take(&mut seen.progress_token, &mut map)?,
                    "protocolVersion" => take(&mut seen.protocol_version, &mut map)?,
                    "requestId" => take(&mut seen.request_id, &mut map)?,
                    _ => {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
            }
            Ok(seen)
        }
    }
    deserializer.deserialize_any(ParamsVisitor)
}

impl<'de: 'a, 'a> Deserialize<'de> for Meta<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MetaVisitor;
        impl<'de> Visitor<'de> for MetaVisitor {
            type Value = Meta<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Meta::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut seen = Meta::default();
                while let Some(Name(key)) = map.next_key()? {
                    match &*key {
                        "progressToken" => take(&mut seen.progress_token, &mut map)?,
                        "io.modelcontextprotocol/protocolVersion" => take(&mut seen.protocol_version, &mut map)?,
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(seen)
            }
        }
        deserializer.deserialize_any(MetaVisitor)
    }
}

/// A member's name: borrowed, unless it was written with escapes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Borrowed(name)))
            }
            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Name(Cow::Owned(name.to_owned())))
            }
        }
        deserializer.deserialize_str(NameVisitor)
    }
}

/// The methods that are common enough to be worth no allocation.
const KNOWN_METHODS: [&str; 24] = [
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
    "notifications/tools/list_changed",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "roots/list",
    "sampling/createMessage",
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Message, MessageError> {
        Message::parse(Bytes::copy_from_slice(text.as_bytes()))
    }

    fn refused(text: &str) -> (Option<RequestId>, &'static str) {
        match parse(text) {
            Err(MessageError::NotAMessage { id, why }) => (id, why),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_three_kinds_are_told_apart() {
        let request =
            parse(r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"_meta":{"progressToken":7}}}"#)
                .expect("valid");
        assert_eq!(
            request.as_request(),
            Some(&Request {
                id: RequestId::String("a".into()),
                method: Cow::Borrowed("tools/call"),
                progress_token: Some(RequestId::Number(7)),
                initialize: None,
                modern_version: None,
            })
        );
        let note =
            parse(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":3}}"#).expect("valid");
        let MessageKind::Notification(note) = note.kind() else { panic!("{note:?}") };
        assert_eq!(note.request_id, Some(RequestId::Number(3)));
        for (text, id, is_error) in [
            (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, Some(RequestId::Number(1)), false),
            (r#"{"jsonrpc":"2.0","id":1,"result":null}"#, Some(RequestId::Number(1)), false),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":""}}"#, None, true),
        ] {
            assert_eq!(*parse(text).expect("valid").kind(), MessageKind::Response(Response { id, is_error }), "{text}");
        }
    }

    #[test]
    fn bytes_that_are_no_json_are_told_from_json_that_is_no_message() {
        for text in [
            "",
            " ",
            "{",
            "nonsense",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#,
            r#"{"jsonrpc":"2.0","id":1e,"method":"ping"}"#,
            r#"{"id":1,}"#,
            "[1",
        ] {
            assert_eq!(parse(text).unwrap_err(), MessageError::NotJson, "{text}");
        }
        assert_eq!(Message::parse(Bytes::from_static(b"{\"a\":\"\xff\"}")).unwrap_err(), MessageError::NotJson);
        assert_eq!(parse(" [ ] ").unwrap_err(), MessageError::Batch);
        for text in ["1", "null", "\"x\"", "{}", r#"{"jsonrpc":"2.0"}"#, r#"{"jsonrpc":"2.0","id":1}"#] {
            refused(text);
        }
    }

    #[test]
    fn a_refused_request_still_tells_its_id() {
        let id = Some(RequestId::Number(4));
        for text in [
            r#"{"id":4,"method":"ping"}"#,
            r#"{"jsonrpc":"1.0","id":4,"method":"ping"}"#,
            r#"{"jsonrpc":2.0,"id":4,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":5}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"ping","params":[1]}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"ping","params":"x"}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"ping","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"ping","method":"ping"}"#,
            r#"{"jsonrpc":"2.0","id":4,"method":"ping","params":{"_meta":{},"_meta":{}}}"#,
        ] {
            assert_eq!(refused(text).0, id, "{text}");
        }
    }

    #[test]
    fn ids_that_a_peer_would_change_are_refused() {
        for id in ["null", "1.5", "1e3", "9007199254740992", "{}", "[]", "true", r#""\ud800""#] {
            assert_eq!(refused(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).0, None, "{id}");
        }
        refused(r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#);
        refused(r#"{"jsonrpc":"2.0","id":null,"result":{}}"#);
        refused(r#"{"jsonrpc":"2.0","id":1,"error":"x"}"#);
        refused(r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#);
    }

    #[test]
    fn members_written_with_escapes_are_the_same_members() {
        let message = parse(
            r#"{"jsonrpc":"2.0","\u0069d":1,"method":"pi\u006eg","params":{"\u005fmeta":{"progressToken":"t"}}}"#,
        )
        .expect("valid");
        let request = message.as_request().expect("request");
        assert_eq!((&request.id, &*request.method), (&RequestId::Number(1), "ping"));
        assert_eq!(request.progress_token, Some(RequestId::String("t".into())));
    }

    #[test]
    fn only_a_whole_initialize_is_complete() {
        let with = |params: &str| {
            let message =
                parse(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize"{params}}}"#)).expect("valid");
            message.as_request().and_then(|request| request.initialize.as_ref().map(|init| init.complete))
        };
        assert_eq!(
            with(r#","params":{"protocolVersion":"x","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#),
            Some(true)
        );
        for params in [
            "",
            r#","params":{}"#,
            r#","params":null"#,
            r#","params":{"protocolVersion":1,"capabilities":{},"clientInfo":{}}"#,
            r#","params":{"protocolVersion":"x","capabilities":[],"clientInfo":{}}"#,
            r#","params":{"protocolVersion":"x","capabilities":{},"clientInfo":"c"}"#,
            r#","params":{"protocolVersion":"x","capabilities":{}}"#,
        ] {
            assert_eq!(with(params), Some(false), "{params}");
        }
    }

    #[test]
    fn the_mark_of_the_modern_era_is_seen() {
        let message = parse(
            r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        );
        assert_eq!(
            message.expect("valid").as_request().and_then(|request| request.modern_version.as_deref()),
            Some("2026-07-28")
        );
    }

    #[test]
    fn deep_nesting_and_long_numbers_neither_overflow_nor_hide_the_message() {
        let deep = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":{}{}}}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        );
        assert_eq!(parse(&deep).expect("valid").method(), Some("x"));
        let long = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":{}}}}}"#, "9".repeat(100_000));
        assert!(parse(&long).is_ok());
    }

    #[test]
    fn parameters_read_straight_from_the_bytes() {
        #[derive(Deserialize)]
        struct Call<'a> {
            name: &'a str,
        }
        let message = parse(
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}"#,
        )
        .expect("valid");
        assert_eq!(message.params::<Call<'_>>().expect("fits").name, "echo");
        assert!(
            parse(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call"}"#).expect("valid").params::<Call<'_>>().is_err()
        );
    }
}
