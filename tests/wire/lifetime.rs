//! How long sessions live. R001, R004, R010, R022 to R029, R033, R045.

use std::time::Duration;

use sessile::app::{App, AppError, AppLink};
use sessile_core::config::WhenFull;
use sessile_core::{Config, Message};
use sessile_tests::pure::script;

use crate::apps::Scripted;
use crate::captured::Captured;
use crate::raw::{GONE, Read as _, Site, app, handler, pass};
use crate::row::{get, post};

const IDLE: Duration = Duration::from_secs(5);
const SECOND: Duration = Duration::from_secs(1);

fn idle() -> Config {
    let mut config = Config::default();
    config.table.idle_timeout = Some(IDLE);
    config
}

/// R001, R010, R029.
#[tokio::test(start_paused = true)]
async fn a_thousand_abandoned_sessions_are_reaped() {
    let site = handler(idle(), Scripted::default());
    let mut ids = Vec::new();
    for _ in 0..1_000 {
        ids.push(site.open().await);
    }
    assert_eq!(site.manager.sessions(), 1_000);
    pass(IDLE).await;
    assert_eq!(site.manager.sessions(), 0);
    for id in &ids[..10] {
        assert_eq!(site.statuses(id).await, GONE);
    }
}

/// R022.
#[tokio::test(start_paused = true)]
async fn a_call_longer_than_the_idle_timeout_survives_it() {
    for accept in ["application/json", "application/json, text/event-stream"] {
        let site = handler(idle(), Scripted::default());
        let id = site.open().await;
        let mut call = post(Some(&id), r#"{"jsonrpc":"2.0","id":1,"method":"long"}"#);
        call.headers_mut().insert("accept", accept.parse().expect("a header's value"));
        let answer = site.send(Some("alice"), call).await.within(10 * SECOND).await;
        assert_eq!(answer.messages().last().expect("an answer")["result"]["long"], true, "{accept}");
        // Idle from the answer on, and not a moment earlier.
        pass(IDLE - SECOND).await;
        assert_eq!(site.manager.sessions(), 1, "{accept}");
        pass(SECOND).await;
        assert_eq!(site.manager.sessions(), 0, "{accept}");
        assert_eq!(site.statuses(&id).await, GONE, "{accept}");
    }
}

/// Every exchange counts, whatever its outcome; R026: connections mean nothing.
#[tokio::test(start_paused = true)]
async fn every_exchange_pushes_the_idle_deadline_back() {
    let site = handler(idle(), Scripted::default());
    let id = site.open().await;
    for body in
        ["$PING", "$NOTE", "$RESPONSE", "$CANCEL", "{", "$INIT", r#"{"jsonrpc":"2.0","id":1,"method":"nothing"}"#]
    {
        pass(IDLE - SECOND).await;
        assert!(site.post(&id, body).await.answer().done, "{body}");
    }
    pass(IDLE - SECOND).await;
    assert_eq!(site.manager.sessions(), 1);
    pass(SECOND).await;
    assert_eq!(site.manager.sessions(), 0);
}

/// R023, R033, R081, R082.
#[tokio::test(start_paused = true)]
async fn an_open_get_keeps_its_session() {
    let site = handler(idle(), Scripted::default());
    let id = site.open().await;
    let stream = site.get(&id).await;
    pass(20 * IDLE).await;
    assert_eq!(site.manager.sessions(), 1);
    assert!(!stream.answer().done);
    stream.hang_up().await;
    assert_eq!(site.post(&id, "$PING").await.answer().status(), Some(200));
    pass(IDLE).await;
    assert_eq!(site.statuses(&id).await, GONE);
}

/// R024: nobody waits for the answer, and it never comes.
#[tokio::test(start_paused = true)]
async fn a_call_without_end_and_without_client_does_not_keep_its_session() {
    for held in [true, false] {
        let scripted = Scripted::default();
        let site = handler(idle(), scripted.clone());
        let id = site.open().await;
        let call = site.post(&id, "$HANG").await;
        if !held {
            pass(SECOND).await;
            assert_eq!(call.answer().status(), Some(200));
        }
        call.hang_up().await;
        pass(IDLE - SECOND).await;
        assert_eq!((site.manager.sessions(), scripted.dropped()), (1, 0), "held: {held}");
        pass(SECOND).await;
        // The call has been stopped, and the session is idle from then on.
        assert_eq!((site.manager.sessions(), scripted.dropped()), (1, 1), "held: {held}");
        pass(IDLE).await;
        assert_eq!(site.manager.sessions(), 0, "held: {held}");
        assert_eq!(site.statuses(&id).await, GONE, "held: {held}");
    }
}

/// R024, for an app that runs as long as its session.
#[tokio::test(start_paused = true)]
async fn a_request_without_end_and_without_client_does_not_keep_an_app() {
    let scripted = Scripted::default();
    let site = app(idle(), scripted.clone());
    let id = site.open().await;
    site.post(&id, "$HANG").await.hang_up().await;
    pass(2 * IDLE).await;
    assert_eq!((site.manager.sessions(), scripted.stopped()), (0, 1));
    assert_eq!(site.statuses(&id).await, GONE);
}

/// A call whose client is there has all the time in the world.
#[tokio::test(start_paused = true)]
async fn a_call_with_its_client_there_is_never_ended_by_idleness() {
    let site = handler(idle(), Scripted::default());
    let id = site.open().await;
    let call = site.post(&id, "$HANG").await;
    pass(1_000 * IDLE).await;
    assert!(!call.answer().done);
    assert_eq!(site.manager.sessions(), 1);
}

/// The client never came back after `initialize`.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_never_used_ends_after_the_init_timeout() {
    let mut config = Config::default();
    config.table.init_timeout = Some(3 * SECOND);
    let site = handler(config, Scripted::default());
    let opened = site.send(Some("alice"), post(None, "$INIT")).await.answer();
    pass(2 * SECOND).await;
    assert_eq!(site.manager.sessions(), 1);
    pass(SECOND).await;
    assert_eq!(site.manager.sessions(), 0);
    assert_eq!(site.statuses(&opened.session_id().expect("an id")).await, GONE);
}

/// R056, R057: whatever comes first confirms the session, `notifications/initialized` or not, and twice does no harm.
#[tokio::test(start_paused = true)]
async fn any_first_exchange_confirms_a_session() {
    let mut config = Config::default();
    config.table.init_timeout = Some(3 * SECOND);
    let site = handler(config, Scripted::default());
    for first in ["$PING", "$NOTE", "$RESPONSE", "GET"] {
        let opened = site.send(Some("alice"), post(None, "$INIT")).await.answer();
        let id = opened.session_id().expect("an id");
        let request = if first == "GET" { get(&id) } else { post(Some(&id), first) };
        let exchange = site.send(Some("alice"), request).await;
        assert!(exchange.answer().status().is_some_and(|status| status < 300), "{first}");
        pass(10 * SECOND).await;
        for _ in 0..2 {
            assert_eq!(site.post(&id, "$NOTE").await.answer().status(), Some(202), "{first}");
        }
        assert_eq!(site.post(&id, "$PING").await.answer().status(), Some(200), "{first}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_at_its_greatest_age_busy_or_not() {
    let mut config = Config::default();
    config.table.max_lifetime = Some(10 * SECOND);
    let site = handler(config, Scripted::default());
    let idle = site.open().await;
    let busy = site.open().await;
    let call = site.post(&busy, "$HANG").await;
    let stream = site.get(&busy).await;
    pass(9 * SECOND).await;
    assert_eq!(site.manager.sessions(), 2);
    pass(SECOND).await;
    assert_eq!(site.manager.sessions(), 0);
    let last = call.answer().messages().pop().expect("an error");
    assert_eq!((&last["id"], &last["error"]["code"]), (&1.into(), &(-32603).into()));
    assert!(call.answer().done && stream.answer().done);
    assert_eq!(site.statuses(&idle).await, GONE);
    assert_eq!(site.statuses(&busy).await, GONE);
}

/// R028: with expiry switched off nothing ends by itself.
#[tokio::test(start_paused = true)]
async fn without_expiry_a_session_lives_for_a_year() {
    let mut config = Config::default();
    config.table.idle_timeout = None;
    config.table.when_full = WhenFull::EvictIdle;
    let site = handler(config, Scripted::default());
    let id = site.open().await;
    pass(Duration::from_secs(365 * 24 * 60 * 60)).await;
    assert_eq!(site.post(&id, "$PING").await.answer().status(), Some(200));
}

/// R027, R179, R181: full is never terminal.
#[tokio::test(start_paused = true)]
async fn a_full_table_refuses_and_recovers() {
    let mut config = idle();
    config.table.max_sessions = 3;
    let scripted = Scripted::default();
    let site = handler(config, scripted.clone());
    let first = site.open().await;
    for _ in 0..2 {
        site.open().await;
    }
    for _ in 0..20 {
        let refused = site.send(Some("bob"), post(None, "$INIT")).await.answer();
        assert_eq!((refused.status(), refused.header("retry-after").as_deref()), (Some(503), Some("5")));
        // R180: nothing about how many there are.
        let message = refused.messages()[0]["error"]["message"].clone();
        assert!(message.as_str().is_some_and(|text| !text.contains(|digit: char| digit.is_ascii_digit())), "{message}");
    }
    assert_eq!((site.manager.sessions(), scripted.started()), (3, 3));
    site.delete(&first).await;
    site.open_as(Some("bob")).await;
    pass(IDLE).await;
    for _ in 0..3 {
        site.open_as(Some("bob")).await;
    }
}

/// R013, R027, R045: who made room is unknown from then on, and nobody plays a handshake for it.
#[tokio::test(start_paused = true)]
async fn the_session_that_has_been_idle_longest_makes_room() {
    let mut config = Config::default();
    config.table.max_sessions = 2;
    config.table.when_full = WhenFull::EvictIdle;
    let site = handler(config, Scripted::default());
    let (first, second) = (site.open().await, site.open().await);
    pass(SECOND).await;
    site.post(&first, "$PING").await;
    let third = site.open().await;
    for _ in 0..3 {
        assert_eq!(site.post(&second, "$PING").await.answer().status(), Some(404));
    }
    assert_eq!(site.manager.sessions(), 2);
    let (call, stream) = (site.post(&first, "$HANG").await, site.get(&third).await);
    let refused = site.send(Some("alice"), post(None, "$INIT")).await.answer();
    assert_eq!(refused.status(), Some(503));
    assert!(!call.answer().done && !stream.answer().done);
    stream.hang_up().await;
    site.open().await;
    assert_eq!(site.post(&third, "$PING").await.answer().status(), Some(404));
    assert_eq!(site.manager.sessions(), 2);
}

/// R003, R048, R049.
#[tokio::test(start_paused = true)]
async fn delete_ends_a_session_once_and_for_all() {
    let scripted = Scripted::default();
    let site = app(Config::default(), scripted.clone());
    for round in 1..=200 {
        let id = site.open().await;
        assert_eq!(site.delete(&id).await.answer().status(), Some(204));
        assert_eq!(site.statuses(&id).await, GONE);
        assert_eq!((site.manager.sessions(), scripted.stopped()), (0, round));
    }
}

/// R021: a client that leaves in the middle of things costs no place.
#[tokio::test(start_paused = true)]
async fn places_are_not_lost_to_clients_that_leave() {
    let mut config = idle();
    config.table.max_sessions = 5;
    let site: Site<_> = handler(config, Scripted::default());
    for round in 0..200 {
        let id = site.open().await;
        site.post(&id, "$HANG").await.hang_up().await;
        site.get(&id).await.hang_up().await;
        if round % 5 == 4 {
            pass(2 * IDLE).await;
            assert_eq!(site.manager.sessions(), 0, "{round}");
        }
    }
}

/// R031: nobody is pinged who has no stream, and nothing is logged about sessions that do nothing.
#[tokio::test(start_paused = true)]
async fn idle_sessions_are_left_in_peace() {
    let captured = Captured::of_this_thread();
    let scripted = Scripted::default();
    let site = app(Config::default(), scripted.clone());
    for _ in 0..100 {
        site.open().await;
    }
    let before = captured.lines().len();
    pass(Duration::from_secs(5 * 60)).await;
    assert_eq!(captured.lines()[before..], [""; 0]);
    assert_eq!((site.manager.sessions(), site.manager.stats().server_requests_failed), (100, 0));
}

/// Pings its client when it is told to.
struct Pinging;

impl App for Pinging {
    async fn run(&self, mut link: AppLink) -> Result<(), AppError> {
        while let Some(inbound) = link.recv().await {
            let Some(request) = inbound.message.as_request() else { continue };
            if request.method == "ping-me" {
                let ping = format!(r#"{{"jsonrpc":"2.0","id":{},"method":"ping"}}"#, request.id.to_json());
                let _ = link.send(Message::parse(ping.into()).expect("a message"));
            }
            let result = script::result(&request.id, r#"{"protocolVersion":"2025-11-25"}"#);
            let _ = link.send(Message::parse(result.into()).expect("a message"));
        }
        Ok(())
    }
}

/// R224, R225, R226: a ping that its client does not know, or never answers, ends no session.
#[tokio::test(start_paused = true)]
async fn a_ping_that_is_not_answered_ends_no_session() {
    for refused in [true, false] {
        let site = app(idle(), Pinging);
        let id = site.open().await;
        let stream = site.get(&id).await;
        for number in 1..=10 {
            let asked = site.post(&id, &format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"ping-me"}}"#)).await;
            assert_eq!(asked.answer().status(), Some(200));
            let pings = stream.answer().messages();
            assert_eq!((pings.len(), &pings[number - 1]["method"]), (number, &"ping".into()));
            if refused {
                let error = r#""error":{"code":-32601,"message":"Method not found"}"#;
                let answer = format!(r#"{{"jsonrpc":"2.0","id":{number},{error}}}"#);
                assert_eq!(site.post(&id, &answer).await.answer().status(), Some(202));
            }
            pass(20 * IDLE).await;
        }
        assert!(!stream.answer().done);
        assert_eq!(site.manager.sessions(), 1, "refused: {refused}");
    }
}
