//! Cancellations, and connections that are lost.

use crate::row::post;
use crate::talk::{cancellation, request, with};
use crate::world::World;

pub(crate) async fn a_cancelled_call_ends_without_an_answer(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let mut held = site.send(with(post(Some(&id), &request("held", "wait")), "accept", "application/json")).await;
    held.held_until(site.seen.until(|facts| facts.begun == 2)).await;
    let mut streaming = site.post(&id, &request("streaming", "wait-noted")).await;
    assert!(streaming.message().await.expect("a note").get("method").is_some());
    for (call, over) in [("held", 1), ("streaming", 2)] {
        assert_eq!(site.status_of(&id, &cancellation(call)).await, 202);
        site.seen.until(|facts| facts.over == over).await;
    }
    held.rest().await;
    assert_eq!((held.status(), held.text().as_str()), (202, ""));
    assert_eq!(streaming.message().await, None);
    for call in ["held", "streaming"] {
        assert_eq!(site.status_of(&id, &request(call, "ping")).await, 200, "its id is free again");
    }
}

pub(crate) async fn a_cancellation_of_nothing_is_accepted(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let mut call = site.post(&id, &request(1, "wait-noted")).await;
    assert_eq!(call.head().await, 200);
    assert_eq!(site.status_of(&id, &cancellation("1")).await, 202);
    assert_eq!((site.stats)().cancellations_unmatched, 1);
    site.seen.release();
    assert_eq!(call.response().await["id"], 1);
}

pub(crate) async fn a_lost_connection_cancels_nothing_in_a_session(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let mut call = site.post(&id, &request(1, "wait-noted")).await;
    assert_eq!(call.head().await, 200);
    drop(call);
    assert_eq!(site.status_of(&id, &request(1, "ping")).await, 400, "its id is still in flight");
    site.seen.release();
    site.until(|stats| stats.requests_in_flight == 0).await;
    assert_eq!(site.seen.facts().over, 0);
    assert_eq!(site.status_of(&id, &request(1, "ping")).await, 200);
}

pub(crate) async fn a_lost_connection_cancels_a_modern_request(world: World) {
    let site = world.site_with(|_| {});
    let mut call = site.send(crate::modern::request("wait")).await;
    call.held_until(site.seen.until(|facts| facts.begun == 1)).await;
    drop(call);
    site.seen.until(|facts| facts.over == 1).await;
    site.until(|stats| stats.sessionless == 0).await;
}
