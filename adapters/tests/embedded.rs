//! The example `embedded`, over real sockets: the endpoint, and the routes beside it that look at it from outside.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../examples/embedded.rs"]
#[allow(dead_code, reason = "its `main` is for people")]
mod embedded;

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

async fn send(address: SocketAddr, line: &str, headers: &str, body: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).await.expect("it listens");
    let len = body.len();
    let request = format!("{line} HTTP/1.1\r\nhost: {address}\r\n{headers}content-length: {len}\r\n\r\n{body}");
    socket.write_all(request.as_bytes()).await.expect("it reads");
    socket
}

/// Reads until the text has come.
async fn read_to(socket: &mut TcpStream, wanted: &str) -> String {
    let mut text = String::new();
    let mut buffer = [0; 4096];
    while !text.contains(wanted) {
        let len = socket.read(&mut buffer).await.expect("it answers");
        assert!(len > 0, "no {wanted:?} in {text:?}");
        text += std::str::from_utf8(&buffer[..len]).expect("UTF-8");
    }
    text
}

/// The whole of an answer.
async fn ask(address: SocketAddr, line: &str, headers: &str, body: &str) -> String {
    let mut socket = send(address, line, &format!("{headers}connection: close\r\n"), body).await;
    let mut text = String::new();
    socket.read_to_string(&mut text).await.expect("it answers");
    text
}

const JSON: &str = "content-type: application/json\r\n";
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
    "capabilities":{},"clientInfo":{"name":"embedding","version":"1"}}}"#;

#[tokio::test]
async fn routes_beside_the_endpoint_list_its_sessions_and_tell_its_clients() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let server = tokio::spawn(async move { embedded::run(listener, stopped).await.map_err(|error| error.to_string()) });

    let opened = ask(address, "POST /mcp", JSON, INITIALIZE).await;
    let id = opened.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).expect("a session").to_owned();
    let session = format!("mcp-session-id: {id}\r\n");
    let mut stream = send(address, "GET /mcp", &format!("{session}accept: text/event-stream\r\n"), "").await;
    // The first byte of a stream is a comment's.
    read_to(&mut stream, "\r\n:").await;

    let status = ask(address, "GET /status", "", "").await;
    assert!(status.contains("embedding") && status.contains("V2025_11_25"), "{status}");
    assert!(!status.contains(&id), "{status}");
    assert!(ask(address, "POST /changed", "", "").await.ends_with("Ok(1)\n"));
    read_to(&mut stream, r#"data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
    assert!(ask(address, "GET /other", "", "").await.contains("/status"));

    stop.send(()).expect("it runs");
    // The stream ends in order, with its last chunk.
    read_to(&mut stream, "\r\n0\r\n\r\n").await;
    server.await.expect("no panic").expect("no error");
}
