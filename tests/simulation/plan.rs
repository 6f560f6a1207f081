//! What a client asks of an app: it travels as the parameters of a request, so that both sides know what is to come.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// How an app is to answer a request.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Plan {
    /// Whose request this is. Everything that the app says about it repeats it.
    pub(crate) tag: String,
    /// How many notes come before the answer.
    pub(crate) notes: u32,
    /// How many bytes each of them has.
    pub(crate) size: usize,
    /// How many notes to no request come before the answer.
    pub(crate) tells: u32,
    /// Milliseconds before each of all these, and before the answer.
    pub(crate) pause: u64,
    /// Whether the client is made to come back for the rest.
    pub(crate) close: bool,
    /// Whether the client is asked something.
    pub(crate) ask: bool,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub(crate) enum End {
    Crash,
    Error,
    Hang,
    Panic,
    Result,
    /// The whole server goes; one that is called has no way to, and fails.
    Return,
}

/// How an app is to answer `initialize`.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Greeting {
    /// Milliseconds before the answer.
    pub(crate) pause: u64,
    /// Whether it is an error.
    pub(crate) refuse: bool,
}

impl Greeting {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        Self { pause: if rng.u32(..3) == 0 { rng.u64(..8_000) } else { 0 }, refuse: rng.u32(..20) == 0 }
    }
}

impl Plan {
    pub(crate) fn random(rng: &mut Rng, tag: String) -> Self {
        let quiet = rng.bool();
        let end = match rng.u32(..60) {
            0 => End::Crash,
            1 => End::Panic,
            2 => End::Return,
            3..6 => End::Hang,
            6..12 => End::Error,
            _ => End::Result,
        };
        Self {
            tag,
            notes: if quiet { 0 } else { rng.u32(..20) },
            size: if rng.u32(..8) == 0 { rng.usize(..5_000) } else { 10 },
            tells: if quiet { 0 } else { rng.u32(..4) },
            pause: if rng.bool() { 0 } else { 1 << rng.u32(..11) },
            close: rng.u32(..8) == 0,
            ask: rng.u32(..6) == 0,
            end,
        }
    }
}
