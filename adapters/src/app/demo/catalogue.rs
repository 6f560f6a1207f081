//! The tools as clients see them.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::{Value, json};

use super::tools::{MAX_BYTES, MAX_NOTES, MAX_SECONDS};

/// One tool.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// What to say instead where there are no sessions.
    #[serde(skip)]
    modern: Option<&'static str>,
    #[serde(serialize_with = "input_schema")]
    input_schema: &'static [Argument],
    annotations: Annotations,
}

/// What a client may expect of a call.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Annotations {
    read_only_hint: bool,
    destructive_hint: bool,
    idempotent_hint: bool,
    open_world_hint: bool,
}

/// One argument of a tool.
struct Argument {
    name: &'static str,
    description: &'static str,
    kind: Kind,
    required: bool,
}

enum Kind {
    /// From 0 to this.
    Integer(u32),
    /// From 0 to this.
    Number(u32),
    Text,
}

const READS: Annotations =
    Annotations { read_only_hint: true, destructive_hint: false, idempotent_hint: true, open_world_hint: false };
const CHANGES: Annotations =
    Annotations { read_only_hint: false, destructive_hint: false, idempotent_hint: false, open_world_hint: false };
const DESTROYS: Annotations = Annotations { destructive_hint: true, ..CHANGES };
const ASKS: Annotations = Annotations { idempotent_hint: false, open_world_hint: true, ..READS };

const NOTES: Argument =
    Argument { name: "n", description: "How many messages.", kind: Kind::Integer(MAX_NOTES), required: true };

/// Those of both eras.
const TOOLS: &[Tool] = &[
    Tool {
        name: "echo",
        title: "Echo",
        description: "Returns the text that it is given.",
        modern: None,
        input_schema: &[Argument { name: "text", description: "What to return.", kind: Kind::Text, required: true }],
        annotations: READS,
    },
    Tool {
        name: "slow",
        title: "Slow",
        description: "Takes its time, and reports progress if the call has a progress token. Can be cancelled.",
        modern: None,
        input_schema: &[Argument {
            name: "seconds",
            description: "How long it takes.",
            kind: Kind::Number(MAX_SECONDS),
            required: true,
        }],
        annotations: READS,
    },
    Tool {
        name: "count",
        title: "Count",
        description: "Counts its calls, each session for itself: 1, 2, 3 and so on.",
        modern: Some(
            "Counts its calls in a session. Without sessions each call counts for itself, so that this is always 1.",
        ),
        input_schema: &[],
        annotations: CHANGES,
    },
    Tool {
        name: "whoami",
        title: "Who am I",
        description: "Tells, as JSON, whose session this is, which protocol revision was negotiated, and the session's fingerprint in the server's logs.",
        modern: Some(
            "Tells, as JSON, whose request this is, of which protocol revision, and the request's fingerprint in the server's logs.",
        ),
        input_schema: &[],
        annotations: READS,
    },
    Tool {
        name: "big",
        title: "Big",
        description: "Returns a text of exactly that many bytes of ASCII.",
        modern: None,
        input_schema: &[Argument {
            name: "bytes",
            description: "How long the text is.",
            kind: Kind::Integer(MAX_BYTES),
            required: true,
        }],
        annotations: READS,
    },
    Tool {
        name: "notify",
        title: "Notify",
        description: "Sends log messages that belong to no request; they arrive on the stream that GET opens.",
        modern: Some("Sends log messages, as `log` does: without sessions there are none that belong to no call."),
        input_schema: &[NOTES],
        annotations: READS,
    },
    Tool {
        name: "log",
        title: "Log",
        description: "Sends log messages that belong to this call; they arrive on its stream, before its result.",
        modern: Some(
            "Sends log messages on the stream of the call, before its result, if the request names a log level that lets them through.",
        ),
        input_schema: &[NOTES],
        annotations: READS,
    },
    Tool {
        name: "ask",
        title: "Ask",
        description: "Asks the user something through the client (elicitation), and returns the action and what was entered.",
        modern: Some(
            "Asks the user something through the client (elicitation): the result says what, and the call is made again with the answer.",
        ),
        input_schema: &[Argument { name: "message", description: "The question.", kind: Kind::Text, required: false }],
        annotations: ASKS,
    },
    Tool {
        name: "sample",
        title: "Sample",
        description: "Has the client ask its model (sampling), and returns what it says.",
        modern: Some(
            "Has the client ask its model (sampling): the result says what, and the call is made again with the answer.",
        ),
        input_schema: &[Argument {
            name: "prompt",
            description: "What the model is asked.",
            kind: Kind::Text,
            required: false,
        }],
        annotations: ASKS,
    },
    Tool {
        name: "crash",
        title: "Crash",
        description: "Ends the session with an error, as a server that dies would.",
        modern: Some("Ends the request with an error, as a server that dies would."),
        input_schema: &[],
        annotations: DESTROYS,
    },
];

/// Offered only where one can hear of what it changes.
const TOUCH: Tool = Tool {
    name: "touch",
    title: "Touch",
    description: "Changes the resource `demo://touched`, which is the same for all clients, and tells how often it was touched.",
    modern: None,
    input_schema: &[],
    annotations: CHANGES,
};

/// The result of `tools/list`.
pub(super) fn list(modern: bool) -> Value {
    let described =
        |tool: &Tool| Tool { description: tool.modern.filter(|_| modern).unwrap_or(tool.description), ..*tool };
    let tools = TOOLS.iter().chain(modern.then_some(&TOUCH));
    json!({ "tools": tools.map(described).collect::<Vec<_>>() })
}

fn input_schema<S: Serializer>(arguments: &&'static [Argument], serializer: S) -> Result<S::Ok, S::Error> {
    let mut schema = serializer.serialize_map(None)?;
    schema.serialize_entry("type", "object")?;
    schema.serialize_entry("properties", &Properties(arguments))?;
    let required: Vec<_> =
        arguments.iter().filter(|argument| argument.required).map(|argument| argument.name).collect();
    if !required.is_empty() {
        schema.serialize_entry("required", &required)?;
    }
    schema.end()
}

struct Properties(&'static [Argument]);

impl Serialize for Properties {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|argument| (argument.name, argument.schema())))
    }
}

impl Argument {
    fn schema(&self) -> Value {
        let description = self.description;
        match self.kind {
            Kind::Integer(most) => {
                json!({ "type": "integer", "description": description, "minimum": 0, "maximum": most })
            }
            Kind::Number(most) => {
                json!({ "type": "number", "description": description, "minimum": 0, "maximum": most })
            }
            Kind::Text => json!({ "type": "string", "description": description }),
        }
    }
}
