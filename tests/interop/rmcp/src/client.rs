//! The checks of a client on rmcp, those of `checks.py` that need no look at the wire. The binaries bring the `rmcp`: its
//! generations share the names that are used here.

#![allow(deprecated, reason = "sampling, roots and log messages are, since the modern era does without")]

use std::{
    future::Future,
    process::ExitCode,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, ClientRequest, CreateMessageRequestParams, CreateMessageResult,
        ElicitRequestParams, ElicitResult, InitializeRequestParams, ListRootsResult, LoggingMessageNotificationParam,
        ProgressNotificationParam, ReadResourceRequestParams, ResourceUpdatedNotificationParam, SubscribeRequestParams,
    },
    service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// For one check.
const LIMIT: Duration = Duration::from_secs(40);
/// What the client says when the server asks it something.
const ANSWER: &str = "Ada Lovelace";
const ROOT: &str = "file:///srv/interop";
const VERSION: &str = "2025-11-25";
const MODERN_VERSION: &str = "2026-07-28";

type Checked<T = ()> = Result<T, String>;
type Client = RunningService<RoleClient, Handler>;

/// Runs every check; `probes` says whether the client tries the modern era first.
pub async fn run(probes: bool, open: impl AsyncFn(Handler, &str) -> Checked<Client>) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, profiles, server] = arguments.as_slice() else {
        eprintln!("usage: URL PROFILES SERVER");
        return ExitCode::from(2);
    };
    let text = std::fs::read_to_string(profiles).expect("the profiles can be read");
    let profiles: Value = serde_json::from_str(&text).expect("the profiles are JSON");
    let profile = &profiles[server];
    let mut report = Report::default();
    let handler = Handler::default();
    let opened = report.check("initialize", open(handler.clone(), url)).await;
    if let Some(client) = opened {
        let checks = Checks { client: &client, inbox: &handler.0, profile };
        checks.all(&mut report, probes && profile["modern"] == true).await;
        if !client.peer_info().is_some_and(|info| info.protocol_version.as_str() == MODERN_VERSION) {
            report.check("two sessions", checks.two_sessions(&open, url)).await;
        }
        report.check("close", async { client.cancel().await.map(drop).map_err(|error| error.to_string()) }).await;
    }
    ExitCode::from(u8::from(report.failed))
}

/// Prints one line for each check.
#[derive(Default)]
struct Report {
    failed: bool,
}

impl Report {
    async fn check<T>(&mut self, name: &str, check: impl Future<Output = Checked<T>>) -> Option<T> {
        let outcome = timeout(LIMIT, check).await.unwrap_or_else(|_| Err(format!("not within {LIMIT:?}")));
        match outcome {
            Ok(value) => {
                println!("ok {name}");
                Some(value)
            }
            Err(reason) => {
                self.failed = true;
                println!("fail {name}: {}", reason.split_whitespace().collect::<Vec<_>>().join(" "));
                None
            }
        }
    }
}

/// What the server sent without being asked, and what the client answers when it is asked.
#[derive(Default)]
struct Inbox {
    progress: Mutex<Vec<f64>>,
    log_messages: AtomicUsize,
    updates: AtomicUsize,
    elicited: AtomicUsize,
    roots_listed: AtomicBool,
    declines: AtomicBool,
}

impl Inbox {
    fn progress(&self) -> Vec<f64> {
        self.progress.lock().expect("not poisoned").clone()
    }

    fn forget_progress(&self) {
        self.progress.lock().expect("not poisoned").clear();
    }

    fn count(&self, method: &str) -> usize {
        match method {
            "notifications/message" => self.log_messages.load(Ordering::Relaxed),
            "notifications/resources/updated" => self.updates.load(Ordering::Relaxed),
            other => panic!("{other} is not counted"),
        }
    }
}

#[derive(Clone, Default)]
pub struct Handler(Arc<Inbox>);

impl ClientHandler for Handler {
    fn get_info(&self) -> InitializeRequestParams {
        model(json!({
            "protocolVersion": VERSION,
            "capabilities": {"elicitation": {"form": {}}, "sampling": {}, "roots": {"listChanged": true}},
            "clientInfo": {"name": "interop", "version": "1"},
        }))
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.0.elicited.fetch_add(1, Ordering::Relaxed);
        if self.0.declines.load(Ordering::Relaxed) {
            return Ok(model(json!({"action": "decline"})));
        }
        let params = serde_json::to_value(params).expect("what was received can be written");
        let schema = &params["requestedSchema"];
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let mut fields: Vec<&str> = required.collect();
        if fields.is_empty() {
            let texts = schema["properties"].as_object().into_iter().flatten();
            fields = texts.filter(|(_, field)| field["type"] == "string").map(|(name, _)| &**name).take(1).collect();
        }
        let content: serde_json::Map<_, _> = fields.into_iter().map(|name| (name.to_owned(), json!(ANSWER))).collect();
        Ok(model(json!({"action": "accept", "content": content})))
    }

    async fn create_message(
        &self,
        _params: CreateMessageRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        Ok(model(json!({"role": "assistant", "model": "interop", "content": {"type": "text", "text": ANSWER}})))
    }

    async fn list_roots(&self, _context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.0.roots_listed.store(true, Ordering::Relaxed);
        Ok(model(json!({"roots": [{"uri": ROOT, "name": "interop"}]})))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _context: NotificationContext<RoleClient>) {
        self.0.progress.lock().expect("not poisoned").push(params.progress);
    }

    async fn on_logging_message(
        &self,
        _params: LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.0.log_messages.fetch_add(1, Ordering::Relaxed);
    }

    async fn on_resource_updated(
        &self,
        _params: ResourceUpdatedNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.0.updates.fetch_add(1, Ordering::Relaxed);
    }
}

struct Checks<'a> {
    client: &'a Client,
    inbox: &'a Inbox,
    profile: &'a Value,
}

impl Checks<'_> {
    async fn all(&self, report: &mut Report, modern: bool) {
        report.check("version", async { self.version(if modern { MODERN_VERSION } else { VERSION }) }).await;
        report.check("tools", self.tools()).await;
        report.check("call", call(self.client, &self.profile["call"])).await;
        report.check("error", self.error()).await;
        if let Some(step) = self.step("large") {
            report.check("large result", call(self.client, step)).await;
        }
        if let Some(step) = self.step("parallel") {
            report.check("parallel calls", self.parallel(step)).await;
        }
        if let Some(step) = self.step("progress") {
            report.check("progress", self.progress(step)).await;
        }
        if let Some(step) = self.step("log").filter(|_| !modern) {
            report.check("log messages", self.notes(step, "notifications/message")).await;
        }
        if let Some(step) = self.step("standalone").filter(|_| !modern) {
            report.check("GET notifications", self.standalone(step)).await;
        }
        if self.step("resources").is_some() {
            report.check("resources", self.resources()).await;
        }
        if let Some(step) = self.step("roots") {
            report.check("roots", self.roots(step)).await;
        }
        if let Some(step) = self.step("elicitation") {
            report.check("elicitation", self.elicitation(step)).await;
        }
        if let Some(step) = self.step("sampling") {
            report.check("sampling", contains(self.client, step, ANSWER)).await;
        }
        if let Some(step) = self.step("cancel") {
            report.check("cancel", self.cancel(step)).await;
        }
        if let Some(step) = self.step("polled") {
            let name = if modern { "call on one connection" } else { "call resumed" };
            report.check(name, self.polled(step)).await;
        }
        if self.step("sessionless").is_some() && modern {
            report.check("nothing is kept", self.nothing_is_kept()).await;
        }
    }

    fn step(&self, name: &str) -> Option<&Value> {
        self.profile.get(name)
    }

    fn version(&self, wanted: &str) -> Checked {
        let info = self.client.peer_info().ok_or("the server is not known")?;
        expect(info.protocol_version.as_str() == wanted, || format!("spoken: {}", info.protocol_version))
    }

    async fn tools(&self) -> Checked {
        let listed = self.client.list_all_tools().await.map_err(text)?;
        for tool in self.profile["tools"].as_array().into_iter().flatten() {
            expect(listed.iter().any(|listed| *tool == *listed.name), || format!("missing: {tool}"))?;
        }
        Ok(())
    }

    async fn error(&self) -> Checked {
        match self.client.call_tool(CallToolRequestParams::new("no-such-tool")).await {
            Ok(result) => expect(result.is_error == Some(true), || "an unknown tool has answered".to_owned()),
            Err(error) => expect(error.to_string().contains("no-such-tool"), || format!("names no tool: {error}")),
        }
    }

    async fn parallel(&self, step: &Value) -> Checked {
        let prefix = step["prefix"].as_str().unwrap_or_default();
        let one = async |n: u32| {
            let given = format!("number {n}");
            let step = json!({
                "tool": step["tool"],
                "arguments": {step["argument"].as_str().unwrap_or_default(): given},
                "equals": format!("{prefix}{given}"),
            });
            call(self.client, &step).await
        };
        let (a, b, c, d) = tokio::join!(one(1), one(2), one(3), one(4));
        [a, b, c, d].into_iter().collect::<Checked<Vec<_>>>().map(drop)
    }

    async fn progress(&self, step: &Value) -> Checked {
        self.inbox.forget_progress();
        call(self.client, step).await?;
        let seen = self.inbox.progress().len();
        expect(seen as u64 >= step["at_least"].as_u64().unwrap_or(1), || format!("{seen} notifications"))
    }

    async fn notes(&self, step: &Value, method: &str) -> Checked {
        let enough = self.inbox.count(method) + step["at_least"].as_u64().unwrap_or(1) as usize;
        call(self.client, step).await?;
        until(|| self.inbox.count(method) >= enough, "the notifications").await
    }

    async fn standalone(&self, step: &Value) -> Checked {
        if let Some(uri) = step["subscribe"].as_str() {
            self.client.subscribe(model::<SubscribeRequestParams>(json!({"uri": uri}))).await.map_err(text)?;
        }
        self.notes(step, step["method"].as_str().unwrap_or_default()).await
    }

    async fn resources(&self) -> Checked {
        let listed = self.client.list_all_resources().await.map_err(text)?;
        let first = listed.first().ok_or("no resource is listed")?;
        let uri = serde_json::to_value(first).map_err(text)?["uri"].clone();
        let read = self.client.read_resource(model::<ReadResourceRequestParams>(json!({"uri": uri}))).await;
        expect(!read.map_err(text)?.contents.is_empty(), || format!("{uri} is empty"))
    }

    async fn roots(&self, step: &Value) -> Checked {
        until(|| self.inbox.roots_listed.load(Ordering::Relaxed), "the server asked for the roots").await?;
        contains(self.client, step, ROOT).await
    }

    async fn elicitation(&self, step: &Value) -> Checked {
        contains(self.client, step, ANSWER).await?;
        self.inbox.declines.store(true, Ordering::Relaxed);
        let said = call(self.client, step).await?;
        expect(!said.contains(ANSWER), || "a declined elicitation was answered".to_owned())?;
        let asked = self.inbox.elicited.load(Ordering::Relaxed);
        expect(asked == 2, || format!("asked {asked} times"))
    }

    /// Nothing comes of a call any more once it is cancelled, and the next one works.
    async fn cancel(&self, step: &Value) -> Checked {
        self.inbox.forget_progress();
        let request = ClientRequest::from(CallToolRequest::new(parameters(step)));
        let running = self.client.send_cancellable_request(request, PeerRequestOptions::no_options());
        let running = running.await.map_err(text)?;
        until(|| !self.inbox.progress().is_empty(), "the first progress of the call").await?;
        running.cancel(Some("changed its mind".to_owned())).await.map_err(text)?;
        call(self.client, &self.profile["call"]).await?;
        let before = self.inbox.progress().len();
        sleep(Duration::from_secs(1)).await;
        expect(self.inbox.progress().len() == before, || "progress of the cancelled call went on".to_owned())
    }

    /// A call that takes longer than connections live: its progress and its result arrive, each once and in order.
    async fn polled(&self, step: &Value) -> Checked {
        self.inbox.forget_progress();
        call(self.client, step).await?;
        let values = self.inbox.progress();
        let unit = step["step"].as_f64().unwrap_or(1.0);
        let (last, between) = values.split_last().ok_or("no progress")?;
        let whole = between.iter().zip(1..).all(|(value, n)| (value / unit - f64::from(n)).abs() < 0.01);
        expect(whole, || format!("progress was lost, repeated or out of order: {values:?}"))?;
        expect(step["last"].as_f64() == Some(*last), || format!("the last progress is {last}"))?;
        expect(values.len() as u64 >= step["at_least"].as_u64().unwrap_or(1), || format!("{} values", values.len()))
    }

    async fn nothing_is_kept(&self) -> Checked {
        for _ in 0..2 {
            call(self.client, &json!({"tool": "count", "arguments": {}, "equals": "1"})).await?;
        }
        Ok(())
    }

    async fn two_sessions(&self, open: &impl AsyncFn(Handler, &str) -> Checked<Client>, url: &str) -> Checked {
        let other = open(Handler::default(), url).await?;
        for step in self.profile["sessions"].as_array().into_iter().flatten() {
            call(if step["session"] == 2 { &other } else { self.client }, step).await?;
        }
        other.cancel().await.map_err(text)?;
        call(self.client, &self.profile["call"]).await.map(drop)
    }
}

async fn contains(client: &Client, step: &Value, wanted: &str) -> Checked {
    let said = call(client, step).await?;
    expect(said.contains(wanted), || format!("{wanted:?} is not in {said:?}"))
}

async fn call(client: &Client, step: &Value) -> Checked<String> {
    let result = client.call_tool(parameters(step)).await.map_err(text)?;
    let result = serde_json::to_value(result).map_err(text)?;
    let parts = result["content"].as_array().into_iter().flatten();
    let said = parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n");
    let start: String = said.chars().take(200).collect();
    expect(result["isError"] != true, || format!("the tool reported an error: {start}"))?;
    if let Some(wanted) = step["equals"].as_str() {
        expect(said == wanted, || format!("got {start:?} instead of {wanted:?}"))?;
    }
    if let Some(wanted) = step["contains"].as_str() {
        expect(said.contains(wanted), || format!("{wanted:?} is not in {start:?}"))?;
    }
    if let Some(wanted) = step["length"].as_u64() {
        expect(said.len() as u64 == wanted, || format!("got {} bytes instead of {wanted}", said.len()))?;
    }
    Ok(said)
}

fn parameters(step: &Value) -> CallToolRequestParams {
    model(json!({"name": step["tool"], "arguments": step["arguments"]}))
}

/// Types of the SDK can't be built by hand, since they may grow.
fn model<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a valid message")
}

async fn until(condition: impl Fn() -> bool, what: &str) -> Checked {
    for _ in 0..500 {
        if condition() {
            return Ok(());
        }
        sleep(Duration::from_millis(20)).await;
    }
    Err(format!("not within 10 s: {what}"))
}

fn expect(condition: bool, reason: impl FnOnce() -> String) -> Checked {
    if condition { Ok(()) } else { Err(reason()) }
}

fn text(error: impl ToString) -> String {
    error.to_string()
}
