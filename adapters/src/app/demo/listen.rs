//! `subscriptions/listen`: changes, for as long as the client stays (2026-07-28, subscriptions).

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sessile_core::Message;

use super::resources::{CHANGING, FIXED};
use super::waiting::Waiting;
use super::{Answer, DemoState, INVALID_PARAMS};
use crate::app::{Context, Reply};

/// What a client wants to hear of, or what it will. The lists never change, so that nobody is promised to hear of that.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "what can't be promised is read all the same, to be refused where it is malformed")]
struct Filter {
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_subscriptions: Option<Vec<String>>,
    #[serde(default, skip_serializing)]
    prompts_list_changed: bool,
    #[serde(default, skip_serializing)]
    resources_list_changed: bool,
    #[serde(default, skip_serializing)]
    tools_list_changed: bool,
}

/// A subscription that is to begin.
#[derive(Debug)]
pub(super) struct Subscription {
    id: Box<RawValue>,
    filter: Filter,
}

/// Reads the request.
pub(super) fn listen(context: &Context<DemoState>, message: &Message) -> Answer {
    #[derive(Deserialize)]
    struct Params {
        notifications: Filter,
    }
    let id = message.as_request().and_then(|request| RawValue::from_string(request.id.to_json()).ok());
    match (message.params(), id) {
        (Ok(Params { notifications: filter }), Some(id)) => {
            Answer::Later(Waiting::Listen(Subscription { id, filter: filter.honoured() }))
        }
        (Err(error), _) => Answer::Now(context.error(INVALID_PARAMS, &format!("Invalid params: {error}"))),
        // Only requests are answered, and the id of each is JSON.
        (Ok(_), None) => Answer::Now(Reply::none()),
    }
}

impl Filter {
    /// The part of it that can be promised, each resource once.
    fn honoured(self) -> Self {
        let resource_subscriptions = self.resource_subscriptions.map(|asked| {
            let known = [FIXED, CHANGING].into_iter();
            known.filter(|uri| asked.iter().any(|asked| asked == uri)).map(str::to_owned).collect()
        });
        Self { resource_subscriptions, ..Self::default() }
    }

    fn has(&self, uri: &str) -> bool {
        self.resource_subscriptions.as_ref().is_some_and(|uris| uris.iter().any(|known| known == uri))
    }
}

/// What every message of a subscription says.
#[derive(Serialize)]
struct Tag<'a> {
    #[serde(rename = "io.modelcontextprotocol/subscriptionId")]
    id: &'a RawValue,
}

impl Subscription {
    /// Runs until it is dropped, which is when the client has gone.
    pub(super) async fn run(self, context: &Context<DemoState>) -> Reply {
        #[derive(Serialize)]
        struct Acknowledged<'a> {
            #[serde(rename = "_meta")]
            tag: Tag<'a>,
            notifications: &'a Filter,
        }
        #[derive(Serialize)]
        struct Updated<'a> {
            #[serde(rename = "_meta")]
            tag: Tag<'a>,
            uri: &'a str,
        }
        // From before the client is told that it will hear of them.
        let mut changes = context.state().shared.touched.changes();
        let tag = || Tag { id: &self.id };
        let acknowledged = Acknowledged { tag: tag(), notifications: &self.filter };
        context.notify("notifications/subscriptions/acknowledged", &acknowledged);
        loop {
            changes.next().await;
            if self.filter.has(CHANGING) {
                context.notify("notifications/resources/updated", &Updated { tag: tag(), uri: CHANGING });
            }
        }
    }
}
