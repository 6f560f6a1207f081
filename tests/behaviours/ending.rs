//! How sessions end.

use std::time::Duration;

use serde_json::Value;

use crate::row::{delete, get, post};
use crate::talk::{Call, Site, code, request, with};
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);

/// A call whose head is held, one that streams, and a listener.
async fn three(site: &Site, id: &str) -> [Call; 3] {
    let begun = site.seen.facts().begun;
    let mut held = site.send(with(post(Some(id), &request("held", "wait")), "accept", "application/json")).await;
    held.held_until(site.seen.until(move |facts| facts.begun == begun + 1)).await;
    let mut streaming = site.post(id, &request("streaming", "wait-noted")).await;
    assert!(streaming.message().await.is_some());
    [held, streaming, site.get(id).await]
}

async fn ended([mut held, mut streaming, mut stream]: [Call; 3]) {
    let error = held.json().await;
    assert_eq!((held.status(), code(&error), &error["id"]), (500, -32603, &Value::from("held")));
    let errors = streaming.messages().await;
    assert_eq!((errors.len(), code(&errors[0]), &errors[0]["id"]), (1, -32603, &Value::from("streaming")));
    assert_eq!(stream.message().await, None);
}

async fn is_gone(site: &Site, id: &str) {
    for request in [post(Some(id), "$PING"), post(Some(id), "$NOTE"), get(id), delete(id)] {
        let mut refused = site.send(request).await;
        assert_eq!((code(&refused.json().await), refused.status()), (-32600, 404));
    }
}

pub(crate) async fn delete_answers_what_is_open_with_errors(world: World) {
    let site = world.site_with(|_| {});
    let (id, other) = (site.open().await, site.open().await);
    let open = three(&site, &id).await;
    assert_eq!(site.delete(&id).await, 204);
    ended(open).await;
    site.seen.until(|facts| facts.over == 2).await;
    assert_eq!(site.status_of(&other, "$PING").await, 200);
}

pub(crate) async fn a_session_that_is_gone_is_unknown(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    assert_eq!(site.delete(&id).await, 204);
    is_gone(&site, &id).await;
    is_gone(&site, crate::row::UNKNOWN).await;
    assert_eq!(site.sessions(), 0);
}

pub(crate) async fn an_app_that_crashes_ends_its_session(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let open = three(&site, &id).await;
    assert_eq!(code(&site.post(&id, &request(1, "crash")).await.json().await), -32603);
    ended(open).await;
    is_gone(&site, &id).await;
}

pub(crate) async fn an_idle_session_expires_and_a_busy_one_does_not(world: World) {
    let site = world.site_with(|config| config.table.idle_timeout = Some(5 * SECOND));
    let (idle, calling, listening) = (site.open().await, site.open().await, site.open().await);
    let (mut call, _stream) = (site.post(&calling, &request(1, "long")).await, site.get(&listening).await);
    assert_eq!(call.head().await, 200);
    world.pass(4 * SECOND).await;
    assert_eq!(site.sessions(), 3);
    world.pass(2 * SECOND).await;
    assert_eq!(site.sessions(), 2);
    is_gone(&site, &idle).await;
    assert_eq!(call.response().await["result"]["long"], true);
    world.pass(3 * SECOND).await;
    assert_eq!(site.status_of(&calling, "$PING").await, 200, "it was busy until just now");
    world.pass(6 * SECOND).await;
    is_gone(&site, &calling).await;
    assert_eq!(site.status_of(&listening, "$PING").await, 200);
}

pub(crate) async fn a_session_that_is_never_used_expires(world: World) {
    let site = world.site_with(|config| config.table.init_timeout = Some(5 * SECOND));
    let unused = site.ask(post(None, "$INIT")).await.header("mcp-session-id").expect("a session");
    let used = site.open().await;
    world.pass(6 * SECOND).await;
    is_gone(&site, &unused).await;
    assert_eq!(site.status_of(&used, "$PING").await, 200);
}

pub(crate) async fn a_lifetime_ends_a_busy_session_too(world: World) {
    let site = world.site_with(|config| config.table.max_lifetime = Some(20 * SECOND));
    let id = site.open().await;
    let open = three(&site, &id).await;
    world.pass(19 * SECOND).await;
    assert_eq!(site.sessions(), 1);
    world.pass(2 * SECOND).await;
    ended(open).await;
    is_gone(&site, &id).await;
}
