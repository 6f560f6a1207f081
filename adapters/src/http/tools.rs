//! Which parameters of tools are repeated in headers (`Mcp-Param-*`; 2026-07-28, transports, custom headers from tool parameters).
//!
//! Owns asking the app and remembering what it said. The rules of the comparison are the core's: [`ToolHeaders`].

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::request::Parts;
use http_body::Body as _;
use serde::Deserialize;
use serde_json::value::RawValue;
use sessile_core::config::ResponseMode;
use sessile_core::session::Kind;
use sessile_core::{Message, Outcome, Page, ToolHeaders};

use super::service::Open;
use crate::app::Backend;
use crate::manager::Shared;
use crate::principal::Principal;
use crate::runtime::{Runtime, timeout_at};

/// How long the app may take to list its tools before a call goes on unchecked.
const LIST_TIME: Duration = Duration::from_secs(5);
/// How many pages of the list are read.
const MAX_PAGES: usize = 64;
/// Of how many principals the list is remembered.
const MAX_PRINCIPALS: usize = 1_024;

/// The lists of tools, one for each principal, since an app may show each of them other tools.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    known: Mutex<HashMap<Principal, Arc<ToolHeaders>>>,
    skipped: AtomicU64,
}

impl Tools {
    /// How many calls were let through unchecked, since the list of tools could not be had.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }

    fn of(&self, principal: &Principal) -> Option<Arc<ToolHeaders>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(principal).cloned()
    }

    fn remember(&self, principal: &Principal, list: ToolHeaders) -> Arc<ToolHeaders> {
        let list = Arc::new(list);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_PRINCIPALS {
            known.clear();
        }
        known.insert(principal.clone(), Arc::clone(&list));
        list
    }
}

/// Checks the headers of a call of a tool. The list is asked for when it is first needed, and again before a call is refused by what
/// may have changed since.
pub(super) async fn check<R: Runtime, B: Backend>(
    shared: &Arc<Shared<R, B>>,
    parts: &Parts,
    principal: &Principal,
    call: &Message,
) -> Result<(), Outcome> {
    if call.method() != Some("tools/call") {
        return Ok(());
    }
    if let Some(known) = shared.tools.of(principal)
        && known.check(&parts.headers, call).is_ok()
    {
        return Ok(());
    }
    let until = shared.runtime.now().saturating_add(LIST_TIME);
    match timeout_at(&shared.runtime, until, list(shared, parts, principal, call)).await.flatten() {
        Some(list) => shared.tools.remember(principal, list).check(&parts.headers, call),
        None => {
            shared.tools.skipped.fetch_add(1, Ordering::Relaxed);
            tracing::debug!("the list of tools can't be had: the headers of a call are not checked");
            Ok(())
        }
    }
}

/// Asks the app for its tools as the caller would: what it may see depends on who it is.
async fn list<R: Runtime, B: Backend>(
    shared: &Arc<Shared<R, B>>,
    parts: &Parts,
    principal: &Principal,
    call: &Message,
) -> Option<ToolHeaders> {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow, rename = "_meta")]
        meta: &'a RawValue,
    }
    let meta = call.params::<Params<'_>>().ok()?.meta.get();
    let mut list = ToolHeaders::default();
    let mut cursor = String::new();
    for _ in 0..MAX_PAGES {
        let request =
            format!(r#"{{"jsonrpc":"2.0","id":"sessile","method":"tools/list","params":{{"_meta":{meta}{cursor}}}}}"#);
        let request = Message::parse(request.into()).ok()?;
        let open = Open { hub: &shared.requests, kind: Kind::Modern, mode: ResponseMode::Json, ours: true };
        let response = open.serve(shared, parts.clone(), principal, request).await;
        let mut body = pin!(response.into_body());
        // One body, in JSON mode.
        let frame = poll_fn(|cx| body.as_mut().poll_frame(cx)).await?.ok()?;
        let answer = Message::parse(frame.into_data().ok()?).ok()?;
        match list.learn(&answer) {
            Page::Last => return Some(list),
            Page::More(next) => cursor = format!(r#","cursor":{}"#, serde_json::to_string(&*next).ok()?),
            // It has none, or won't say: there is nothing to ask again for.
            Page::Unreadable => {
                shared.tools.skipped.fetch_add(1, Ordering::Relaxed);
                return Some(ToolHeaders::default());
            }
        }
    }
    None
}
