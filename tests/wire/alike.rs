//! Foreign, unknown and ended sessions are alike, byte for byte, and their owners notice nothing.
//!
//! R052, R166, R167, R168, R170.

use std::time::Duration;

use http::{HeaderValue, Request};
use sessile::app::Backend;
use sessile_core::Config;
use sessile_core::session::Delivery;
use sessile_tests::pure::{Answer, Upload, World};

use crate::apps::Scripted;
use crate::raw::{Exchange, GONE, Read as _, Site, app, handler, pass};
use crate::row::{UNKNOWN, delete, get, post, request};

/// All ways to ask for a session, the ways that are wrong for another reason included.
pub(crate) fn ways(session: &str) -> Vec<(&'static str, Request<Upload>)> {
    let with = |mut request: Request<Upload>, name: &'static str, value: &'static str| {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
        request
    };
    let unfinished = |session: &str| {
        let mut unfinished = request("POST", Upload::Never);
        unfinished.headers_mut().insert("mcp-session-id", session.parse().expect("a header's value"));
        unfinished
    };
    vec![
        ("a request", post(Some(session), "$PING")),
        ("a request in flight there", post(Some(session), "$HANG")),
        ("a notification", post(Some(session), "$NOTE")),
        ("a response", post(Some(session), "$RESPONSE")),
        ("a cancellation", post(Some(session), "$CANCEL")),
        ("an initialize", post(Some(session), "$INIT")),
        ("nonsense", post(Some(session), "{")),
        ("a batch", post(Some(session), "[]")),
        ("a body that does not come", unfinished(session)),
        ("a version", with(post(Some(session), "$PING"), "mcp-protocol-version", "2025-11-25")),
        ("an unknown version", with(post(Some(session), "$PING"), "mcp-protocol-version", "1999-01-01")),
        ("an initialize of another version", with(post(Some(session), "$INIT"), "mcp-protocol-version", "2026-07-28")),
        ("JSON alone", with(post(Some(session), "$PING"), "accept", "application/json")),
        ("GET", get(session)),
        ("GET from an event on", with(get(session), "last-event-id", "0-1")),
        ("GET from nonsense on", with(get(session), "last-event-id", "x")),
        ("GET of an unknown version", with(get(session), "mcp-protocol-version", "1999-01-01")),
        ("DELETE of an unknown version", with(delete(session), "mcp-protocol-version", "1999-01-01")),
        ("DELETE", delete(session)),
    ]
}

/// Status, headers in their order, and body.
pub(crate) fn bytes(answer: &Answer) -> (Option<u16>, Vec<(String, String)>, String, bool) {
    let headers = answer.head.iter().flat_map(|(_, headers)| headers.iter());
    let headers = headers.map(|(name, value)| (name.to_string(), value.to_str().expect("text").to_owned())).collect();
    (answer.status(), headers, answer.text(), answer.done)
}

async fn asked<B: Backend>(site: &Site<B>, who: Option<&str>, request: Request<Upload>) -> Answer {
    site.send(who, request).await.within(Duration::from_secs(3)).await
}

async fn are_alike_over<B: Backend>(site: &Site<B>, owner: Option<&str>, other: Option<&str>) {
    let theirs = site.open_as(owner).await;
    let ended = site.open_as(other).await;
    assert_eq!(asked(site, other, delete(&ended)).await.status(), Some(204));
    let mut call = post(Some(&theirs), "$HANG");
    call.headers_mut().insert("accept", HeaderValue::from_static("application/json"));
    let call = site.send(owner, call).await;
    let stream = site.send(owner, get(&theirs)).await;
    let before = site.manager.sessions();
    for ((way, foreign), ((_, unknown), (_, ended))) in
        ways(&theirs).into_iter().zip(ways(UNKNOWN).into_iter().zip(ways(&ended)))
    {
        let foreign = bytes(&asked(site, other, foreign).await);
        assert!(foreign.0.is_some_and(|status| (400..500).contains(&status)) && foreign.3, "{way}: {foreign:?}");
        assert_eq!(foreign, bytes(&asked(site, other, unknown).await), "{way}: foreign and unknown");
        assert_eq!(foreign, bytes(&asked(site, other, ended).await), "{way}: foreign and ended");
    }
    // The owner's call, stream and session are as they were.
    assert_eq!(site.manager.sessions(), before);
    assert_eq!((call.answer().status(), call.answer().done), (None, false));
    assert_eq!((stream.answer().text(), stream.answer().done), (":\n\n".to_owned(), false));
    let ping = asked(site, owner, post(Some(&theirs), "$PING")).await;
    assert_eq!((ping.status(), ping.text()), (Some(200), r#"{"jsonrpc":"2.0","id":7,"result":{}}"#.to_owned()));
    // R170: and the other starts over at once.
    let own = site.open_as(other).await;
    assert_eq!(asked(site, other, delete(&own)).await.status(), Some(204));
    assert_eq!(asked(site, owner, delete(&theirs)).await.status(), Some(204));
}

#[tokio::test(start_paused = true)]
async fn foreign_unknown_and_ended_sessions_are_alike_over_the_service() {
    let principals = [Some("alice"), Some("alice|issuer|1"), Some("alice|issuer|2"), Some("Alice"), Some(""), None];
    for owner in principals {
        for other in principals.into_iter().filter(|other| *other != owner) {
            are_alike_over(&handler(Config::default(), Scripted::default()), owner, other).await;
        }
    }
    are_alike_over(&app(Config::default(), Scripted::default()), Some("alice"), Some("bob")).await;
}

#[test]
fn foreign_unknown_and_ended_sessions_are_alike_over_the_core() {
    for (owner, other) in [(Some("alice"), Some("bob")), (None, Some("bob")), (Some("alice"), None)] {
        let mut world = World::new(Config::default(), Delivery::Call).expect("good settings");
        let open = |world: &mut World, who| {
            let opened = world.request(who, post(None, "$INIT"));
            world.answer(opened).session_id().expect("a session")
        };
        let theirs = open(&mut world, owner);
        let ended = open(&mut world, other);
        world.request(other, delete(&ended));
        let call = world.request(owner, post(Some(&theirs), "$HANG"));
        let stream = world.request(owner, get(&theirs));
        for ((way, foreign), ((_, unknown), (_, ended))) in
            ways(&theirs).into_iter().zip(ways(UNKNOWN).into_iter().zip(ways(&ended)))
        {
            let mut ask = |request| {
                let exchange = world.request(other, request);
                world.advance(Duration::from_secs(3));
                bytes(world.answer(exchange))
            };
            let foreign = ask(foreign);
            assert_eq!(foreign, ask(unknown), "{way}: foreign and unknown");
            assert_eq!(foreign, ask(ended), "{way}: foreign and ended");
        }
        assert!(!world.answer(call).done && !world.answer(stream).done);
        let ping = world.request(owner, post(Some(&theirs), "$PING"));
        assert_eq!(world.answer(ping).status(), Some(200));
    }
}

/// What a stranger does with a session does not keep it.
#[tokio::test(start_paused = true)]
async fn strangers_do_not_keep_a_session_busy() {
    let mut config = Config::default();
    config.table.idle_timeout = Some(Duration::from_secs(10));
    let site = handler(config, Scripted::default());
    let id = site.open().await;
    for _ in 0..10 {
        for (_, request) in ways(&id) {
            drop(site.send(Some("bob"), request).await);
        }
        pass(Duration::from_secs(1)).await;
    }
    assert_eq!(site.manager.sessions(), 0);
    assert_eq!(site.statuses(&id).await, GONE);
}

/// R065, R068, R071: many sessions with the same request ids; each gets its own answers.
#[tokio::test(start_paused = true)]
async fn equal_request_ids_of_many_sessions_do_not_meet() {
    let site = handler(Config::default(), Scripted::default());
    let mut waiting: Vec<(usize, Exchange)> = Vec::new();
    for number in 0..50 {
        let who = format!("client {number}");
        let id = site.open_as(Some(&who)).await;
        let method = if number % 2 == 0 { "late" } else { "noted-late" };
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#);
        waiting.push((number, site.send(Some(&who), post(Some(&id), &body)).await));
    }
    for (number, exchange) in waiting {
        let messages = exchange.within(Duration::from_secs(2)).await.messages();
        let result = if number % 2 == 0 { "late" } else { "noted" };
        let last = messages.last().expect("an answer");
        assert_eq!((&last["id"], &last["result"][result]), (&1.into(), &true.into()), "{number}");
        assert_eq!(messages.len(), 1 + number % 2, "{number}");
    }
}
