//! A blocking HTTP/1.1 client that hides nothing: bytes that are no request, bodies read piece by piece or not at all,
//! and connections that are reset. Libraries for clients go to lengths to keep their users from all of that.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use serde_json::Value;

use crate::harness::LONG;

/// A connection to the program.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
}

/// A request, to be changed as the test wants it. Without changes it is a good POST of a message.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: &'static str,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Request {
    pub(crate) fn post(body: impl Into<Vec<u8>>) -> Self {
        let request = Self { method: "POST", path: "/mcp", headers: Vec::new(), body: Some(body.into()) };
        request.with("Content-Type", "application/json").with("Accept", "application/json, text/event-stream")
    }

    /// A GET of a stream.
    pub(crate) fn get() -> Self {
        Self::bare("GET").with("Accept", "text/event-stream")
    }

    pub(crate) fn bare(method: &'static str) -> Self {
        Self { method, path: "/mcp", headers: Vec::new(), body: None }
    }

    /// With one more header, or another value of one.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// On another path.
    pub(crate) fn at(mut self, path: &'static str) -> Self {
        self.path = path;
        self
    }

    pub(crate) fn bytes(&self, address: SocketAddr) -> Vec<u8> {
        let mut bytes = format!("{} {} HTTP/1.1\r\n", self.method, self.path).into_bytes();
        let mut header = |name: &str, value: &str| bytes.extend(format!("{name}: {value}\r\n").into_bytes());
        if !self.headers.iter().any(|(name, _)| name == "Host") {
            header("Host", &address.to_string());
        }
        for (name, value) in &self.headers {
            header(name, value);
        }
        if let Some(body) = &self.body {
            header("Content-Length", &body.len().to_string());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        bytes
    }
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(LONG)).expect("a time");
        stream.set_write_timeout(Some(LONG)).expect("a time");
        stream.set_nodelay(true).expect("an option");
        Self { stream: BufReader::new(stream), address }
    }

    /// Writes without asking whether it is a request.
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).expect("written");
    }

    /// Sends a request, and reads nothing.
    pub(crate) fn send(&mut self, request: &Request) {
        let bytes = request.bytes(self.address);
        self.write(&bytes);
    }

    /// Closes it in such a way that the peer gets a reset.
    pub(crate) fn reset(self) {
        set_socket_linger(self.stream.get_ref(), Some(Duration::ZERO)).expect("an option");
    }

    /// How long a read may take from now on.
    pub(crate) fn set_patience(&self, patience: Duration) {
        self.stream.get_ref().set_read_timeout(Some(patience)).expect("a time");
    }

    /// Reads the head of an answer.
    pub(crate) fn answer(mut self) -> Answer {
        let line = self.line();
        let status = line.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3));
        let status = status.and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{line:?} is no answer"));
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(": ").unwrap_or_else(|| panic!("{line:?} is no header"));
            headers.push((name.to_ascii_lowercase(), value.to_owned()));
        }
        let mut answer = Answer { status, headers, connection: self, left: Left::Nothing, unread: Vec::new() };
        answer.left = match (answer.header("transfer-encoding"), answer.header("content-length")) {
            (Some("chunked"), None) => Left::Chunks,
            (None, Some(len)) => Left::Bytes(len.parse().expect("a length")),
            (None, None) => Left::Nothing,
            other => panic!("{other:?}"),
        };
        answer
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).expect("a line");
        assert!(line.ends_with(b"\r\n"), "the connection ended within a line: {:?}", String::from_utf8_lossy(&line));
        line.truncate(line.len() - 2);
        String::from_utf8(line).expect("UTF-8")
    }
}

/// An answer whose body is read as the test wants it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    connection: Connection,
    left: Left,
    /// Of a stream of events.
    unread: Vec<u8>,
}

#[derive(Debug)]
enum Left {
    Bytes(usize),
    Chunks,
    Nothing,
}

/// What a stream carries.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item {
    Comment,
    Message(Value),
    /// Without data: it says where the stream can be resumed.
    Primed,
    /// Without data: it says when to come back.
    Retry(u64),
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    /// Whether the answer is a stream of events.
    pub(crate) fn is_stream(&self) -> bool {
        self.header("content-type") == Some("text/event-stream")
    }

    /// The next piece of the body; `None` at its orderly end.
    pub(crate) fn piece(&mut self) -> Option<Vec<u8>> {
        match self.left {
            Left::Nothing => None,
            Left::Bytes(len) => {
                let mut bytes = vec![0; len];
                self.connection.stream.read_exact(&mut bytes).expect("the whole body");
                self.left = Left::Nothing;
                Some(bytes).filter(|bytes| !bytes.is_empty())
            }
            Left::Chunks => {
                let line = self.connection.line();
                let len = usize::from_str_radix(&line, 16).expect("the length of a chunk");
                let mut bytes = vec![0; len + 2];
                self.connection.stream.read_exact(&mut bytes).expect("a whole chunk");
                assert_eq!(bytes.split_off(len), b"\r\n");
                if len == 0 {
                    self.left = Left::Nothing;
                    return None;
                }
                Some(bytes)
            }
        }
    }

    /// The whole body, with its orderly end.
    pub(crate) fn body(&mut self) -> Vec<u8> {
        std::iter::from_fn(|| self.piece()).flatten().collect()
    }

    /// The body as JSON.
    pub(crate) fn json(&mut self) -> Value {
        let body = self.body();
        serde_json::from_slice(&body).unwrap_or_else(|_| panic!("no JSON: {:?}", String::from_utf8_lossy(&body)))
    }

    /// The next item of a stream; `None` at its orderly end.
    pub(crate) fn item(&mut self) -> Option<Item> {
        assert!(self.is_stream(), "{:?}", self.headers);
        let mut scanned = 0;
        let end = loop {
            if let Some(end) = end_of_event(&self.unread, &mut scanned) {
                break end;
            }
            let Some(piece) = self.piece() else {
                assert_eq!(self.unread, b"", "the stream ended within an event");
                return None;
            };
            self.unread.extend(piece);
        };
        let event: Vec<u8> = self.unread.drain(..end).collect();
        let event = String::from_utf8(event).expect("UTF-8");
        let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        Some(match (field("data"), field("retry")) {
            (Some(""), _) => {
                assert!(field("id").is_some(), "{event:?}");
                Item::Primed
            }
            (Some(data), _) => Item::Message(serde_json::from_str(data).expect("JSON")),
            (None, Some(retry)) => Item::Retry(retry.parse().expect("a time")),
            (None, None) => {
                assert!(event.starts_with(':'), "{event:?}");
                Item::Comment
            }
        })
    }

    /// The next message of a stream; `None` at its orderly end.
    pub(crate) fn message(&mut self) -> Option<Value> {
        loop {
            match self.item()? {
                Item::Message(message) => return Some(message),
                Item::Comment | Item::Primed | Item::Retry(_) => {}
            }
        }
    }

    /// Whether anything of the body can be read within the patience that was set. Nothing is lost if not.
    pub(crate) fn is_readable(&mut self) -> bool {
        match self.connection.stream.fill_buf() {
            Ok(_) => true,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => false,
            Err(error) => panic!("{error}"),
        }
    }

    /// All messages of a stream up to its orderly end, or the one of a JSON body.
    pub(crate) fn messages(&mut self) -> Vec<Value> {
        if self.is_stream() {
            return std::iter::from_fn(|| self.message()).collect();
        }
        vec![self.json()]
    }

    /// The response, which comes last.
    pub(crate) fn response(&mut self) -> Value {
        self.messages().pop().expect("a response")
    }

    /// Leaves in such a way that the peer gets a reset.
    pub(crate) fn reset(self) {
        self.connection.reset();
    }

    /// The connection, once the body has been read.
    pub(crate) fn connection(self) -> Connection {
        assert!(matches!(self.left, Left::Nothing), "there is more to read");
        self.connection
    }

    /// How long a read may take from now on.
    pub(crate) fn set_patience(&self, patience: Duration) {
        self.connection.set_patience(patience);
    }
}

/// Where the first event ends, if it does: behind an empty line. Goes on at the line where it stopped before.
fn end_of_event(bytes: &[u8], scanned: &mut usize) -> Option<usize> {
    loop {
        let mut rest = &bytes[*scanned..];
        // The standard library's search is fast even where ours is not optimized.
        let len = rest.skip_until(b'\n').expect("a slice");
        if len == 0 || bytes[*scanned + len - 1] != b'\n' {
            return None;
        }
        *scanned += len;
        if len == 1 {
            return Some(*scanned);
        }
    }
}

/// Sends a request on a connection of its own.
pub(crate) fn ask(address: SocketAddr, request: &Request) -> Answer {
    let mut connection = Connection::open(address);
    connection.send(request);
    connection.answer()
}

/// Whether the program takes no connection, or ends it unanswered.
pub(crate) fn is_refused(address: SocketAddr, request: &Request) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return true };
    stream.set_read_timeout(Some(LONG)).expect("a time");
    let mut answer = Vec::new();
    if stream.write_all(&request.clone().with("Connection", "close").bytes(address)).is_err() {
        return true;
    }
    match stream.read_to_end(&mut answer) {
        Ok(_) => answer.is_empty() || answer.starts_with(b"HTTP/1.1 503 "),
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}
