//! The demo server: small, complete, and needing nothing else, so that any client can be tried against it.
//!
//! Owns what the server offers (tools, one resource, log messages) and answers by the schemas of the legacy revisions. `catalogue`
//! describes the tools, `tools` reads their arguments and answers those that answer at once, `waiting` runs those that take
//! time, `log` sends log messages.

mod catalogue;
mod log;
mod tools;
mod waiting;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use log::Level;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sessile_core::{Message, ProtocolVersion};
use waiting::Waiting;

use super::{Context, Handler, Reply, SessionInfo};

/// A server to try clients with. Its tools echo, count, wait, send log messages, ask the client and crash.
///
/// ```
/// # #[cfg(feature = "tokio")]
/// # async fn serve() -> Result<(), Box<dyn std::error::Error>> {
/// use sessile::app::Demo;
/// use sessile::runtime::tokio::Tokio;
///
/// let manager = sessile::Builder::new(Tokio::current()).handler(Demo::new()).build()?;
/// manager.start()?;
/// let service = manager.service()?;
/// # let _ = service;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Demo;

impl Demo {
    /// Makes the server. All clones and copies are alike: what is kept is kept for each session.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

/// What the demo server keeps for a session.
#[derive(Debug, Default)]
pub struct DemoState {
    count: AtomicU64,
    /// Whether the client can show a form to its user.
    elicitation: AtomicBool,
    level: AtomicU8,
    /// Whether the client can ask a model.
    sampling: AtomicBool,
}

const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
/// The legacy revisions' own code; the modern one uses that of invalid parameters.
const RESOURCE_NOT_FOUND: i32 = -32002;

/// How a request is answered.
enum Answer {
    Now(Reply),
    Later(Waiting),
}

impl Handler for Demo {
    type State = DemoState;

    fn open(&self, _: &SessionInfo) -> DemoState {
        DemoState::default()
    }

    async fn call(&self, context: Context<DemoState>, message: Message) -> Reply {
        match answer(&context, &message) {
            Answer::Now(reply) => reply,
            Answer::Later(waiting) => {
                drop(message);
                // In a box of its own, so that the future of a call that answers at once stays small.
                Box::pin(waiting.run(context)).await
            }
        }
    }
}

fn answer(context: &Context<DemoState>, message: &Message) -> Answer {
    // Nothing that a notification says changes anything here: the session itself drops a call that is cancelled.
    let Some(request) = message.as_request() else { return Answer::Now(Reply::none()) };
    Answer::Now(match &*request.method {
        "tools/call" => return tools::call(context, message),
        "initialize" => initialize(context, message),
        "logging/setLevel" => set_level(context, message),
        "ping" => context.result(&json!({})),
        "resources/list" => page(context, message, || json!({ "resources": [about()] })),
        "resources/read" => read_resource(context, message),
        "resources/templates/list" => page(context, message, || json!({ "resourceTemplates": [] })),
        "tools/list" => page(context, message, || json!({ "tools": catalogue::TOOLS })),
        unknown => context.error(METHOD_NOT_FOUND, &format!("Method not found: {unknown}")),
    })
}

fn initialize(context: &Context<DemoState>, message: &Message) -> Reply {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_version: String,
        capabilities: Capabilities,
    }
    #[derive(Deserialize)]
    struct Capabilities {
        elicitation: Option<Elicitation>,
        sampling: Option<IgnoredAny>,
    }
    #[derive(Deserialize)]
    struct Elicitation {
        form: Option<IgnoredAny>,
        url: Option<IgnoredAny>,
    }
    let params: Params = match message.params() {
        Ok(params) => params,
        Err(error) => return context.error(INVALID_PARAMS, &format!("Invalid params: {error}")),
    };
    let state = context.state();
    // A client that names neither mode means forms, since there was no other until 2025-11-25.
    let forms = params.capabilities.elicitation.is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
    state.elicitation.store(forms, Ordering::Relaxed);
    state.sampling.store(params.capabilities.sampling.is_some(), Ordering::Relaxed);
    context.result(&json!({
        "protocolVersion": negotiate(&params.protocol_version).as_str(),
        "capabilities": { "logging": {}, "resources": {}, "tools": {} },
        "serverInfo": { "name": "sessile-demo", "title": "Sessile demo", "version": env!("CARGO_PKG_VERSION") },
        "instructions": INSTRUCTIONS,
    }))
}

/// The revision that was asked for if it is served, else the newest with sessions.
fn negotiate(asked: &str) -> ProtocolVersion {
    let [newest, ..] = ProtocolVersion::LEGACY;
    ProtocolVersion::LEGACY.into_iter().find(|version| version.as_str() == asked).unwrap_or(newest)
}

fn set_level(context: &Context<DemoState>, message: &Message) -> Reply {
    #[derive(Deserialize)]
    struct Params {
        level: Level,
    }
    match message.params() {
        Ok(Params { level }) => {
            context.state().level.store(level as u8, Ordering::Relaxed);
            context.result(&json!({}))
        }
        Err(_) => context.error(INVALID_PARAMS, &format!("level must be one of {}", Level::NAMES.join(", "))),
    }
}

/// A list that fits on one page, so that no cursor was ever given out.
fn page<T: Serialize>(context: &Context<DemoState>, message: &Message, all: impl FnOnce() -> T) -> Reply {
    #[derive(Deserialize)]
    struct Params {
        cursor: Option<IgnoredAny>,
    }
    match message.params() {
        Ok(Params { cursor: None }) => context.result(&all()),
        Ok(Params { cursor: Some(_) }) => context.error(INVALID_PARAMS, "Unknown cursor: all is on the first page"),
        Err(error) => context.error(INVALID_PARAMS, &format!("Invalid params: {error}")),
    }
}

const ABOUT_URI: &str = "demo://about";

fn about() -> serde_json::Value {
    json!({
        "uri": ABOUT_URI,
        "name": "about",
        "title": "About this server",
        "description": "What the demo server is and what can be tried with it.",
        "mimeType": "text/plain",
        "size": ABOUT.len(),
    })
}

fn read_resource(context: &Context<DemoState>, message: &Message) -> Reply {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    match message.params() {
        Ok(Params { uri }) if uri == ABOUT_URI => context.result(&json!({
            "contents": [{ "uri": ABOUT_URI, "mimeType": "text/plain", "text": ABOUT }],
        })),
        Ok(Params { uri }) => context.error(RESOURCE_NOT_FOUND, &format!("Resource not found: {uri}")),
        Err(_) => context.error(INVALID_PARAMS, "uri is required and must be a string"),
    }
}

const INSTRUCTIONS: &str = "A server for trying MCP clients and connections. `echo` shows that calls work, `count` that a session \
keeps its state, `slow` that progress and cancellation do, `notify` and `log` that notifications arrive, `ask` and `sample` that \
the client can be asked. `crash` ends the session.";

const ABOUT: &str = "\
This is the demo server of Sessile, which serves Model Context Protocol servers over Streamable HTTP, one session for each client.

Things to try:
- call `echo`, then `big` for a large answer;
- call `count` from two clients: each session counts for itself;
- call `slow` with a progress token, and cancel it half-way;
- open a GET stream and call `notify`; its messages arrive there, those of `log` on the stream of the call;
- set the logging level to `warning` and call them again: nothing arrives;
- call `ask` or `sample`: the server asks the client while the call waits;
- call `crash`: the session ends with an error, and from then on its id is unknown.
";
