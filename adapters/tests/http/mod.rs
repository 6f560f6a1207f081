//! HTTP by hand: one request on a connection of its own, and whatever comes back.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Posts a message to `/mcp`, with these lines in the head; gives what came back within two seconds.
pub(crate) fn post(address: &str, lines: &str, message: &str) -> String {
    ask(
        address,
        &format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n{lines}\r\n{message}",
            message.len(),
        ),
    )
}

/// Sends a request; gives what came back within two seconds.
pub(crate) fn ask(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8(answer).unwrap()
}
