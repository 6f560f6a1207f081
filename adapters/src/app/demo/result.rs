//! Results in the words of the era that their request is of.
//!
//! Owns what every result of the modern era says of itself: its type, the server, and for how long it may be kept (2026-07-28, basic,
//! responses; caching). In the legacy era a result is what it is, and nothing is added.

use serde::Serialize;
use sessile_core::session::Kind;

use super::DemoState;
use crate::app::{Context, Reply};

/// Whether the request is of the era without sessions.
pub(super) fn is_modern(context: &Context<DemoState>) -> bool {
    context.session().kind() == Kind::Modern
}

/// The server, as it names itself.
#[derive(Serialize)]
pub(super) struct Server {
    name: &'static str,
    title: &'static str,
    version: &'static str,
}

pub(super) const SERVER: Server =
    Server { name: "sessile-demo", title: "Sessile demo", version: env!("CARGO_PKG_VERSION") };

/// For how long a result may be kept, by anybody: nothing that may be kept depends on who asks.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Cache {
    ttl_ms: u32,
    cache_scope: &'static str,
}

impl Cache {
    /// What changes with the server's version alone.
    pub(super) const LONG: Self = Self { ttl_ms: 300_000, cache_scope: "public" };
    /// What may change at any time.
    pub(super) const NONE: Self = Self { ttl_ms: 0, ..Self::LONG };
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Modern<'a, T: ?Sized> {
    result_type: &'static str,
    #[serde(flatten)]
    result: &'a T,
    #[serde(flatten)]
    cache: Option<Cache>,
    #[serde(rename = "_meta")]
    meta: Meta,
}

#[derive(Serialize)]
struct Meta {
    #[serde(rename = "io.modelcontextprotocol/serverInfo")]
    server: Server,
}

/// The result of a request that has been done.
pub(super) fn complete<T: Serialize + ?Sized>(context: &Context<DemoState>, result: &T) -> Reply {
    with(context, result, "complete", None)
}

/// The same where the schema of the modern era has the client told for how long it may keep it.
pub(super) fn cacheable<T: Serialize + ?Sized>(context: &Context<DemoState>, result: &T, cache: Cache) -> Reply {
    with(context, result, "complete", Some(cache))
}

/// What a request has come to that the client has to be asked for: only in the modern era.
pub(super) fn input_required<T: Serialize + ?Sized>(context: &Context<DemoState>, result: &T) -> Reply {
    with(context, result, "input_required", None)
}

fn with<T: Serialize + ?Sized>(
    context: &Context<DemoState>,
    result: &T,
    result_type: &'static str,
    cache: Option<Cache>,
) -> Reply {
    if is_modern(context) {
        context.result(&Modern { result_type, result, cache, meta: Meta { server: SERVER } })
    } else {
        context.result(result)
    }
}
