//! A client that sends any request, good or not, and records what comes back and when.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use serde_json::Value;
use sessile::app::{App, Backend, Calls, Handler, Tasks};
use sessile::http::{Body, McpService};
use sessile::runtime::tokio::Tokio;
use sessile::{Builder, Manager, Principal};
use sessile_core::Config;
use sessile_tests::pure::{Answer, Upload};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::row::{delete, get, post};

/// A running manager with its service on `/mcp`.
pub(crate) struct Site<B: Backend> {
    pub(crate) manager: Manager<Tokio, B>,
    pub(crate) service: McpService<Tokio, B>,
}

pub(crate) fn handler<H: Handler>(config: Config, handler: H) -> Site<Calls<H>> {
    site(Builder::new(Tokio::current()).handler(handler).config(config).build().expect("good settings"))
}

pub(crate) fn app<A: App>(config: Config, app: A) -> Site<Tasks<A>> {
    site(Builder::new(Tokio::current()).app(app).config(config).build().expect("good settings"))
}

pub(crate) fn site<B: Backend>(manager: Manager<Tokio, B>) -> Site<B> {
    manager.start().expect("started once");
    let service = manager.service().expect("running").path("/mcp");
    Site { manager, service }
}

/// One request and what its client has got of the answer. Dropping it hangs up.
#[derive(Debug)]
pub(crate) struct Exchange {
    answer: Arc<Mutex<Answer>>,
    task: JoinHandle<()>,
}

impl<B: Backend> Site<B> {
    /// Sends a request; what can be answered at once is answered when this returns.
    pub(crate) async fn send(&self, principal: Option<&str>, request: Request<Upload>) -> Exchange {
        let mut request = request.map(Arriving);
        if let Some(name) = principal {
            request.extensions_mut().insert(Principal::named(name));
        }
        let answer = Arc::new(Mutex::new(Answer::default()));
        let recorded = Arc::clone(&answer);
        let response = self.service.handle(request);
        let task = tokio::spawn(async move {
            let Ok(response) = response.await;
            let (head, body) = response.into_parts();
            lock(&recorded).head = Some((head.status, head.headers));
            let mut body = pin!(body);
            while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
                let Ok(frame) = frame;
                lock(&recorded).body.extend(frame.into_data().expect("bodies have no trailers"));
            }
            lock(&recorded).done = true;
        });
        settle().await;
        Exchange { answer, task }
    }

    /// Alice sends a request and reads no further than the head.
    pub(crate) async fn stall(&self, request: Request<Upload>) -> Response<Body> {
        let mut request = request.map(Arriving);
        request.extensions_mut().insert(Principal::named("alice"));
        let Ok(response) = self.service.handle(request).await;
        response
    }

    /// Opens a session of alice; gives its id.
    pub(crate) async fn open(&self) -> String {
        self.open_as(Some("alice")).await
    }

    pub(crate) async fn open_as(&self, principal: Option<&str>) -> String {
        let opened = self.send(principal, post(None, "$INIT")).await.answer();
        let id = opened.session_id().expect("a session");
        let noted = self.send(principal, post(Some(&id), "$NOTE")).await.answer();
        assert_eq!(noted.status(), Some(202));
        id
    }

    /// Alice POSTs in her session.
    pub(crate) async fn post(&self, session: &str, body: &str) -> Exchange {
        self.send(Some("alice"), post(Some(session), body)).await
    }

    /// Alice opens a stream.
    pub(crate) async fn get(&self, session: &str) -> Exchange {
        self.send(Some("alice"), get(session)).await
    }

    /// Alice ends her session.
    pub(crate) async fn delete(&self, session: &str) -> Exchange {
        self.send(Some("alice"), delete(session)).await
    }

    /// The statuses of a ping, a GET that is not kept open, and a DELETE, which ends it.
    pub(crate) async fn statuses(&self, session: &str) -> [Option<u16>; 3] {
        let ping = self.post(session, "$PING").await.answer().status();
        let get = self.get(session).await.answer().status();
        let delete = self.delete(session).await.answer().status();
        [ping, get, delete]
    }
}

/// What a session that is gone answers with.
pub(crate) const GONE: [Option<u16>; 3] = [Some(404), Some(404), Some(404)];

impl Exchange {
    /// What has come so far.
    pub(crate) fn answer(&self) -> Answer {
        lock(&self.answer).clone()
    }

    /// What has come when the answer is complete, at most `time` from now.
    pub(crate) async fn within(mut self, time: Duration) -> Answer {
        // What is due at that very time is let happen.
        let time = time + Duration::from_millis(1);
        if let Ok(ended) = timeout(time, &mut self.task).await {
            ended.expect("the exchange does not panic");
        }
        settle().await;
        self.answer()
    }

    pub(crate) async fn hang_up(self) {
        drop(self);
        settle().await;
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What tests read of an answer.
pub(crate) trait Read {
    fn status(&self) -> Option<u16>;
    fn session_id(&self) -> Option<String>;
    fn text(&self) -> String;
    fn header(&self, name: &str) -> Option<String>;
    fn messages(&self) -> Vec<Value>;
}

impl Read for Answer {
    fn status(&self) -> Option<u16> {
        self.head.as_ref().map(|(status, _)| StatusCode::as_u16(status))
    }

    fn session_id(&self) -> Option<String> {
        self.header("mcp-session-id")
    }

    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("bodies are UTF-8")
    }

    fn header(&self, name: &str) -> Option<String> {
        let (_, headers) = self.head.as_ref()?;
        headers.get(name).map(|value| value.to_str().expect("visible characters").to_owned())
    }

    /// The messages of a stream, or the one of a JSON body. Events without data only tell where the client is.
    fn messages(&self) -> Vec<Value> {
        let json = |text: &str| serde_json::from_str(text).expect("JSON");
        let text = self.text();
        if self.header("content-type").as_deref() == Some("application/json") {
            return vec![json(&text)];
        }
        text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| !data.is_empty()).map(json).collect()
    }
}

fn lock(answer: &Mutex<Answer>) -> MutexGuard<'_, Answer> {
    answer.lock().expect("no panic while it is held")
}

/// Reads the rest of a body.
pub(crate) async fn drain(response: Response<Body>) -> String {
    let mut body = pin!(response.into_body());
    let mut text = Vec::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(frame) = frame;
        text.extend(frame.into_data().expect("bodies have no trailers"));
    }
    String::from_utf8(text).expect("bodies are UTF-8")
}

/// Lets everything happen that needs no time.
pub(crate) async fn settle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}

/// Lets time pass, and then everything that was due.
pub(crate) async fn pass(time: Duration) {
    sleep(time).await;
    settle().await;
}

/// The body of a request, on its way.
struct Arriving(Upload);

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Upload::Never => Poll::Pending,
            Upload::Whole(bytes) if bytes.is_empty() => Poll::Ready(None),
            Upload::Whole(bytes) => Poll::Ready(Some(Ok(Frame::data(std::mem::take(bytes))))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(&self.0, Upload::Whole(bytes) if bytes.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
