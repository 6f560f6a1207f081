//! The one writer of Server-Sent Events.
//!
//! Owns the bytes of events and comments (WHATWG HTML, 9.2 server-sent events), LF endings, one `data` line for each event, and the
//! headers of an answer that is a stream of them. Does not own when they are sent.

use std::time::Duration;

use bytes::{BufMut, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue};
use memchr::{memchr, memchr3};

use crate::id::EventId;

/// A comment: the first byte of a stream that has nothing to say yet, and the sign of life of a silent one.
pub const COMMENT: &[u8] = b":\n\n";

/// Puts what an answer needs that is a stream of events into its headers: its type, and that proxies must neither hold events back nor
/// change them.
pub fn set_headers(headers: &mut HeaderMap) {
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
}

const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Writes one JSON-RPC message as an event, with an id where the stream can be resumed.
///
/// Line ends inside the message are JSON white space, since strings can't hold them unescaped, and become
/// spaces. U+0085, U+2028 and U+2029 are written as JSON escapes: some clients split lines there. Every other byte
/// is kept.
pub fn write_message(out: &mut BytesMut, id: Option<EventId>, message: &[u8]) {
    out.reserve(message.len() + 64);
    out.put_slice(b"event: message\n");
    if let Some(EventId { stream, sequence }) = id {
        write_id(out, stream, sequence.get());
    }
    out.put_slice(b"data: ");
    write_one_line(out, message);
    out.put_slice(b"\n\n");
}

/// Writes how long a client should wait before it connects again.
pub fn write_retry(out: &mut BytesMut, retry: Duration) {
    out.put_slice(format!("retry: {}\n\n", retry.as_millis()).as_bytes());
}

/// Writes the event that a stream begins with: nothing but its id, after which the stream can be resumed, and how long a client
/// should wait before it does. Only for clients that expect an event without data (2025-11-25).
pub fn write_priming(out: &mut BytesMut, id: EventId, retry: Duration) {
    write_id(out, id.stream, id.sequence.get());
    out.put_slice(format!("retry: {}\ndata: \n\n", retry.as_millis()).as_bytes());
}

fn write_id(out: &mut BytesMut, stream: u64, sequence: u64) {
    out.put_slice(format!("id: {stream}-{sequence}\n").as_bytes());
}

fn write_one_line(out: &mut BytesMut, message: &[u8]) {
    // Two searches, each resumed only where it stopped, so that text full of one class stays linear.
    let find_short = |from: usize| memchr3(b'\r', b'\n', 0xC2, &message[from..]).map_or(message.len(), |at| from + at);
    let find_long = |from: usize| memchr(0xE2, &message[from..]).map_or(message.len(), |at| from + at);
    let (mut short, mut long) = (find_short(0), find_long(0));
    let mut done = 0;
    loop {
        let at = short.min(long);
        out.put_slice(&message[done..at]);
        let (written, skip): (&[u8], usize) = match &message[at..] {
            [] => return,
            [b'\r' | b'\n', ..] => (b" ", 1),
            [0xC2, 0x85, ..] => (b"\\u0085", 2),
            [0xE2, 0x80, 0xA8, ..] => (b"\\u2028", 3),
            [0xE2, 0x80, 0xA9, ..] => (b"\\u2029", 3),
            rest => (&rest[..1], 1),
        };
        out.put_slice(written);
        done = at + skip;
        if short < done {
            short = find_short(done);
        }
        if long < done {
            long = find_long(done);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    fn event(message: &str) -> String {
        let mut out = BytesMut::new();
        write_message(&mut out, None, message.as_bytes());
        String::from_utf8(out.to_vec()).expect("UTF-8")
    }

    // R105
    #[test]
    fn an_event_is_its_kind_one_data_line_and_a_blank_line() {
        assert_eq!(event(r#"{"a":1}"#), "event: message\ndata: {\"a\":1}\n\n");
        let mut out = BytesMut::new();
        write_message(&mut out, Some(EventId { stream: 3, sequence: NonZeroU64::MIN }), b"{}");
        write_retry(&mut out, Duration::from_millis(1_500));
        assert_eq!(&out[..], b"event: message\nid: 3-1\ndata: {}\n\nretry: 1500\n\n");
        out.clear();
        write_priming(&mut out, EventId { stream: 3, sequence: NonZeroU64::MIN }, Duration::from_secs(1));
        assert_eq!(&out[..], b"id: 3-1\nretry: 1000\ndata: \n\n");
    }

    // R220, R221, R222
    #[test]
    fn nothing_that_a_client_takes_for_a_line_end_is_left() {
        let message = "{\r\n\"a\": \"x\u{2028}y\u{2029}z\u{85}\u{a0}\u{20ac}\u{b}\"\n}".replace('\u{b}', "\\u000b");
        let written = event(&message);
        let data =
            written.strip_prefix("event: message\ndata: ").and_then(|rest| rest.strip_suffix("\n\n")).expect("framed");
        assert!(!data.contains(['\r', '\n', '\u{2028}', '\u{2029}', '\u{85}']), "{data:?}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(read(data), read(&message));
        assert!(data.contains('\u{a0}') && data.contains('\u{20ac}'), "other characters are kept: {data:?}");
    }

    // R223
    #[test]
    fn random_text_arrives_as_it_was() {
        let alphabet: Vec<char> =
            "a\"\\\u{0}\u{1f}\r\n\t\u{85}\u{2028}\u{2029}\u{20ac}\u{c2}\u{e2}\u{1f600}\u{7f}".chars().collect();
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for round in 0..2_000 {
            let mut text = String::new();
            for _ in 0..round % 40 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                text.push(alphabet[(state % alphabet.len() as u64) as usize]);
            }
            let message =
                serde_json::to_string_pretty(&serde_json::json!({ "text": text, "n": [1, 2] })).expect("JSON");
            let written = event(&message);
            assert_eq!(written.lines().count(), 3, "{written:?}");
            let data = written.lines().nth(1).and_then(|line| line.strip_prefix("data: ")).expect("framed");
            let read: serde_json::Value = serde_json::from_str(data).expect("JSON");
            assert_eq!(read["text"], text, "round {round}");
        }
    }
}
