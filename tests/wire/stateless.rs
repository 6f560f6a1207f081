//! The legacy era without sessions: each request by a fresh app, which is torn down on every path. R016, R047, R050, R051, R071, R123,
//! R247, R248, R252.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use serde_json::json;
use sessile::app::{Backend, Calls, Demo, Tasks};
use sessile::http::McpService;
use sessile::runtime::tokio::Tokio;
use sessile_core::{Config, MCP_SESSION_ID};
use sessile_tests::client::{Client, Events};

use crate::apps::Scripted;
use crate::raw::{Site, app, handler, pass};
use crate::row::post;

const SECOND: Duration = Duration::from_secs(1);

fn config() -> Config {
    let mut config = Config::default();
    config.gate.stateless = true;
    config.table.idle_timeout = None;
    config
}

fn demo() -> Site<Calls<Demo>> {
    handler(config(), Demo::new())
}

fn client(site: &Site<Calls<Demo>>) -> Client<Tokio, Calls<Demo>> {
    Client::new(service(site))
}

/// On every path, as these clients ask.
fn service<B: Backend>(site: &Site<B>) -> McpService<Tokio, B> {
    site.manager.service().expect("running")
}

fn no_session(headers: &HeaderMap) {
    assert!(!headers.contains_key(MCP_SESSION_ID));
}

#[tokio::test(start_paused = true)]
async fn requests_are_answered_with_or_without_initialize_and_no_id_is_ever_given() {
    let site = demo();
    let mut client = client(&site);
    for presented in [false, true] {
        if presented {
            client.header(MCP_SESSION_ID, "00000000000000000000000000000000");
        }
        let params =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        for (method, params) in [("initialize", params), ("tools/list", json!({})), ("ping", json!({}))] {
            let (id, answer) = client.begin(method, params).await;
            assert_eq!(answer.status, StatusCode::OK, "{method}");
            no_session(&answer.headers);
            assert!(answer.response(id).await["result"].is_object(), "{method}");
        }
        for method in ["notifications/initialized", "notifications/cancelled"] {
            assert_eq!(client.notify(method, json!({"requestId": 1})).await, StatusCode::ACCEPTED);
        }
    }
    assert_eq!(site.manager.sessions(), 0);
    assert_eq!(site.manager.stats().sessionless, 0);
}

#[tokio::test(start_paused = true)]
async fn there_is_nothing_to_listen_to_and_nothing_to_end() {
    let site = demo();
    let client = client(&site);
    for answer in [client.get().await, client.delete().await] {
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED);
        assert_eq!(answer.headers["allow"], "POST");
        no_session(&answer.headers);
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_lasts_for_one_request() {
    let site = demo();
    let client = client(&site);
    for _ in 0..3 {
        let answer = client.request("tools/call", json!({"name": "count", "arguments": {}})).await;
        assert_eq!(answer["result"]["content"][0]["text"], "1", "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_needs_the_client_fails_at_once() {
    let site = demo();
    let client = client(&site);
    let answer = client.request("tools/call", json!({"name": "ask", "arguments": {"message": "?"}})).await;
    assert_eq!(answer["result"]["isError"], true, "{answer}");
}

#[tokio::test(start_paused = true)]
async fn equal_ids_of_many_clients_never_meet() {
    let site = demo();
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..200 {
        let client = client(&site);
        calls.spawn(async move {
            let name = if number % 2 == 0 { "echo" } else { "slow" };
            let arguments = json!({"text": number.to_string(), "seconds": 1});
            let (id, answer) = client.begin("tools/call", json!({"name": name, "arguments": arguments})).await;
            assert_eq!(id, 1);
            let answer = answer.response(id).await;
            if number % 2 == 0 {
                assert_eq!(answer["result"]["content"][0]["text"], number.to_string());
            }
        });
    }
    while let Some(call) = calls.join_next().await {
        call.expect("every answer matches");
    }
    assert_eq!(site.manager.stats().sessionless, 0);
}

#[tokio::test(start_paused = true)]
async fn every_app_is_torn_down_also_when_its_client_leaves() {
    let scripted = Scripted::default();
    let site: Site<Tasks<Scripted>> = app(config(), scripted.clone());
    for round in 0..30 {
        let method = if round % 3 == 0 { "hang" } else { "ping" };
        let exchange = site.send(None, post(None, &format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}"}}"#))).await;
        pass(SECOND).await;
        drop(exchange);
    }
    pass(SECOND).await;
    assert_eq!(scripted.started(), 30);
    // Up to 2025-11-25 a client that leaves cancels nothing: ten still run, until they have been silent for too long.
    assert_eq!((scripted.stopped(), site.manager.stats().sessionless), (20, 10));
    pass(31 * 60 * SECOND).await;
    assert_eq!((scripted.stopped(), site.manager.stats().sessionless), (30, 0));
}

#[tokio::test(start_paused = true)]
async fn in_the_modern_era_a_client_that_leaves_ends_its_request() {
    let site = handler(Config::default(), Demo::new());
    let client = Client::modern(service(&site), json!({}));
    let call = client.begin("tools/call", json!({"name": "slow", "arguments": {"seconds": 1000}}));
    assert!(tokio::time::timeout(SECOND, call).await.is_err(), "the head waits");
    pass(SECOND).await;
    assert_eq!(site.manager.stats().sessionless, 0);
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_session_have_a_limit_of_their_own() {
    let mut config = Config::default();
    config.sessionless.max_per_principal = 2;
    let site = handler(config, Demo::new());
    let mut waiting = Vec::new();
    let slow = json!({"name": "slow", "arguments": {"seconds": 1000}});
    for _ in 0..2 {
        let client = Client::modern(service(&site), json!({}));
        let slow = slow.clone();
        waiting.push(tokio::spawn(async move { client.begin("tools/call", slow).await.1.status }));
    }
    pass(SECOND).await;
    let client = Client::modern(service(&site), json!({}));
    let (id, answer) = client.begin("tools/call", json!({"name": "echo", "arguments": {"text": "x"}})).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(answer.response(id).await["error"]["code"], -32603);
    // Another principal has room, and so has a session.
    let mut other = Client::modern(service(&site), json!({}));
    other.principal(sessile::Principal::named("other"));
    assert!(other.request("tools/list", json!({})).await["result"].is_object());
    assert!(Client::open(service(&site)).await.request("ping", json!({})).await["result"].is_object());
    for call in waiting {
        call.abort();
    }
    pass(SECOND).await;
    assert_eq!(site.manager.stats().sessionless, 0);
}

/// Opens a subscription, and waits for its first word.
async fn listen(client: &Client<Tokio, Calls<Demo>>) -> (StatusCode, Option<Events>) {
    let filter = json!({"notifications": {"resourceSubscriptions": ["demo://touched"]}});
    let (_, answer) = client.begin("subscriptions/listen", filter).await;
    let status = answer.status;
    if status != StatusCode::OK {
        return (status, None);
    }
    let mut events = answer.events();
    events.next().await.expect("an acknowledgement");
    (status, Some(events))
}

#[tokio::test(start_paused = true)]
async fn subscriptions_that_last_leave_room_for_requests() {
    let mut config = Config::default();
    config.sessionless.max_requests = 2;
    config.sessionless.max_per_principal = 1;
    let site = handler(config, Demo::new());
    let mut open = Vec::new();
    for number in 1..=20 {
        let client = Client::modern(service(&site), json!({}));
        let (status, events) = listen(&client).await;
        assert_eq!(status, StatusCode::OK, "{number}");
        open.push(events);
        let answer = client.request("tools/call", json!({"name": "echo", "arguments": {"text": "x"}})).await;
        assert_eq!(answer["result"]["content"][0]["text"], "x", "{number}: {answer}");
    }
    let now = site.manager.stats();
    assert_eq!((now.subscriptions, now.sessionless, now.exchanges, now.requests_in_flight), (20, 0, 20, 20));
    drop(open);
    pass(SECOND).await;
    let now = site.manager.stats();
    assert_eq!((now.subscriptions, now.exchanges, now.requests_in_flight), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn subscriptions_have_limits_of_their_own() {
    let mut config = Config::default();
    config.sessionless.max_subscriptions = 3;
    config.sessionless.max_subscriptions_per_principal = Some(2);
    let site = handler(config, Demo::new());
    let client = Client::modern(service(&site), json!({}));
    let mut named = Client::modern(service(&site), json!({}));
    named.principal(sessile::Principal::named("ada"));
    let (one, _two) = (listen(&client).await, listen(&client).await);
    assert_eq!(listen(&client).await.0, StatusCode::TOO_MANY_REQUESTS);
    let _three = listen(&named).await;
    let (id, answer) = named.begin("subscriptions/listen", json!({"notifications": {}})).await;
    assert_eq!((answer.status, answer.headers.contains_key("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, true));
    assert_eq!(answer.response(id).await["error"]["code"], -32603);
    let now = site.manager.stats();
    assert_eq!((now.subscriptions, now.subscriptions_rejected.total(), now.sessionless_rejected.total()), (3, 2, 0));
    drop(one);
    pass(SECOND).await;
    assert_eq!(listen(&named).await.0, StatusCode::OK);
}
