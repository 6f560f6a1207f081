//! A client that opens sessions and does anything with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use sessile_tests::sim::Joined;

use crate::plan::Greeting;
use crate::requests::{Way, initialize};
use crate::server::Site;

/// One client.
pub(crate) struct Client {
    name: String,
    way: Way,
}

/// A session as its client holds it.
pub(crate) struct Session {
    pub(crate) id: String,
    last: AtomicU64,
    /// What the client calls it, and what everything that reaches it must bear.
    pub(crate) tag: String,
    pub(crate) way: Way,
}

const VERSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

impl Client {
    pub(crate) fn new(site: &Site, who: &'static str, number: usize, rng: Rng) -> Self {
        Self { name: format!("{who}{number}"), way: Way::new(site, who, rng) }
    }

    pub(crate) async fn live(self) {
        for number in 0..self.way.random(|rng| rng.u32(1..4)) {
            let Some(session) = self.open(number).await else { continue };
            let mut doing = Vec::new();
            for _ in 0..self.way.random(|rng| rng.u32(1..16)) {
                let task = self.begin(&session);
                if self.way.one_in(3) {
                    doing.push(task);
                } else {
                    task.await;
                }
                if self.way.one_in(3) {
                    self.way.pause(5_000).await;
                }
            }
            for task in doing {
                task.await;
            }
            if self.way.one_in(2) {
                session.delete().await;
            }
        }
    }

    /// Tries a few times, as clients do.
    async fn open(&self, number: u32) -> Option<Arc<Session>> {
        for attempt in 0..4 {
            let tag = format!("{}/{number}.{attempt}", self.name);
            let version = self.way.random(|rng| *rng.choice(&VERSIONS).expect("one"));
            let greeting = self.way.random(Greeting::random);
            let mut exchange = self.way.send(self.way.post(None, &initialize(&tag, version, greeting))).await?;
            if self.way.one_in(8) {
                // Gone before the head, perhaps.
                self.way.leave_in(3_000, exchange.head()).await;
                continue;
            }
            let head = self.way.patiently(exchange.head()).await.expect("initialize is answered in time");
            let Ok((status, headers)) = head else { continue };
            let Some(id) = headers.get("mcp-session-id") else {
                // 500: the session ended meanwhile, for want of time.
                assert!(matches!(status.as_u16(), 200 | 408 | 500 | 503), "{status} for {tag}");
                assert!(status != StatusCode::INTERNAL_SERVER_ERROR || self.way.site.ledger.has_closed(&tag));
                assert!(status != StatusCode::OK || greeting.refuse, "{tag} has no session id");
                self.way.site.ledger.count(if greeting.refuse { "refused by the app" } else { "no room" });
                self.way.pause(5_000).await;
                continue;
            };
            if !matches!(self.way.patiently(exchange.piece()).await, Some(Ok(Some(_)))) {
                continue;
            }
            let id = id.to_str().expect("text").to_owned();
            self.way.site.ledger.given(&id, self.way.who);
            let session = Session { id, last: AtomicU64::new(0), tag, way: self.way.clone() };
            if !self.way.one_in(8) {
                session.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
            }
            return Some(Arc::new(session));
        }
        None
    }

    fn begin(&self, session: &Arc<Session>) -> Joined<()> {
        let (session, way) = (Arc::clone(session), self.way.clone());
        let sim = way.site.sim.clone();
        match way.random(|rng| rng.u32(..16)) {
            0..8 => sim.task(async move { session.call().await }),
            8..10 => sim.task(async move { session.listen().await }),
            10 => {
                sim.task(async move { session.tell(&json!({"jsonrpc": "2.0", "method": "notifications/other"})).await })
            }
            11 => sim.task(async move { way.probe().await }),
            12 => sim.task(async move { way.junk().await }),
            _ => sim.task(async move { way.call_modern(&session.next_tag().1).await }),
        }
    }
}

impl Session {
    /// An id for a request, and a tag for it.
    pub(crate) fn next_tag(&self) -> (u64, String) {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        (id, format!("{}#{id}", self.tag))
    }

    /// Sends a notification or a response.
    pub(crate) async fn tell(&self, message: &Value) {
        let request = self.way.post(Some(&self.id), message);
        let Some((status, _, body)) = self.way.ask(request).await else { return };
        match status {
            StatusCode::ACCEPTED | StatusCode::SERVICE_UNAVAILABLE => {}
            _ => self.is_over(status, &body),
        }
    }

    async fn delete(&self) {
        let request = self.way.request(Method::DELETE, Some(&self.id), &Value::Null);
        let Some((status, _, body)) = self.way.ask(request).await else { return };
        match status {
            StatusCode::NO_CONTENT => self.way.site.ledger.count("a session deleted"),
            _ => self.is_over(status, &body),
        }
    }

    /// Only a session that has ended is not found, and only a server that ends says so.
    pub(crate) fn is_over(&self, status: StatusCode, body: &[u8]) {
        match status {
            StatusCode::NOT_FOUND => {
                assert!(self.has_closed(), "{} is not found but lives", self.tag);
                self.way.site.ledger.count("a session that was over");
            }
            // A slow network is no fault of the server's.
            StatusCode::REQUEST_TIMEOUT | StatusCode::SERVICE_UNAVAILABLE => {}
            _ => panic!("{}: {status} {}", self.tag, String::from_utf8_lossy(body)),
        }
    }

    pub(crate) fn has_closed(&self) -> bool {
        self.way.site.ledger.has_closed(&self.tag)
    }
}

impl Way {
    /// Tries what belongs to somebody else.
    async fn probe(&self) {
        let choice = self.random(|rng| rng.usize(..1_000));
        let Some(id) = self.site.ledger.foreign(self.who, choice) else { return };
        let method = self.random(|rng| rng.choice([Method::POST, Method::GET, Method::DELETE]).expect("one"));
        let body =
            if method == Method::POST { json!({"jsonrpc": "2.0", "id": 1, "method": "ping"}) } else { Value::Null };
        let Some((status, _, body)) = self.ask(self.request(method, Some(&id), &body)).await else { return };
        assert!(matches!(status.as_u16(), 404 | 408 | 503), "{status} {body:?}");
        self.site.ledger.count("somebody else's session");
    }
}
