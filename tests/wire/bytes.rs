//! What only bytes can say: heads that are no heads, bodies that lie, connections that break. R075 to R077, R145, R147.

use std::time::Duration;

use http::HeaderValue;
use sessile_core::{Config, Eras};

use crate::raw::Read as _;
use crate::row::{fixture, get, post};
use crate::socket::{Server, bytes_of};

fn small() -> Config {
    let mut config = Config::default();
    config.gate.max_body = 256;
    config
}

fn initialize() -> String {
    fixture("$INIT").expect("a fixture")
}

/// A POST with these lines in its head, and this after it.
fn posting(lines: &str, body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n{lines}\r\n{body}"
    )
}

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// No answer at all, or one that refuses; in either case no session.
async fn is_refused(server: &Server, what: &str, bytes: impl AsRef<[u8]>) {
    let mut client = server.connect().await;
    client.write(bytes).await;
    if let Some(answer) = client.answer().await {
        let status = answer.status().expect("a status");
        assert!((400..500).contains(&status), "{what}: {status} {}", answer.text());
        assert_eq!(answer.session_id(), None, "{what}");
    }
    server.is_untouched(what).await;
}

async fn works(server: &Server) {
    let opened = server.ask(bytes_of(&post(None, "$INIT"))).await.expect("an answer");
    assert_eq!((opened.status(), opened.session_id().is_some()), (Some(200), true));
}

#[tokio::test]
async fn heads_that_are_none_are_refused() {
    let server = Server::start(small());
    let body = initialize();
    let length = body.len();
    let good = posting(&format!("content-length: {length}\r\n"), &body);
    for (what, bytes) in [
        ("no HTTP", "GARBAGE\r\n\r\n".to_owned()),
        ("no version", "POST /mcp\r\n\r\n".to_owned()),
        ("what is almost HTTP/2", "PRI * HTTP/2.0\r\n\r\nMS\r\n\r\n".to_owned()),
        ("another version", good.replacen("HTTP/1.1", "HTTP/3.7", 1)),
        ("a target with a space", good.replacen("/mcp", "/m cp", 1)),
        ("a header without a colon", good.replacen("accept:", "accept", 1)),
        ("a name with a space", good.replacen("accept:", "acc ept:", 1)),
        ("a space before the colon", good.replacen("content-length:", "content-length :", 1)),
        ("a folded line", good.replacen("accept: ", "accept:\r\n ", 1)),
        ("a zero in a value", good.replacen("localhost", "local\0host", 1)),
        ("two lengths", posting(&format!("content-length: {length}\r\ncontent-length: {}\r\n", length + 1), &body)),
        ("two lengths on one line", posting(&format!("content-length: {length}, {}\r\n", length + 1), &body)),
        ("a signed length", posting(&format!("content-length: +{length}\r\n"), &body)),
        ("a negative length", posting("content-length: -1\r\n", &body)),
        ("a length beyond all numbers", posting("content-length: 99999999999999999999999999\r\n", &body)),
        ("an unknown transfer coding", posting("transfer-encoding: gzip\r\n", &body)),
        ("a head beyond all bounds", good.replacen("accept: ", &format!("x: {}\r\naccept: ", "x".repeat(1 << 20)), 1)),
        (
            "more headers than anybody needs",
            good.replacen("accept: ", &format!("{}accept: ", "x: y\r\n".repeat(1_000)), 1),
        ),
    ] {
        is_refused(&server, what, bytes).await;
    }
    works(&server).await;
}

#[tokio::test]
async fn chunked_bodies_that_lie_are_refused() {
    let server = Server::start(small());
    let body = initialize();
    let chunked = "transfer-encoding: chunked\r\n";
    for (what, chunks) in [
        ("a size that is none", format!("zz\r\n{body}\r\n0\r\n\r\n")),
        ("a size beyond all numbers", format!("ffffffffffffffffff\r\n{body}\r\n0\r\n\r\n")),
        ("a negative size", format!("-1\r\n{body}\r\n0\r\n\r\n")),
        ("a size that is too small", format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len() - 1)),
        ("more than the limit in one", format!("{}0\r\n\r\n", chunk(&" ".repeat(257)))),
        ("more than the limit in many", format!("{}0\r\n\r\n", chunk(" ").repeat(257))),
        ("more than the limit after a good one", format!("{}{}0\r\n\r\n", chunk(&body), chunk(&" ".repeat(257)))),
    ] {
        is_refused(&server, what, posting(chunked, &chunks)).await;
    }
    // What is chunked and says its length too is one request or none, never two.
    let both = posting(&format!("content-length: 4\r\n{chunked}"), &format!("{}0\r\n\r\n", chunk("{}  ")));
    is_refused(&server, "chunked, with a length", both).await;
    let whole: String = initialize().split_inclusive(',').map(chunk).collect();
    let answer = server.ask(posting(chunked, &format!("{whole}0\r\ntrailer: x\r\n\r\n"))).await.expect("an answer");
    assert_eq!((answer.status(), answer.session_id().is_some()), (Some(200), true));
}

/// R147: the answer comes before the body does.
#[tokio::test]
async fn a_body_declared_too_large_is_refused_unread() {
    let server = Server::start(small());
    for length in ["257", "8589934592", "18446744073709551615"] {
        let mut client = server.connect().await;
        client.write(posting(&format!("content-length: {length}\r\n"), "")).await;
        let answer = client.answer().await.expect("an answer");
        // The last is more than HTTP stacks count to.
        let wanted = if length.len() < 20 { 413 } else { 431 };
        assert_eq!(answer.status(), Some(wanted), "{length}");
        assert!(client.is_closed().await, "{length}");
    }
    // With `Expect: 100-continue` nothing asks for the body.
    let mut client = server.connect().await;
    client.write(posting("content-length: 257\r\nexpect: 100-continue\r\n", "")).await;
    let answer = client.answer().await.expect("an answer");
    assert_eq!((answer.status(), answer.header("connection").as_deref()), (Some(413), Some("close")));
    server.is_untouched("too large").await;
    works(&server).await;
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_for_its_body_is_asked() {
    let server = Server::start(small());
    let body = initialize();
    let mut client = server.connect().await;
    client.write(posting(&format!("content-length: {}\r\nexpect: 100-continue\r\n", body.len()), "")).await;
    assert_eq!(client.answer().await.expect("an interim answer").status(), Some(100));
    client.write(&body).await;
    assert_eq!(client.answer().await.expect("an answer").status(), Some(200));
    assert_eq!(server.site.manager.sessions(), 1);
}

/// The virtual clock's row for this is in `rows/body.txt`; here the connection ends too.
#[tokio::test]
async fn a_body_that_is_too_slow_ends_its_connection() {
    let mut config = small();
    config.gate.body_timeout = Duration::from_millis(20);
    let server = Server::start(config);
    let mut client = server.connect().await;
    client.write(posting("content-length: 150\r\n", "{")).await;
    let answer = client.answer().await.expect("an answer");
    assert_eq!((answer.status(), answer.header("connection").as_deref()), (Some(408), Some("close")));
    assert!(client.is_closed().await);
    server.is_untouched("too slow").await;
}

/// R075, R076, R077: nothing is left, nobody else notices.
#[tokio::test]
async fn half_a_body_and_a_reset_leave_nothing() {
    let captured = crate::captured::Captured::of_this_thread();
    let server = Server::start(small());
    let body = initialize();
    for at in (0..body.len()).step_by(7) {
        let mut client = server.connect().await;
        client.write(posting(&format!("content-length: {}\r\n", body.len()), &body[..at])).await;
        client.reset();
        let mut client = server.connect().await;
        client.write(&bytes_of(&post(None, "$INIT"))[..at]).await;
        client.reset();
    }
    works(&server).await;
    assert_eq!((server.site.manager.sessions(), server.scripted.started()), (1, 1));
    let lines = captured.lines();
    let loud = lines.iter().find(|line| line.starts_with("WARN") || line.starts_with("ERROR"));
    assert_eq!(loud, None);
}

/// A client that leaves while its call runs is noticed, and costs nobody anything.
#[tokio::test]
async fn a_reset_during_a_call_ends_the_connection_alone() {
    let server = Server::start(Config::default());
    let opened = server.ask(bytes_of(&post(None, "$INIT"))).await.expect("an answer");
    let id = opened.session_id().expect("a session");
    for number in 0..20 {
        let mut client = server.connect().await;
        client
            .write(bytes_of(&post(Some(&id), &format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"noted-late"}}"#))))
            .await;
        assert!(client.wait_for("\"number\":1").await);
        client.reset();
        let mut stream = server.connect().await;
        stream.write(bytes_of(&get(&id))).await;
        assert!(stream.wait_for(":\n\n").await);
        stream.reset();
        let ping = r#"{"jsonrpc":"2.0","id":"ping","method":"ping"}"#;
        let ping = server.ask(bytes_of(&post(Some(&id), ping))).await.expect("an answer");
        assert_eq!(ping.status(), Some(200));
    }
}

#[tokio::test]
async fn http_1_0_is_served() {
    let server = Server::start(Config::default());
    let body = initialize();
    let head = posting(&format!("content-length: {}\r\n", body.len()), &body).replacen("HTTP/1.1", "HTTP/1.0", 1);
    let opened = server.ask(head).await.expect("an answer");
    let id = opened.session_id().expect("a session");
    // A stream has no chunks, and ends with its connection.
    let mut call = post(Some(&id), r#"{"jsonrpc":"2.0","id":1,"method":"noted"}"#);
    call.headers_mut().insert("accept", HeaderValue::from_static("text/event-stream"));
    let bytes = String::from_utf8(bytes_of(&call)).expect("text").replacen("HTTP/1.1", "HTTP/1.0", 1);
    let mut client = server.connect().await;
    client.write(bytes).await;
    let answer = client.answer().await.expect("an answer");
    assert_eq!((answer.header("transfer-encoding"), answer.messages().len()), (None, 3));
}

/// One connection carries many requests, refused ones among them, and answers come in order.
#[tokio::test]
async fn a_connection_goes_on_after_refusals() {
    let server = Server::start(Config::default());
    let opened = server.ask(bytes_of(&post(None, "$INIT"))).await.expect("an answer");
    let id = opened.session_id().expect("a session");
    let mut wrong = post(Some(&id), "$PING");
    wrong.headers_mut().insert("content-type", HeaderValue::from_static("text/plain"));
    let requests =
        [post(Some(&id), "$PING"), wrong, post(None, "$PING"), post(Some(&id), "{"), post(Some(&id), "$NOTE")];
    let mut client = server.connect().await;
    for round in 0..3 {
        // Written one by one, then all at once.
        if round < 2 {
            for (request, status) in requests.iter().zip([200, 415, 400, 400, 202]) {
                client.write(bytes_of(request)).await;
                assert_eq!(client.answer().await.expect("an answer").status(), Some(status), "{round}");
            }
        } else {
            client.write(requests.iter().flat_map(bytes_of).collect::<Vec<_>>()).await;
            for status in [200, 415, 400, 400, 202] {
                assert_eq!(client.answer().await.expect("an answer").status(), Some(status), "{round}");
            }
        }
    }
}

/// R257: each request is what it says it is, whatever came before it on its connection.
#[tokio::test]
async fn one_connection_carries_both_eras() {
    let server = Server::serving(Config::default(), Eras::BOTH);
    let mut discover = post(None, "$DISCOVER");
    for (name, value) in [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "server/discover")] {
        discover.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    let mut client = server.connect().await;
    client.write(bytes_of(&post(None, "$INIT"))).await;
    let id = client.answer().await.expect("an answer").session_id().expect("a session");
    for _ in 0..5 {
        client.write(bytes_of(&discover)).await;
        let modern = client.answer().await.expect("an answer");
        assert_eq!((modern.status(), modern.session_id()), (Some(200), None));
        assert_eq!(modern.messages()[0]["result"]["supportedVersions"][0], "2026-07-28");
        client.write(bytes_of(&post(Some(&id), "$PING"))).await;
        let legacy = client.answer().await.expect("an answer");
        assert_eq!((legacy.status(), legacy.text().as_str()), (Some(200), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#));
    }
    assert_eq!((server.site.manager.sessions(), server.site.manager.stats().sessionless), (1, 0));
}
