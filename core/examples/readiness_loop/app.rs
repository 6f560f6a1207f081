//! The MCP server behind the sessions: three tools, and no I/O.
//!
//! Owns what the tools say and when. Does not own who hears it: it names sessions and requests by the handles it was given.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use sessile_core::session::RequestKey;
use sessile_core::{Message, ProtocolVersion, RequestId, SessionKey, Timestamp};

/// Calls that are under way; each has one entry, so the requests in flight bound them.
#[derive(Default)]
pub(crate) struct App {
    later: BTreeMap<(Timestamp, u64), Slow>,
    serial: u64,
}

/// What the app says about a request.
pub(crate) enum Say {
    /// The response.
    Answer(Bytes),
    /// A notification that belongs to it.
    Note(Bytes),
    /// A notification for every session, and the response.
    Shout { note: Bytes, answer: Bytes },
}

/// A call of `slow`.
struct Slow {
    session: SessionKey,
    request: RequestKey,
    id: RequestId,
    token: Option<RequestId>,
    every: Duration,
    done: u32,
    steps: u32,
}

#[derive(Default, Deserialize)]
struct Call {
    name: String,
    #[serde(default)]
    arguments: Arguments,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments {
    text: String,
    steps: u32,
    millis: u32,
}

impl App {
    /// A request of a client. `None`: the answer comes later.
    pub(crate) fn call(
        &mut self,
        now: Timestamp,
        session: SessionKey,
        request: RequestKey,
        message: &Message,
    ) -> Option<Say> {
        let asked = message.as_request()?;
        let result = match &*asked.method {
            "initialize" => initialize(message),
            "ping" => json!({}),
            "tools/list" => tools(),
            "tools/call" => match message.params::<Call>() {
                Ok(Call { name, arguments }) if name == "echo" => text(&arguments.text),
                Ok(Call { name, arguments }) if name == "shout" => {
                    let data = json!({"level": "info", "data": arguments.text});
                    let note = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": data});
                    let answer = answer(&asked.id, &text("all have heard"));
                    return Some(Say::Shout { note: note.to_string().into(), answer });
                }
                Ok(Call { name, arguments }) if name == "slow" => {
                    let slow = Slow {
                        session,
                        request,
                        id: asked.id.clone(),
                        token: asked.progress_token.clone(),
                        every: Duration::from_millis(arguments.millis.max(1).into()),
                        done: 0,
                        steps: arguments.steps.max(1),
                    };
                    self.schedule(now, slow);
                    return None;
                }
                _ => return Some(Say::Answer(error(&asked.id, -32602, "Unknown tool, or wrong arguments"))),
            },
            _ => return Some(Say::Answer(error(&asked.id, -32601, "Method not found"))),
        };
        Some(Say::Answer(answer(&asked.id, &result)))
    }

    /// The next thing that is due. Ask until `None`.
    pub(crate) fn poll(&mut self, now: Timestamp) -> Option<(SessionKey, RequestKey, Say)> {
        loop {
            let first = self.later.first_entry().filter(|first| first.key().0 <= now)?;
            let mut slow = first.remove();
            slow.done += 1;
            let (session, request) = (slow.session, slow.request);
            if slow.done == slow.steps {
                return Some((session, request, Say::Answer(answer(&slow.id, &text("done")))));
            }
            let progress = slow.token.as_ref().map(|token| {
                let (token, done, steps) = (token.to_json(), slow.done, slow.steps);
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{done},"total":{steps}}}}}"#
                )
            });
            self.schedule(now, slow);
            if let Some(progress) = progress {
                return Some((session, request, Say::Note(progress.into())));
            }
        }
    }

    /// When something is due next.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.later.keys().next().map(|(at, _)| *at)
    }

    /// Nobody waits for this request any more; without one, for any of the session.
    pub(crate) fn cancel(&mut self, session: SessionKey, request: Option<RequestKey>) {
        self.later.retain(|_, slow| slow.session != session || request.is_some_and(|request| slow.request != request));
    }

    fn schedule(&mut self, now: Timestamp, slow: Slow) {
        self.serial += 1;
        self.later.insert((now.saturating_add(slow.every), self.serial), slow);
    }
}

fn initialize(message: &Message) -> Value {
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_version: String,
    }
    // The client's version if it is one that we know, else the latest with sessions (2025-11-25, lifecycle).
    let asked = message.params::<Params>().unwrap_or_default().protocol_version;
    let known = ProtocolVersion::parse(asked.as_bytes()).filter(|version| !version.is_modern());
    json!({
        "protocolVersion": known.unwrap_or(ProtocolVersion::LEGACY[0]).as_str(),
        "capabilities": {"logging": {}, "tools": {}},
        "serverInfo": {"name": "readiness-loop", "version": "1.0.0"},
    })
}

fn tools() -> Value {
    let tool = |name: &str, description: &str, properties: Value| json!({"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}});
    json!({"tools": [
        tool("echo", "Says it back", json!({"text": {"type": "string"}})),
        tool("shout", "Says it to every session", json!({"text": {"type": "string"}})),
        tool("slow", "Takes so many steps of so many milliseconds, and reports progress",
            json!({"steps": {"type": "integer"}, "millis": {"type": "integer"}})),
    ]})
}

fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// The id is written as the client wrote it: `1` and `"1"` are different requests.
fn answer(id: &RequestId, result: &Value) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, id.to_json()).into()
}

fn error(id: &RequestId, code: i32, message: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":{code},"message":"{message}"}}}}"#, id.to_json()).into()
}
