//! How behaviours speak to a server, and what they read of its answers.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Request, StatusCode};
use serde_json::{Value, json};
use sessile::Stats;
use sessile_core::Config;
use sessile_tests::events::{EventReader, StreamEvent};
use sessile_tests::line::{Exchange, Lost, Sending};
use sessile_tests::principals::WHO;
use sessile_tests::pure::{Answer, Upload};

use crate::row::{delete, get, post, request as request_of};
use crate::world::{Running, Setup, World};

/// A server and its clients.
pub(crate) struct Site {
    pub(crate) server: Running,
    pub(crate) world: World,
}

/// A request, and what was read of its answer. Dropping it hangs up.
pub(crate) struct Call {
    answer: Answer,
    events: VecDeque<StreamEvent>,
    exchange: Exchange,
    reader: EventReader,
}

impl World {
    pub(crate) fn site(&self, setup: Setup) -> Site {
        Site { server: self.0.serve(setup), world: self.clone() }
    }

    pub(crate) fn site_with(&self, change: impl FnOnce(&mut Config)) -> Site {
        let mut setup = Setup::default();
        change(&mut setup.config);
        self.site(setup)
    }
}

impl Deref for Site {
    type Target = Running;

    fn deref(&self) -> &Running {
        &self.server
    }
}

impl Site {
    /// Sends a request as alice, unless it says who asks.
    pub(crate) async fn send(&self, request: Request<Upload>) -> Call {
        let asks = request.headers().contains_key(WHO);
        self.send_as_it_is(if asks { request } else { with(request, WHO.as_str(), "alice") }).await
    }

    /// Sends a request as nobody, unless it says who asks.
    pub(crate) async fn send_as_it_is(&self, request: Request<Upload>) -> Call {
        self.try_send(request.map(Sending::from)).await.expect("the server listens")
    }

    /// Sends a request with any body.
    pub(crate) async fn try_send(&self, request: Request<Sending>) -> Result<Call, Lost> {
        let exchange = self.world.0.send(self.server.address, request).await?;
        Ok(Call { answer: Answer::default(), events: VecDeque::new(), exchange, reader: EventReader::default() })
    }

    /// Sends a request and reads all of its answer.
    pub(crate) async fn ask(&self, request: Request<Upload>) -> Call {
        let mut call = self.send(request).await;
        call.rest().await;
        call
    }

    /// POSTs a fixture or a text.
    pub(crate) async fn post(&self, session: &str, body: &str) -> Call {
        self.send(post(Some(session), body)).await
    }

    /// The status of a POST that is answered at once.
    pub(crate) async fn status_of(&self, session: &str, body: &str) -> u16 {
        self.ask(post(Some(session), body)).await.status()
    }

    /// Opens the standalone stream; the head has come, so that it carries from now on.
    pub(crate) async fn get(&self, session: &str) -> Call {
        let mut call = self.send(get(session)).await;
        assert_eq!(call.head().await, 200);
        call
    }

    /// Comes back to a stream.
    pub(crate) async fn resume(&self, session: &str, after: &str) -> Call {
        let mut request = get(session);
        request.headers_mut().insert("last-event-id", after.parse().expect("a header"));
        self.send(request).await
    }

    pub(crate) async fn delete(&self, session: &str) -> u16 {
        self.ask(delete(session)).await.status()
    }

    /// Opens a session of alice's with the newest revision; gives its id.
    pub(crate) async fn open(&self) -> String {
        self.open_as("alice", "$INIT").await
    }

    pub(crate) async fn open_as(&self, who: &str, initialize: &str) -> String {
        let opened = self.ask(with(post(None, initialize), WHO.as_str(), who)).await;
        let id = opened.header("mcp-session-id").expect("a session");
        let noted = self.ask(with(post(Some(&id), "$NOTE"), WHO.as_str(), who)).await;
        assert_eq!(noted.status(), 202);
        id
    }

    /// Asks something until the numbers are as they should be. For what no client is told of, such as that a connection was lost.
    pub(crate) async fn until(&self, are: impl Fn(&Stats) -> bool) {
        while !are(&(self.stats)()) {
            assert_eq!(self.ask(request_of("PUT", Upload::Whole(Bytes::new()))).await.status(), 405);
        }
    }

    pub(crate) fn sessions(&self) -> usize {
        (self.stats)().sessions
    }
}

impl Call {
    /// Waits for the head; gives the status.
    pub(crate) async fn head(&mut self) -> u16 {
        if self.answer.head.is_none() {
            self.answer.head = Some(self.exchange.head().await.expect("an answer"));
        }
        self.status()
    }

    /// Waits until something is so, with no head yet. Only its own client moves a request.
    pub(crate) async fn held_until(&mut self, is_so: impl Future<Output = ()>) {
        let (mut head, mut is_so) = (pin!(self.exchange.head()), pin!(is_so));
        poll_fn(|cx| {
            if is_so.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            assert!(head.as_mut().poll(cx).is_pending(), "there is a head");
            Poll::Pending
        })
        .await;
    }

    /// Reads one piece more. `false`: there is no more.
    async fn piece(&mut self) -> Result<bool, Lost> {
        self.head().await;
        if self.answer.done {
            return Ok(false);
        }
        let Some(piece) = self.exchange.piece().await? else {
            self.answer.done = true;
            return Ok(false);
        };
        self.answer.body.extend_from_slice(&piece);
        self.reader.push(&piece);
        self.events.extend(self.reader.by_ref());
        Ok(true)
    }

    /// Reads to the end.
    pub(crate) async fn rest(&mut self) {
        while self.piece().await.expect("an answer that ends") {}
    }

    /// Reads until the connection breaks.
    pub(crate) async fn until_lost(&mut self) {
        while self.piece().await.unwrap_or(false) {}
    }

    /// Reads until the body holds so many bytes, or ends.
    pub(crate) async fn until_length(&mut self, length: usize) {
        while self.answer.body.len() < length && self.piece().await.expect("an answer") {}
    }

    /// The next event; `None` is the end of the stream.
    pub(crate) async fn event(&mut self) -> Option<StreamEvent> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if !self.piece().await.expect("a stream that goes on, or ends") {
                return None;
            }
        }
    }

    /// The next message; comments and events without data are skipped.
    pub(crate) async fn message(&mut self) -> Option<Value> {
        loop {
            if let Some(data) = self.event().await?.data {
                return Some(serde_json::from_str(&data).expect("JSON"));
            }
        }
    }

    /// All messages that are left, or the one of a JSON body.
    pub(crate) async fn messages(&mut self) -> Vec<Value> {
        self.head().await;
        if !self.streams() {
            return vec![self.json().await];
        }
        let mut all = Vec::new();
        while let Some(message) = self.message().await {
            all.push(message);
        }
        all
    }

    /// The response, whether it comes as JSON or as the last event.
    pub(crate) async fn response(&mut self) -> Value {
        self.messages().await.pop().expect("a response")
    }

    pub(crate) async fn json(&mut self) -> Value {
        self.rest().await;
        serde_json::from_slice(&self.answer.body).unwrap_or_else(|error| panic!("{error} in {:?}", self.text()))
    }

    /// Waits, once the answer is complete, until the server closes the connection.
    pub(crate) async fn closed(self) {
        if let Some(line) = self.exchange.into_line().await {
            line.closed().await;
        }
    }

    pub(crate) fn status(&self) -> u16 {
        self.answer.head.as_ref().map_or(0, |(status, _)| StatusCode::as_u16(status))
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.answer.head.as_ref().expect("a head").1
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.headers().get(name).map(|value| value.to_str().expect("text").to_owned())
    }

    pub(crate) fn streams(&self) -> bool {
        self.header("content-type").as_deref() == Some("text/event-stream")
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.answer.body.clone()).expect("bodies are UTF-8")
    }

    pub(crate) fn answer(&self) -> &Answer {
        &self.answer
    }
}

/// A request, as text.
pub(crate) fn request(id: impl Into<Value>, method: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method}).to_string()
}

/// A cancellation of a request, as text.
pub(crate) fn cancellation(id: impl Into<Value>) -> String {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id.into()}}).to_string()
}

/// The request with this header instead of others of its name.
pub(crate) fn with(mut request: Request<Upload>, name: &str, value: &str) -> Request<Upload> {
    let name: HeaderName = name.parse().expect("a name");
    request.headers_mut().insert(name, value.parse().expect("a value"));
    request
}

/// The code of an error.
pub(crate) fn code(message: &Value) -> i64 {
    message["error"]["code"].as_i64().unwrap_or_default()
}
