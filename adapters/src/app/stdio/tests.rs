//! Sessions with real children, all of them shell scripts: `/bin/sh` is what every unix has.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::Body;
use sessile_core::{Fingerprint, FingerprintKey, Message, SessionId};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::config::PASSED;
use super::launch::{Client, Counters};
use super::pump::{Inbox, Outbox};
use super::stdin::Stdin;
use super::stdout::Stdout;
use super::{Stdio, StdioConfig};
use crate::app::{AppError, Tasks};
use crate::runtime::tokio::Tokio;
use crate::runtime::{Read, Write};
use crate::{Builder, Manager};

/// No condition of these tests takes that long, unless it never comes.
pub(super) const LONG: Duration = Duration::from_secs(20);
/// A server that sends back what it gets.
const ECHO: &str = r#"while IFS= read -r line; do printf '%s\n' "$line"; done"#;

pub(super) fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { timeout(LONG * 2, test).await.expect("the test takes too long") });
}

pub(super) fn fingerprint() -> Fingerprint {
    FingerprintKey::from_bytes([1; 16]).fingerprint(&SessionId::from_bytes([2; 16]))
}

pub(super) fn sh(script: &str) -> StdioConfig {
    let mut config = StdioConfig::new("/bin/sh");
    config.args = vec!["-c".into(), script.into()];
    config.stop_grace = Duration::from_millis(200);
    config.kill_grace = Duration::from_millis(200);
    config
}

/// The session's side of the link.
#[derive(Clone, Default)]
pub(super) struct Link(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    inbox: VecDeque<Message>,
    ended: bool,
    sent: Vec<Message>,
    waker: Option<Waker>,
}

impl Link {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic")
    }

    async fn poll<T>(&self, ready: impl Fn(&mut State) -> Option<T>) -> T {
        poll_fn(|cx| {
            let mut state = self.lock();
            state.waker = Some(cx.waker().clone());
            ready(&mut state).map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

impl Link {
    pub(super) fn end(&self) {
        self.change(|state| state.ended = true);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn said(&self) -> Vec<String> {
        self.lock().sent.iter().map(|message| String::from_utf8(message.raw().to_vec()).expect("UTF-8")).collect()
    }
}

impl Inbox for Link {
    async fn recv(&mut self) -> Option<Bytes> {
        let next = |state: &mut State| state.inbox.pop_front().map(|message| Some(message.into_raw()));
        self.poll(|state| if state.ended { Some(None) } else { next(state) }).await
    }

    async fn ended(&mut self) {
        self.poll(|state| state.ended.then_some(())).await;
    }
}

impl Outbox for Link {
    fn send(&mut self, message: Message) {
        self.lock().sent.push(message);
    }

    fn end(&mut self) {
        self.lock().ended = true;
    }
}

/// A session whose client is the test.
struct Session {
    stdio: Arc<Stdio<Tokio>>,
    link: Link,
    run: JoinHandle<Result<(), AppError>>,
}

impl Session {
    fn start(config: StdioConfig) -> Self {
        let stdio = Arc::new(Stdio::new(config, Tokio::current()));
        let link = Link::default();
        let (app, inbox, outbox) = (Arc::clone(&stdio), link.clone(), link.clone());
        Self { stdio, link, run: tokio::spawn(async move { app.serve(fingerprint(), inbox, outbox).await }) }
    }

    fn tell(&self, message: &str) {
        self.link.change(|state| {
            state.inbox.push_back(Message::parse(Bytes::from(message.to_owned())).expect("a message"));
        });
    }

    fn end(&self) {
        self.link.end();
    }

    fn said(&self) -> Vec<String> {
        self.link.said()
    }

    /// What the child has said, once it has said so much.
    async fn heard(&self, count: usize) -> Vec<String> {
        until(|| self.said().len() >= count).await;
        self.said()
    }

    /// The first note of the child, which has the id of a process in it.
    async fn pid(&self) -> i32 {
        let said = self.heard(1).await;
        let digits: String =
            said[0].split("pid:").nth(1).expect("a pid").chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    }

    /// How it ended. It must have left no child.
    async fn result(self) -> Result<(), AppError> {
        let result = timeout(LONG, self.run).await.expect("it ends").expect("no panic");
        assert_eq!(self.stdio.stats().children, 0);
        result
    }
}

pub(super) async fn until(condition: impl Fn() -> bool) {
    let wait = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LONG, wait).await.expect("the condition comes true");
}

/// Whether a process runs no more. It may be a zombie of somebody who does not reap.
fn is_gone(pid: i32) -> bool {
    let pid = rustix::process::Pid::from_raw(pid).expect("not zero");
    let zombie = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z"))
    };
    rustix::process::test_kill_process(pid).is_err() || zombie()
}

fn note(text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"note","params":{{"text":"{text}"}}}}"#)
}

/// A line of a script that says a note.
fn say(text: &str) -> String {
    format!("printf '%s\\n' \"{}\"; ", note(text).replace('"', "\\\""))
}

fn exited(result: Result<(), AppError>) -> String {
    match result {
        Err(AppError::Exited(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_pass_both_ways_one_a_line() {
    // R228: nobody else says a word to a child, so that no silence of its can be misread.
    block_on(async {
        let session = Session::start(sh(ECHO));
        session.tell("{\"jsonrpc\":\"2.0\",\r\n \"method\":\"a\"}");
        session.tell(r#"{"jsonrpc":"2.0","id":"1","result":{"n":1.50}}"#);
        assert_eq!(
            session.heard(2).await,
            ["{\"jsonrpc\":\"2.0\",   \"method\":\"a\"}", r#"{"jsonrpc":"2.0","id":"1","result":{"n":1.50}}"#]
        );
        session.end();
        session.result().await.expect("the child reads the end of its input");
    });
}

#[test]
fn large_messages_arrive_whole() {
    // R215.
    block_on(async {
        let session = Session::start(sh("exec cat"));
        let large = note(&"é\\n".repeat(2 << 20));
        session.tell(&large);
        session.tell(&note("small"));
        let said = session.heard(2).await;
        assert!(said[0] == large, "{} bytes", said[0].len());
        assert_eq!(said[1], note("small"));
        session.end();
        session.result().await.expect("ended");
    });
}

#[test]
fn noise_is_skipped_and_counted() {
    // R209, R210, R211, R217, R219.
    let noise = [
        &format!("printf '\\357\\273\\277'; {}", say("first")),
        "echo 'Server v1.0 starting…'; echo; printf '   \\t\\r\\n'; ",
        r#"echo '{"jsonrpc":"2.0","id":'; echo '{"level":"info"}'; echo '"text"'; echo '[]'; printf '\377\376\n'; "#,
        &format!("printf '%s\\r\\n' '{}'; ", note("crlf")),
        &format!("printf '%s\\n' '[{}, {{}} ,\t{}]'; ", note("batch 1"), note("batch 2")),
        // A code point that is torn apart.
        r#"printf '{"jsonrpc":"2.0","method":"\303'; sleep 0.05; printf '\251"}\n'; "#,
        // And one that is none: somebody may wait for this response.
        r#"printf '{"jsonrpc":"2.0","id":7,"result":{"a":"\351"}}\n'; "#,
        ECHO,
    ];
    block_on(async {
        let session = Session::start(sh(&noise.concat()));
        session.tell(&note("echo"));
        let expected = [
            &note("first"),
            &note("crlf"),
            &note("batch 1"),
            &note("batch 2"),
            "{\"jsonrpc\":\"2.0\",\"method\":\"é\"}",
            "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":\"\u{fffd}\"}}",
            &note("echo"),
        ];
        assert_eq!(session.heard(7).await, expected);
        assert_eq!(session.stdio.stats().skipped_lines, 7);
        session.end();
        session.result().await.expect("ended");
    });
}

#[test]
fn a_malformed_request_of_the_child_is_answered() {
    // R219.
    block_on(async {
        let script = r#"echo '{"jsonrpc":"2.0","id":"x","method":"roots/list","params":[]}'; exec cat"#;
        let session = Session::start(sh(script));
        let answer = &session.heard(1).await[0];
        assert!(answer.starts_with(r#"{"jsonrpc":"2.0","id":"x","error":{"code":-32600,"#), "{answer}");
        session.end();
        session.result().await.expect("ended");
    });
}

#[test]
fn a_child_sees_the_environment_and_directory_that_it_was_given() {
    block_on(async {
        let mut config = sh(&(say("$(env | cut -d= -f1 | tr '\\n' ' ')|${PATH:+path}|$LANG|$PWD") + ECHO));
        config.cwd = Some("/".into());
        config.env = vec![("LANG".into(), "of the test".into()), ("KEY".into(), "a=b c".into())];
        let session = Session::start(config);
        let said = &session.heard(1).await[0];
        assert!(said.ends_with("|path|of the test|/\"}}"), "{said}");
        let names = said.split(['"', '|']).find(|part| part.contains("PATH ")).expect("names of variables");
        // What a shell sets by itself is not ours.
        let ours = ["KEY", "OLDPWD", "PWD", "SHLVL", "_"];
        let all: Vec<_> = PASSED.into_iter().chain(ours).collect();
        assert!(names.split_whitespace().all(|name| all.contains(&name)), "{names}");
        session.end();
        session.result().await.expect("ended");
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_inherits_none_of_our_files() {
    let file =
        std::fs::File::open(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")).expect("it exists");
    block_on(async {
        let other = Session::start(sh("exec cat"));
        let session = Session::start(sh(&(say("$(readlink /proc/$$/fd/* | tr '\\n' ' ')") + ECHO)));
        let said = &session.heard(1).await[0];
        assert!(said.contains("pipe:") && !said.contains("Cargo.toml") && !said.contains("pidfd"), "{said}");
        for session in [session, other] {
            session.end();
            session.result().await.expect("ended");
        }
    });
    drop(file);
}

#[test]
fn what_cannot_be_started_is_told_at_once_and_leaves_nothing() {
    // R195.
    let mut no_directory = sh("true");
    no_directory.cwd = Some("/no/such/directory".into());
    let mut bad_value = sh("true");
    bad_value.env = vec![("A".into(), "nul\0".into())];
    block_on(async {
        for (config, word) in [
            (StdioConfig::new("/no/such/program"), "/no/such/program"),
            (StdioConfig::new("no-such-program-anywhere"), "no-such-program-anywhere"),
            (StdioConfig::new("/dev/null"), "denied"),
            (no_directory, "/no/such/directory"),
            (bad_value, "nul"),
        ] {
            match Session::start(config).result().await {
                Err(AppError::Start(error)) => assert!(error.to_string().contains(word), "{error}"),
                other => panic!("{other:?}"),
            }
        }
    });
}

#[test]
fn the_exit_says_how_it_was_and_loses_no_message() {
    // R195: no timer is on the way.
    block_on(async {
        for (script, expected) in [
            ("exit 0", None),
            ("exit 3", Some("exit status 3")),
            ("kill -KILL $$", Some("signal 9")),
            ("exec 1>&-; exit 4", Some("exit status 4")),
        ] {
            let mut config = sh(&(say("1") + &say("2") + "printf '%s' '" + &note("last") + "'; " + script));
            config.stop_grace = LONG;
            let session = Session::start(config);
            let link = session.link.clone();
            let result = timeout(LONG / 2, session.result()).await.expect("prompt");
            match expected {
                None => result.expect("success"),
                Some(why) => assert_eq!(exited(result), why, "{script}"),
            }
            assert_eq!(link.lock().sent.len(), 3, "{script}");
        }
    });
}

/// A pipe of which the reactor has not heard yet, whose other end is still open.
struct Unheard(VecDeque<&'static [u8]>);

impl Read for Unheard {
    fn poll_read(&mut self, _: &mut Context<'_>, _: &mut Vec<u8>, _: usize) -> Poll<io::Result<usize>> {
        Poll::Pending
    }

    fn try_read(&mut self, buffer: &mut Vec<u8>, _: usize) -> io::Result<usize> {
        let bytes = self.0.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        buffer.extend_from_slice(bytes);
        Ok(bytes.len())
    }
}

impl Write for Unheard {
    fn poll_write(&mut self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Pending
    }
}

#[test]
fn what_is_still_in_the_pipe_at_the_exit_is_read() {
    block_on(async {
        let link = Link::default();
        let pipe = Unheard(
            [&b"{\"jsonrpc\":\"2.0\",\"met"[..], b"hod\":\"a\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"b\"}"].into(),
        );
        let mut stdout = Stdout::new(pipe, 1_000, Client::Session(fingerprint()), link.clone(), Arc::default());
        stdout.finish(&Tokio::current(), &mut Stdin::new(Unheard(VecDeque::new())), 1_000);
        let methods: Vec<_> = link.lock().sent.iter().map(|message| message.method().map(str::to_owned)).collect();
        assert_eq!(methods, [Some("a".to_owned()), Some("b".to_owned())]);

        // Somebody who has left the group may go on writing for ever.
        let mut stdout = Stdout::new(
            Unheard([&b"0123456789"[..]; 50].into()),
            1_000,
            Client::Session(fingerprint()),
            link,
            Arc::default(),
        );
        stdout.finish(&Tokio::current(), &mut Stdin::new(Unheard(VecDeque::new())), 100);
        assert_eq!(stdout.skipped(), 1);
    });
}

#[test]
fn grandchildren_end_with_the_leader() {
    // R191, R192: they hold the pipes, which must hold nobody up.
    block_on(async {
        for end in ["exit 5", "wait"] {
            let script = format!("sleep 1000 & {}{end}", say("pid:$!"));
            let session = Session::start(sh(&script));
            let grandchild = session.pid().await;
            if end == "wait" {
                assert!(!is_gone(grandchild));
                session.end();
                session.result().await.expect("ended");
            } else {
                assert_eq!(exited(session.result().await), "exit status 5");
            }
            until(|| is_gone(grandchild)).await;
        }
    });
}

#[test]
fn a_child_that_ignores_its_end_is_killed() {
    // R191, R197.
    block_on(async {
        let script = "trap '' TERM; sleep 1000 & ".to_owned() + &say("pid:$!") + "while :; do wait; sleep 1000; done";
        let session = Session::start(sh(&script));
        let grandchild = session.pid().await;
        let since = Instant::now();
        session.end();
        session.result().await.expect("ended");
        assert!(since.elapsed() >= Duration::from_millis(400), "both graces are given");
        until(|| is_gone(grandchild)).await;
    });
}

#[test]
fn a_child_that_does_not_read_is_heard_and_stopped() {
    // R204.
    block_on(async {
        let session = Session::start(sh(&format!("while :; do {} sleep 0.01; done", say("tick"))));
        let large = note(&"x".repeat(200_000));
        for _ in 0..3 {
            session.tell(&large);
        }
        let link = session.link.clone();
        let waiting = || link.lock().inbox.len();
        until(|| waiting() < 3).await;
        let before = session.said().len();
        session.heard(before + 3).await;
        assert_eq!(waiting(), 2, "the others wait in the inbox");
        session.end();
        session.result().await.expect("ended");
    });
}

#[test]
fn standard_error_is_drained_whatever_comes() {
    // R212, R213.
    for shape in ["tr '\\0' x", "tr '\\0' '\\n'", "sed 's/$/\\n/' | tr '\\0' '\\377'"] {
        block_on(async {
            let flood = format!("head -c 1048576 /dev/zero | {shape} >&2");
            let session =
                Session::start(sh(&format!("while IFS= read -r line; do {flood}; printf '%s\\n' \"$line\"; done")));
            for count in 1..=3 {
                session.tell(&note("x"));
                session.heard(count).await;
            }
            session.end();
            session.result().await.expect("ended");
        });
    }
}

#[test]
fn a_child_that_cannot_be_talked_to_ends_its_session() {
    // R215 for the line. Each of them would go on for ever.
    let forever = "exec sleep 1000";
    block_on(async {
        let mut config = sh(&(say(&"x".repeat(2_000)) + forever));
        config.max_line = 1_000;
        match Session::start(config).result().await {
            Err(AppError::Other(error)) => assert_eq!(error.to_string(), "a line of more than 1000 bytes"),
            other => panic!("{other:?}"),
        }

        let session = Session::start(sh(&format!("exec 1>&-; {forever}")));
        assert_eq!(exited(session.result().await), "standard output closed");

        let session = Session::start(sh(&format!("exec 0<&-; {}{forever}", say("closed"))));
        session.heard(1).await;
        session.tell(&note("x"));
        let why = exited(session.result().await);
        assert!(why.starts_with("standard input closed"), "{why}");
    });
}

#[test]
fn nobody_waits_for_the_end_of_a_child_that_says_nothing_more() {
    block_on(async {
        for script in ["exec 1>&-; exec sleep 1000".to_owned(), say(&"x".repeat(2_000)) + "exec sleep 1000"] {
            let mut config = sh(&script);
            config.max_line = 1_000;
            config.stop_grace = LONG * 10;
            let session = Session::start(config);
            until(|| session.link.lock().ended).await;
            assert_eq!(session.stdio.stats().children, 1, "the child has its time");
            session.run.abort();
            until(|| session.stdio.stats().children == 0).await;
        }
    });
}

#[test]
fn a_dropped_run_kills_and_reaps() {
    // R197, R199.
    let script = "trap '' TERM; sleep 1000 & ".to_owned() + &say("pid:$!") + "while :; do wait; sleep 1000; done";
    block_on(async {
        let session = Session::start(sh(&script));
        let grandchild = session.pid().await;
        assert_eq!(session.stdio.stats().children, 1);
        session.run.abort();
        until(|| is_gone(grandchild)).await;
        until(|| session.stdio.stats().children == 0).await;
    });
    // The same when the whole runtime goes.
    let grandchild = Mutex::new(0);
    block_on(async {
        let session = Session::start(sh(&script));
        *grandchild.lock().expect("no panic") = session.pid().await;
    });
    let grandchild = *grandchild.lock().expect("no panic");
    block_on(until(|| is_gone(grandchild)));
}

/// Writes down what it is told, and what there was to be seen of the child then.
#[derive(Default)]
struct Diary(Mutex<Vec<(&'static str, u32, bool)>>);

impl Diary {
    fn note(&self, what: &'static str, group: u32) {
        // A zombie has a number, so that nobody else can have it.
        let pid = rustix::process::Pid::from_raw(group.try_into().expect("a number")).expect("not zero");
        let there = rustix::process::test_kill_process(pid).is_ok();
        self.0.lock().expect("no panic").push((what, group, there));
    }
}

impl super::GroupWatcher for Diary {
    fn born(&self, group: u32) {
        self.note("born", group);
    }

    fn gone(&self, group: u32) {
        self.note("gone", group);
    }
}

#[test]
fn a_watcher_is_told_of_each_birth_and_of_each_end_before_the_reaping() {
    // R198.
    let stubborn = format!("trap '' TERM; {}while :; do sleep 1000; done", say("pid:$$"));
    for (script, how) in [
        (format!("{}exit 3", say("pid:$$")), "by itself"),
        (format!("{}cat >/dev/null", say("pid:$$")), "ended"),
        (stubborn.clone(), "ended"),
        (stubborn, "aborted"),
    ] {
        let diary = Arc::new(Diary::default());
        let pid = Mutex::new(0);
        block_on(async {
            let mut config = sh(&script);
            config.watcher = Some(Arc::clone(&diary) as _);
            let session = Session::start(config);
            *pid.lock().expect("no panic") = session.pid().await;
            match how {
                "aborted" => {
                    session.run.abort();
                    until(|| session.stdio.stats().children == 0).await;
                }
                "ended" => {
                    session.end();
                    session.result().await.expect("ended");
                }
                _ => drop(session.result().await),
            }
        });
        let pid = u32::try_from(*pid.lock().expect("no panic")).expect("a number");
        let told = diary.0.lock().expect("no panic").clone();
        assert_eq!(told, [("born", pid, true), ("gone", pid, true)], "{how}");
    }
}

#[test]
fn a_watcher_is_not_told_of_what_never_was() {
    block_on(async {
        let diary = Arc::new(Diary::default());
        let mut config = StdioConfig::new("/nonexistent");
        config.watcher = Some(Arc::clone(&diary) as _);
        Session::start(config).result().await.expect_err("there is no such program");
        assert!(diary.0.lock().expect("no panic").is_empty());
    });
}

/// Behind a manager: the same child is one session's server from `initialize` to DELETE.
#[test]
fn a_session_over_http_is_a_child() {
    // R191, R195.
    let serve = |config: StdioConfig| {
        let stdio = Stdio::new(config, Tokio::current());
        let counters = Arc::clone(&stdio.inner.launcher.counters);
        let manager = Builder::new(Tokio::current()).app(stdio).build().expect("a good configuration");
        manager.start().expect("the first time");
        (manager, counters)
    };
    let children = |counters: &Counters| counters.children.load(Ordering::Relaxed);
    let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
    let script = r#"
        read -r line
        echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"sh","version":"1"}}}'
        while read -r line; do case "$line" in
            *'"ping"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"pong":true}}';;
            *'"die"'*) exit 3;;
        esac; done"#;
    block_on(async {
        let (manager, counters) = serve(sh(script));
        for end in ["DELETE", "die", "shutdown"] {
            let (status, id, body) = exchange(&manager, "POST", None, initialize).await;
            assert!(status == 200 && body.contains("\"name\":\"sh\""), "{status} {body}");
            assert!(id.is_some());
            let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
            let (status, _, body) = exchange(&manager, "POST", id.as_deref(), ping).await;
            assert!(status == 200 && body.contains("pong"), "{status} {body}");
            assert_eq!(children(&counters), 1);
            match end {
                "DELETE" => assert_eq!(exchange(&manager, "DELETE", id.as_deref(), "").await.0, 204),
                "die" => {
                    let die = r#"{"jsonrpc":"2.0","id":2,"method":"die"}"#;
                    let (_, _, body) = exchange(&manager, "POST", id.as_deref(), die).await;
                    assert!(body.contains("\"error\"") && body.contains("\"id\":2"), "{body}");
                    assert_eq!(exchange(&manager, "POST", id.as_deref(), ping).await.0, 404);
                }
                _ => {
                    manager.shutdown(Duration::ZERO, LONG).await.expect("running");
                    assert_eq!(children(&counters), 0, "a shutdown waits for the children");
                }
            }
            until(|| children(&counters) == 0).await;
        }

        for broken in [StdioConfig::new("/no/such/program"), sh("echo broken >&2; exit 1")] {
            let (manager, counters) = serve(broken);
            let (status, id, body) = exchange(&manager, "POST", None, initialize).await;
            assert!(status == 500 && id.is_none() && body.contains("\"id\":0"), "{status} {id:?} {body}");
            until(|| manager.sessions() == 0 && children(&counters) == 0).await;
        }
    });
}

/// The id of a cancelled request is free at once (R068); the child may answer it all the same.
#[test]
fn an_answer_to_what_was_cancelled_is_not_that_of_the_next_request_with_its_id() {
    let script = r#"
        answer() { printf '{"jsonrpc":"2.0","id":%s,"result":{"said":"%s"}}\n' "$1" "$2"; }
        while IFS= read -r line; do
            id=${line#*\"id\":}; id=${id%%[,\}]*}
            case "$line" in
                *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25"}}\n' "$id";;
                *'"first"'*) first=$id;;
                *'"second"'*) answer "$first" late; answer "$id" second;;
            esac
        done"#;
    block_on(async {
        let stdio = Stdio::new(sh(script), Tokio::current());
        let manager = Builder::new(Tokio::current()).app(stdio.clone()).build().expect("a good configuration");
        manager.start().expect("the first time");
        let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;
        let (_, id, _) = exchange(&manager, "POST", None, initialize).await;
        let post = |body| exchange(&manager, "POST", id.as_deref(), body);
        let then = async {
            until(|| manager.stats().requests_in_flight == 1).await;
            let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
            assert_eq!(post(cancel).await.0, 202);
            post(r#"{"jsonrpc":"2.0","id":1,"method":"second"}"#).await
        };
        let (first, second) = tokio::join!(post(r#"{"jsonrpc":"2.0","id":1,"method":"first"}"#), then);
        assert_eq!((first.0, second.0), (202, 200));
        assert!(second.2.contains(r#""id":1,"result":{"said":"second"}"#), "{}", second.2);
        assert_eq!(stdio.stats().responses_unmatched, 1);
        manager.shutdown(Duration::ZERO, LONG).await.expect("running");
    });
}

async fn exchange(
    manager: &Manager<Tokio, Tasks<Stdio<Tokio>>>,
    method: &str,
    session: Option<&str>,
    body: &str,
) -> (u16, Option<String>, String) {
    let mut request = http::Request::builder()
        .method(method)
        .uri("/mcp")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    if let Some(session) = session {
        request = request.header("mcp-session-id", session).header("mcp-protocol-version", "2025-11-25");
    }
    let request = request.body(body.to_owned()).expect("a request");
    let response = manager.service().expect("running").handle(request).await;
    let Ok(response) = response;
    let (parts, body) = response.into_parts();
    let mut body = pin!(body);
    let mut text = Vec::new();
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        let Ok(frame) = frame;
        text.extend(frame.into_data().unwrap_or_default());
    }
    let id = parts.headers.get("mcp-session-id").map(|id| id.to_str().expect("ASCII").to_owned());
    (parts.status.as_u16(), id, String::from_utf8(text).expect("UTF-8"))
}
