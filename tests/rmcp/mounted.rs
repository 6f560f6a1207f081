//! In a router of axum's, behind a layer: what that puts into the extensions of a request is found by the handler.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use serde_json::{Value, json};
use sessile::Principal;
use sessile::http::axum::route;
use tower::ServiceExt as _;

use crate::handler::{Layered, serve};
use crate::legacy::text_of;

async fn layer(mut request: Request, next: Next) -> Response {
    request.extensions_mut().insert(Layered("a layer"));
    request.extensions_mut().insert(Principal::named("bob"));
    next.run(request).await
}

async fn ask(router: &Router, headers: &[(&str, &str)], message: Value) -> (Response<()>, Value) {
    let request = Request::post("/tools/mcp").header("host", "localhost").header("content-type", "application/json");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let request = request.body(Body::from(message.to_string())).expect("a request");
    let (head, body) = router.clone().oneshot(request).await.expect("axum never fails").into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body");
    (Response::from_parts(head, ()), serde_json::from_slice(&body).unwrap_or_default())
}

#[tokio::test(start_paused = true)]
async fn a_handler_finds_what_layers_have_set() {
    let (service, ..) = serve();
    let router = Router::new().nest("/tools", route("/mcp", service)).layer(from_fn(layer));
    let client = json!({ "name": "tests", "version": "1" });
    let call = |meta| {
        let params = json!({ "name": "whoami", "arguments": {}, "_meta": meta });
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params })
    };

    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
    let initialize = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    let (head, _) = ask(&router, &[], initialize).await;
    let session = head.headers()["mcp-session-id"].to_str().expect("text");
    let (_, answer) = ask(&router, &[("mcp-session-id", session), ("x-test", "a header")], call(json!({}))).await;
    assert_eq!(text_of(&answer), r#"["a header","a layer","bob","bob","Session"]"#);

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": client,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "whoami")];
    let (_, answer) = ask(&router, &headers, call(meta)).await;
    assert_eq!(text_of(&answer), r#"[null,"a layer","bob","bob","Modern"]"#);
}
