//! Whatever ends a session ends its child and all that the child has started, within the times that were set.

use std::fs;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{HOSTILE, LONG, Program, SOON, Setup, is_alive, scratch, soon, until, within};
use crate::session::{JSON, Session};

const STUBBORN: [&str; 3] = ["--ignore-eof", "--ignore-term", "--grandchild"];
const GRACE: [&str; 4] = ["--stop-grace", "500ms", "--kill-grace", "500ms"];

#[test]
fn delete_is_answered_before_a_stubborn_child_is_gone() {
    // R192, R205.
    let program = Program::hostile(&["--stop-grace", "1s", "--kill-grace", "1s"], &STUBBORN);
    let session = Session::open(&program);
    let (pid, grandchild) = session.process();
    let grandchild = grandchild.expect("it has one");
    let connection = session.send("slow", &json!({ "steps": 1, "ms": 100_000_000 }), JSON);
    session.echo("the call has begun");
    assert_eq!(soon("DELETE", || session.delete()), 204);
    assert!(is_alive(pid) && is_alive(grandchild));
    // R080: silence is no answer.
    let mut answer = soon("the error", || connection.answer());
    assert_eq!(answer.status, 500);
    assert_eq!(answer.json()["id"], 2);
    session.assert_gone();
    program.wait_until_childless();
}

#[test]
fn a_wrapper_is_no_hiding_place() {
    // R192: shells and the like that stay between, with and without a child that minds the end of its input.
    for options in ["", "--ignore-eof", "--ignore-eof --ignore-term --grandchild"] {
        let script = format!("'{HOSTILE}' {options}; true");
        let program = Setup::new(&GRACE).command(&["/bin/sh", "-c", &script]).start();
        let session = Session::open(&program);
        assert!(program.tree().len() >= 2);
        assert_eq!(session.delete(), 204);
        program.wait_until_childless();
        session.assert_gone();
    }
}

#[test]
fn a_grandchild_does_not_outlive_a_child_that_ends_by_itself() {
    // R191: it holds the pipes open, which must not hold up the end of the session either.
    let program = Program::hostile(&[], &["--grandchild", "--die=1"]);
    let session = Session::open(&program);
    let mut answer = soon("the error", || session.start("echo", &json!({}), JSON));
    assert_eq!((answer.status, &answer.json()["id"]), (500, &json!(1)));
    program.wait_until_childless();
    session.assert_gone();
}

#[test]
fn an_idle_stubborn_child_is_ended_too() {
    // R191.
    let program = Program::hostile(&[&GRACE[..], &["--idle-timeout", "500ms"]].concat(), &STUBBORN);
    let session = Session::open(&program);
    program.wait_until_childless();
    session.assert_gone();
}

#[test]
fn no_process_survives_a_shutdown() {
    // R183, R191, R197: within both times and a margin.
    let mut program = Program::hostile(&GRACE, &STUBBORN);
    let sessions = [(); 3].map(|()| Session::open(&program));
    sessions.iter().for_each(|session| session.echo("there"));
    assert!(program.tree().len() >= 6);
    // Also one that is being ended already.
    assert_eq!(sessions[0].delete(), 204);
    program.signal(Signal::TERM);
    let status = within(Duration::from_secs(1) + SOON, "the end", || program.wait());
    assert!(status.success(), "{status}");
    until("nothing is left", || program.tree().is_empty().then_some(()));
}

#[test]
fn a_child_may_finish_its_work_when_it_is_told_to_end() {
    // R197: the times that were set are waited for, by DELETE and by a shutdown alike.
    let done = scratch("work");
    let script = "\"$1\"; sleep 0.5; echo >> \"$0\"";
    let options = ["--eras", "legacy", "--stop-grace", "20s"];
    let mut program = Setup::new(&options).command(&["/bin/sh", "-c", script, &done, HOSTILE]).start();
    let sessions = [(); 2].map(|()| Session::open(&program));
    assert_eq!(soon("DELETE", || sessions[0].delete()), 204);
    program.signal(Signal::TERM);
    assert!(program.wait().success());
    assert_eq!(fs::read(&done).expect("somebody has finished").len(), 2);
    let _ = fs::remove_file(done);
}

#[test]
fn no_process_survives_a_second_signal() {
    // R185, R197: times that were set no longer count.
    let mut program = Program::hostile(&["--stop-grace", "10m", "--kill-grace", "10m"], &STUBBORN);
    let session = Session::open(&program);
    session.echo("there");
    program.signal(Signal::TERM);
    program.wait_for_log("shutting down");
    assert!(program.is_running() && !program.tree().is_empty());
    program.signal(Signal::TERM);
    within(SOON, "the end", || program.wait());
    until("nothing is left", || program.tree().is_empty().then_some(()));
}

#[test]
fn a_killed_program_leaves_no_child_that_reads() {
    let mut program = Program::hostile(&[], &[]);
    let sessions = [(); 3].map(|()| Session::open(&program));
    sessions.iter().for_each(|session| session.echo("there"));
    program.signal(Signal::KILL);
    program.wait();
    until("nothing is left", || program.tree().is_empty().then_some(()));
}

#[test]
fn many_short_sessions_leave_nothing() {
    // R003, R017, R199, R204.
    let program = Program::hostile(&GRACE, &["--grandchild"]);
    let mut descriptors = 0;
    for round in 0..30 {
        let session = Session::open(&program);
        let stream = session.listen();
        session.echo("short");
        assert_eq!(session.delete(), 204);
        assert_eq!(session.delete(), 404);
        drop(stream);
        if round == 2 {
            program.wait_until_childless();
            descriptors = program.descriptors();
        }
    }
    within(LONG, "the last child", || program.wait_until_childless());
    until("no descriptor is lost", || (program.descriptors() <= descriptors).then_some(()));
}
