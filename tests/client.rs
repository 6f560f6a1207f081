//! A client in the same process: HTTP requests straight into a service, no socket between.
//!
//! Owns what every client does, with a session or in the era without: the headers, the ids, the reading of events. Judges nothing but what it needs to go
//! on; what an answer should be is for the suites to say. It needs no particular runtime.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicI64, Ordering};

use http::header::{ACCEPT, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body::Body as _;
use serde_json::{Map, Value, json};
use sessile::Principal;
use sessile::app::Backend;
use sessile::core::{MCP_PROTOCOL_VERSION, MCP_SESSION_ID};
use sessile::http::{Body, McpService};
use sessile::runtime::Runtime;

use crate::events::EventReader;

/// A client of one service, with at most one session.
///
/// ```
/// # async fn example<R: sessile::runtime::Runtime, B: sessile::app::Backend>(service: sessile::http::McpService<R, B>) {
/// use serde_json::json;
/// use sessile_tests::client::Client;
///
/// let client = Client::open(service).await;
/// let answer = client.request("ping", json!({})).await;
/// assert_eq!(answer["result"], json!({}));
/// # }
/// ```
#[derive(Debug)]
pub struct Client<R: Runtime, B: Backend> {
    service: McpService<R, B>,
    headers: HeaderMap,
    principal: Option<Principal>,
    last_id: AtomicI64,
    /// What every request says of itself where there are no sessions.
    meta: Option<Map<String, Value>>,
}

/// An answer whose body has not been read.
#[derive(Debug)]
pub struct Answer {
    /// Its status.
    pub status: StatusCode,
    /// Its headers.
    pub headers: HeaderMap,
    body: Body,
}

/// The events of a body, as they come. Dropping it is a disconnect.
#[derive(Debug)]
pub struct Events {
    body: Body,
    reader: EventReader,
}

impl<R: Runtime, B: Backend> Client<R, B> {
    /// A client that has no session.
    #[must_use]
    pub fn new(service: McpService<R, B>) -> Self {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("localhost"));
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Self { service, headers, principal: None, last_id: AtomicI64::new(0), meta: None }
    }

    /// A client with a session of the newest revision, and no capability.
    ///
    /// # Panics
    ///
    /// If the session is not opened.
    pub async fn open(service: McpService<R, B>) -> Self {
        Self::open_with(service, json!({})).await
    }

    /// A client with a session of the newest revision, and these capabilities.
    ///
    /// # Panics
    ///
    /// If the session is not opened.
    pub async fn open_with(service: McpService<R, B>, capabilities: Value) -> Self {
        let mut client = Self::new(service);
        let answer = client.initialize("2025-11-25", capabilities).await;
        assert!(answer["result"].is_object(), "initialize was answered with {answer}");
        client
    }

    /// A client of the era without sessions, with these capabilities.
    #[must_use]
    pub fn modern(service: McpService<R, B>, capabilities: Value) -> Self {
        const VERSION: &str = "2026-07-28";
        let mut client = Self::new(service);
        client.header(MCP_PROTOCOL_VERSION, VERSION);
        client.meta = Some(Map::new());
        client.meta("io.modelcontextprotocol/protocolVersion", json!(VERSION));
        client.meta("io.modelcontextprotocol/clientInfo", json!({ "name": "tests", "version": "0" }));
        client.meta("io.modelcontextprotocol/clientCapabilities", capabilities);
        client
    }

    /// Says this of itself in every request from now on.
    pub fn meta(&mut self, key: &str, value: Value) -> &mut Self {
        self.meta.get_or_insert_default().insert(key.to_owned(), value);
        self
    }

    /// Sends this header with every request from now on, in place of others of its name.
    pub fn header(&mut self, name: HeaderName, value: &'static str) -> &mut Self {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// Is this identity from now on.
    pub fn principal(&mut self, principal: Principal) -> &mut Self {
        self.principal = Some(principal);
        self
    }

    /// Opens a session: `initialize` and, once that has a result, `notifications/initialized`. Gives the answer.
    ///
    /// # Panics
    ///
    /// If a result comes without a session id, or the notification is not accepted.
    pub async fn initialize(&mut self, version: &str, capabilities: Value) -> Value {
        let params = json!({
            "protocolVersion": version,
            "capabilities": capabilities,
            "clientInfo": { "name": "tests", "version": "0" },
        });
        let (id, message) = self.message("initialize", &params);
        let answer = self.post(&message).await;
        let session = answer.headers.get(MCP_SESSION_ID).cloned();
        let answer = answer.response(id).await;
        if let Some(version) = answer["result"]["protocolVersion"].as_str() {
            self.headers.insert(MCP_SESSION_ID, session.expect("a result comes with a session id"));
            self.headers.insert("mcp-protocol-version", version.parse().expect("a version is a good header"));
            assert_eq!(self.notify("notifications/initialized", json!({})).await, StatusCode::ACCEPTED);
        }
        answer
    }

    /// Sends a request and waits for its response, an error included. What else arrives on its stream is skipped.
    ///
    /// # Panics
    ///
    /// If there is no response.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        let (id, message) = self.message(method, &params);
        self.post(&message).await.response(id).await
    }

    /// Sends a request, to read the answer as it comes. Gives its id too.
    pub async fn begin(&self, method: &str, params: Value) -> (i64, Answer) {
        let (id, message) = self.message(method, &params);
        (id, self.post(&message).await)
    }

    /// Sends a notification; gives the status.
    pub async fn notify(&self, method: &str, params: Value) -> StatusCode {
        self.post(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await.status
    }

    /// Answers a request of the server; gives the status.
    pub async fn respond(&self, request: &Value, result: Value) -> StatusCode {
        self.post(&json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).await.status
    }

    /// Sends any message, or anything else that is JSON.
    pub async fn post(&self, message: &Value) -> Answer {
        let mut headers = self.headers.clone();
        self.repeat(message, &mut headers);
        self.send_with(Method::POST, headers, message.to_string()).await
    }

    /// Opens a stream for messages that belong to no request.
    pub async fn get(&self) -> Answer {
        self.send(Method::GET, String::new()).await
    }

    /// Ends the session.
    pub async fn delete(&self) -> Answer {
        self.send(Method::DELETE, String::new()).await
    }

    fn message(&self, method: &str, params: &Value) -> (i64, Value) {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut params = params.clone();
        if let (Some(meta), Value::Object(params)) = (&self.meta, &mut params) {
            let given = params.entry("_meta").or_insert_with(|| json!({}));
            let given = given.as_object_mut().expect("_meta is an object");
            for (key, value) in meta {
                given.entry(key).or_insert_with(|| value.clone());
            }
        }
        (id, json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
    }

    /// What a request of the era without sessions repeats of its body. Names must be visible ASCII.
    fn repeat(&self, message: &Value, headers: &mut HeaderMap) {
        if self.meta.is_none() {
            return;
        }
        let params = &message["params"];
        let name = params["name"].as_str().or_else(|| params["uri"].as_str());
        for (header, value) in [("mcp-method", message["method"].as_str()), ("mcp-name", name)] {
            if let Some(value) = value {
                headers.insert(header, value.parse().expect("a good header"));
            }
        }
    }

    async fn send(&self, method: Method, body: String) -> Answer {
        self.send_with(method, self.headers.clone(), body).await
    }

    async fn send_with(&self, method: Method, headers: HeaderMap, body: String) -> Answer {
        let mut request = Request::new(body);
        *request.method_mut() = method;
        *request.headers_mut() = headers;
        if let Some(principal) = &self.principal {
            request.extensions_mut().insert(principal.clone());
        }
        let Ok(response) = self.service.handle(request).await;
        let (parts, body) = response.into_parts();
        Answer { status: parts.status, headers: parts.headers, body }
    }
}

impl Answer {
    /// Whether it is a stream of events.
    #[must_use]
    pub fn streams(&self) -> bool {
        self.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream")
    }

    /// Reads it as events.
    ///
    /// # Panics
    ///
    /// If it isn't a stream.
    #[must_use]
    pub fn events(self) -> Events {
        assert!(self.streams(), "{} with {:?} is no stream", self.status, self.headers);
        Events { body: self.body, reader: EventReader::default() }
    }

    /// Reads all of it. A stream is read to its end.
    pub async fn text(mut self) -> String {
        let mut text = String::new();
        while let Some(more) = read(&mut self.body).await {
            text += &more;
        }
        text
    }

    /// Reads it as one JSON value.
    ///
    /// # Panics
    ///
    /// If it isn't one.
    pub async fn json(self) -> Value {
        let status = self.status;
        let text = self.text().await;
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{status} with {text:?}: {error}"))
    }

    /// The response to the request with this id, whether it is the body or an event.
    ///
    /// # Panics
    ///
    /// If it isn't there.
    pub async fn response(self, id: i64) -> Value {
        if !self.streams() {
            return self.json().await;
        }
        let mut events = self.events();
        loop {
            let message = events.next().await.expect("a response before the end of the stream");
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }
}

impl Events {
    /// The next message; comments and events without data are skipped. `None` is the end.
    ///
    /// # Panics
    ///
    /// If the data of an event is not JSON.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(data) = self.reader.find_map(|event| event.data) {
                return Some(serde_json::from_str(&data).expect("the data of an event is JSON"));
            }
            self.reader.push(read(&mut self.body).await?.as_bytes());
        }
    }

    /// All messages to the end.
    pub async fn rest(mut self) -> Vec<Value> {
        let mut all = Vec::new();
        while let Some(message) = self.next().await {
            all.push(message);
        }
        all
    }
}

/// The next piece of a body. Each piece is whole UTF-8, since the service writes whole events.
async fn read(body: &mut Body) -> Option<String> {
    let mut body = pin!(body);
    let frame = poll_fn(|cx| Pin::as_mut(&mut body).poll_frame(cx)).await?;
    let Ok(frame) = frame;
    let data = frame.into_data().expect("bodies have no trailers");
    Some(String::from_utf8(data.into()).expect("bodies are UTF-8"))
}
