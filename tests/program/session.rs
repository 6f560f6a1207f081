//! A session: what every client of one does.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};

use crate::harness::{Program, soon};
use crate::http::{Answer, Connection, Request, ask};

/// How a client wants its answers.
pub(crate) const JSON: &str = "application/json";
pub(crate) const SSE: &str = "text/event-stream";
pub(crate) const ANY: &str = "application/json, text/event-stream";

/// A session, without a connection of its own. Dropping it tells nobody.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) address: SocketAddr,
    pub(crate) id: String,
    last_id: AtomicU64,
}

/// A message that opens a session.
pub(crate) fn initialize() -> Value {
    json!({
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": { "sampling": {} },
            "clientInfo": { "name": "test", "version": "1" },
        },
    })
}

/// Asks for a session.
pub(crate) fn open(program: &Program) -> Answer {
    ask(program.address, &Request::post(initialize().to_string()))
}

impl Session {
    /// Opens a session, handshake and all.
    pub(crate) fn open(program: &Program) -> Self {
        let session = Self::half_open(program);
        let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(session.post(&note, ANY).status, 202);
        session
    }

    /// Opens a session and says no more.
    pub(crate) fn half_open(program: &Program) -> Self {
        let mut answer = open(program);
        let id = answer.header("mcp-session-id").map(str::to_owned);
        let response = answer.response();
        assert!(response["result"].is_object(), "{response}");
        assert_eq!(response["id"], 0);
        Self { address: program.address, id: id.expect("a session id"), last_id: AtomicU64::new(0) }
    }

    /// A request that belongs to it.
    pub(crate) fn request(&self, request: Request) -> Request {
        request.with("Mcp-Session-Id", &self.id).with("MCP-Protocol-Version", "2025-11-25")
    }

    /// Posts a message on a connection of its own.
    pub(crate) fn post(&self, message: &Value, accept: &str) -> Answer {
        ask(self.address, &self.request(Request::post(message.to_string()).with("Accept", accept)))
    }

    /// A call of a tool, with the next id.
    pub(crate) fn message(&self, tool: &str, arguments: &Value) -> Value {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": format!("t{id}") } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    }

    /// Calls a tool and reads no more than the head.
    pub(crate) fn start(&self, tool: &str, arguments: &Value, accept: &str) -> Answer {
        self.post(&self.message(tool, arguments), accept)
    }

    /// Sends a call and reads nothing.
    pub(crate) fn send(&self, tool: &str, arguments: &Value, accept: &str) -> Connection {
        let message = self.message(tool, arguments);
        let mut connection = Connection::open(self.address);
        connection.send(&self.request(Request::post(message.to_string()).with("Accept", accept)));
        connection
    }

    /// Calls a tool and gives the text of its result.
    pub(crate) fn call(&self, tool: &str, arguments: &Value) -> String {
        text(&self.start(tool, arguments, ANY).response())
    }

    /// Calls a tool that answers at once.
    pub(crate) fn echo(&self, text: &str) {
        assert_eq!(self.call("echo", &json!({ "text": text })), text);
    }

    /// The process behind it.
    pub(crate) fn process(&self) -> (u32, Option<u32>) {
        let process: Value = serde_json::from_str(&self.call("process", &json!({}))).expect("JSON");
        let number = |name: &str| process[name].as_u64().map(|pid| u32::try_from(pid).expect("a process id"));
        (number("pid").expect("a process id"), number("grandchild"))
    }

    /// Opens a stream for what is no answer.
    pub(crate) fn listen(&self) -> Answer {
        // R088: its head does not wait for anything to say.
        let answer = soon("a stream", || ask(self.address, &self.request(Request::get())));
        assert_eq!(answer.status, 200);
        assert!(answer.is_stream());
        answer
    }

    /// Ends it; gives the status.
    pub(crate) fn delete(&self) -> u16 {
        ask(self.address, &self.request(Request::bare("DELETE"))).status
    }

    /// Whatever the method, the session is not known.
    pub(crate) fn assert_gone(&self) {
        let ping = json!({ "jsonrpc": "2.0", "id": 7, "method": "ping" }).to_string();
        for request in [Request::post(ping), Request::get(), Request::bare("DELETE")] {
            let mut answer = ask(self.address, &self.request(request.clone()));
            assert_eq!(answer.status, 404, "{}", request.method);
            assert_eq!(answer.json()["error"]["message"], "Session not found");
            assert_eq!(answer.header("mcp-session-id"), None);
        }
    }
}

/// The one text of a result.
pub(crate) fn text(response: &Value) -> String {
    let text = response["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no result: {:.500}", response.to_string())).to_owned()
}
