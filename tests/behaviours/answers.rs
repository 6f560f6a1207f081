//! How answers leave: as JSON or as events, in which order, and when.

use std::time::Duration;

use serde_json::{Value, json};

use crate::row::post;
use crate::talk::{request, with};
use crate::world::World;

pub(crate) async fn an_answer_at_once_is_json(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let mut answer = site.post(&id, "$PING").await;
    assert_eq!(answer.json().await, json!({"jsonrpc": "2.0", "id": 7, "result": {}}));
    assert_eq!((answer.status(), answer.header("content-type").as_deref()), (200, Some("application/json")));
}

pub(crate) async fn notes_come_before_the_answer_and_in_order(world: World) {
    let site = world.site_with(|_| {});
    site.seen.release();
    let id = site.open().await;
    let mut call = site.post(&id, &request("n", "numbers")).await;
    let mut messages = call.messages().await;
    assert!(call.streams());
    assert_eq!(messages.pop().expect("an answer"), json!({"jsonrpc": "2.0", "id": "n", "result": 100}));
    let numbers: Vec<_> = messages.iter().map(|note| note["params"]["number"].as_u64()).collect();
    assert_eq!(numbers, (1..=100).map(Some).collect::<Vec<_>>());
}

pub(crate) async fn an_answer_later_than_the_window_is_a_stream(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let mut call = site.post(&id, &request(1, "late")).await;
    assert_eq!(world.within(Duration::from_millis(150), call.head()).await, None);
    assert_eq!(world.within(Duration::from_millis(100), call.head()).await, Some(200));
    assert!(call.streams());
    assert_eq!(call.response().await["result"]["late"], true);
}

pub(crate) async fn a_client_that_takes_one_kind_gets_it(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    for (method, accept) in [("noted", "application/json"), ("ping", "text/event-stream")] {
        let mut call = site.send(with(post(Some(&id), &request(1, method)), "accept", accept)).await;
        assert_eq!(call.response().await["id"], 1, "{method}");
        assert_eq!(call.header("content-type").as_deref(), Some(accept));
    }
}

pub(crate) async fn silence_is_filled_with_comments(world: World) {
    let site = world.site_with(|config| config.session.keep_alive = Duration::from_secs(15));
    let id = site.open().await;
    for number in 0..2 {
        let mut stream = if number == 0 { site.get(&id).await } else { site.post(&id, &request(1, "hang")).await };
        assert_eq!(world.within(Duration::from_secs(65), stream.rest()).await, None);
        assert_eq!(stream.text(), ":\n\n".repeat(5), "one at once, and one for each 15 s");
    }
}

pub(crate) async fn calls_at_once_get_their_own_answers(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let mut calls = Vec::new();
    for number in 0..20 {
        // Notes open the stream, so that each head comes before the answer.
        let mut call = site.post(&id, &request(number, "wait-noted")).await;
        assert_eq!(call.head().await, 200);
        calls.push(call);
    }
    assert_eq!((site.stats)().requests_in_flight, 20);
    site.seen.release();
    for (number, call) in calls.iter_mut().enumerate().rev() {
        let messages = call.messages().await;
        let ids: Vec<_> = messages.iter().map(|message| &message["id"]).collect();
        assert_eq!(ids, [&Value::Null, &json!(number)]);
    }
    assert_eq!((site.stats)().requests_in_flight, 0);
}

pub(crate) async fn a_batch_is_answered_as_one(world: World) {
    let site = world.site_with(|_| {});
    let batch = format!("[{},{},{}]", request(1, "ping"), request(2, "noted"), request(3, "nonsense"));
    let id = site.open_as("alice", "$INIT-2025-03-26").await;
    let mut call = site.post(&id, &batch).await;
    call.head().await;
    let mut messages = call.messages().await;
    if let [Value::Array(all)] = &messages[..] {
        messages = all.clone();
    }
    let mut ids: Vec<_> = messages.iter().filter_map(|message| message["id"].as_i64()).collect();
    ids.sort_unstable();
    assert_eq!((call.status(), ids), (200, vec![1, 2, 3]));
    let newer = site.open().await;
    assert_eq!(site.status_of(&newer, &batch).await, 400);
}
