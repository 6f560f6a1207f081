//! The resources, and the template of those that are made when they are read.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Value, json};
use sessile_core::Message;

use super::result::{Cache, cacheable, is_modern};
use super::{DemoState, INVALID_PARAMS};
use crate::app::{Context, Reply};

/// The resource that is always the same.
pub(super) const FIXED: &str = "demo://about";
/// The resource that the tool `touch` changes. Only where there are no sessions can one hear of it, so that there alone it is offered.
pub(super) const CHANGING: &str = "demo://touched";
/// What a greeting's URI begins with; the name follows.
const GREETING: &str = "demo://greeting/";
/// The template of the greetings, with the one argument `name`.
pub(super) const GREETING_TEMPLATE: &str = "demo://greeting/{name}";
/// The legacy revisions' own code; the modern one has that of invalid parameters.
const RESOURCE_NOT_FOUND: i32 = -32002;

/// The result of `resources/list`.
pub(super) fn list(modern: bool) -> Value {
    let mut resources = vec![about(modern)];
    if modern {
        resources.push(json!({
            "uri": CHANGING,
            "name": "touched",
            "title": "How often it was touched",
            "description": "Says how often the tool `touch` was called, by any client. Changes can be listened to.",
            "mimeType": "text/plain",
        }));
    }
    json!({ "resources": resources })
}

fn about(modern: bool) -> Value {
    json!({
        "uri": FIXED,
        "name": "about",
        "title": "About this server",
        "description": "What the demo server is and what can be tried with it.",
        "mimeType": "text/plain",
        "size": about_text(modern).len(),
    })
}

/// The result of `resources/templates/list`.
pub(super) fn templates() -> Value {
    json!({ "resourceTemplates": [{
        "uriTemplate": GREETING_TEMPLATE,
        "name": "greeting",
        "title": "Greeting",
        "description": "Greets whom the URI names. The name can be completed.",
        "mimeType": "text/plain",
    }] })
}

/// `resources/read`.
pub(super) fn read(context: &Context<DemoState>, message: &Message) -> Reply {
    #[derive(Deserialize)]
    struct Params {
        uri: String,
    }
    let Ok(Params { uri }) = message.params() else {
        return context.error(INVALID_PARAMS, "uri is required and must be a string");
    };
    let modern = is_modern(context);
    let (text, cache) = if modern && uri == CHANGING {
        let times = context.state().shared.touched.times();
        (Some(format!("Touched so far: {times}").into()), Cache::NONE)
    } else {
        (text(&uri, modern), Cache::LONG)
    };
    match text {
        Some(text) => {
            let contents = json!([{ "uri": uri, "mimeType": "text/plain", "text": text }]);
            cacheable(context, &json!({ "contents": contents }), cache)
        }
        None => {
            let code = if modern { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
            context.error(code, &format!("Resource not found: {uri}"))
        }
    }
}

/// What a resource that doesn't change says, if there is one of this URI.
fn text(uri: &str, modern: bool) -> Option<Cow<'static, str>> {
    if uri == FIXED {
        return Some(about_text(modern).into());
    }
    let name = unescaped(uri.strip_prefix(GREETING)?)?;
    Some(format!("Hello, {name}!").into())
}

const fn about_text(modern: bool) -> &'static str {
    if modern { ABOUT_MODERN } else { ABOUT }
}

/// The value that a simple expression of a template has in a URI (RFC 6570, 3.2.2), if it is one and not empty.
fn unescaped(escaped: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let [high, low] = [rest.next()?, rest.next()?].map(|digit| char::from(digit).to_digit(16));
                (high? * 16 + low?) as u8
            }
            b'-' | b'.' | b'_' | b'~' => byte,
            other if other.is_ascii_alphanumeric() => other,
            _ => return None,
        });
    }
    String::from_utf8(bytes).ok().filter(|value| !value.is_empty())
}

const ABOUT: &str = "\
This is the demo server of Sessile, which serves Model Context Protocol servers over Streamable HTTP, one session for each client.

Things to try:
- call `echo`, then `big` for a large answer;
- call `count` from two clients: each session counts for itself;
- call `slow` with a progress token, and cancel it half-way;
- open a GET stream and call `notify`; its messages arrive there, those of `log` on the stream of the call;
- set the logging level to `warning` and call them again: nothing arrives;
- call `ask` or `sample`: the server asks the client while the call waits;
- get the prompt `greet` or read `demo://greeting/Ada`: the name of either can be completed;
- call `crash`: the session ends with an error, and from then on its id is unknown.
";

const ABOUT_MODERN: &str = "\
This is the demo server of Sessile, which serves Model Context Protocol servers over Streamable HTTP.

Things to try:
- call `echo`, then `big` for a large answer;
- call `count` twice: there are no sessions, so each call counts for itself;
- call `slow` with a progress token, and close the connection half-way;
- call `log` with and without a log level in the request: its messages arrive on the stream of the call, or not at all;
- call `ask` or `sample`: the result says what the server wants to know, and the call is made again with the answer;
- listen to `demo://touched` and call `touch`, from any client: the change is told;
- get the prompt `greet` or read `demo://greeting/Ada`: the name of either can be completed;
- call `crash`: that request ends with an error, as with a server that dies, and the next one is none the worse.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_what_its_uri_says() {
        for (uri, name) in [
            ("demo://greeting/Ada", Some("Hello, Ada!")),
            ("demo://greeting/Zo%C3%AB%20%2f%7E.~", Some("Hello, Zo\u{eb} /~.~!")),
            ("demo://greeting/", None),
            ("demo://greeting/a/b", None),
            ("demo://greeting/a?b", None),
            ("demo://greeting/{name}", None),
            ("demo://greeting/%", None),
            ("demo://greeting/%4", None),
            ("demo://greeting/%4g", None),
            ("demo://greeting/%+4", None),
            ("demo://greeting/%ff", None),
            ("demo://greeting/Zo\u{eb}", None),
            ("demo://greetings", None),
            ("", None),
        ] {
            assert_eq!(text(uri, false).as_deref(), name, "{uri}");
        }
    }
}
