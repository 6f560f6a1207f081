//! The encoding of header values that repeat what a body says (2026-07-28, transports, value encoding).
//!
//! Owns the characters that such a value may have, and the marks around one in Base64 (RFC 4648, section 4). Does not own
//! what a value is compared with.

use std::borrow::Cow;

/// What a value says. `None` if it has a character that no header may have, or Base64 that is none.
///
/// Padding is required and the bits that it leaves over are 0, so that one text has one encoding.
pub(super) fn decode(value: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !value.iter().all(|byte| matches!(byte, b'\t' | b' '..=b'~')) {
        return None;
    }
    match value.strip_prefix(b"=?base64?").and_then(|rest| rest.strip_suffix(b"?=")) {
        Some(encoded) => base64(encoded).map(Cow::Owned),
        None => Some(Cow::Borrowed(value)),
    }
}

fn base64(encoded: &[u8]) -> Option<Vec<u8>> {
    let digits = encoded.strip_suffix(b"==").or_else(|| encoded.strip_suffix(b"=")).unwrap_or(encoded);
    if !encoded.len().is_multiple_of(4) || digits.len() % 4 == 1 {
        return None;
    }
    let mut decoded = Vec::with_capacity(encoded.len() / 4 * 3);
    for group in digits.chunks(4) {
        let mut bits = 0_u32;
        for digit in group {
            bits = bits << 6 | u32::from(value_of(*digit)?);
        }
        bits <<= 6 * (4 - group.len());
        let [_, bytes @ ..] = bits.to_be_bytes();
        let (kept, left) = bytes.split_at(group.len() * 6 / 8);
        if left.iter().any(|byte| *byte != 0) {
            return None;
        }
        decoded.extend_from_slice(kept);
    }
    Some(decoded)
}

const fn value_of(digit: u8) -> Option<u8> {
    match digit {
        b'A'..=b'Z' => Some(digit - b'A'),
        b'a'..=b'z' => Some(digit - b'a' + 26),
        b'0'..=b'9' => Some(digit - b'0' + 52),
        b'+' => Some(62),
        b'/' => Some(63),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_say_themselves_or_what_their_base64_says() {
        for (value, expected) in [
            ("", Some("")),
            ("us-west1", Some("us-west1")),
            ("a\tb c", Some("a\tb c")),
            ("=?base64?SGVsbG8=?=", Some("Hello")),
            ("=?base64??=", Some("")),
            ("=?base64?SGVsbG8sIOS4lueVjA==?=", Some("Hello, \u{4e16}\u{754c}")),
            ("=?base64?IHBhZGRlZCA=?=", Some(" padded ")),
            ("=?base64?bGluZTEKbGluZTI=?=", Some("line1\nline2")),
            ("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=", Some("=?base64?literal?=")),
            // The marks are both needed, and have this case.
            ("SGVsbG8=", Some("SGVsbG8=")),
            ("=?base64?SGVsbG8=", Some("=?base64?SGVsbG8=")),
            ("SGVsbG8=?=", Some("SGVsbG8=?=")),
            ("=?base64?=", Some("=?base64?=")),
            ("=?BASE64?SGVsbG8=?=", Some("=?BASE64?SGVsbG8=?=")),
            // Not Base64: padding that is short, long or in the middle; other letters; bits left over.
            ("=?base64?SGVsbG8?=", None),
            ("=?base64?SGVsbG8==?=", None),
            ("=?base64?SGVsbG8===?=", None),
            ("=?base64?SGVs=bG8?=", None),
            ("=?base64?====?=", None),
            ("=?base64?SGVs!!!bG8=?=", None),
            ("=?base64?SGVsbG8-?=", None),
            ("=?base64? SGVsbG8=?=", None),
            ("=?base64?SGVsbG9=?=", None),
            ("=?base64?A?=", None),
            ("=?base64?A===?=", None),
            // Not a header's characters.
            ("caf\u{e9}", None),
            ("a\u{7f}", None),
        ] {
            assert_eq!(decode(value.as_bytes()).as_deref(), expected.map(str::as_bytes), "{value}");
        }
    }

    #[test]
    fn every_byte_comes_back() {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        for length in 0..8_u8 {
            for byte in 0..=255_u8 {
                let bytes: Vec<u8> = (0..length).map(|at| byte.wrapping_add(at.wrapping_mul(37))).collect();
                let mut encoded = b"=?base64?".to_vec();
                for group in bytes.chunks(3) {
                    let bits = (0..3).fold(0_u32, |bits, at| bits << 8 | u32::from(*group.get(at).unwrap_or(&0)));
                    for at in 0..4 {
                        let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
                        encoded.push(if at > group.len() { b'=' } else { digit });
                    }
                }
                encoded.extend_from_slice(b"?=");
                assert_eq!(decode(&encoded).as_deref(), Some(&*bytes), "{}", String::from_utf8_lossy(&encoded));
            }
        }
    }
}
