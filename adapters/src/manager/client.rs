//! Who a client says it is.

use std::fmt::{self, Write as _};

use serde::Deserialize;
use serde_json::value::RawValue;
use sessile_core::Message;

/// Who a client says it is, in its `initialize` (2025-11-25, lifecycle, `clientInfo`). It is the client's word and proves nothing.
///
/// `Display` writes name and version for people, with control characters and their like escaped, so that no client can write into a
/// terminal or make lines in a log; the members are as they were sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientInfo {
    /// Its name, cut to 256 bytes. `None` if it is no string.
    pub name: Option<Box<str>>,
    /// Its version, cut to 256 bytes. `None` if it is no string.
    pub version: Option<Box<str>>,
}

const LONGEST: usize = 256;

impl ClientInfo {
    /// Reads it, and gives the capabilities beside it.
    pub(super) fn read(initialize: &Message) -> (Self, Option<&RawValue>) {
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Params<'a> {
            #[serde(borrow)]
            capabilities: Option<&'a RawValue>,
            #[serde(borrow)]
            client_info: Option<&'a RawValue>,
        }
        #[derive(Default, Deserialize)]
        struct Info<'a> {
            #[serde(borrow)]
            name: Option<&'a RawValue>,
            #[serde(borrow)]
            version: Option<&'a RawValue>,
        }
        let params: Params<'_> = initialize.params().unwrap_or_default();
        let info = params.client_info.and_then(|info| serde_json::from_str(info.get()).ok());
        let Info { name, version } = info.unwrap_or_default();
        let text = |raw: Option<&RawValue>| {
            let text: String = serde_json::from_str(raw?.get()).ok()?;
            Some(cut(&text, LONGEST).into())
        };
        (Self { name: text(name), version: text(version) }, params.capabilities)
    }
}

/// As much of a text as fits into so many bytes.
pub(crate) fn cut(text: &str, longest: usize) -> &str {
    let end = (0..=longest.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

/// Writes a text so that it can do no harm where it is shown.
pub(crate) struct Harmless<'a>(pub(crate) &'a str);

impl fmt::Display for Harmless<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '"' | '\'' | '\\' => f.write_char(letter)?,
                _ => write!(f, "{}", letter.escape_debug())?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for ClientInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Harmless(self.name.as_deref().unwrap_or("unnamed")))?;
        match &self.version {
            Some(version) => write!(f, "/{}", Harmless(version)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(params: &str) -> (ClientInfo, Option<String>) {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{params}}}"#);
        let message = Message::parse(text.into()).expect("a message");
        let (client, capabilities) = ClientInfo::read(&message);
        (client, capabilities.map(|raw| raw.get().to_owned()))
    }

    #[test]
    fn what_a_client_says_of_itself_is_read_as_far_as_it_can_be() {
        let (client, capabilities) = read(
            r#"{"protocolVersion":"x","capabilities":{"roots": {}},"clientInfo":{"name":"a\u0062","version":"1","x":[]}}"#,
        );
        assert_eq!((client.name.as_deref(), client.version.as_deref()), (Some("ab"), Some("1")));
        assert_eq!(capabilities.as_deref(), Some(r#"{"roots": {}}"#));
        for params in [r#"{"capabilities":{},"clientInfo":{"name":7,"version":null}}"#, "{}", r#"{"clientInfo":[]}"#] {
            let (client, _) = read(params);
            assert_eq!((client.to_string().as_str(), client), ("unnamed", ClientInfo::default()), "{params}");
        }
    }

    #[test]
    fn what_a_client_says_of_itself_is_bounded() {
        let name = format!("x{}", "ü".repeat(1_000));
        let (client, _) = read(&format!(r#"{{"clientInfo":{{"name":"{name}"}}}}"#));
        assert_eq!(client.name.as_deref(), Some(&name[..255]));
    }

    #[test]
    fn what_a_client_says_of_itself_is_harmless_where_it_is_shown() {
        let (client, _) = read(
            r#"{"clientInfo":{"name":"It's \"me\" ü\u001b[2J\r\nERROR\u0000\u009b\u202e\u2028","version":"1\n2"}}"#,
        );
        assert_eq!(
            client.to_string(),
            "It's \"me\" ü\\u{1b}[2J\\r\\nERROR\\0\\u{9b}\\u{202e}\\u{2028}/1\\n2",
            "{client:?}"
        );
    }
}
