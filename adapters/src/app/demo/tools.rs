//! Calls of tools: their arguments, and those that answer at once.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::json;
use serde_json::value::RawValue;
use sessile_core::{Message, ProtocolVersion};

use super::log::Target;
use super::question::Question;
use super::result::{complete, is_modern};
use super::waiting::Waiting;
use super::{Answer, DemoState, INVALID_PARAMS, input};
use crate::app::{AppError, Context, Reply};

pub(super) const MAX_BYTES: u32 = 64 << 20;
pub(super) const MAX_NOTES: u32 = 10_000;
pub(super) const MAX_SECONDS: u32 = 3_600;

/// `tools/call`. Arguments that a tool doesn't know are skipped.
pub(super) fn call(context: &Context<DemoState>, message: &Message) -> Answer {
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
        #[serde(borrow)]
        arguments: Option<&'a RawValue>,
    }
    let Ok(Params { name, arguments }) = message.params::<Params<'_>>() else {
        return Answer::Now(context.error(INVALID_PARAMS, "Invalid params: name is required and must be a string"));
    };
    let arguments = arguments.map_or("{}", RawValue::get);
    if !arguments.starts_with('{') {
        return Answer::Now(context.error(INVALID_PARAMS, "Invalid params: arguments must be an object"));
    }
    run(context, message, &name, arguments).unwrap_or_else(|wrong| {
        Answer::Now(match wrong {
            Wrong::Argument(what) => {
                let text = format!("Invalid arguments for tool {name}: {what}");
                // In the modern era its caller's model should see it, to do better.
                if is_modern(context) { failure(context, &text) } else { context.error(INVALID_PARAMS, &text) }
            }
            Wrong::Tool => context.error(INVALID_PARAMS, &format!("Unknown tool: {name}")),
        })
    })
}

/// Why a call is no call of a tool.
enum Wrong {
    Argument(String),
    Tool,
}

fn run(context: &Context<DemoState>, message: &Message, name: &str, arguments: &str) -> Result<Answer, Wrong> {
    Ok(match name {
        "echo" => Answer::Now(echo(context, arguments)?),
        "ask" => ask(context, message, Question::ask(optional_text("message", arguments)?)),
        "big" => Answer::Now(complete(context, &ToolResult::new(Filler(whole("bytes", arguments, MAX_BYTES)?)))),
        "count" => {
            let count = context.state().count.fetch_add(1, Ordering::Relaxed) + 1;
            Answer::Now(text(context, &count.to_string()))
        }
        "crash" => Answer::Now(Reply::crash(AppError::Other("the tool `crash` was called".into()))),
        "log" => Answer::Later(Waiting::Log { target: Target::Call, n: whole("n", arguments, MAX_NOTES)? }),
        "notify" => Answer::Later(Waiting::Log { target: Target::Session, n: whole("n", arguments, MAX_NOTES)? }),
        "sample" => ask(context, message, Question::sample(optional_text("prompt", arguments)?)),
        "slow" => Answer::Later(Waiting::Slow { time: seconds(arguments)? }),
        "touch" if is_modern(context) => {
            Answer::Now(text(context, &context.state().shared.touched.touch().to_string()))
        }
        "whoami" => Answer::Now(text(context, &whoami(context, message).to_string())),
        _ => return Err(Wrong::Tool),
    })
}

fn ask(context: &Context<DemoState>, message: &Message, question: Question) -> Answer {
    if is_modern(context) {
        Answer::Now(input::answer(context, message, &question))
    } else {
        Answer::Later(Waiting::Ask(question))
    }
}

/// The tool that benchmarks call: its text is neither copied nor looked at before it is written into the answer.
fn echo(context: &Context<DemoState>, arguments: &str) -> Result<Reply, Wrong> {
    #[derive(Deserialize)]
    struct Arguments<'a> {
        #[serde(borrow)]
        text: Cow<'a, str>,
    }
    let Arguments { text: given } = serde_json::from_str(arguments)
        .map_err(|_| Wrong::Argument("text is required and must be a string".to_owned()))?;
    Ok(text(context, &given))
}

/// Never the id of the session, which is a secret even to its own user's model.
fn whoami(context: &Context<DemoState>, message: &Message) -> serde_json::Value {
    let session = context.session();
    let negotiated = context.version().map(ProtocolVersion::as_str);
    let named = message.as_request().and_then(|request| Some(&*request.modern.as_ref()?.version));
    json!({
        "fingerprint": session.fingerprint().to_string(),
        "principal": session.principal().name(),
        "protocolVersion": if is_modern(context) { named } else { negotiated },
    })
}

/// An argument that is one of the required ones; `None` if it is missing or of another type.
fn required<'a, T: Deserialize<'a>>(name: &str, arguments: &'a str) -> Option<T> {
    let members: std::collections::BTreeMap<Cow<'a, str>, &'a RawValue> = serde_json::from_str(arguments).ok()?;
    serde_json::from_str(members.get(name)?.get()).ok()
}

fn optional_text(name: &str, arguments: &str) -> Result<Option<String>, Wrong> {
    let members: std::collections::BTreeMap<Cow<'_, str>, &RawValue> =
        serde_json::from_str(arguments).unwrap_or_default();
    match members.get(name) {
        None => Ok(None),
        Some(raw) => serde_json::from_str(raw.get()).map_err(|_| Wrong::Argument(format!("{name} must be a string"))),
    }
}

/// A whole number from 0 to `most`, however JSON writes it: `3`, `3.0` and `3e0` are the same.
fn whole(name: &str, arguments: &str, most: u32) -> Result<u32, Wrong> {
    match required::<f64>(name, arguments) {
        Some(number) if (0.0..=f64::from(most)).contains(&number) && number.fract() == 0.0 => Ok(number as u32),
        _ => Err(Wrong::Argument(format!("{name} is required and must be an integer from 0 to {most}"))),
    }
}

fn seconds(arguments: &str) -> Result<Duration, Wrong> {
    match required::<f64>("seconds", arguments) {
        Some(number) if (0.0..=f64::from(MAX_SECONDS)).contains(&number) => Ok(Duration::from_secs_f64(number)),
        _ => Err(Wrong::Argument(format!("seconds is required and must be a number from 0 to {MAX_SECONDS}"))),
    }
}

/// The result of a tool: one text, as itself or as something that writes it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolResult<T> {
    content: [Content<T>; 1],
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

#[derive(Serialize)]
struct Content<T> {
    r#type: &'static str,
    text: T,
}

impl<T> ToolResult<T> {
    const fn new(text: T) -> Self {
        Self { content: [Content { r#type: "text", text }], is_error: false }
    }
}

pub(super) fn text(context: &Context<DemoState>, text: &str) -> Reply {
    complete(context, &ToolResult::new(text))
}

/// The tool has failed, which its caller's model should see.
pub(super) fn failure(context: &Context<DemoState>, why: &str) -> Reply {
    complete(context, &ToolResult { is_error: true, ..ToolResult::new(why) })
}

/// A text of this many bytes, which never exists as a whole but in the answer.
struct Filler(u32);

impl fmt::Display for Filler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LINE: &str = "0123456789abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ ";
        let mut left = self.0 as usize;
        while left > 0 {
            let next = left.min(LINE.len());
            f.write_str(&LINE[..next])?;
            left -= next;
        }
        Ok(())
    }
}

impl Serialize for Filler {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
