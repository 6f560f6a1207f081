//! Sessions.

#![allow(deprecated, reason = "roots are deprecated since 2026-07-28; the older versions have them")]

use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderName, StatusCode};
use rmcp::ServiceError;
use serde_json::{Value, json};
use sessile::app::{RmcpApp, Tasks};
use sessile::core::Config;
use sessile::runtime::tokio::Tokio;
use sessile::{Builder, Principal};
use sessile_tests::client::{self, Answer};
use tokio::time::Instant;

use crate::handler::{Events, Handler, Service, serve, serve_with, start};

pub(crate) type Client = client::Client<Tokio, Tasks<RmcpApp<Handler>>>;

async fn open(service: &Service) -> Client {
    Client::open_with(service.clone(), json!({ "roots": {} })).await
}

pub(crate) fn call(tool: &str) -> Value {
    json!({ "name": tool, "arguments": {} })
}

/// The text that a tool answers with.
pub(crate) async fn text(client: &Client, tool: &str) -> String {
    text_of(&client.request("tools/call", call(tool)).await)
}

pub(crate) fn text_of(answer: &Value) -> String {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

pub(crate) async fn next(events: &mut Events) -> String {
    events.recv().await.expect("the stage is there")
}

#[tokio::test(start_paused = true)]
async fn a_session_has_one_handler_for_all_its_life() {
    let (service, stage, _) = serve();
    let (one, other) = (open(&service).await, open(&service).await);
    for n in ["1", "2", "3"] {
        assert_eq!(text(&one, "count").await, n);
    }
    assert_eq!(text(&other, "count").await, "1");
    assert_eq!(stage.made.load(Ordering::SeqCst), 2);
    assert_eq!(
        (text(&one, "version").await, text(&one, "client").await),
        ("2025-11-25".to_owned(), "tests".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_at_once_is_json_and_what_is_unknown_is_an_error() {
    let (service, ..) = serve();
    let client = open(&service).await;
    let (id, answer) = client.begin("tools/call", call("count")).await;
    assert!(!answer.streams());
    assert_eq!(text_of(&answer.response(id).await), "1");
    assert_eq!(client.request("nonsense", json!({})).await["error"]["code"], -32601);
    assert_eq!(client.request("tools/call", call("nonsense")).await["error"]["code"], -32602);
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_rmcp_cannot_read_is_refused_and_the_session_goes_on() {
    let (service, ..) = serve();
    let client = open(&service).await;
    let deep = (0..200).fold(json!(0), |inner, _| json!([inner]));
    let answer = client.request("tools/call", json!({ "name": "count", "arguments": { "deep": deep } })).await;
    assert_eq!(answer["error"]["code"], -32602, "{answer}");
    assert_eq!(text(&client, "count").await, "1");
}

#[tokio::test(start_paused = true)]
async fn progress_and_log_messages_come_on_the_stream_of_their_call() {
    let (service, ..) = serve();
    let client = open(&service).await;
    let params = json!({ "name": "progress", "_meta": { "progressToken": "t" } });
    let messages = client.begin("tools/call", params).await.1.events().rest().await;
    let steps: Vec<_> = messages.iter().map(|message| message["params"]["progress"].as_f64()).collect();
    assert_eq!(steps, [Some(1.0), Some(2.0), None], "{messages:?}");
    assert_eq!(text_of(&messages[2]), "done");

    let messages = client.begin("tools/call", call("log")).await.1.events().rest().await;
    assert_eq!(messages[0]["method"], "notifications/message");
    assert_eq!(text_of(&messages[1]), "logged");
}

/// The rule for those who can't say would choose the newest call; rmcp can say.
#[tokio::test(start_paused = true)]
async fn a_request_to_the_client_goes_with_the_call_that_it_was_sent_from() {
    let (service, stage, mut events) = serve();
    let client = open(&service).await;
    let (id, older) = begin(&client, &mut events, "wait-and-ask").await;
    let (_, newer) = begin(&client, &mut events, "wait").await;
    let mut older = older.events();
    stage.go.notify_one();
    let asked = older.next().await.expect("a request");
    assert_eq!(asked["method"], "roots/list");
    let roots = json!({ "roots": [{ "uri": "file:///a" }, { "uri": "file:///b" }] });
    assert_eq!(client.respond(&asked, roots).await, StatusCode::ACCEPTED);
    let answer = older.next().await.expect("an answer");
    assert_eq!((&answer["id"], text_of(&answer).as_str()), (&json!(id), "2"));
    stage.go.notify_one();
    assert_eq!(newer.events().rest().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_notification_goes_with_the_call_that_its_handler_names() {
    let (service, stage, mut events) = serve();
    let client = open(&service).await;
    let (_, older) = begin(&client, &mut events, "wait-and-log").await;
    let (_, newer) = begin(&client, &mut events, "wait").await;
    stage.go.notify_one();
    let messages = older.events().rest().await;
    assert_eq!(messages[0]["method"], "notifications/message", "{messages:?}");
    assert_eq!(text_of(&messages[1]), "logged");
    stage.go.notify_one();
    assert_eq!(newer.events().rest().await.len(), 1);
}

/// Begins a call that waits, and sees that it does.
async fn begin(client: &Client, events: &mut Events, tool: &str) -> (i64, Answer) {
    let (id, answer) = client.begin("tools/call", call(tool)).await;
    assert_eq!(next(events).await, "waits");
    (id, answer)
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_client_that_rmcp_cannot_read_ends_the_wait_for_it() {
    let (service, ..) = serve();
    let client = open(&service).await;
    let mut stream = client.begin("tools/call", call("ask")).await.1.events();
    let asked = stream.next().await.expect("a request");
    let error = json!({ "jsonrpc": "2.0", "id": asked["id"], "error": { "code": 1_u64 << 40, "message": "no" } });
    assert_eq!(client.post(&error).await.status, StatusCode::ACCEPTED);
    let answer = stream.next().await.expect("an answer");
    assert!(text_of(&answer).contains("can't be read"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_reaches_the_handler() {
    let (service, _, mut events) = serve();
    let client = open(&service).await;
    let (id, answer) = begin(&client, &mut events, "wait").await;
    assert_eq!(client.notify("notifications/cancelled", json!({ "requestId": id })).await, StatusCode::ACCEPTED);
    assert_eq!(next(&mut events).await, "cancelled");
    assert_eq!(answer.text().await.matches("data: {").count(), 0);
    assert_eq!(text(&client, "count").await, "1");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_has_cancelled_nothing() {
    let (service, stage, mut events) = serve();
    let client = open(&service).await;
    let (_, answer) = begin(&client, &mut events, "wait").await;
    drop(answer);
    assert_eq!(text(&client, "count").await, "1");
    stage.go.notify_one();
    assert_eq!(next(&mut events).await, "released");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_session_cancels_what_runs_and_silences_its_peer() {
    let (service, stage, mut events) = serve();
    let client = open(&service).await;
    text(&client, "keep").await;
    let (id, answer) = begin(&client, &mut events, "wait").await;
    let ended = Instant::now();
    assert_eq!(client.delete().await.status, StatusCode::NO_CONTENT);
    assert!(answer.response(id).await["error"].is_object());
    assert_eq!(next(&mut events).await, "cancelled");
    assert_eq!(ended.elapsed(), Duration::ZERO, "rmcp would give it five seconds");
    let peer = stage.peer.lock().unwrap().take().expect("kept");
    let error = peer.notify_tool_list_changed().await.expect_err("the session is over");
    assert!(matches!(error, ServiceError::TransportClosed | ServiceError::TransportSend(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_peer_can_be_used_outside_of_calls() {
    let (service, stage, _) = serve();
    let client = open(&service).await;
    text(&client, "keep").await;
    let peer = stage.peer.lock().unwrap().take().expect("kept");
    // One that waits for the GET, and one that finds it.
    peer.notify_tool_list_changed().await.expect("the session is live");
    let mut stream = client.get().await.events();
    assert_eq!(stream.next().await.expect("a note")["method"], "notifications/tools/list_changed");
    let asking = tokio::spawn(async move { peer.list_roots().await });
    let asked = stream.next().await.expect("a request");
    assert_eq!(asked["method"], "roots/list");
    client.respond(&asked, json!({ "roots": [] })).await;
    assert_eq!(asking.await.expect("no panic").expect("roots").roots.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handler_finds_the_head_of_its_request_and_who_asks() {
    let (service, ..) = serve();
    let mut client = Client::new(service);
    client.principal(Principal::named("alice")).header(HeaderName::from_static("x-test"), "a header");
    client.initialize("2025-06-18", json!({})).await;
    assert_eq!(text(&client, "whoami").await, r#"["a header",null,"alice","alice","Session"]"#);
}

/// rmcp alone would leave the client waiting.
#[tokio::test(start_paused = true)]
async fn a_panic_costs_one_request() {
    let (service, ..) = serve();
    let client = open(&service).await;
    assert_eq!(client.request("tools/call", call("panic")).await["error"]["code"], -32603);
    assert_eq!(text(&client, "count").await, "1");
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_refuse_to_begin() {
    let (service, stage, _) = serve();
    let answer = Client::new(service).post(&initialize("refuse")).await;
    assert_eq!((answer.status, answer.headers.get("mcp-session-id")), (StatusCode::OK, None));
    assert_eq!(answer.json().await["error"]["message"], "I don't like you");
    assert_eq!(stage.made.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_has_not_begun_ends_with_its_session() {
    let (service, _, mut events) = serve();
    let client = Client::new(service);
    let message = initialize("stall");
    let mut answer = Box::pin(client.post(&message));
    tokio::select! {
        answer = &mut answer => panic!("{}", answer.status),
        event = next(&mut events) => assert_eq!(event, "stalls"),
    }
    drop(answer);
    assert_eq!(next(&mut events).await, "dropped");
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_cannot_be_made_is_500() {
    let app = RmcpApp::<Handler>::new(|_| Err(std::io::Error::other("no database")));
    let manager = Builder::new(Tokio::current()).app(app).build().expect("good settings");
    let answer = Client::new(start(&manager)).post(&initialize("1")).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!answer.text().await.contains("database"), "what went wrong here is not the client's to know");
    assert_eq!(manager.sessions(), 0);
}

fn initialize(version: &str) -> Value {
    let client = json!({ "name": "tests", "version": version });
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_session_has_a_handler_of_its_own() {
    let mut config = Config::default();
    config.gate.stateless = true;
    config.table.idle_timeout = None;
    let (service, stage, _) = serve_with(config);
    let mut client = Client::new(service);
    assert_eq!(client.post(&initialize("1")).await.json().await["result"]["protocolVersion"], "2025-11-25");
    client.header(HeaderName::from_static("mcp-protocol-version"), "2025-06-18");
    for _ in 0..2 {
        assert_eq!(text(&client, "count").await, "1");
    }
    assert_eq!(text(&client, "version").await, "2025-06-18");
    assert_eq!(stage.made.load(Ordering::SeqCst), 4);
    // Nobody could answer.
    let refused = text(&client, "ask").await;
    assert!(refused.contains("no connection"), "{refused}");
}
