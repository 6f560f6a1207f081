//! A client of HTTP/1.1 that shows what is on the wire. It waits for bytes and for nothing else.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Far more than anything takes: it turns what would hang into a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// One connection.
pub(crate) struct Wire {
    socket: BufReader<TcpStream>,
    /// Of a stream, what has come and was not taken.
    events: String,
}

/// The head of an answer.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
}

impl Head {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

impl Wire {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("the server listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.set_nodelay(true).expect("an option");
        Self { socket: BufReader::new(socket), events: String::new() }
    }

    pub(crate) fn send(&mut self, bytes: &str) {
        self.socket.get_mut().write_all(bytes.as_bytes()).expect("the server reads");
    }

    /// Sends a request with a body of known length.
    pub(crate) fn request(&mut self, method: &str, headers: &str, body: &str) {
        self.send(&request(method, headers, body));
    }

    pub(crate) fn head(&mut self) -> Head {
        let status = self.line();
        let status = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(|code| code.parse().ok());
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_owned(), value.to_owned()));
        }
        Head { status: status.expect("a status line"), headers }
    }

    /// A whole answer: its head and its body.
    pub(crate) fn answer(&mut self) -> (Head, String) {
        let head = self.head();
        let mut body = String::new();
        if let Some(length) = head.header("content-length") {
            let mut bytes = vec![0; length.parse().expect("a length")];
            self.socket.read_exact(&mut bytes).expect("the whole body");
            body = String::from_utf8(bytes).expect("text");
        } else if head.header("transfer-encoding").is_some() {
            while let Some(event) = self.event() {
                body.push_str(&event);
                body.push_str("\n\n");
            }
        }
        (head, body)
    }

    /// The next event or comment of a stream, without the empty line after it. `None`: the stream has ended.
    pub(crate) fn event(&mut self) -> Option<String> {
        loop {
            if let Some((event, rest)) = self.events.split_once("\n\n") {
                let (event, rest) = (event.to_owned(), rest.to_owned());
                self.events = rest;
                return Some(event);
            }
            let size = usize::from_str_radix(&self.line(), 16).expect("the size of a chunk");
            let mut chunk = vec![0; size];
            self.socket.read_exact(&mut chunk).expect("a whole chunk");
            assert_eq!(self.line(), "", "a line end after the chunk");
            if size == 0 {
                assert_eq!(self.events, "", "a stream ends after an event");
                return None;
            }
            self.events.push_str(&String::from_utf8(chunk).expect("text"));
        }
    }

    /// Whether the server has closed the connection, and nothing is left to read.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.socket.read(&mut [0]).is_ok_and(|len| len == 0)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.socket.read_line(&mut line).expect("a line");
        line.strip_suffix("\r\n").unwrap_or_else(|| panic!("no line: {line:?}")).to_owned()
    }
}

/// A request as it is sent.
pub(crate) fn request(method: &str, headers: &str, body: &str) -> String {
    let kind = if method == "POST" { "content-type: application/json\r\n" } else { "" };
    format!("{method} /mcp HTTP/1.1\r\nhost: localhost\r\n{kind}content-length: {}\r\n{headers}\r\n{body}", body.len())
}
