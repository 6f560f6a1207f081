//! What a table should do, in the plainest code: every question is answered by going through all sessions. It shares
//! the vocabulary with the core and none of its helpers.

use std::collections::BTreeMap;
use std::time::Duration;

use sessile_core::config::{TableConfig, WhenFull};
use sessile_core::{IdSource, ProtocolVersion, ReapReason, Rejection, SessionId};

/// The n-th session that was ever created.
pub(super) type Birth = usize;

pub(super) struct Model {
    config: TableConfig,
    pub(super) now: u64,
    /// Counts what was done, to tell earlier from later within one point in time.
    beat: u64,
    births: Birth,
    pub(super) sessions: BTreeMap<Birth, Session>,
    draining: bool,
    closed: bool,
}

pub(super) struct Session {
    pub(super) id: SessionId,
    pub(super) owner: u8,
    pub(super) created: u64,
    pub(super) in_flight: u32,
    pub(super) version: Option<ProtocolVersion>,
    /// When the last exchange ended, if none is in flight.
    quiet: Option<Moment>,
    /// When the answer to `initialize` left.
    answered: Option<Moment>,
    /// Whether an exchange bore the id.
    confirmed: bool,
    alarm: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Moment {
    time: u64,
    beat: u64,
}

/// A timer of a session. The order is that of expiry.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    deadline: u64,
    class: u8,
    beat: u64,
    birth: Birth,
    reason: ReapReason,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Create { birth: Birth, id: SessionId, evicted: Option<Birth> },
    Reject(Rejection),
    Route { birth: Birth, version: Option<ProtocolVersion> },
}

impl Model {
    pub(super) fn new(config: TableConfig) -> Self {
        Self { config, now: 0, beat: 0, births: 0, sessions: BTreeMap::new(), draining: false, closed: false }
    }

    /// Every input comes by here first.
    pub(super) fn see(&mut self, now: u64) {
        if now > self.now {
            self.now = now;
        }
        self.beat += 1;
    }

    fn moment(&self) -> Moment {
        Moment { time: self.now, beat: self.beat }
    }

    pub(super) fn request(
        &mut self,
        header: Option<SessionId>,
        principal: u8,
        may_create: bool,
        ids: &mut impl IdSource,
    ) -> Answer {
        if self.closed {
            return Answer::Reject(Rejection::ShuttingDown);
        }
        let Some(id) = header else {
            return if may_create { self.create(principal, ids) } else { Answer::Reject(Rejection::MissingSession) };
        };
        for (birth, session) in &mut self.sessions {
            if session.id == id {
                if session.owner != principal {
                    return Answer::Reject(Rejection::ForeignPrincipal);
                }
                session.confirmed = true;
                session.in_flight += 1;
                session.quiet = None;
                return Answer::Route { birth: *birth, version: session.version };
            }
        }
        Answer::Reject(Rejection::UnknownSession)
    }

    fn create(&mut self, owner: u8, ids: &mut impl IdSource) -> Answer {
        if self.draining {
            return Answer::Reject(Rejection::ShuttingDown);
        }
        let owned = self.sessions.values().filter(|session| session.owner == owner).count();
        if self.config.max_per_principal.is_some_and(|max| owned >= max) {
            return Answer::Reject(Rejection::PrincipalAtCapacity);
        }
        let mut evicted = None;
        if self.sessions.len() == self.config.max_sessions {
            let longest = self.sessions.iter().filter_map(|(birth, session)| Some((self.idle(session)?, *birth))).min();
            match (self.config.when_full, longest) {
                (WhenFull::EvictIdle, Some((_, birth))) => evicted = Some(birth),
                (WhenFull::EvictIdle, None) | (WhenFull::Refuse, _) => {
                    return Answer::Reject(Rejection::AtCapacity { retry_after: self.retry_after() });
                }
            }
        }
        for _ in 0..4 {
            let id = ids.next_id();
            if self.sessions.values().any(|session| session.id == id) {
                continue;
            }
            if let Some(birth) = evicted {
                self.sessions.remove(&birth);
            }
            let birth = self.births;
            self.births += 1;
            let session = Session {
                id,
                owner,
                created: self.now,
                in_flight: 1,
                version: None,
                quiet: None,
                answered: None,
                confirmed: false,
                alarm: None,
            };
            self.sessions.insert(birth, session);
            return Answer::Create { birth, id, evicted };
        }
        Answer::Reject(Rejection::IdsExhausted)
    }

    fn retry_after(&self) -> u8 {
        let mut least = 60;
        for timer in self.timers() {
            if timer.reason == ReapReason::Idle {
                let nanos = timer.deadline.saturating_sub(self.now);
                let mut seconds = nanos / 1_000_000_000;
                if nanos % 1_000_000_000 > 0 {
                    seconds += 1;
                }
                least = least.min(seconds);
            }
        }
        least.max(1) as u8
    }

    pub(super) fn initialized(&mut self, birth: Birth, version: ProtocolVersion) {
        let moment = self.moment();
        let Some(session) = self.sessions.get_mut(&birth) else { return };
        if session.answered.is_none() {
            session.answered = Some(moment);
            session.version = Some(version);
        }
    }

    pub(super) fn response_finished(&mut self, birth: Birth) {
        let moment = self.moment();
        if let Some(session) = self.sessions.get_mut(&birth) {
            if session.in_flight == 1 {
                session.quiet = Some(moment);
            }
            if session.in_flight > 0 {
                session.in_flight -= 1;
            }
        }
    }

    pub(super) fn set_alarm(&mut self, birth: Birth, at: Option<u64>) {
        if let Some(session) = self.sessions.get_mut(&birth) {
            session.alarm = at;
        }
    }

    pub(super) fn end(&mut self, birth: Birth) -> Option<SessionId> {
        self.sessions.remove(&birth).map(|session| session.id)
    }

    pub(super) fn begin_shutdown(&mut self) {
        self.draining = true;
    }

    pub(super) fn finish_shutdown(&mut self) {
        self.closed = true;
    }

    /// The next session to end by itself.
    pub(super) fn reap(&mut self) -> Option<(Birth, SessionId, ReapReason)> {
        let (birth, reason) = if self.closed {
            (*self.sessions.keys().next()?, ReapReason::Shutdown)
        } else {
            let timer = self.timers().into_iter().min()?;
            if timer.deadline > self.now {
                return None;
            }
            (timer.birth, timer.reason)
        };
        Some((birth, self.end(birth)?, reason))
    }

    /// The sessions whose alarms are due first; those of one time have no order here.
    pub(super) fn due_alarms(&self) -> Vec<Birth> {
        let Some(least) = self.sessions.values().filter_map(|session| session.alarm).min() else { return Vec::new() };
        if least > self.now {
            return Vec::new();
        }
        self.sessions.iter().filter(|(_, session)| session.alarm == Some(least)).map(|(birth, _)| *birth).collect()
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        if self.closed && !self.sessions.is_empty() {
            return Some(0);
        }
        let alarms = self.sessions.values().filter_map(|session| session.alarm);
        self.timers().into_iter().map(|timer| timer.deadline).chain(alarms).min()
    }

    pub(super) fn idle_since(&self, session: &Session) -> Option<u64> {
        self.idle(session).map(|moment| moment.time)
    }

    fn awaits_its_first_exchange(&self, session: &Session) -> bool {
        self.config.init_timeout.is_some() && session.answered.is_some() && !session.confirmed
    }

    fn idle(&self, session: &Session) -> Option<Moment> {
        if self.awaits_its_first_exchange(session) { None } else { session.quiet }
    }

    fn timers(&self) -> Vec<Timer> {
        let mut timers = Vec::new();
        for (birth, session) in &self.sessions {
            let mut add = |class, reason, since: Option<Moment>, timeout: Option<Duration>| {
                if let (Some(since), Some(timeout)) = (since, timeout) {
                    let deadline = u128::from(since.time) + timeout.as_nanos();
                    let deadline = u64::try_from(deadline).unwrap_or(u64::MAX);
                    timers.push(Timer { deadline, class, beat: since.beat, birth: *birth, reason });
                }
            };
            if self.awaits_its_first_exchange(session) {
                add(0, ReapReason::NeverInitialized, session.answered, self.config.init_timeout);
            }
            add(1, ReapReason::Idle, self.idle(session), self.config.idle_timeout);
            let created = Moment { time: session.created, beat: *birth as u64 };
            add(2, ReapReason::Lifetime, Some(created), self.config.max_lifetime);
        }
        timers
    }
}
