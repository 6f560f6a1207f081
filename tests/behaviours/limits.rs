//! Whatever can grow has a limit, and what is beyond it gets a word.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use sessile_core::config::WhenFull;
use sessile_tests::line::Sending;
use sessile_tests::principals::WHO;
use sessile_tests::pure::Upload;

use crate::row::post;
use crate::talk::{request, with};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

pub(crate) async fn a_full_table_says_when_to_come_back(world: World) {
    let site = world.site_with(|config| {
        config.table.max_sessions = 2;
        config.table.idle_timeout = Some(9 * SECOND);
    });
    let (first, _second) = (site.open().await, site.open().await);
    let refused = site.ask(post(None, "$INIT")).await;
    let wait: u64 = refused.header("retry-after").expect("a wait").parse().expect("seconds");
    assert_eq!((refused.status(), (1..=9).contains(&wait)), (503, true), "{wait}");
    assert_eq!((site.sessions(), site.seen.facts().started), (2, 2));
    assert_eq!(site.delete(&first).await, 204);
    site.open().await;
}

pub(crate) async fn the_longest_idle_makes_room(world: World) {
    let site = world.site_with(|config| {
        config.table.max_sessions = 2;
        config.table.when_full = WhenFull::EvictIdle;
    });
    let (first, second) = (site.open().await, site.open().await);
    assert_eq!(site.status_of(&first, "$PING").await, 200);
    site.open().await;
    assert_eq!(site.status_of(&first, "$PING").await, 200);
    assert_eq!(site.status_of(&second, "$PING").await, 404);
}

pub(crate) async fn too_many_requests_in_flight(world: World) {
    let site = world.site_with(|config| config.session.max_in_flight = 1);
    let id = site.open().await;
    let mut call = site.post(&id, &request(1, "wait-noted")).await;
    assert_eq!(call.head().await, 200);
    let refused = site.ask(post(Some(&id), "$PING")).await;
    assert_eq!((refused.status(), refused.header("retry-after").as_deref()), (429, Some("1")));
    assert_eq!(site.status_of(&id, "$NOTE").await, 202);
    site.seen.release();
    assert_eq!(call.response().await["id"], 1);
    assert_eq!(site.status_of(&id, "$PING").await, 200);
}

pub(crate) async fn an_id_in_flight_is_taken(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let mut call = site.post(&id, &request(1, "wait-noted")).await;
    assert_eq!(call.head().await, 200);
    assert_eq!(site.status_of(&id, &request(1, "ping")).await, 400);
    assert_eq!(site.status_of(&id, &request("1", "ping")).await, 200, "another id");
    site.seen.release();
    assert_eq!(call.response().await["result"]["waited"], true);
}

pub(crate) async fn a_body_that_is_too_large_is_refused(world: World) {
    let site = world.site_with(|config| config.gate.max_body = 1_000);
    let id = site.open().await;
    let large = format!("{:2000}", request(1, "ping"));
    assert_eq!(site.status_of(&id, &large).await, 413, "as it says itself");
    let pieces: VecDeque<_> = large.as_bytes().chunks(300).map(Bytes::copy_from_slice).collect();
    let call = with(post(Some(&id), ""), WHO.as_str(), "alice").map(|_| Sending::Pieces(pieces));
    let mut call = site.try_send(call).await.expect("it listens");
    assert_eq!(call.head().await, 413, "as it turns out");
    assert_eq!(site.status_of(&id, &format!("{:1000}", request(1, "ping"))).await, 200);
}

pub(crate) async fn a_body_that_does_not_come_is_given_up(world: World) {
    let site = world.site_with(|config| config.gate.body_timeout = 10 * SECOND);
    let id = site.open().await;
    let mut call = site.send(with(post(Some(&id), "").map(|_| Upload::Never), "content-length", "100")).await;
    assert_eq!(world.within(9 * SECOND, call.head()).await, None);
    assert_eq!(world.within(2 * SECOND, call.head()).await, Some(408));
    assert_eq!(site.status_of(&id, "$PING").await, 200);
}

pub(crate) async fn what_waits_for_a_reader_is_bounded(world: World) {
    let site = world.site_with(|config| config.session.log_count = 100);
    let id = site.open().await;
    let mut call = site.post(&id, &request(1, "flood")).await;
    let messages = call.messages().await;
    // What is on its way in the connection is no longer kept for the reader.
    assert_eq!(messages.last().expect("the answer")["result"], "flooded");
    assert!((100..10_000).contains(&messages.len()), "{}", messages.len());
    assert!((site.stats)().notes_dropped > 0);
}

pub(crate) async fn a_reader_that_does_not_read_is_cut_off(world: World) {
    // All of it is kept for the reader, and is more than any window.
    let site = world.site_with(|config| {
        config.session.resume = true;
        config.session.log_count = 20_000;
        config.session.log_bytes = 64 << 20;
    });
    let id = site.open().await;
    let mut stalled = site.post(&id, &request(1, "flood")).await;
    assert_eq!(stalled.head().await, 200);
    // Others notice nothing.
    assert_eq!(site.status_of(&id, "$PING").await, 200);
    assert_eq!((site.stats)().exchanges, 1);
    world.pass(40 * SECOND).await;
    assert_eq!((site.stats)().exchanges, 0);
    stalled.until_lost().await;
    assert!(!stalled.answer().done, "the connection was cut");
}

pub(crate) async fn a_connection_that_asks_nothing_is_closed(world: World) {
    let site = world.site_with(|_| {});
    let call = site.ask(post(None, "$INIT")).await;
    let mut closed = std::pin::pin!(call.closed());
    assert_eq!(world.within(74 * SECOND, &mut closed).await, None);
    assert_eq!(world.within(40 * SECOND, &mut closed).await, Some(()));
    assert_eq!(site.sessions(), 0, "and its session, which nobody has used, is over too");
}
