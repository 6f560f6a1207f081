//! The examples, as the programs that they are: each is started, says where it listens, serves, and ends when it is asked to.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod http;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A running example, killed at the end if it still runs.
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

    /// Asks the example to end while a client listens: its stream ends in order, and then the program.
    fn end(mut self, session: &str) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // Nothing takes that long, unless it never comes.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let accept = "Accept: text/event-stream\r\n";
        write!(stream, "GET /mcp HTTP/1.1\r\nHost: {}\r\n{accept}{session}\r\n", self.address).unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        // The first thing on a stream is a comment, or the event that begins it.
        while !line.starts_with(':') && !line.starts_with("id:") {
            line.clear();
            assert!(stream.read_line(&mut line).unwrap() > 0, "no stream");
        }
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).unwrap();
        assert!(rest.ends_with("\r\n0\r\n\r\n"), "{rest:?}");
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn async_std_hyper() {
    let example = Example::start("async_std_hyper", &["127.0.0.1:0"]);
    let session = example.open();
    example.call(&session, "count", r#""text":"1""#);
    example.call(&session, "count", r#""text":"2""#);
    example.end(&session);
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
    example.end(&one);
}

/// The lines of the events in an answer, each an id with the data after it.
fn events(answer: &str) -> Vec<(&str, &str)> {
    let mut lines = answer.lines();
    let mut events = Vec::new();
    while let Some(line) = lines.next() {
        if let Some(id) = line.strip_prefix("id: ") {
            let data = lines.find_map(|line| line.strip_prefix("data:"));
            events.push((id, data.unwrap_or_else(|| panic!("an event without data: {answer}"))));
        }
    }
    events
}

#[test]
fn event_store() {
    let folder = tempfile::tempdir().unwrap();
    let example = Example::start("event_store", &["127.0.0.1:0", folder.path().to_str().unwrap()]);
    let session = example.open();
    let call = r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"log","arguments":{"n":8}}}"#;
    let answer = example.post(&session, call);
    let sent = events(&answer);
    assert_eq!(sent.len(), 10, "{answer}");
    // Whoever has lost all but the first gets the rest again, which is more than memory has.
    let resume = format!("Last-Event-ID: {}\r\nAccept: text/event-stream\r\nConnection: close\r\n", sent[0].0);
    let get = format!("GET /mcp HTTP/1.1\r\nHost: {}\r\n{resume}{session}\r\n", example.address);
    let resumed = http::ask(&example.address, &get);
    assert_eq!(events(&resumed), sent[1..], "{resumed}");
    let session = std::fs::read_dir(folder.path()).unwrap().next().expect("a folder for the session").unwrap();
    let stream = std::fs::read_dir(session.path()).unwrap().next().expect("a folder for the stream").unwrap();
    assert_eq!(std::fs::read_dir(stream.path()).unwrap().count(), sent.len());
}

#[test]
fn function() {
    let example = Example::start("function", &["127.0.0.1:0"]);
    let session = example.open();
    let call = |tool| {
        format!(
            r#"{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{{"name":"{tool}","_meta":{{"progressToken":"t"}}}}}}"#
        )
    };
    let answer = example.post(&session, &call("countdown"));
    let places: Vec<_> =
        [r#""progress":1.0"#, r#""progress":3.0"#, r#""text":"zero""#].map(|part| answer.find(part)).into();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{answer}");
    let answer = example.post(&session, &call("other"));
    assert!(answer.contains("Unknown tool: other"), "{answer}");
    example.end(&session);
}

#[test]
fn smol_hyper() {
    let example = Example::start("smol_hyper", &["127.0.0.1:0"]);
    let (one, other) = (example.open(), example.open());
    example.call(&one, "increment", r#""text":"1""#);
    example.call(&one, "increment", r#""text":"2""#);
    example.call(&other, "increment", r#""text":"1""#);
    example.end(&one);
}
