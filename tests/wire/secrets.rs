//! No session id, credential or event id in a log, an error, a header it does not belong to, or a `Debug`.
//!
//! R167, R175, R178.

use std::time::Duration;

use http::{HeaderValue, Request};
use serde_json::json;
use sessile::app::{App, AppError, AppLink, Backend, Context, Handler, Reply, SessionInfo};
use sessile::core::Message;
use sessile_core::Config;
use sessile_tests::pure::{Answer, Upload, script};

use crate::apps::exited;
use crate::captured::Captured;
use crate::raw::{Read as _, Site, app, handler, pass};
use crate::row::{UNKNOWN, delete, get, post, request};

const TOKEN: &str = "b3f1c0ffee-token-of-alice";
const SECOND_TOKEN: &str = "5ec0ndc0ffee-token-of-alice";
const EVENT: &str = "0-987654321";

/// Shows all that it is given.
#[derive(Clone)]
struct Curious(Captured);

impl Handler for Curious {
    type State = ();

    fn open(&self, session: &SessionInfo) {
        self.0.show("session", session);
    }

    async fn call(&self, context: Context<()>, message: Message) -> Reply {
        self.0.show("context", &context);
        self.0.show("parts", context.parts());
        self.0.show("message", &message);
        let reply = match message.method() {
            Some("initialize") => context.result(&json!({"protocolVersion": "2025-11-25"})),
            Some("crash") => Reply::crash(exited()),
            Some("hang") => {
                context.sleep(Duration::from_secs(1_000_000)).await;
                Reply::none()
            }
            Some("panic") => panic!("as the test wants it"),
            _ => context.error(-32601, "Method not found"),
        };
        self.0.show("reply", &reply);
        reply
    }
}

impl App for Curious {
    async fn run(&self, mut link: AppLink) -> Result<(), AppError> {
        self.0.show("link", &link);
        while let Some(inbound) = link.recv().await {
            self.0.show("inbound", &inbound);
            match inbound.message.as_request() {
                Some(request) if request.method == "initialize" => {
                    let result = script::result(&request.id, r#"{"protocolVersion":"2025-11-25"}"#);
                    let sent = link.send(Message::parse(result.into()).expect("a message"));
                    self.0.show("sent", &sent);
                }
                Some(request) if request.method == "crash" => return Err(exited()),
                _ => {}
            }
        }
        Ok(())
    }
}

/// With the credentials and the event id in the head, as they may come.
fn bearing(mut request: Request<Upload>) -> Request<Upload> {
    let headers = request.headers_mut();
    for (name, value) in [
        ("authorization", format!("Bearer {TOKEN}")),
        ("authorization", format!("Bearer {SECOND_TOKEN}")),
        ("last-event-id", EVENT.to_owned()),
    ] {
        headers.append(name, HeaderValue::from_str(&value).expect("a header's value"));
    }
    request
}

struct Scene<'a, B: Backend> {
    site: &'a Site<B>,
    captured: &'a Captured,
    secrets: Vec<String>,
}

impl<B: Backend> Scene<'_, B> {
    /// Sends a request and looks at what comes back: no secret in it.
    async fn ask(&self, who: &str, request: Request<Upload>) -> Answer {
        let shown = format!("{} {}", request.method(), who);
        let answer = self.site.send(Some(who), bearing(request)).await.within(Duration::from_secs(1)).await;
        for secret in self.secrets.iter().map(String::as_str).chain([TOKEN, SECOND_TOKEN, EVENT, UNKNOWN]) {
            assert!(!answer.text().contains(secret), "{shown}: {}", answer.text());
            if let Some((_, headers)) = &answer.head {
                let leaks = headers.values().any(|value| String::from_utf8_lossy(value.as_bytes()).contains(secret));
                assert!(!leaks, "{shown}: {headers:?}");
            }
        }
        answer
    }

    async fn open(&mut self) -> String {
        let answer = self.ask("alice", post(None, "$INIT")).await;
        self.captured.show("the head of initialize", &answer.head);
        let id = answer.session_id().expect("a session");
        self.secrets.push(id.clone());
        id
    }

    async fn play(mut self) -> Vec<String> {
        let id = self.open().await;
        for body in
            ["$NOTE", "$PING", "$RESPONSE", "$CANCEL", "{", "[]", "$INIT", r#"{"jsonrpc":"2.0","method":"panic"}"#]
        {
            self.ask("alice", post(Some(&id), body)).await;
        }
        self.ask("alice", get(&id)).await;
        for who in ["alice", "bob"] {
            for name in [&id, UNKNOWN, "x"] {
                for request in [post(Some(name), "$PING"), post(Some(name), "$INIT"), get(name), delete(name)] {
                    let owned = who == "alice" && name == id;
                    if !owned || request.method() == "POST" {
                        self.ask(who, request).await;
                    }
                }
            }
        }
        let mut twice = post(Some(&id), "$PING");
        twice.headers_mut().append("mcp-session-id", HeaderValue::from_str(&id).expect("a header's value"));
        self.ask("alice", twice).await;
        let mut put = request("PUT", Upload::Never);
        put.headers_mut().insert("mcp-session-id", HeaderValue::from_str(&id).expect("a header's value"));
        self.ask("alice", put).await;
        // Ended by DELETE, by a crash, by idleness, with calls open, and by the end of all.
        let call = self.site.send(Some("alice"), bearing(post(Some(&id), "$HANG"))).await;
        self.ask("alice", delete(&id)).await;
        self.captured.push(call.answer().text());
        self.ask("alice", post(Some(&id), "$PING")).await;
        let crashed = self.open().await;
        self.ask("alice", post(Some(&crashed), r#"{"jsonrpc":"2.0","id":3,"method":"crash"}"#)).await;
        self.ask("alice", post(Some(&crashed), "$PING")).await;
        self.open().await;
        let left = self.open().await;
        self.site.send(Some("alice"), bearing(post(Some(&left), "$HANG"))).await.hang_up().await;
        pass(Duration::from_secs(4_000)).await;
        let last = self.open().await;
        let call = self.site.send(Some("alice"), bearing(post(Some(&last), "$HANG"))).await;
        let stream = self.site.get(&last).await;
        self.captured.show("manager", &self.site.manager);
        self.captured.show("service", &self.site.service);
        self.captured.show(
            "response future",
            &self.site.service.handle(bearing(post(Some(&last), "$PING")).map(|_| String::new())),
        );
        self.captured.show("body", &self.site.stall(get(&last)).await);
        self.site.manager.shutdown(Duration::ZERO, Duration::from_secs(1)).await.expect("it was running");
        pass(Duration::from_secs(1)).await;
        self.captured.push(call.answer().text());
        self.captured.push(stream.answer().text());
        self.ask("alice", post(Some(&last), "$PING")).await;
        self.secrets
    }
}

fn look_for(secrets: &[String], captured: &Captured, kinds: &[&str]) {
    let lines = captured.lines();
    for secret in secrets.iter().map(String::as_str).chain([TOKEN, SECOND_TOKEN, EVENT, UNKNOWN]) {
        let found = lines.iter().find(|line| line.contains(secret));
        assert!(found.is_none(), "{secret} is in: {found:?}");
    }
    // There was something to find them in.
    for kind in kinds {
        assert!(lines.iter().any(|line| line.contains(kind)), "nothing with {kind:?} was captured");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_and_its_logs_see_no_secret() {
    let captured = Captured::of_this_thread();
    let site = handler(Config::default(), Curious(captured.clone()));
    let scene = Scene { site: &site, captured: &captured, secrets: Vec::new() };
    let secrets = scene.play().await;
    assert_eq!(secrets.len(), 5);
    look_for(
        &secrets,
        &captured,
        &["WARN", "INFO", "DEBUG", "session opened", "deleted", "idle", "crashed", "shutdown", "foreign", "parts:"],
    );
}

#[tokio::test(start_paused = true)]
async fn an_app_and_its_logs_see_no_secret() {
    let captured = Captured::of_this_thread();
    let site = app(Config::default(), Curious(captured.clone()));
    let scene = Scene { site: &site, captured: &captured, secrets: Vec::new() };
    let secrets = scene.play().await;
    look_for(&secrets, &captured, &["WARN", "INFO", "session opened", "deleted", "crashed", "shutdown", "inbound:"]);
}

/// R176: what a session is called can't be guessed.
#[tokio::test(start_paused = true)]
async fn session_ids_have_nothing_in_common() {
    let mut config = Config::default();
    config.table.max_sessions = 2_000;
    let site = handler(config, crate::apps::Scripted::default());
    let mut ids = std::collections::BTreeSet::new();
    let mut seen = [[0_u32; 16]; 32];
    for _ in 0..2_000 {
        let opened = site.send(None, post(None, "$INIT")).await.answer();
        let id = opened.session_id().expect("an id");
        for (at, digit) in id.chars().enumerate() {
            seen[at][digit.to_digit(16).expect("hexadecimal") as usize] += 1;
        }
        assert!(ids.insert(id));
    }
    // Each digit about 125 times in each place; the limits are twelve deviations away.
    assert!(seen.iter().flatten().all(|count| (1..260).contains(count)), "{seen:?}");
}
