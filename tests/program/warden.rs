//! Children end with the program, also when it is killed.

use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Program, Setup, is_alive, kill, send_signal, until};
use crate::http::{Connection, Request};
use crate::session::{ANY, SSE, Session, initialize};

/// Children that nothing but SIGKILL ends, each with one of its own that holds its pipes.
const STUBBORN: [&str; 3] = ["--grandchild", "--ignore-eof", "--ignore-term"];

#[test]
fn a_killed_program_leaves_nobody() {
    // R192, R197, R205.
    let mut program = Program::hostile(&[], &STUBBORN);
    let sessions = [(); 8].map(|()| Session::open(&program));
    let calls = sessions.each_ref().map(|session| session.send("slow", &json!({ "steps": 1, "ms": 100_000_000 }), SSE));
    let deleted = Session::open(&program);
    // One that is being stopped, which takes its time.
    assert_eq!(deleted.delete(), 204);
    let tree = program.tree();
    assert!(tree.len() >= 18, "{tree:?}");
    let warden = program.warden().expect("there is one");
    program.signal(Signal::KILL);
    program.wait();
    until("nobody is left", || program.tree().is_empty().then_some(()));
    assert!(!tree.into_iter().any(is_alive));
    until("nor the warden", || (!is_alive(warden)).then_some(()));
    drop(calls);
}

#[test]
fn a_program_killed_while_children_are_born_leaves_nobody() {
    // They read: one whose birth could not be told any more is ended by the end of its input.
    for born in [1, 3, 9] {
        let mut program = Program::hostile(&[], &[]);
        let opening: Vec<_> = (0..20)
            .map(|_| {
                let mut connection = Connection::open(program.address);
                connection.write(&Request::post(initialize().to_string()).bytes(program.address));
                connection
            })
            .collect();
        until("some are born", || (program.tree().len() >= born).then_some(()));
        program.signal(Signal::KILL);
        program.wait();
        until("nobody is left", || program.tree().is_empty().then_some(()));
        drop(opening);
    }
}

#[test]
fn the_warden_is_deaf_and_has_little_to_itself() {
    let mut program = Program::hostile(&[], &STUBBORN);
    let session = Session::open(&program);
    let warden = program.warden().expect("there is one");
    for signal in [Signal::HUP, Signal::INT, Signal::TERM] {
        send_signal(warden, signal);
    }
    let name = std::fs::read_to_string(format!("/proc/{warden}/comm")).expect("it is there");
    assert_eq!(name, "warden\n");
    let environment = std::fs::read(format!("/proc/{warden}/environ")).expect("it is there");
    assert!(environment.is_empty(), "{}", String::from_utf8_lossy(&environment));
    session.echo("it hurts nobody");
    program.signal(Signal::KILL);
    program.wait();
    until("nobody is left", || program.tree().is_empty().then_some(()));
}

#[test]
fn without_its_warden_the_program_goes_on() {
    let mut program = Program::hostile(&["--stop-grace", "100ms", "--kill-grace", "100ms"], &STUBBORN);
    let before = Session::open(&program);
    kill(program.warden().expect("there is one"));
    program.wait_for_log("the warden has ended");
    before.echo("as before");
    let after = Session::open(&program);
    after.echo("too");
    assert_eq!(before.delete(), 204);
    assert_eq!(after.delete(), 204);
    program.wait_until_childless();
    let last = Session::open(&program);
    assert_eq!(last.start("echo", &json!({ "text": "" }), ANY).status, 200);
    program.signal(Signal::TERM);
    assert!(program.wait().success());
    assert!(program.tree().is_empty());
}

#[test]
fn a_warden_that_was_stopped_holds_nothing_up() {
    let program = Program::hostile(&["--stop-grace", "100ms", "--kill-grace", "100ms"], &[]);
    let warden = program.warden().expect("there is one");
    send_signal(warden, Signal::STOP);
    for _ in 0..20 {
        let session = Session::open(&program);
        session.echo("still");
        assert_eq!(session.delete(), 204);
    }
    program.wait_until_childless();
    send_signal(warden, Signal::CONT);
    thread::sleep(Duration::from_millis(50));
    assert!(is_alive(warden));
}

#[test]
fn a_second_signal_leaves_nobody_either() {
    let mut program = Program::hostile(&["--drain-timeout", "10m"], &STUBBORN);
    let sessions = [(); 4].map(|()| Session::open(&program));
    let call = sessions[0].send("slow", &json!({ "steps": 1, "ms": 100_000_000 }), SSE);
    sessions[0].echo("the call has begun");
    program.signal(Signal::TERM);
    program.wait_for_log("shutting down");
    program.signal(Signal::TERM);
    assert_eq!(program.wait().code(), Some(1));
    let left = program.tree();
    assert!(!left.iter().copied().any(is_alive), "{left:?}");
    drop(call);
}

#[test]
fn only_children_need_a_warden() {
    assert_eq!(Setup::new(&[]).start().warden(), None);
}
