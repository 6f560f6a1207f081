//! What the app of a suite says, as data: the pure driver and the apps of the adapters follow the same script.

use std::time::Duration;

use serde::Deserialize;
use sessile_core::{Message, ProtocolVersion, RequestId};

/// One thing that a scripted app does about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Say {
    /// Ends by itself, with an error.
    Crash,
    /// Answers with an error.
    Error(i32, String),
    /// Sends a notification about the request.
    Note(String),
    /// Answers with this result.
    Result(String),
    /// Sends a notification that belongs to no request.
    SessionNote(String),
    /// Does nothing for a time.
    Wait(Duration),
}

/// What the app does about a request, by its method. A script without `Result`, `Error` and `Crash` never answers.
///
/// `initialize` is answered by the name of the client: `refused` with an error, `crash` with an end, `silent` never, `slow` after
/// 6 s, others at once.
#[must_use]
pub fn script(message: &Message) -> Vec<Say> {
    let result = |text: &str| Say::Result(text.to_owned());
    let note = |number: u32| format!(r#"{{"number":{number}}}"#);
    match message.method().unwrap_or_default() {
        "initialize" => initialize(message),
        "crash" => vec![Say::Crash],
        "hang" => vec![Say::Wait(Duration::from_secs(1_000_000))],
        "late" => vec![Say::Wait(Duration::from_millis(300)), result(r#"{"late":true}"#)],
        "long" => vec![Say::Wait(Duration::from_secs(10)), result(r#"{"long":true}"#)],
        "noted" => vec![Say::Note(note(1)), Say::Note(note(2)), result(r#"{"noted":true}"#)],
        "noted-late" => vec![Say::Note(note(1)), Say::Wait(Duration::from_secs(1)), result(r#"{"noted":true}"#)],
        "ping" | "subscriptions/listen" => vec![result("{}")],
        "server/discover" => vec![result(r#"{"supportedVersions":["2026-07-28"]}"#)],
        "tools/call" | "prompts/get" | "resources/read" => vec![result(r#"{"called":true}"#)],
        "wants-sampling" => vec![Say::Error(-32021, "Missing capability".to_owned())],
        "wrong" => vec![Say::Error(-32602, "Invalid params".to_owned())],
        "tell-session" => vec![Say::SessionNote(note(1)), result("{}")],
        _ => vec![Say::Error(-32601, "Method not found".to_owned())],
    }
}

fn initialize(message: &Message) -> Vec<Say> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        client_info: Client,
        protocol_version: String,
    }
    #[derive(Deserialize)]
    struct Client {
        name: String,
    }
    let params: Params = message.params().expect("the gate lets only a complete initialize through");
    let asked = ProtocolVersion::parse(params.protocol_version.as_bytes());
    let version =
        asked.filter(|version| ProtocolVersion::LEGACY.contains(version)).unwrap_or(ProtocolVersion::LEGACY[0]);
    let result = Say::Result(format!(r#"{{"protocolVersion":"{version}"}}"#));
    match params.client_info.name.as_str() {
        "crash" => vec![Say::Crash],
        "refused" => vec![Say::Error(-32602, "No such client".to_owned())],
        "silent" => vec![Say::Wait(Duration::from_secs(1_000_000))],
        "slow" => vec![Say::Wait(Duration::from_secs(6)), result],
        _ => vec![result],
    }
}

/// The method of the notifications that scripts send.
pub const NOTE_METHOD: &str = "notifications/message";

/// A notification as a scripted app writes it.
#[must_use]
pub fn note(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{NOTE_METHOD}","params":{params}}}"#)
}

/// A result as a scripted app writes it.
#[must_use]
pub fn result(id: &RequestId, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.to_json())
}

/// An error as a scripted app writes it.
#[must_use]
pub fn error(id: &RequestId, code: i32, text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"{text}"}}}}"#, id.to_json())
}
