//! Every answer that is not the app's own: outcome to status, headers and body, as one total function.
//!
//! Owns the table of outcomes. Nothing else in this project chooses a status, and no driver overrides one.
//! Codes -32000 to -32019 are not used (2026-07-28, basic, error codes).

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};

use crate::id::RequestId;
use crate::version::{Era, ProtocolVersion};

/// How an exchange ends when the app does not answer it.
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
    /// `Host` is missing or names nobody that we are.
    HostNotAllowed,
    /// The session's inbox is full. Notifications and responses get this as 503 only beyond twice the bound.
    InboxFull {
        /// Whether it was a request, which a client may simply repeat.
        request: bool,
    },
    /// `initialize` without what the schema demands of it.
    InitializeIncomplete,
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
    /// The request took longer than it may.
    RequestExpired,
    /// The session ended with the request in flight.
    SessionEnded,
    /// The session is unknown, ended or foreign, which all look the same.
    SessionNotFound,
    /// The server is shutting down.
    ShuttingDown,
    /// The stream of a resume was answered in full, or cancelled.
    StreamOver,
    /// All sessions are taken.
    TableFull {
        /// Seconds to the next idle deadline, 1 to 60.
        retry_after: u8,
    },
    /// Too many requests of the session are in flight, or the principal has too many sessions.
    TooManyRequests,
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

/// The JSON-RPC code for a request that is wrong in itself.
const INVALID_REQUEST: i32 = -32600;
/// The JSON-RPC code for parameters that are wrong.
const INVALID_PARAMS: i32 = -32602;
/// The JSON-RPC code for a fault on this side.
const INTERNAL_ERROR: i32 = -32603;
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
            Self::Deleted | Self::StreamOver => StatusCode::NO_CONTENT,
            Self::AlreadyInitialized
            | Self::DuplicateRequestId
            | Self::HeaderMalformed { .. }
            | Self::InitializeIncomplete
            | Self::MissingSession
            | Self::NotJson
            | Self::NotOneMessage { .. }
            | Self::NotResumable
            | Self::UnsupportedVersion { .. } => StatusCode::BAD_REQUEST,
            Self::CredentialsRefused { .. } => StatusCode::UNAUTHORIZED,
            Self::HostNotAllowed | Self::OriginNotAllowed => StatusCode::FORBIDDEN,
            Self::NotTheEndpoint | Self::SessionNotFound => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::WrongContentType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::InboxFull { request: true } | Self::TooManyRequests => StatusCode::TOO_MANY_REQUESTS,
            Self::AppFailed | Self::RequestExpired | Self::SessionEnded => StatusCode::INTERNAL_SERVER_ERROR,
            Self::InboxFull { request: false } | Self::ShuttingDown | Self::TableFull { .. } => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        }
    }

    /// The code of the JSON-RPC error in the body. `None` if the answer has no such body.
    #[must_use]
    pub const fn code(&self) -> Option<i32> {
        match self {
            Self::Accepted | Self::Deleted | Self::NotTheEndpoint | Self::StreamOver => None,
            Self::NotJson => Some(PARSE_ERROR),
            Self::UnsupportedVersion { era: Era::Modern, .. } => Some(UNSUPPORTED_VERSION),
            Self::InitializeIncomplete => Some(INVALID_PARAMS),
            Self::AppFailed
            | Self::InboxFull { .. }
            | Self::RequestExpired
            | Self::SessionEnded
            | Self::ShuttingDown
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
            Self::CredentialsRefused { given: false } => "Credentials are missing: send Authorization: Bearer TOKEN",
            Self::CredentialsRefused { given: true } => "The credentials are wrong",
            Self::Deleted => "Session deleted",
            Self::DuplicateRequestId => "A request with this id is still in flight",
            Self::HeaderMalformed { name } => return Cow::Owned(format!("Header {name} is malformed or given twice")),
            Self::HostNotAllowed => "Host not allowed",
            Self::InboxFull { .. } => "The session has too many messages waiting",
            Self::InitializeIncomplete => "initialize needs protocolVersion, capabilities and clientInfo",
            Self::MethodNotAllowed { .. } => "Method not allowed",
            Self::MissingSession => "Missing session id: send the Mcp-Session-Id header, or initialize first",
            Self::NotAcceptable => "Accept must allow application/json or text/event-stream (GET: text/event-stream)",
            Self::NotJson => "Parse error: the body is not JSON in UTF-8",
            Self::NotOneMessage { why } => return Cow::Owned(format!("Invalid request: {why}")),
            Self::NotResumable => "The event id cannot be resumed",
            Self::NotTheEndpoint => "Not found",
            Self::OriginNotAllowed => "Origin not allowed",
            Self::RequestExpired => "The request took longer than this server allows",
            Self::SessionEnded => "The session ended before the request was answered",
            Self::SessionNotFound => "Session not found",
            Self::ShuttingDown => "The server is shutting down",
            Self::StreamOver => "The stream is over",
            Self::TableFull { .. } => "Too many sessions",
            Self::TooManyRequests => "Too many requests or sessions at once",
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
        } else if matches!(self, Self::ShuttingDown) {
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
        let Self::UnsupportedVersion { requested, era } = self else { return None };
        Some(serde_json::json!({"requested": requested, "supported": Self::served(*era)}))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::{Value, json};

    use super::*;

    /// An outcome, its status, its JSON-RPC code, its `Retry-After` and a part of its message.
    type Row = (Outcome, u16, Option<i32>, Option<&'static str>, &'static str);

    fn table() -> Vec<Row> {
        let table = vec![
            (Outcome::Accepted, 202, None, None, "Accepted"),
            (Outcome::AlreadyInitialized, 400, Some(-32600), None, "already initialized"),
            (Outcome::AppFailed, 500, Some(-32603), None, "could not answer"),
            (Outcome::BodyTooLarge, 413, Some(-32600), None, "too large"),
            (Outcome::BodyTooSlow, 408, Some(-32600), None, "in time"),
            (Outcome::CredentialsRefused { given: false }, 401, Some(-32600), None, "Credentials are missing"),
            (Outcome::CredentialsRefused { given: true }, 401, Some(-32600), None, "credentials are wrong"),
            (Outcome::Deleted, 204, None, None, "deleted"),
            (Outcome::DuplicateRequestId, 400, Some(-32600), None, "still in flight"),
            (Outcome::HeaderMalformed { name: "Origin" }, 400, Some(-32600), None, "Header Origin"),
            (Outcome::HostNotAllowed, 403, Some(-32600), None, "Host not allowed"),
            (Outcome::InboxFull { request: false }, 503, Some(-32603), Some("1"), "messages waiting"),
            (Outcome::InboxFull { request: true }, 429, Some(-32603), Some("1"), "messages waiting"),
            (Outcome::InitializeIncomplete, 400, Some(-32602), None, "clientInfo"),
            (Outcome::MethodNotAllowed { era: Era::Legacy }, 405, Some(-32600), None, "Method not allowed"),
            (Outcome::MissingSession, 400, Some(-32600), None, "Mcp-Session-Id"),
            (Outcome::NotAcceptable, 406, Some(-32600), None, "text/event-stream"),
            (Outcome::NotJson, 400, Some(-32700), None, "Parse error"),
            (Outcome::NotOneMessage { why: "the reason" }, 400, Some(-32600), None, "the reason"),
            (Outcome::NotResumable, 400, Some(-32600), None, "cannot be resumed"),
            (Outcome::NotTheEndpoint, 404, None, None, "Not found"),
            (Outcome::OriginNotAllowed, 403, Some(-32600), None, "Origin not allowed"),
            (Outcome::RequestExpired, 500, Some(-32603), None, "took longer"),
            (Outcome::SessionEnded, 500, Some(-32603), None, "ended before"),
            (Outcome::SessionNotFound, 404, Some(-32600), None, "Session not found"),
            (Outcome::ShuttingDown, 503, Some(-32603), Some("5"), "shutting down"),
            (Outcome::StreamOver, 204, None, None, "over"),
            (Outcome::TableFull { retry_after: 37 }, 503, Some(-32603), Some("37"), "Too many sessions"),
            (Outcome::TooManyRequests, 429, Some(-32603), Some("1"), "Too many requests"),
            (
                Outcome::UnsupportedVersion { requested: "2026-07-28".into(), era: Era::Legacy },
                400,
                Some(-32600),
                None,
                "Unsupported protocol version: 2026-07-28",
            ),
            (Outcome::WrongContentType, 415, Some(-32600), None, "application/json"),
        ];
        let rows: BTreeSet<_> = table.iter().map(|(outcome, ..)| row(outcome)).collect();
        assert_eq!(rows.len(), 29, "an outcome is not in the table");
        table
    }

    /// Does not compile when an outcome is added, which then needs a line in the table and the next number here.
    const fn row(outcome: &Outcome) -> u8 {
        match outcome {
            Outcome::Accepted => 0,
            Outcome::AlreadyInitialized => 1,
            Outcome::AppFailed => 2,
            Outcome::BodyTooLarge => 3,
            Outcome::BodyTooSlow => 4,
            Outcome::Deleted => 5,
            Outcome::DuplicateRequestId => 6,
            Outcome::HeaderMalformed { .. } => 7,
            Outcome::HostNotAllowed => 8,
            Outcome::InboxFull { .. } => 9,
            Outcome::InitializeIncomplete => 10,
            Outcome::MethodNotAllowed { .. } => 11,
            Outcome::MissingSession => 12,
            Outcome::NotAcceptable => 13,
            Outcome::NotJson => 14,
            Outcome::NotOneMessage { .. } => 15,
            Outcome::NotResumable => 16,
            Outcome::NotTheEndpoint => 17,
            Outcome::OriginNotAllowed => 18,
            Outcome::SessionEnded => 19,
            Outcome::SessionNotFound => 20,
            Outcome::ShuttingDown => 21,
            Outcome::StreamOver => 22,
            Outcome::TableFull { .. } => 23,
            Outcome::TooManyRequests => 24,
            Outcome::UnsupportedVersion { .. } => 25,
            Outcome::WrongContentType => 26,
            Outcome::RequestExpired => 27,
            Outcome::CredentialsRefused { .. } => 28,
        }
    }

    fn json_of(bytes: &[u8]) -> Value {
        serde_json::from_slice(bytes).expect("JSON")
    }

    /// R035, R037, R040, R049, R053: one table decides every status, and a 404 for a session says so in JSON-RPC.
    #[test]
    fn every_outcome_has_its_status_headers_and_body() {
        for (outcome, status, code, retry_after, message) in table() {
            let response = outcome.respond(None);
            assert_eq!(response.status().as_u16(), status, "{outcome:?}");
            let mut headers = Vec::new();
            if code.is_some() {
                headers.push(("content-type", "application/json"));
            }
            if status == 405 {
                headers.push(("allow", "GET, POST, DELETE"));
            }
            if let Outcome::CredentialsRefused { given } = outcome {
                let challenges = [r#"Bearer realm="sessile""#, r#"Bearer realm="sessile", error="invalid_token""#];
                headers.push(("www-authenticate", challenges[usize::from(given)]));
            }
            headers.extend(retry_after.map(|seconds| ("retry-after", seconds)));
            // Exactly these: no session id, no challenge beside a 401, nothing that differs between two that must look the same.
            let found: Vec<_> = response
                .headers()
                .iter()
                .map(|(name, value)| (name.as_str(), value.to_str().expect("visible characters")))
                .collect();
            assert_eq!(found, headers, "{outcome:?}");
            assert_eq!(outcome.code(), code, "{outcome:?}");
            assert!(outcome.message().contains(message), "{outcome:?}");
            let Some(code) = code else {
                assert!(response.body().is_empty(), "{outcome:?}");
                continue;
            };
            let mut body = json_of(response.body());
            let error = body["error"].as_object_mut().expect("an error");
            let data = error.remove("data");
            assert_eq!(data.is_some(), matches!(outcome, Outcome::UnsupportedVersion { .. }), "{outcome:?}");
            assert_eq!(
                body,
                json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": outcome.message()}}),
                "{outcome:?}"
            );
        }
    }

    /// R052: the id that could be read goes back, with its type.
    #[test]
    fn the_id_of_the_request_is_repeated() {
        for (outcome, _, code, ..) in table() {
            for (id, expected) in [
                (RequestId::Number(1), json!(1)),
                (RequestId::Number(-RequestId::MAX_NUMBER), json!(-RequestId::MAX_NUMBER)),
                (RequestId::String("1".into()), json!("1")),
                (RequestId::String("\"}\u{2028}\n".into()), json!("\"}\u{2028}\n")),
            ] {
                let message = outcome.to_message(&id);
                assert_eq!(json_of(&message)["id"], expected, "{outcome:?}");
                if code.is_some() {
                    assert_eq!(outcome.respond(Some(&id)).body(), &message, "{outcome:?}");
                } else {
                    assert!(outcome.respond(Some(&id)).body().is_empty(), "{outcome:?}");
                }
            }
        }
    }

    /// Some clients take 401 for lost credentials (R037), a code of the modern era for a modern server, and -32000
    /// to -32019 for whatever an earlier server meant by them.
    #[test]
    fn no_outcome_says_what_clients_would_misread() {
        for (outcome, status, code, retry_after, _) in table() {
            assert_eq!(status == 401, matches!(outcome, Outcome::CredentialsRefused { .. }), "{outcome:?}");
            assert!(code.is_none_or(|code| [-32600, -32602, -32603, -32700].contains(&code)), "{outcome:?}");
            // Who should come back is told when, and nobody else is.
            assert_eq!(retry_after.is_some(), matches!(status, 429 | 503), "{outcome:?}");
            assert_eq!(outcome.retry_after().is_some(), retry_after.is_some(), "{outcome:?}");
            // -32603 is our fault or our limit, and the status agrees.
            assert_eq!(code == Some(-32603), status == 429 || status >= 500, "{outcome:?}");
        }
    }

    #[test]
    fn no_two_outcomes_read_the_same() {
        let messages: BTreeSet<_> = table().iter().map(|(outcome, ..)| outcome.message()).collect();
        // The two statuses of a full inbox share theirs.
        assert_eq!(messages.len(), table().len() - 1);
    }

    #[test]
    fn an_unsupported_version_lists_the_served_ones() {
        let outcome = Outcome::UnsupportedVersion { requested: "\"<x>\\".into(), era: Era::Legacy };
        let body = json_of(outcome.respond(Some(&RequestId::Number(3))).body());
        let message = body["error"]["message"].as_str().expect("a message");
        assert!(message.contains("Unsupported protocol version"), "{message}");
        for version in ProtocolVersion::LEGACY {
            assert!(message.contains(version.as_str()), "{message}");
        }
        assert_eq!(
            body["error"]["data"],
            json!({"requested": "\"<x>\\", "supported": ["2025-11-25", "2025-06-18", "2025-03-26"]})
        );
        assert_eq!(body["id"], 3);
    }
}
