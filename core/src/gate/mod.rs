//! What is this request?
//!
//! Owns the fixed order of the checks that come before any session: first those of the head, so that a bad request
//! costs no body, then those of the body. Before the last of them nothing is created, spawned or promised. Does
//! not own which sessions exist and whose they are, which the table knows; nor credentials, which the driver
//! verifies when the gate asks it to; nor what an answer looks like, which [`Outcome`] decides.
//!
//! ```text
//! head: method ─ Host ─ Origin ─┬─ preflight ─► Answer
//!                               └─ credentials ─ declared size ─┬─ POST:   type ─ Accept ─ version ─ session ─► Post
//!                                                               ├─ GET:           Accept ─ version ─ session ─► Get
//!                                                               └─ DELETE:                 version ─ session ─► Delete
//!
//! Post: look up the session, if `PostHead::look_up` names one; then read the body, within the limits
//!
//! body: size ─ UTF-8, JSON ─ one message ─ era ─┬─ initialize: whole ─ no session ─► Create
//!                                               ├─ modern:     the ladder ─► Sessionless
//!                                               └─ all else:           live session ─► Deliver
//!
//! every check, if it fails: ─► Answer
//! ```
//!
//! A request with two faults is answered for the one that is checked first.
//!
//! ```
//! use bytes::Bytes;
//! use sessile_core::config::GateConfig;
//! use sessile_core::{BodyAction, Eras, Gate, HeadAction};
//!
//! let gate = Gate::new(&GateConfig::default())?;
//! let request = http::Request::post("/mcp")
//!     .header("host", "localhost:8080")
//!     .header("content-type", "application/json")
//!     .header("accept", "application/json, text/event-stream");
//! let (head, ()) = request.body(()).expect("a request").into_parts();
//! let HeadAction::Post(post) = gate.head(Eras::LEGACY, &head) else { panic!("the head is good") };
//! assert_eq!(post.look_up(), None);
//! let body = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":
//!     {"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
//! let action = gate.body(Eras::LEGACY, &head.headers, &post, None, Bytes::from(body));
//! assert!(matches!(action, BodyAction::Create(_)));
//! # Ok::<(), sessile_core::ConfigError>(())
//! ```

mod accept;
mod content_type;
mod cors;
mod encoded;
mod field;
mod host;
mod length;
mod modern;
mod origin;
#[cfg(test)]
mod tests;
mod tool_headers;
mod version;

use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use accept::Accepted;
use cors::Cors;
pub use cors::CorsHeaders;
use host::Hosts;
use origin::Origins;
pub use tool_headers::{Page, ToolHeaders};
pub use version::VersionHeader;

use crate::config::{ConfigError, GateConfig, ResponseMode};
use crate::id::{EventId, RequestId, SessionId};
use crate::message::{Message, MessageError, MessageKind};
use crate::outcome::Outcome;
use crate::version::{Era, Eras, ProtocolVersion};

/// The header with which a client resumes a stream (2025-11-25, transports, resumability).
pub const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The header that repeats the method of a modern request (2026-07-28, transports, standard request headers).
pub const MCP_METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The header that repeats the name or URI in a modern request (2026-07-28, transports, standard request headers).
pub const MCP_NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The header that names the protocol version after `initialize` (2025-11-25, transports, protocol version header).
pub const MCP_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The header that names the session (2025-11-25, transports, session management).
pub const MCP_SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");

/// The settings of the gate, compiled once, and the checks over them. Immutable, so that all connections share one.
#[derive(Debug)]
pub struct Gate {
    body_timeout: Duration,
    /// `None`: off.
    cors: Option<Cors>,
    hosts: Hosts,
    max_body: usize,
    origins: Origins,
    response_mode: ResponseMode,
    stateless: bool,
}

impl Gate {
    /// Compiles the settings.
    ///
    /// # Errors
    ///
    /// The first setting that is out of its range, or the first host or origin of the lists that is none.
    pub fn new(config: &GateConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            body_timeout: config.body_timeout,
            cors: Cors::new(&config.cors_origins)?,
            hosts: Hosts::new(&config.allowed_hosts, config.loopback_hosts)?,
            max_body: config.max_body,
            origins: Origins::new(&config.allowed_origins, config.loopback_origins)?,
            response_mode: config.response_mode,
            stateless: config.stateless,
        })
    }

    /// Looks at the head alone, at an endpoint that serves these eras. Looks up no session, allocates nothing for a good head.
    pub fn head(&self, served: Eras, head: &Parts) -> HeadAction {
        self.head_with_credentials(served, head, || Ok(()))
    }

    /// The same, for a driver that verifies credentials itself: `verify` is called in their place in the order of the
    /// checks, and what it refuses with is the answer. So whoever has no credentials learns nothing about sessions.
    pub fn head_with_credentials(
        &self,
        served: Eras,
        head: &Parts,
        verify: impl FnOnce() -> Result<(), Outcome>,
    ) -> HeadAction {
        let era = head_era(served, &head.headers);
        self.try_head(served, era, head, verify).unwrap_or_else(|outcome| HeadAction::Answer { era, outcome })
    }

    /// Looks at the whole body of a POST, with the headers of its head: those of a modern request must agree with its
    /// body. `live`: the session that [`PostHead::look_up`] named was looked up for the request's principal and is live, so
    /// that the exchange is already routed to it; what it has negotiated says whether it may be a batch.
    ///
    /// A driver that found no such session answers [`Outcome::SessionNotFound`] without a body; one that asks here all
    /// the same gets that answer.
    pub fn body(
        &self,
        served: Eras,
        headers: &HeaderMap,
        post: &PostHead,
        live: Option<Option<ProtocolVersion>>,
        body: Bytes,
    ) -> BodyAction {
        // What is served may have been found out since.
        let era = if served.modern { post.era } else { Era::Legacy };
        if body.len() > self.max_body {
            return BodyAction::Answer { era, id: None, outcome: Outcome::BodyTooLarge };
        }
        let array = has_batches(post, live).then(|| body.clone());
        let message = match (Message::parse(body), array) {
            (Ok(message), _) => message,
            (Err(MessageError::Batch), Some(array)) => return batch(post, &array),
            (Err(error), _) => {
                let (outcome, id) = not_a_message(error);
                return BodyAction::Answer { era, id, outcome };
            }
        };
        let era = message_era(served, post, &message);
        let admitted = match era {
            Era::Legacy => admit(post, self.stateless, live.is_some(), &message),
            Era::Modern => modern::admit(headers, post, &message),
        };
        match admitted {
            Ok(Admitted::Create) => BodyAction::Create(message),
            Ok(Admitted::Deliver) => BodyAction::Deliver(message),
            Ok(Admitted::Sessionless { mode, version }) => {
                BodyAction::Sessionless(ModernRequest { message, mode, version })
            }
            Ok(Admitted::Stateless) => BodyAction::Stateless(message),
            Err(outcome) => {
                BodyAction::Answer { era, id: message.as_request().map(|request| request.id.clone()), outcome }
            }
        }
    }

    /// How many bytes of a body are read at most; one more is [`Outcome::BodyTooLarge`].
    #[must_use]
    pub const fn max_body(&self) -> usize {
        self.max_body
    }

    /// How long a body may take from its head to its last byte; later is [`Outcome::BodyTooSlow`].
    #[must_use]
    pub const fn body_timeout(&self) -> Duration {
        self.body_timeout
    }

    /// After an answer to the head: whether the body may be small enough to be read and discarded, so that the
    /// connection can go on. `false` if it is declared to be larger than the limit, or in a way that says nothing
    /// certain; then the connection has to be closed. A body of undeclared size still has to be counted.
    #[must_use]
    pub fn may_drain(&self, head: &Parts) -> bool {
        length::declared(&head.headers).is_ok_and(|size| size.is_none_or(|size| self.fits(size)))
    }

    /// The headers that every answer to this head needs for browsers, whoever gives it: the gate, the session, or the driver.
    /// `None` if cross-origin resource sharing is off.
    #[must_use]
    pub fn cors(&self, head: &Parts) -> Option<CorsHeaders> {
        self.cors.as_ref().map(|cors| cors.headers(head))
    }

    fn try_head(
        &self,
        served: Eras,
        era: Era,
        head: &Parts,
        verify: impl FnOnce() -> Result<(), Outcome>,
    ) -> Result<HeadAction, Outcome> {
        // Without sessions there is nothing to listen to, nor to end.
        let sessions = served.legacy && !self.stateless;
        let method = Served::of(Eras { legacy: sessions, ..served }, &head.method);
        if method.is_none() && !(self.cors.is_some() && cors::is_preflight(head)) {
            return Err(Outcome::MethodNotAllowed { era: if sessions { era } else { Era::Modern } });
        }
        if !self.hosts.allow(head) {
            return Err(Outcome::HostNotAllowed);
        }
        let headers = &head.headers;
        let listed = self.cors.as_ref().is_some_and(|cors| cors.lists(headers));
        if !listed && !self.origins.allow(headers) {
            return Err(Outcome::OriginNotAllowed);
        }
        let Some(method) = method else {
            // Whoever may not share may still be let in, but has nothing to ask for.
            return Err(if listed { Outcome::Preflight } else { Outcome::OriginNotAllowed });
        };
        verify()?;
        match length::declared(headers) {
            Ok(Some(size)) if !self.fits(size) => return Err(Outcome::BodyTooLarge),
            Ok(_) => {}
            Err(_) => return Err(Outcome::HeaderMalformed { name: "Content-Length" }),
        }
        match method {
            Served::Delete => served_session(era, headers).map(HeadAction::Delete),
            Served::Get => get(era, headers).map(HeadAction::Get),
            Served::Post => self.post(served, era, headers).map(HeadAction::Post),
        }
    }

    fn post(&self, served: Eras, era: Era, headers: &HeaderMap) -> Result<PostHead, Outcome> {
        if !single(headers, CONTENT_TYPE, "Content-Type")?.is_some_and(content_type::is_json) {
            return Err(Outcome::WrongContentType);
        }
        let mode = Accepted::read(headers).narrow(self.response_mode).ok_or(Outcome::NotAcceptable)?;
        let version = version(era, headers)?;
        let sessions = served.legacy && !self.stateless;
        let session = if sessions { session(headers) } else { Ok(SessionHeader::Missing) };
        // A head that speaks of another version may belong to a request without session, for which the session's
        // header means nothing; the body tells.
        let session = match (era, session) {
            (Era::Modern, session) => session.unwrap_or(SessionHeader::Unreadable),
            (Era::Legacy, Ok(SessionHeader::Unreadable)) if version.beyond_legacy().is_none() => {
                return Err(Outcome::SessionNotFound);
            }
            (Era::Legacy, session) => session?,
        };
        Ok(PostHead { era, mode, session, version })
    }

    fn fits(&self, size: u64) -> bool {
        usize::try_from(size).is_ok_and(|size| size <= self.max_body)
    }
}

/// What to do after a look at the head.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum HeadAction {
    /// Refuse it, without a look at the body; see [`Gate::may_drain`].
    Answer {
        /// The era that the head speaks of, for [`Outcome::respond_in`].
        era: Era,
        /// Why.
        outcome: Outcome,
    },
    /// Look up this session and end it.
    Delete(SessionId),
    /// Look up the session and serve one of its streams.
    Get(GetHead),
    /// Look up the session, if [`PostHead::look_up`] names one, then read the body and look at that.
    Post(PostHead),
}

/// The head of a good GET.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetHead {
    /// The session.
    pub session: SessionId,
    /// Where to resume. `None` asks for the standalone stream as it is now; so does an empty header, since an
    /// event source that has read no id has the empty string for it.
    pub last_event_id: Option<LastEventId>,
}

/// What the `Last-Event-ID` header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastEventId {
    /// After this event.
    Position(EventId),
    /// After something that is no event of ours.
    Unreadable,
}

/// The head of a good POST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostHead {
    /// The era that the head speaks of. The body has the last word; this one holds for an answer that is given
    /// without a look at it.
    pub era: Era,
    /// The configured response mode, narrowed to what the client accepts.
    pub mode: ResponseMode,
    /// Which session it names.
    pub session: SessionHeader,
    /// Which version it names.
    pub version: VersionHeader,
}

impl PostHead {
    /// The session that must be looked up, for the request's principal, before the body is read: if it isn't live,
    /// the answer is [`Outcome::SessionNotFound`]. `None` if there is none to look up, or if only the body can
    /// tell whether the request has anything to do with sessions.
    #[must_use]
    pub const fn look_up(&self) -> Option<SessionId> {
        match (&self.version, &self.session) {
            (VersionHeader::Absent | VersionHeader::Legacy(_), SessionHeader::Named(id)) => Some(*id),
            (VersionHeader::Absent | VersionHeader::Legacy(_), SessionHeader::Missing | SessionHeader::Unreadable)
            | (VersionHeader::Modern(_) | VersionHeader::Other(_), _) => None,
        }
    }
}

/// What the `Mcp-Session-Id` header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionHeader {
    /// Nothing: it is absent or empty.
    Missing,
    /// A session that may exist.
    Named(SessionId),
    /// Something that we never gave out.
    Unreadable,
}

/// What to do after a look at the body.
#[derive(Clone, Debug)]
#[must_use]
pub enum BodyAction {
    /// Refuse it.
    Answer {
        /// The era of the request, for [`Outcome::respond_in`].
        era: Era,
        /// The request's id, if it is a request and its id could be read.
        id: Option<RequestId>,
        /// Why.
        outcome: Outcome,
    },
    /// Hand the messages to the session that was looked up, all or none.
    Batch(Vec<Message>),
    /// Admit a session for this complete `initialize`.
    Create(Message),
    /// Hand the message to the session that was looked up.
    Deliver(Message),
    /// Have an app answer this request, which has nothing to do with sessions.
    Sessionless(ModernRequest),
    /// Serve this request of the legacy era without a session; see [`GateConfig::stateless`].
    Stateless(Message),
}

/// A good request of the modern era, with all that it needs in it.
#[derive(Clone, Debug)]
pub struct ModernRequest {
    /// The request.
    pub message: Message,
    /// How it may be answered.
    pub mode: ResponseMode,
    /// The version that it names in its head and in its body.
    pub version: ProtocolVersion,
}

/// The methods of HTTP that are served.
enum Served {
    Delete,
    Get,
    Post,
}

impl Served {
    const fn of(served: Eras, method: &Method) -> Option<Self> {
        match *method {
            Method::DELETE if served.legacy => Some(Self::Delete),
            Method::GET if served.legacy => Some(Self::Get),
            Method::POST => Some(Self::Post),
            _ => None,
        }
    }
}

fn get(era: Era, headers: &HeaderMap) -> Result<GetHead, Outcome> {
    if !Accepted::read(headers).events {
        return Err(Outcome::NotAcceptable);
    }
    let session = served_session(era, headers)?;
    let last_event_id = match single(headers, LAST_EVENT_ID, "Last-Event-ID")? {
        None | Some([]) => None,
        Some(text) => Some(EventId::parse(text).map_or(LastEventId::Unreadable, LastEventId::Position)),
    };
    Ok(GetHead { session, last_event_id })
}

/// The session of a GET or DELETE, which have no body that could tell more.
fn served_session(era: Era, headers: &HeaderMap) -> Result<SessionId, Outcome> {
    match (version(era, headers)?, era) {
        (VersionHeader::Absent | VersionHeader::Legacy(_), _) => {}
        // That version has POST alone.
        (VersionHeader::Modern(_), Era::Modern) => return Err(Outcome::MethodNotAllowed { era }),
        (other, _) => {
            let requested = other.beyond_legacy().unwrap_or_default().into();
            return Err(Outcome::UnsupportedVersion { requested, era });
        }
    }
    match session(headers)? {
        SessionHeader::Missing => Err(Outcome::MissingSession),
        SessionHeader::Named(id) => Ok(id),
        SessionHeader::Unreadable => Err(Outcome::SessionNotFound),
    }
}

/// Where the modern era is served, a version that is given twice is one that nobody knows, unless all of them have sessions: only
/// the body tells which request it is, and the answer to that names the header.
fn version(era: Era, headers: &HeaderMap) -> Result<VersionHeader, Outcome> {
    match (single(headers, MCP_PROTOCOL_VERSION, "MCP-Protocol-Version"), era) {
        (Err(_), Era::Modern) => {
            let values: Vec<_> = headers.get_all(MCP_PROTOCOL_VERSION).iter().map(HeaderValue::as_bytes).collect();
            Ok(VersionHeader::read(Some(&values.join(&b", "[..]))))
        }
        (value, _) => value.map(VersionHeader::read),
    }
}

fn session(headers: &HeaderMap) -> Result<SessionHeader, Outcome> {
    Ok(match single(headers, MCP_SESSION_ID, "Mcp-Session-Id")? {
        None | Some([]) => SessionHeader::Missing,
        Some(text) => SessionId::parse(text).map_or(SessionHeader::Unreadable, SessionHeader::Named),
    })
}

fn single<'a>(headers: &'a HeaderMap, name: HeaderName, shown: &'static str) -> Result<Option<&'a [u8]>, Outcome> {
    field::single(headers, name).map_err(|_| Outcome::HeaderMalformed { name: shown })
}

/// What a message may do.
enum Admitted {
    Create,
    Deliver,
    Sessionless { mode: ResponseMode, version: ProtocolVersion },
    Stateless,
}

/// What the head says of the era, where there is a choice.
fn head_era(served: Eras, headers: &HeaderMap) -> Era {
    let legacy = |value: &HeaderValue| {
        matches!(VersionHeader::read(Some(field::trim(value.as_bytes()))), VersionHeader::Legacy(_))
    };
    let modern = served.modern && (!served.legacy || !headers.get_all(MCP_PROTOCOL_VERSION).iter().all(legacy));
    if modern { Era::Modern } else { Era::Legacy }
}

/// The era of a message, where there is a choice: the body's own mark comes first, and `initialize` is legacy
/// whatever its header says.
fn message_era(served: Eras, post: &PostHead, message: &Message) -> Era {
    let marked = message.modern_version().is_some();
    let beyond = post.version.beyond_legacy().is_some() && message.method() != Some("initialize");
    if served.modern && (!served.legacy || marked || beyond) { Era::Modern } else { Era::Legacy }
}

/// Whether the session of this exchange is of the one revision that has batches.
fn has_batches(post: &PostHead, live: Option<Option<ProtocolVersion>>) -> bool {
    live.flatten().is_some_and(ProtocolVersion::has_batches) && post.version.beyond_legacy().is_none()
}

fn batch(post: &PostHead, body: &Bytes) -> BodyAction {
    let messages = Message::parse_batch(body).map_err(|error| not_a_message(error).0);
    let admitted = messages.and_then(|messages| {
        for message in &messages {
            admit(post, false, true, message)?;
        }
        Ok(messages)
    });
    match admitted {
        Ok(messages) => BodyAction::Batch(messages),
        Err(outcome) => BodyAction::Answer { era: Era::Legacy, id: None, outcome },
    }
}

fn not_a_message(error: MessageError) -> (Outcome, Option<RequestId>) {
    match error {
        MessageError::Batch => (Outcome::NotOneMessage { why: "batches are not supported" }, None),
        MessageError::NotAMessage { id, why } => (Outcome::NotOneMessage { why }, id),
        MessageError::NotJson => (Outcome::NotJson, None),
    }
}

fn admit(post: &PostHead, stateless: bool, live: bool, message: &Message) -> Result<Admitted, Outcome> {
    let initialize = message.method() == Some("initialize");
    let era = Era::Legacy;
    // What would be modern, where that isn't served.
    if let Some(modern) = message.as_request().and_then(|request| request.modern.as_ref()) {
        let requested = &modern.version;
        return Err(Outcome::UnsupportedVersion { requested: version::printable(requested.as_bytes()), era });
    }
    if let Some(requested) = post.version.beyond_legacy()
        && !initialize
    {
        return Err(Outcome::UnsupportedVersion { requested: requested.into(), era });
    }
    if initialize {
        let complete = match message.kind() {
            MessageKind::Request(request) => request.initialize.as_ref().is_some_and(|params| params.complete),
            MessageKind::Notification(_) | MessageKind::Response(_) => {
                return Err(Outcome::NotOneMessage { why: "initialize must be a request" });
            }
        };
        if !complete {
            return Err(Outcome::InitializeIncomplete);
        }
    }
    if stateless {
        return match message.kind() {
            MessageKind::Request(_) => Ok(Admitted::Stateless),
            // There is nobody whom it could concern.
            MessageKind::Notification(_) | MessageKind::Response(_) => Err(Outcome::Accepted),
        };
    }
    match (&post.session, live) {
        (_, true) if initialize => Err(Outcome::AlreadyInitialized),
        (_, true) => Ok(Admitted::Deliver),
        (SessionHeader::Missing, false) if initialize => Ok(Admitted::Create),
        (SessionHeader::Missing, false) => Err(Outcome::MissingSession),
        (SessionHeader::Named(_) | SessionHeader::Unreadable, false) => Err(Outcome::SessionNotFound),
    }
}
