//! A request and all that is heard about it, over as many connections as it takes.

use http::{Method, StatusCode};
use serde_json::{Value, json};
use sessile_tests::events::EventReader;
use sessile_tests::line::Exchange;

use crate::client::Session;
use crate::plan::{End, Plan};
use crate::requests::Way;

/// What has been heard so far.
struct Heard {
    answered: bool,
    cancelled: bool,
    id: u64,
    /// After which event to go on.
    last: Option<String>,
    /// Notes may be missing, since what is kept is bounded, or has no way to this client.
    lossy: bool,
    note: u64,
    tag: String,
}

/// How a connection ended.
enum Ended {
    /// Nobody knows what else would have come.
    Broken,
    /// As it should.
    Properly,
}

impl Session {
    /// Sends a request and follows it, or doesn't care.
    pub(crate) async fn call(&self) {
        let way = &self.way;
        let (id, tag) = self.next_tag();
        let plan = way.random(|rng| Plan::random(rng, tag.clone()));
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "work", "params": plan});
        let request = way.post(Some(&self.id), &message);
        let takes_json = !request.headers()["accept"].to_str().expect("text").contains("event-stream");
        let limits = &way.site.config.session;
        let lossy = limits.log_count < 100 || limits.log_bytes < 1 << 20 || takes_json;
        let mut heard = Heard { answered: false, cancelled: false, id, last: None, lossy, note: 0, tag };
        let Some(mut exchange) = way.send(request).await else { return };
        if way.one_in(8) {
            // Gone before the head.
            way.leave_in(3_000, exchange.head()).await;
            return;
        }
        if plan.end == End::Hang || way.one_in(10) {
            self.cancel_later(&mut heard);
        }
        let Some(head) = way.patiently(exchange.head()).await else {
            // It never ends, or asked somebody who does not answer: it is given up.
            assert!(plan.end == End::Hang || plan.ask, "{} has no head", heard.tag);
            return;
        };
        let Ok((status, headers)) = head else { return way.site.ledger.count("a call lost before its head") };
        if headers.get("content-type").is_some_and(|kind| kind == "text/event-stream") {
            if matches!(self.follow(&mut exchange, &mut heard).await, Ended::Properly) {
                way.keep(exchange).await;
            } else {
                drop(exchange);
            }
            self.come_back(&mut heard).await;
            return;
        }
        let mut body = Vec::new();
        while let Ok(Some(piece)) = exchange.piece().await {
            body.extend_from_slice(&piece);
        }
        self.judge(status, &body, &mut heard);
        if heard.answered {
            way.site.ledger.count("a call answered as JSON");
        }
    }

    /// An answer that is no stream.
    fn judge(&self, status: StatusCode, body: &[u8], heard: &mut Heard) {
        match status {
            StatusCode::OK => {
                // Cut off, or whole.
                if let Ok(message) = serde_json::from_slice(body) {
                    heard.take(&message);
                    assert!(heard.answered, "{}: {message}", heard.tag);
                }
            }
            StatusCode::ACCEPTED => {
                assert!(heard.cancelled, "{} is accepted, and not answered", heard.tag);
                self.way.site.ledger.count("a call cancelled before its head");
            }
            StatusCode::TOO_MANY_REQUESTS => self.way.site.ledger.count("a call too many"),
            StatusCode::INTERNAL_SERVER_ERROR => {
                if let Ok(message) = serde_json::from_slice::<Value>(body) {
                    assert_eq!((&message["id"], &message["error"]["code"]), (&json!(heard.id), &json!(-32603)));
                }
            }
            _ => self.is_over(status, body),
        }
    }

    /// Cancels in a while.
    fn cancel_later(&self, heard: &mut Heard) {
        heard.cancelled = true;
        let (way, id, session) = (self.way.clone(), heard.id, self.id.clone());
        self.way.site.sim.task(async move {
            way.pause(10_000).await;
            let params = json!({"requestId": id});
            // As often as it takes to be heard.
            for _ in 0..20 {
                let note = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params});
                match way.ask(way.post(Some(&session), &note)).await {
                    Some((StatusCode::ACCEPTED | StatusCode::NOT_FOUND, ..)) => return,
                    _ => way.pause(1_000).await,
                }
            }
        });
    }

    /// Reads a stream until it ends, or until enough is enough.
    async fn follow(&self, exchange: &mut Exchange, heard: &mut Heard) -> Ended {
        let way = &self.way;
        let mut reader = EventReader::default();
        let slow = way.one_in(6);
        loop {
            if way.one_in(12) {
                return Ended::Broken;
            }
            if slow {
                way.pause(2_000).await;
            }
            let Some(piece) = way.patiently(exchange.piece()).await else { return Ended::Broken };
            match piece {
                Err(_) => return Ended::Broken,
                Ok(None) => return Ended::Properly,
                Ok(Some(piece)) => reader.push(&piece),
            }
            for event in reader.by_ref() {
                heard.last = event.id.or_else(|| heard.last.take());
                let Some(data) = event.data else { continue };
                let message: Value = serde_json::from_str(&data).expect("JSON");
                if message["method"] == "ask" {
                    way.site.ledger.count("a question on a call's stream");
                    assert_eq!(message["params"]["tag"], heard.tag);
                    if !way.one_in(4) {
                        let answer = json!({"tag": heard.tag});
                        self.tell(&json!({"jsonrpc": "2.0", "id": message["id"], "result": answer})).await;
                    }
                } else {
                    heard.take(&message);
                }
            }
        }
    }

    /// Fetches what is missing, as long as there is a way to.
    async fn come_back(&self, heard: &mut Heard) {
        for round in 0..20 {
            if heard.answered {
                let how = if round == 0 { "a call answered on its stream" } else { "a call answered later" };
                return self.way.site.ledger.count(how);
            }
            let Some(last) = &heard.last else { return };
            self.way.pause(500).await;
            let mut request = self.way.request(Method::GET, Some(&self.id), &Value::Null);
            request.headers_mut().insert("last-event-id", last.parse().expect("an event id is a good header"));
            let Some(mut exchange) = self.way.send(request).await else { return };
            let head = self.way.patiently(exchange.head()).await.expect("the head of a GET is never held");
            let Ok((status, _)) = head else { continue };
            match status {
                StatusCode::OK => {
                    self.follow(&mut exchange, heard).await;
                }
                StatusCode::NO_CONTENT => {
                    assert!(heard.cancelled, "{} is said to be answered in full", heard.tag);
                    return self.way.site.ledger.count("a stream that is over");
                }
                StatusCode::BAD_REQUEST => {
                    assert!(heard.lossy, "{} can't be resumed after {last}", heard.tag);
                    return self.way.site.ledger.count("a stream that can't be resumed");
                }
                _ => return self.is_over(status, b""),
            }
        }
    }
}

impl Heard {
    fn take(&mut self, message: &Value) {
        assert!(!self.answered, "{}: {message} after the answer", self.tag);
        if message["method"] == "notifications/message" {
            let params = &message["params"];
            assert_eq!(params["tag"], self.tag, "somebody else's note");
            let number = params["number"].as_u64().expect("a number");
            let next = self.note + 1;
            assert!(number == next || self.lossy && number > next, "{}: {number} after {}", self.tag, self.note);
            self.note = number;
            return;
        }
        assert_eq!(message["id"], self.id, "{}: {message}", self.tag);
        if message["error"]["code"] == -32000 {
            assert_eq!(message["error"]["message"], self.tag);
        } else if message["error"].is_null() {
            assert_eq!(message["result"]["tag"], self.tag);
        }
        self.answered = true;
    }
}

impl Way {
    /// A request that belongs to no session, of the revision without.
    pub(crate) async fn call_modern(&self, tag: &str) {
        let plan = self.random(|rng| Plan::random(rng, tag.to_owned()));
        let mut params = json!(plan);
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let message = json!({"jsonrpc": "2.0", "id": 7, "method": "work", "params": params});
        let mut request = self.post(None, &message);
        let headers = request.headers_mut();
        headers.insert("mcp-protocol-version", "2026-07-28".parse().expect("a header"));
        headers.insert("mcp-method", "work".parse().expect("a header"));
        let Some(mut exchange) = self.send(request).await else { return };
        let mut heard =
            Heard { answered: false, cancelled: true, id: 7, last: None, lossy: true, note: 0, tag: tag.to_owned() };
        let read = async {
            let (status, headers) = exchange.head().await.ok()?;
            let streams = headers.get("content-type").is_some_and(|kind| kind == "text/event-stream");
            let (mut body, mut reader) = (Vec::new(), EventReader::default());
            while let Some(piece) = exchange.piece().await.ok()? {
                reader.push(&piece);
                body.extend_from_slice(&piece);
                if streams {
                    let data = reader.by_ref().filter_map(|event| event.data);
                    data.for_each(|data| heard.take(&serde_json::from_str(&data).expect("JSON")));
                }
            }
            if streams {
                assert!(heard.answered, "{tag} has no answer");
                self.site.ledger.count("a modern request answered on its stream");
            } else if status == StatusCode::OK {
                heard.take(&serde_json::from_slice(&body).expect("JSON"));
                self.site.ledger.count("a modern request answered as JSON");
            } else {
                assert!(matches!(status.as_u16(), 400 | 408 | 429 | 500 | 503), "{status} {body:?}");
            }
            Some(())
        };
        // Whoever hangs is left.
        self.leave_in(if self.one_in(4) { 200 } else { 240_000 }, read).await;
    }
}
