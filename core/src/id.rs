//! Names on the wire and handles inside.
//!
//! Owns the session id with its text form and its redaction, the request id, and the event id. Does not
//! own entropy: a driver injects an [`IdSource`].

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

use http::HeaderValue;

use crate::slab::handle;

handle! {
    /// The handle of a session inside: small, copyable and dead for ever once the session has ended.
    /// It is no secret; the secret is the [`SessionId`].
    SessionKey
}

/// The secret that names a session on the wire, in the `Mcp-Session-Id` header: 128 random bits, written as
/// 32 lower-case hexadecimal digits (visible ASCII, as 2025-11-25, transports, session management demands).
///
/// `Debug` never shows it; use a [`Fingerprint`] in logs.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId([u8; 16]);

impl SessionId {
    /// How many characters the text form has.
    pub const TEXT_LEN: usize = 32;

    /// The id with these bits, which should come from a cryptographic generator.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Reads the text form. `None` for whatever this type would not have written, upper-case digits
    /// included: such a header names no session of ours.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() != Self::TEXT_LEN || text.iter().any(u8::is_ascii_uppercase) {
            return None;
        }
        uuid::Uuid::try_parse_ascii(text).ok().map(|id| Self(id.into_bytes()))
    }

    /// The value of the `Mcp-Session-Id` header, marked as sensitive.
    #[must_use]
    pub fn to_header(&self) -> HeaderValue {
        let mut buffer = [0; Self::TEXT_LEN];
        let text = uuid::Uuid::from_bytes(self.0).simple().encode_lower(&mut buffer);
        // Hexadecimal digits are always a valid header value.
        let mut value = HeaderValue::from_str(text).unwrap_or_else(|_| HeaderValue::from_static(""));
        value.set_sensitive(true);
        value
    }

    pub(crate) const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionId(redacted)")
    }
}

/// Where session ids come from. Called only when a session is created; a collision asks again.
pub trait IdSource {
    /// The next id. Its bits must be unpredictable: whoever knows an id and is of its principal may use the
    /// session.
    fn next_id(&mut self) -> SessionId;
}

impl<F: FnMut() -> SessionId> IdSource for F {
    fn next_id(&mut self) -> SessionId {
        self()
    }
}

/// The secret key under which session ids are shortened for logs; one per process, from the driver.
#[derive(Clone, Copy)]
pub struct FingerprintKey([u8; 16]);

impl FingerprintKey {
    /// A key with these bits.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The fingerprint of `id` under this key.
    #[must_use]
    pub fn fingerprint(&self, id: &SessionId) -> Fingerprint {
        use std::hash::Hasher;
        // SipHash with public keys, the secret mixed in first and last. 32 bits of it can't be turned back.
        #[expect(clippy::disallowed_types, reason = "deterministic when made by `new`")]
        let mut hasher = std::hash::DefaultHasher::new();
        hasher.write(&self.0);
        hasher.write(id.as_bytes());
        hasher.write(&self.0);
        Fingerprint((hasher.finish() >> 32) as u32)
    }
}

impl fmt::Debug for FingerprintKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FingerprintKey(redacted)")
    }
}

/// A short name of a session for logs and labels: eight hexadecimal digits that say nothing about the id.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint(u32);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// Reads what `Display` writes, and nothing else.
    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let strict = text.len() == 8 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        u32::from_str_radix(text, 16).ok().filter(|_| strict).map(Self).ok_or(FingerprintError)
    }
}

/// A text that is no fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FingerprintError;

impl fmt::Display for FingerprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fingerprint is eight hexadecimal digits, in lower case")
    }
}

impl std::error::Error for FingerprintError {}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// The `id` of an SSE event: the number of its stream and its position there, as `stream-sequence` in
/// decimal. It means something only inside its session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    /// The stream's number in its session; the standalone stream is 0.
    pub stream: u64,
    /// The position in the stream, from 1.
    pub sequence: NonZeroU64,
}

impl EventId {
    /// Reads the text form, strictly: no sign, no leading zero, no space.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|byte| *byte == b'-')?;
        let stream = parse_decimal(&text[..dash])?;
        let sequence = NonZeroU64::new(parse_decimal(&text[dash + 1..])?)?;
        Some(Self { stream, sequence })
    }
}

/// Written only to the wire; `Debug` is redacted since an event id helps to read a stream.
impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.stream, self.sequence)
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventId(redacted)")
    }
}

fn parse_decimal(digits: &[u8]) -> Option<u64> {
    let strict = match digits {
        [] => false,
        [b'0', _, ..] => false,
        _ => digits.iter().all(u8::is_ascii_digit),
    };
    if !strict {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The id of a JSON-RPC request: a string or an integer, and the two never equal each other.
///
/// MCP forbids null, and numbers are kept within ±(2^53−1), since a peer written in JavaScript would
/// echo any other number changed.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestId {
    /// An integer within ±(2^53−1).
    Number(i64),
    /// A string, unescaped.
    String(Box<str>),
}

impl RequestId {
    /// The greatest magnitude of a number.
    pub const MAX_NUMBER: i64 = (1 << 53) - 1;

    /// Reads the JSON text of an id. `None` if it is neither a string nor an integer in range.
    #[must_use]
    pub fn from_json(text: &str) -> Option<Self> {
        match text.as_bytes().first()? {
            b'"' => serde_json::from_str(text).ok().map(Self::String),
            b'-' | b'0'..=b'9' => {
                let number: i64 = text.parse().ok()?;
                (number.unsigned_abs() <= Self::MAX_NUMBER.unsigned_abs()).then_some(Self::Number(number))
            }
            _ => None,
        }
    }

    /// The JSON text of this id.
    #[must_use]
    pub fn to_json(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            // A string always serializes.
            Self::String(text) => serde_json::to_string(text).unwrap_or_default(),
        }
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_reads_back_only_what_it_wrote() {
        let id = SessionId::from_bytes([0xab; 16]);
        let header = id.to_header();
        assert_eq!(header.as_bytes(), b"abababababababababababababababab");
        assert!(header.is_sensitive());
        assert_eq!(SessionId::parse(header.as_bytes()), Some(id));
        for bad in [
            "",
            "ABABABABABABABABABABABABABABABAB",
            "abababab-abab-abab-abab-abababababab",
            "{abababababababababababababababab}",
            "urn:uuid:abababababababababababababa",
            "ababababababababababababababababab",
            "abababababababababababababababa ",
            "abababababababababababababababag",
        ] {
            assert_eq!(SessionId::parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn no_debug_form_shows_a_secret() {
        let id = SessionId::from_bytes([0xab; 16]);
        let key = FingerprintKey::from_bytes([0xcd; 16]);
        let event = EventId { stream: 77, sequence: NonZeroU64::MIN };
        let shown = format!("{id:?} {:?} {key:?} {:?} {event:?}", id.to_header(), key.fingerprint(&id));
        for secret in ["abab", "cdcd", "77"] {
            assert!(!shown.contains(secret), "{shown}");
        }
    }

    #[test]
    fn fingerprints_depend_on_the_key_and_the_id() {
        let (one, two) = (SessionId::from_bytes([1; 16]), SessionId::from_bytes([2; 16]));
        let (a, b) = (FingerprintKey::from_bytes([3; 16]), FingerprintKey::from_bytes([4; 16]));
        assert_eq!(a.fingerprint(&one), a.fingerprint(&one));
        assert_ne!(a.fingerprint(&one), a.fingerprint(&two));
        assert_ne!(a.fingerprint(&one), b.fingerprint(&one));
    }

    #[test]
    fn a_fingerprint_reads_back_only_what_it_wrote() {
        let fingerprint = FingerprintKey::from_bytes([3; 16]).fingerprint(&SessionId::from_bytes([1; 16]));
        assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        for bad in ["", "1234567", "123456789", "ABCDEF01", "+1234567", "0x123456", " 1234567", "1234567g", "1234567ü"]
        {
            assert_eq!(bad.parse::<Fingerprint>(), Err(FingerprintError), "{bad:?}");
        }
    }

    #[test]
    fn event_ids_round_trip_and_are_read_strictly() {
        let id = EventId { stream: 12, sequence: NonZeroU64::new(340).expect("not zero") };
        assert_eq!(EventId::parse(id.to_string().as_bytes()), Some(id));
        for bad in
            ["", "-", "1-", "-1", "1-0", "01-1", "1-01", "+1-1", "1-+1", "1 -1", "1-1-1", "1", "1-99999999999999999999"]
        {
            assert_eq!(EventId::parse(bad.as_bytes()), None, "{bad:?}");
        }
    }

    #[test]
    fn request_ids_keep_their_type_and_refuse_what_a_peer_would_change() {
        assert_eq!(RequestId::from_json("1"), Some(RequestId::Number(1)));
        assert_eq!(RequestId::from_json("-9007199254740991"), Some(RequestId::Number(-RequestId::MAX_NUMBER)));
        assert_eq!(RequestId::from_json(r#""\u0031""#), Some(RequestId::String("1".into())));
        for bad in
            ["null", "1.0", "1e2", "9007199254740992", "-9007199254740992", "true", "{}", "[1]", "", r#""\ud800""#]
        {
            assert_eq!(RequestId::from_json(bad), None, "{bad}");
        }
        assert_eq!(RequestId::String("a\"b".into()).to_json(), r#""a\"b""#);
    }
}
