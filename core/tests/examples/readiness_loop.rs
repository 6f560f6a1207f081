//! The loop over real sockets: several sessions at once, streams, timers, disconnects, junk, and the end.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout};

use super::example;
use super::wire::{Wire, request};

/// The running example.
struct Loop {
    address: SocketAddr,
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Loop {
    fn start(options: &[&str]) -> Self {
        let mut child = example("readiness_loop").args(options).spawn().expect("it starts");
        let stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut started = Self { address: SocketAddr::from(([127, 0, 0, 1], 0)), child, stdout };
        let line = started.line();
        started.address = line.strip_prefix("listening on ").and_then(|rest| rest.parse().ok()).expect("an address");
        started
    }

    /// The next line that it prints.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }

    fn connect(&self) -> Wire {
        Wire::connect(self.address)
    }

    /// Opens a session: its connection, and the header that names it.
    fn open(&self) -> (Wire, String) {
        let mut wire = self.connect();
        wire.request("POST", "", INITIALIZE);
        let (head, body) = wire.answer();
        assert_eq!(head.status, 200, "{body}");
        let id = head.header("mcp-session-id").expect("a session id");
        (wire, format!("mcp-session-id: {id}\r\n"))
    }

    /// Opens the standalone stream of a session, up to its first event.
    fn listen(&self, session: &str) -> Wire {
        let mut wire = self.connect();
        wire.request("GET", &format!("{session}{EVENTS}"), "");
        assert_eq!(wire.head().status, 200);
        assert_eq!(wire.event().as_deref(), Some(":"));
        wire
    }

    fn begin_shutdown(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Waits for its end, which must be a good one.
    fn wait(mut self) {
        assert!(self.child.wait().expect("it is ours").success());
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        // Whatever a test has found, nothing of it stays behind.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const EVENTS: &str = "accept: text/event-stream\r\n";
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{
    "protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
const PING: &str = r#"{"jsonrpc":"2.0","id":9,"method":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":9,"result":{}}"#;

fn call(id: u32, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments},"_meta":{{"progressToken":"t{id}"}}}}}}"#
    )
}

fn progress(id: u32, done: u32, of: u32) -> String {
    format!(
        r#"event: message
data: {{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":"t{id}","progress":{done},"total":{of}}}}}"#
    )
}

fn done(id: u32) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"text":"done","type":"text"}}]}}}}"#)
}

#[test]
fn several_sessions_with_streams_at_once() {
    let server = Loop::start(&[]);
    let mut clients: Vec<_> = (0..4).map(|_| server.open()).collect();
    let mut listeners: Vec<_> = clients.iter().map(|(_, session)| server.listen(session)).collect();
    // Calls with the same ids in different sessions, all of them under way.
    for (wire, session) in &mut clients {
        wire.request("POST", session, &call(2, "slow", r#"{"steps":3,"millis":20}"#));
    }
    let (mut extra, session) = (server.connect(), clients[3].1.clone());
    extra.request("POST", &session, &call(3, "shout", r#"{"text":"hear"}"#));
    assert!(extra.answer().1.contains("all have heard"));
    let heard = r#"event: message
data: {"jsonrpc":"2.0","method":"notifications/message","params":{"data":"hear","level":"info"}}"#;
    for listener in &mut listeners {
        assert_eq!(listener.event().as_deref(), Some(heard));
    }
    for (wire, _) in &mut clients {
        let head = wire.head();
        assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream")));
        assert_eq!(wire.event(), Some(progress(2, 1, 3)));
        assert_eq!(wire.event(), Some(progress(2, 2, 3)));
        assert_eq!(wire.event(), Some(format!("event: message\ndata: {}", done(2))));
        assert_eq!(wire.event(), None);
    }
    // The connections go on.
    for (wire, session) in &mut clients {
        wire.request("POST", session, PING);
        assert_eq!(wire.answer().1, PONG);
    }
}

#[test]
fn requests_may_follow_each_other_before_they_are_answered() {
    let server = Loop::start(&[]);
    let (mut wire, session) = server.open();
    let slow = request("POST", &session, &call(2, "slow", r#"{"steps":1,"millis":20}"#));
    wire.send(&format!("{slow}{}{}", request("POST", &session, PING), request("GET", "", "")));
    assert_eq!(wire.answer().1, done(2));
    assert_eq!(wire.answer().1, PONG);
    // No Accept that allows a stream.
    assert_eq!(wire.answer().0.status, 400);
    wire.request("POST", &session, PING);
    assert_eq!(wire.answer().1, PONG);
}

#[test]
fn a_body_may_come_in_chunks_and_after_a_word_of_ours() {
    let server = Loop::start(&[]);
    let (mut wire, session) = server.open();
    let head = format!("POST /mcp/ HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{session}");
    wire.send(&format!("{head}transfer-encoding: chunked\r\nexpect: 100-continue\r\n\r\n"));
    assert_eq!(wire.head().status, 100);
    let (begin, end) = PING.split_at(7);
    wire.send(&format!("7;extension=1\r\n{begin}\r\n"));
    wire.send(&format!("{:X}\r\n{end}\r\n0\r\ntrailer: 1\r\n\r\n", end.len()));
    assert_eq!(wire.answer().1, PONG);
    // Refused by its head: the body need not come, so the connection ends.
    wire.send("POST /mcp HTTP/1.1\r\nhost: elsewhere\r\ncontent-length: 9\r\nexpect: 100-continue\r\n\r\n");
    let (head, _) = wire.answer();
    assert_eq!((head.status, head.header("connection")), (403, Some("close")));
    assert!(wire.is_closed());
}

#[test]
fn an_idle_session_ends_and_a_busy_one_does_not() {
    let mut server = Loop::start(&["--idle", "50"]);
    let (mut busy, session) = server.open();
    // Five times as long as the timeout.
    busy.request("POST", &session, &call(2, "slow", r#"{"steps":1,"millis":250}"#));
    let head = busy.head();
    assert_eq!(head.header("content-type"), Some("text/event-stream"));
    while let Some(event) = busy.event() {
        assert!(event == ":" || event.contains(&done(2)), "{event}");
    }
    assert_eq!(server.line(), "session closed: idle");
    busy.request("POST", &session, PING);
    assert_eq!(busy.answer().0.status, 404);
}

#[test]
fn a_dropped_stream_is_resumed_where_it_was() {
    let server = Loop::start(&["--resume", "--sse"]);
    let (mut wire, session) = server.open();
    wire.request("POST", &session, &call(2, "slow", r#"{"steps":4,"millis":30}"#));
    assert_eq!(wire.head().status, 200);
    let (mut last, mut seen) = (String::new(), Vec::new());
    let mut take = |event: String| {
        let mut lines = event.lines();
        let id = lines.find_map(|line| line.strip_prefix("id: ")).map(str::to_owned);
        if let Some(data) = lines.find_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty()) {
            seen.push(data.to_owned());
        }
        (id, seen.len())
    };
    while let Some(event) = wire.event() {
        let (id, count) = take(event);
        last = id.unwrap_or(last);
        if count == 1 {
            break;
        }
    }
    drop(wire);
    let mut wire = server.connect();
    wire.request("GET", &format!("{session}{EVENTS}last-event-id: {last}\r\n"), "");
    assert_eq!(wire.head().status, 200);
    while let Some(event) = wire.event() {
        take(event);
    }
    let progress = |done| progress(2, done, 4).lines().nth(1).expect("two lines").replacen("data: ", "", 1);
    assert_eq!(seen, [progress(1), progress(2), progress(3), done(2)]);
}

#[test]
fn deleting_a_session_ends_its_streams_and_calls() {
    let mut server = Loop::start(&[]);
    let (mut calling, session) = server.open();
    let mut listener = server.listen(&session);
    calling.request("POST", &session, &call(2, "slow", r#"{"steps":2,"millis":600000}"#));
    assert_eq!(calling.head().status, 200);
    let mut wire = server.connect();
    wire.request("DELETE", &session, "");
    assert_eq!(wire.answer().0.status, 204);
    assert_eq!(server.line(), "session closed: deleted");
    assert_eq!(listener.event(), None);
    assert_eq!(calling.event().as_deref(), Some(":"));
    assert!(calling.event().is_some_and(|event| event.contains(r#""id":2,"error":"#)));
    assert_eq!(calling.event(), None);
    wire.request("POST", &session, PING);
    assert_eq!(wire.answer().0.status, 404);
}

#[test]
fn a_silent_stream_shows_that_it_lives() {
    let server = Loop::start(&["--keep-alive", "10"]);
    let (_, session) = server.open();
    let mut listener = server.listen(&session);
    for _ in 0..3 {
        assert_eq!(listener.event().as_deref(), Some(":"));
    }
}

#[test]
fn a_client_that_does_not_read_keeps_nobody_waiting() {
    let server = Loop::start(&[]);
    let (mut lazy, session) = server.open();
    let text = "x".repeat(3 << 20);
    lazy.request("POST", &session, &call(2, "echo", &format!(r#"{{"text":"{text}"}}"#)));
    let (mut wire, session) = server.open();
    wire.request("POST", &session, PING);
    assert_eq!(wire.answer().1, PONG);
    assert!(lazy.answer().1.contains(&text));
}

#[test]
fn junk_is_refused_and_forgotten() {
    let server = Loop::start(&[]);
    let (mut good, session) = server.open();
    let long = format!("GET /mcp HTTP/1.1\r\nx: {}", "x".repeat(80 << 10));
    let post = |fields: &str| format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n\r\n");
    let closed: [(u16, String); 8] = [
        (400, "\u{1}\u{2}\u{3}\r\n\r\n".to_owned()),
        (431, long),
        (400, post("content-length: 2\r\ntransfer-encoding: chunked")),
        (400, post("content-length: 2\r\ncontent-length: 2")),
        (400, post("content-length: +2")),
        (400, post("transfer-encoding: gzip, chunked")),
        (400, post(&format!("content-type: application/json\r\n{session}transfer-encoding: chunked")) + "zz\r\n"),
        (413, post("content-type: application/json\r\ncontent-length: 99999999")),
    ];
    for (status, bytes) in closed {
        let mut wire = server.connect();
        wire.send(&bytes);
        let (head, _) = wire.answer();
        assert_eq!((head.status, head.header("connection")), (status, Some("close")), "{:.60}", bytes);
        assert!(wire.is_closed());
    }
    // What is well framed leaves the connection as it was.
    let status = |wire: &mut Wire, method: &str, body: &str| {
        wire.request(method, "", body);
        // An answer to HEAD has no body, whatever its length says.
        if method == "HEAD" { wire.head().status } else { wire.answer().0.status }
    };
    let mut wire = server.connect();
    assert_eq!(status(&mut wire, "POST", "{"), 400);
    assert_eq!(status(&mut wire, "HEAD", ""), 405);
    assert_eq!(status(&mut wire, "PUT", "body"), 405);
    assert_eq!(status(&mut wire, "POST", PING), 400);
    wire.send("GET /elsewhere HTTP/1.1\r\nhost: localhost\r\n\r\n");
    assert_eq!(wire.answer().0.status, 404);
    // And nobody else has noticed anything.
    good.request("POST", &session, PING);
    assert_eq!(good.answer().1, PONG);
}

#[test]
fn a_client_that_leaves_in_the_middle_is_forgotten() {
    let mut server = Loop::start(&["--idle", "50"]);
    let (_, session) = server.open();
    let listener = server.listen(&session);
    // Half a body, and half a head.
    let (mut uploading, mut asking) = (server.connect(), server.connect());
    let whole = request("POST", &session, PING);
    uploading.send(&whole[..whole.len() - 1]);
    asking.send("GET /mc");
    // Once this has been answered, the others have been read.
    let mut wire = server.connect();
    wire.request("POST", &session, PING);
    assert_eq!(wire.answer().1, PONG);
    drop((uploading, asking, listener));
    // Nothing counts as an exchange any more.
    assert_eq!(server.line(), "session closed: idle");
}

#[test]
fn calls_may_finish_when_the_server_ends() {
    let mut server = Loop::start(&[]);
    let (mut calling, session) = server.open();
    let mut listener = server.listen(&session);
    calling.request("POST", &session, &call(2, "slow", r#"{"steps":2,"millis":100}"#));
    assert_eq!(calling.head().status, 200);
    assert_eq!(calling.event(), Some(progress(2, 1, 2)));
    server.begin_shutdown();
    assert_eq!(listener.event().as_deref(), Some("retry: 1000"));
    assert_eq!(listener.event(), None);
    assert!(calling.event().is_some_and(|event| event.contains(&done(2))));
    assert_eq!(calling.event(), None);
    assert!(calling.is_closed());
    assert_eq!(server.line(), "session closed: shutdown");
    server.wait();
}

#[test]
fn calls_that_take_too_long_end_with_the_server() {
    let mut server = Loop::start(&["--drain", "20"]);
    let (mut calling, session) = server.open();
    calling.request("POST", &session, &call(2, "slow", r#"{"steps":2,"millis":600000}"#));
    server.begin_shutdown();
    let (head, body) = calling.answer();
    assert!(body.contains(r#""id":2,"error":"#), "{} {body}", head.status);
    server.wait();
}
