//! As process 1 of a namespace of its own, as in a container.

use std::fs;
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::harness::{HOSTILE, Program, Setup, children_of, processes, send_signal, soon, until, zombies_of};
use crate::session::Session;

const UNSHARE: [&str; 4] = ["unshare", "-fp", "--mount-proc", "--kill-child"];

/// Whether a namespace can be had here. It needs root; where tests decide about changes, it must be there.
#[expect(clippy::print_stdout, reason = "a test that is skipped says why")]
fn is_possible() -> bool {
    let mut command = Command::new(UNSHARE[0]);
    command.args(&UNSHARE[1..]).arg("true").stdin(Stdio::null());
    let why = match command.output() {
        Ok(output) if output.status.success() => return true,
        Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        Err(error) => error.to_string(),
    };
    assert!(std::env::var_os("CI").is_none(), "no namespaces: {why}");
    println!("skipped, since no namespace can be had here: {why}");
    false
}

/// Process 1 of the namespace, by its number out here.
fn process_one(program: &Program) -> u32 {
    let [one] = children_of(program.id())[..] else { panic!("one child") };
    one
}

/// Who is in the namespace, zombies left out.
fn inhabitants(namespace: &std::path::Path) -> usize {
    processes().filter(|pid| fs::read_link(format!("/proc/{pid}/ns/pid")).is_ok_and(|of| of == namespace)).count()
}

#[test]
fn whatever_children_leave_behind_is_reaped() {
    // R199.
    if !is_possible() {
        return;
    }
    // Some end with their group, some by themselves after their parent, out of every group.
    let script = "setsid sleep 0.5 & setsid sh -c 'sleep 0.3 & sleep 0.1' & sleep 0.2 & exec \"$0\" --grandchild";
    let options = ["--stop-grace", "1s", "--kill-grace", "1s"];
    let setup = Setup::new(&options).under(&UNSHARE);
    let mut program = setup.command(&["/bin/sh", "-c", script, HOSTILE]).start();
    let one = process_one(&program);
    let namespace = fs::read_link(format!("/proc/{one}/ns/pid")).expect("it is there");
    for _ in 0..2 {
        let sessions: Vec<_> = (0..10).map(|_| Session::open(&program)).collect();
        for session in &sessions {
            session.echo("served");
            assert_eq!(session.delete(), 204);
        }
    }
    until("process 1, the program and its warden are left", || (inhabitants(&namespace) == 3).then_some(()));
    let [server] = children_of(one)[..] else { panic!("{:?}", children_of(one)) };
    until("no zombie is left", || [one, server].iter().all(|parent| zombies_of(*parent).is_empty()).then_some(()));
    send_signal(one, Signal::TERM);
    assert!(soon("the end", || program.wait()).success());
    until("nobody is left", || (inhabitants(&namespace) == 0).then_some(()));
}

#[test]
fn process_one_ends_as_the_program_does() {
    if !is_possible() {
        return;
    }
    for (signals, code) in [(&[Signal::INT][..], 0), (&[Signal::TERM, Signal::TERM], 1)] {
        let setup = Setup::new(&["--drain-timeout", "10m"]).under(&UNSHARE);
        let mut program = setup.command(&[HOSTILE, "--grandchild", "--ignore-term", "--ignore-eof"]).start();
        let session = Session::open(&program);
        let call = (signals.len() > 1)
            .then(|| session.send("slow", &serde_json::json!({ "steps": 1, "ms": 100_000_000 }), crate::session::SSE));
        session.echo("the call has begun");
        let one = process_one(&program);
        for signal in signals {
            send_signal(one, *signal);
            program.wait_for_log("shutting down");
        }
        assert_eq!(program.wait().code(), Some(code));
        until("nobody is left", || program.tree().is_empty().then_some(()));
        drop(call);
    }
    // And when it is killed, all others are.
    let mut program = Setup::new(&[]).under(&UNSHARE).command(&[HOSTILE, "--grandchild", "--ignore-eof"]).start();
    let _session = Session::open(&program);
    let [server] = children_of(process_one(&program))[..] else { panic!("one child") };
    send_signal(server, Signal::KILL);
    assert_eq!(program.wait().code(), Some(137));
    until("nobody is left", || program.tree().is_empty().then_some(()));
}

#[test]
fn what_is_wrong_with_the_options_is_said_once() {
    if !is_possible() {
        return;
    }
    let mut command = Command::new(UNSHARE[0]);
    command.args(&UNSHARE[1..]).arg(env!("CARGO_BIN_EXE_sessile-under-test")).args(["--idle-timeout", "soon"]);
    let output = command.output().expect("it starts");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&output.stderr).lines().count(), 1);
}
