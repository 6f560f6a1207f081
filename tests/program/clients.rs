//! Clients that leave, or stop reading: nobody else notices.

use std::thread;

use serde_json::json;

use crate::harness::{Program, SOON, Setup, soon, until, within};
use crate::http::{Connection, Request};
use crate::session::{ANY, JSON, SSE, Session};

#[test]
fn clients_that_leave_in_a_call_harm_nobody() {
    // R076, R077.
    let mut program = Program::hostile(&[], &[]);
    let (leaving, staying) = (Session::open(&program), Session::open(&program));
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..100 {
                let accept = [JSON, SSE, ANY][round % 3];
                let connection = leaving.send("slow", &json!({ "steps": 2, "ms": 5 }), accept);
                if round % 2 == 0 {
                    connection.reset();
                } else {
                    drop(connection);
                }
            }
        });
        for round in 0..100 {
            staying.echo(&round.to_string());
        }
    });
    leaving.echo("the session of those who left");
    assert!(program.is_running());
    assert_eq!(program.tree().len(), 2);
    let log = program.log();
    assert!(!log.contains("ERROR") && !log.contains("panic"), "{log}");
}

#[test]
fn a_client_that_leaves_does_not_end_its_call() {
    // R079: a disconnect is no cancellation. R130: what is said comes when it is said, long before the end.
    let program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    let mut call = session.start("slow", &json!({ "steps": 5, "ms": 100 }), SSE);
    assert_eq!(call.message().expect("progress")["params"]["progress"], 1);
    call.reset();
    let again = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(session.post(&again, JSON).status, 400, "it is in flight");
    until("the call ends", || (session.post(&again, JSON).status == 200).then_some(()));
}

#[test]
fn a_flood_that_nobody_reads_delays_nobody_and_has_bounds() {
    // R019, R020.
    let program = Program::hostile(&["--keep-alive", "200ms"], &[]);
    let (stalled, other) = (Session::open(&program), Session::open(&program));
    other.echo("there");
    let before = program.memory();
    // On the stream of a call, and on the standalone stream.
    let flood = json!({ "count": 100_000, "list_changed": true });
    let unread = [stalled.send("push", &flood, SSE), stalled.send("push", &flood, SSE)];
    let mut listening = Connection::open(program.address);
    listening.send(&stalled.request(Request::get()));
    let line = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": { "x": "x".repeat(100_000) } });
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                within(SOON, "another session", || other.echo("not concerned"));
            }
        });
        for _ in 0..200 {
            assert_eq!(stalled.call("raw", &json!({ "line": line.to_string() })), "");
        }
    });
    within(SOON, "another stream of the session", || stalled.echo("after the flood"));
    let after = program.memory();
    assert!(after < before + 32, "{before} MiB before, {after} MiB after");
    drop((unread, listening));
    stalled.echo("still there");
}

#[test]
fn answers_that_nobody_reads_delay_nobody() {
    let program = Program::hostile(&[], &[]);
    let (stalled, other) = (Session::open(&program), Session::open(&program));
    let unread: Vec<_> =
        [JSON, SSE, ANY].iter().map(|accept| stalled.send("big", &json!({ "bytes": 4 << 20 }), accept)).collect();
    within(SOON * 2, "another stream of the session", || stalled.echo("after them"));
    soon("another session", || other.echo("not concerned"));
    // Stalled is not gone: what was not read is still whole.
    for connection in unread {
        let response = connection.answer().response();
        assert_eq!(response["result"]["content"][0]["text"].as_str().map(str::len), Some(4 << 20));
    }
    assert_eq!(soon("DELETE", || stalled.delete()), 204);
}

#[test]
fn many_silent_connections_hinder_nobody() {
    let program = Program::hostile(&[], &[]);
    let session = Session::open(&program);
    let before = program.descriptors();
    let mut silent: Vec<_> = (0..200).map(|_| Connection::open(program.address)).collect();
    for connection in &mut silent {
        connection.write(b"POST /mcp HT");
    }
    soon("a session", || session.echo("not concerned"));
    soon("a new session", || Session::open(&program)).echo("neither");
    drop(silent);
    until("they are forgotten", || (program.descriptors() <= before + 8).then_some(()));
}

#[test]
fn streams_that_are_reset_are_forgotten() {
    // R011.
    let program = Program::hostile(&["--keep-alive", "200ms"], &[]);
    let session = Session::open(&program);
    let before = program.descriptors();
    for round in 0..200 {
        let stream = session.listen();
        if round % 2 == 0 {
            stream.reset();
        }
    }
    until("they are forgotten", || (program.descriptors() <= before).then_some(()));
    session.echo("goes on");
}

#[test]
fn open_streams_cost_bytes_and_no_threads() {
    // R014.
    let program = Setup::new(&[]).start();
    let streams = |count: usize| -> Vec<_> { (0..count).map(|_| Session::open(&program).listen()).collect() };
    let few = streams(20);
    let (memory, threads) = (program.memory(), program.threads());
    let many = streams(400);
    assert_eq!(program.threads(), threads);
    let grown = program.memory() - memory;
    assert!(grown * 1024 / 400 < 50, "{grown} MiB for 400 streams");
    drop((few, many));
}
