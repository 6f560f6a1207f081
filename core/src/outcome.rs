//! Every answer that is not the app's own: outcome to status, headers and body, as one total function.
//!
//! Owns the table of outcomes. Nothing else in this project chooses a status, and no driver overrides one.
//! Codes -32000 to -32019 are not used (2026-07-28, basic, error codes).

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};

use crate::capability::ClientCapability;
use crate::id::RequestId;
use crate::version::{Era, ProtocolVersion};

/// How an exchange ends when the app does not answer it.
///
/// Codes are those of the JSON-RPC error in the body. Where there are two, the text of the outcome says which is when. Once a stream is open,
/// an outcome with a code is an event of it instead ([`Outcome::to_message`]).
#[doc = include_str!("outcome/table.md")]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// A notification or response was taken in, or a request was cancelled while its head was held.
    Accepted,
    /// `initialize` on a live session.
    AlreadyInitialized,
    /// The app ended, or could not be started, before it answered.
    AppFailed,
    /// The body is larger than the limit.
    BodyTooLarge,
    /// The body did not arrive in time.
    BodyTooSlow,
    /// The request needs capabilities that its client has not declared (2026-07-28, basic, `_meta`). Which those are, its app alone
    /// knows, and says.
    CapabilityMissing {
        /// What is missing.
        required: Vec<ClientCapability>,
    },
    /// The credentials of the request are missing or wrong. Whoever verifies them says so; the core knows none.
    CredentialsRefused {
        /// Whether there were any.
        given: bool,
    },
    /// The client's own session was ended by DELETE.
    Deleted,
    /// A request with the id of one that is still in flight.
    DuplicateRequestId,
    /// A single-valued header was sent twice, or is malformed.
    HeaderMalformed {
        /// The header's name.
        name: &'static str,
    },
    /// A header of the modern era that must repeat what the body says does not (2026-07-28, transports, server
    /// validation).
    HeaderMismatch {
        /// What is wrong with it.
        fault: HeaderFault,
        /// The header's name.
        name: Box<str>,
    },
    /// `Host` is missing or names nobody that we are.
    HostNotAllowed,
    /// The session's inbox is full. Notifications and responses get this as 503 only beyond twice the bound.
    InboxFull {
        /// Whether it was a request, which a client may simply repeat.
        request: bool,
    },
    /// `initialize` without what the schema demands of it.
    InitializeIncomplete,
    /// A modern request without what its `_meta` must have.
    MetaMissing {
        /// The member that is missing or malformed.
        key: &'static str,
    },
    /// No method that is served in this era, which the answer's `Allow` lists.
    MethodNotAllowed {
        /// The era that the request is of.
        era: Era,
    },
    /// A session id is needed and missing.
    MissingSession,
    /// `Accept` leaves nothing that we could send.
    NotAcceptable,
    /// Not JSON in UTF-8.
    NotJson,
    /// JSON, but not one JSON-RPC message.
    NotOneMessage {
        /// What is wrong with it.
        why: &'static str,
    },
    /// Another path than the endpoint's.
    NotTheEndpoint,
    /// The event id of a resume is unknown or no longer retained, or there is nothing to resume.
    NotResumable,
    /// `Origin` is not allowed.
    OriginNotAllowed,
    /// A browser asked first, and its page may send the request; the headers say which.
    Preflight,
    /// The request took longer than it may.
    RequestExpired,
    /// The session ended with the request in flight.
    SessionEnded,
    /// The session is unknown, ended or foreign, which all look the same.
    SessionNotFound,
    /// The server is shutting down.
    ShuttingDown,
    /// The store that has what a client has missed can't be asked now.
    StoreUnavailable,
    /// The stream of a resume was answered in full, or cancelled.
    StreamOver,
    /// All sessions are taken.
    TableFull {
        /// Seconds to the next idle deadline, 1 to 60.
        retry_after: u8,
    },
    /// Too many requests of the session are in flight, or the principal has too many sessions.
    TooManyRequests,
    /// A method of JSON-RPC that the modern era does not have.
    UnknownMethod,
    /// A version that is not served; the message and the data list those that are.
    UnsupportedVersion {
        /// What was asked for, cut to a sane length.
        requested: Box<str>,
        /// The era that would have been served, whose versions the answer lists. The modern one has a code of its own, which proves a
        /// modern server: clients don't fall back to sessions when they see it.
        era: Era,
    },
    /// A `Content-Type` other than JSON in UTF-8.
    WrongContentType,
}

/// The code for a capability that the client should have declared (2026-07-28, basic, error codes).
const CAPABILITY_MISSING: i32 = -32021;
/// The code for headers that don't agree with the body (2026-07-28, basic, error codes).
const HEADER_MISMATCH: i32 = -32020;
/// What can be wrong with a header that has to repeat what a body says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderFault {
    /// It says something else, or something where the body says nothing.
    Differs,
    /// It has characters that no header may have, or Base64 that is none.
    Malformed,
    /// It is missing.
    Missing,
    /// It is given twice.
    Twice,
}

impl HeaderFault {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Differs => "does not say what the body says",
            Self::Malformed => "is not well encoded",
            Self::Missing => "is missing",
            Self::Twice => "is given twice",
        }
    }
}

/// The JSON-RPC code for a request that is wrong in itself.
const INVALID_REQUEST: i32 = -32600;
/// The JSON-RPC code for parameters that are wrong.
const INVALID_PARAMS: i32 = -32602;
/// The JSON-RPC code for a fault on this side.
const INTERNAL_ERROR: i32 = -32603;
/// The JSON-RPC code for a method that is not there.
const METHOD_NOT_FOUND: i32 = -32601;
/// The code for a version that a modern server does not serve (2026-07-28, basic, error codes).
const UNSUPPORTED_VERSION: i32 = -32022;
/// The JSON-RPC code for what is no JSON.
const PARSE_ERROR: i32 = -32700;

impl Outcome {
    /// The status of the answer.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        match self {
            Self::Accepted => StatusCode::ACCEPTED,
            Self::Deleted | Self::Preflight | Self::StreamOver => StatusCode::NO_CONTENT,
            Self::AlreadyInitialized
            | Self::CapabilityMissing { .. }
            | Self::DuplicateRequestId
            | Self::HeaderMalformed { .. }
            | Self::HeaderMismatch { .. }
            | Self::InitializeIncomplete
            | Self::MetaMissing { .. }
            | Self::MissingSession
            | Self::NotJson
            | Self::NotOneMessage { .. }
            | Self::NotResumable
            | Self::UnsupportedVersion { .. } => StatusCode::BAD_REQUEST,
            Self::CredentialsRefused { .. } => StatusCode::UNAUTHORIZED,
            Self::HostNotAllowed | Self::OriginNotAllowed => StatusCode::FORBIDDEN,
            Self::NotTheEndpoint | Self::SessionNotFound | Self::UnknownMethod => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::WrongContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::InboxFull { request: true } | Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Self::AppFailed | Self::RequestExpired | Self::SessionEnded => StatusCode::INTERNAL_SERVER_ERROR,
            Self::InboxFull { request: false }
            | Self::ShuttingDown
            | Self::StoreUnavailable
            | Self::TableFull { .. } => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// The code of the JSON-RPC error in the body. `None` if the answer has no such body.
    #[must_use]
    pub const fn code(&self) -> Option<i32> {
        match self {
            Self::Accepted | Self::Deleted | Self::NotTheEndpoint | Self::Preflight | Self::StreamOver => None,
            Self::NotJson => Some(PARSE_ERROR),
            Self::UnsupportedVersion { era: Era::Modern, .. } => Some(UNSUPPORTED_VERSION),
            Self::CapabilityMissing { .. } => Some(CAPABILITY_MISSING),
            Self::HeaderMismatch { .. } => Some(HEADER_MISMATCH),
            Self::InitializeIncomplete | Self::MetaMissing { .. } => Some(INVALID_PARAMS),
            Self::UnknownMethod => Some(METHOD_NOT_FOUND),
            Self::AppFailed
            | Self::InboxFull { .. }
            | Self::RequestExpired
            | Self::SessionEnded
            | Self::ShuttingDown
            | Self::StoreUnavailable
            | Self::TableFull { .. }
            | Self::TooManyRequests => Some(INTERNAL_ERROR),
            Self::AlreadyInitialized
            | Self::BodyTooLarge
            | Self::BodyTooSlow
            | Self::CredentialsRefused { .. }
            | Self::DuplicateRequestId
            | Self::HeaderMalformed { .. }
            | Self::HostNotAllowed
            | Self::MethodNotAllowed { .. }
            | Self::MissingSession
            | Self::NotAcceptable
            | Self::NotOneMessage { .. }
            | Self::NotResumable
            | Self::OriginNotAllowed
            | Self::SessionNotFound
            | Self::UnsupportedVersion { .. }
            | Self::WrongContentType => Some(INVALID_REQUEST),
        }
    }

    /// The text of the JSON-RPC error, for people.
    #[must_use]
    pub fn message(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Accepted => "Accepted",
            Self::AlreadyInitialized => "Session is already initialized",
            Self::AppFailed => "The server could not answer: it ended or could not be started",
            Self::BodyTooLarge => "Request body is too large",
            Self::BodyTooSlow => "Request body did not arrive in time",
            Self::CapabilityMissing { required } => {
                let names = ClientCapability::names(required);
                return Cow::Owned(format!("The request needs capabilities that the client has not declared: {names}"));
            }
            Self::CredentialsRefused { given: false } => "Credentials are missing: send Authorization: Bearer TOKEN",
            Self::CredentialsRefused { given: true } => "The credentials are wrong",
            Self::Deleted => "Session deleted",
            Self::DuplicateRequestId => "A request with this id is still in flight",
            Self::HeaderMalformed { name } => return Cow::Owned(format!("Header {name} is malformed or given twice")),
            Self::HeaderMismatch { fault, name } => {
                return Cow::Owned(format!("Header mismatch: {name} {}", fault.as_str()));
            }
            Self::HostNotAllowed => "Host not allowed",
            Self::InboxFull { .. } => "The session has too many messages waiting",
            Self::InitializeIncomplete => "initialize needs protocolVersion, capabilities and clientInfo",
            Self::MetaMissing { key } => {
                return Cow::Owned(format!("Invalid params: _meta needs {key}"));
            }
            Self::MethodNotAllowed { .. } => "Method not allowed",
            Self::MissingSession => "Missing session id: send the Mcp-Session-Id header, or initialize first",
            Self::NotAcceptable => {
                "Accept must allow application/json or text/event-stream (GET and subscriptions/listen: text/event-stream)"
            }
            Self::NotJson => "Parse error: the body is not JSON in UTF-8",
            Self::NotOneMessage { why } => return Cow::Owned(format!("Invalid request: {why}")),
            Self::NotResumable => "The event id cannot be resumed",
            Self::NotTheEndpoint => "Not found",
            Self::OriginNotAllowed => "Origin not allowed",
            Self::Preflight => "The request may be sent",
            Self::RequestExpired => "The request took longer than this server allows",
            Self::SessionEnded => "The session ended before the request was answered",
            Self::SessionNotFound => "Session not found",
            Self::ShuttingDown => "The server is shutting down",
            Self::StoreUnavailable => "What was missed can't be read now",
            Self::StreamOver => "The stream is over",
            Self::TableFull { .. } => "Too many sessions",
            Self::TooManyRequests => "Too many requests or sessions at once",
            Self::UnknownMethod => "Method not found",
            Self::UnsupportedVersion { requested, era } => {
                let served = Self::served(*era).join(", ");
                return Cow::Owned(format!("Unsupported protocol version: {requested} (served: {served})"));
            }
            Self::WrongContentType => "Content-Type must be application/json",
        })
    }

    /// Seconds for the `Retry-After` header.
    #[must_use]
    pub const fn retry_after(&self) -> Option<u8> {
        if let Self::TableFull { retry_after } = self {
            Some(*retry_after)
        } else if matches!(self, Self::ShuttingDown | Self::StoreUnavailable) {
            Some(5)
        } else if matches!(self, Self::InboxFull { .. } | Self::TooManyRequests) {
            Some(1)
        } else {
            None
        }
    }

    /// The whole answer in the legacy era: status, headers, body. `id` is the request's id if it has been read.
    #[must_use]
    pub fn respond(&self, id: Option<&RequestId>) -> Response<Bytes> {
        self.respond_in(Era::Legacy, id)
    }

    /// The whole answer in this era: status, headers, body. `id` is the request's id if it has been read; if not, the legacy era says
    /// `null`, as JSON-RPC demands, and the modern one says nothing, as its schema does (2026-07-28, basic, error responses).
    #[must_use]
    pub fn respond_in(&self, era: Era, id: Option<&RequestId>) -> Response<Bytes> {
        let mut response = Response::new(match self.code() {
            Some(code) => {
                let id = id.map(RequestId::to_json);
                let id = id.or_else(|| (era == Era::Legacy).then(|| "null".to_owned()));
                error_with(id.as_deref(), code, &self.message(), self.data())
            }
            None => Bytes::new(),
        });
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        if self.code().is_some() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        if let Self::MethodNotAllowed { era } = self {
            let allow = match era {
                Era::Legacy => "GET, POST, DELETE",
                Era::Modern => "POST",
            };
            headers.insert(ALLOW, HeaderValue::from_static(allow));
        }
        if let Self::CredentialsRefused { given } = self {
            // RFC 6750, 3: whoever sent no token is told no error.
            headers.insert(
                WWW_AUTHENTICATE,
                HeaderValue::from_static(if *given {
                    r#"Bearer realm="sessile", error="invalid_token""#
                } else {
                    r#"Bearer realm="sessile""#
                }),
            );
        }
        if let Some(seconds) = self.retry_after() {
            headers.insert(RETRY_AFTER, HeaderValue::from(u16::from(seconds)));
        }
        response
    }

    /// The same error as a JSON-RPC message, for a request whose head has left already.
    #[must_use]
    pub fn to_message(&self, id: &RequestId) -> Bytes {
        error_body(Some(id), self.code().unwrap_or(INTERNAL_ERROR), &self.message(), self.data())
    }

    fn data(&self) -> Option<serde_json::Value> {
        if let Self::UnsupportedVersion { requested, era } = self {
            Some(serde_json::json!({"requested": requested, "supported": Self::served(*era)}))
        } else if let Self::CapabilityMissing { required } = self {
            Some(serde_json::json!({"requiredCapabilities": ClientCapability::declared(required)}))
        } else {
            None
        }
    }

    /// The versions of an era. `server/discover` names the same ones for the modern era, and a client that chooses another
    /// from the list of an error to repeat its request with would fail again.
    fn served(era: Era) -> Vec<&'static str> {
        let versions: &[ProtocolVersion] = match era {
            Era::Legacy => &ProtocolVersion::LEGACY,
            Era::Modern => &ProtocolVersion::MODERN,
        };
        versions.iter().copied().map(ProtocolVersion::as_str).collect()
    }
}

/// The status of the answer to a modern request, which is the app's: `code` is that of its error, `None` a result (2026-07-28,
/// transports, protocol version header and server validation; basic, `_meta`).
#[must_use]
pub fn modern_status(code: Option<i64>) -> StatusCode {
    const MODERN: [i32; 3] = [HEADER_MISMATCH, CAPABILITY_MISSING, UNSUPPORTED_VERSION];
    match code {
        Some(code) if code == i64::from(METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(code) if MODERN.iter().any(|modern| i64::from(*modern) == code) => StatusCode::BAD_REQUEST,
        Some(_) | None => StatusCode::OK,
    }
}

/// A JSON-RPC error response. `None` as id is JSON's null.
pub(crate) fn error_body(id: Option<&RequestId>, code: i32, message: &str, data: Option<serde_json::Value>) -> Bytes {
    let id = id.map_or_else(|| "null".to_owned(), RequestId::to_json);
    error_with(Some(&id), code, message, data)
}

/// A JSON-RPC error response with this JSON as id, or without one.
fn error_with(id: Option<&str>, code: i32, message: &str, data: Option<serde_json::Value>) -> Bytes {
    let id = id.map_or_else(String::new, |id| format!("\"id\":{id},"));
    // Strings and values always serialize.
    let message = serde_json::to_string(message).unwrap_or_default();
    let data = data.map_or_else(String::new, |data| format!(",\"data\":{data}"));
    Bytes::from(format!(r#"{{"jsonrpc":"2.0",{id}"error":{{"code":{code},"message":{message}{data}}}}}"#))
}
