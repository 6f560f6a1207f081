//! Looking at the table without touching it.
//!
//! Owns the read-only side. None of it finds a session by its id: that takes a principal and counts an exchange.

use super::{Session, SessionTable, Wait};
use crate::id::{SessionId, SessionKey};
use crate::time::Timestamp;
use crate::version::ProtocolVersion;

impl<P> SessionTable<P> {
    /// How many sessions there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// Whether the session is live.
    #[must_use]
    pub fn contains(&self, key: SessionKey) -> bool {
        self.sessions.get(key.0).is_some()
    }

    /// How many exchanges of the session are in flight; none of a dead one.
    #[must_use]
    pub fn in_flight(&self, key: SessionKey) -> u32 {
        self.sessions.get(key.0).map_or(0, |session| session.in_flight)
    }

    /// Whose the session is.
    #[must_use]
    pub fn principal(&self, key: SessionKey) -> Option<&P> {
        self.sessions.get(key.0).map(|session| &session.principal)
    }

    /// What is known of the session.
    #[must_use]
    pub fn session(&self, key: SessionKey) -> Option<SessionInfo<'_, P>> {
        self.sessions.get(key.0).map(SessionInfo::of)
    }

    /// All sessions in the order of their creation.
    pub fn sessions(&self) -> impl Iterator<Item = (SessionKey, SessionInfo<'_, P>)> {
        std::iter::successors(self.lifetime.front(), |key| self.lifetime.after(&self.sessions, *key))
            .filter_map(|key| Some((SessionKey(key), SessionInfo::of(self.sessions.get(key)?))))
    }
}

/// What the table knows of one session, for listing and for shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo<'a, P> {
    /// When it was created.
    pub created: Timestamp,
    /// Its name on the wire.
    pub id: SessionId,
    /// Since when it has been idle, if it is.
    pub idle_since: Option<Timestamp>,
    /// How many of its exchanges are in flight.
    pub in_flight: u32,
    /// Whose it is.
    pub principal: &'a P,
    /// What was negotiated, once it was.
    pub version: Option<ProtocolVersion>,
}

impl<'a, P> SessionInfo<'a, P> {
    fn of(session: &'a Session<P>) -> Self {
        Self {
            created: session.life.since(),
            id: session.id,
            idle_since: (session.waits == Some(Wait::Idle)).then(|| session.wait.since()),
            in_flight: session.in_flight,
            principal: &session.principal,
            version: session.version,
        }
    }
}
