//! The revisions of the protocol and their eras.
//!
//! Owns which revisions exist, which of them an endpoint serves, and what differs between them. Every behaviour that depends on a revision asks
//! here, by set membership, never by comparing dates that a peer sent.

use std::fmt;

/// A revision of the Model Context Protocol that this crate knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ProtocolVersion {
    /// 2024-11-05, which predates Streamable HTTP. Never offered; but a server of that age, put on the web
    /// by the program, may negotiate it, and its clients then name it in the header.
    V2024_11_05,
    /// 2025-03-26, the first revision with Streamable HTTP and the only one with batches.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25, the last revision with sessions.
    V2025_11_25,
    /// 2026-07-28, the modern era: no sessions.
    V2026_07_28,
}

impl ProtocolVersion {
    /// The legacy revisions that are served, newest first.
    pub const LEGACY: [Self; 3] = [Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26];
    /// The modern revisions, newest first.
    pub const MODERN: [Self; 1] = [Self::V2026_07_28];
    /// What a client without an `MCP-Protocol-Version` header is taken to speak (2025-11-25, transports,
    /// protocol version header).
    pub const ASSUMED: Self = Self::V2025_03_26;

    /// The revision with this name. `None` if it is unknown.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        match text {
            b"2024-11-05" => Some(Self::V2024_11_05),
            b"2025-03-26" => Some(Self::V2025_03_26),
            b"2025-06-18" => Some(Self::V2025_06_18),
            b"2025-11-25" => Some(Self::V2025_11_25),
            b"2026-07-28" => Some(Self::V2026_07_28),
            _ => None,
        }
    }

    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// Whether it is of the era without sessions.
    #[must_use]
    pub const fn is_modern(self) -> bool {
        matches!(self, Self::V2026_07_28)
    }

    /// Whether JSON-RPC batches exist in it.
    #[must_use]
    pub const fn has_batches(self) -> bool {
        matches!(self, Self::V2025_03_26)
    }

    /// Whether its clients understand an event with empty data, and a server that closes a stream so that
    /// they poll (SEP-1699).
    #[must_use]
    pub const fn has_priming_events(self) -> bool {
        matches!(self, Self::V2025_11_25)
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One of the two ways in which MCP is spoken over Streamable HTTP (2026-07-28, versioning, terminology).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// With sessions, which `initialize` opens: 2025-11-25 and before.
    Legacy,
    /// Without: every request says of itself what it needs. 2026-07-28.
    Modern,
}

/// Which eras an endpoint serves. It may change while the endpoint lives: whether a child process speaks the
/// modern era is learnt by asking it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Eras {
    /// Sessions.
    pub legacy: bool,
    /// Requests without sessions.
    pub modern: bool,
}

impl Eras {
    /// Both on one endpoint.
    pub const BOTH: Self = Self { legacy: true, modern: true };
    /// Sessions alone.
    pub const LEGACY: Self = Self { legacy: true, modern: false };
    /// Requests without sessions alone.
    pub const MODERN: Self = Self { legacy: false, modern: true };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_nothing_else_is_a_version() {
        for version in ProtocolVersion::LEGACY.into_iter().chain(ProtocolVersion::MODERN) {
            assert_eq!(ProtocolVersion::parse(version.as_str().as_bytes()), Some(version));
        }
        for bad in ["", "2025-11-25 ", "2099-01-01", "zzzz", "1999-01-01"] {
            assert_eq!(ProtocolVersion::parse(bad.as_bytes()), None);
        }
    }
}
