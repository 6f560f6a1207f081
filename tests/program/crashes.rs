//! Children that don't start, or die: prompt errors, and nothing left.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Program, Setup, kill, scratch, soon, until};
use crate::http::Item;
use crate::session::{ANY, JSON, SSE, Session, open};

fn endless() -> Value {
    json!({ "steps": 1, "ms": 100_000_000 })
}

fn assert_error(error: &Value, id: u64) {
    assert_eq!(error["error"]["code"], -32603, "{error}");
    assert_eq!(error["id"], id);
}

#[test]
fn a_killed_child_is_an_error_at_once() {
    // R195, R203.
    let program = Program::hostile(&["--keep-alive", "100ms"], &[]);
    let other = Session::open(&program);
    for accept in [JSON, SSE, ANY] {
        let session = Session::open(&program);
        let pid = session.process().0;
        let mut stream = session.listen();
        let connection = session.send("slow", &endless(), accept);
        let mut answer = if accept == JSON {
            session.echo("the call has begun");
            soon("the error", || {
                kill(pid);
                connection.answer()
            })
        } else {
            let mut answer = connection.answer();
            assert_eq!(answer.item(), Some(Item::Primed));
            kill(pid);
            answer
        };
        assert_eq!(answer.status, if accept == JSON { 500 } else { 200 });
        soon("the error", || assert_error(&answer.response(), 2));
        assert_eq!(soon("the end of the stream", || stream.message()), None);
        session.assert_gone();
        other.echo("goes on");
    }
    until("one child is left", || (program.tree().len() == 1).then_some(()));
    program.wait_for_log("signal 9");
}

#[test]
fn a_command_that_does_not_exist_is_an_error_at_once() {
    // R195, R200.
    let program = Setup::new(&["--max-sessions", "1"]).command(&["/nonexistent/server", "--token=secret"]).start();
    let before = program.descriptors();
    for _ in 0..20 {
        let mut answer = soon("the error", || open(&program));
        assert_eq!((answer.status, answer.header("mcp-session-id")), (500, None));
        assert_error(&answer.json(), 0);
    }
    until("no descriptor is lost", || (program.descriptors() <= before + 2).then_some(()));
    program.wait_for_log("cannot start /nonexistent/server");
    assert!(!program.log().contains("secret"), "{}", program.log());
}

#[test]
fn a_child_that_dies_at_the_start_is_an_error_at_once() {
    // R195: what it said is for the log, not for the client.
    for die in ["--die=start", "--die=initialize"] {
        let program = Program::hostile(&["--max-sessions", "1"], &[die]);
        let mut descriptors = 0;
        for round in 0..15 {
            let mut answer = soon("the error", || open(&program));
            assert_eq!((answer.status, answer.header("mcp-session-id")), (500, None));
            let error = answer.json();
            assert_error(&error, 0);
            assert!(!error.to_string().contains("fatal"), "{error}");
            program.wait_until_childless();
            if round == 2 {
                descriptors = program.descriptors();
            }
        }
        until("no descriptor is lost", || (program.descriptors() <= descriptors).then_some(()));
        program.wait_for_log("exit status 3");
        program.wait_for_log("fatal: ");
    }
}

#[test]
fn a_server_that_keeps_failing_is_left_alone() {
    // R201: whoever never stops asking.
    let marks = scratch("failing");
    let script = "echo >> \"$0\"; exit 3";
    let program = Setup::new(&["--eras", "legacy"]).command(&["/bin/sh", "-c", script, &marks]).start();
    for _ in 0..20 {
        let mut answer = soon("the error", || open(&program));
        assert_eq!((answer.status, answer.header("mcp-session-id")), (500, None));
        assert_error(&answer.json(), 0);
    }
    assert_eq!(fs::read(&marks).expect("it was started").len(), 3);
    program.wait_for_log("3 failures in a row, not tried again for");
    // R202: it needs no restart.
    fs::remove_file(&marks).expect("it is there");
    until("it is tried again", || {
        assert_eq!(open(&program).status, 500);
        fs::exists(&marks).expect("a folder").then_some(())
    });
    let _ = fs::remove_file(&marks);
}

#[test]
fn children_that_die_in_a_call_leave_nothing() {
    // R204, R205.
    let program = Program::hostile(&["--max-sessions", "3"], &["--die=2"]);
    let mut descriptors = 0;
    for round in 0..30 {
        let session = Session::open(&program);
        let mut stream = session.listen();
        session.echo("the first call is fine");
        let mut answer = soon("the error", || session.start("echo", &json!({ "text": "" }), ANY));
        assert_eq!(answer.status, 500);
        assert_error(&answer.json(), 2);
        assert_eq!(soon("the end of the stream", || stream.message()), None);
        session.assert_gone();
        drop(stream);
        program.wait_until_childless();
        if round == 2 {
            descriptors = program.descriptors();
        }
    }
    until("no descriptor is lost", || (program.descriptors() <= descriptors).then_some(()));
}

#[test]
fn an_abort_is_a_death_like_others() {
    let program = Program::hostile(&[], &["--abort=1"]);
    let session = Session::open(&program);
    let mut answer = soon("the error", || session.start("echo", &json!({}), JSON));
    assert_eq!(answer.status, 500);
    assert_error(&answer.json(), 1);
    session.assert_gone();
    program.wait_for_log("signal 6");
    program.wait_until_childless();
}

#[test]
fn the_last_words_of_a_child_are_heard() {
    for options in [&[][..], &["--unended"]] {
        let program = Program::hostile(&[], options);
        for code in [0, 3] {
            let session = Session::open(&program);
            assert_eq!(session.call("exit", &json!({ "code": code })), "exiting");
            program.wait_until_childless();
            until("the session is gone", || (session.delete() == 404).then_some(()));
            session.assert_gone();
        }
    }
}

#[test]
fn a_child_that_closes_its_output_is_ended() {
    // Its end may take long; the client need not wait for it.
    for (grace, lasting) in [("100ms", false), ("10m", true)] {
        let program = Program::hostile(&["--stop-grace", grace, "--kill-grace", "100ms"], &[]);
        let session = Session::open(&program);
        let mut answer = soon("the error", || session.start("close_stdout", &json!({}), JSON));
        assert_eq!(answer.status, 500);
        assert_error(&answer.json(), 1);
        session.assert_gone();
        if lasting {
            assert_eq!(program.tree().len(), 1);
        } else {
            program.wait_until_childless();
        }
    }
}
