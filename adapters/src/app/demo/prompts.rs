//! The one prompt.

use serde::Deserialize;
use serde_json::{Value, json};
use sessile_core::Message;

use super::result::complete;
use super::{DemoState, INVALID_PARAMS};
use crate::app::{Context, Reply};

/// The name of the prompt, which has the one argument `name`.
pub(super) const GREET: &str = "greet";

const DESCRIPTION: &str = "Has the model greet somebody.";

/// The result of `prompts/list`.
pub(super) fn list() -> Value {
    json!({ "prompts": [{
        "name": GREET,
        "title": "Greet",
        "description": DESCRIPTION,
        "arguments": [{ "name": "name", "description": "Whom to greet. Can be completed.", "required": true }],
    }] })
}

/// `prompts/get`.
pub(super) fn get(context: &Context<DemoState>, message: &Message) -> Reply {
    #[derive(Deserialize)]
    struct Params {
        name: String,
        arguments: Option<Value>,
    }
    let Ok(Params { name, arguments }) = message.params() else {
        return context.error(INVALID_PARAMS, "Invalid params: name is required and must be a string");
    };
    if name != GREET {
        return context.error(INVALID_PARAMS, &format!("Unknown prompt: {name}"));
    }
    let whom = arguments.as_ref().and_then(|arguments| arguments.get("name")?.as_str());
    let Some(whom) = whom else {
        return context
            .error(INVALID_PARAMS, "Invalid arguments for prompt greet: name is required and must be a string");
    };
    let text = format!("Greet {whom} in one friendly sentence.");
    let messages = json!([{ "role": "user", "content": { "type": "text", "text": text } }]);
    complete(context, &json!({ "description": DESCRIPTION, "messages": messages }))
}
