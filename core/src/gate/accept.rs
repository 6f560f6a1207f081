//! Which of our two representations does the client take?
//!
//! Owns the reading of `Accept` (RFC 9110, 12.5.1) and how it narrows the configured response mode. Does not own
//! when a mode's choice is made; a session decides that from what its app says.

use http::HeaderMap;
use http::header::ACCEPT;

use super::field::{MediaType, Value, elements};
use crate::config::ResponseMode;

/// What `Accept` allows of what we could send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    /// `text/event-stream`.
    pub(super) events: bool,
    /// `application/json`.
    pub(super) json: bool,
}

impl Accepted {
    const BOTH: Self = Self { events: true, json: true };

    /// Reads all `Accept` lines as one list.
    ///
    /// No `Accept`, or an empty list, takes everything. For each representation the most specific range that
    /// names it decides; among equals one that takes it wins. A weight of 0 excludes, any other takes: there is no
    /// preference between the two. A malformed element is ignored, so what is left decides, and if nothing is left,
    /// nothing is accepted.
    pub(super) fn read(headers: &HeaderMap) -> Self {
        let (mut json, mut events) = (Best::default(), Best::default());
        let mut silent = true;
        for line in headers.get_all(ACCEPT) {
            // What the official clients send.
            if line == "application/json, text/event-stream" {
                return Self::BOTH;
            }
            for element in elements(line.as_bytes()) {
                silent = false;
                let Some((range, takes)) = Range::parse(element) else { continue };
                match range {
                    Range::Any => {
                        json.offer(1, takes);
                        events.offer(1, takes);
                    }
                    Range::AnyApplication => json.offer(2, takes),
                    Range::AnyText => events.offer(2, takes),
                    Range::Events => events.offer(3, takes),
                    Range::Json => json.offer(3, takes),
                }
            }
        }
        if silent { Self::BOTH } else { Self { events: events.takes, json: json.takes } }
    }

    /// The configured mode, narrowed to what is accepted. `None` if nothing is left.
    pub(super) const fn narrow(self, configured: ResponseMode) -> Option<ResponseMode> {
        match (self.json, self.events, configured) {
            (true, true, mode) => Some(mode),
            (true, false, _) => Some(ResponseMode::Json),
            (false, true, ResponseMode::Auto | ResponseMode::Sse) => Some(ResponseMode::Sse),
            (false, true, ResponseMode::Json) | (false, false, _) => None,
        }
    }
}

/// The verdict of the most specific range so far.
#[derive(Default)]
struct Best {
    specificity: u8,
    takes: bool,
}

impl Best {
    const fn offer(&mut self, specificity: u8, takes: bool) {
        if specificity > self.specificity {
            *self = Self { specificity, takes };
        } else if specificity == self.specificity {
            self.takes |= takes;
        }
    }
}

/// A media range that matters here.
enum Range {
    Any,
    AnyApplication,
    AnyText,
    Events,
    Json,
}

impl Range {
    /// Reads one element, and whether it takes (true) or excludes what it names. `None` if it is malformed or has
    /// nothing to do with what we send.
    ///
    /// Parameters of a range don't keep it from matching, since clients put a charset there that JSON doesn't
    /// have; but a range that excludes *with* parameters excludes something else than what we send.
    fn parse(element: &[u8]) -> Option<(Self, bool)> {
        let media = MediaType::parse(element)?;
        let range = if media.is("application", "json") {
            Self::Json
        } else if media.is("text", "event-stream") {
            Self::Events
        } else if media.is("*", "*") {
            Self::Any
        } else if media.is("application", "*") {
            Self::AnyApplication
        } else if media.is("text", "*") {
            Self::AnyText
        } else {
            return None;
        };
        let mut weight = None;
        let mut narrower = false;
        for parameter in media.parameters {
            let parameter = parameter.ok()?;
            if !parameter.is_named("q") {
                // What follows the weight is an extension of old, not a parameter of the range.
                narrower |= weight.is_none();
            } else if weight.replace(is_positive_weight(&parameter.value)?).is_some() {
                return None;
            }
        }
        match weight {
            Some(false) if narrower => None,
            _ => Some((range, weight.unwrap_or(true))),
        }
    }
}

/// Whether a weight is more than 0. `None` if it is none.
///
/// Laxer than the grammar in two ways that keep the meaning clear: more than three digits, and no digit before the
/// point, which Java's own HTTP client sends by default (`*/*; q=.2`).
fn is_positive_weight(value: &Value<'_>) -> Option<bool> {
    let Value::Token(text) = value else { return None };
    let (whole, fraction) = match text.iter().position(|byte| *byte == b'.') {
        Some(point) => (&text[..point], &text[point + 1..]),
        None => (*text, &[][..]),
    };
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let some = fraction.iter().any(|digit| *digit != b'0');
    match whole {
        b"0" => Some(some),
        b"1" if !some => Some(true),
        b"" if !fraction.is_empty() => Some(some),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn read(lines: &[&str]) -> &'static str {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(ACCEPT, HeaderValue::from_bytes(line.as_bytes()).expect("a header value"));
        }
        match Accepted::read(&headers) {
            Accepted { events: true, json: true } => "both",
            Accepted { events: false, json: true } => "json",
            Accepted { events: true, json: false } => "events",
            Accepted { events: false, json: false } => "none",
        }
    }

    #[test]
    fn accept_is_read_by_its_grammar() {
        for (lines, expected) in [
            (&[][..], "both"),
            (&[""], "both"),
            (&[" , "], "both"),
            (&["application/json, text/event-stream"], "both"),
            (&["text/event-stream,application/json"], "both"),
            (&["application/json", "text/event-stream"], "both"),
            (&["application/json"], "json"),
            (&["text/event-stream"], "events"),
            (&["text/html, image/png"], "none"),
            // R138: no substrings.
            (&["application/jsonx, text/event-stream-bogus"], "none"),
            (&["xapplication/json"], "none"),
            (&["text/plain; note=\"application/json, text/event-stream\""], "none"),
            // R140: wildcards.
            (&["*/*"], "both"),
            (&["application/*"], "json"),
            (&["text/*"], "events"),
            (&["image/*"], "none"),
            // R141: case, spaces, parameters.
            (&["TEXT/Event-Stream ; q=0.5 , Application/JSON"], "both"),
            (&["application/json;charset=utf-8, text/event-stream;level=\"1,2\""], "both"),
            // 0 excludes, and the more specific range wins wherever it stands.
            (&["application/json;q=0, text/event-stream"], "events"),
            (&["*/*, application/json;q=0"], "events"),
            (&["application/json;q=0", "*/*"], "events"),
            (&["*/*;q=0, text/event-stream"], "events"),
            (&["text/*;q=0, */*"], "json"),
            (&["text/*;q=0, text/event-stream;q=0.001"], "events"),
            (&["*/*;Q=0.000"], "none"),
            (&["application/json;q=0, application/json"], "json"),
            (&["application/json;v=2;q=0, */*"], "both"),
            (&["application/json;q=0;ext=1, */*"], "events"),
            // Weights.
            (&["application/json;q=1.000"], "json"),
            (&["application/json;q=0."], "none"),
            (&["application/json;q=1."], "json"),
            (&["application/json;q=0.12345"], "json"),
            (&["text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"], "both"),
            (&["application/json;q=1.001"], "none"),
            (&["application/json;q=2"], "none"),
            (&["application/json;q=-1"], "none"),
            (&["application/json;q=."], "none"),
            (&["application/json;q="], "none"),
            (&["application/json;q=\"1\""], "none"),
            (&["application/json;q=1;q=1"], "none"),
            // Malformed elements are ignored, not their neighbours.
            (&["application/json;q=x, text/event-stream"], "events"),
            (&["application, text/event-stream"], "events"),
            (&["*/json, */event-stream"], "none"),
            (&["*"], "none"),
            (&["application/json text/event-stream"], "none"),
            (&["application / json"], "none"),
            (&["application/json;x=\"a, text/event-stream"], "none"),
            (&["\u{e9}/\u{e9}, application/json"], "json"),
        ] {
            assert_eq!(read(lines), expected, "{lines:?}");
        }
    }

    /// R142: what the client lists is what it gets.
    #[test]
    fn the_configured_mode_is_narrowed_to_what_is_accepted() {
        use ResponseMode::{Auto, Json, Sse};
        for (json, events, configured, expected) in [
            (true, true, Auto, Some(Auto)),
            (true, true, Json, Some(Json)),
            (true, true, Sse, Some(Sse)),
            (true, false, Auto, Some(Json)),
            (true, false, Json, Some(Json)),
            (true, false, Sse, Some(Json)),
            (false, true, Auto, Some(Sse)),
            (false, true, Json, None),
            (false, true, Sse, Some(Sse)),
            (false, false, Auto, None),
            (false, false, Json, None),
            (false, false, Sse, None),
        ] {
            assert_eq!(Accepted { events, json }.narrow(configured), expected, "{json} {events} {configured:?}");
        }
    }
}
