//! The checks of a request without a session.
//!
//! Owns what a request of the modern era must say of itself (2026-07-28, basic, `_meta`).

use http::HeaderMap;

use super::{Admitted, PostHead};
use crate::message::Message;
use crate::outcome::Outcome;
use crate::version::ProtocolVersion;

pub(super) fn admit(_: &HeaderMap, post: &PostHead, message: &Message) -> Result<Admitted, Outcome> {
    if message.as_request().is_none() {
        return Err(Outcome::Accepted);
    }
    Ok(Admitted::Sessionless { mode: post.mode, version: ProtocolVersion::V2026_07_28 })
}
