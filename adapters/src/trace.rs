//! Spans: one for each message of a client that its app sees, by the OpenTelemetry conventions for MCP servers.
//!
//! Owns their fields. Does not own how long they last: a span ends when its request has been answered, or ended without. They are of
//! level `INFO` and target `sessile::mcp`. Where no subscriber wants them they cost a load of an atomic for each message, and nothing of
//! a message is looked at for them.
//!
//! What goes beyond the conventions or stays behind them:
//!
//! - There is no `mcp.session.id`. Who knows a session's id, and is of its principal, can use the session, so that it must
//!   not stand in traces; `sessile.session` is its fingerprint, which names it in logs too.
//! - `mcp.resource.uri` has neither user information nor query nor fragment, which may hold credentials.
//! - There is no status description, since an error's text may hold anything.
//! - What a client chooses is cut. A method that nobody knows does not name the span.
//!
//! The client's trace context (`traceparent` in `params._meta`; SEP-414; 2026-07-28, basic, `_meta`) is handed on to the app as it
//! came. A library that knows the format may make it the parent or a link of the current span, in the app's call. The parent is
//! otherwise the span that the service was polled in, such as the one of the embedding HTTP server, whose headers are its own.

use std::borrow::Cow;

use http::Version;
use http::request::Parts;
use serde::Deserialize;
use sessile_core::session::{Kind, RequestKey};
use sessile_core::{Message, Outcome, ProtocolVersion, RequestId};
use tracing::Span;
use tracing::field::{Empty, display};

use crate::manager::cell::Cell;
use crate::manager::client::cut;

/// How much of a text of a client goes into a field, in bytes.
const LONGEST: usize = 128;

/// Begins the span of a message. Disabled if nobody wants it.
pub(crate) fn begin<S>(cell: &Cell<S>, message: &Message, parts: &Parts) -> Span {
    // A response goes to whoever has asked, and is no operation of its own.
    if message.method().is_none() {
        return Span::none();
    }
    let span = tracing::info_span!(
        target: "sessile::mcp",
        "mcp",
        otel.name = Empty,
        otel.kind = "server",
        otel.status_code = Empty,
        "error.type" = Empty,
        gen_ai.operation.name = Empty,
        gen_ai.prompt.name = Empty,
        gen_ai.tool.name = Empty,
        jsonrpc.request.id = Empty,
        mcp.method.name = Empty,
        mcp.protocol.version = Empty,
        mcp.resource.uri = Empty,
        network.protocol.name = "http",
        network.protocol.version = Empty,
        network.transport = if parts.version == Version::HTTP_3 { "quic" } else { "tcp" },
        rpc.response.status_code = Empty,
        sessile.session = Empty,
    );
    if !span.is_disabled() {
        describe(&span, cell, message, parts);
    }
    span
}

fn describe<S>(span: &Span, cell: &Cell<S>, message: &Message, parts: &Parts) {
    let Some(method) = message.method() else { return };
    let Named { target, uri } = Named::of(method, message);
    let target = target.as_deref().map(|target| cut(target, LONGEST));
    match (message.known_method(), target) {
        (None, _) => span.record("otel.name", "_OTHER"),
        (Some(known), None) => span.record("otel.name", known),
        (Some(known), Some(target)) => span.record("otel.name", format!("{known} {target}")),
    };
    span.record("mcp.method.name", cut(method, LONGEST));
    match (method, target) {
        ("tools/call", target) => {
            span.record("gen_ai.operation.name", "execute_tool");
            span.record("gen_ai.tool.name", target);
        }
        ("prompts/get", target) => {
            span.record("gen_ai.prompt.name", target);
        }
        _ => {}
    }
    span.record("mcp.resource.uri", uri.as_deref().map(|uri| cut(uri, LONGEST)));
    match message.as_request().map(|request| &request.id) {
        Some(RequestId::Number(id)) => span.record("jsonrpc.request.id", display(id)),
        Some(RequestId::String(id)) => span.record("jsonrpc.request.id", cut(id, LONGEST)),
        None => span,
    };
    let negotiated = cell.version().map(ProtocolVersion::as_str);
    span.record("mcp.protocol.version", message.modern_version().map(|version| cut(version, LONGEST)).or(negotiated));
    let http = match parts.version {
        Version::HTTP_10 => Some("1.0"),
        Version::HTTP_11 => Some("1.1"),
        Version::HTTP_2 => Some("2"),
        Version::HTTP_3 => Some("3"),
        _ => None,
    };
    span.record("network.protocol.version", http);
    if cell.info.kind() == Kind::Session {
        span.record("sessile.session", display(cell.info.fingerprint()));
    }
}

/// What a request names.
struct Named<'a> {
    /// A tool or a prompt.
    target: Option<Cow<'a, str>>,
    /// A resource.
    uri: Option<String>,
}

impl<'a> Named<'a> {
    fn of(method: &str, message: &'a Message) -> Self {
        #[derive(Deserialize)]
        struct Name<'a> {
            #[serde(borrow)]
            name: Cow<'a, str>,
        }
        #[derive(Deserialize)]
        struct Uri<'a> {
            #[serde(borrow)]
            uri: Cow<'a, str>,
        }
        let mut named = Self { target: None, uri: None };
        match method {
            "prompts/get" | "tools/call" => {
                named.target = message.params().ok().map(|Name { name }| name);
            }
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                named.uri = message.params().ok().map(|Uri { uri }| bare(&uri));
            }
            _ => {}
        }
        named
    }
}

/// A URI without the parts that may hold credentials.
fn bare(uri: &str) -> String {
    let uri = &uri[..uri.find(['?', '#']).unwrap_or(uri.len())];
    let Some((scheme, rest)) = uri.split_once("://") else { return uri.to_owned() };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

/// The app has answered.
pub(crate) fn answered(span: &Span, answer: &[u8]) {
    #[derive(Deserialize)]
    struct Answer {
        error: Option<Failure>,
        result: Option<ToolResult>,
    }
    #[derive(Deserialize)]
    struct Failure {
        code: i64,
    }
    #[derive(Deserialize)]
    struct ToolResult {
        #[serde(default, rename = "isError")]
        is_error: bool,
    }
    if span.is_disabled() {
        return;
    }
    match serde_json::from_slice(answer) {
        Ok(Answer { error: Some(Failure { code }), .. }) => {
            span.record("rpc.response.status_code", display(code));
            failed(span, &code.to_string());
        }
        Ok(Answer { result: Some(ToolResult { is_error: true }), .. }) => failed(span, "tool_error"),
        Ok(_) | Err(_) => {}
    }
}

/// The message was refused, and no app has seen it.
pub(crate) fn refused(span: &Span, outcome: &Outcome) {
    if let Some(code) = outcome.code().filter(|_| !span.is_disabled()) {
        span.record("rpc.response.status_code", display(code));
        failed(span, &code.to_string());
    }
}

/// The request has ended without an answer of its app.
pub(crate) fn cancelled(span: &Span) {
    failed(span, "cancelled");
}

/// It has failed in this way.
pub(crate) fn failed(span: &Span, kind: &str) {
    span.record("error.type", kind);
    span.record("otel.status_code", "ERROR");
}

/// The spans of requests in flight whose app is not called. Empty where nobody wants spans.
#[derive(Default)]
pub(crate) struct Spans(Vec<(RequestKey, Span)>);

impl Spans {
    pub(crate) fn put(&mut self, request: RequestKey, span: Span) {
        if !span.is_disabled() {
            self.0.push((request, span));
        }
    }

    pub(crate) fn of(&self, request: RequestKey) -> Option<&Span> {
        self.0.iter().find(|(key, _)| *key == request).map(|(_, span)| span)
    }

    pub(crate) fn take(&mut self, request: RequestKey) -> Option<Span> {
        let at = self.0.iter().position(|(key, _)| *key == request)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Those whose requests are over.
    pub(crate) fn take_over(&mut self, is_over: impl Fn(RequestKey) -> bool) -> Vec<Span> {
        if self.0.is_empty() {
            return Vec::new();
        }
        self.0.extract_if(.., |(key, _)| is_over(*key)).map(|(_, span)| span).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_shown_without_credentials() {
        for (uri, shown) in [
            ("file:///a/b.txt", "file:///a/b.txt"),
            ("https://user:secret@host:8/a?token=secret#x", "https://host:8/a"),
            ("https://a@b@host", "https://host"),
            ("https://host/a@b", "https://host/a@b"),
            ("demo:about?x", "demo:about"),
            ("?", ""),
            ("", ""),
        ] {
            assert_eq!(bare(uri), shown);
        }
    }
}
