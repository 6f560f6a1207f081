//! Requests of the clients, and the connections that they travel on.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use fastrand::Rng;
use http::{HeaderMap, Method, Request, StatusCode};
use hyper::rt::{Read as _, ReadBuf, Write as _};
use serde_json::{Value, json};
use sessile::runtime::{Runtime as _, timeout_at};
use sessile_tests::line::{Exchange, Line, Lost, Sending};
use sessile_tests::principals::WHO;
use sessile_tests::pure::Upload;
use sessile_tests::sim::Faults;

use crate::plan::Greeting;
use crate::server::Site;

/// The way of one client to the server. Cheap to clone; clones share their idle connections.
#[derive(Clone)]
pub(crate) struct Way {
    idle: Arc<Mutex<Vec<Line>>>,
    rng: Arc<Mutex<Rng>>,
    pub(crate) site: Site,
    pub(crate) who: &'static str,
}

/// How long a client waits for anything. Nobody needs so long.
const PATIENCE: Duration = Duration::from_secs(10 * 60);

impl Way {
    pub(crate) fn new(site: &Site, who: &'static str, rng: Rng) -> Self {
        Self { idle: Arc::default(), rng: Arc::new(Mutex::new(rng)), site: site.clone(), who }
    }

    /// A random choice.
    pub(crate) fn random<T>(&self, choose: impl FnOnce(&mut Rng) -> T) -> T {
        choose(&mut self.rng.lock().expect("nothing panics while it is held"))
    }

    pub(crate) fn one_in(&self, n: u32) -> bool {
        self.random(|rng| rng.u32(..n) == 0)
    }

    pub(crate) async fn pause(&self, most_millis: u64) {
        self.site.sim.sleep(Duration::from_millis(self.random(|rng| rng.u64(..=most_millis)))).await;
    }

    /// Waits for `future`, but not for ever.
    pub(crate) async fn patiently<F: Future>(&self, future: F) -> Option<F::Output> {
        let sim = &self.site.sim;
        timeout_at(sim, sim.now().saturating_add(PATIENCE), future).await
    }

    /// Waits for `future` for a time of at most so many milliseconds.
    pub(crate) async fn leave_in<F: Future>(&self, most_millis: u64, future: F) -> Option<F::Output> {
        let (sim, time) = (&self.site.sim, Duration::from_millis(self.random(|rng| rng.u64(..most_millis))));
        timeout_at(sim, sim.now().saturating_add(time), future).await
    }

    /// Sends a request over an idle connection, if there is one, or over a fresh one. `None`: the server takes no more of them.
    pub(crate) async fn send(&self, request: Request<Upload>) -> Option<Exchange> {
        let idle = self.idle.lock().expect("nothing panics while it is held").pop();
        let line = match idle.filter(|_| !self.one_in(3)) {
            Some(line) => line,
            None => {
                let faults = self.random(|rng| match rng.u32(..2) {
                    0 => [Faults::NONE; 2],
                    _ => [Faults::random(rng), Faults::random(rng)],
                });
                let stream = self.site.memory.connect(self.site.address, faults).ok()?;
                Line::open(stream).await.ok()?
            }
        };
        Some(line.send(request.map(Sending::from)))
    }

    /// Sends a request and reads its answer to the end, which must come. `None`: it was lost on the way.
    pub(crate) async fn ask(&self, request: Request<Upload>) -> Option<(StatusCode, HeaderMap, Bytes)> {
        let mut exchange = self.send(request).await?;
        let read = async {
            let (status, headers) = exchange.head().await?;
            let mut body = Vec::new();
            while let Some(piece) = exchange.piece().await? {
                body.extend_from_slice(&piece);
            }
            Ok::<_, Lost>((status, headers, body.into()))
        };
        let answer = self.patiently(read).await.expect("an answer that ends").ok()?;
        self.keep(exchange).await;
        Some(answer)
    }

    /// Keeps the connection of an exchange that is over.
    pub(crate) async fn keep(&self, exchange: Exchange) {
        if let Some(Some(line)) = self.patiently(exchange.into_line()).await {
            self.idle.lock().expect("nothing panics while it is held").push(line);
        }
    }

    /// A request with the usual headers of its method.
    pub(crate) fn request(&self, method: Method, session: Option<&str>, body: &Value) -> Request<Upload> {
        let whole = if body.is_null() { Bytes::new() } else { body.to_string().into() };
        let mut request =
            Request::builder().method(&method).uri("/mcp").header("host", "localhost").header(WHO, self.who);
        if method == Method::POST {
            let accepts = if self.one_in(6) { "application/json" } else { "application/json, text/event-stream" };
            request = request.header("accept", accepts).header("content-type", "application/json");
        } else {
            request = request.header("accept", "text/event-stream");
        }
        if let Some(session) = session {
            request = request.header("mcp-session-id", session);
        }
        request.body(Upload::Whole(whole)).expect("a request")
    }

    pub(crate) fn post(&self, session: Option<&str>, body: &Value) -> Request<Upload> {
        self.request(Method::POST, session, body)
    }

    /// Says anything but HTTP, or half of it, and listens for a while.
    pub(crate) async fn junk(&self) {
        let heads: [&[u8]; 6] = [
            b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"jsonrpc\"",
            b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nffff\r\n{",
            b"GET /mcp HTTP/1.1\r\nhost: localh",
            b"GET / HTTP/1.0\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        ];
        let mut bytes = self.random(|rng| rng.choice(heads).unwrap_or_default().to_vec());
        if self.one_in(3) {
            self.random(|rng| bytes.extend((0..rng.usize(..2_000)).map(|_| rng.u8(..))));
        }
        let faults = self.random(|rng| [Faults::random(rng), Faults::random(rng)]);
        let Ok(mut stream) = self.site.memory.connect(self.site.address, faults) else { return };
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let written = self.patiently(poll_fn(|cx| Pin::new(&mut stream).poll_write(cx, rest))).await;
            let Some(Ok(written)) = written else { return };
            rest = &rest[written..];
        }
        if self.one_in(2) {
            let _ = poll_fn(|cx| Pin::new(&mut stream).poll_shutdown(cx)).await;
        }
        let listen = async {
            let mut buffer = [0; 4_096];
            loop {
                let mut buffer = ReadBuf::new(&mut buffer);
                let mut stream = pin!(&mut stream);
                let read = poll_fn(|cx| stream.as_mut().poll_read(cx, buffer.unfilled())).await;
                if read.is_err() || buffer.filled().is_empty() {
                    return;
                }
            }
        };
        if self.one_in(2) {
            // Every limit together is far less: the server hangs up.
            self.patiently(listen).await.expect("who says nothing sensible is cut");
            self.site.ledger.count("junk cut off");
        }
    }
}

pub(crate) fn initialize(tag: &str, version: &str, greeting: Greeting) -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {"protocolVersion": version,
        "capabilities": {"elicitation": {}}, "clientInfo": {"name": tag, "version": "1"}, "greeting": greeting}})
}
