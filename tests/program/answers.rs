//! How calls are answered: at once, in what form, each with its own.

use std::thread;
use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::{Program, soon};
use crate::http::Item;
use crate::session::{ANY, JSON, SSE, Session};

#[test]
fn the_form_of_an_answer_follows_the_client_and_the_option() {
    // R083, R091, R092.
    for (option, accept, is_stream) in
        [("auto", ANY, false), ("json", ANY, false), ("sse", ANY, true), ("auto", SSE, true), ("sse", JSON, false)]
    {
        let program = Program::hostile(&["--response", option], &[]);
        let session = Session::open(&program);
        let mut answer = session.start("echo", &json!({ "text": "x" }), accept);
        assert_eq!((answer.status, answer.is_stream()), (200, is_stream), "{option} {accept}");
        if is_stream {
            assert_eq!(answer.header("cache-control"), Some("no-cache, no-transform"));
            assert_eq!(answer.header("x-accel-buffering"), Some("no"));
        }
        assert_eq!(answer.header("content-encoding"), None);
        assert_eq!(answer.response()["result"]["content"][0]["text"], "x");
    }
}

#[test]
fn a_long_call_opens_its_stream_and_keeps_it_alive() {
    // R083, R087.
    let program = Program::hostile(&["--keep-alive", "300ms"], &[]);
    let session = Session::open(&program);
    let start = Instant::now();
    let mut answer = session.start("slow", &json!({ "steps": 1, "ms": 2000 }), ANY);
    assert!(answer.is_stream());
    assert!(start.elapsed().as_millis() < 1900, "the head comes long before the answer");
    let items: Vec<_> = std::iter::from_fn(|| answer.item()).collect();
    assert_eq!(items[0], Item::Primed);
    let comments = items[1..].iter().take_while(|item| **item == Item::Comment).count();
    assert!((3..=8).contains(&comments), "{items:?}");
    assert!(matches!(items.last(), Some(Item::Message(response)) if response["result"].is_object()), "{items:?}");
}

#[test]
fn calls_of_a_session_run_side_by_side() {
    // R069, R067, R068.
    let program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    let slow = session.send("slow", &json!({ "steps": 1, "ms": 2000 }), JSON);
    thread::scope(|scope| {
        for client in 0..8 {
            let session = &session;
            scope.spawn(move || {
                for round in 0..25 {
                    session.echo(&format!("{client} {round}"));
                }
            });
        }
    });
    // An id in flight is not free, and refusing it does not disturb the one who has it.
    let again = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(session.post(&again, ANY).status, 400);
    assert_eq!(slow.answer().response()["result"]["content"][0]["text"], "done");
    assert_eq!(session.post(&again, ANY).response()["id"], 1);
}

#[test]
fn too_many_calls_at_once_are_refused_and_harm_none() {
    let program = Program::hostile(&["--max-in-flight", "2"], &[]);
    let session = Session::open(&program);
    let busy = [(); 2].map(|()| session.start("slow", &json!({ "steps": 10, "ms": 100 }), SSE));
    let mut answer = session.start("echo", &json!({}), ANY);
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_eq!(answer.json()["id"], 3);
    for mut answer in busy {
        assert_eq!(answer.response()["result"]["content"][0]["text"], "done");
    }
    session.echo("free again");
}

#[test]
fn a_cancelled_call_ends_at_once_without_a_response() {
    let program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    let cancel = |id: u64| {
        let params = json!({ "requestId": id });
        session.post(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }), ANY).status
    };
    let endless = json!({ "steps": 1, "ms": 100_000_000 });
    let mut stream = session.start("slow", &endless, SSE);
    assert_eq!(cancel(1), 202);
    assert_eq!(soon("the end", || stream.messages()), Vec::<Value>::new());
    let held = session.send("slow", &endless, JSON);
    session.echo("the call has begun");
    assert_eq!(cancel(2), 202);
    let mut answer = soon("the end", || held.answer());
    assert_eq!((answer.status, answer.body()), (202, Vec::new()));
    assert_eq!(cancel(99), 202, "what it does not know it ignores");
    session.echo("goes on");
}

#[test]
fn a_ping_is_answered_at_every_stage() {
    // R227.
    let program = Program::hostile(&[], &[]);
    let session = Session::half_open(&program);
    let ping = |id: Value| {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": "ping" });
        let answer = soon("a pong", || session.post(&message, ANY).response());
        assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": id, "result": {} }));
    };
    ping(json!(1));
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(session.post(&note, ANY).status, 202);
    ping(json!("p"));
    let mut call = session.start("slow", &json!({ "steps": 1_000_000, "ms": 10 }), SSE);
    assert_eq!(call.message().expect("progress")["params"]["progress"], 1);
    ping(json!("while a call runs"));
    ping(json!(-7));
    assert!(call.message().is_some(), "it goes on");
}
