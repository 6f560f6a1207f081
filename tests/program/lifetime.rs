//! How long a session lives, and that its child lives as long and no longer.

use std::time::Duration;

use serde_json::json;

use crate::harness::{Program, Setup, until};
use crate::http::{Connection, Item, Request};
use crate::session::{JSON, SSE, Session, initialize, open, text};

#[test]
fn a_call_longer_than_the_idle_timeout_survives_it() {
    // R004, R022, R029, R191.
    let program = Program::hostile(&["--idle-timeout", "1s"], &[]);
    let sessions = [(); 2].map(|()| Session::open(&program));
    let arguments = json!({ "steps": 1, "ms": 2500 });
    let calls = [0, 1].map(|number| sessions[number].send("slow", &arguments, [JSON, SSE][number]));
    for call in calls {
        let mut answer = call.answer();
        assert_eq!(answer.status, 200);
        assert_eq!(text(&answer.response()), "done");
    }
    // Asking for the sessions would keep them.
    program.wait_until_childless();
    for session in sessions {
        session.assert_gone();
    }
    program.wait_for_log("reason=\"idle\"");
}

#[test]
fn an_open_stream_keeps_its_session() {
    // R023, R033, R083.
    let program = Program::hostile(&["--idle-timeout", "1s", "--keep-alive", "500ms"], &[]);
    let session = Session::open(&program);
    let mut stream = session.listen();
    assert_eq!(stream.item(), Some(Item::Primed));
    let comments = std::iter::from_fn(|| stream.item()).take_while(|item| *item == Item::Comment).take(6).count();
    assert_eq!(comments, 6, "three times the idle timeout");
    session.echo("still there");
    drop(stream);
    program.wait_until_childless();
    session.assert_gone();
}

#[test]
fn an_endless_call_without_a_client_keeps_nothing() {
    // R015, R024.
    let program = Program::hostile(&["--idle-timeout", "1s", "--keep-alive", "200ms"], &[]);
    let sessions = [(); 2].map(|()| Session::open(&program));
    let endless = json!({ "steps": 1, "ms": 100_000_000 });
    let held = sessions[0].send("slow", &endless, JSON);
    // That the call has begun can't be seen in this mode, but a later one is answered later.
    sessions[0].echo("later");
    held.reset();
    let mut stream = sessions[1].start("slow", &endless, SSE);
    assert_eq!(stream.item(), Some(Item::Primed));
    stream.reset();
    program.wait_until_childless();
    for session in sessions {
        session.assert_gone();
    }
}

#[test]
fn a_client_that_does_not_come_back_loses_its_session() {
    // R001, R010.
    let program = Program::hostile(&["--init-timeout", "500ms"], &[]);
    let silent = Session::half_open(&program);
    program.wait_until_childless();
    silent.assert_gone();
    program.wait_for_log("reason=\"never initialized\"");
    // R056: any message will do.
    let session = Session::half_open(&program);
    session.echo("without notifications/initialized");
}

#[test]
fn forgotten_sessions_cost_nothing_in_the_long_run() {
    // R001, R010, R013: a session that stayed would leave no room for the last of the next round.
    let program = Setup::new(&["--max-sessions", "300", "--idle-timeout", "1s", "--init-timeout", "1s"]).start();
    let mut memory = 0;
    let mut descriptors = 0;
    for round in 0..4 {
        let mut sessions = Vec::new();
        until("room", || (open(&program).status == 200).then_some(()));
        for number in 1..300 {
            let session = Session::half_open(&program);
            if number % 2 == 0 {
                session.echo("known by name");
            }
            sessions.push(session);
        }
        let last = sessions.pop().expect("many");
        until("the last session ends", || {
            (program.log().matches("session closed").count() == 300 * (round + 1)).then_some(())
        });
        last.assert_gone();
        if round == 1 {
            (memory, descriptors) = (program.memory(), program.descriptors());
        }
    }
    assert!(program.memory() <= memory + 4, "{memory} MiB, then {} MiB", program.memory());
    assert!(program.descriptors() <= descriptors + 2);
}

#[test]
fn a_lifetime_ends_busy_sessions_too() {
    let program = Program::hostile(&["--max-lifetime", "1s"], &[]);
    let session = Session::open(&program);
    let mut answer = session.start("slow", &json!({ "steps": 1, "ms": 100_000_000 }), JSON);
    assert_eq!(answer.status, 500);
    let error = answer.json();
    assert_eq!((&error["id"], &error["error"]["code"]), (&json!(1), &json!(-32603)), "{error}");
    session.assert_gone();
    program.wait_until_childless();
}

#[test]
fn a_client_that_leaves_before_initialize_is_answered_leaves_nothing() {
    // R191.
    let options = ["--stop-grace", "100ms", "--max-sessions", "1"];
    let program = Program::hostile(&options, &["--slow-start=100000000"]);
    for _ in 0..3 {
        let mut connection = Connection::open(program.address);
        connection.send(&Request::post(initialize().to_string()));
        until("the child", || (program.tree().len() == 1).then_some(()));
        connection.reset();
        program.wait_until_childless();
    }
}

#[test]
fn a_session_is_not_tied_to_connections() {
    // R026, R081, R082.
    let program = Program::hostile(&[], &[]);
    let (one, other) = (Session::open(&program), Session::open(&program));
    one.call("set", &json!({ "name": "x", "value": 1 }));
    // Two sessions on one connection, in turn.
    let mut connection = Connection::open(program.address);
    for session in [&one, &other, &one] {
        let message = session.message("get", &json!({ "name": "x" })).to_string();
        connection.send(&session.request(Request::post(message)));
        let mut answer = connection.answer();
        assert_eq!(text(&answer.response()), if session.id == one.id { "1" } else { "null" });
        connection = answer.connection();
    }
    drop(connection);
    // Neither the end of a stream nor its reset is the end of a session.
    for reset in [false, true] {
        let stream = one.listen();
        if reset {
            stream.reset();
        } else {
            drop(stream);
        }
        assert_eq!(one.call("get", &json!({ "name": "x" })), "1");
    }
    // R084, R097: a new stream gets what comes next, whether or not the end of the last one has been seen.
    for _ in 0..20 {
        let mut stream = one.listen();
        one.call("push", &json!({ "count": 0, "list_changed": true }));
        assert_eq!(stream.message().expect("a note")["method"], "notifications/tools/list_changed");
        stream.reset();
    }
    let stream = one.listen();
    stream.set_patience(Duration::from_millis(1));
    one.echo("a silent stream is no hindrance");
}
