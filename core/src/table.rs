//! Which sessions exist, whose they are, and when they end.
//!
//! Owns the life of every session from the admission of its `initialize` to its one [`Reap`], the count of exchanges in
//! flight, and the timers. Does not own what happens inside a session, nor a lock, a clock or randomness: time and ids
//! are arguments.
//!
//! The life of an entry is drawn on the [front page](crate#states).
//!
//! - *Idle* is derived. A session is idle since its exchanges in flight last became zero, unless the init timer rules it.
//!   So a call that runs longer than the idle timeout keeps its session.
//! - The *init timer* rules from the answer to `initialize` to the first exchange that bears the id, whatever is in
//!   flight meanwhile. Without an init timeout such a session is idle like any other, and so is one that has nothing in
//!   flight and was never initialized: nothing lives for ever by an oversight.
//! - A session past its deadline lives until [`SessionTable::poll_reap`] takes it; a request that comes first keeps it.
//! - Time never runs backwards inside: an earlier `now` counts as the latest seen. A deadline is met at `now >= deadline`.
//! - A dead key is a no-op everywhere.
//!
//! ```
//! use std::time::Duration;
//!
//! use sessile_core::config::TableConfig;
//! use sessile_core::{ProtocolVersion, ReapReason, RequestAction, RequestHead, SessionId, SessionTable, Timestamp};
//!
//! let config = TableConfig { idle_timeout: Some(Duration::from_secs(60)), ..TableConfig::default() };
//! let mut table = SessionTable::new(config)?;
//! let mut ids = || SessionId::from_bytes([7; 16]); // from a cryptographic generator in earnest
//! let at = Timestamp::from_secs;
//!
//! // `initialize` opens a session, and its answer leaves.
//! let head = RequestHead { session: None, principal: &"alice", may_create: true };
//! let RequestAction::Create { key, id, .. } = table.handle_request(at(0), head, &mut ids) else { unreachable!() };
//! table.handle_initialized(at(1), key, ProtocolVersion::V2025_11_25);
//! table.handle_response_finished(at(1), key);
//!
//! // A call is routed, and takes a quarter of an hour.
//! let head = RequestHead { session: Some(id), principal: &"alice", may_create: false };
//! assert!(matches!(table.handle_request(at(2), head, &mut ids), RequestAction::Route { .. }));
//! assert_eq!(table.poll_reap(at(900)), None);
//! table.handle_response_finished(at(902), key);
//!
//! // Only then the session is idle.
//! assert_eq!(table.next_deadline(), Some(at(962)));
//! assert_eq!(table.poll_reap(at(962)).map(|reap| reap.reason), Some(ReapReason::Idle));
//! # Ok::<(), sessile_core::ConfigError>(())
//! ```

mod answer;
mod counts;
mod ids;
mod info;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;

pub use self::answer::{CloseReason, Reap, ReapReason, Rejection, RequestAction, RequestHead, TaskExit};
pub use self::counts::{ClosedCounts, RejectedCounts, TableCounts};
use self::ids::IdMap;
pub use self::info::SessionInfo;
use crate::config::{ConfigError, TableConfig, WhenFull};
use crate::id::{IdSource, SessionId, SessionKey};
use crate::slab::{Key, Slab};
use crate::time::Timestamp;
use crate::timers::{DeadlineList, Node, Timed};
use crate::version::ProtocolVersion;

/// All sessions of one endpoint. See the [module](self) for what rules the life of a session.
pub struct SessionTable<P> {
    config: TableConfig,
    /// The latest time seen.
    now: Timestamp,
    service: Service,
    sessions: Slab<Session<P>>,
    ids: IdMap,
    init: DeadlineList<Lane>,
    idle: DeadlineList<Lane>,
    /// Every session is in it, so it is the order of creation too.
    lifetime: DeadlineList<Lane>,
    alarms: BTreeSet<(Timestamp, SessionKey)>,
    counts: TableCounts,
}

/// What the table is willing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Open,
    /// No new sessions.
    Draining,
    /// Nothing.
    Closed,
}

#[derive(Debug)]
struct Session<P> {
    id: SessionId,
    principal: P,
    life: Node,
    /// The node of the init list or the idle list: a session is never in both.
    wait: Node,
    waits: Option<Wait>,
    stage: Stage,
    version: Option<ProtocolVersion>,
    in_flight: u32,
    alarm: Option<Timestamp>,
}

/// How far the handshake has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The answer to `initialize` has not left.
    Starting,
    /// It has, and no exchange has borne the id yet.
    Offered,
    /// One has.
    Confirmed,
}

/// What a session without work waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Idle,
    Init,
}

#[derive(Clone, Copy, Debug)]
enum Lane {
    Life,
    Wait,
}

impl<P> Timed for Session<P> {
    type Lane = Lane;

    fn node(&self, lane: Lane) -> &Node {
        match lane {
            Lane::Life => &self.life,
            Lane::Wait => &self.wait,
        }
    }

    fn node_mut(&mut self, lane: Lane) -> &mut Node {
        match lane {
            Lane::Life => &mut self.life,
            Lane::Wait => &mut self.wait,
        }
    }
}

impl<P: Eq + Clone> SessionTable<P> {
    /// An empty table.
    ///
    /// # Errors
    ///
    /// The first setting that is wrong, as [`TableConfig::check`] finds it.
    pub fn new(config: TableConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            now: Timestamp::ZERO,
            service: Service::Open,
            sessions: Slab::default(),
            ids: IdMap::default(),
            init: DeadlineList::new(Lane::Wait, config.init_timeout),
            idle: DeadlineList::new(Lane::Wait, config.idle_timeout),
            lifetime: DeadlineList::new(Lane::Life, config.max_lifetime),
            alarms: BTreeSet::new(),
            counts: TableCounts::default(),
            config,
        })
    }

    /// Decides what becomes of a request. Whoever gets `Create` or `Route` owes one
    /// [`handle_response_finished`](Self::handle_response_finished).
    ///
    /// The only look-up there is takes the id *and* the principal. `ids` is asked only when a session is created, again
    /// when it names a live session, and four times in all.
    pub fn handle_request(
        &mut self,
        now: Timestamp,
        head: RequestHead<'_, P>,
        ids: &mut impl IdSource,
    ) -> RequestAction {
        self.observe(now);
        let decided = match head.session {
            _ if self.service == Service::Closed => Err(Rejection::ShuttingDown),
            Some(id) => self.route(&id, head.principal),
            None if head.may_create => self.create(head.principal, ids),
            None => Err(Rejection::MissingSession),
        };
        decided.unwrap_or_else(|rejection| {
            self.counts.rejected.add(rejection);
            RequestAction::Reject(rejection)
        })
    }

    fn route(&mut self, id: &SessionId, principal: &P) -> Result<RequestAction, Rejection> {
        let key = self.ids.find(id).ok_or(Rejection::UnknownSession)?;
        let session = self.sessions.get_mut(key).ok_or(Rejection::UnknownSession)?;
        if session.principal != *principal {
            return Err(Rejection::ForeignPrincipal);
        }
        session.stage = Stage::Confirmed;
        session.in_flight += 1;
        self.counts.in_flight += 1;
        let version = session.version;
        self.settle(key);
        Ok(RequestAction::Route { key: SessionKey(key), version })
    }

    fn create(&mut self, principal: &P, ids: &mut impl IdSource) -> Result<RequestAction, Rejection> {
        if self.service != Service::Open {
            return Err(Rejection::ShuttingDown);
        }
        // Whatever can refuse comes before the first change.
        if let Some(max) = self.config.max_per_principal
            && self.sessions.iter().filter(|(_, session)| session.principal == *principal).count() >= max
        {
            return Err(Rejection::PrincipalAtCapacity);
        }
        let victim = self.make_room()?;
        let id = self.ids.mint(ids).ok_or(Rejection::IdsExhausted)?;
        let session = Session {
            id,
            principal: principal.clone(),
            life: Node::default(),
            wait: Node::default(),
            waits: None,
            stage: Stage::Starting,
            version: None,
            in_flight: 1,
            alarm: None,
        };
        let key = self.sessions.insert(session).ok_or_else(|| self.at_capacity())?;
        self.ids.insert(id, key);
        self.lifetime.join(&mut self.sessions, key, self.now);
        self.counts.opened += 1;
        self.counts.in_flight += 1;
        let evicted = victim.and_then(|victim| self.remove(victim, ReapReason::Evicted));
        Ok(RequestAction::Create { key: SessionKey(key), id, evicted })
    }

    /// The session that must go for a new one to come; `None` if there is room.
    fn make_room(&self) -> Result<Option<Key>, Rejection> {
        if self.sessions.len() < self.config.max_sessions {
            return Ok(None);
        }
        match self.config.when_full {
            WhenFull::EvictIdle => self.idle.front().map(Some).ok_or_else(|| self.at_capacity()),
            WhenFull::Refuse => Err(self.at_capacity()),
        }
    }

    fn at_capacity(&self) -> Rejection {
        let wait = self.idle.deadline(&self.sessions).map(|deadline| deadline.saturating_since(self.now));
        let seconds = wait.map_or(60, |wait| wait.as_nanos().div_ceil(1_000_000_000));
        Rejection::AtCapacity { retry_after: seconds.clamp(1, 60) as u8 }
    }

    /// The successful answer to `initialize` leaves: the init timer starts, unless an exchange that bears the id was
    /// accepted before. Only the first call for a session counts.
    pub fn handle_initialized(&mut self, now: Timestamp, key: SessionKey, version: ProtocolVersion) {
        self.observe(now);
        let Some(session) = self.sessions.get_mut(key.0) else { return };
        if session.version.is_some() {
            return;
        }
        session.version = Some(version);
        if session.stage == Stage::Starting {
            session.stage = Stage::Offered;
        }
        self.settle(key.0);
    }

    /// Gives one exchange back: its response has left, or its connection has gone. A driver that has more to do for it
    /// holds it by calling this later. A call too many is a no-op.
    pub fn handle_response_finished(&mut self, now: Timestamp, key: SessionKey) {
        self.observe(now);
        let Some(session) = self.sessions.get_mut(key.0) else { return };
        let Some(in_flight) = session.in_flight.checked_sub(1) else { return };
        session.in_flight = in_flight;
        self.counts.in_flight -= 1;
        self.settle(key.0);
    }

    /// The app's task has ended, and its session with it, busy or not.
    pub fn handle_task_exited(&mut self, now: Timestamp, key: SessionKey, exit: TaskExit) -> Option<Reap> {
        self.observe(now);
        self.remove(key.0, exit.into())
    }

    /// Ends a session, busy or not.
    pub fn handle_close(&mut self, now: Timestamp, key: SessionKey, reason: CloseReason) -> Option<Reap> {
        self.observe(now);
        self.remove(key.0, reason.into())
    }

    /// Sets when the session itself wants to be looked at next (requests without a connection, server-to-client
    /// requests and so on), in place of what was set before. `None`: not at all. An alarm ends with its session.
    ///
    /// Alarms are rare, so they are kept in an ordered set: O(log n), and unlike all else here it may allocate.
    pub fn set_alarm(&mut self, key: SessionKey, at: Option<Timestamp>) {
        let Some(session) = self.sessions.get_mut(key.0) else { return };
        if let Some(before) = std::mem::replace(&mut session.alarm, at) {
            self.alarms.remove(&(before, key));
        }
        if let Some(at) = at {
            self.alarms.insert((at, key));
        }
    }

    /// The session whose alarm is due, earliest first, then by slot. The alarm is cleared. Call it until `None`.
    pub fn poll_alarm(&mut self, now: Timestamp) -> Option<SessionKey> {
        self.observe(now);
        let (_, key) = *self.alarms.first().filter(|(at, _)| self.now >= *at)?;
        self.set_alarm(key, None);
        Some(key)
    }

    /// Refuses new sessions from now on. Live ones still route, so that their calls can finish and be answered.
    pub fn begin_shutdown(&mut self) {
        if self.service == Service::Open {
            self.service = Service::Draining;
        }
    }

    /// Ends all service: every request is refused as shutting down, whatever it names, and
    /// [`poll_reap`](Self::poll_reap) yields every session that is left.
    pub fn finish_shutdown(&mut self) {
        self.service = Service::Closed;
    }

    /// The next session whose time has come. Call it until `None`.
    ///
    /// The earliest deadline comes first. Of equal deadlines init comes before idle and idle before lifetime; within
    /// one of these, the session that has waited longest. After [`finish_shutdown`](Self::finish_shutdown) all
    /// sessions are due, in the order of their creation and for that reason alone.
    pub fn poll_reap(&mut self, now: Timestamp) -> Option<Reap> {
        self.observe(now);
        if self.service == Service::Closed {
            return self.remove(self.lifetime.front()?, ReapReason::Shutdown);
        }
        let (_, key, reason) = [
            (&self.init, ReapReason::NeverInitialized),
            (&self.idle, ReapReason::Idle),
            (&self.lifetime, ReapReason::Lifetime),
        ]
        .into_iter()
        .filter_map(|(list, reason)| Some((list.deadline(&self.sessions)?, list.front()?, reason)))
        .filter(|(deadline, ..)| self.now >= *deadline)
        .min_by_key(|(deadline, ..)| *deadline)?;
        self.remove(key, reason)
    }

    /// When to poll next: the least deadline of all timers and alarms. One that has passed means at once;
    /// [`Timestamp::ZERO`], which always has, is it while sessions are left after
    /// [`finish_shutdown`](Self::finish_shutdown).
    ///
    /// Only a creation, an answer to `initialize`, a finish, an alarm or the end of a shutdown can bring it forward.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        if self.service == Service::Closed && !self.sessions.is_empty() {
            return Some(Timestamp::ZERO);
        }
        let lists = [&self.init, &self.idle, &self.lifetime];
        let alarm = self.alarms.first().map(|(at, _)| *at);
        lists.into_iter().filter_map(|list| list.deadline(&self.sessions)).chain(alarm).min()
    }

    fn observe(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    /// Puts a session under the timer that rules it, if it is not there already, and under no other.
    fn settle(&mut self, key: Key) {
        let Some(session) = self.sessions.get_mut(key) else { return };
        let waits = if session.stage == Stage::Offered && self.init.has_timeout() {
            Some(Wait::Init)
        } else if session.in_flight == 0 {
            Some(Wait::Idle)
        } else {
            None
        };
        let before = std::mem::replace(&mut session.waits, waits);
        if before == waits {
            return;
        }
        match before {
            Some(Wait::Idle) => self.idle.leave(&mut self.sessions, key),
            Some(Wait::Init) => self.init.leave(&mut self.sessions, key),
            None => {}
        }
        match waits {
            Some(Wait::Idle) => self.idle.join(&mut self.sessions, key, self.now),
            Some(Wait::Init) => self.init.join(&mut self.sessions, key, self.now),
            None => {}
        }
    }

    /// The one way out of the table, and the one place where a [`Reap`] is made.
    fn remove(&mut self, key: Key, reason: ReapReason) -> Option<Reap> {
        match self.sessions.get(key)?.waits {
            Some(Wait::Idle) => self.idle.leave(&mut self.sessions, key),
            Some(Wait::Init) => self.init.leave(&mut self.sessions, key),
            None => {}
        }
        self.lifetime.leave(&mut self.sessions, key);
        let session = self.sessions.remove(key)?;
        if let Some(at) = session.alarm {
            self.alarms.remove(&(at, SessionKey(key)));
        }
        self.ids.remove(&session.id);
        self.counts.in_flight -= u64::from(session.in_flight);
        self.counts.closed.add(reason);
        Some(Reap { key: SessionKey(key), id: session.id, reason })
    }
}

impl<P> fmt::Debug for SessionTable<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionTable")
            .field("len", &self.len())
            .field("now", &self.now)
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}
