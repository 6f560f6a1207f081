//! What whoever embeds a manager can do with it from outside: look sessions up, end them, tell their clients. R265, R267.

use std::time::Duration;

use serde_json::{Value, json};
use sessile::app::{App, AppError, AppLink, Backend, Calls, Context, Demo, Handler, Reply, SessionInfo, Tasks};
use sessile::http::McpService;
use sessile::runtime::Runtime;
use sessile::runtime::tokio::Tokio;
use sessile::{Manager, OutsideNoteError, Principal};
use sessile_core::{ClientCapability, Config, Eras, Message, ReapReason};
use sessile_tests::client::{Client, Events};
use sessile_tests::pure::script;

use crate::captured::Captured;
use crate::raw::{Site, app, handler, settle};

const TOOLS: &str = "notifications/tools/list_changed";
const UPDATED: &str = "notifications/resources/updated";

/// Whatever the runtime and the app are: this compiles, or it does not hold.
#[test]
fn managers_and_services_can_be_shared_by_all_threads() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    fn any<R: Runtime, B: Backend>() {
        shared::<Manager<R, B>>();
        shared::<McpService<R, B>>();
    }
    fn kinds<H: Handler, A: App>() {
        any::<Tokio, Calls<H>>();
        any::<Tokio, Tasks<A>>();
    }
    kinds::<Demo, Telling>();
}

/// Answers what clients ask of subscriptions in both eras, and tells of nothing by itself.
#[derive(Clone, Copy)]
struct Telling;

fn reply(message: &Message) -> Option<Result<Value, (i32, &'static str)>> {
    let request = message.as_request()?;
    Some(match &*request.method {
        "initialize" => Ok(json!({"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}})),
        "ping" | "resources/subscribe" | "resources/unsubscribe" => Ok(json!({})),
        _ => Err((-32601, "Method not found")),
    })
}

/// The filter that a subscription asks for, which is granted as it is.
fn acknowledgement(message: &Message) -> Option<Value> {
    let request = message.as_request().filter(|request| request.is_subscription())?;
    let filter = message.params::<Value>().expect("parameters")["notifications"].clone();
    let id: Value = serde_json::from_str(&request.id.to_json()).expect("JSON");
    Some(json!({"_meta": {"io.modelcontextprotocol/subscriptionId": id}, "notifications": filter}))
}

const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

impl Handler for Telling {
    type State = ();

    fn eras(&self) -> Eras {
        Eras::BOTH
    }

    fn open(&self, _: &SessionInfo) {}

    async fn call(&self, context: Context<()>, message: Message) -> Reply {
        if let Some(params) = acknowledgement(&message) {
            context.notify(ACKNOWLEDGED, &params);
            return std::future::pending().await;
        }
        if message.method() == Some("needs") {
            return context.capability_missing(&[ClientCapability::SamplingTools, ClientCapability::Roots]);
        }
        match reply(&message) {
            None => Reply::none(),
            Some(Ok(result)) => context.result(&result),
            Some(Err((code, text))) => context.error(code, text),
        }
    }
}

impl App for Telling {
    async fn eras(&self) -> Eras {
        Eras::BOTH
    }

    async fn run(&self, mut link: AppLink) -> Result<(), AppError> {
        while let Some(inbound) = link.recv().await {
            let message = inbound.message;
            let said = if let Some(params) = acknowledgement(&message) {
                json!({"jsonrpc": "2.0", "method": ACKNOWLEDGED, "params": params}).to_string()
            } else {
                let Some(request) = message.as_request() else { continue };
                match reply(&message) {
                    None => continue,
                    Some(Ok(result)) => script::result(&request.id, &result.to_string()),
                    Some(Err((code, text))) => script::error(&request.id, code, text),
                }
            };
            let _ = link.send(Message::parse(said.into()).expect("a message"));
        }
        Ok(())
    }
}

async fn with_session<B: Backend>(site: &Site<B>, principal: &str) -> (Client<Tokio, B>, Events) {
    let mut client = Client::new(site.manager.service().expect("running"));
    client.principal(Principal::named(principal));
    client.initialize("2025-11-25", json!({})).await;
    let events = client.get().await.events();
    (client, events)
}

async fn subscribed<B: Backend>(site: &Site<B>, principal: &str, filter: Value) -> (i64, Events) {
    let mut client = Client::modern(site.manager.service().expect("running"), json!({}));
    client.principal(Principal::named(principal));
    let (id, answer) = client.begin("subscriptions/listen", json!({"notifications": filter})).await;
    let mut events = answer.events();
    assert_eq!(events.next().await.expect("its first word")["method"], ACKNOWLEDGED);
    (id, events)
}

async fn silent(events: &mut Events) -> bool {
    tokio::time::timeout(Duration::from_secs(60), events.next()).await.is_err()
}

/// The era of a client makes no difference to whoever tells it, and neither does the kind of the app.
#[tokio::test(start_paused = true)]
async fn everybody_hears_of_what_they_asked_for() {
    everybody(&handler(Config::default(), Telling)).await;
    everybody(&app(Config::default(), Telling)).await;
}

async fn everybody<B: Backend>(site: &Site<B>) {
    let (alice, mut alices) = with_session(site, "alice").await;
    let (_bob, mut bobs) = with_session(site, "bob").await;
    let (tools, mut of_tools) = subscribed(site, "alice", json!({"toolsListChanged": true})).await;
    let (file, mut of_file) = subscribed(site, "bob", json!({"resourceSubscriptions": ["file:///a"]})).await;

    assert_eq!(site.manager.notify_all(TOOLS, &()).expect("good parameters"), 3);
    let plain = json!({"jsonrpc": "2.0", "method": TOOLS});
    assert_eq!(alices.next().await.expect("a note"), plain);
    assert_eq!(bobs.next().await.expect("a note"), plain);
    let tag = |id: i64| json!({"io.modelcontextprotocol/subscriptionId": id});
    let tagged = json!({"jsonrpc": "2.0", "method": TOOLS, "params": {"_meta": tag(tools)}});
    assert_eq!(of_tools.next().await.expect("a note"), tagged);

    // A resource concerns who has subscribed to it.
    let a = json!({"uri": "file:///a"});
    assert_eq!(site.manager.notify_all(UPDATED, &a).expect("good parameters"), 1);
    let tagged = json!({"jsonrpc": "2.0", "method": UPDATED, "params": {"_meta": tag(file), "uri": "file:///a"}});
    assert_eq!(of_file.next().await.expect("a note"), tagged);
    assert_eq!(alice.request("resources/subscribe", a.clone()).await["result"], json!({}));
    assert_eq!(site.manager.notify_all(UPDATED, &a).expect("good parameters"), 2);
    let plain = json!({"jsonrpc": "2.0", "method": UPDATED, "params": a});
    assert_eq!(alices.next().await.expect("a note"), plain);
    assert_eq!(of_file.next().await.expect("a note"), tagged);

    // One principal, one session.
    assert_eq!(site.manager.notify_all_of(&Principal::named("alice"), TOOLS, &()).expect("good parameters"), 2);
    assert!(alices.next().await.is_some() && of_tools.next().await.is_some());
    let [alices_key, bobs_key] = [0, 1].map(|at| site.manager.list()[at].key);
    let log = json!({"level": "info", "data": "for bob"});
    assert!(site.manager.notify(bobs_key, "notifications/message", &log).expect("good parameters"));
    assert_eq!(bobs.next().await.expect("a note")["params"], log);
    assert!(!site.manager.notify(bobs_key, UPDATED, &a).expect("good parameters"), "bob's session has not subscribed");

    for events in [&mut alices, &mut bobs, &mut of_tools, &mut of_file] {
        assert!(silent(events).await);
    }
    assert!(matches!(site.manager.notify_all(TOOLS, &[1]), Err(OutsideNoteError::NotAnObject)));
    alice.delete().await;
    assert!(!site.manager.notify(alices_key, TOOLS, &()).expect("good parameters"), "the session is over");
    assert_eq!(site.manager.stats().notes_dropped, 0);
}

/// Only the modern era knows the code, and what to do about it.
#[tokio::test(start_paused = true)]
async fn a_handler_refuses_for_want_of_a_capability_in_the_words_of_the_era() {
    let site = handler(Config::default(), Telling);
    let modern = Client::modern(site.manager.service().expect("running"), json!({}));
    let (id, answer) = modern.begin("needs", json!({})).await;
    assert_eq!(answer.status, 400);
    let error = answer.response(id).await["error"].clone();
    let required = json!({"sampling": {"tools": {}}, "roots": {}});
    assert_eq!((&error["code"], &error["data"]), (&json!(-32021), &json!({"requiredCapabilities": required})));
    let text = "The request needs capabilities that the client has not declared: sampling.tools, roots";
    assert_eq!(error["message"], text);
    let client = Client::open(site.manager.service().expect("running")).await;
    let (id, answer) = client.begin("needs", json!({})).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.response(id).await["error"], json!({"code": -32600, "message": text}));
}

/// No client makes its notes wait for ever.
#[tokio::test(start_paused = true)]
async fn notes_for_clients_that_do_not_listen_are_bounded_and_counted() {
    let mut config = Config::default();
    config.session.log_count = 4;
    let site = handler(config, Telling);
    let client = Client::open(site.manager.service().expect("running")).await;
    for number in 0..10 {
        let sent = site.manager.notify_all("notifications/message", &json!({"level": "info", "data": number}));
        assert_eq!(sent.expect("good parameters"), 1);
    }
    assert_eq!(site.manager.stats().notes_dropped, 6);
    let mut events = client.get().await.events();
    for number in 6..10 {
        assert_eq!(events.next().await.expect("a note")["params"]["data"], number);
    }
    assert!(silent(&mut events).await);
}

/// The demo acknowledges what it can tell of, and that is what is told.
#[tokio::test(start_paused = true)]
async fn what_an_app_does_not_acknowledge_is_not_told() {
    let site = handler(Config::default(), Demo::new());
    let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["demo://touched", "demo://other"]});
    let (_, mut events) = subscribed(&site, "alice", filter).await;
    let counts = [
        site.manager.notify_all(TOOLS, &()),
        site.manager.notify_all(UPDATED, &json!({"uri": "demo://other"})),
        site.manager.notify_all(UPDATED, &json!({"uri": "demo://touched"})),
    ];
    assert_eq!(counts.map(|count| count.expect("good parameters")), [0, 0, 1]);
    assert_eq!(events.next().await.expect("a note")["params"]["uri"], "demo://touched");
    assert!(silent(&mut events).await);
}

#[tokio::test(start_paused = true)]
async fn sessions_are_found_by_key_fingerprint_and_principal() {
    let site = handler(Config::default(), Telling);
    let (_alice, _one) = with_session(&site, "alice").await;
    let (bob, _two) = with_session(&site, "bob").await;
    let (_again, third) = with_session(&site, "alice").await;
    drop(third);
    settle().await;
    let list = site.manager.list();
    let streams: Vec<_> = list.iter().map(|session| (session.principal.name(), session.streams)).collect();
    assert_eq!(streams, [(Some("alice"), 1), (Some("bob"), 1), (Some("alice"), 0)]);
    for session in &list {
        assert_eq!(session.client.as_ref().map(ToString::to_string).as_deref(), Some("tests/0"));
        assert_eq!(site.manager.session(session.key).as_ref(), Some(session));
        let shown = session.fingerprint.to_string();
        assert_eq!(site.manager.find(shown.parse().expect("a fingerprint")), std::slice::from_ref(session));
    }
    assert_eq!(site.manager.list_of(&Principal::named("alice")), [list[0].clone(), list[2].clone()]);
    assert_eq!(site.manager.list_of(&Principal::ANONYMOUS), []);
    bob.delete().await;
    assert_eq!(site.manager.session(list[1].key), None);
    assert_eq!(site.manager.find(list[1].fingerprint), []);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_closed_for_a_reason_that_the_log_tells_in_one_line() {
    let captured = Captured::of_this_thread();
    let site = handler(Config::default(), Telling);
    let client = Client::open(site.manager.service().expect("running")).await;
    let session = site.manager.list()[0].clone();
    assert!(site.manager.close_because(session.key, "its token\nwas revoked"));
    assert!(!site.manager.close_because(session.key, "again"));
    assert_eq!(client.request("ping", json!({})).await["error"]["message"], "Session not found");
    assert_eq!(site.manager.stats().closed.of(ReapReason::Dismissed), 1);
    let lines = captured.lines();
    let told: Vec<_> = lines.iter().filter(|line| line.contains("session dismissed")).collect();
    assert_eq!(told.len(), 1, "{lines:?}");
    assert!(told[0].contains(r"its token\nwas revoked") && told[0].contains(&session.fingerprint.to_string()));
}
