//! What is logged, and that logging holds nothing up.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::harness::{HOSTILE, Program, SOON, Setup, kill, soon, until, within};
use crate::http::{Connection, Request, ask};
use crate::session::{ANY, JSON, SSE, Session};

#[test]
fn a_log_that_nobody_reads_holds_nothing_up() {
    // R214.
    let setup = Setup::new(&["--log-level", "trace"]).with_unread_stderr();
    let mut program = setup.command(&[HOSTILE, "--stderr=200000", "--noise"]).start();
    for _ in 0..20 {
        let session = Session::open(&program);
        for _ in 0..10 {
            soon("an answer", || session.echo("unread"));
        }
        assert_eq!(soon("DELETE", || session.delete()), 204);
    }
    program.wait_until_childless();
    program.signal(Signal::TERM);
    assert!(within(SOON, "the end", || program.wait()).success());
}

#[test]
fn no_secret_is_logged() {
    // Session ids, credentials, and what is said in a session.
    let command = [HOSTILE, "--noise", "--stderr=100"];
    let mut program = Setup::new(&["--log-level", "trace", "--idle-timeout", "1s"]).command(&command).start();
    let mut sessions = [(); 4].map(|()| Session::open(&program));
    for session in &sessions {
        let stream = session.listen();
        session.echo("confidential");
        session.start("slow", &json!({ "steps": 1, "ms": 100_000 }), SSE).reset();
        session.start("push", &json!({ "count": 2, "list_changed": true }), ANY).messages();
        for request in [
            Request::post("not JSON"),
            Request::bare("PATCH"),
            Request::get().with("Last-Event-ID", "confidential-1"),
            Request::get().with("Host", "example.com"),
            Request::get().with("Authorization", "Bearer confidential"),
        ] {
            ask(program.address, &session.request(request)).reset();
        }
        let mut half = Connection::open(program.address);
        let whole = session.request(Request::post("{}").with("Authorization", "Bearer confidential"));
        half.write(&whole.bytes(program.address)[..150]);
        drop((stream, half));
    }
    kill(sessions[0].process().0);
    until("the killed child's session is gone", || (sessions[0].delete() == 404).then_some(()));
    assert_eq!(sessions[1].delete(), 204);
    for session in &sessions[..2] {
        session.assert_gone();
    }
    // Ids that are nearly right, and ids that never were.
    for (session, id) in sessions.iter_mut().zip(["x".repeat(36), "deadbeef-dead-4eef-8eef-deadbeefdead".to_owned()]) {
        session.id = id;
        session.assert_gone();
    }
    let unfinished = sessions[3].start("slow", &json!({ "steps": 1, "ms": 100 }), JSON);
    program.wait_until_childless();
    program.signal(Signal::TERM);
    program.wait();
    drop(unfinished);
    let log = program.log();
    assert!(log.contains("session opened") && log.contains("session closed"), "{log}");
    for secret in sessions.iter().map(|session| &*session.id).chain(["confidential"]) {
        assert!(!log.contains(secret), "{secret} is in the log");
    }
    program.wait_until_childless();
}

#[test]
fn silence_is_an_option() {
    let mut program = Program::hostile(&["--log-level", "off"], &["--die=1", "--stderr=10000"]);
    let session = Session::open(&program);
    assert_eq!(session.start("echo", &json!({}), JSON).status, 500);
    program.signal(Signal::TERM);
    program.wait();
    assert_eq!(program.log(), "");
}

#[test]
fn for_machines_each_line_is_an_object() {
    let mut programs = [
        Setup::new(&["--log-format", "json"]).start(),
        Program::hostile(&["--log-format", "json", "--log-level", "trace"], &["--noise", "--stderr=1000"]),
    ];
    for program in &mut programs {
        let session = Session::open(program);
        session.echo("something");
        assert_eq!(session.delete(), 204);
        program.wait_for_log("session closed");
        program.signal(Signal::TERM);
        program.wait();
        let log = program.log();
        // The last one may not have come in whole yet.
        for line in log.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let event: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert!(event["timestamp"].is_string() && event["level"].is_string(), "{line}");
            assert!(event["message"].is_string(), "{line}");
        }
    }
}
