//! How sessions begin.

use std::time::Duration;

use crate::row::post;
use crate::talk::code;
use crate::world::World;

pub(crate) async fn initialize_opens_a_session(world: World) {
    let site = world.site_with(|_| {});
    let opened = site.ask(post(None, "$INIT")).await;
    assert_eq!(opened.status(), 200);
    let id = opened.header("mcp-session-id").expect("a session id");
    assert_eq!((site.sessions(), site.seen.facts().started), (1, 1));
    assert_eq!(site.status_of(&id, "$NOTE").await, 202);
    assert_eq!(site.status_of(&id, "$PING").await, 200);
    let other = site.open().await;
    assert_ne!(id, other);
}

pub(crate) async fn the_version_that_is_asked_for_is_negotiated(world: World) {
    let site = world.site_with(|_| {});
    for (initialize, version) in [
        ("$INIT-2025-03-26", "2025-03-26"),
        ("$INIT-2025-06-18", "2025-06-18"),
        ("$INIT", "2025-11-25"),
        ("$INIT-FUTURE", "2025-11-25"),
        ("$INIT-MODERN", "2025-11-25"),
    ] {
        let mut opened = site.send(post(None, initialize)).await;
        assert_eq!(opened.response().await["result"]["protocolVersion"], version, "{initialize}");
    }
}

pub(crate) async fn an_initialize_that_the_app_refuses_opens_nothing(world: World) {
    let site = world.site_with(|_| {});
    let mut refused = site.send(post(None, "$INIT-REFUSED")).await;
    assert_eq!((code(&refused.response().await), refused.status()), (-32602, 200));
    assert_eq!((refused.header("mcp-session-id"), site.sessions()), (None, 0));
}

pub(crate) async fn an_app_that_ends_before_its_answer_opens_nothing(world: World) {
    let site = world.site_with(|_| {});
    let mut failed = site.send(post(None, "$INIT-CRASH")).await;
    assert_eq!((code(&failed.response().await), failed.status()), (-32603, 500));
    assert_eq!((failed.header("mcp-session-id"), site.sessions()), (None, 0));
}

pub(crate) async fn a_slow_initialize_becomes_a_stream(world: World) {
    let site = world.site_with(|_| {});
    let mut opening = site.send(post(None, "$INIT-SLOW")).await;
    assert_eq!(world.within(Duration::from_millis(4_900), opening.head()).await, None);
    assert_eq!(world.within(Duration::from_millis(200), opening.head()).await, Some(200));
    assert!(opening.streams());
    let id = opening.header("mcp-session-id").expect("a session id");
    assert_eq!(opening.response().await["result"]["protocolVersion"], "2025-11-25");
    assert_eq!(site.status_of(&id, "$PING").await, 200);
}

pub(crate) async fn a_client_that_leaves_before_the_head_leaves_no_session(world: World) {
    let site = world.site_with(|_| {});
    let mut opening = site.send(post(None, "$INIT-SILENT")).await;
    opening.held_until(site.seen.until(|facts| facts.begun == 1)).await;
    drop(opening);
    site.seen.until(|facts| facts.over == 1).await;
    assert_eq!(site.sessions(), 0);
}
