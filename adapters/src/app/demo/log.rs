//! Log messages to the client, and how severe they must be to be sent.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::json;
use sessile_core::Message;

use super::result::is_modern;
use super::{DemoState, INVALID_PARAMS};
use crate::app::{Context, Reply};

/// The severities of RFC 5424, least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub(super) enum Level {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

impl Level {
    /// By severity, least first.
    pub(super) const NAMES: [&str; 8] =
        ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

    fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }
}

/// A level that no message reaches.
pub(super) const SILENT: u8 = Level::NAMES.len() as u8;

/// `logging/setLevel`.
pub(super) fn set_level(context: &Context<DemoState>, message: &Message) -> Reply {
    #[derive(Deserialize)]
    struct Params {
        level: Level,
    }
    match message.params() {
        Ok(Params { level }) => {
            context.state().level.store(level as u8, Ordering::Relaxed);
            context.result(&json!({}))
        }
        Err(_) => context.error(INVALID_PARAMS, &format!("level must be one of {}", Level::NAMES.join(", "))),
    }
}

/// Where a log message goes in a session. Without one it belongs to its request in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The stream of the call.
    Call,
    /// The standalone stream.
    Session,
}

/// Sends the `n`th of `of` log messages, unless the client wants to hear of graver things only. Whether it was sent.
pub(super) fn send(context: &Context<DemoState>, target: Target, n: u32, of: u32) -> bool {
    #[derive(Serialize)]
    struct Params {
        level: &'static str,
        logger: &'static str,
        data: Data,
    }
    #[derive(Serialize)]
    struct Data {
        n: u32,
        text: String,
    }
    const LEVEL: Level = Level::Info;
    if context.state().level.load(Ordering::Relaxed) > LEVEL as u8 {
        return false;
    }
    let data = Data { n, text: format!("message {n} of {of}") };
    let params = Params { level: LEVEL.name(), logger: "demo", data };
    match target {
        Target::Session if is_modern(context) => context.notify("notifications/message", &params),
        Target::Call => context.notify("notifications/message", &params),
        Target::Session => context.notify_session("notifications/message", &params),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_named_as_they_are_read() {
        for name in Level::NAMES {
            let level: Level = serde_json::from_value(name.into()).expect("a level");
            assert_eq!(level.name(), name);
        }
    }
}
