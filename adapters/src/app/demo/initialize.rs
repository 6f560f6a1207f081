//! The beginning of a session: what the server says of itself.

use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use sessile_core::{Message, ProtocolVersion};

use super::result::SERVER;
use super::{DemoState, INVALID_PARAMS};
use crate::app::{Context, Reply};

/// `initialize`. Notes what the client can be asked.
pub(super) fn initialize(context: &Context<DemoState>, message: &Message) -> Reply {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        protocol_version: String,
        capabilities: Capabilities,
    }
    let params: Params = match message.params() {
        Ok(params) => params,
        Err(error) => return context.error(INVALID_PARAMS, &format!("Invalid params: {error}")),
    };
    params.capabilities.note(context.state());
    context.result(&json!({
        "protocolVersion": negotiate(&params.protocol_version).as_str(),
        "capabilities": { "completions": {}, "logging": {}, "prompts": {}, "resources": {}, "tools": {} },
        "serverInfo": SERVER,
        "instructions": INSTRUCTIONS,
    }))
}

/// What the client can be asked.
#[derive(Deserialize)]
pub(super) struct Capabilities {
    elicitation: Option<Elicitation>,
    sampling: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Elicitation {
    form: Option<IgnoredAny>,
    url: Option<IgnoredAny>,
}

impl Capabilities {
    pub(super) fn note(&self, state: &DemoState) {
        // A client that names neither mode means forms, since there was no other until 2025-11-25.
        let forms = self.elicitation.as_ref().is_some_and(|modes| modes.form.is_some() || modes.url.is_none());
        state.elicitation.store(forms, Ordering::Relaxed);
        state.sampling.store(self.sampling.is_some(), Ordering::Relaxed);
    }
}

/// The revision that was asked for if it is served, else the newest with sessions.
fn negotiate(asked: &str) -> ProtocolVersion {
    let [newest, ..] = ProtocolVersion::LEGACY;
    ProtocolVersion::LEGACY.into_iter().find(|version| version.as_str() == asked).unwrap_or(newest)
}

const INSTRUCTIONS: &str = "A server for trying MCP clients and connections. `echo` shows that calls work, `count` that a session \
keeps its state, `slow` that progress and cancellation do, `notify` and `log` that notifications arrive, `ask` and `sample` that \
the client can be asked. `crash` ends the session.";
