//! The demo server: small, complete, and needing nothing else, so that any client can be tried against it.
//!
//! Owns what the server offers (tools, resources, a prompt, completion, log messages) and answers by the schemas of both eras: what
//! each offers is the same but where the protocol differs. `result` adds what results of the modern era say of themselves, `initialize`
//! and `modern` are how a conversation begins. `catalogue` describes the tools, `tools` reads their arguments and answers those that
//! answer at once, `waiting` runs those that take time, `log` sends log messages. `question` is what the client is asked, and `input`
//! how it is asked without a session; `listen` tells of what `touched` counts.

mod catalogue;
mod completion;
mod initialize;
mod input;
mod listen;
mod log;
mod modern;
mod prompts;
mod question;
mod resources;
mod result;
mod seal;
mod tools;
mod touched;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};

use result::{Cache, cacheable, is_modern};
use seal::Seal;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use sessile_core::session::Kind;
use sessile_core::{Eras, Message};
use touched::Touched;
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
#[derive(Clone, Debug, Default)]
pub struct Demo(Arc<Shared>);

impl Demo {
    /// Makes the server. All clones are the same server.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// What all sessions and requests have in common.
#[derive(Debug, Default)]
struct Shared {
    seal: Seal,
    touched: Touched,
}

/// What the demo server keeps for a session, or knows of a request without one.
#[derive(Debug)]
pub struct DemoState {
    count: AtomicU64,
    /// Whether the client can show a form to its user.
    elicitation: AtomicBool,
    /// The least severity of the log messages that the client wants.
    level: AtomicU8,
    /// Whether the client can ask a model.
    sampling: AtomicBool,
    shared: Arc<Shared>,
}

const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

/// How a request is answered.
enum Answer {
    Now(Reply),
    Later(Waiting),
}

impl Handler for Demo {
    type State = DemoState;

    fn eras(&self) -> Eras {
        Eras::BOTH
    }

    fn open(&self, session: &SessionInfo) -> DemoState {
        // Without sessions, a request that doesn't ask for log messages gets none.
        let level = if session.kind() == Kind::Modern { log::SILENT } else { 0 };
        DemoState {
            count: AtomicU64::new(0),
            elicitation: AtomicBool::new(false),
            level: AtomicU8::new(level),
            sampling: AtomicBool::new(false),
            shared: Arc::clone(&self.0),
        }
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
    if is_modern(context)
        && let Err(refusal) = modern::note(context, message)
    {
        return Answer::Now(refusal);
    }
    match &*request.method {
        "subscriptions/listen" if is_modern(context) => listen::listen(context, message),
        "tools/call" => tools::call(context, message),
        "completion/complete" => Answer::Now(completion::complete(context, message)),
        "prompts/get" => Answer::Now(prompts::get(context, message)),
        "prompts/list" => page(context, message, prompts::list),
        "resources/list" => page(context, message, || resources::list(is_modern(context))),
        "resources/read" => Answer::Now(resources::read(context, message)),
        "resources/templates/list" => page(context, message, resources::templates),
        "tools/list" => page(context, message, || catalogue::list(is_modern(context))),
        of_one_era => Answer::Now(match (of_one_era, is_modern(context)) {
            ("initialize", false) => initialize::initialize(context, message),
            ("logging/setLevel", false) => log::set_level(context, message),
            ("ping", false) => context.result(&json!({})),
            ("server/discover", true) => modern::discover(context),
            (unknown, _) => context.error(METHOD_NOT_FOUND, &format!("Method not found: {unknown}")),
        }),
    }
}

/// A list that fits on one page, so that no cursor was ever given out.
fn page(context: &Context<DemoState>, message: &Message, all: impl FnOnce() -> Value) -> Answer {
    #[derive(Deserialize)]
    struct Params {
        cursor: Option<IgnoredAny>,
    }
    Answer::Now(match message.params() {
        Ok(Params { cursor: None }) => cacheable(context, &all(), Cache::LONG),
        Ok(Params { cursor: Some(_) }) => context.error(INVALID_PARAMS, "Unknown cursor: all is on the first page"),
        Err(error) => context.error(INVALID_PARAMS, &format!("Invalid params: {error}")),
    })
}
