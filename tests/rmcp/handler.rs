//! The handler of these suites. Its tools wait for what the test says, and tell the test what has become of them.

// Logging, sampling and roots are deprecated since 2026-07-28; the older versions have them.
#![allow(deprecated, reason = "both eras are tested")]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use http::request::Parts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InitializeRequestParams, InitializeResult,
    ListToolsResult, LoggingLevel, LoggingMessageNotification, LoggingMessageNotificationParam, PaginatedRequestParams,
    ProgressNotificationParam, ServerCapabilities, ServerConfig, ServerNotification, SubscriptionFilter,
};
use rmcp::service::{OriginatingRequestId, RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::{ErrorData, Peer, RoleServer, ServerHandler};
use serde_json::json;
use sessile::app::{RmcpApp, SessionInfo, Tasks};
use sessile::core::Config;
use sessile::http::McpService;
use sessile::runtime::tokio::Tokio;
use sessile::{Builder, Manager, Principal};
use tokio::sync::{Notify, mpsc};

/// What handlers share with their test.
#[derive(Debug)]
pub(crate) struct Stage {
    /// How many handlers were made.
    pub(crate) made: AtomicUsize,
    /// The peer of the last call of `keep`.
    pub(crate) peer: Mutex<Option<Peer<RoleServer>>>,
    /// The last subscription.
    pub(crate) sink: Mutex<Option<SubscriptionSink>>,
    /// What calls of `wait` and `ask` wait for.
    pub(crate) go: Notify,
    events: mpsc::UnboundedSender<String>,
}

/// What has become of calls, as they tell it.
pub(crate) type Events = mpsc::UnboundedReceiver<String>;

#[derive(Debug)]
pub(crate) struct Handler {
    stage: Arc<Stage>,
    calls: AtomicUsize,
}

type Context = RequestContext<RoleServer>;
pub(crate) type Service = McpService<Tokio, Tasks<RmcpApp<Handler>>>;

pub(crate) fn stage() -> (Arc<Stage>, Events) {
    let (events, receiver) = mpsc::unbounded_channel();
    let (made, peer, sink, go) = Default::default();
    (Arc::new(Stage { made, peer, sink, go, events }), receiver)
}

pub(crate) fn app(stage: &Arc<Stage>) -> RmcpApp<Handler> {
    let stage = Arc::clone(stage);
    RmcpApp::new(move |_: &SessionInfo| {
        stage.made.fetch_add(1, Ordering::SeqCst);
        Ok(Handler { stage: Arc::clone(&stage), calls: AtomicUsize::new(0) })
    })
}

pub(crate) fn serve() -> (Service, Arc<Stage>, Events) {
    serve_with(Config::default())
}

pub(crate) fn serve_with(config: Config) -> (Service, Arc<Stage>, Events) {
    let (stage, events) = stage();
    let manager = Builder::new(Tokio::current()).app(app(&stage)).config(config).build().expect("good settings");
    (start(&manager), stage, events)
}

pub(crate) fn start(manager: &Manager<Tokio, Tasks<RmcpApp<Handler>>>) -> Service {
    manager.start().expect("started once");
    manager.service().expect("running")
}

/// Tells its test that it was dropped.
struct Dropped(Arc<Stage>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.tell("dropped");
    }
}

impl Stage {
    fn tell(&self, event: impl Into<String>) {
        // A test that has ended does not listen any more.
        let _ = self.events.send(event.into());
    }

    /// Waits for the test, unless the call is cancelled.
    async fn wait(&self, context: &Context) -> &'static str {
        self.tell("waits");
        let became = tokio::select! {
            () = self.go.notified() => "released",
            () = context.ct.cancelled() => "cancelled",
        };
        self.tell(became);
        became
    }
}

impl Handler {
    async fn log(&self, context: &Context, related: bool) {
        let param = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!("a line"));
        let mut note = LoggingMessageNotification::new(param);
        if related {
            note.extensions.insert(OriginatingRequestId(context.id.clone()));
        }
        let note = ServerNotification::LoggingMessageNotification(note);
        context.peer.send_notification(note).await.expect("the session is live");
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_logging();
        ServerConfig::new(capabilities.build())
    }

    async fn initialize(&self, request: InitializeRequestParams, _: Context) -> Result<InitializeResult, ErrorData> {
        match request.client_info.version.as_str() {
            "refuse" => return Err(ErrorData::invalid_params("I don't like you", None)),
            "stall" => {
                let _dropped = Dropped(Arc::clone(&self.stage));
                self.stage.tell("stalls");
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        self.negotiate_initialize(&request)
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: Context) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(Vec::new()))
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        let stage = &*self.stage;
        let text = match &*request.name {
            "count" => (self.calls.fetch_add(1, Ordering::SeqCst) + 1).to_string(),
            "version" => context.protocol_version().map(|version| version.to_string()).unwrap_or_default(),
            "client" => context.client_info().map(|client| client.name).unwrap_or_default(),
            "progress" => {
                let token = context.meta.get_progress_token().expect("the test gives one");
                for step in [1.0, 2.0] {
                    let param = ProgressNotificationParam::new(token.clone(), step);
                    context.peer.notify_progress(param).await.expect("the session is live");
                }
                "done".to_owned()
            }
            "log" => {
                self.log(&context, false).await;
                "logged".to_owned()
            }
            "wait-and-log" => {
                stage.wait(&context).await;
                self.log(&context, true).await;
                "logged".to_owned()
            }
            "wait" => stage.wait(&context).await.to_owned(),
            "ask" => match context.peer.list_roots().await {
                Ok(roots) => roots.roots.len().to_string(),
                Err(error) => error.to_string(),
            },
            "wait-and-ask" => {
                stage.wait(&context).await;
                context
                    .peer
                    .list_roots()
                    .await
                    .map_or_else(|error| error.to_string(), |all| all.roots.len().to_string())
            }
            "keep" => {
                *stage.peer.lock().unwrap() = Some(context.peer.clone());
                "kept".to_owned()
            }
            "whoami" => {
                let found = &context.extensions;
                let parts = found.get::<Parts>().expect("every message came by HTTP");
                let header = parts.headers.get("x-test").map(|value| value.to_str().expect("text").to_owned());
                let layer = parts.extensions.get::<Layered>().map(|layered| layered.0);
                let principal = found.get::<Principal>().expect("every request has one");
                let session = found.get::<SessionInfo>().expect("every request has one");
                json!([header, layer, principal.name(), session.principal().name(), format!("{:?}", session.kind())])
                    .to_string()
            }
            "panic" => panic!("as the test wants it"),
            name => return Err(ErrorData::invalid_params(format!("no tool {name}"), None)),
        };
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]).into())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        *self.stage.sink.lock().unwrap() = Some(subscription.sink().clone());
        self.stage.tell("listens");
        subscription.cancelled().await;
        self.stage.tell("listened");
        Ok(())
    }
}

/// What a layer before the service puts into the extensions of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layered(pub(crate) &'static str);
