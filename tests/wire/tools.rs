//! Parameters of tools that are repeated in headers, learnt from the app's own list. Theme U of the field reports, SEP on custom headers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderName, StatusCode};
use serde_json::{Value, json};
use sessile::app::{Calls, Context, Handler, Reply, SessionInfo};
use sessile::runtime::tokio::Tokio;
use sessile_core::{Config, Eras, Message};
use sessile_tests::client::Client;

use crate::raw::{Site, handler};

const REGION: HeaderName = HeaderName::from_static("mcp-param-region");

/// A server whose one tool repeats its region, until it no longer does.
#[derive(Clone, Debug, Default)]
struct Shop {
    listed: Arc<AtomicUsize>,
    called: Arc<AtomicUsize>,
    /// After so many lists the tool repeats nothing; 0: never.
    changes_after: usize,
    mute: bool,
}

impl Handler for Shop {
    type State = ();

    fn eras(&self) -> Eras {
        Eras::BOTH
    }

    fn open(&self, _: &SessionInfo) {}

    async fn call(&self, context: Context<()>, message: Message) -> Reply {
        match message.method() {
            Some("tools/list") if !self.mute => {
                let listed = self.listed.fetch_add(1, Ordering::SeqCst) + 1;
                let changed = self.changes_after > 0 && listed > self.changes_after;
                let annotation = if changed { json!({}) } else { json!({"x-mcp-header": "Region"}) };
                let mut region = json!({"type": "string"});
                region.as_object_mut().expect("an object").extend(annotation.as_object().expect("an object").clone());
                let schema = json!({"type": "object", "properties": {"region": region}});
                context.result(&json!({"tools": [{"name": "buy", "inputSchema": schema}]}))
            }
            Some("tools/call") => {
                self.called.fetch_add(1, Ordering::SeqCst);
                context.result(&json!({"content": []}))
            }
            _ => context.error(-32601, "Method not found"),
        }
    }
}

async fn buy(site: &Site<Calls<Shop>>, header: Option<&'static str>) -> (StatusCode, Value) {
    let mut client: Client<Tokio, Calls<Shop>> = Client::modern(site.manager.service().expect("running"), json!({}));
    if let Some(value) = header {
        client.header(REGION, value);
    }
    let (id, answer) = client.begin("tools/call", json!({"name": "buy", "arguments": {"region": "eu"}})).await;
    let status = answer.status;
    (status, answer.response(id).await)
}

#[tokio::test(start_paused = true)]
async fn a_repeated_parameter_must_say_what_the_body_says() {
    let shop = Shop::default();
    let site = handler(Config::default(), shop.clone());
    for (header, status) in [(Some("eu"), 200), (Some("us"), 400), (None, 400), (Some("eu"), 200)] {
        let (got, answer) = buy(&site, header).await;
        assert_eq!(got.as_u16(), status, "{header:?} {answer}");
        assert_eq!(answer["error"]["code"].as_i64(), (status == 400).then_some(-32020), "{answer}");
    }
    assert_eq!(shop.called.load(Ordering::SeqCst), 2, "what was refused never reached the app");
    // Asked when first needed, and again before each refusal.
    assert_eq!(shop.listed.load(Ordering::SeqCst), 3);
    // That is no client's doing.
    let now = site.manager.stats();
    assert_eq!((now.sessionless, now.requests.modern, now.requests_in_flight), (0, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_list_that_has_changed_refuses_nobody() {
    let shop = Shop { changes_after: 1, ..Shop::default() };
    let site = handler(Config::default(), shop);
    assert_eq!(buy(&site, Some("eu")).await.0, StatusCode::OK);
    // The client knows the new list.
    assert_eq!(buy(&site, None).await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn where_the_list_cannot_be_had_nothing_is_checked_and_that_is_counted() {
    let site = handler(Config::default(), Shop { mute: true, ..Shop::default() });
    for header in [Some("us"), None] {
        assert_eq!(buy(&site, header).await.0, StatusCode::OK);
    }
    assert_eq!(site.manager.stats().header_checks_skipped, 1);
}
