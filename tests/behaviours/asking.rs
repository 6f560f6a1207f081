//! Apps that ask their clients.

use std::time::Duration;

use serde_json::{Value, json};

use crate::row::post;
use crate::talk::{code, request, with};
use crate::world::World;

pub(crate) async fn an_app_asks_its_client_within_a_call(world: World) {
    let site = world.site_with(|_| {});
    let (id, other) = (site.open().await, site.open().await);
    let _listener = site.get(&id).await;
    let mut call = site.post(&id, &request(1, "ask")).await;
    let question = call.message().await.expect("a question, on the stream of the call");
    assert_eq!(question["method"], "elicitation/create");
    let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept"}}).to_string();
    // Of another session it is an answer to nothing.
    assert_eq!(site.status_of(&other, &answer).await, 202);
    assert_eq!((site.stats)().client_responses_unmatched, 1);
    assert_eq!(site.status_of(&id, &answer).await, 202);
    assert_eq!(call.response().await["result"]["action"], "accept");
}

pub(crate) async fn where_there_is_no_way_to_ask_the_app_is_told(world: World) {
    let site = world.site_with(|_| {});
    let id = site.open().await;
    let mut call = site.send(with(post(Some(&id), &request(1, "ask")), "accept", "application/json")).await;
    assert_eq!(code(&call.json().await), -32000);
    let mut call = site.send(crate::modern::request("ask")).await;
    assert_eq!(code(&call.json().await), -32000);
}

/// Once a connection has taken it, it waits for its client.
pub(crate) async fn a_question_that_was_taken_waits_for_its_client(world: World) {
    let site = world.site_with(|config| config.session.resume = true);
    let id = site.open().await;
    let mut asking = site.post(&id, &request(2, "ask")).await;
    let question: Value = asking.message().await.expect("a question");
    assert_eq!(world.within(Duration::from_secs(600), asking.message()).await, None, "it waits");
    let error = json!({"jsonrpc": "2.0", "id": question["id"], "error": {"code": 1, "message": "no"}}).to_string();
    assert_eq!(site.status_of(&id, &error).await, 202);
    assert_eq!(code(&asking.response().await), -32000);
}
