//! Streams keep to themselves: sessions don't see each other, a reader that stalls delays nobody, and what waits is bounded.
//!
//! R019, R020, R058, R060, R064, R072, R097 to R104, R152.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use sessile::app::{Context, Handler, Reply, SessionInfo};
use sessile::core::Message;
use sessile_core::Config;

use crate::apps::Scripted;
use crate::raw::{Exchange, Read as _, drain, handler, pass};
use crate::row::{get, post};

const SECOND: Duration = Duration::from_secs(1);

/// Counts for each session, and floods its client on request.
#[derive(Clone, Default)]
struct Counting {
    flooded: Arc<AtomicUsize>,
}

impl Handler for Counting {
    type State = AtomicUsize;

    fn open(&self, _: &SessionInfo) -> AtomicUsize {
        AtomicUsize::new(0)
    }

    async fn call(&self, context: Context<AtomicUsize>, message: Message) -> Reply {
        match message.method() {
            Some("initialize") => context.result(&json!({"protocolVersion": "2025-11-25"})),
            Some("count") => context.result(&context.state().fetch_add(1, Ordering::SeqCst)),
            Some("who") => {
                let agent = context.parts().headers.get("user-agent").and_then(|agent| agent.to_str().ok());
                context.result(&json!([context.session().principal().name(), agent]))
            }
            Some("flood") => {
                for number in 0..10_000 {
                    context.notify("notifications/message", &json!({"number": number, "text": "x".repeat(100)}));
                }
                self.flooded.fetch_add(1, Ordering::SeqCst);
                context.result(&json!("flooded"))
            }
            Some("flood-session") => {
                for number in 0..10_000 {
                    context
                        .notify_session("notifications/message", &json!({"number": number, "text": "x".repeat(100)}));
                }
                context.result(&json!("flooded"))
            }
            _ => Reply::none(),
        }
    }
}

fn body(id: usize, method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#)
}

fn result(exchange: &Exchange) -> serde_json::Value {
    exchange.answer().messages().pop().expect("an answer")["result"].take()
}

/// R060.
#[tokio::test(start_paused = true)]
async fn sessions_do_not_see_each_others_state() {
    let site = handler(Config::default(), Counting::default());
    let mut ids = Vec::new();
    for who in ["alice", "bob", "alice", "carol", "dave"] {
        ids.push((who, site.open_as(Some(who)).await));
    }
    for round in 0..10 {
        for (who, id) in &ids {
            let counted = site.send(Some(who), post(Some(id), &body(round, "count"))).await;
            assert_eq!(result(&counted), round);
        }
    }
    for (who, id) in &ids {
        let mut asking = post(Some(id), &body(1, "who"));
        asking.headers_mut().insert("user-agent", who.parse().expect("a header's value"));
        assert_eq!(result(&site.send(Some(who), asking).await), json!([who, who]));
    }
}

/// R072, R152: the handler does not wait for its reader, nor does anybody else.
#[tokio::test(start_paused = true)]
async fn a_stalled_reader_delays_neither_its_handler_nor_others() {
    let counting = Counting::default();
    let site = handler(Config::default(), counting.clone());
    let (id, other) = (site.open().await, site.open().await);
    let mut stalled = vec![site.stall(get(&id)).await];
    for number in 0..10 {
        stalled.push(site.stall(post(Some(&id), &body(number, "flood"))).await);
        assert_eq!(counting.flooded.load(Ordering::SeqCst), number + 1);
    }
    site.post(&id, &body(20, "flood-session")).await;
    for session in [&id, &other] {
        let call = site.post(session, &body(21, "count")).await.answer();
        assert_eq!(call.status(), Some(200));
        let stream = site.get(session).await;
        assert_eq!(stream.answer().status(), Some(200));
    }
    // R019: what waited is bounded, the oldest notes have gone, and the answer is there.
    for response in stalled.drain(1..) {
        let text = drain(response).await;
        let events: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(events.len(), 1_024 + 1);
        assert!(events.last().is_some_and(|last| last.contains("flooded")));
        assert!(events[events.len() - 2].contains("9999"));
    }
}

/// R019, R020: by number and by bytes; the answer comes on top, since it is never dropped.
#[tokio::test(start_paused = true)]
async fn what_waits_for_a_reader_is_bounded() {
    for (count, bytes, most) in [(10, 1 << 20, 10), (10_000, 2_000, 11)] {
        let mut config = Config::default();
        config.session.log_count = count;
        config.session.log_bytes = bytes;
        let site = handler(config, Counting::default());
        let id = site.open().await;
        let flooded = site.post(&id, &body(1, "flood")).await.within(SECOND).await;
        let messages = flooded.messages();
        assert!(messages.len() <= most + 1, "{} of {count} and {bytes}", messages.len());
        assert_eq!(messages.last().expect("the answer")["result"], "flooded");
        // No GET is open, and still a message waits for one; as many as fit.
        site.post(&id, &body(2, "flood-session")).await;
        let stream = site.get(&id).await;
        let waited = stream.answer().messages();
        assert!(!waited.is_empty() && waited.len() <= most, "{} of {count} and {bytes}", waited.len());
        assert_eq!(waited.last().expect("the newest")["params"]["number"], 9_999);
    }
}

/// R072: no rendezvous between the handler and its reader, and the order is kept.
#[tokio::test(start_paused = true)]
async fn hundreds_of_noisy_calls_at_once() {
    let site = handler(Config::default(), Scripted::default());
    let id = site.open().await;
    let mut calls = Vec::new();
    for number in 0..200 {
        calls.push(site.post(&id, &body(number, "noted-late")).await);
    }
    for (number, call) in calls.into_iter().enumerate() {
        let messages = call.within(2 * SECOND).await.messages();
        assert_eq!(messages.len(), 2, "{number}");
        assert_eq!((&messages[0]["params"]["number"], &messages[1]["id"]), (&1.into(), &number.into()));
    }
}

/// R099, R102, R103, R104: several GETs, each message on exactly one, the newest carries, and no call notices.
#[tokio::test(start_paused = true)]
async fn the_newest_get_carries_and_the_next_takes_over() {
    let site = handler(Config::default(), Scripted::default());
    let id = site.open().await;
    let call = site.post(&id, &body(99, "long")).await;
    let mut streams = Vec::new();
    for _ in 0..4 {
        streams.push(site.get(&id).await);
        site.post(&id, &body(1, "tell-session")).await;
    }
    let heard: Vec<_> = streams.iter().map(|stream| stream.answer().messages().len()).collect();
    assert_eq!(heard, [1, 1, 1, 1]);
    // One more than the limit: the oldest is closed.
    streams.push(site.get(&id).await);
    let closed: Vec<_> = streams.iter().map(|stream| stream.answer().done).collect();
    assert_eq!(closed, [true, false, false, false, false]);
    // The carrier goes, the one before it carries on.
    for left in [4, 3, 2] {
        site.post(&id, &body(1, "tell-session")).await;
        let carrier = streams.pop().expect("a stream");
        assert_eq!(carrier.answer().messages().len(), if left == 4 { 1 } else { 2 }, "{left}");
        carrier.hang_up().await;
    }
    assert!(!streams[1].answer().done);
    assert_eq!(call.within(10 * SECOND).await.messages().pop().expect("an answer")["result"]["long"], true);
}

/// R097, R098: back at once, and at work at once.
#[tokio::test(start_paused = true)]
async fn a_get_that_comes_back_works_at_once() {
    let site = handler(Config::default(), Scripted::default());
    let id = site.open().await;
    for round in 0..200 {
        let stream = site.get(&id).await;
        site.post(&id, &body(round, "tell-session")).await;
        let answer = stream.answer();
        assert_eq!((answer.status(), answer.messages().len(), answer.done), (Some(200), 1, false), "{round}");
        if round % 2 == 0 {
            stream.hang_up().await;
        }
    }
}

/// R058, R057: the 202 comes when the session knows.
#[tokio::test(start_paused = true)]
async fn a_call_right_behind_initialized_is_served() {
    let site = handler(Config::default(), Scripted::default());
    for _ in 0..100 {
        let opened = site.send(Some("alice"), post(None, "$INIT")).await.answer();
        let id = opened.session_id().expect("an id");
        let all = [site.post(&id, "$PING").await, site.post(&id, "$NOTE").await, site.post(&id, "$PING").await];
        let statuses = all.map(|exchange| exchange.answer().status());
        assert_eq!(statuses, [Some(200), Some(202), Some(200)]);
    }
    pass(SECOND).await;
    assert_eq!(site.manager.sessions(), 100);
}
