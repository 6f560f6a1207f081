//! The program from outside: what it prints, how it exits.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod http;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

fn sessile() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sessile"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("SESSILE_") {
            command.env_remove(name);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn output(arguments: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = sessile().args(arguments).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// A running program, killed at the end.
struct Running(Child, String);

impl Running {
    fn start(arguments: &[&str]) -> Self {
        let mut child = sessile().args(["--listen", "127.0.0.1:0"]).args(arguments).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = line.strip_prefix("sessile listening on http://").unwrap_or_else(|| panic!("{line:?}"));
        Self(child, url.trim_end().split('/').next().unwrap().to_owned())
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Posts a message; returns what came back within two seconds.
    fn post(&self, session: Option<&str>, message: &str) -> String {
        self.post_with(&session.map(|id| format!("Mcp-Session-Id: {id}\r\n")).unwrap_or_default(), message)
    }

    /// The same, with these lines in the head.
    fn post_with(&self, lines: &str, message: &str) -> String {
        http::post(&self.1, lines, message)
    }

    fn initialize(&self) -> String {
        let answer = self.post(None, INITIALIZE);
        let id = answer.lines().find_map(|line| line.strip_prefix("mcp-session-id: "));
        id.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn exit(&mut self, within: Duration) -> Option<i32> {
        let start = Instant::now();
        while start.elapsed() < within {
            if let Some(status) = self.0.try_wait().unwrap() {
                return Some(status.code().unwrap_or(-1));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn wrong_options_are_one_line_and_2() {
    for arguments in [
        &["--idle-timeout", "soon"][..],
        &["--idle-timeout", "0"],
        &["--cwd", "/"],
        &["--nonsense"],
        &["--allowed-origin", "nonsense"],
        &["--bearer-tokens", "/nonexistent"],
    ] {
        let (code, stdout, stderr) = output(arguments);
        assert_eq!((code, stdout.as_str(), stderr.lines().count()), (Some(2), "", 1), "{arguments:?}: {stderr}");
        assert!(stderr.starts_with("sessile: "), "{stderr}");
    }
}

#[test]
fn help_and_version_are_0() {
    for option in ["--help", "--version"] {
        let (code, stdout, stderr) = output(&[option]);
        assert_eq!((code, stderr.as_str()), (Some(0), ""), "{option}");
        assert!(stdout.contains("sessile"), "{stdout}");
    }
}

#[test]
fn a_port_in_use_is_one_line_and_1() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, stdout, stderr) = output(&["--listen", &address]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert_eq!(stderr, format!("sessile: can't listen on {address}: the port is in use\n"));
}

#[test]
fn it_listens_on_a_unix_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    let listen = format!("unix:{}", path.display());
    let mut running = Running(sessile().args(["--listen", &listen]).spawn().unwrap(), String::new());
    let mut line = String::new();
    BufReader::new(running.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, format!("sessile listening on http://localhost/mcp over {listen}\n"));
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let length = INITIALIZE.len();
    let head =
        format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}");
    stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n{INITIALIZE}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");

    let (code, _, stderr) = output(&["--listen", &listen]);
    assert_eq!((code, stderr), (Some(1), format!("sessile: can't listen on {listen}: somebody else does\n")));
    running.signal(Signal::TERM);
    assert_eq!(running.exit(Duration::from_secs(20)), Some(0));
    assert!(!path.exists());
}

#[test]
fn a_signal_ends_it_with_0() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut running = Running::start(&[]);
        running.initialize();
        running.signal(signal);
        assert_eq!(running.exit(Duration::from_secs(5)), Some(0));
        let mut stderr = String::new();
        running.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert!(stderr.contains("This is the demo server"), "{stderr}");
    }
}

#[test]
fn children_are_stopped_and_a_second_signal_stops_at_once() {
    // A child that reads for ever and never answers.
    let mut running = Running::start(&["--drain-timeout", "60s", "--", "sh", "-c", "cat >/dev/null"]);
    let mut stream = TcpStream::connect(&running.1).unwrap();
    write!(
        stream,
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{INITIALIZE}",
        INITIALIZE.len(),
    )
    .unwrap();
    std::thread::sleep(Duration::from_millis(300));
    running.signal(Signal::TERM);
    assert_eq!(running.exit(Duration::from_millis(500)), None);
    running.signal(Signal::TERM);
    assert_eq!(running.exit(Duration::from_secs(2)), Some(1));
}

#[test]
fn a_full_stderr_delays_nobody() {
    // R214. Nobody reads the pipe, and every request logs.
    let running = Running::start(&["--log-level", "trace"]);
    let id = running.initialize();
    for number in 0..1_000 {
        let answer = running.post(Some(&id), &format!(r#"{{"jsonrpc":"2.0","id":{number},"method":"ping"}}"#));
        assert!(answer.starts_with("HTTP/1.1 200 "), "{number}: {answer}");
    }
}

/// A file that is gone at the end.
struct Scratch(std::path::PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[test]
fn with_tokens_nobody_gets_in_without_one() {
    // R172, R175, R206.
    let (tokens, started) = (Scratch::new("tokens"), Scratch::new("started"));
    std::fs::write(&tokens.0, "alice t0ken-of-alice\nbob t0ken-of-bob\n").unwrap();
    let script = format!("touch {}; cat >/dev/null", started.path());
    // Nor is one asked which eras it speaks.
    let options = ["--log-level", "trace", "--eras", "legacy", "--bearer-tokens", tokens.path()];
    let arguments = [&options[..], &["--", "sh", "-c", &script]].concat();
    let mut running = Running::start(&arguments);
    for number in 0..20 {
        let line =
            ["", "Authorization: Bearer t0ken-of-nobody\r\n", "Authorization: Basic t0ken-of-alice\r\n"][number % 3];
        let answer = running.post_with(line, INITIALIZE);
        assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
        assert!(answer.contains("www-authenticate: Bearer realm=\"sessile\""), "{answer}");
    }
    assert!(!started.0.exists(), "a child was started");
    let good = "Authorization: Bearer t0ken-of-bob\r\n";
    running.post_with(good, INITIALIZE);
    assert!(started.0.exists(), "no child was started");
    let unknown = format!("{good}Mcp-Session-Id: 0123456789abcdef0123456789abcdef\r\n");
    assert!(running.post_with(&unknown, INITIALIZE).starts_with("HTTP/1.1 404 "));
    running.signal(Signal::TERM);
    running.signal(Signal::TERM);
    running.exit(Duration::from_secs(5));
    let mut log = String::new();
    running.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains("session opened") && !log.contains("t0ken"), "{log}");
}

#[test]
fn an_address_that_others_reach_is_warned_of_unless_there_are_tokens() {
    // R164.
    let tokens = Scratch::new("more-tokens");
    std::fs::write(&tokens.0, "alice t0ken\n").unwrap();
    for (arguments, warned) in [(&[][..], true), (&["--bearer-tokens", tokens.path()], false)] {
        let mut command = sessile();
        let mut child = command.args(["--listen", "0.0.0.0:0"]).args(arguments).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        child.wait().unwrap();
        let mut log = String::new();
        child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert_eq!(log.contains("without authentication"), warned, "{log}");
    }
}
