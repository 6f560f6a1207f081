//! Clients that come back for the rest of a stream.

use std::time::Duration;

use serde_json::json;
use sessile_core::Config;

use crate::row::post;
use crate::talk::{Call, Site, request, with};
use crate::world::World;

fn resumable(world: &World) -> Site {
    world.site_with(|config| config.session.resume = true)
}

/// Reads events until one with a message; gives its id and its number.
async fn numbered(call: &mut Call) -> Option<(String, u64)> {
    loop {
        let event = call.event().await?;
        let Some(data) = event.data else { continue };
        let message: serde_json::Value = serde_json::from_str(&data).expect("JSON");
        let number = message["params"]["number"].as_u64().or_else(|| message["result"].as_u64()).expect("a number");
        return Some((event.id.expect("a position"), number));
    }
}

pub(crate) async fn a_request_stream_goes_on_after_a_lost_connection(world: World) {
    let site = resumable(&world);
    let id = site.open().await;
    let mut call = site.post(&id, &request(1, "numbers")).await;
    let mut heard = Vec::new();
    let mut last = String::new();
    for _ in 0..20 {
        let (position, number) = numbered(&mut call).await.expect("a note");
        (last, _) = (position, heard.push(number));
    }
    // What follows may lie in the connection already; it comes again.
    drop(call);
    let mut call = site.resume(&id, &last).await;
    for _ in 0..10 {
        let (position, number) = numbered(&mut call).await.expect("a note");
        (last, _) = (position, heard.push(number));
    }
    drop(call);
    site.seen.release();
    let mut call = site.resume(&id, &last).await;
    while let Some((_, number)) = numbered(&mut call).await {
        heard.push(number);
    }
    // The last is the answer.
    assert_eq!(heard, (1..=100).chain([100]).collect::<Vec<_>>());
}

pub(crate) async fn the_standalone_stream_goes_on_after_a_lost_connection(world: World) {
    let site = resumable(&world);
    let id = site.open().await;
    let tell =
        |number: u32| json!({"jsonrpc": "2.0", "id": 1, "method": "tell", "params": {"number": number}}).to_string();
    let mut stream = site.get(&id).await;
    for number in 1..=3 {
        assert_eq!(site.status_of(&id, &tell(number)).await, 200);
    }
    let (last, number) = numbered(&mut stream).await.expect("a note");
    assert_eq!(number, 1);
    drop(stream);
    assert_eq!(site.status_of(&id, &tell(4)).await, 200);
    let mut stream = site.resume(&id, &last).await;
    for expected in 2..=4 {
        assert_eq!(numbered(&mut stream).await.expect("a note").1, expected);
    }
}

pub(crate) async fn a_stream_that_was_delivered_is_over(world: World) {
    let site = resumable(&world);
    site.seen.release();
    let id = site.open().await;
    let mut call = site.post(&id, &request(1, "numbers")).await;
    let mut last = String::new();
    while let Some((position, _)) = numbered(&mut call).await {
        last = position;
    }
    let mut again = site.resume(&id, &last).await;
    again.rest().await;
    assert_eq!((again.status(), again.text().as_str()), (204, ""));
}

pub(crate) async fn what_was_never_given_can_not_be_resumed(world: World) {
    let site = resumable(&world);
    let (id, other) = (site.open().await, site.open().await);
    let mut call = site.post(&id, &request(1, "numbers")).await;
    let (position, _) = numbered(&mut call).await.expect("a note");
    for (session, after) in [(&id, "abc"), (&id, "99-1"), (&other, &*position)] {
        let mut refused = site.resume(session, after).await;
        refused.rest().await;
        assert_eq!(refused.status(), 400, "{after}");
    }
}

/// SEP-1699.
pub(crate) async fn an_app_sends_its_client_away_and_it_comes_back(world: World) {
    let site = resumable(&world);
    let id = site.open().await;
    let mut call = site.post(&id, &request(1, "send-away")).await;
    let first = call.event().await.expect("the priming event");
    let last = first.id.expect("a position");
    let mut retry = first.retry;
    while let Some(event) = call.event().await {
        assert_eq!(event.data, None);
        retry = event.retry.or(retry);
    }
    assert_eq!(retry, Some(1));
    let mut call = site.resume(&id, &last).await;
    assert_eq!(call.head().await, 200);
    site.seen.release();
    assert_eq!(call.response().await["result"], true);
}

pub(crate) async fn listeners_are_sent_away_and_come_back(world: World) {
    let site = resumable(&world);
    let id = site.open().await;
    let mut stream = site.get(&id).await;
    let last = stream.event().await.expect("the priming event").id.expect("a position");
    assert_eq!(site.post(&id, &request(1, "send-listeners-away")).await.response().await["result"], true);
    assert_eq!(stream.message().await, None);
    assert_eq!(site.resume(&id, &last).await.head().await, 200);
}

pub(crate) async fn a_connection_is_ended_so_that_its_client_polls(world: World) {
    let site = world.site_with(|config| {
        config.session.resume = true;
        config.session.poll_after = Some(Duration::from_secs(5));
    });
    let id = site.open().await;
    let mut call = site.post(&id, &request(1, "long")).await;
    let last = call.event().await.expect("the priming event").id.expect("a position");
    assert_eq!(world.within(Duration::from_secs(6), call.rest()).await, Some(()));
    assert!(call.text().contains("retry: 1000"), "{}", call.text());
    world.pass(Duration::from_secs(6)).await;
    assert_eq!(site.resume(&id, &last).await.response().await["result"]["long"], true);
}

pub(crate) async fn only_those_who_expect_it_are_primed(world: World) {
    let primed = |config: &mut Config| config.session.resume = true;
    let site = world.site_with(primed);
    for (initialize, expected) in [("$INIT", true), ("$INIT-2025-06-18", false)] {
        let id = site.open_as("alice", initialize).await;
        let events = with(post(Some(&id), "$PING"), "accept", "text/event-stream");
        let first = site.send(events).await.event().await.expect("an event");
        assert_eq!(first.data.is_none(), expected, "{initialize}");
        assert!(first.id.is_some());
    }
}
