//! Revision 2026-07-28, which has no sessions.

use std::time::Duration;

use http::Request;
use serde_json::json;
use sessile_core::Eras;
use sessile_tests::pure::Upload;

use crate::row::{UNKNOWN, post};
use crate::talk::{code, with};
use crate::world::{Setup, World};

const VERSION: &str = "2026-07-28";

/// A request of that revision.
pub(crate) fn request(method: &str) -> Request<Upload> {
    let message = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {"_meta": {
        "io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": {}}}});
    let request = with(post(None, &message.to_string()), "mcp-protocol-version", VERSION);
    with(request, "mcp-method", method)
}

pub(crate) async fn a_request_needs_no_session_and_ignores_one(world: World) {
    let site = world.site_with(|_| {});
    for request in [request("server/discover"), with(request("server/discover"), "mcp-session-id", UNKNOWN)] {
        let answer = site.ask(request).await;
        assert_eq!((answer.status(), answer.header("mcp-session-id")), (200, None));
    }
    assert_eq!(site.sessions(), 0);
}

pub(crate) async fn an_unknown_method_is_not_found(world: World) {
    let site = world.site_with(|_| {});
    for (method, status, expected) in
        [("nonsense", 404, -32601), ("wants-sampling", 400, -32021), ("wrong", 200, -32602)]
    {
        let mut call = site.send(request(method)).await;
        assert_eq!((code(&call.json().await), call.status()), (expected, status), "{method}");
    }
}

pub(crate) async fn headers_must_agree_with_the_body(world: World) {
    let site = world.site_with(|_| {});
    for (header, value) in [("mcp-method", "tools/list"), ("mcp-protocol-version", "2025-11-25")] {
        let mut call = site.send(with(request("server/discover"), header, value)).await;
        assert_eq!((code(&call.json().await), call.status()), (-32020, 400), "{header}");
    }
    assert_eq!(site.seen.facts().started, 0);
}

pub(crate) async fn where_only_sessions_are_served_it_is_told_so(world: World) {
    let site = world.site(Setup { eras: Eras::LEGACY, ..Setup::default() });
    let mut call = site.send(request("server/discover")).await;
    let error = call.json().await;
    assert_eq!((call.status(), code(&error)), (400, -32600));
    let text = error["error"]["message"].as_str().unwrap_or_default();
    assert!(text.contains("Unsupported protocol version"), "{text}");
    site.open().await;
}

pub(crate) async fn a_silent_request_is_kept_alive(world: World) {
    let site = world.site_with(|config| config.session.keep_alive = Duration::from_secs(15));
    let mut call = site.send(request("wait")).await;
    assert_eq!(world.within(Duration::from_secs(14), call.head()).await, None, "the status is the app's");
    assert_eq!(world.within(Duration::from_secs(2), call.head()).await, Some(200));
    assert_eq!(world.within(Duration::from_secs(31), call.rest()).await, None);
    assert!(call.text().starts_with(":\n\n:\n\n"), "{}", call.text());
    site.seen.release();
    assert_eq!(call.response().await["result"]["waited"], true);
}
