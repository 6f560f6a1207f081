//! Managers whose runtime is not tokio: rmcp needs one all the same.

use http::StatusCode;
use serde_json::json;
use sessile::Builder;
use sessile_tests::client::Client;
use sessile_tests::threads::{Threads, block_on};

use crate::handler::{app, stage};
use crate::legacy::{call, text_of};

#[test]
fn without_a_tokio_runtime_no_session_begins() {
    let manager = Builder::new(Threads::default()).app(app(&stage().0)).build().expect("good settings");
    manager.start().expect("started once");
    let client = Client::new(manager.service().expect("running"));
    let params =
        json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    let message = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params });
    assert_eq!(block_on(client.post(&message)).status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(manager.sessions(), 0);
}

#[test]
fn with_the_handle_of_one_everything_is_as_ever() {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().expect("a runtime");
    let app = app(&stage().0).tokio(tokio.handle().clone());
    let manager = Builder::new(Threads::default()).app(app).build().expect("good settings");
    manager.start().expect("started once");
    block_on(async {
        let client = Client::open(manager.service().expect("running")).await;
        assert_eq!(text_of(&client.request("tools/call", call("count")).await), "1");
        let messages = client.begin("tools/call", call("log")).await.1.events().rest().await;
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert_eq!(client.delete().await.status, StatusCode::NO_CONTENT);
    });
}
