//! The end of a server.

use std::time::Duration;

use crate::row::{get, post};
use crate::talk::{code, request, with};
use crate::world::World;

pub(crate) async fn streams_end_and_calls_finish(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let mut call = site.post(&id, &request(1, "wait-noted")).await;
    assert_eq!(call.head().await, 200);
    let mut stream = site.get(&id).await;
    world.0.spawn((site.shutdown)(Duration::from_secs(1_000)));
    let mut retry = None;
    while let Some(event) = stream.event().await {
        assert_eq!(event.data, None);
        retry = event.retry.or(retry);
    }
    assert_eq!(retry, Some(1_000), "when to come back");
    for refused in [post(None, "$INIT"), post(Some(&id), "$PING"), get(&id)] {
        let refused = site.ask(refused).await;
        assert_eq!((refused.status(), refused.header("retry-after").as_deref()), (503, Some("5")));
    }
    site.seen.release();
    assert_eq!(call.response().await["result"]["waited"], true);
}

pub(crate) async fn what_is_left_gets_an_error(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let mut held = site.send(with(post(Some(&id), &request(1, "wait")), "accept", "application/json")).await;
    held.held_until(site.seen.until(|facts| facts.begun == 2)).await;
    let mut streaming = site.post(&id, &request(2, "wait-noted")).await;
    assert!(streaming.message().await.is_some());
    (site.shutdown)(Duration::ZERO).await;
    assert_eq!((code(&held.json().await), held.status()), (-32603, 500));
    assert_eq!(code(&streaming.response().await), -32603);
    assert_eq!(site.sessions(), 0);
    assert_eq!(site.status_of(&id, "$PING").await, 503);
}
