//! Batches: JSON-RPC messages in an array, which 2025-03-26 has and no other revision.
//!
//! Owns what an array must be to be one. Does not own who may send it (the gate), nor what becomes of it (the session).

use std::fmt;

use bytes::Bytes;
use serde::Deserializer as _;
use serde::de::{Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::message::{Message, MessageError};

impl Message {
    /// How many messages a batch has at most.
    pub const MAX_BATCH: usize = 1_024;

    /// Looks at `raw`, which must be a JSON array of at least one and at most [`Message::MAX_BATCH`] messages. Each is a part of
    /// the same bytes, not a copy.
    ///
    /// # Errors
    ///
    /// If it isn't, be it for one of them.
    pub fn parse_batch(raw: &Bytes) -> Result<Vec<Self>, MessageError> {
        let text = std::str::from_utf8(raw).map_err(|_| MessageError::NotJson)?;
        let mut fault = None;
        let mut json = serde_json::Deserializer::from_str(text);
        let read = json.deserialize_seq(Members { raw, fault: &mut fault }).and_then(|messages| {
            json.end()?;
            Ok(messages)
        });
        match read {
            Ok(messages) if messages.is_empty() => Err(not_a_batch("a batch has at least one message")),
            Ok(messages) => Ok(messages),
            Err(_) => Err(fault.unwrap_or(MessageError::NotJson)),
        }
    }
}

const fn not_a_batch(why: &'static str) -> MessageError {
    MessageError::NotAMessage { id: None, why }
}

/// Reads messages up to the first that is none, so that what follows costs nothing.
struct Members<'a> {
    raw: &'a Bytes,
    fault: &'a mut Option<MessageError>,
}

impl<'de> Visitor<'de> for Members<'_> {
    type Value = Vec<Message>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Vec<Message>, A::Error> {
        let mut messages = Vec::new();
        while let Some(member) = members.next_element::<&'de RawValue>()? {
            let fault = if messages.len() == Message::MAX_BATCH {
                not_a_batch("a batch has at most 1,024 messages")
            } else {
                match Message::parse(self.raw.slice_ref(member.get().as_bytes())) {
                    Ok(message) => {
                        messages.push(message);
                        continue;
                    }
                    Err(MessageError::NotAMessage { why, .. }) => not_a_batch(why),
                    Err(MessageError::Batch | MessageError::NotJson) => not_a_batch("a JSON-RPC message is an object"),
                }
            };
            *self.fault = Some(fault);
            return Err(A::Error::custom("no message"));
        }
        Ok(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(text: &str) -> Result<Vec<Message>, MessageError> {
        Message::parse_batch(&Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn the_messages_are_parts_of_the_bytes() {
        let raw = Bytes::from(
            r#" [ {"jsonrpc":"2.0","id":1,"method":"a"} , {"jsonrpc":"2.0","method":"b"},{"jsonrpc":"2.0","id":2,"result":{}}] "#,
        );
        let messages = Message::parse_batch(&raw).expect("a batch");
        let texts: Vec<_> = messages.iter().map(|message| message.raw().clone()).collect();
        assert_eq!(
            texts,
            [
                &br#"{"jsonrpc":"2.0","id":1,"method":"a"}"#[..],
                br#"{"jsonrpc":"2.0","method":"b"}"#,
                br#"{"jsonrpc":"2.0","id":2,"result":{}}"#
            ]
        );
        let range = raw.as_ptr_range();
        assert!(texts.iter().all(|text| range.contains(&text.as_ptr())));
    }

    // R150
    #[test]
    fn one_that_is_none_refuses_all() {
        let good = r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#;
        for bad in [
            "[]".to_owned(),
            "[1]".to_owned(),
            "[[]]".to_owned(),
            format!("[{good},{{}}]"),
            format!("[{good},[{good}]]"),
            format!(r#"[{good},{{"jsonrpc":"2.0","id":null,"method":"a"}}]"#),
        ] {
            assert!(matches!(batch(&bad), Err(MessageError::NotAMessage { id: None, .. })), "{bad}");
        }
        for bad in ["", "[", "{}", "[1", "[{}]x]", r#"[{"jsonrpc":"2.0","method":"a"}] x"#] {
            assert!(batch(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn there_is_a_limit() {
        let of = |count: usize| format!("[{}]", vec![r#"{"jsonrpc":"2.0","method":"a"}"#; count].join(","));
        assert_eq!(batch(&of(Message::MAX_BATCH)).expect("a batch").len(), Message::MAX_BATCH);
        assert!(matches!(batch(&of(Message::MAX_BATCH + 1)), Err(MessageError::NotAMessage { .. })));
    }
}
