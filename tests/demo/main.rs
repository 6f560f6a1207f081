//! The demo server, from the outside: what each tool does, what each mistake is answered with, and what the service makes of it.

mod input;
mod listen;
mod modern;

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use sessile::app::{Calls, Context, Demo, Handler, Reply, handler_fn};
use sessile::core::Message;
use sessile::http::McpService;
use sessile::runtime::tokio::Tokio;
use sessile::{Builder, Manager, Principal};
use sessile_tests::client::Client;
use tokio::time::{Instant, sleep, timeout};

/// A running manager of a handler, with its service.
fn serve<H: Handler>(handler: H) -> (Manager<Tokio, Calls<H>>, McpService<Tokio, Calls<H>>) {
    let manager = Builder::new(Tokio::current()).handler(handler).build().expect("the defaults are good");
    manager.start().expect("started once");
    let service = manager.service().expect("running");
    (manager, service)
}

type DemoClient = Client<Tokio, Calls<Demo>>;

async fn client() -> DemoClient {
    Client::open(serve(Demo::new()).1).await
}

fn call_of(tool: &str, arguments: Value) -> Value {
    json!({ "name": tool, "arguments": arguments })
}

fn prompt_ref(name: &str) -> Value {
    json!({ "type": "ref/prompt", "name": name })
}

fn template_ref(uri: &str) -> Value {
    json!({ "type": "ref/resource", "uri": uri })
}

fn completion_of(reference: Value, name: &str, value: &str) -> Value {
    json!({ "ref": reference, "argument": { "name": name, "value": value } })
}

/// The result of a call.
async fn call(client: &DemoClient, tool: &str, arguments: Value) -> Value {
    let answer = client.request("tools/call", call_of(tool, arguments)).await;
    assert!(answer["result"].is_object(), "{tool}: {answer}");
    answer["result"].clone()
}

/// The one text of a result, which must be no error.
fn text(result: &Value) -> &str {
    assert_eq!(result.get("isError"), None, "{result}");
    only_text(result)
}

fn only_text(result: &Value) -> &str {
    let [content] = result["content"].as_array().expect("content").as_slice() else { panic!("{result}") };
    assert_eq!(content["type"], "text");
    content["text"].as_str().expect("text")
}

/// The text of a result that is an error.
fn failure(result: &Value) -> &str {
    assert_eq!(result["isError"], true, "{result}");
    only_text(result)
}

async fn error(client: &DemoClient, method: &str, params: Value) -> (i64, String) {
    let answer = client.request(method, params).await;
    let error = &answer["error"];
    (error["code"].as_i64().expect("a code"), error["message"].as_str().expect("a message").to_owned())
}

fn numbers(messages: &[Value]) -> Vec<u64> {
    let notes = messages.iter().filter(|message| message["method"] == "notifications/message");
    notes.map(|note| note["params"]["data"]["n"].as_u64().expect("a number")).collect()
}

#[tokio::test(start_paused = true)]
async fn the_revision_that_is_asked_for_is_spoken_if_it_has_sessions() {
    let (_manager, service) = serve(Demo::new());
    for (asked, spoken) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2025-03-26", "2025-03-26"),
        ("2024-11-05", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let mut client = Client::new(service.clone());
        let answer = client.initialize(asked, json!({})).await;
        let result = &answer["result"];
        assert_eq!(result["protocolVersion"], spoken, "{asked}");
        assert_eq!(
            result["capabilities"],
            json!({ "completions": {}, "logging": {}, "prompts": {}, "resources": {}, "tools": {} })
        );
        assert_eq!(result["serverInfo"]["name"], "sessile-demo");
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(result["instructions"].as_str().is_some_and(|text| text.contains("echo")));
        let who: Value = serde_json::from_str(text(&call(&client, "whoami", json!({})).await)).expect("JSON");
        assert_eq!(who["protocolVersion"], spoken);
    }
}

#[tokio::test(start_paused = true)]
async fn the_lists_follow_the_schema() {
    let client = client().await;
    let answer = client.request("tools/list", json!({})).await;
    let tools = answer["result"]["tools"].as_array().expect("tools");
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["echo", "slow", "count", "whoami", "big", "notify", "log", "ask", "sample", "crash"]);
    for tool in tools {
        let schema = &tool["inputSchema"];
        assert_eq!(schema["type"], "object", "{tool}");
        let properties = schema["properties"].as_object().expect("properties");
        for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            assert!(properties.contains_key(required.as_str().expect("a name")), "{tool}");
        }
        for property in properties.values() {
            assert!(property["type"].is_string() && property["description"].is_string(), "{tool}");
        }
        assert!(tool["title"].is_string() && tool["description"].is_string(), "{tool}");
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{tool}");
        }
    }
    assert_eq!(
        tools[4]["inputSchema"]["properties"]["bytes"]["maximum"].as_u64(),
        Some(64 << 20),
        "the schema tells the limit"
    );

    let answer = client.request("resources/list", json!({})).await;
    let uri = &answer["result"]["resources"][0]["uri"];
    assert_eq!(uri, "demo://about");
    let size = answer["result"]["resources"][0]["size"].as_u64().expect("a size");
    let answer = client.request("resources/read", json!({ "uri": uri })).await;
    let contents = &answer["result"]["contents"][0];
    assert_eq!((&contents["uri"], &contents["mimeType"]), (uri, &json!("text/plain")));
    assert_eq!(contents["text"].as_str().map(|text| text.len() as u64), Some(size));

    let answer = client.request("resources/templates/list", json!({})).await;
    let [template] = answer["result"]["resourceTemplates"].as_array().expect("templates").as_slice() else {
        panic!("{answer}")
    };
    assert_eq!(template["uriTemplate"], "demo://greeting/{name}");
    let answer = client.request("resources/read", json!({ "uri": "demo://greeting/Ada%20L." })).await;
    let contents = json!([{ "uri": "demo://greeting/Ada%20L.", "mimeType": "text/plain", "text": "Hello, Ada L.!" }]);
    assert_eq!(answer["result"], json!({ "contents": contents }));
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
}

#[tokio::test(start_paused = true)]
async fn mistakes_are_told_by_code_and_name() {
    let client = client().await;
    for (method, params, code, words) in [
        ("server/discover", json!({}), -32601, "server/discover"),
        ("prompts/list", json!({ "cursor": "2" }), -32602, "cursor"),
        ("prompts/get", json!({}), -32602, "name"),
        ("prompts/get", json!({ "name": "no-such" }), -32602, "Unknown prompt: no-such"),
        ("prompts/get", json!({ "name": "greet" }), -32602, "name is required"),
        ("prompts/get", json!({ "name": "greet", "arguments": { "name": 1 } }), -32602, "name is required"),
        ("prompts/get", json!({ "name": "greet", "arguments": ["Ada"] }), -32602, "name is required"),
        ("completion/complete", json!({}), -32602, "ref"),
        ("completion/complete", completion_of(json!({ "type": "ref/other" }), "name", ""), -32602, "ref/other"),
        ("completion/complete", completion_of(prompt_ref("no-such"), "name", ""), -32602, "no-such"),
        ("completion/complete", completion_of(prompt_ref("greet"), "other", ""), -32602, "other"),
        ("completion/complete", completion_of(template_ref("demo://about"), "name", ""), -32602, "demo://about"),
        ("resources/read", json!({ "uri": "demo://greeting/" }), -32002, "demo://greeting/"),
        ("resources/subscribe", json!({ "uri": "demo://about" }), -32601, "resources/subscribe"),
        ("no/such", json!({}), -32601, "Method not found: no/such"),
        ("tools/list", json!({ "cursor": "2" }), -32602, "cursor"),
        ("resources/list", json!({ "cursor": "2" }), -32602, "cursor"),
        ("resources/templates/list", json!({ "cursor": 2 }), -32602, "cursor"),
        ("resources/read", json!({ "uri": "demo://other" }), -32002, "demo://other"),
        ("resources/read", json!({}), -32602, "uri"),
        ("logging/setLevel", json!({ "level": "loud" }), -32602, "debug, info"),
        ("logging/setLevel", json!({}), -32602, "level"),
        ("tools/call", json!({}), -32602, "name"),
        ("tools/call", json!({ "name": "no-such", "arguments": {} }), -32602, "Unknown tool: no-such"),
        ("tools/call", json!({ "name": "echo", "arguments": ["x"] }), -32602, "arguments must be an object"),
        ("tools/call", json!({ "name": "echo" }), -32602, "text is required"),
        ("tools/call", call_of("echo", json!({ "text": 1 })), -32602, "text is required"),
        ("tools/call", call_of("slow", json!({})), -32602, "from 0 to 3600"),
        ("tools/call", call_of("slow", json!({ "seconds": -0.5 })), -32602, "from 0 to 3600"),
        ("tools/call", call_of("slow", json!({ "seconds": "1" })), -32602, "from 0 to 3600"),
        ("tools/call", call_of("slow", json!({ "seconds": 3600.5 })), -32602, "from 0 to 3600"),
        ("tools/call", call_of("big", json!({ "bytes": 67_108_865 })), -32602, "from 0 to 67108864"),
        ("tools/call", call_of("big", json!({ "bytes": 1.5 })), -32602, "an integer"),
        ("tools/call", call_of("log", json!({ "n": -1 })), -32602, "from 0 to 10000"),
        ("tools/call", call_of("notify", json!({ "n": 10_001 })), -32602, "from 0 to 10000"),
        ("tools/call", call_of("ask", json!({ "message": 1 })), -32602, "message must be a string"),
        ("tools/call", call_of("sample", json!({ "prompt": [] })), -32602, "prompt must be a string"),
    ] {
        let (found, message) = error(&client, method, params.clone()).await;
        assert_eq!(found, code, "{method} {params}: {message}");
        assert!(message.contains(words), "{method} {params}: {message}");
    }
    assert_eq!(client.notify("notifications/unheard-of", json!({})).await, StatusCode::ACCEPTED);
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}), "the session is none the worse");
}

#[tokio::test(start_paused = true)]
async fn the_prompt_greets_whom_it_is_told_to() {
    let client = client().await;
    let answer = client.request("prompts/list", json!({})).await;
    let [prompt] = answer["result"]["prompts"].as_array().expect("prompts").as_slice() else { panic!("{answer}") };
    assert_eq!((&prompt["name"], &prompt["arguments"][0]["name"]), (&json!("greet"), &json!("name")));
    assert_eq!(prompt["arguments"][0]["required"], true);
    let answer = client.request("prompts/get", json!({ "name": "greet", "arguments": { "name": "Ada" } })).await;
    assert_eq!(answer["result"]["description"], prompt["description"]);
    let text = "Greet Ada in one friendly sentence.";
    let message = json!({ "role": "user", "content": { "type": "text", "text": text } });
    assert_eq!(answer["result"]["messages"], json!([message]));
}

#[tokio::test(start_paused = true)]
async fn names_are_completed_in_any_case() {
    let client = client().await;
    for (begun, names) in [
        ("a", json!(["Ada", "Alan"])),
        ("KA", json!(["Karen", "Katherine"])),
        ("Grace", json!(["Grace"])),
        ("x", json!([])),
    ] {
        let total = names.as_array().expect("names").len();
        let completion = json!({ "completion": { "values": names, "total": total, "hasMore": false } });
        for reference in [prompt_ref("greet"), template_ref("demo://greeting/{name}")] {
            let answer = client.request("completion/complete", completion_of(reference, "name", begun)).await;
            assert_eq!(answer["result"], completion, "{begun}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn echo_gives_back_what_it_got() {
    let client = client().await;
    for given in ["", "plain", "Grüße, 世界 🌊", "\"\\ \n\r\t\u{0}\u{85}\u{2028}\u{2029}", &"x".repeat(1 << 20)] {
        assert_eq!(text(&call(&client, "echo", json!({ "text": given })).await), given);
    }
    assert_eq!(text(&call(&client, "echo", json!({ "text": "a", "other": [1, {}] })).await), "a");
    // Written with escapes, which can't be borrowed.
    let raw = r#"{"jsonrpc":"2.0","id":"e","method":"tools/call","params":{"arguments":{"text":"\u0061\n"},"name":"e\u0063ho"}}"#;
    let answer = client.post(&serde_json::from_str(raw).expect("JSON")).await.json().await;
    assert_eq!((text(&answer["result"]), &answer["id"]), ("a\n", &json!("e")));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_at_once_is_one_body() {
    let client = client().await;
    let (id, answer) = client.begin("tools/call", call_of("echo", json!({ "text": "x" }))).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(!answer.streams());
    assert_eq!(text(&answer.response(id).await["result"]), "x");
}

#[tokio::test(start_paused = true)]
async fn each_session_counts_for_itself() {
    let (_manager, service) = serve(Demo::new());
    let one = Client::open(service.clone()).await;
    let two = Client::open(service).await;
    for (client, count) in [(&one, "1"), (&one, "2"), (&two, "1"), (&one, "3"), (&two, "2")] {
        assert_eq!(text(&call(client, "count", json!({})).await), count);
    }
}

#[tokio::test(start_paused = true)]
async fn whoami_tells_the_owner_and_never_the_id() {
    let (_manager, service) = serve(Demo::new());
    let mut client = Client::new(service.clone());
    client.principal(Principal::named("ada")).initialize("2025-06-18", json!({})).await;
    let (id, answer) = client.begin("tools/call", call_of("whoami", json!({}))).await;
    let result = answer.response(id).await;
    let who: Value = serde_json::from_str(text(&result["result"])).expect("JSON");
    let fingerprint = who["fingerprint"].as_str().expect("a fingerprint");
    assert_eq!(fingerprint.len(), 8);
    assert_eq!(who, json!({ "principal": "ada", "protocolVersion": "2025-06-18", "fingerprint": fingerprint }));
    let anonymous = Client::open(service).await;
    let who: Value = serde_json::from_str(text(&call(&anonymous, "whoami", json!({})).await)).expect("JSON");
    assert_eq!(who["principal"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn big_is_as_big_as_asked() {
    let client = client().await;
    for bytes in [0, 1, 63, 64, 65, 300_000, 5 << 20] {
        let result = call(&client, "big", json!({ "bytes": bytes })).await;
        let text = text(&result);
        assert!(text.is_ascii());
        assert_eq!(text.len(), bytes);
    }
    assert_eq!(text(&call(&client, "big", json!({ "bytes": 3.0 })).await), "012");
}

#[tokio::test(start_paused = true)]
async fn progress_grows_and_comes_before_the_result() {
    let client = client().await;
    let start = Instant::now();
    let params = json!({ "name": "slow", "arguments": { "seconds": 1.1 }, "_meta": { "progressToken": "p" } });
    let (id, answer) = client.begin("tools/call", params).await;
    let mut messages = answer.events().rest().await;
    assert!((1_100..1_110).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    let last = messages.pop().expect("a result");
    assert_eq!((&last["id"], text(&last["result"])), (&json!(id), "Done after 1.1 seconds."));
    assert!(messages.iter().all(|note| {
        note["method"] == "notifications/progress"
            && note["params"]["progressToken"] == "p"
            && note["params"]["total"] == 1.1
    }));
    let progress: Vec<_> = messages.iter().map(|note| note["params"]["progress"].as_f64().expect("a number")).collect();
    assert_eq!(progress, [0.2, 0.4, 0.6, 0.8, 1.0, 1.1]);
}

#[tokio::test(start_paused = true)]
async fn without_a_token_there_is_no_progress() {
    let client = client().await;
    let start = Instant::now();
    let (_, answer) = client.begin("tools/call", call_of("slow", json!({ "seconds": 2 }))).await;
    let messages = answer.events().rest().await;
    assert_eq!(messages.len(), 1);
    assert_eq!(text(&messages[0]["result"]), "Done after 2 seconds.");
    assert!((2_000..2_010).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    assert_eq!(text(&call(&client, "slow", json!({ "seconds": 0 })).await), "Done after 0 seconds.");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_ends_its_stream_without_an_answer() {
    let client = client().await;
    let start = Instant::now();
    let params = json!({ "name": "slow", "arguments": { "seconds": 60 }, "_meta": { "progressToken": 1 } });
    let (id, answer) = client.begin("tools/call", params).await;
    let mut events = answer.events();
    assert_eq!(events.next().await.expect("progress")["method"], "notifications/progress");
    let cancelled = client.notify("notifications/cancelled", json!({ "requestId": id })).await;
    assert_eq!(cancelled, StatusCode::ACCEPTED);
    assert_eq!(events.rest().await, [] as [Value; 0]);
    assert!(start.elapsed() < Duration::from_secs(1));
    assert_eq!(text(&call(&client, "echo", json!({ "text": "on" })).await), "on");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_while_its_head_is_held_is_answered_with_202() {
    let client = client().await;
    let held = client.begin("tools/call", call_of("slow", json!({ "seconds": 60 })));
    let cancel = async {
        sleep(Duration::from_millis(10)).await;
        // `initialize` was the first.
        client.notify("notifications/cancelled", json!({ "requestId": 2 })).await
    };
    let ((id, answer), cancelled) = tokio::join!(held, cancel);
    assert_eq!((id, answer.status, cancelled), (2, StatusCode::ACCEPTED, StatusCode::ACCEPTED));
    assert_eq!(answer.text().await, "");
}

#[tokio::test(start_paused = true)]
async fn a_call_outlives_its_connection() {
    let client = client().await;
    let (id, answer) = client.begin("tools/call", call_of("slow", json!({ "seconds": 3 }))).await;
    drop(answer);
    let answer = client.post(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping", "params": {} })).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "the id is still in flight");
    sleep(Duration::from_secs(3)).await;
    let answer = client.post(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping", "params": {} })).await;
    assert_eq!(answer.status, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn log_messages_come_on_the_stream_of_the_call() {
    let client = client().await;
    for n in [1_u64, 3, 10_000] {
        let (_, answer) = client.begin("tools/call", call_of("log", json!({ "n": n }))).await;
        let mut messages = answer.events().rest().await;
        let last = messages.pop().expect("a result");
        assert_eq!(text(&last["result"]), format!("Sent {n} of {n} log messages."));
        assert_eq!(messages.len() as u64, n);
        assert_eq!(numbers(&messages), (1..=n).collect::<Vec<_>>());
        let params = &messages[0]["params"];
        assert_eq!((&params["level"], &params["logger"]), (&json!("info"), &json!("demo")));
        assert_eq!(params["data"]["text"], format!("message 1 of {n}"));
    }
    assert_eq!(text(&call(&client, "log", json!({ "n": 0 })).await), "Sent 0 of 0 log messages.");
}

#[tokio::test(start_paused = true)]
async fn unrelated_messages_come_on_the_stream_of_get() {
    let client = client().await;
    let get = client.get().await;
    assert_eq!(get.status, StatusCode::OK);
    let mut stream = get.events();
    let (id, answer) = client.begin("tools/call", call_of("notify", json!({ "n": 3 }))).await;
    assert!(!answer.streams(), "they are not on the stream of the call");
    assert_eq!(text(&answer.response(id).await["result"]), "Sent 3 of 3 log messages.");
    let mut messages = Vec::new();
    for _ in 0..3 {
        messages.push(stream.next().await.expect("a message"));
    }
    assert_eq!(numbers(&messages), [1, 2, 3]);
    assert!(timeout(Duration::from_secs(60), stream.next()).await.is_err(), "and nothing else");
    let many = call(&client, "notify", json!({ "n": 3_000 }));
    let read = async {
        let mut messages = Vec::new();
        while messages.len() < 3_000 {
            messages.push(stream.next().await.expect("a message"));
        }
        messages
    };
    let (result, messages) = tokio::join!(many, read);
    assert_eq!(text(&result), "Sent 3000 of 3000 log messages.");
    assert_eq!(numbers(&messages), (1..=3_000).collect::<Vec<_>>());
    assert_eq!(client.delete().await.status, StatusCode::NO_CONTENT);
    assert_eq!(stream.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn the_level_holds_back_what_is_less_severe() {
    let (_manager, service) = serve(Demo::new());
    let client = Client::open(service.clone()).await;
    let other = Client::open(service).await;
    for (level, sent) in [
        ("warning", 0),
        ("info", 2),
        ("emergency", 0),
        ("alert", 0),
        ("critical", 0),
        ("error", 0),
        ("notice", 0),
        ("debug", 2),
    ] {
        let answer = client.request("logging/setLevel", json!({ "level": level })).await;
        assert_eq!(answer["result"], json!({}));
        for tool in ["log", "notify"] {
            let result = call(&client, tool, json!({ "n": 2 })).await;
            assert!(text(&result).starts_with(&format!("Sent {sent} of 2 log messages")), "{level}: {result}");
        }
        let result = call(&other, "log", json!({ "n": 2 })).await;
        assert_eq!(text(&result), "Sent 2 of 2 log messages.", "the level is of one session");
    }
}

/// Answers the one request of the server that comes before the result of a call with `respond`; gives request and result.
async fn asked(client: &DemoClient, tool: &str, arguments: Value, respond: Value) -> (Value, Value) {
    let (id, answer) = client.begin("tools/call", call_of(tool, arguments)).await;
    let mut events = answer.events();
    let request = events.next().await.expect("a request");
    assert!(request["id"].is_i64() && request["method"].is_string(), "{request}");
    let mut respond = respond;
    respond["jsonrpc"] = json!("2.0");
    respond["id"] = request["id"].clone();
    assert_eq!(client.post(&respond).await.status, StatusCode::ACCEPTED);
    let last = events.next().await.expect("a result");
    assert_eq!(last["id"], id);
    assert_eq!(events.next().await, None);
    (request, last["result"].clone())
}

#[tokio::test(start_paused = true)]
async fn ask_shows_what_the_user_did() {
    let client = Client::open_with(serve(Demo::new()).1, json!({ "elicitation": {} })).await;
    let accepted = json!({ "result": { "action": "accept", "content": { "answer": "Ada" } } });
    let (request, result) = asked(&client, "ask", json!({ "message": "Name?" }), accepted).await;
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], "Name?");
    let schema = &request["params"]["requestedSchema"];
    assert_eq!(schema["type"], "object");
    assert_eq!(schema["properties"]["answer"]["type"], "string");
    assert_eq!(text(&result), r#"accept: {"answer":"Ada"}"#);
    for action in ["decline", "cancel"] {
        let (request, result) = asked(&client, "ask", json!({}), json!({ "result": { "action": action } })).await;
        assert!(request["params"]["message"].is_string());
        assert_eq!(text(&result), action);
    }
    let refused = json!({ "error": { "code": -32603, "message": "no screen" } });
    let (_, result) = asked(&client, "ask", json!({}), refused).await;
    assert!(failure(&result).contains("-32603") && failure(&result).contains("no screen"), "{result}");
    let (_, result) = asked(&client, "ask", json!({}), json!({ "result": {} })).await;
    assert!(failure(&result).contains("action"), "{result}");
}

#[tokio::test(start_paused = true)]
async fn sample_gives_the_text_of_the_model() {
    let client = Client::open_with(serve(Demo::new()).1, json!({ "sampling": {} })).await;
    let said = |content: Value| json!({ "result": { "role": "assistant", "model": "m", "content": content } });
    let one = said(json!({ "type": "text", "text": "Hello." }));
    let (request, result) = asked(&client, "sample", json!({ "prompt": "Greet" }), one).await;
    assert_eq!(request["method"], "sampling/createMessage");
    assert_eq!(
        request["params"]["messages"],
        json!([{ "role": "user", "content": { "type": "text", "text": "Greet" } }])
    );
    assert!(request["params"]["maxTokens"].is_u64());
    assert_eq!(text(&result), "Hello.");
    let many = said(
        json!([{ "type": "text", "text": "a" }, { "type": "image", "data": "" }, { "type": "text", "text": "b" }]),
    );
    let (_, result) = asked(&client, "sample", json!({}), many).await;
    assert_eq!(text(&result), "a\nb");
    let none = said(json!({ "type": "image", "data": "", "mimeType": "image/png" }));
    let (_, result) = asked(&client, "sample", json!({}), none).await;
    assert!(failure(&result).contains("no text"));
    let (_, result) =
        asked(&client, "sample", json!({}), json!({ "error": { "code": -1, "message": "User rejected" } })).await;
    assert!(failure(&result).contains("User rejected"));
}

/// R127.
#[tokio::test(start_paused = true)]
async fn a_client_is_not_asked_for_what_it_has_not_declared() {
    let (_manager, service) = serve(Demo::new());
    for (capabilities, ask, sample) in [
        (json!({}), false, false),
        (json!({ "elicitation": null, "sampling": null }), false, false),
        (json!({ "elicitation": { "url": {} }, "sampling": { "tools": {} } }), false, true),
        (json!({ "elicitation": { "form": {}, "url": {} } }), true, false),
    ] {
        let client = Client::open_with(service.clone(), capabilities.clone()).await;
        for (tool, declared) in [("ask", ask), ("sample", sample)] {
            let (id, answer) = client.begin("tools/call", call_of(tool, json!({}))).await;
            assert_eq!(answer.streams(), declared, "{tool} {capabilities}");
            if !declared {
                let answer = answer.response(id).await;
                assert!(failure(&answer["result"]).contains("capability"), "{answer}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_without_a_way_to_the_client_fails_at_once() {
    let mut client = Client::open_with(serve(Demo::new()).1, json!({ "elicitation": {} })).await;
    client.header(http::header::ACCEPT, "application/json");
    let result = call(&client, "ask", json!({})).await;
    assert!(failure(&result).contains("no connection"), "{result}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_ends_the_session_and_every_call_in_it() {
    let (manager, service) = serve(Demo::new());
    let client = Client::open(service.clone()).await;
    let bystander = Client::open(service).await;
    let stream = client.get().await.events();
    let (id, other) = client.begin("tools/call", call_of("slow", json!({ "seconds": 60 }))).await;
    let (crash, answer) = client.begin("tools/call", call_of("crash", json!({}))).await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    let answer = answer.json().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(crash), &json!(-32603)));
    let messages = other.events().rest().await;
    assert_eq!(messages.len(), 1);
    assert_eq!((&messages[0]["id"], &messages[0]["error"]["code"]), (&json!(id), &json!(-32603)));
    assert_eq!(stream.rest().await, [] as [Value; 0]);
    assert_eq!(manager.sessions(), 1);
    let (_, answer) = client.begin("ping", json!({})).await;
    let statuses = [answer.status, client.get().await.status, client.delete().await.status];
    assert_eq!(statuses, [StatusCode::NOT_FOUND; 3]);
    assert_eq!(text(&call(&bystander, "echo", json!({ "text": "alive" })).await), "alive");
}

/// An `initialize` result, for servers made of a function.
fn welcome() -> Value {
    json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": { "name": "f", "version": "0" } })
}

#[tokio::test(start_paused = true)]
async fn a_function_is_a_server() {
    let (_manager, service) = serve(handler_fn(|context: Context<()>, message: Message| async move {
        match message.method() {
            Some("initialize") => context.result(&welcome()),
            Some("ping") => context.result(&json!({})),
            _ => context.error(-32601, "Method not found"),
        }
    }));
    let client = Client::open(service).await;
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
    assert_eq!(client.request("tools/list", json!({})).await["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_its_call_alone() {
    let (_manager, service) = serve(handler_fn(|context: Context<()>, message: Message| async move {
        match message.method() {
            Some("initialize") => context.result(&welcome()),
            Some("ping") => context.result(&json!({})),
            Some("late") => {
                context.sleep(Duration::from_secs(1)).await;
                panic!("a panic that this test wants, in a task");
            }
            Some("notifications/initialized") => Reply::none(),
            other => panic!("a panic that this test wants: {other:?}"),
        }
    }));
    let client = Client::open(service).await;
    for method in ["at/once", "late"] {
        let answer = client.request(method, json!({})).await;
        assert_eq!(answer["error"], json!({ "code": -32603, "message": "Internal error" }), "{method}");
        assert_eq!(client.request("ping", json!({})).await["result"], json!({}), "{method}");
    }
    assert_eq!(client.notify("notifications/odd", json!({})).await, StatusCode::ACCEPTED);
    assert_eq!(client.request("ping", json!({})).await["result"], json!({}));
}
