//! How exchanges and sessions end when a client leaves, cancels or deletes, or an app gives up. R062, R075 to R082, R017.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::HeaderValue;
use serde_json::json;
use sessile::Builder;
use sessile::app::{App, AppError, AppLink, Backend, handler_fn};
use sessile::core::Message;
use sessile_core::{Config, Eras};
use sessile_tests::client::Client;
use sessile_tests::pure::script;
use sessile_tests::threads::{Threads, block_on};

use crate::apps::{Scripted, exited};
use crate::raw::{Exchange, GONE, Read as _, Site, app, handler, pass};
use crate::row::post;

const SECOND: Duration = Duration::from_secs(1);

/// A call whose head is held for good.
async fn held<B: Backend>(site: &Site<B>, id: &str) -> Exchange {
    let mut request = post(Some(id), r#"{"jsonrpc":"2.0","id":"held","method":"hang"}"#);
    request.headers_mut().insert("accept", HeaderValue::from_static("application/json"));
    site.send(Some("alice"), request).await
}

async fn streaming<B: Backend>(site: &Site<B>, id: &str) -> Exchange {
    let exchange = site.post(id, r#"{"jsonrpc":"2.0","id":"streaming","method":"hang"}"#).await;
    pass(SECOND).await;
    exchange
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_before_the_head_of_initialize_leaves_no_session() {
    for (scripted, is_app) in [(Scripted::default(), false), (Scripted::default(), true)] {
        let left = if is_app {
            let site = app(Config::default(), scripted.clone());
            site.send(Some("alice"), post(None, "$INIT-SLOW")).await.hang_up().await;
            site.manager.sessions()
        } else {
            let site = handler(Config::default(), scripted.clone());
            site.send(Some("alice"), post(None, "$INIT-SLOW")).await.hang_up().await;
            site.manager.sessions()
        };
        assert_eq!((left, scripted.started()), (0, 1), "app: {is_app}");
        assert_eq!(if is_app { scripted.stopped() } else { scripted.dropped() }, 1, "app: {is_app}");
    }
}

/// Once it has the id, the session is its own.
#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_after_the_head_of_initialize_has_its_session() {
    let site = handler(Config::default(), Scripted::default());
    let opening = site.send(Some("alice"), post(None, "$INIT-SLOW")).await;
    pass(Duration::from_millis(5_500)).await;
    let id = opening.answer().session_id().expect("the head has left");
    opening.hang_up().await;
    pass(SECOND).await;
    assert_eq!(site.post(&id, "$PING").await.answer().status(), Some(200));
}

/// R079: up to 2025-11-25 a lost connection cancels nothing; R076, R077: nor does it harm others.
#[tokio::test(start_paused = true)]
async fn a_lost_connection_cancels_nothing() {
    let finished = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&finished);
    let server = handler_fn(move |context, message: Message| {
        let finished = Arc::clone(&counted);
        async move {
            match message.method() {
                Some("initialize") => context.result(&serde_json::json!({"protocolVersion": "2025-11-25"})),
                Some("long") => {
                    context.sleep(10 * SECOND).await;
                    finished.fetch_add(1, Ordering::SeqCst);
                    context.result(&())
                }
                _ => context.result(&()),
            }
        }
    });
    let site = handler(Config::default(), server);
    let (id, other) = (site.open().await, site.open().await);
    let calm = site.post(&other, r#"{"jsonrpc":"2.0","id":1,"method":"long"}"#).await;
    for number in 0..100 {
        let call = site.post(&id, &format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"long"}}"#)).await;
        if number % 2 == 0 {
            pass(Duration::from_millis(10)).await;
        }
        call.hang_up().await;
    }
    pass(SECOND).await;
    let late = site.post(&id, r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#).await.answer();
    assert_eq!(late.status(), Some(400), "its id is still in flight");
    assert_eq!(calm.within(10 * SECOND).await.messages().pop().expect("an answer")["id"], 1);
    pass(SECOND).await;
    assert_eq!(finished.load(Ordering::SeqCst), 101);
    // Their ids are free again.
    assert_eq!(site.post(&id, r#"{"jsonrpc":"2.0","id":5,"method":"ping"}"#).await.answer().status(), Some(200));
}

/// Cancelled: 202 for a held head, the end of a stream; the handler is dropped and the id is free.
#[tokio::test(start_paused = true)]
async fn a_cancelled_request_ends_at_once() {
    let scripted = Scripted::default();
    let site = handler(Config::default(), scripted.clone());
    let id = site.open().await;
    let (held, streaming) = (held(&site, &id).await, streaming(&site, &id).await);
    let before = streaming.answer().text();
    for (request, dropped) in [("held", 1), ("streaming", 2)] {
        let note = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"#;
        let cancelled = site.post(&id, &format!(r#"{note}"{request}","reason":"enough"}}}}"#)).await.answer();
        assert_eq!((cancelled.status(), cancelled.text()), (Some(202), String::new()));
        assert_eq!(scripted.dropped(), dropped);
    }
    let held = held.answer();
    assert_eq!((held.status(), held.text(), held.done), (Some(202), String::new(), true));
    let streaming = streaming.answer();
    assert_eq!((streaming.text(), streaming.done), (before, true));
    for request in ["held", "streaming"] {
        let again = site.post(&id, &format!(r#"{{"jsonrpc":"2.0","id":"{request}","method":"ping"}}"#)).await.answer();
        assert_eq!(again.status(), Some(200), "{request}");
    }
}

/// R051: naming nothing that is in flight, or initialize, changes nothing.
#[tokio::test(start_paused = true)]
async fn a_cancellation_of_nothing_is_accepted() {
    let site = handler(Config::default(), Scripted::default());
    let id = site.open().await;
    let call = held(&site, &id).await;
    for params in [r#"{"requestId":"other"}"#, r#"{"requestId":1}"#, r#"{"requestId":null}"#, "{}"] {
        let note = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#);
        assert_eq!(site.post(&id, &note).await.answer().status(), Some(202), "{params}");
    }
    assert!(!call.answer().done);
}

/// R080: promptly, with an error, and nothing afterwards.
#[tokio::test(start_paused = true)]
async fn delete_answers_every_open_call_with_an_error() {
    for is_app in [false, true] {
        let scripted = Scripted::default();
        if is_app {
            delete_ends_all(&app(Config::default(), scripted.clone())).await;
            assert_eq!(scripted.stopped(), 2);
        } else {
            delete_ends_all(&handler(Config::default(), scripted.clone())).await;
            assert_eq!(scripted.dropped(), 2);
        }
    }
}

async fn delete_ends_all<B: Backend>(site: &Site<B>) {
    let id = site.open().await;
    let other = site.open_as(Some("bob")).await;
    let (held, streaming, stream) = (held(site, &id).await, streaming(site, &id).await, site.get(&id).await);
    assert_eq!(site.delete(&id).await.answer().status(), Some(204));
    all_ended(held, streaming, &stream);
    assert_eq!(site.statuses(&id).await, GONE);
    let ping = site.send(Some("bob"), post(Some(&other), "$PING")).await.answer();
    assert_eq!(ping.status(), Some(200));
    site.send(Some("bob"), crate::row::delete(&other)).await;
}

/// R062: the errors bear the requests' own ids.
fn all_ended(held: Exchange, streaming: Exchange, stream: &Exchange) {
    let (held, streaming) = (held.answer(), streaming.answer());
    assert_eq!((held.status(), held.done), (Some(500), true));
    let error = held.messages().pop().expect("an error");
    assert_eq!((&error["id"], &error["error"]["code"]), (&"held".into(), &(-32603).into()));
    assert_eq!((streaming.status(), streaming.done), (Some(200), true));
    let error = streaming.messages().pop().expect("an error");
    assert_eq!((&error["id"], &error["error"]["code"]), (&"streaming".into(), &(-32603).into()));
    assert!(stream.answer().done);
    assert_eq!(stream.answer().messages(), Vec::<serde_json::Value>::new());
}

/// Answers `initialize`, holds everything else, and goes its way when it is told to.
#[derive(Clone, Copy)]
enum Ends {
    Failing,
    Panicking,
    Returning,
}

impl App for Ends {
    async fn run(&self, mut link: AppLink) -> Result<(), AppError> {
        while let Some(inbound) = link.recv().await {
            match inbound.message.method() {
                Some("initialize") => {
                    let id = &inbound.message.as_request().expect("a request").id;
                    let result = script::result(id, r#"{"protocolVersion":"2025-11-25"}"#);
                    let message = Message::parse(result.into()).expect("a message");
                    link.send(message).expect("the session is live");
                }
                Some("end") => match self {
                    Self::Failing => return Err(exited()),
                    Self::Panicking => panic!("as the test wants it"),
                    Self::Returning => return Ok(()),
                },
                _ => {}
            }
        }
        Ok(())
    }
}

/// R004, R017: whatever the way out, open calls get an error at once and the session is gone.
#[tokio::test(start_paused = true)]
async fn a_session_ends_with_its_app() {
    for ends in [Ends::Failing, Ends::Panicking, Ends::Returning] {
        let site = app(Config::default(), ends);
        let (id, other) = (site.open().await, site.open().await);
        let (held, streaming, stream) = (held(&site, &id).await, streaming(&site, &id).await, site.get(&id).await);
        assert_eq!(site.post(&id, r#"{"jsonrpc":"2.0","method":"end"}"#).await.answer().status(), Some(202));
        all_ended(held, streaming, &stream);
        assert_eq!(site.statuses(&id).await, GONE);
        assert_eq!(site.post(&other, "$NOTE").await.answer().status(), Some(202));
        assert_eq!(site.manager.sessions(), 1);
    }
}

/// Such an app may have ended before whoever has started it goes on.
#[test]
fn an_app_that_ends_at_once_is_a_failure_and_no_unknown_session() {
    struct Refusing;
    impl App for Refusing {
        fn eras(&self) -> impl Future<Output = Eras> + Send {
            std::future::ready(Eras::BOTH)
        }

        async fn run(&self, _: AppLink) -> Result<(), AppError> {
            Err(exited())
        }
    }
    let manager = Builder::new(Threads::default()).app(Refusing).build().expect("good settings");
    manager.start().expect("started once");
    let service = manager.service().expect("running");
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let legacy = block_on(Client::new(service.clone()).post(&initialize));
    let (_, modern) = block_on(Client::modern(service, json!({})).begin("tools/list", json!({})));
    assert_eq!((legacy.status.as_u16(), modern.status.as_u16()), (500, 500));
    assert_eq!(manager.sessions(), 0);
}

/// A handler that panics costs the one request.
#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_answers_with_an_error() {
    let server = handler_fn(|context, message: Message| async move {
        match message.method() {
            Some("initialize") => context.result(&serde_json::json!({"protocolVersion": "2025-11-25"})),
            Some("panic") => panic!("as the test wants it"),
            Some("late panic") => {
                context.sleep(SECOND).await;
                panic!("as the test wants it")
            }
            _ => context.result(&()),
        }
    });
    let site = handler(Config::default(), server);
    let id = site.open().await;
    for method in ["panic", "late panic"] {
        let body = format!(r#"{{"jsonrpc":"2.0","id":9,"method":"{method}"}}"#);
        let answer = site.post(&id, &body).await.within(2 * SECOND).await;
        let error = answer.messages().pop().expect("an error");
        assert_eq!((&error["id"], &error["error"]["code"]), (&9.into(), &(-32603).into()), "{method}");
        assert!(!answer.text().contains("test wants"), "{method}");
        assert_eq!(site.post(&id, r#"{"jsonrpc":"2.0","method":"panic"}"#).await.answer().status(), Some(202));
        assert_eq!(site.post(&id, "$PING").await.answer().status(), Some(200), "{method}");
    }
}
