//! The start and the end of the program.

use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::harness::{Program, SOON, Setup, sessile, until, within};
use crate::http::{Connection, Item, Request, is_refused};
use crate::session::{ANY, JSON, SSE, Session, initialize};

#[test]
fn calls_finish_and_streams_end_in_order() {
    // R053, R093, R183, R184.
    let mut program = Program::hostile(&["--retry", "3s"], &[]);
    let sessions = [(); 5].map(|()| Session::open(&program));
    let streams = sessions.each_ref().map(Session::listen);
    let call = |session: &Session, number: usize| {
        let ms = 1000 + 250 * number;
        session.send("slow", &json!({ "steps": 1, "ms": ms }), [JSON, SSE, ANY][number % 3])
    };
    let mut calls = Vec::new();
    for (number, session) in sessions.iter().enumerate() {
        calls.push(call(session, number));
        session.echo("the call has begun");
    }
    program.signal(Signal::TERM);
    program.wait_for_log("shutting down");
    for mut stream in streams {
        let items: Vec<_> = std::iter::from_fn(|| stream.item()).filter(|item| *item != Item::Comment).collect();
        assert_eq!(items, [Item::Primed, Item::Retry(3000)]);
    }
    assert!(is_refused(program.address, &Request::post(initialize().to_string())));
    // Never a 404, which clients take for the end of their session.
    assert!(is_refused(program.address, &sessions[0].request(Request::get())));
    for mut answer in calls.into_iter().map(Connection::answer) {
        assert_eq!(answer.status, 200);
        assert_eq!(answer.response()["result"]["content"][0]["text"], "done");
    }
    let status = within(SOON, "the end", || program.wait());
    assert!(status.success(), "{status}");
    until("nothing is left", || program.tree().is_empty().then_some(()));
}

#[test]
fn what_does_not_finish_in_time_ends_with_an_error() {
    // R185.
    for signal in [Signal::TERM, Signal::INT] {
        let mut program = Program::hostile(&["--drain-timeout", "500ms", "--stop-grace", "100ms"], &[]);
        let sessions = [(); 3].map(|()| Session::open(&program));
        let endless = json!({ "steps": 1, "ms": 100_000_000 });
        let mut calls = Vec::new();
        for (session, accept) in sessions.iter().zip([JSON, SSE, ANY]) {
            calls.push((accept, session.send("slow", &endless, accept)));
            session.echo("the call has begun");
        }
        // A client that never says a word does not hold it up either.
        let silent = Connection::open(program.address);
        program.signal(signal);
        for (accept, connection) in calls {
            let mut answer = connection.answer();
            assert!(accept == ANY || answer.status == if accept == JSON { 500 } else { 200 }, "{answer:?}");
            let error = answer.response();
            assert_eq!((&error["id"], &error["error"]["code"]), (&json!(1), &json!(-32603)), "{error}");
        }
        let status = within(SOON * 2, "the end", || program.wait());
        assert!(status.success(), "{status}");
        drop(silent);
    }
}

#[test]
fn a_start_is_finished_too_if_it_can_be() {
    // R053: the client has its answer, whatever it is; the session is not known afterwards.
    for (drain, status) in [("30s", 200), ("200ms", 500)] {
        // Without a look at what the command speaks, the one child is the session's.
        let options = ["--eras", "legacy", "--drain-timeout", drain];
        let mut program = Program::hostile(&options, &["--slow-start=1500"]);
        let mut connection = Connection::open(program.address);
        connection.send(&Request::post(initialize().to_string()));
        until("the child", || (program.tree().len() == 1).then_some(()));
        program.signal(Signal::TERM);
        let mut answer = connection.answer();
        assert_eq!(answer.status, status);
        assert_eq!(answer.response()["id"], 0);
        let exit = within(SOON, "the end", || program.wait());
        assert!(exit.success(), "{exit}");
        until("nothing is left", || program.tree().is_empty().then_some(()));
    }
}

#[test]
fn clients_that_do_not_read_do_not_hold_up_the_end() {
    // R185.
    let mut program = Program::hostile(&["--drain-timeout", "500ms"], &[]);
    let session = Session::open(&program);
    let unread = session.send("big", &json!({ "bytes": 16 << 20 }), JSON);
    session.echo("the answer is on its way");
    program.signal(Signal::TERM);
    let status = within(SOON * 2, "the end", || program.wait());
    assert!(status.success(), "{status}");
    drop(unread);
}

#[test]
fn a_second_signal_ends_it_at_once() {
    // R185.
    let mut program = Program::hostile(&["--drain-timeout", "10m"], &[]);
    let session = Session::open(&program);
    let call = session.send("slow", &json!({ "steps": 1, "ms": 100_000_000 }), SSE);
    session.echo("the call has begun");
    program.signal(Signal::INT);
    program.wait_for_log("shutting down");
    // It waits for the call, of which there is no end.
    thread::sleep(Duration::from_millis(300));
    assert!(program.is_running());
    program.signal(Signal::INT);
    let status = within(SOON, "the end", || program.wait());
    assert_eq!(status.code(), Some(1));
    until("nothing is left", || program.tree().is_empty().then_some(()));
    drop(call);
}

#[test]
fn a_port_can_be_used_again_at_once() {
    // R186.
    let mut first = Setup::new(&[]).start();
    let address = first.address.to_string();
    let session = Session::open(&first);
    let stream = session.listen();
    first.signal(Signal::TERM);
    assert!(first.wait().success());
    let second = Setup::new(&["--listen", &address]).start();
    assert_eq!(second.address.to_string(), address);
    // R036: whoever has a session of the first starts over.
    session.assert_gone();
    drop(stream);
}

/// Runs the program to its end; gives its exit code and what it wrote.
fn run(options: &[&str]) -> (Option<i32>, String, String) {
    let output = sessile().args(options).output().expect("it starts");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_port_in_use_is_said_in_a_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let (code, stdout, stderr) = run(&["--listen", &address, "--", "/bin/true"]);
    assert_eq!((code, &*stdout), (Some(1), ""));
    let [line] = stderr.lines().collect::<Vec<_>>()[..] else { panic!("{stderr}") };
    assert!(line.contains(&address) && line.contains("in use"), "{line}");
}

#[test]
fn a_wrong_option_is_said_in_a_line() {
    // R027.
    for (options, word) in [
        (&["--no-such-option"][..], "--no-such-option"),
        (&["--listen", "nowhere"], "nowhere"),
        (&["--idle-timeout", "soon"], "soon"),
        (&["--idle-timeout", "0"], "--idle-timeout"),
        (&["--response", "xml"], "xml"),
        (&["--max-sessions", "0"], "--max-sessions"),
        (&["--env", "novalue", "--", "x"], "novalue"),
        (&["server"], "--"),
    ] {
        let (code, stdout, stderr) = run(options);
        assert_eq!((code, &*stdout), (Some(2), ""), "{options:?}");
        let [line] = stderr.lines().collect::<Vec<_>>()[..] else { panic!("{stderr}") };
        assert!(line.contains(word), "{line}");
    }
}
