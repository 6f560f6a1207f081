//! The demo server where there are no sessions: every request says of itself what it needs.

use http::StatusCode;
use serde_json::{Value, json};
use sessile::Principal;
use sessile_tests::client::Client;

use super::{
    Demo, DemoClient, call, call_of, completion_of, error, failure, numbers, prompt_ref, serve, template_ref, text,
};

fn client() -> DemoClient {
    Client::modern(serve(Demo::new()).1, json!({}))
}

/// The whole result of a request, which must have been done.
async fn result(client: &DemoClient, method: &str, params: Value) -> Value {
    let answer = client.request(method, params).await;
    let result = answer["result"].clone();
    assert_eq!(result["resultType"], "complete", "{method}: {answer}");
    let server = json!({ "name": "sessile-demo", "title": "Sessile demo", "version": env!("CARGO_PKG_VERSION") });
    assert_eq!(result["_meta"], json!({ "io.modelcontextprotocol/serverInfo": server }), "{method}");
    result
}

/// The members of a result besides those that every result has.
fn members(result: &Value) -> Vec<&str> {
    let members = result.as_object().expect("an object").keys().map(String::as_str);
    members.filter(|name| !["_meta", "resultType"].contains(name)).collect()
}

#[tokio::test(start_paused = true)]
async fn the_server_can_be_discovered() {
    let client = client();
    let result = result(&client, "server/discover", json!({})).await;
    assert_eq!(members(&result), ["cacheScope", "capabilities", "instructions", "supportedVersions", "ttlMs"]);
    assert_eq!(result["supportedVersions"], json!(["2026-07-28"]));
    for capability in ["completions", "logging", "prompts", "resources", "tools"] {
        assert!(result["capabilities"][capability].is_object(), "{capability}");
    }
    assert!(result["instructions"].as_str().is_some_and(|text| text.contains("echo")));
}

#[tokio::test(start_paused = true)]
async fn what_may_be_kept_says_for_how_long() {
    let client = client();
    for (method, params, kept) in [
        ("server/discover", json!({}), true),
        ("tools/list", json!({}), true),
        ("prompts/list", json!({}), true),
        ("resources/list", json!({}), true),
        ("resources/templates/list", json!({}), true),
        ("resources/read", json!({ "uri": "demo://about" }), true),
        ("resources/read", json!({ "uri": "demo://greeting/Ada" }), true),
        ("tools/call", call_of("echo", json!({ "text": "" })), false),
        ("prompts/get", json!({ "name": "greet", "arguments": { "name": "Ada" } }), false),
        ("completion/complete", completion_of(prompt_ref("greet"), "name", ""), false),
    ] {
        let result = result(&client, method, params).await;
        assert_eq!(result["ttlMs"].as_u64().is_some(), kept, "{method}");
        assert_eq!(result["cacheScope"] == "public", kept, "{method}");
        assert_eq!(members(&result).iter().any(|name| ["cacheScope", "ttlMs"].contains(name)), kept, "{method}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_offers_what_it_offers_to_sessions() {
    let (_manager, service) = serve(Demo::new());
    let legacy = Client::open(service.clone()).await;
    let modern = Client::modern(service, json!({}));
    for (method, params, member) in [
        ("prompts/list", json!({}), "prompts"),
        ("prompts/get", json!({ "name": "greet", "arguments": { "name": "Ada" } }), "messages"),
        ("resources/templates/list", json!({}), "resourceTemplates"),
        ("resources/read", json!({ "uri": "demo://greeting/Ada" }), "contents"),
        ("completion/complete", completion_of(template_ref("demo://greeting/{name}"), "name", "k"), "completion"),
        ("tools/call", call_of("big", json!({ "bytes": 100_000 })), "content"),
    ] {
        let (one, other) = (result(&modern, method, params.clone()).await, legacy.request(method, params).await);
        assert_eq!(one[member], other["result"][member], "{method}");
    }
    let listed = result(&modern, "tools/list", json!({})).await;
    let tools = listed["tools"].as_array().expect("tools");
    for old in legacy.request("tools/list", json!({})).await["result"]["tools"].as_array().expect("tools") {
        let new = tools.iter().find(|tool| tool["name"] == old["name"]).expect("the same tools");
        assert_eq!((&new["inputSchema"], &new["annotations"]), (&old["inputSchema"], &old["annotations"]));
    }
    let listed = result(&modern, "resources/list", json!({})).await;
    let read = result(&modern, "resources/read", json!({ "uri": "demo://about" })).await;
    let text = read["contents"][0]["text"].as_str().expect("a text");
    assert_eq!(listed["resources"][0]["size"].as_u64(), Some(text.len() as u64));
    assert!(!text.contains("GET") && !text.contains("each session"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn mistakes_are_told_by_code_and_status() {
    let client = client();
    for (method, params, code, status) in [
        ("no/such", json!({}), -32601, StatusCode::NOT_FOUND),
        ("tools/list", json!({ "cursor": "2" }), -32602, StatusCode::OK),
        ("resources/read", json!({ "uri": "demo://other" }), -32602, StatusCode::OK),
        ("prompts/get", json!({ "name": "no-such" }), -32602, StatusCode::OK),
        ("completion/complete", completion_of(prompt_ref("no-such"), "name", ""), -32602, StatusCode::OK),
        ("tools/call", call_of("no-such", json!({})), -32602, StatusCode::OK),
        ("tools/call", json!({ "name": "echo", "arguments": [] }), -32602, StatusCode::OK),
        ("tools/list", json!({ "_meta": { "io.modelcontextprotocol/logLevel": "loud" } }), -32602, StatusCode::OK),
        ("tools/list", json!({ "_meta": { "io.modelcontextprotocol/logLevel": 3 } }), -32602, StatusCode::OK),
    ] {
        let (id, answer) = client.begin(method, params.clone()).await;
        assert_eq!(answer.status, status, "{method} {params}");
        let answer = answer.json().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(code)), "{method} {params}");
    }
    for removed in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        let (_, answer) = client.begin(removed, json!({ "level": "info", "uri": "demo://about" })).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{removed}");
        assert_eq!(answer.json().await["error"]["code"], -32601, "{removed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_argument_is_told_to_the_model() {
    let client = client();
    for (tool, arguments, words) in [
        ("echo", json!({}), "text is required"),
        ("slow", json!({ "seconds": -1 }), "from 0 to 3600"),
        ("big", json!({ "bytes": 1.5 }), "an integer"),
        ("ask", json!({ "message": 1 }), "message must be a string"),
    ] {
        let result = call(&client, tool, arguments).await;
        assert!(failure(&result).contains(words), "{result}");
        assert_eq!(result["resultType"], "complete");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_kept_from_one_request_to_the_next() {
    let mut client = client();
    for _ in 0..3 {
        assert_eq!(text(&call(&client, "count", json!({})).await), "1");
    }
    client.principal(Principal::named("ada"));
    let who: Value = serde_json::from_str(text(&call(&client, "whoami", json!({})).await)).expect("JSON");
    assert_eq!((&who["principal"], &who["protocolVersion"]), (&json!("ada"), &json!("2026-07-28")));
    let again: Value = serde_json::from_str(text(&call(&client, "whoami", json!({})).await)).expect("JSON");
    assert_ne!(who["fingerprint"], again["fingerprint"], "each request has its own");
}

#[tokio::test(start_paused = true)]
async fn log_messages_come_to_requests_that_want_them() {
    let mut client = client();
    for tool in ["log", "notify"] {
        let (id, answer) = client.begin("tools/call", call_of(tool, json!({ "n": 2 }))).await;
        assert!(!answer.streams(), "{tool}: no level, no message");
        let answer = answer.response(id).await;
        assert_eq!(text(&answer["result"]), "Sent 0 of 2 log messages; the request names no log level.");
    }
    for (level, sent) in [("debug", 2), ("info", 2), ("notice", 0), ("emergency", 0)] {
        client.meta("io.modelcontextprotocol/logLevel", json!(level));
        for tool in ["log", "notify"] {
            let (id, answer) = client.begin("tools/call", call_of(tool, json!({ "n": 2 }))).await;
            assert_eq!(answer.streams(), sent > 0, "{tool} {level}");
            if sent > 0 {
                let messages = answer.events().rest().await;
                assert_eq!(numbers(&messages), [1, 2]);
                assert_eq!(messages[2]["id"], id);
                assert_eq!(messages.len(), 3);
            } else {
                let answer = answer.response(id).await;
                assert!(text(&answer["result"]).contains("below the level"), "{answer}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn progress_comes_before_the_result() {
    let client = client();
    let params = json!({ "name": "slow", "arguments": { "seconds": 0.5 }, "_meta": { "progressToken": 7 } });
    let (id, answer) = client.begin("tools/call", params).await;
    let mut messages = answer.events().rest().await;
    let last = messages.pop().expect("a result");
    assert_eq!((&last["id"], text(&last["result"])), (&json!(id), "Done after 0.5 seconds."));
    let progress: Vec<_> = messages.iter().map(|note| note["params"]["progress"].as_f64().expect("a number")).collect();
    assert_eq!(progress, [0.2, 0.4, 0.5]);
    assert!(messages.iter().all(|note| note["params"]["progressToken"] == 7));
}

#[tokio::test(start_paused = true)]
async fn a_crash_costs_its_request_alone() {
    let client = client();
    let (id, slow) = client.begin("tools/call", call_of("slow", json!({ "seconds": 30 }))).await;
    let (crash, answer) = client.begin("tools/call", call_of("crash", json!({}))).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    let answer = answer.json().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(crash), &json!(-32603)));
    assert_eq!(text(&slow.response(id).await["result"]), "Done after 30 seconds.");
}

/// No word of the other era in an answer to a session.
#[tokio::test(start_paused = true)]
async fn sessions_hear_no_word_of_it() {
    let (_manager, service) = serve(Demo::new());
    let mut client = Client::new(service);
    let mut answers = vec![client.initialize("2025-11-25", json!({})).await];
    for (method, params) in [
        ("ping", json!({})),
        ("logging/setLevel", json!({ "level": "info" })),
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "greet", "arguments": { "name": "Ada" } })),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({ "uri": "demo://about" })),
        ("completion/complete", completion_of(prompt_ref("greet"), "name", "")),
        ("tools/call", call_of("echo", json!({ "text": "x" }))),
        ("tools/call", call_of("ask", json!({}))),
        ("tools/call", call_of("slow", json!({ "seconds": 0 }))),
        ("resources/read", json!({ "uri": "demo://other" })),
        ("subscriptions/listen", json!({ "notifications": {} })),
        ("server/discover", json!({})),
    ] {
        answers.push(client.request(method, params).await);
    }
    for answer in answers {
        let shown = answer.to_string();
        for word in
            ["resultType", "ttlMs", "cacheScope", "_meta", "modelcontextprotocol", "inputRequests", "requestState"]
        {
            assert!(!shown.contains(word), "{word}: {shown}");
        }
    }
    let (code, _) = error(&client, "server/discover", json!({})).await;
    assert_eq!(code, -32601);
}

/// What clients with sessions have been told so far, byte for byte.
#[tokio::test(start_paused = true)]
async fn sessions_are_told_what_they_were_told() {
    let client = Client::open(serve(Demo::new()).1).await;
    let tools = include_str!("tools_with_sessions.json").trim_end();
    for (method, params, bytes) in [
        ("tools/list", json!({}), tools),
        ("ping", json!({}), r#"{"jsonrpc":"2.0","id":3,"result":{}}"#),
        (
            "tools/call",
            call_of("echo", json!({ "text": "x" })),
            r#"{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"x"}]}}"#,
        ),
        (
            "tools/call",
            call_of("ask", json!({})),
            r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"The client has not declared the elicitation capability (form mode)."}],"isError":true}}"#,
        ),
        (
            "tools/call",
            call_of("echo", json!({})),
            r#"{"jsonrpc":"2.0","id":6,"error":{"code":-32602,"message":"Invalid arguments for tool echo: text is required and must be a string"}}"#,
        ),
        (
            "resources/read",
            json!({ "uri": "demo://other" }),
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32002,"message":"Resource not found: demo://other"}}"#,
        ),
        ("logging/setLevel", json!({ "level": "info" }), r#"{"jsonrpc":"2.0","id":8,"result":{}}"#),
    ] {
        let (_, answer) = client.begin(method, params).await;
        assert_eq!(answer.text().await, bytes, "{method}");
    }
}
