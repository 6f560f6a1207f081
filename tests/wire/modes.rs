//! When a head leaves and what keeps a stream alive. R083, R087, R088, R094, R095, R249.

use std::time::Duration;

use http::HeaderValue;
use sessile_core::Config;
use sessile_core::config::ResponseMode;
use sessile_tests::pure::Upload;

use crate::apps::Scripted;
use crate::raw::{GONE, Read as _, app, handler, pass};
use crate::row::{UNKNOWN, delete, get, post, request};

const MILLI: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

fn body(method: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#)
}

/// R083: on GET and on a pending POST.
#[tokio::test(start_paused = true)]
async fn silent_streams_carry_comments() {
    let site = handler(Config::default(), Scripted::default());
    let id = site.open().await;
    let streams = [site.get(&id).await, site.post(&id, "$HANG").await];
    // R087, R088: both heads leave soon, each with a first byte.
    pass(250 * MILLI).await;
    for round in 1..=10 {
        for stream in &streams {
            assert_eq!(stream.answer().text(), ":\n\n".repeat(round), "{round}");
        }
        assert!(streams.iter().all(|stream| !stream.answer().done));
        pass(15 * SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_speaks_needs_no_comments() {
    let mut config = Config::default();
    config.session.keep_alive = SECOND;
    let site = handler(config, Scripted::default());
    let id = site.open().await;
    let stream = site.get(&id).await;
    for _ in 0..10 {
        pass(900 * MILLI).await;
        site.post(&id, &body("tell-session")).await;
    }
    assert_eq!(stream.answer().messages().len(), 10);
    assert_eq!(stream.answer().text().matches(":\n\n").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn comments_can_be_switched_off() {
    let mut config = Config::default();
    config.session.keep_alive = Duration::ZERO;
    let site = handler(config, Scripted::default());
    let id = site.open().await;
    let stream = site.get(&id).await;
    pass(10_000 * SECOND).await;
    assert_eq!(stream.answer().text(), ":\n\n");
}

#[tokio::test(start_paused = true)]
async fn the_window_decides_between_json_and_events() {
    let site = handler(Config::default(), Scripted::default());
    let id = site.open().await;
    let fast = site.post(&id, "$PING").await.answer();
    assert_eq!(fast.header("content-type").as_deref(), Some("application/json"));
    let slow = site.post(&id, &body("late")).await;
    pass(199 * MILLI).await;
    assert_eq!(slow.answer().status(), None);
    pass(2 * MILLI).await;
    assert_eq!(slow.answer().header("content-type").as_deref(), Some("text/event-stream"));
    let slow = slow.within(SECOND).await;
    assert_eq!(slow.messages()[0]["result"]["late"], true);
    // Never the id on an answer other than that of initialize (R255), nor a comment too many.
    assert_eq!((fast.session_id(), slow.session_id()), (None, None));
}

/// R249: one body, whatever the app does and however long it takes.
#[tokio::test(start_paused = true)]
async fn json_mode_answers_with_one_body() {
    let mut config = Config::default();
    config.gate.response_mode = ResponseMode::Json;
    let site = handler(config, Scripted::default());
    let id = site.open().await;
    for method in ["ping", "late", "noted", "noted-late", "long", "nothing"] {
        let answer = site.post(&id, &body(method)).await.within(11 * SECOND).await;
        assert_eq!(answer.header("content-type").as_deref(), Some("application/json"), "{method}");
        assert_eq!(answer.messages().len(), 1, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn sse_mode_answers_with_events() {
    let mut config = Config::default();
    config.gate.response_mode = ResponseMode::Sse;
    let site = handler(config, Scripted::default());
    let id = site.open().await;
    for (method, messages) in [("ping", 1), ("late", 1), ("noted", 3), ("noted-late", 2), ("nothing", 1)] {
        let answer = site.post(&id, &body(method)).await;
        assert_eq!(answer.answer().header("content-type").as_deref(), Some("text/event-stream"), "{method}");
        let answer = answer.within(2 * SECOND).await;
        assert_eq!((answer.messages().len(), answer.done), (messages, true), "{method}");
    }
}

/// R094, R095: without resumption no event has an id, and none is without data, whatever the version.
#[tokio::test(start_paused = true)]
async fn no_event_is_primed_without_resumption() {
    let mut config = Config::default();
    config.gate.response_mode = ResponseMode::Sse;
    let site = handler(config, Scripted::default());
    for initialize in ["$INIT", "$INIT-2025-06-18", "$INIT-2025-03-26", "$INIT-FUTURE", "$INIT-MODERN", "$INIT-SLOW"] {
        let opened = site.send(Some("alice"), post(None, initialize)).await.within(7 * SECOND).await;
        let id = opened.session_id().expect("an id");
        let call = site.post(&id, &body("noted-late")).await.within(2 * SECOND).await;
        for answer in [opened, call] {
            for line in answer.text().lines().filter(|line| !line.is_empty()) {
                assert!(line == ":" || line == "event: message" || line.starts_with("data: {"), "{initialize}: {line}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_start_opens_a_stream_with_the_id_in_its_head() {
    let site = app(Config::default(), Scripted::default());
    let opening = site.send(Some("alice"), post(None, "$INIT-SLOW")).await;
    pass(4_900 * MILLI).await;
    assert_eq!(opening.answer().status(), None);
    pass(200 * MILLI).await;
    let head = opening.answer();
    assert_eq!((head.status(), head.text()), (Some(200), ":\n\n".to_owned()));
    let id = head.session_id().expect("the id is in the head");
    let answer = opening.within(SECOND).await;
    assert_eq!(answer.messages()[0]["result"]["protocolVersion"], "2025-11-25");
    assert!(answer.done);
    assert_eq!(site.post(&id, "$PING").await.answer().status(), Some(200));
}

/// Once the head has left, a failure is an event, and the id is dead.
#[tokio::test(start_paused = true)]
async fn a_start_that_fails_late_is_an_error_event_and_a_dead_id() {
    let mut config = Config::default();
    config.session.start_timeout = 8 * SECOND;
    let site = handler(config, Scripted::default());
    let opening = site.send(Some("alice"), post(None, "$INIT-SILENT")).await;
    pass(6 * SECOND).await;
    let id = opening.answer().session_id().expect("the id is in the head");
    let answer = opening.within(3 * SECOND).await;
    assert_eq!(
        (answer.messages()[0]["id"].clone(), answer.messages()[0]["error"]["code"].clone()),
        (1.into(), (-32603).into())
    );
    assert!(answer.done);
    assert_eq!(site.statuses(&id).await, GONE);
    assert_eq!(site.manager.sessions(), 0);
}

/// The client takes JSON alone, so the head waits on.
#[tokio::test(start_paused = true)]
async fn a_slow_start_for_a_client_that_takes_json_alone() {
    let site = handler(Config::default(), Scripted::default());
    let mut request = post(None, "$INIT-SLOW");
    request.headers_mut().insert("accept", HeaderValue::from_static("application/json"));
    let opening = site.send(Some("alice"), request).await;
    pass(5_900 * MILLI).await;
    assert_eq!(opening.answer().status(), None);
    let answer = opening.within(SECOND).await;
    assert_eq!(answer.header("content-type").as_deref(), Some("application/json"));
    assert!(answer.session_id().is_some());
}

/// R096: such headers are the HTTP stack's to write, and later versions of HTTP forbid them.
#[tokio::test(start_paused = true)]
async fn no_answer_has_headers_of_one_connection() {
    let site = handler(Config::default(), Scripted::default());
    let id = site.open().await;
    let mut wrong = post(Some(&id), "$PING");
    wrong.headers_mut().insert("content-type", HeaderValue::from_static("text/plain"));
    let mut large = request("PUT", Upload::Never);
    large.headers_mut().insert("content-length", HeaderValue::from_static("9999999999"));
    for mut asked in [
        post(None, "$INIT"),
        post(Some(&id), "$PING"),
        post(Some(&id), "$NOTE"),
        post(Some(&id), "$HANG"),
        post(Some(&id), "{"),
        wrong,
        large,
        get(&id),
        get(UNKNOWN),
        delete(&id),
    ] {
        *asked.version_mut() = http::Version::HTTP_2;
        let shown = format!("{asked:?}");
        let exchange = site.send(Some("alice"), asked).await;
        pass(SECOND).await;
        let answer = exchange.answer();
        assert!(answer.status().is_some(), "{shown}");
        for name in ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"] {
            assert_eq!(answer.header(name), None, "{shown}");
        }
    }
}
