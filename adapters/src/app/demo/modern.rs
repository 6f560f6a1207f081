//! The modern era (2026-07-28): what each request says of its client, and what the server says of itself.

use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::{Value, json};
use sessile_core::{Message, ProtocolVersion};

use super::initialize::Capabilities;
use super::log::Level;
use super::result::{Cache, cacheable};
use super::{DemoState, INVALID_PARAMS};
use crate::app::{Context, Reply};

/// Notes what a request says of its client, which nothing but this request knows.
///
/// # Errors
///
/// The refusal of a request that doesn't say it well. What it must say is for the gate to demand.
pub(super) fn note(context: &Context<DemoState>, message: &Message) -> Result<(), Reply> {
    #[derive(Deserialize)]
    struct Params {
        #[serde(default, rename = "_meta")]
        meta: Meta,
    }
    #[derive(Default, Deserialize)]
    struct Meta {
        #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
        capabilities: Option<Capabilities>,
        #[serde(rename = "io.modelcontextprotocol/logLevel")]
        level: Option<Value>,
    }
    let Params { meta } =
        message.params().map_err(|error| context.error(INVALID_PARAMS, &format!("Invalid params: {error}")))?;
    if let Some(capabilities) = meta.capabilities {
        capabilities.note(context.state());
    }
    if let Some(level) = meta.level {
        let level = Level::deserialize(level).map_err(|_| {
            let names = Level::NAMES.join(", ");
            context.error(INVALID_PARAMS, &format!("io.modelcontextprotocol/logLevel must be one of {names}"))
        })?;
        context.state().level.store(level as u8, Ordering::Relaxed);
    }
    Ok(())
}

/// `server/discover`.
pub(super) fn discover(context: &Context<DemoState>) -> Reply {
    let capabilities =
        json!({ "completions": {}, "logging": {}, "prompts": {}, "resources": { "subscribe": true }, "tools": {} });
    let result = json!({
        "supportedVersions": ProtocolVersion::MODERN.map(ProtocolVersion::as_str),
        "capabilities": capabilities,
        "instructions": INSTRUCTIONS,
    });
    cacheable(context, &result, Cache::LONG)
}

const INSTRUCTIONS: &str = "A server for trying MCP clients and connections. `echo` shows that calls work, `slow` that progress and \
cancellation do, `log` that notifications arrive, `ask` and `sample` that the client can be asked, `touch` that changes of `demo://touched` are heard of. Nothing is kept from one request \
to the next, as `count` shows.";
