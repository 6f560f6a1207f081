//! Which stream carries what.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::{Program, soon};
use crate::http::{Answer, Item};
use crate::session::{ANY, JSON, SSE, Session, text};

const LIST_CHANGED: &str = "notifications/tools/list_changed";

#[test]
fn progress_rides_the_stream_of_its_call() {
    let program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    let mut listening = session.listen();
    let mut calls = [(); 2].map(|()| session.start("slow", &json!({ "steps": 3, "ms": 50 }), ANY));
    for (number, call) in calls.iter_mut().enumerate() {
        let messages = call.messages();
        let [progress @ .., response] = &messages[..] else { panic!("nothing") };
        let seen: Vec<_> =
            progress.iter().map(|note| (&note["params"]["progressToken"], &note["params"]["progress"])).collect();
        let token = json!(format!("t{}", number + 1));
        assert_eq!(seen, [(&token, &json!(1)), (&token, &json!(2)), (&token, &json!(3))]);
        assert_eq!(response["id"], number + 1);
    }
    session.call("push", &json!({ "count": 0, "list_changed": true }));
    assert_eq!(listening.message().expect("a note")["method"], LIST_CHANGED, "nothing came before it");
}

#[test]
fn notes_ride_the_only_call_and_changes_the_standalone_stream() {
    let program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    // Before there is a stream, what belongs to it waits.
    let messages = session.start("push", &json!({ "count": 3, "list_changed": true }), SSE).messages();
    let methods: Vec<_> = messages.iter().map(|message| message["method"].as_str().unwrap_or("response")).collect();
    assert_eq!(methods, ["notifications/message", "notifications/message", "notifications/message", "response"]);
    let mut stream = session.listen();
    assert_eq!(stream.message().expect("a note")["method"], LIST_CHANGED);
    for _ in 0..50 {
        session.call("push", &json!({ "count": 0, "list_changed": true }));
        assert_eq!(stream.message().expect("a note")["method"], LIST_CHANGED);
    }
}

#[test]
fn a_question_rides_the_stream_of_the_call_that_asks_it() {
    let program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    let mut listening = session.listen();
    let arguments = json!({ "method": "sampling/createMessage", "params": { "maxTokens": 1 } });
    let mut call = session.start("ask", &arguments, ANY);
    let question = call.message().expect("the question");
    assert_eq!(question["method"], "sampling/createMessage");
    assert_eq!(question["params"], arguments["params"]);
    session.echo("others go on");
    let reply = json!({ "jsonrpc": "2.0", "id": question["id"], "result": { "role": "assistant" } });
    assert_eq!(session.post(&reply, ANY).status, 202);
    let answer: Value = serde_json::from_str(&text(&call.response())).expect("JSON");
    assert_eq!(answer, reply);
    session.call("push", &json!({ "count": 0, "list_changed": true }));
    assert_eq!(listening.message().expect("a note")["method"], LIST_CHANGED, "nothing came before it");
}

#[test]
fn a_question_that_no_stream_can_carry_is_answered_for_the_client() {
    let program = Program::hostile(&["--response", "json"], &[]);
    let session = Session::open(&program);
    let answer: Value = serde_json::from_str(&session.call("ask", &json!({}))).expect("JSON");
    assert!(answer["error"]["code"].is_i64(), "{answer}");
}

#[test]
fn several_streams_share_the_work_and_never_repeat() {
    // R098, R099, R102, R103, R104.
    let program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    let call = session.send("slow", &json!({ "steps": 1, "ms": 1000 }), JSON);
    let push = |number: u64| {
        let line = json!({ "jsonrpc": "2.0", "method": LIST_CHANGED, "params": { "number": number } }).to_string();
        session.call("raw", &json!({ "line": line }));
    };
    let number = |stream: &mut Answer| stream.message().expect("a note")["params"]["number"].as_u64();
    let mut first = session.listen();
    let [_second, mut third, mut fourth] = [(); 3].map(|()| session.listen());
    for note in 0..100 {
        push(note);
    }
    for note in 0..100 {
        assert_eq!(number(&mut fourth), Some(note), "the newest carries");
    }
    fourth.reset();
    // What comes before the end of the newest is seen may go with it; then the next carries on.
    let mut sent = 100;
    assert_eq!(third.item(), Some(Item::Primed), "the first event of a stream");
    third.set_patience(Duration::from_millis(50));
    while !third.is_readable() {
        push(sent);
        sent += 1;
        assert!(sent < 200, "nobody carries on");
    }
    assert!((100..sent).contains(&number(&mut third).expect("a number")));
    // Beyond four the oldest makes room.
    let [_fifth, mut sixth] = [(); 2].map(|()| session.listen());
    assert_eq!(soon("the end of the first", || first.message()), None);
    push(1000);
    assert_eq!(number(&mut sixth), Some(1000));
    assert_eq!(text(&call.answer().response()), "done", "none of that concerns a call");
}
