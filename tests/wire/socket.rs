//! A server on a real socket, and a client that writes and reads bytes.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Request, StatusCode};
use sessile::app::Calls;
use sessile::http::{ServeConfig, serve};
use sessile::runtime::tokio::Tokio;
use sessile_core::{Config, Eras};
use sessile_tests::pure::{Answer, Upload};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::apps::Scripted;
use crate::raw::{Site, handler};

/// A [`Site`] behind a socket.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) scripted: Scripted,
    pub(crate) site: Site<Calls<Scripted>>,
}

/// How long a test waits for bytes that must come. Nothing waits so long unless it fails.
const PATIENCE: Duration = Duration::from_secs(20);

impl Server {
    pub(crate) fn start(config: Config) -> Self {
        Self::serving(config, Eras::LEGACY)
    }

    pub(crate) fn serving(config: Config, eras: Eras) -> Self {
        Self::behind(config, eras, |listener, site| {
            let (runtime, service) = (Tokio::current(), site.service.clone());
            tokio::spawn(serve(runtime, listener, service, ServeConfig::default(), std::future::pending()));
        })
    }

    /// The same behind what `listen` puts before it.
    pub(crate) fn behind(config: Config, eras: Eras, listen: impl FnOnce(TcpListener, &Site<Calls<Scripted>>)) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let scripted = Scripted::of(eras);
        let site = handler(config, scripted.clone());
        listen(listener, &site);
        Self { address, scripted, site }
    }

    pub(crate) async fn connect(&self) -> Client {
        Client::connect(self.address).await
    }

    /// One request on a connection of its own: its first answer.
    pub(crate) async fn ask(&self, bytes: impl AsRef<[u8]>) -> Option<Answer> {
        let mut client = self.connect().await;
        client.write(bytes).await;
        client.answer().await
    }

    /// Nothing has come of what was sent, and the server is well.
    pub(crate) async fn is_untouched(&self, what: &str) {
        assert_eq!((self.site.manager.sessions(), self.scripted.started()), (0, 0), "{what}");
    }
}

pub(crate) struct Client {
    stream: TcpStream,
    unread: Vec<u8>,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.expect("the server listens");
        Self { stream, unread: Vec::new() }
    }

    /// Writes as much as the server takes: it may answer and close before all of it.
    pub(crate) async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        drop(self.stream.write_all(bytes.as_ref()).await);
    }

    /// Ends the connection by a reset, as a client that crashes does.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().expect("a socket");
    }

    /// The next answer, complete. `None`: the connection ends without one.
    pub(crate) async fn answer(&mut self) -> Option<Answer> {
        self.answer_until(|_| false).await
    }

    /// The next answer, complete or as far as `enough` says.
    pub(crate) async fn answer_until(&mut self, enough: impl Fn(&Answer) -> bool) -> Option<Answer> {
        // A stream that should not be one never ends, and comments keep it alive.
        timeout(PATIENCE, self.read_answer(enough)).await.expect("an answer that ends")
    }

    async fn read_answer(&mut self, enough: impl Fn(&Answer) -> bool) -> Option<Answer> {
        let mut ended = false;
        loop {
            if let Some((answer, length)) = parse(&self.unread, ended)
                && (answer.done || enough(&answer))
            {
                self.unread.drain(..length);
                return Some(answer);
            }
            if ended {
                assert!(self.unread.is_empty(), "half an answer: {:?}", String::from_utf8_lossy(&self.unread));
                return None;
            }
            ended = self.read().await == 0;
        }
    }

    /// Whether the server has closed the connection, with nothing more to read.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.read().await == 0 && self.unread.is_empty()
    }

    /// Reads on, until there is `text`.
    pub(crate) async fn wait_for(&mut self, text: &str) -> bool {
        while !String::from_utf8_lossy(&self.unread).contains(text) {
            if self.read().await == 0 {
                return false;
            }
        }
        true
    }

    async fn read(&mut self) -> usize {
        let mut buffer = [0; 4096];
        let read = timeout(PATIENCE, self.stream.read(&mut buffer)).await.expect("bytes, or an end");
        // A reset is an end too.
        let length = read.unwrap_or(0);
        self.unread.extend_from_slice(&buffer[..length]);
        length
    }
}

/// The bytes of a request, with the length of its body.
pub(crate) fn bytes_of(request: &Request<Upload>) -> Vec<u8> {
    let mut bytes = format!("{} {} HTTP/1.1\r\n", request.method(), request.uri()).into_bytes();
    for (name, value) in request.headers() {
        bytes.extend_from_slice(format!("{name}: ").as_bytes());
        bytes.extend_from_slice(value.as_bytes());
        bytes.extend_from_slice(b"\r\n");
    }
    let body: &[u8] = match request.body() {
        Upload::Never => b"",
        Upload::Whole(body) => body,
    };
    if !request.headers().contains_key("content-length") && (!body.is_empty() || request.method() == "POST") {
        bytes.extend_from_slice(format!("content-length: {}\r\n", body.len()).as_bytes());
    }
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(body);
    bytes
}

/// The first answer in `bytes` and how many of them it takes. `ended`: no more will come.
fn parse(bytes: &[u8], ended: bool) -> Option<(Answer, usize)> {
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = std::str::from_utf8(&bytes[..head]).expect("a head is text");
    let mut lines = text.lines();
    let status = lines.next()?.split(' ').nth(1)?;
    let status = StatusCode::from_bytes(status.as_bytes()).expect("a status");
    let mut headers = HeaderMap::new();
    for (name, value) in lines.filter_map(|line| line.split_once(": ")) {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a header's name");
        headers.append(name, HeaderValue::from_str(value).expect("a header's value"));
    }
    let rest = &bytes[head..];
    let length = headers.get("content-length").map(|length| length.to_str().expect("text").parse().expect("a number"));
    let (body, done, taken) = if headers.get("transfer-encoding").is_some_and(|coding| coding == "chunked") {
        dechunk(rest)
    } else if let Some(length) = length {
        let taken = rest.len().min(length);
        (rest[..taken].to_vec(), taken == length, taken)
    } else if status.is_informational() || status == 204 {
        (Vec::new(), true, 0)
    } else {
        (rest.to_vec(), ended, rest.len())
    };
    Some((Answer { head: Some((status, headers)), body, done }, head + taken))
}

fn dechunk(bytes: &[u8]) -> (Vec<u8>, bool, usize) {
    let (mut body, mut at) = (Vec::new(), 0);
    while let Some(line) = bytes[at..].windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&bytes[at..at + line]).expect("a chunk's size is text");
        let size = usize::from_str_radix(size, 16).expect("a chunk's size is hexadecimal");
        let start = at + line + 2;
        let Some(chunk) = bytes.get(start..start + size).filter(|_| bytes.len() >= start + size + 2) else { break };
        body.extend_from_slice(chunk);
        at = start + size + 2;
        if size == 0 {
            return (body, true, at);
        }
    }
    (body, false, at)
}
