//! Questions to the client where the server can't ask by itself: the result of a call says what is wanted, and the client makes the
//! call again with the answer (2026-07-28, multi round-trip requests).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use sessile_core::Message;

use super::question::{Heard, Question};
use super::seal::{Bond, Broken};
use super::{DemoState, INVALID_PARAMS, result, tools};
use crate::app::{Context, Reply};

/// What the one question of a call is called.
const KEY: &str = "answer";

/// Asks, or hears the answer.
pub(super) fn answer(context: &Context<DemoState>, message: &Message, question: &Question) -> Reply {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Params {
        input_responses: Option<BTreeMap<String, Box<RawValue>>>,
        request_state: Option<String>,
    }
    if !question.is_declared(context.state()) {
        return context.capability_missing(&[question.capability()]);
    }
    let params: Params = match message.params() {
        Ok(params) => params,
        Err(error) => return context.error(INVALID_PARAMS, &format!("Invalid params: {error}")),
    };
    let bond =
        Bond { principal: context.session().principal().name(), tool: question.tool(), question: question.text() };
    let seal = &context.state().shared.seal;
    let refusal = match (&params.request_state, &params.input_responses) {
        (None, None) => None,
        (None, Some(_)) => Some("inputResponses come with the requestState that they were asked for with"),
        (Some(state), _) => match seal.check(context.now(), bond, state) {
            Ok(()) => None,
            Err(Broken::Expired) => Some("requestState has expired"),
            Err(Broken::Foreign) => Some("requestState is not one that was given out for this request"),
        },
    };
    if let Some(refusal) = refusal {
        return context.error(INVALID_PARAMS, refusal);
    }
    let Some(response) = params.input_responses.as_ref().and_then(|responses| responses.get(KEY)) else {
        return ask(context, question, &seal.close(context.now(), bond));
    };
    match question.read(response) {
        Heard::Text(said) => tools::text(context, &said),
        Heard::Nothing(why) => tools::failure(context, why),
        Heard::Unreadable(why) => context.error(INVALID_PARAMS, &why),
    }
}

fn ask(context: &Context<DemoState>, question: &Question, state: &str) -> Reply {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Wanted<'a> {
        input_requests: serde_json::Value,
        request_state: &'a str,
    }
    let request = json!({ "method": question.method(), "params": question.params() });
    result::input_required(context, &Wanted { input_requests: json!({ KEY: request }), request_state: state })
}
