//! Children in good health: whose they are, what they see, and what they cost others.

use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::{Value, json};

use crate::harness::{HOSTILE, Program, SOON, Setup, scratch, soon, until};
use crate::http::{Connection, Request};
use crate::session::{JSON, SSE, Session, initialize};

#[test]
fn each_session_has_a_child_of_its_own() {
    // R060, R073.
    let program = Program::hostile(&[], &[]);
    let sessions = [(); 3].map(|()| Session::open(&program));
    for (number, session) in sessions.iter().enumerate() {
        session.call("set", &json!({ "name": "x", "value": number }));
    }
    for (number, session) in sessions.iter().enumerate() {
        assert_eq!(session.call("get", &json!({ "name": "x" })), number.to_string());
    }
    let mut pids = sessions.each_ref().map(|session| session.process().0).to_vec();
    let mut tree = program.tree();
    pids.sort_unstable();
    tree.sort_unstable();
    assert_eq!(pids, tree);
}

#[test]
fn a_child_sees_what_it_was_given() {
    // Whoever runs the tests has set CARGO_PKG_NAME and more of its kind.
    let directory = env::temp_dir().canonicalize().expect("a directory");
    let cwd = directory.to_str().expect("UTF-8");
    let options = ["--env", "GIVEN=1", "--pass-env", "CARGO_PKG_NAME", "--pass-env", "NO_SUCH_NAME", "--cwd", cwd];
    let program = Program::hostile(&options, &[]);
    let process: Value = serde_json::from_str(&Session::open(&program).call("process", &json!({}))).expect("JSON");
    let names: Vec<_> = process["env"].as_array().expect("names").iter().filter_map(Value::as_str).collect();
    for name in ["GIVEN", "CARGO_PKG_NAME", "PATH"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    let cargo: Vec<_> = names.iter().filter(|name| name.starts_with("CARGO")).collect();
    assert_eq!(cargo, [&"CARGO_PKG_NAME"]);
    assert_eq!(process["cwd"], cwd);
}

#[test]
fn a_child_that_never_reads_holds_up_its_own_session_only() {
    let once = scratch("deaf");
    let script = "if mkdir \"$0\" 2>&-; then exec \"$1\" --deaf=2; else exec \"$1\"; fi";
    let options = ["--eras", "legacy", "--stop-grace", "1s", "--kill-grace", "1s"];
    let program = Setup::new(&options).command(&["/bin/sh", "-c", script, &once, HOSTILE]).start();
    let deaf = Session::open(&program);
    let other = Session::open(&program);
    fs::remove_dir(&once).expect("the first child made it");
    // More than any pipe holds, less than an inbox does.
    let much = json!({ "text": "x".repeat(1 << 20) });
    let waiting: Vec<_> = (0..8).map(|_| deaf.send("echo", &much, JSON)).collect();
    for _ in 0..20 {
        soon("another session", || other.echo("not deaf"));
    }
    let mut statuses: Vec<u16> = Vec::new();
    assert_eq!(soon("DELETE", || deaf.delete()), 204);
    assert_eq!(program.tree().len(), 2, "the answer to DELETE does not wait for the child");
    for connection in waiting {
        statuses.push(soon("the error", || connection.answer()).status);
    }
    assert_eq!(statuses, [500; 8]);
    deaf.assert_gone();
    until("one child is left", || (program.tree().len() == 1).then_some(()));
    other.echo("goes on");
}

#[test]
fn waiting_costs_no_time() {
    // R200: whatever is waited for, nothing turns in circles.
    let once = scratch("waiting");
    let script = "if mkdir \"$0\" 2>&-; then exec \"$1\" --deaf=2; else exec \"$1\" --ignore-eof --ignore-term; fi";
    let options = ["--stop-grace", "10m", "--keep-alive", "100ms"];
    let program = Setup::new(&options).command(&["/bin/sh", "-c", script, &once, HOSTILE]).start();
    let deaf = Session::open(&program);
    let [stalled, deleted, speechless] = [(); 3].map(|()| Session::open(&program));
    fs::remove_dir(&once).expect("the first child made it");
    // A child that does not read, a client that does not read, children that don't end, and one whose pipe is closed.
    let much = json!({ "text": "x".repeat(1 << 20) });
    let unanswered = [(); 3].map(|()| deaf.send("echo", &much, SSE));
    let unread = stalled.send("big", &json!({ "bytes": 8 << 20 }), SSE);
    stalled.echo("the answer is on its way");
    assert_eq!(deleted.delete(), 204);
    assert_eq!(speechless.start("close_stdout", &json!({}), JSON).status, 500);
    let idle = stalled.listen();
    // A second with no more than a few comments to send, once all of that is settled.
    let start = Instant::now();
    until("a quiet second", || {
        let before = program.computed();
        thread::sleep(Duration::from_secs(1));
        (program.computed() - before < Duration::from_millis(100)).then_some(())
    });
    assert!(start.elapsed() < SOON * 2, "it was busy for {:?}", start.elapsed());
    assert_eq!(program.tree().len(), 4);
    drop((unanswered, unread, idle));
}

#[test]
fn descriptors_that_run_out_are_an_error_and_no_end() {
    let mut program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    let mut connection = Connection::open(program.address);
    let message = session.message("echo", &json!({ "text": "before" })).to_string();
    connection.send(&session.request(Request::post(message)));
    let mut answer = connection.answer();
    answer.response();
    let connection = answer.connection();
    let before = program.descriptors();
    program.limit_descriptors(before + 2);
    // More connections than it can take, the rest of which wait in the backlog.
    let waiting: Vec<_> = (0..20).map(|_| Connection::open(program.address)).collect();
    until("no descriptor is left", || (program.descriptors() >= before + 2).then_some(()));
    // Who has a connection is still served; only a child can't be had.
    let connection = [initialize(), session.message("echo", &json!({ "text": "still" }))].iter().fold(
        connection,
        |mut connection, message| {
            let request = Request::post(message.to_string());
            let is_call = message["method"] == "tools/call";
            connection.send(&if is_call { session.request(request) } else { request });
            let mut answer = soon("an answer", || connection.answer());
            assert_eq!(answer.status, if is_call { 200 } else { 500 });
            assert_eq!(answer.response()["id"], message["id"]);
            answer.connection()
        },
    );
    drop((waiting, connection));
    until("the connections are forgotten", || (program.descriptors() < before).then_some(()));
    program.limit_descriptors(1024);
    Session::open(&program).echo("as if nothing had been");
    session.echo("the old one too");
    assert!(program.is_running());
}

#[test]
fn more_sessions_than_a_process_has_descriptors_at_first() {
    // R180. A limit of 128 lets a process ask for more, as systems do with 1,024.
    let launcher = ["/bin/sh", "-c", "ulimit -Sn 128 && exec \"$@\"", "sh"];
    let program =
        Setup::new(&["--max-sessions", "10", "--eras", "legacy"]).command(&[HOSTILE]).under(&launcher).start();
    let (soft, hard) = limit_of(program.id());
    assert!(hard > 128 && soft == hard, "{soft} of {hard}");
    let session = Session::open(&program);
    session.echo("so that the child has begun");
    let [child] = program.tree()[..] else { panic!("one child") };
    assert_eq!(limit_of(child), (128, hard), "a child has what the program was given");
    assert!(!program.log().contains("open files"), "{}", program.log());
    drop(session);

    let launcher = ["/bin/sh", "-c", "ulimit -n 128 && exec \"$@\"", "sh"];
    let program =
        Setup::new(&["--max-sessions", "100", "--eras", "legacy"]).command(&[HOSTILE]).under(&launcher).start();
    program.wait_for_log("the limit of 128 open files is reached with 12 sessions, of 100 that are allowed");
}

/// How many files a process may have open, and how many it may ask for.
fn limit_of(pid: u32) -> (u64, u64) {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it is there");
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).expect("its limit");
    let number = |at| line.split_whitespace().nth(at).and_then(|field| field.parse().ok()).unwrap_or(u64::MAX);
    (number(0), number(1))
}
