//! Whether an answer is what a row expects: status, the whole set of headers, the body.

use std::collections::BTreeMap;

use serde_json::Value;
use sessile_tests::pure::Answer;

use crate::row::{Expected, Kind, Names};

/// Headers that the HTTP stack writes; the service knows nothing of them.
const OF_THE_STACK: [&str; 3] = ["content-length", "date", "transfer-encoding"];

/// What is wrong with `answer`.
pub(crate) fn check(expected: &Expected, names: &Names, answer: &Answer) -> Result<(), String> {
    let Some((status, headers)) = &answer.head else {
        return if expected.kind == Kind::Pending { Ok(()) } else { Err("no head has come".to_owned()) };
    };
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    if expected.kind == Kind::Pending || status.as_u16() != expected.status {
        return Err(format!("status {status}, body {body}"));
    }
    check_headers(expected, names, headers)?;
    let open = expected.kind == (Kind::Sse { open: true });
    if answer.done == open {
        return Err(format!("complete: {}, body {body}", answer.done));
    }
    match &expected.kind {
        Kind::Empty | Kind::Pending => same(&body, ""),
        Kind::Json => same(&body, &expected.lines.as_ref().ok_or("a row with JSON says which")?.join("\n")),
        Kind::Sse { .. } => {
            let lines = expected.lines.as_ref().ok_or("a row with a stream says which")?;
            same(&body, &lines.iter().map(|line| format!("{line}\n")).collect::<String>())
        }
        Kind::Error { code, id, message } => {
            let mut body: Value = serde_json::from_str(&body).map_err(|error| format!("{error} in {body}"))?;
            let text = body["error"]["message"].take();
            let text = text.as_str().unwrap_or_default();
            if !text.contains(message) {
                return Err(format!("message {text:?}"));
            }
            let mut error = serde_json::json!({"code": code, "message": null});
            if let Some(data) = &expected.data {
                error["data"] = serde_json::from_str(data).map_err(|error| format!("{error} in {data}"))?;
            }
            let mut whole = serde_json::json!({"jsonrpc": "2.0", "error": error});
            if id != "absent" {
                whole["id"] = serde_json::from_str(id).map_err(|error| format!("{error} in {id}"))?;
            }
            if body == whole { Ok(()) } else { Err(format!("body {body} and not {whole}")) }
        }
    }
}

fn check_headers(expected: &Expected, names: &Names, headers: &http::HeaderMap) -> Result<(), String> {
    let mut wanted: BTreeMap<String, String> = BTreeMap::new();
    match expected.kind {
        Kind::Empty | Kind::Pending => {}
        Kind::Json | Kind::Error { .. } => {
            wanted.insert("content-type".into(), "application/json".into());
        }
        Kind::Sse { .. } => {
            wanted.insert("content-type".into(), "text/event-stream".into());
            wanted.insert("cache-control".into(), "no-cache, no-transform".into());
            wanted.insert("x-accel-buffering".into(), "no".into());
        }
    }
    wanted.extend(expected.headers.iter().cloned());
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| !OF_THE_STACK.contains(&name.as_str())) {
        let value = value.to_str().map_err(|_| format!("{name} is not text"))?.to_owned();
        if let Some(other) = found.insert(name.to_string(), value) {
            return Err(format!("{name} is there twice, {other} as well"));
        }
    }
    // A new session's name is not known before; what it looks like is.
    if wanted.get("mcp-session-id").is_some_and(|wanted| wanted == "$NEW") {
        let Some(id) = found.remove("mcp-session-id") else { return Err("no session id".to_owned()) };
        let hexadecimal =
            id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        if !hexadecimal || id == names.live || id == names.ended {
            return Err(format!("session id {id}"));
        }
        wanted.remove("mcp-session-id");
    }
    if found == wanted { Ok(()) } else { Err(format!("headers {found:?} and not {wanted:?}")) }
}

fn same(found: &str, wanted: &str) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("body {found:?} and not {wanted:?}")) }
}
