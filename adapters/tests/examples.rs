//! The examples, as the programs that they are: each is started, says where it listens, and serves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod http;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A running example, killed at the end.
struct Example {
    child: Child,
    address: String,
}

impl Example {
    /// Starts an example on a free port; it has to print `listening on http://ADDRESS/mcp`.
    ///
    /// cargo builds examples together with tests, but not where one test is asked for by its name: `cargo build --examples` does.
    fn start(name: &str, arguments: &[&str]) -> Self {
        let deps = std::env::current_exe().unwrap();
        let path = deps.ancestors().nth(2).unwrap().join("examples").join(name);
        let command = Command::new(&path).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = command.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on http://").and_then(|rest| rest.strip_suffix("/mcp"));
        let address = address.unwrap_or_else(|| panic!("not what a ready example says: {line:?}")).to_owned();
        Self { child, address }
    }

    /// Posts a message with these lines in the head; gives head and body.
    fn post(&self, lines: &str, message: &str) -> String {
        let answer = http::post(&self.address, lines, message);
        assert!(answer.starts_with("HTTP/1.1 2"), "{answer}");
        answer
    }

    /// Opens a session; gives the line of a head that names it.
    fn open(&self) -> String {
        let answer = self.post(
            "",
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#,
        );
        let line = answer.lines().find(|line| line.starts_with("mcp-session-id: "));
        format!("{}\r\n", line.unwrap_or_else(|| panic!("{answer}")))
    }

    /// Calls a tool in a session; its answer has to hold `expected`.
    fn call(&self, session: &str, tool: &str, expected: &str) {
        let message = format!(
            r#"{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{{"name":"{tool}","arguments":{{}}}}}}"#
        );
        let answer = self.post(session, &message);
        assert!(answer.contains(expected), "{answer}");
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn axum_rmcp() {
    let example = Example::start("axum_rmcp", &["127.0.0.1:0"]);
    let (one, other) = (example.open(), example.open());
    example.call(&one, "increment", r#""text":"1""#);
    example.call(&one, "increment", r#""text":"2""#);
    example.call(&other, "increment", r#""text":"1""#);
    example.call(&other, "whoami", r#""text":"anonymous""#);
    let health = format!("GET /health HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", example.address);
    assert!(http::ask(&example.address, &health).ends_with("\r\n\r\nfine"));
    let modern = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"increment","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    let lines = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: increment\r\n";
    let answer = example.post(lines, modern);
    assert!(answer.contains(r#""text":"1""#), "{answer}");
}
