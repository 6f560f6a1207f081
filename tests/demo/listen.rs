//! Subscriptions: what was asked for, first acknowledged, then told, until the client goes.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use sessile::Builder;
use sessile::core::Config;
use sessile::runtime::tokio::Tokio;
use sessile_tests::client::{Client, Events};
use tokio::time::{Instant, timeout};

use super::{Demo, DemoClient, call, serve, text};

const ABOUT: &str = "demo://about";
const TOUCHED: &str = "demo://touched";

/// Listens; gives the id, what was acknowledged, and what follows.
async fn listen(client: &DemoClient, filter: Value) -> (i64, Value, Events) {
    let (id, answer) = client.begin("subscriptions/listen", json!({ "notifications": filter })).await;
    assert_eq!(answer.status, StatusCode::OK);
    let mut events = answer.events();
    let first = events.next().await.expect("an acknowledgement");
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["_meta"], json!({ "io.modelcontextprotocol/subscriptionId": id }));
    (id, first["params"]["notifications"].clone(), events)
}

async fn silent(events: &mut Events) -> bool {
    timeout(Duration::from_secs(60), events.next()).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn what_is_acknowledged_is_what_can_be_told() {
    let client = Client::modern(serve(Demo::new()).1, json!({}));
    for (asked, honoured) in [
        (json!({}), json!({})),
        (json!({ "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true }), json!({})),
        (json!({ "resourceSubscriptions": [] }), json!({ "resourceSubscriptions": [] })),
        (
            json!({ "resourceSubscriptions": [TOUCHED, "demo://other", TOUCHED, ABOUT], "toolsListChanged": false }),
            json!({ "resourceSubscriptions": [ABOUT, TOUCHED] }),
        ),
    ] {
        let (_, acknowledged, _) = listen(&client, asked.clone()).await;
        assert_eq!(acknowledged, honoured, "{asked}");
    }
    let discovered = client.request("server/discover", json!({})).await;
    assert_eq!(discovered["result"]["capabilities"]["resources"], json!({ "subscribe": true }));
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_to_those_who_asked_for_it() {
    let (_manager, service) = serve(Demo::new());
    let client = Client::modern(service.clone(), json!({}));
    let other = Client::modern(service, json!({}));
    let (one, _, mut first) = listen(&client, json!({ "resourceSubscriptions": [TOUCHED] })).await;
    let (two, _, mut second) = listen(&client, json!({ "resourceSubscriptions": [ABOUT, TOUCHED] })).await;
    let (_, _, mut third) = listen(&client, json!({ "resourceSubscriptions": [ABOUT] })).await;
    assert_ne!(one, two);
    for times in 1..=3 {
        assert_eq!(text(&call(&other, "touch", json!({})).await), times.to_string());
        for (id, events) in [(one, &mut first), (two, &mut second)] {
            let note = events.next().await.expect("a change");
            assert_eq!(note["method"], "notifications/resources/updated");
            let tag = json!({ "io.modelcontextprotocol/subscriptionId": id });
            assert_eq!(note["params"], json!({ "_meta": tag, "uri": TOUCHED }));
        }
        let read = client.request("resources/read", json!({ "uri": TOUCHED })).await;
        assert_eq!(read["result"]["contents"][0]["text"], format!("Touched so far: {times}"));
        assert_eq!((&read["result"]["ttlMs"], &read["result"]["cacheScope"]), (&json!(0), &json!("public")));
    }
    assert!(silent(&mut first).await && silent(&mut second).await && silent(&mut third).await);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_ends_when_its_client_goes() {
    let (manager, service) = serve(Demo::new());
    let client = Client::modern(service, json!({}));
    let (_, _, events) = listen(&client, json!({ "resourceSubscriptions": [TOUCHED] })).await;
    drop(events);
    let start = Instant::now();
    manager.shutdown(Duration::from_secs(10), Duration::from_secs(10)).await.expect("running");
    assert_eq!(start.elapsed(), Duration::ZERO, "nothing was left to wait for");
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_subscription_with_its_result_and_waits_for_none() {
    let (manager, service) = serve(Demo::new());
    let client = Client::modern(service, json!({}));
    let (id, _, mut events) = listen(&client, json!({ "resourceSubscriptions": [TOUCHED] })).await;
    let start = Instant::now();
    let reading = tokio::spawn(async move { (events.next().await, events.next().await.is_none()) });
    manager.shutdown(Duration::from_secs(10), Duration::from_secs(10)).await.expect("running");
    assert_eq!(start.elapsed(), Duration::ZERO);
    let (last, over) = reading.await.expect("no panic");
    let result = json!({ "resultType": "complete", "_meta": { "io.modelcontextprotocol/subscriptionId": id } });
    assert_eq!(last.expect("a result"), json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    assert!(over);
}

/// R086: or whatever lies between cuts it, and nobody hears of it.
#[tokio::test(start_paused = true)]
async fn a_silent_subscription_carries_comments() {
    let mut config = Config::default();
    config.session.keep_alive = Duration::from_secs(5);
    let manager = Builder::new(Tokio::current()).handler(Demo::new()).config(config).build().expect("good settings");
    manager.start().expect("the first time");
    let client = Client::modern(manager.service().expect("running"), json!({}));
    let (_, answer) = client.begin("subscriptions/listen", json!({ "notifications": {} })).await;
    let reading = tokio::spawn(answer.text());
    tokio::time::sleep(Duration::from_secs(61)).await;
    manager.shutdown(Duration::ZERO, Duration::ZERO).await.expect("running");
    let text = reading.await.expect("no panic");
    assert_eq!(text.matches(":\n\n").count(), 12, "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_must_say_to_what() {
    let client = Client::modern(serve(Demo::new()).1, json!({}));
    for params in [
        json!({}),
        json!({ "notifications": null }),
        json!({ "notifications": "all" }),
        json!({ "notifications": [] }),
        json!({ "notifications": { "toolsListChanged": "yes" } }),
        json!({ "notifications": { "resourceSubscriptions": TOUCHED } }),
    ] {
        let (id, answer) = client.begin("subscriptions/listen", params.clone()).await;
        let answer = answer.response(id).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_have_nothing_to_listen_to() {
    let client = Client::open(serve(Demo::new()).1).await;
    let answer = client.request("tools/call", json!({ "name": "touch", "arguments": {} })).await;
    assert_eq!(answer["error"]["message"], "Unknown tool: touch");
    let answer = client.request("resources/read", json!({ "uri": TOUCHED })).await;
    assert_eq!(answer["error"]["code"], -32002);
    assert_eq!(client.request("subscriptions/listen", json!({ "notifications": {} })).await["error"]["code"], -32601);
}
