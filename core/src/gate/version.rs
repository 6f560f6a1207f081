//! Which era does the head speak of?
//!
//! Owns the reading of `MCP-Protocol-Version` (2025-11-25, transports, protocol version header) and the text under
//! which an unserved version is repeated to its sender. Does not own the era of a request: its body has the last
//! word, in [`Gate::body`](super::Gate::body).

use crate::version::ProtocolVersion;

/// What the `MCP-Protocol-Version` header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VersionHeader {
    /// There is none; the session's negotiated version holds.
    Absent,
    /// A version with sessions. It need not be the negotiated one, which goes on to decide the behaviour.
    Legacy(ProtocolVersion),
    /// A version without sessions.
    Modern(ProtocolVersion),
    /// Anything else: an unknown version or an empty value. At most 64 printable ASCII characters; others became
    /// `?`.
    Other(Box<str>),
}

impl VersionHeader {
    pub(super) fn read(value: Option<&[u8]>) -> Self {
        let Some(value) = value else { return Self::Absent };
        match ProtocolVersion::parse(value) {
            Some(version) if version.is_modern() => Self::Modern(version),
            Some(version) => Self::Legacy(version),
            None => Self::Other(printable(value)),
        }
    }

    /// The version's text, if it is none with sessions.
    pub(super) fn beyond_legacy(&self) -> Option<&str> {
        match self {
            Self::Absent | Self::Legacy(_) => None,
            Self::Modern(version) => Some(version.as_str()),
            Self::Other(text) => Some(text),
        }
    }
}

/// How many characters of a peer's version are repeated.
const REPEATED: usize = 64;

/// A version as it may be repeated in a message and a log.
pub(super) fn printable(text: &[u8]) -> Box<str> {
    text.iter()
        .take(REPEATED)
        .map(|byte| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '?' })
        .collect::<String>()
        .into_boxed_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_has_its_era() {
        assert_eq!(VersionHeader::read(None), VersionHeader::Absent);
        // A server from before Streamable HTTP may have negotiated its own version.
        for version in ProtocolVersion::LEGACY.into_iter().chain([ProtocolVersion::V2024_11_05]) {
            assert_eq!(VersionHeader::read(Some(version.as_str().as_bytes())), VersionHeader::Legacy(version));
        }
        for version in ProtocolVersion::MODERN {
            assert_eq!(VersionHeader::read(Some(version.as_str().as_bytes())), VersionHeader::Modern(version));
        }
        // R132.
        for other in ["", "x", "1999-01-01", "2025-11-25, 2025-11-25", "2026-07-28x", "2025-11-25\u{e9}"] {
            assert!(matches!(VersionHeader::read(Some(other.as_bytes())), VersionHeader::Other(_)), "{other}");
        }
    }

    #[test]
    fn what_is_repeated_is_short_and_printable() {
        assert_eq!(&*printable(b"2099-01-01"), "2099-01-01");
        assert_eq!(&*printable(b"a\x00\x1b\x7f\xffz"), "a????z");
        assert_eq!(printable(&[b'v'; 10_000]).len(), REPEATED);
    }
}
