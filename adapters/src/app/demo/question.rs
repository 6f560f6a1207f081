//! What the tools `ask` and `sample` want of the client, and how its answer is read, in whichever era it is asked.

use std::sync::atomic::Ordering;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sessile_core::ClientCapability;

use super::DemoState;

/// A question to the client.
pub(super) enum Question {
    /// To its user.
    Ask(String),
    /// To its model.
    Sample(String),
}

/// What an answer to a question comes to.
pub(super) enum Heard {
    /// What was said.
    Text(String),
    /// An answer that has nothing to read.
    Nothing(&'static str),
    /// No answer to that question at all.
    Unreadable(String),
}

impl Question {
    pub(super) fn ask(message: Option<String>) -> Self {
        Self::Ask(message.unwrap_or_else(|| "What would you like to say?".to_owned()))
    }

    pub(super) fn sample(prompt: Option<String>) -> Self {
        Self::Sample(prompt.unwrap_or_else(|| "Say hello in one sentence.".to_owned()))
    }

    /// The tool that asks it.
    pub(super) const fn tool(&self) -> &'static str {
        match self {
            Self::Ask(_) => "ask",
            Self::Sample(_) => "sample",
        }
    }

    /// The words.
    pub(super) fn text(&self) -> &str {
        let (Self::Ask(text) | Self::Sample(text)) = self;
        text
    }

    /// Whether the client has declared that it can be asked this.
    pub(super) fn is_declared(&self, state: &DemoState) -> bool {
        match self {
            Self::Ask(_) => state.elicitation.load(Ordering::Relaxed),
            Self::Sample(_) => state.sampling.load(Ordering::Relaxed),
        }
    }

    /// What to say in a session if it hasn't.
    pub(super) const fn undeclared(&self) -> &'static str {
        match self {
            Self::Ask(_) => "The client has not declared the elicitation capability (form mode).",
            Self::Sample(_) => "The client has not declared the sampling capability.",
        }
    }

    /// The capability that it takes.
    pub(super) const fn capability(&self) -> ClientCapability {
        match self {
            Self::Ask(_) => ClientCapability::ElicitationForm,
            Self::Sample(_) => ClientCapability::Sampling,
        }
    }

    pub(super) const fn method(&self) -> &'static str {
        match self {
            Self::Ask(_) => "elicitation/create",
            Self::Sample(_) => "sampling/createMessage",
        }
    }

    pub(super) fn params(&self) -> Value {
        match self {
            Self::Ask(message) => json!({
                "message": message,
                "requestedSchema": {
                    "type": "object",
                    "properties": { "answer": { "type": "string", "title": "Answer", "description": "Any text" } },
                    "required": ["answer"],
                },
            }),
            Self::Sample(prompt) => json!({
                "messages": [{ "role": "user", "content": { "type": "text", "text": prompt } }],
                "maxTokens": 200,
            }),
        }
    }

    /// Whom it goes to.
    pub(super) const fn asked(&self) -> &'static str {
        match self {
            Self::Ask(_) => "user",
            Self::Sample(_) => "model",
        }
    }

    pub(super) fn read(&self, answer: &RawValue) -> Heard {
        match self {
            Self::Ask(_) => elicited(answer),
            Self::Sample(_) => sampled(answer),
        }
    }
}

fn elicited(answer: &RawValue) -> Heard {
    #[derive(Deserialize)]
    struct Elicited {
        action: String,
        content: Option<Box<RawValue>>,
    }
    match serde_json::from_str(answer.get()) {
        Ok(Elicited { action, content: Some(content) }) => Heard::Text(format!("{action}: {content}")),
        Ok(Elicited { action, content: None }) => Heard::Text(action),
        Err(error) => Heard::Unreadable(format!("The client's answer is no result of an elicitation: {error}.")),
    }
}

fn sampled(answer: &RawValue) -> Heard {
    #[derive(Deserialize)]
    struct Sampled {
        content: Content,
    }
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Content {
        /// From 2025-11-25 on.
        Many(Vec<Block>),
        One(Block),
    }
    #[derive(Deserialize)]
    struct Block {
        text: Option<String>,
    }
    let blocks = match serde_json::from_str(answer.get()) {
        Ok(Sampled { content: Content::Many(blocks) }) => blocks,
        Ok(Sampled { content: Content::One(block) }) => vec![block],
        Err(error) => return Heard::Unreadable(format!("The client's answer is no result of sampling: {error}.")),
    };
    let said: Vec<String> = blocks.into_iter().filter_map(|block| block.text).collect();
    if said.is_empty() { Heard::Nothing("The model's answer has no text.") } else { Heard::Text(said.join("\n")) }
}
