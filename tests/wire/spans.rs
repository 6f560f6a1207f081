//! Spans by the OpenTelemetry conventions for MCP servers: one for each message that an app sees, from its coming to its end. R167.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};
use sessile::app::{App, AppError, AppLink, Demo};
use sessile::runtime::tokio::Tokio;
use sessile_core::{Config, Message};
use sessile_tests::client::Client;
use sessile_tests::pure::script;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument as _, Metadata, Subscriber};

use crate::raw::{Site, app, handler, pass, settle};

/// The spans of this thread, and what was logged in them.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<All>>);

#[derive(Default)]
struct All {
    spans: Vec<Seen>,
    entered: Vec<u64>,
    /// What was logged, and the number of the span around it.
    events: Vec<(String, Option<u64>)>,
}

struct Seen {
    metadata: &'static Metadata<'static>,
    parent: Option<u64>,
    fields: BTreeMap<&'static str, String>,
    holders: usize,
}

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

impl Spans {
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().expect("no panic while it is held")
    }

    /// The fields of the spans of messages, by the names that traces show.
    fn fields(&self) -> Vec<BTreeMap<&'static str, String>> {
        let all = self.all();
        let messages = all.spans.iter().filter(|seen| seen.metadata.target() == "sessile::mcp");
        messages.map(|seen| seen.fields.clone()).collect()
    }

    /// Those of the only span with this name.
    fn of(&self, name: &str) -> BTreeMap<&'static str, String> {
        let mut found = self.fields();
        found.retain(|fields| fields.get("otel.name").is_some_and(|other| other == name));
        assert_eq!(found.len(), 1, "{name}: {:?}", self.fields());
        found.remove(0)
    }

    /// Whether all that have begun have ended.
    fn ended(&self) -> bool {
        self.all().spans.iter().all(|seen| seen.holders == 0)
    }
}

impl Subscriber for Spans {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut all = self.all();
        let parent = if span.is_contextual() { all.entered.last().copied() } else { span.parent().map(Id::into_u64) };
        let mut fields = BTreeMap::new();
        span.record(&mut Fields(&mut fields));
        all.spans.push(Seen { metadata: span.metadata(), parent, fields, holders: 1 });
        Id::from_u64(all.spans.len() as u64)
    }

    fn record(&self, id: &Id, values: &Record<'_>) {
        values.record(&mut Fields(&mut self.all().spans[id.into_u64() as usize - 1].fields));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = BTreeMap::new();
        event.record(&mut Fields(&mut fields));
        let mut all = self.all();
        let around = all.entered.last().copied();
        all.events.push((fields.remove("message").unwrap_or_default(), around));
    }

    fn enter(&self, id: &Id) {
        self.all().entered.push(id.into_u64());
    }

    fn exit(&self, id: &Id) {
        let mut all = self.all();
        let at = all.entered.iter().rposition(|entered| *entered == id.into_u64()).expect("it was entered");
        all.entered.remove(at);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.all().spans[id.into_u64() as usize - 1].holders += 1;
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut all = self.all();
        let seen = &mut all.spans[id.into_u64() as usize - 1];
        seen.holders -= 1;
        seen.holders == 0
    }
}

fn demo() -> Site<sessile::app::Calls<Demo>> {
    handler(Config::default(), Demo::new())
}

fn tool(name: &str, arguments: Value) -> Value {
    json!({"name": name, "arguments": arguments})
}

#[tokio::test(start_paused = true)]
async fn a_call_is_a_span_with_the_fields_of_the_conventions() {
    let spans = Spans::default();
    let _default = tracing::subscriber::set_default(spans.clone());
    let site = demo();
    let client = Client::open(site.manager.service().expect("running")).await;
    let call = client.request("tools/call", tool("echo", json!({"text": "x"})));
    call.instrument(tracing::info_span!("ambient")).await;
    let fingerprint = site.manager.list()[0].fingerprint.to_string();
    let expected = [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "echo"),
        ("jsonrpc.request.id", "2"),
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2025-11-25"),
        ("network.protocol.name", "http"),
        ("network.protocol.version", "1.1"),
        ("network.transport", "tcp"),
        ("otel.kind", "server"),
        ("otel.name", "tools/call echo"),
        ("sessile.session", &fingerprint),
    ];
    assert_eq!(spans.of("tools/call echo"), expected.map(|(name, value)| (name, value.to_owned())).into());
    // The others: what there is to say of them, and no more.
    let opened = spans.of("initialize");
    assert_eq!((opened.get("mcp.protocol.version"), &*opened["jsonrpc.request.id"]), (None, "1"));
    let noted = spans.of("notifications/initialized");
    assert_eq!((noted.get("jsonrpc.request.id"), &*noted["mcp.protocol.version"]), (None, "2025-11-25"));
    {
        let all = spans.all();
        let ambient = all.spans.iter().position(|seen| seen.metadata.name() == "ambient").expect("it was made") + 1;
        let called =
            all.spans.iter().find(|seen| seen.fields.get("otel.name").is_some_and(|name| name.ends_with("echo")));
        assert_eq!(
            called.expect("a span").parent,
            Some(ambient as u64),
            "the span of the embedding server is the parent"
        );
        assert!(all.entered.is_empty());
    }
    assert!(spans.ended());
}

#[tokio::test(start_paused = true)]
async fn what_fails_says_how() {
    let spans = Spans::default();
    let _default = tracing::subscriber::set_default(spans.clone());
    let site = demo();
    let client = Client::open(site.manager.service().expect("running")).await;
    let outcome = |name: &str| {
        let fields = spans.of(name);
        ["error.type", "rpc.response.status_code", "otel.status_code"].map(|field| fields.get(field).cloned())
    };
    let said = |values: [&str; 3]| values.map(|value| Some(value.to_owned()).filter(|value| !value.is_empty()));
    client.request("tools/call", tool("echo", json!({}))).await;
    assert_eq!(outcome("tools/call echo"), said(["-32602", "-32602", "ERROR"]));
    client.request("tools/call", tool("ask", json!({}))).await;
    assert_eq!(outcome("tools/call ask"), said(["tool_error", "", "ERROR"]));
    client.request("prompts/get", json!({"name": "other"})).await;
    assert_eq!(outcome("prompts/get other"), said(["-32602", "-32602", "ERROR"]));
    assert_eq!(spans.of("prompts/get other")["gen_ai.prompt.name"], "other");
    // A client can't name spans as it likes, nor make them long.
    client.request(&format!("made/up{}", "x".repeat(1_000)), json!({})).await;
    assert_eq!(outcome("_OTHER"), said(["-32601", "-32601", "ERROR"]));
    assert_eq!(spans.of("_OTHER")["mcp.method.name"].len(), 128);
    client.request("resources/read", json!({"uri": "https://user:secret@host/a?token=secret"})).await;
    assert_eq!(spans.of("resources/read")["mcp.resource.uri"], "https://host/a");
    // Cancelled, with its client or its session.
    let (id, slow) = client.begin("tools/call", tool("slow", json!({"seconds": 1_000}))).await;
    client.notify("notifications/cancelled", json!({"requestId": id})).await;
    settle().await;
    assert_eq!(outcome("tools/call slow"), said(["cancelled", "", "ERROR"]));
    drop(slow);
    let (_, crash) = client.begin("tools/call", tool("crash", json!({}))).await;
    assert_eq!(outcome("tools/call crash"), said(["app_failed", "", "ERROR"]));
    drop(crash);
    settle().await;
    assert!(spans.ended());
}

#[tokio::test(start_paused = true)]
async fn requests_without_a_session_have_spans_too() {
    let spans = Spans::default();
    let _default = tracing::subscriber::set_default(spans.clone());
    let site = demo();
    let client = Client::modern(site.manager.service().expect("running"), json!({}));
    client.request("tools/call", tool("sample", json!({}))).await;
    let called = spans.of("tools/call sample");
    assert_eq!((&*called["mcp.protocol.version"], &*called["error.type"]), ("2026-07-28", "-32021"));
    assert_eq!(called.get("sessile.session"), None);
    // A client that goes cancels.
    let gone = client.begin("tools/call", tool("slow", json!({"seconds": 1_000})));
    assert!(tokio::time::timeout(Duration::from_secs(1), gone).await.is_err());
    assert_eq!(spans.of("tools/call slow")["error.type"], "cancelled");
    settle().await;
    assert!(spans.ended());
}

/// Works on each request in its span, in a task of its own.
struct Working;

impl App for Working {
    async fn run(&self, mut link: AppLink) -> Result<(), AppError> {
        while let Some(inbound) = link.recv().await {
            let Some(request) = inbound.message.as_request() else { continue };
            let (sender, id, method) = (link.sender().clone(), request.id.clone(), request.method.clone());
            let span = sender.span(&id);
            tokio::spawn(
                async move {
                    let said = match &*method {
                        "initialize" => script::result(&id, r#"{"protocolVersion":"2025-11-25"}"#),
                        "tools/list" => script::error(&id, -32601, "no"),
                        "tools/call" => return,
                        _ => script::result(&id, "{}"),
                    };
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    tracing::info!("{method} is done");
                    let _ = sender.send(Message::parse(said.into()).expect("a message"));
                }
                .instrument(span),
            );
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn an_app_that_runs_for_the_session_works_in_the_spans_of_its_requests() {
    let spans = Spans::default();
    let _default = tracing::subscriber::set_default(spans.clone());
    let site = app(Config::default(), Working);
    let client: Client<Tokio, _> = Client::open(site.manager.service().expect("running")).await;
    assert!(spans.ended(), "initialize was answered");
    client.request("ping", json!({})).await;
    client.request("tools/list", json!({})).await;
    assert_eq!(spans.of("ping").get("error.type"), None);
    assert_eq!(spans.of("tools/list")["error.type"], "-32601");
    {
        let all = spans.all();
        for method in ["initialize", "ping", "tools/list"] {
            let (_, around) =
                all.events.iter().find(|(text, _)| *text == format!("{method} is done")).expect("it was said");
            let around = &all.spans[around.expect("a span is around it") as usize - 1];
            assert_eq!(around.fields["otel.name"], method);
        }
    }
    let (_, call) = client.begin("tools/call", tool("none", json!({}))).await;
    pass(Duration::from_secs(1)).await;
    assert!(!spans.ended(), "it has no answer");
    client.delete().await;
    assert_eq!(spans.of("tools/call none")["error.type"], "cancelled");
    drop(call);
    settle().await;
    assert!(spans.ended());
}

/// Neither a span nor its fields name a session by its secret.
#[tokio::test(start_paused = true)]
async fn no_span_shows_a_session_id() {
    let spans = Spans::default();
    let _default = tracing::subscriber::set_default(spans.clone());
    let site = demo();
    let id = site.open().await;
    site.post(&id, "$PING").await;
    site.delete(&id).await;
    let fields = spans.fields();
    assert!(fields.len() >= 3, "{fields:?}");
    assert!(!format!("{fields:?}").contains(&id));
    assert!(fields.iter().all(|fields| !fields.contains_key("mcp.session.id")));
}
