//! Hundreds of requests that are malformed or come too early: none opens a session, starts an app or gives an id away.
//!
//! R002, R005, R008, R009, R018, R046, R047, R181.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use sessile_core::Config;
use sessile_core::session::Delivery;
use sessile_tests::pure::{Answer, Upload, World};

use crate::apps::Scripted;
use crate::raw::{Read as _, handler};
use crate::row::{UNKNOWN, fixture, post, request};

const COUNT: usize = 300;

/// What no POST gets past with: a header in its place, or twice.
const FATAL: [(&str, &str); 12] = [
    ("accept", "application/jsonx"),
    ("accept", "*/*;q=0"),
    ("content-type", "application/json; charset=latin1"),
    ("content-type", "text/plain"),
    ("host", "evil.test"),
    ("host", ""),
    ("mcp-session-id", UNKNOWN),
    ("mcp-session-id", "not an id"),
    ("origin", "null"),
    ("origin", "https://evil.test"),
    ("+mcp-session-id", UNKNOWN),
    ("+content-type", "application/json"),
];

const HARMLESS: [(&str, &str); 6] = [
    ("accept", "*/*"),
    ("authorization", "Bearer nobody-asked"),
    ("last-event-id", "1-1"),
    ("mcp-protocol-version", "2025-06-18"),
    ("mcp-protocol-version", "1999-01-01"),
    ("mcp-session-id", ""),
];

const NEAR: [&str; 24] = [
    "",
    "null",
    "[]",
    "{}",
    "\"initialize\"",
    r#"[{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}]"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":null}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","clientInfo":{}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"capabilities":{},"clientInfo":{}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"capabilities":{},"clientInfo":{}}}"#,
    r#"{"jsonrpc":"2.0","id":null,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}}"#,
    r#"{"jsonrpc":"2.0","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}}"#,
    r#"{"jsonrpc":"2.0","id":1.5,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}}"#,
    r#"{"jsonrpc":"1.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"initialise","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    "$PING",
    "$NOTE",
    "$RESPONSE",
    "$CANCEL",
    "$INIT",
];

/// A small generator (xorshift), so that a seed names a list for ever.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("below a usize")
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

fn put(request: &mut Request<Upload>, (name, value): (&str, &str)) {
    let value = HeaderValue::from_str(value).expect("a header's value");
    let key = HeaderName::from_bytes(name.trim_start_matches('+').as_bytes()).expect("a header's name");
    if name.starts_with('+') {
        let first = request.headers().get(&key).cloned().unwrap_or_else(|| value.clone());
        request.headers_mut().insert(&key, first);
        request.headers_mut().append(key, value);
    } else {
        request.headers_mut().insert(key, value);
    }
}

fn junk(dice: &mut Dice) -> Request<Upload> {
    let method = dice.of(&["POST", "POST", "POST", "POST", "GET", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "BREW"]);
    let near = dice.of(&NEAR);
    let mut body = fixture(near).unwrap_or_else(|| near.to_owned());
    let mut good = near == "$INIT";
    if good && dice.below(2) == 0 {
        body.truncate(1 + dice.below(body.len() - 1));
        good = false;
    }
    let mut made = request(method, Upload::Whole(Bytes::from(body)));
    for _ in 0..dice.below(3) {
        put(&mut made, dice.of(&HARMLESS));
    }
    // What is good in itself gets a fault; what is bad may get one more.
    if good || dice.below(4) == 0 {
        put(&mut made, dice.of(&FATAL));
    }
    if dice.below(20) == 0 {
        put(&mut made, ("content-length", "9999999999"));
        *made.body_mut() = Upload::Never;
    }
    made
}

/// The list that a seed stands for.
#[expect(clippy::print_stderr, reason = "whoever sees this fail needs the seed")]
fn list() -> Vec<Request<Upload>> {
    let seed = std::env::var("SESSILE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5E55_11E5);
    eprintln!("SESSILE_SEED={seed}");
    let mut dice = Dice(seed);
    (0..COUNT).map(|_| junk(&mut dice)).collect()
}

fn one_session() -> Config {
    let mut config = Config::default();
    config.table.max_sessions = 1;
    config
}

fn must_be_refused(at: usize, shown: &str, answer: &Answer) {
    let status = answer.status().unwrap_or_else(|| panic!("{at}: no answer to {shown}"));
    assert!((400..500).contains(&status), "{at}: {status} to {shown}");
    assert_eq!(answer.session_id(), None, "{at}: {shown}");
}

#[test]
fn junk_leaves_nothing_in_the_core() {
    let mut world = World::new(one_session(), Delivery::Call).expect("good settings");
    for (at, request) in list().into_iter().enumerate() {
        let shown = format!("{request:?}");
        let exchange = world.request(None, request);
        world.advance(Duration::from_secs(40));
        must_be_refused(at, &shown, world.answer(exchange));
        assert_eq!((world.len(), world.started()), (0, 0), "{at}: {shown}");
    }
    let opened = world.request(None, post(None, "$INIT"));
    assert!(world.answer(opened).session_id().is_some());
}

#[tokio::test(start_paused = true)]
async fn junk_leaves_nothing_in_the_service() {
    let scripted = Scripted::default();
    let site = handler(one_session(), scripted.clone());
    for (at, request) in list().into_iter().enumerate() {
        let shown = format!("{request:?}");
        let answer = site.send(None, request).await.within(Duration::from_secs(40)).await;
        must_be_refused(at, &shown, &answer);
        assert_eq!((site.manager.sessions(), scripted.started(), scripted.calls()), (0, 0, 0), "{at}: {shown}");
    }
    site.open_as(None).await;
    assert_eq!((site.manager.sessions(), scripted.started()), (1, 1));
}
