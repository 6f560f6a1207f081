//! The era without sessions.

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::{HeaderName, StatusCode};
use rmcp::ServerHandler;
use rmcp::model::ProtocolVersion;
use serde_json::json;
use sessile::app::RmcpApp;
use sessile::core::Eras;
use sessile::runtime::tokio::Tokio;
use sessile::{Builder, Principal};
use sessile_tests::client::Client;
use tokio::time::Instant;

use crate::handler::{Service, serve};
use crate::legacy::{self, call, next, text, text_of};

fn client(service: &Service) -> legacy::Client {
    Client::modern(service.clone(), json!({ "roots": {} }))
}

#[tokio::test(start_paused = true)]
async fn each_request_has_a_handler_of_its_own() {
    let (service, stage, _) = serve();
    let client = client(&service);
    assert_eq!((text(&client, "count").await, text(&client, "count").await), ("1".to_owned(), "1".to_owned()));
    assert_eq!(text(&client, "version").await, "2026-07-28");
    assert_eq!(text(&client, "client").await, "tests");
    // One more has listed the tools, for the sake of parameters in headers.
    assert_eq!(stage.made.load(Ordering::SeqCst), 5);
}

#[tokio::test(start_paused = true)]
async fn what_the_server_speaks_is_rmcp_s_to_say() {
    let (service, ..) = serve();
    let client = client(&service);
    let answer = client.request("server/discover", json!({})).await;
    let versions = answer["result"]["supportedVersions"].as_array().expect("versions");
    assert!(versions.contains(&json!("2026-07-28")), "{answer}");
    let (id, answer) = client.begin("nonsense", json!({})).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    assert_eq!(answer.response(id).await["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn progress_comes_before_the_answer() {
    let (service, ..) = serve();
    let params = json!({ "name": "progress", "_meta": { "progressToken": 7 } });
    let messages = client(&service).begin("tools/call", params).await.1.events().rest().await;
    assert_eq!(messages.len(), 3, "{messages:?}");
    assert_eq!(messages[1]["params"]["progress"], 2.0);
    assert_eq!(text_of(&messages[2]), "done");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_cancels_its_call() {
    let (service, _, mut events) = serve();
    let client = client(&service);
    text(&client, "count").await;
    let call = call("wait");
    let mut answer = Box::pin(client.begin("tools/call", call));
    tokio::select! {
        _ = &mut answer => panic!("nobody has released it"),
        event = next(&mut events) => assert_eq!(event, "waits"),
    }
    let gone = Instant::now();
    drop(answer);
    assert_eq!(next(&mut events).await, "cancelled");
    assert_eq!(gone.elapsed(), Duration::ZERO, "rmcp would give it five seconds");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_tells_of_changes_until_its_client_goes() {
    let (service, stage, mut events) = serve();
    let client = client(&service);
    let params = json!({ "notifications": { "toolsListChanged": true } });
    let (id, answer) = client.begin("subscriptions/listen", params).await;
    let mut stream = answer.events();
    let acknowledged = stream.next().await.expect("an acknowledgement");
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(next(&mut events).await, "listens");
    let sink = stage.sink.lock().unwrap().take().expect("a subscription");
    sink.notify_tool_list_changed().await.expect("the client listens");
    let changed = stream.next().await.expect("a change");
    assert_eq!(changed["method"], "notifications/tools/list_changed");
    assert_eq!(changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], id);
    drop(stream);
    assert_eq!(next(&mut events).await, "listened");
    sink.notify_tool_list_changed().await.expect_err("nobody listens");
}

#[tokio::test(start_paused = true)]
async fn nobody_is_asked_in_the_midst_of_a_call() {
    let (service, ..) = serve();
    let refused = text(&client(&service), "ask").await;
    assert!(refused.contains("not allowed on protocol 2026-07-28"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_handler_finds_the_head_of_its_request_and_who_asks() {
    let (service, ..) = serve();
    let mut client = client(&service);
    client.principal(Principal::named("alice")).header(HeaderName::from_static("x-test"), "a header");
    assert_eq!(text(&client, "whoami").await, r#"["a header",null,"alice","alice","Modern"]"#);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_internal_error() {
    let (service, ..) = serve();
    assert_eq!(client(&service).request("tools/call", call("panic")).await["error"]["code"], -32603);
}

/// What a handler leaves out is refused by rmcp, and an era that the app leaves out by the gate.
#[tokio::test(start_paused = true)]
async fn the_eras_are_those_of_the_app_and_the_versions_those_of_the_handler() {
    #[derive(Debug)]
    struct Old;
    impl ServerHandler for Old {
        fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
            Cow::Borrowed(&[ProtocolVersion::V_2025_06_18])
        }
    }
    for (eras, supported) in
        [(Eras::BOTH, json!(["2025-06-18"])), (Eras::LEGACY, json!(["2025-11-25", "2025-06-18", "2025-03-26"]))]
    {
        let app = RmcpApp::new(|_| Ok(Old)).eras(eras);
        let manager = Builder::new(Tokio::current()).app(app).build().expect("good settings");
        manager.start().expect("started once");
        let service = manager.service().expect("running");
        let (id, answer) = Client::modern(service.clone(), json!({})).begin("tools/list", json!({})).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{eras:?}");
        assert_eq!(answer.response(id).await["error"]["data"]["supported"], supported, "{eras:?}");
        let answer = Client::new(service).initialize("2025-11-25", json!({})).await;
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "{eras:?}");
    }
}
