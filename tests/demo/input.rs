//! What the demo server asks of a client without sessions: the result says what is wanted, and the call is made again with the answer.

use std::time::Duration;

use http::StatusCode;
use serde_json::{Value, json};
use sessile::Principal;
use sessile_tests::client::Client;
use tokio::time::sleep;

use super::{Demo, DemoClient, call_of, failure, serve, text};

fn able() -> Value {
    json!({ "elicitation": {}, "sampling": {} })
}

/// The first result of a call that wants something.
async fn wanted(client: &DemoClient, params: &Value) -> Value {
    let (id, answer) = client.begin("tools/call", params.clone()).await;
    assert_eq!((answer.status, answer.streams()), (StatusCode::OK, false));
    let answer = answer.response(id).await;
    let result = answer["result"].clone();
    assert_eq!(result["resultType"], "input_required", "{answer}");
    assert!(result["requestState"].is_string(), "{answer}");
    assert!(result.get("ttlMs").is_none() && result.get("content").is_none(), "{answer}");
    result
}

/// The call again, with the state and these answers.
fn again(params: &Value, wanted: &Value, responses: Value) -> Value {
    let mut params = params.clone();
    params["requestState"] = wanted["requestState"].clone();
    params["inputResponses"] = responses;
    params
}

#[tokio::test(start_paused = true)]
async fn ask_wants_a_form_and_then_says_what_was_entered() {
    let client = Client::modern(serve(Demo::new()).1, able());
    let params = call_of("ask", json!({ "message": "Name?" }));
    let first = wanted(&client, &params).await;
    let request = &first["inputRequests"]["answer"];
    assert_eq!(request["method"], "elicitation/create");
    assert_eq!(request["params"]["message"], "Name?");
    assert_eq!(request["params"]["requestedSchema"]["properties"]["answer"]["type"], "string");
    for (response, said) in [
        (json!({ "action": "accept", "content": { "answer": "Ada" } }), r#"accept: {"answer":"Ada"}"#),
        (json!({ "action": "decline" }), "decline"),
        (json!({ "action": "cancel" }), "cancel"),
    ] {
        let responses = json!({ "answer": response, "other": { "is": "ignored" } });
        let answer = client.request("tools/call", again(&params, &first, responses)).await;
        assert_eq!((text(&answer["result"]), &answer["result"]["resultType"]), (said, &json!("complete")));
    }
}

#[tokio::test(start_paused = true)]
async fn sample_wants_a_model_and_then_says_what_it_said() {
    let client = Client::modern(serve(Demo::new()).1, able());
    let params = call_of("sample", json!({ "prompt": "Greet" }));
    let first = wanted(&client, &params).await;
    let request = &first["inputRequests"]["answer"];
    assert_eq!(request["method"], "sampling/createMessage");
    assert_eq!(request["params"]["messages"][0]["content"]["text"], "Greet");
    let said = |content: Value| json!({ "answer": { "role": "assistant", "model": "m", "content": content } });
    let hello = said(json!({ "type": "text", "text": "Hello." }));
    let answer = client.request("tools/call", again(&params, &first, hello)).await;
    assert_eq!(text(&answer["result"]), "Hello.");
    let image = said(json!({ "type": "image", "data": "", "mimeType": "image/png" }));
    let answer = client.request("tools/call", again(&params, &first, image)).await;
    assert!(failure(&answer["result"]).contains("no text"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_client_is_not_asked_for_what_it_has_not_declared() {
    let (_manager, service) = serve(Demo::new());
    let form = json!({ "elicitation": { "form": {} } });
    for (capabilities, tool, missing) in [
        (json!({}), "ask", form.clone()),
        (json!({ "elicitation": { "url": {} }, "sampling": {} }), "ask", form),
        (json!({ "elicitation": {} }), "sample", json!({ "sampling": {} })),
    ] {
        let client = Client::modern(service.clone(), capabilities.clone());
        let (_, answer) = client.begin("tools/call", call_of(tool, json!({}))).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{tool} {capabilities}");
        let error = answer.json().await["error"].clone();
        assert_eq!(error["code"], -32021, "{tool} {capabilities}");
        assert!(error["message"].as_str().is_some_and(|text| text.contains("has not declared")), "{error}");
        assert_eq!(error["data"], json!({ "requiredCapabilities": missing }), "{tool} {capabilities}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_missing_is_asked_for_again() {
    let client = Client::modern(serve(Demo::new()).1, able());
    let params = call_of("ask", json!({}));
    let first = wanted(&client, &params).await;
    for responses in [json!({}), json!({ "other": { "action": "accept" } }), Value::Null] {
        let second = wanted(&client, &again(&params, &first, responses)).await;
        let done = again(&params, &second, json!({ "answer": { "action": "decline" } }));
        assert_eq!(text(&client.request("tools/call", done).await["result"]), "decline");
    }
}

#[tokio::test(start_paused = true)]
async fn a_state_is_good_for_its_request_its_owner_and_ten_minutes() {
    let (_manager, service) = serve(Demo::new());
    let mut client = Client::modern(service.clone(), able());
    client.principal(Principal::named("ada"));
    let mut stranger = Client::modern(service, able());
    stranger.principal(Principal::named("bob"));
    let params = call_of("ask", json!({ "message": "Name?" }));
    let first = wanted(&client, &params).await;
    let state = first["requestState"].as_str().expect("a state").to_owned();
    let responses = json!({ "answer": { "action": "decline" } });
    let good = again(&params, &first, responses.clone());
    let other_words = again(&call_of("ask", json!({ "message": "Age?" })), &first, responses.clone());
    let other_tool = again(&call_of("sample", json!({ "prompt": "Name?" })), &first, responses.clone());
    let forged = again(&params, &json!({ "requestState": format!("f{state}") }), responses.clone());
    let mut stateless = good.clone();
    stateless.as_object_mut().expect("params").remove("requestState");
    let refused = async |client: &DemoClient, params: &Value| {
        let answer = client.request("tools/call", params.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
        answer["error"]["message"].as_str().expect("a message").to_owned()
    };
    for params in [&other_words, &other_tool, &forged] {
        assert!(refused(&client, params).await.contains("not one that was given out"));
    }
    assert!(refused(&client, &stateless).await.contains("requestState"));
    assert!(refused(&stranger, &good).await.contains("not one that was given out"));
    sleep(Duration::from_secs(599)).await;
    assert_eq!(text(&client.request("tools/call", good.clone()).await["result"]), "decline");
    sleep(Duration::from_secs(1)).await;
    assert!(refused(&client, &good).await.contains("expired"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_none_is_a_wrong_parameter() {
    let client = Client::modern(serve(Demo::new()).1, able());
    for (tool, responses) in [
        ("ask", json!([])),
        ("ask", json!("x")),
        ("ask", json!({ "answer": {} })),
        ("ask", json!({ "answer": { "content": { "answer": "Ada" } } })),
        ("sample", json!({ "answer": { "action": "accept" } })),
        ("sample", json!({ "answer": null })),
    ] {
        let params = call_of(tool, json!({}));
        let first = wanted(&client, &params).await;
        let answer = client.request("tools/call", again(&params, &first, responses.clone())).await;
        assert_eq!(answer["error"]["code"], -32602, "{tool} {responses}: {answer}");
    }
    let mut params = call_of("ask", json!({}));
    params["requestState"] = json!({ "no": "string" });
    assert_eq!(client.request("tools/call", params).await["error"]["code"], -32602);
}
