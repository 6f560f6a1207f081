//! Completion of the arguments of the prompt and of the template: both are a name.

use serde::Deserialize;
use serde_json::json;
use sessile_core::Message;

use super::{DemoState, INVALID_PARAMS, prompts, resources, result};
use crate::app::{Context, Reply};

/// Names to complete to, in order.
const NAMES: [&str; 9] = ["Ada", "Alan", "Barbara", "Edsger", "Grace", "Karen", "Katherine", "Ken", "Margaret"];

/// `completion/complete`.
pub(super) fn complete(context: &Context<DemoState>, message: &Message) -> Reply {
    #[derive(Deserialize)]
    struct Params {
        r#ref: Reference,
        argument: Argument,
    }
    #[derive(Deserialize)]
    #[serde(tag = "type")]
    enum Reference {
        #[serde(rename = "ref/prompt")]
        Prompt { name: String },
        #[serde(rename = "ref/resource")]
        Resource { uri: String },
    }
    #[derive(Deserialize)]
    struct Argument {
        name: String,
        value: String,
    }
    let Params { r#ref: reference, argument } = match message.params() {
        Ok(params) => params,
        Err(error) => return context.error(INVALID_PARAMS, &format!("Invalid params: {error}")),
    };
    match reference {
        Reference::Prompt { name } if name != prompts::GREET => {
            return context.error(INVALID_PARAMS, &format!("Unknown prompt: {name}"));
        }
        Reference::Resource { uri } if uri != resources::GREETING_TEMPLATE => {
            return context.error(INVALID_PARAMS, &format!("Unknown resource template: {uri}"));
        }
        Reference::Prompt { .. } | Reference::Resource { .. } => {}
    }
    if argument.name != "name" {
        return context.error(INVALID_PARAMS, &format!("Unknown argument: {}", argument.name));
    }
    let begun = argument.value.to_lowercase();
    let values: Vec<_> = NAMES.into_iter().filter(|name| name.to_lowercase().starts_with(&begun)).collect();
    let completion = json!({ "values": values, "total": values.len(), "hasMore": false });
    result::complete(context, &json!({ "completion": completion }))
}
