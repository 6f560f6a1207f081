//! Requests of the legacy era without sessions: a child and a handshake for each.

use serde_json::{Value, json};

use crate::harness::{Program, soon};
use crate::http::{Answer, Request, ask};
use crate::session::{initialize, text};

fn call(program: &Program, tool: &str, arguments: &Value) -> Answer {
    let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "t" } });
    let message = json!({ "jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params });
    ask(program.address, &Request::post(message.to_string()).with("MCP-Protocol-Version", "2025-06-18"))
}

#[test]
fn each_request_has_a_child_to_itself() {
    // R193, R252.
    let program = Program::hostile(&["--stateless"], &[]);
    let pids = [(); 2].map(|()| {
        let mut answer = call(&program, "process", &json!({}));
        assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None));
        text(&answer.response())
    });
    assert_ne!(pids[0], pids[1]);
    let messages = call(&program, "slow", &json!({ "steps": 2, "ms": 1 })).messages();
    let steps: Vec<_> = messages.iter().map(|message| message["params"]["progress"].as_u64()).collect();
    assert_eq!(steps, [Some(1), Some(2), None], "{messages:?}");
    assert_eq!(messages[2]["id"], "a");
    // One that brings its own handshake gets no other.
    let mut answer = ask(program.address, &Request::post(initialize().to_string()));
    assert_eq!((answer.status, answer.header("mcp-session-id")), (200, None));
    assert_eq!(answer.response()["result"]["protocolVersion"], "2025-11-25");
    program.wait_until_childless();
}

#[test]
fn a_child_that_does_not_begin_is_an_error_at_once() {
    let program = Program::hostile(&["--stateless"], &["--die=initialize"]);
    let mut answer = soon("the error", || call(&program, "echo", &json!({ "text": "x" })));
    assert_eq!((answer.status, &answer.json()["id"]), (500, &json!("a")));
    program.wait_until_childless();
}
