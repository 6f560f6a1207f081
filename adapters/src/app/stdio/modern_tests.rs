//! Modern requests on shared children, and the question which eras a command speaks. Real children are shell scripts.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use sessile_core::{Eras, Message, ProtocolVersion};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::calls::Deliver;
use super::pump::{Inbox, Outbox};
use super::shared::{Closed, Shared, SharedInbox, SharedOutbox, Ticket};
use super::tests::{LONG, Link, block_on, fingerprint, sh, until};
use super::{Stdio, StdioConfig};
use crate::app::{App, AppError};
use crate::principal::Principal;
use crate::runtime::Runtime;
use crate::runtime::tokio::Tokio;

/// A modern server in a shell. `$id` is the number of the request that it looks at.
const SERVER: &str = r#"
    result() { printf '{"jsonrpc":"2.0","id":%s,"result":{"pid":%s,"seen":%s}}\n' "$id" $$ "${seen:-null}"; }
    while IFS= read -r line; do
        id=${line#*\"id\":}; id=${id%%[,\}]*}
        case "$line" in
            *server/discover*) printf '{"jsonrpc":"2.0","id":%s,"result":{"supportedVersions":["2026-07-28"]}}\n' "$id";;
            *notifications/cancelled*) seen=$line;;
            *'"seen"'*) result;;
            *'"ask"'*) echo '{"jsonrpc":"2.0","id":"q","method":"roots/list"}'; IFS= read -r seen; result;;
            *'"exit"'*) exit 3;;
            *'"never"'*) ;;
            *) result;;
        esac
    done"#;

fn parse(text: &str) -> Message {
    Message::parse(Bytes::from(text.to_owned())).expect("a message")
}

fn call(id: &str, method: &str) -> Message {
    parse(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{}}}}}}"#))
}

/// The client of one modern request.
struct Client {
    link: Link,
    run: JoinHandle<Result<(), AppError>>,
}

impl Client {
    fn start(stdio: &Stdio<Tokio>, principal: &str, message: Message) -> Self {
        let link = Link::default();
        let (stdio, client, outbox) = (stdio.clone(), link.clone(), Mutex::new(link.clone()));
        let principal = if principal.is_empty() { Principal::ANONYMOUS } else { Principal::named(principal) };
        let deliver: Deliver = Arc::new(move |message| outbox.lock().expect("no panic").send(message));
        let run = async move { stdio.serve_modern(&principal, &message, deliver, client).await };
        Self { link, run: tokio::spawn(run) }
    }

    /// How it ended, and the last thing that it heard.
    async fn end(self) -> (Result<(), AppError>, Value) {
        let result = timeout(LONG, self.run).await.expect("it ends").expect("no panic");
        let said = self.link.said();
        (result, said.last().map_or(Value::Null, |said| serde_json::from_str(said).expect("JSON")))
    }

    async fn answer(self) -> Value {
        let (result, answer) = self.end().await;
        result.expect("answered");
        answer
    }

    async fn error(self) -> AppError {
        let (result, answer) = self.end().await;
        assert_eq!(answer, Value::Null);
        result.expect_err("failed")
    }

    fn leave(&self) {
        self.link.end();
    }
}

fn stdio(script: &str) -> Stdio<Tokio> {
    Stdio::new(sh(script), Tokio::current())
}

async fn gone(stdio: &Stdio<Tokio>) {
    until(|| stdio.stats().children == 0).await;
}

#[test]
fn requests_of_one_principal_share_a_child_and_others_have_their_own() {
    // R262.
    block_on(async {
        let stdio = stdio(SERVER);
        let mut pids = Vec::new();
        for (principal, id) in [("", "1"), ("a", r#""\u0031""#), ("b", "1"), ("a", "1"), ("", r#""1""#), ("b", "-7")] {
            let answer = Client::start(&stdio, principal, call(id, "x")).answer().await;
            assert_eq!(answer["id"], serde_json::from_str::<Value>(id).expect("JSON"));
            pids.push(answer["result"]["pid"].as_u64().expect("a number"));
        }
        assert_eq!((pids[0], pids[1], pids[2]), (pids[4], pids[3], pids[5]));
        assert!(pids[0] != pids[1] && pids[1] != pids[2] && pids[0] != pids[2]);
        assert_eq!(stdio.stats().children, 3);
        let open = Client::start(&stdio, "a", call("1", "never"));
        Client::start(&stdio, "a", call("2", "x")).answer().await;
        stdio.shutdown().await;
        assert_eq!(stdio.stats().children, 0);
        assert!(matches!(open.error().await, AppError::Exited(why) if why == "it was stopped"));
        assert!(matches!(Client::start(&stdio, "a", call("1", "x")).error().await, AppError::Other(_)));
    });
}

#[test]
fn a_child_without_requests_ends_and_one_with_a_request_does_not() {
    // R263.
    block_on(async {
        let mut config = sh(SERVER);
        config.modern_idle = Duration::from_millis(50);
        let stdio = Stdio::new(config, Tokio::current());
        let first = Client::start(&stdio, "", call("1", "x")).answer().await;
        gone(&stdio).await;
        let open = Client::start(&stdio, "", call("1", "never"));
        let second = Client::start(&stdio, "", call("1", "x")).answer().await;
        assert_ne!(first["result"]["pid"], second["result"]["pid"]);
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(stdio.stats().children, 1);
        open.leave();
        assert_eq!(open.answer().await, Value::Null);
        gone(&stdio).await;
        // So does the last one when nobody is left.
        let config = sh(SERVER);
        let stdio = Stdio::new(config, Tokio::current());
        Client::start(&stdio, "", call("1", "x")).answer().await;
        let counters = Arc::clone(&stdio.inner.launcher.counters);
        drop(stdio);
        until(|| counters.children.load(std::sync::atomic::Ordering::Relaxed) == 0).await;
    });
}

#[test]
fn a_client_that_goes_cancels_its_request() {
    block_on(async {
        let stdio = stdio(SERVER);
        let open = Client::start(&stdio, "", call("\"s\"", "never"));
        // Whoever comes later is written later.
        Client::start(&stdio, "", call("1", "x")).answer().await;
        open.leave();
        assert_eq!(open.answer().await, Value::Null);
        let seen = Client::start(&stdio, "", call("1", "seen")).answer().await;
        assert_eq!(
            seen["result"]["seen"],
            json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}})
        );
    });
}

#[test]
fn a_child_may_ask_nothing() {
    block_on(async {
        let stdio = stdio(SERVER);
        let answer = Client::start(&stdio, "", call("1", "ask")).answer().await;
        assert_eq!(
            (&answer["result"]["seen"]["id"], &answer["result"]["seen"]["error"]["code"]),
            (&json!("q"), &json!(-32601))
        );
        assert_eq!(stdio.stats().requests_refused, 1);
    });
}

#[test]
fn a_child_that_ends_takes_its_requests_with_it_and_no_others() {
    block_on(async {
        let stdio = stdio(SERVER);
        let other = Client::start(&stdio, "other", call("1", "x")).answer().await;
        let pid = Client::start(&stdio, "", call("1", "x")).answer().await["result"]["pid"].clone();
        let open: Vec<_> = (0..5).map(|id| Client::start(&stdio, "", call(&id.to_string(), "never"))).collect();
        let exits = Client::start(&stdio, "", call("9", "exit"));
        for client in open.into_iter().chain([exits]) {
            assert!(matches!(client.error().await, AppError::Exited(why) if why == "exit status 3"));
        }
        let again = Client::start(&stdio, "", call("1", "x")).answer().await;
        assert_ne!(again["result"]["pid"], pid);
        let still = Client::start(&stdio, "other", call("1", "x")).answer().await;
        assert_eq!(other["result"]["pid"], still["result"]["pid"]);
    });
}

#[test]
fn a_command_that_keeps_failing_is_left_alone() {
    block_on(async {
        for config in [sh("exit 1"), sh("exit 0"), StdioConfig::new("/no/such/program"), sh("exec 1>&-; read -r line")]
        {
            let stdio = Stdio::new(config, Tokio::current());
            for round in 0..5 {
                let error = Client::start(&stdio, "a", call("1", "x")).error().await;
                let refused = matches!(&error, AppError::Start(why) if why.to_string().contains("3 failures in a row"));
                assert_eq!(refused, round >= 3, "{round}: {error}");
            }
            // Others may have more luck.
            let error = Client::start(&stdio, "b", call("1", "x")).error().await;
            assert!(!error.to_string().contains("in a row"), "{error}");
            gone(&stdio).await;
        }
        // One that answers works, however often it ends.
        let stdio = stdio(&format!("read -r line; printf '%s\\n' '{}'", r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        for _ in 0..5 {
            Client::start(&stdio, "", call("1", "x")).answer().await;
            gone(&stdio).await;
        }
    });
}

#[test]
fn there_are_at_most_so_many_children() {
    // R262, R278.
    block_on(async {
        let mut config = sh(SERVER);
        config.modern_children = 2;
        let stdio = Stdio::new(config, Tokio::current());
        let first = Client::start(&stdio, "a", call("1", "x")).answer().await;
        let open = Client::start(&stdio, "b", call("1", "never"));
        Client::start(&stdio, "b", call("2", "x")).answer().await;
        // The idle one gives way.
        let third = Client::start(&stdio, "c", call("1", "never"));
        Client::start(&stdio, "c", call("2", "x")).answer().await;
        until(|| stdio.stats().children == 2).await;
        assert!(matches!(Client::start(&stdio, "a", call("1", "x")).error().await, AppError::Other(_)));
        third.leave();
        third.answer().await;
        let again = Client::start(&stdio, "a", call("1", "x")).answer().await;
        assert_ne!(first["result"]["pid"], again["result"]["pid"]);
        open.leave();
        open.answer().await;
    });
}

#[test]
fn a_command_is_asked_once_which_eras_it_speaks() {
    // R213: of a child that serves nobody.
    let say = |rest: &str| {
        format!(r#"read -r line; printf '%s\n' '{{"jsonrpc":"2.0","id":"sessile-probe",{rest}}}'; exec cat >&2"#)
    };
    let lists = r#""result":{"supportedVersions":["2026-07-28"],"capabilities":{}}"#;
    let mut table = vec![
        (sh(&say(lists)), Eras::BOTH),
        (sh(&say(r#""error":{"code":-32022,"message":"x","data":{"supported":["2026-07-28"]}}"#)), Eras::BOTH),
        (sh(&format!("echo 'Listening…'; echo; echo '{{'; {}", say(lists))), Eras::BOTH),
        (sh(&format!("trap '' TERM; {}; sleep 1000", say(lists))), Eras::BOTH),
        (sh(&say(r#""error":{"code":-32601,"message":"x"}"#)), Eras::LEGACY),
        (sh(&say(r#""result":{}"#)), Eras::LEGACY),
        (sh(&say(lists).replace("sessile-probe", "other")), Eras::LEGACY),
        (sh(&say(r#""method":"roots/list""#)), Eras::LEGACY),
        (sh(&say(lists).replace("\"sessile-probe\"", "null")), Eras::LEGACY),
        (sh("exec 1>&-; exec sleep 1000"), Eras::LEGACY),
        (sh("exit 1"), Eras::LEGACY),
        (sh("read -r line; exit 0"), Eras::LEGACY),
        (sh("exec sleep 1000"), Eras::LEGACY),
        (StdioConfig::new("/no/such/program"), Eras::LEGACY),
    ];
    block_on(async {
        for (number, (config, eras)) in table.iter_mut().enumerate() {
            config.probe_timeout = if *eras == Eras::BOTH { LONG } else { Duration::from_millis(300) };
            let stdio = Stdio::new(config.clone(), Tokio::current());
            assert_eq!(stdio.eras().await, *eras, "{number}");
            stdio.probe();
            assert_eq!(stdio.eras().await, *eras, "{number}");
            gone(&stdio).await;
        }
        // Nobody waits for one that is not asked any more.
        let stdio = stdio("exec sleep 1000");
        let asks = stdio.clone();
        let asked = tokio::spawn(async move { asks.eras().await });
        until(|| stdio.stats().children == 1).await;
        stdio.shutdown().await;
        assert_eq!(stdio.stats().children, 0);
        assert_eq!(asked.await.expect("no panic"), Eras::LEGACY);
        assert_eq!(stdio.eras().await, Eras::LEGACY);
    });
}

#[test]
fn a_legacy_request_without_a_session_has_a_child_and_a_handshake_to_itself() {
    let server = r#"
        while IFS= read -r line; do
            case "$line" in
                *'"initialize"'*) id=${line#*\"id\":}; id=${id%%[,\}]*}
                    v=${line#*\"protocolVersion\":}; v=${v%%[,\}]*}
                    printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":%s}}\n' "$id" "$v";;
                *notifications/initialized*) ready=$v; echo '{"jsonrpc":"2.0","method":"notifications/message"}';;
                *) printf '{"jsonrpc":"2.0","id":7,"result":{"version":%s}}\n' "$ready";;
            esac
        done"#;
    let serve = |stdio: &Stdio<Tokio>, message: Message| {
        let (stdio, link) = (stdio.clone(), Link::default());
        async move {
            let (client, outbox) = (link.clone(), link.clone());
            let version = ProtocolVersion::V2025_06_18;
            let result = timeout(LONG, stdio.serve_stateless(fingerprint(), version, message, client, outbox)).await;
            assert_eq!(stdio.stats().children, 0);
            (result.expect("it ends"), link.said())
        }
    };
    block_on(async {
        let works = stdio(server);
        let (result, said) = serve(&works, call("7", "tools/list")).await;
        result.expect("answered");
        assert_eq!(
            said,
            [
                r#"{"jsonrpc":"2.0","method":"notifications/message"}"#,
                r#"{"jsonrpc":"2.0","id":7,"result":{"version":"2025-06-18"}}"#
            ]
        );
        let own = r#"{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{}}}"#;
        let (result, said) = serve(&works, parse(own)).await;
        result.expect("answered");
        assert_eq!(said, [r#"{"jsonrpc":"2.0","id":7,"result":{"protocolVersion":"2025-11-25"}}"#]);

        let refuses = stdio(
            r#"read -r line; echo '{"id":"sessile-initialize","jsonrpc":"2.0","error":{"code":-32602,"message":"no"}}'; cat"#,
        );
        let (result, said) = serve(&refuses, call("\"a\"", "tools/list")).await;
        result.expect("answered");
        assert_eq!(said, [r#"{"id":"a","jsonrpc":"2.0","error":{"code":-32602,"message":"no"}}"#]);

        let dies = stdio("read -r line; exit 4");
        let (result, said) = serve(&dies, call("1", "tools/list")).await;
        assert!(matches!(result, Err(AppError::Exited(_))) && said.is_empty());
    });
}

/// One child without a process, whose clients are the test.
struct Bench {
    runtime: Tokio,
    shared: Arc<Shared>,
    inbox: SharedInbox<Tokio>,
    outbox: SharedOutbox,
}

impl Bench {
    fn new() -> Self {
        let runtime = Tokio::current();
        let shared = Shared::new(Arc::default(), runtime.now());
        let inbox = SharedInbox::new(Arc::clone(&shared), runtime.clone(), Duration::from_secs(1));
        Self { runtime, inbox, outbox: SharedOutbox(Arc::clone(&shared)), shared }
    }

    /// Lets a request in, if there is room.
    async fn enter(&self, message: &Message, deliver: &Deliver) -> Option<Result<Ticket<Tokio>, Closed>> {
        let mut enter = pin!(self.shared.enter(&self.runtime, message, deliver));
        now(|cx| enter.as_mut().poll(cx)).await
    }

    /// What the child reads next.
    async fn read(&mut self) -> Option<Value> {
        let mut read = pin!(self.inbox.recv());
        let raw = now(|cx| read.as_mut().poll(cx)).await?.expect("open");
        Some(serde_json::from_slice(&raw).expect("JSON"))
    }

    fn say(&mut self, message: &Value) {
        self.outbox.send(parse(&message.to_string()));
    }
}

/// `None`: not ready now.
async fn now<T>(mut poll: impl FnMut(&mut std::task::Context<'_>) -> Poll<T>) -> Option<T> {
    poll_fn(|cx| match poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

fn deaf() -> Deliver {
    Arc::new(|_| {})
}

#[test]
fn what_a_child_does_not_read_waits_with_its_clients() {
    block_on(async {
        let mut bench = Bench::new();
        let large = call("1", &"x".repeat(600 << 10));
        let first = bench.enter(&large, &deaf()).await.expect("room").expect("open");
        assert!(bench.enter(&large, &deaf()).await.is_none());
        // Nothing tells the child of what it has not seen.
        drop(first);
        let second = bench.enter(&large, &deaf()).await.expect("room").expect("open");
        assert_eq!(bench.read().await.expect("a request")["id"], 2);
        let third = bench.enter(&call("1", &"x".repeat(5 << 20)), &deaf()).await.expect("alone").expect("open");
        assert!(bench.enter(&call("1", "x"), &deaf()).await.is_none());
        drop(second);
        assert_eq!(bench.read().await.expect("a request")["id"], 3);
        assert_eq!(bench.read().await.expect("a note")["params"]["requestId"], 2);
        assert!(bench.read().await.is_none());
        drop(bench.inbox);
        assert_eq!(bench.shared.enter(&bench.runtime, &large, &deaf()).await.expect_err("closed"), Closed);
        bench.shared.end("x");
        assert_eq!(&*third.answered().await.expect_err("gone"), "x");
    });
}

/// A small generator, so that each run is the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// A request as its client and the child know it.
struct Known {
    request: Value,
    heard: Arc<Mutex<VecDeque<Value>>>,
    /// `None`: the client has gone.
    ticket: Option<Ticket<Tokio>>,
    answers: usize,
}

impl Known {
    /// What was heard must be about this request alone, under the names that its client gave.
    fn check(&mut self, secret: usize) {
        for message in self.heard.lock().expect("no panic").drain(..) {
            assert_eq!(
                message["params"]["secret"].as_u64().or_else(|| message["result"]["secret"].as_u64()),
                Some(secret as u64)
            );
            assert!(self.ticket.is_some(), "the client has gone");
            assert_eq!(self.answers, 0, "after the answer");
            let meta = &self.request["params"]["_meta"];
            if message["method"] == "notifications/progress" {
                assert_eq!(message["params"]["progressToken"], meta["progressToken"]);
            }
            if message.get("method").is_none() {
                assert_eq!(message["id"], self.request["id"]);
                self.answers += 1;
            }
            for place in ["params", "result"] {
                let subscription = &message[place]["_meta"]["io.modelcontextprotocol/subscriptionId"];
                assert!(subscription.is_null() || *subscription == self.request["id"]);
            }
        }
    }
}

/// Many clients with the same few ids and tokens, and a child that says whatever comes to its mind about any request that it
/// has not answered, cancelled ones included.
#[test]
fn nothing_reaches_a_stranger() {
    block_on(async {
        let mut delivered = 0;
        for seed in 1..=300 {
            let mut dice = Dice(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
            let mut bench = Bench::new();
            let mut all: Vec<Known> = Vec::new();
            // The numbers under which the child knows requests, with their secrets.
            let mut child: Vec<(Value, Value, usize)> = Vec::new();
            for _ in 0..dice.below(300) {
                match dice.below(10) {
                    0 | 1 if all.iter().filter(|known| known.ticket.is_some()).count() < 8 => {
                        let names = [json!(1), json!("1"), json!(2), json!(3), json!("é\"\\")];
                        let mut request = json!({
                            "jsonrpc": "2.0", "id": names[dice.below(5)], "method": "tools/call",
                            "params": { "_meta": { "other": { "progressToken": 1 } }, "secret": all.len(), "id": 1 },
                        });
                        if dice.below(3) > 0 {
                            request["params"]["_meta"]["progressToken"] = names[dice.below(5)].clone();
                        }
                        let heard = Arc::new(Mutex::new(VecDeque::new()));
                        let sink = Arc::clone(&heard);
                        let deliver: Deliver = Arc::new(move |message: Message| {
                            let message = serde_json::from_slice(message.raw()).expect("JSON");
                            sink.lock().expect("no panic").push_back(message);
                        });
                        let message = parse(&request.to_string());
                        let ticket = bench.enter(&message, &deliver).await.expect("room").expect("open");
                        all.push(Known { request, heard, ticket: Some(ticket), answers: 0 });
                    }
                    2 if !all.is_empty() => {
                        let leaves = dice.below(all.len());
                        all[leaves].ticket = None;
                    }
                    3..=5 => {
                        if let Some(request) = bench.read().await.filter(|request| request["id"].is_u64()) {
                            let secret = &request["params"]["secret"];
                            let original = &all[secret.as_u64().expect("a number") as usize].request;
                            let token = &request["params"]["_meta"]["progressToken"];
                            assert_eq!(token.is_null(), original["params"]["_meta"]["progressToken"].is_null());
                            assert_eq!(request["params"]["_meta"]["other"]["progressToken"], 1);
                            let about = secret.as_u64().expect("a number") as usize;
                            child.push((request["id"].clone(), token.clone(), about));
                        }
                    }
                    what if !child.is_empty() => {
                        let at = dice.below(child.len());
                        let (id, token, secret) = child[at].clone();
                        let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
                        let note = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "method": method, "params": params });
                        match (what, dice.below(4)) {
                            (6, 0) => {
                                let result = json!({ "secret": secret, "_meta": meta });
                                bench.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
                                if dice.below(4) == 0 {
                                    bench.say(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
                                }
                                child.swap_remove(at);
                            }
                            (6 | 7, _) => bench.say(&note(
                                "notifications/progress",
                                json!({ "progressToken": token, "secret": secret }),
                            )),
                            (8, _) => bench.say(&note(
                                "notifications/tools/list_changed",
                                json!({ "_meta": meta, "secret": secret }),
                            )),
                            _ => bench.say(&note("notifications/message", json!({ "secret": secret }))),
                        }
                    }
                    _ => {}
                }
                for (secret, known) in all.iter_mut().enumerate() {
                    delivered += known.heard.lock().expect("no panic").len();
                    known.check(secret);
                    if let Some(ticket) = &known.ticket {
                        let mut answered = pin!(ticket.answered());
                        let over = now(|cx| answered.as_mut().poll(cx)).await.is_some();
                        assert_eq!(over, known.answers == 1);
                    }
                }
            }
        }
        assert!(delivered > 5_000, "{delivered}");
    });
}
