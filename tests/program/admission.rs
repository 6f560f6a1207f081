//! What opens a session, and what does not: a refused request costs nothing, least of all a process.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{HOSTILE, Program, Setup, scratch, until};
use crate::http::{Connection, Request, ask};
use crate::session::{Session, initialize, open};

/// A program whose children leave a mark each, however short they live.
struct Counted {
    program: Program,
    marks: String,
}

impl Counted {
    fn start(name: &str, options: &[&str]) -> Self {
        let marks = scratch(name);
        let script = "echo >> \"$0\"; exec \"$@\"";
        // Without the child that would be asked whether it speaks the modern era.
        let options = [&["--eras", "legacy"], options].concat();
        let program = Setup::new(&options).command(&["/bin/sh", "-c", script, &marks, HOSTILE]).start();
        Self { program, marks }
    }

    fn spawned(&self) -> usize {
        fs::read(&self.marks).unwrap_or_default().len()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.marks);
    }
}

fn without(name: &str) -> Vec<u8> {
    let mut message = initialize();
    message["params"].as_object_mut().expect("an object").remove(name);
    message.to_string().into_bytes()
}

/// Requests that open nothing, each with its status.
fn refused() -> Vec<(u16, Request)> {
    let good = || initialize().to_string();
    let post = |message: Value| Request::post(message.to_string());
    let mut null_id = initialize();
    null_id["id"] = Value::Null;
    vec![
        (400, post(json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }))),
        (400, post(json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }))),
        (400, post(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))),
        (400, post(json!({ "jsonrpc": "2.0", "id": 1, "result": {} }))),
        (400, post(json!([initialize()]))),
        (400, post(null_id)),
        (400, Request::post(without("protocolVersion"))),
        (400, Request::post("{\"jsonrpc\":\"2.0\",")),
        (400, Request::post(*b"\"\xff\"")),
        (400, Request::post("")),
        (415, Request::post(good()).with("Content-Type", "text/plain")),
        (406, Request::post(good()).with("Accept", "text/html")),
        (413, Request::post(vec![b' '; 70_000])),
        (403, Request::post(good()).with("Host", "example.com")),
        (403, Request::post(good()).with("Origin", "https://example.com")),
        (404, Request::post(good()).with("Mcp-Session-Id", "00000000-0000-4000-8000-000000000000")),
        (404, Request::post(good()).at("/other")),
        (400, Request::get()),
        (400, Request::bare("DELETE")),
        (405, Request::bare("PUT")),
        (405, Request::bare("HEAD")),
        (405, Request::bare("OPTIONS")),
        (405, Request::bare("PATCH")),
        (
            400,
            post(json!({
                "jsonrpc": "2.0", "id": 1, "method": "server/discover",
                "params": { "_meta": { "io.modelcontextprotocol/protocolVersion": "2026-07-28" } },
            })),
        ),
    ]
}

#[test]
fn three_hundred_bad_requests_leave_nothing() {
    // R002, R005, R008, R009, R018, R044, R047.
    let counted = Counted::start("bad", &["--max-sessions", "1", "--max-body", "64KiB"]);
    let address = counted.program.address;
    let mut sent = 0;
    for _ in 0..12 {
        for (status, request) in refused() {
            let answer = ask(address, &request);
            assert_eq!(answer.status, status, "{request:?}");
            assert_eq!(answer.header("mcp-session-id"), None, "{request:?}");
            sent += 1;
        }
        // R075: half a body, half a head, and no request at all.
        let whole = Request::post(initialize().to_string()).bytes(address);
        for part in [&whole[..whole.len() - 10], &whole[..40], b"\x16\x03\x01\r\n\r\n", b""] {
            let mut connection = Connection::open(address);
            connection.write(part);
            connection.reset();
            sent += 1;
        }
    }
    assert!(sent >= 300, "{sent}");
    assert_eq!(counted.spawned(), 0);
    Session::open(&counted.program).echo("still one free");
    assert_eq!(counted.spawned(), 1);
    assert!(!counted.program.log().contains("ERROR"), "{}", counted.program.log());
}

#[test]
fn a_full_table_refuses_until_a_session_ends() {
    // R021, R027, R182, R191.
    let counted = Counted::start("full", &["--max-sessions", "2"]);
    let first = Session::open(&counted.program);
    let second = Session::open(&counted.program);
    for _ in 0..5 {
        let mut answer = open(&counted.program);
        assert_eq!(answer.status, 503);
        assert!(answer.header("retry-after").is_some());
        assert_eq!(answer.json()["id"], 0);
    }
    assert_eq!(counted.spawned(), 2);
    assert_eq!(first.delete(), 204);
    let third = Session::open(&counted.program);
    second.echo("second");
    third.echo("third");
}

#[test]
fn the_session_that_is_idle_longest_makes_room() {
    // R013, R027.
    let options = ["--max-sessions", "2", "--when-full", "evict-idle", "--idle-timeout", "0"];
    let program = Program::hostile(&options, &[]);
    let first = Session::open(&program);
    let second = Session::open(&program);
    first.echo("not so idle");
    let third = Session::open(&program);
    second.assert_gone();
    first.echo("first");
    third.echo("third");
    until("the evicted child is gone", || (program.tree().len() == 2).then_some(()));
}

#[test]
fn a_body_that_never_comes_holds_nothing() {
    // R005.
    let counted = Counted::start("slow", &["--max-sessions", "1", "--body-timeout", "500ms"]);
    let whole = Request::post(initialize().to_string()).bytes(counted.program.address);
    let mut connection = Connection::open(counted.program.address);
    connection.write(&whole[..whole.len() - 1]);
    Session::open(&counted.program).echo("meanwhile");
    assert_eq!(connection.answer().status, 408);
    assert_eq!(counted.spawned(), 1);
}
