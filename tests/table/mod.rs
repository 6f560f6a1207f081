//! The session table against its reference model.
//!
//! Three machines take every step: the model, a table through its methods, and a table through
//! [`SessionTable::handle_event`]. After every step they must agree in what they answered and in all that can be seen.

mod model;
mod step;

use std::collections::BTreeMap;
use std::fmt::{Debug, Write as _};

use sessile_core::config::TableConfig;
use sessile_core::{
    Action, CloseReason, ConfigError, Event, IdSource, ProtocolVersion, Reap, ReapReason, RequestHead, SessionId,
    SessionKey, SessionTable, TaskExit, Timestamp,
};

use self::model::{Answer, Birth, Model};
pub use self::step::{Case, Header, Jump, Pick, Sender, Settings, Step};

/// Takes the steps and checks the table after each.
///
/// # Panics
///
/// If the table is wrong, with the settings, what happened up to there, and what differs.
pub fn check_table(settings: Settings, steps: &[Step]) {
    let mut bench = Bench::new(settings);
    for (number, step) in steps.iter().enumerate() {
        if let Err(difference) = bench.take(*step) {
            // It is deterministic: once more, with a record.
            let mut record = String::new();
            let mut bench = Bench::new(settings);
            for step in &steps[..=number] {
                let actions = bench.take(*step).unwrap_or_default();
                let _ = writeln!(record, "  at {:?} {step:?} -> {actions:?}", Timestamp::from_nanos(bench.clock));
            }
            panic!("step {number}, {step:?}: {difference}\n{settings:?}\n{record}");
        }
    }
}

/// Gives ids in a fixed order: new ones for ever, or five again and again.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Ids {
    colliding: bool,
    asked: u64,
}

impl IdSource for Ids {
    fn next_id(&mut self) -> SessionId {
        self.asked += 1;
        let number = if self.colliding { self.asked.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32 } else { self.asked };
        let number = if self.colliding { number % 5 } else { number };
        SessionId::from_bytes(u128::from(number).to_le_bytes())
    }
}

/// What can be seen of a session.
type View = (SessionKey, SessionId, u8, u64, u32, Option<u64>, Option<ProtocolVersion>);

struct Bench {
    config: TableConfig,
    /// The driver's clock, which may run backwards.
    clock: u64,
    model: Model,
    model_ids: Ids,
    table: SessionTable<u8>,
    table_ids: Ids,
    facade: SessionTable<u8>,
    facade_ids: Ids,
    /// The key of every session that ever was, by birth, and back.
    keys: Vec<(SessionKey, SessionId)>,
    births: BTreeMap<SessionKey, Birth>,
    /// In the order of death.
    dead: Vec<Birth>,
    /// What they died of.
    closed: BTreeMap<ReapReason, u64>,
    rejected: BTreeMap<&'static str, u64>,
}

fn same<T: PartialEq + Debug>(what: &str, expected: &T, found: &T) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{what}\n  expected {expected:?}\n  found    {found:?}")) }
}

impl Bench {
    fn new(settings: Settings) -> Self {
        let mut config = settings.config();
        if !settings.idle && !settings.lifetime && !settings.evict {
            assert_eq!(SessionTable::<u8>::new(config).err(), Some(ConfigError::FullForEver));
            config = Settings { idle: true, ..settings }.config();
        }
        let table = || SessionTable::new(config.clone()).expect("a good configuration");
        let ids = Ids { colliding: settings.colliding_ids, asked: 0 };
        Self {
            clock: 0,
            model: Model::new(config.clone()),
            model_ids: ids.clone(),
            table: table(),
            table_ids: ids.clone(),
            facade: table(),
            facade_ids: ids,
            keys: Vec::new(),
            births: BTreeMap::new(),
            dead: Vec::new(),
            closed: BTreeMap::new(),
            rejected: BTreeMap::new(),
            config,
        }
    }

    /// Takes a step. The actions of the table, or how it differs.
    fn take(&mut self, step: Step) -> Result<Vec<Action>, String> {
        let actions = match step {
            Step::Clock(jump) => {
                self.clock = self.moved(jump);
                Vec::new()
            }
            Step::Drain => {
                let mut actions = Vec::new();
                loop {
                    let action = self.tick()?;
                    actions.push(action);
                    if let Action::Idle { next } = action {
                        let due = next.is_some_and(|next| next.as_nanos() <= self.model.now);
                        same("something due is left after a drain", &false, &due)?;
                        break actions;
                    }
                }
            }
            Step::Tick => vec![self.tick()?],
            Step::Request { header, sender, may_create } => vec![self.request(header, sender, may_create)?],
            Step::BeginShutdown | Step::FinishShutdown => vec![self.shut_down(step)?],
            Step::Close { session, .. }
            | Step::Initialized { session, .. }
            | Step::ResponseFinished(session)
            | Step::SetAlarm { session, .. }
            | Step::TaskExited { session, .. } => match self.pick(session) {
                Some(birth) => {
                    let before = matches!(session, Pick::Dead(_)).then(|| (self.views(), self.table.next_deadline()));
                    let action = self.touch(step, birth)?;
                    if let Some(before) = before {
                        same("a dead key changed something", &before, &(self.views(), self.table.next_deadline()))?;
                    }
                    vec![action]
                }
                None => Vec::new(),
            },
        };
        self.compare()?;
        Ok(actions)
    }

    fn moved(&self, jump: Jump) -> u64 {
        const SECOND: u64 = 1_000_000_000;
        let deadline = self.model.next_deadline().unwrap_or(self.clock);
        match jump {
            Jump::BackSeconds(seconds) => self.clock.saturating_sub(u64::from(seconds) * SECOND),
            Jump::JustBeforeDeadline => self.clock.max(deadline.saturating_sub(1)),
            Jump::Nanos(nanos) => self.clock.saturating_add(u64::from(nanos)),
            Jump::PowerOfTwo(power) => self.clock.saturating_add(1 << (power % 64)),
            Jump::Seconds(seconds) => self.clock.saturating_add(u64::from(seconds) * SECOND),
            Jump::TensOfSeconds(tens) => self.clock.saturating_add(u64::from(tens % 8) * 10 * SECOND),
            Jump::ToDeadline => self.clock.max(deadline),
        }
    }

    fn pick(&self, pick: Pick) -> Option<Birth> {
        match pick {
            Pick::Dead(n) => self.dead.iter().rev().nth(usize::from(n) % self.dead.len().max(1)).copied(),
            Pick::Live(n) => {
                let live = &self.model.sessions;
                live.keys().nth(usize::from(n) % live.len().max(1)).copied()
            }
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.clock)
    }

    /// The façade takes the event, and must answer as the table did.
    fn replay(&mut self, event: Event<u8>, action: Action) -> Result<Action, String> {
        let found = self.facade.handle_event(self.now(), event, &mut self.facade_ids);
        same("the façade answers otherwise than the table", &action, &found)?;
        Ok(action)
    }

    fn idle(&self) -> Action {
        Action::Idle { next: self.model.next_deadline().map(Timestamp::from_nanos) }
    }

    fn request(&mut self, header: Header, sender: Sender, may_create: bool) -> Result<Action, String> {
        let named = match header {
            Header::Absent => None,
            Header::Dead(n) => self.pick(Pick::Dead(n)),
            Header::Live(n) => self.pick(Pick::Live(n)),
            Header::NeverMinted => None,
        };
        let session = match header {
            Header::NeverMinted => Some(SessionId::from_bytes([0xff; 16])),
            Header::Absent | Header::Dead(_) | Header::Live(_) => named.map(|birth| self.keys[birth].1),
        };
        let principal = match sender {
            Sender::Owner => named.and_then(|birth| self.model.sessions.get(&birth)).map_or(0, |session| session.owner),
            Sender::Principal(n) => n % 3,
        };

        self.model.see(self.clock);
        let expected = self.model.request(session, principal, may_create, &mut self.model_ids);
        if let Answer::Reject(rejection) = &expected {
            *self.rejected.entry(rejection.log_reason()).or_default() += 1;
        }
        let head = RequestHead { session, principal: &principal, may_create };
        let action = Action::from(self.table.handle_request(self.now(), head, &mut self.table_ids));
        match (expected, action) {
            (Answer::Create { birth, id, evicted }, Action::Create { key, id: found, evicted: reap }) => {
                same("the new session's id", &id, &found)?;
                if self.births.insert(key, birth).is_some() {
                    return Err(format!("{key:?} was used before"));
                }
                self.keys.push((key, id));
                let expected = evicted.map(|birth| self.end(birth, ReapReason::Evicted));
                same("the evicted session", &expected, &reap)?;
            }
            (Answer::Route { birth, version }, Action::Route { key, version: found }) => {
                same("the session routed to", &Some(&birth), &self.births.get(&key))?;
                same("the version", &version, &found)?;
            }
            (Answer::Reject(expected), Action::Reject(found)) => same("the rejection", &expected, &found)?,
            (expected, _) => return Err(format!("the answer\n  expected {expected:?}\n  found    {action:?}")),
        }
        self.replay(Event::RequestArrived { session, principal, may_create }, action)
    }

    /// Whatever names a session by its key.
    fn touch(&mut self, step: Step, birth: Birth) -> Result<Action, String> {
        let (now, (key, _)) = (self.now(), self.keys[birth]);
        // Of an alarm the time is not told.
        if !matches!(step, Step::SetAlarm { .. }) {
            self.model.see(self.clock);
        }
        let (event, expected, found) = match step {
            Step::Close { reason, .. } => {
                let (reason, reaped) = match reason % 3 {
                    0 => (CloseReason::Abandoned, ReapReason::Abandoned),
                    1 => (CloseReason::Deleted, ReapReason::Deleted),
                    _ => (CloseReason::Dismissed, ReapReason::Dismissed),
                };
                let expected = self.model.end(birth).map(|_| self.end(birth, reaped));
                (Event::Close { key, reason }, expected, self.table.handle_close(now, key, reason))
            }
            Step::Initialized { version, .. } => {
                let version = if version { ProtocolVersion::V2025_11_25 } else { ProtocolVersion::V2025_03_26 };
                self.model.initialized(birth, version);
                self.table.handle_initialized(now, key, version);
                (Event::Initialized { key, version }, None, None)
            }
            Step::ResponseFinished(_) => {
                self.model.response_finished(birth);
                self.table.handle_response_finished(now, key);
                (Event::ResponseFinished { key }, None, None)
            }
            Step::SetAlarm { seconds, .. } => {
                let at = seconds.map(|seconds| {
                    let minute_ago = self.clock.saturating_sub(60_000_000_000);
                    minute_ago.saturating_add(u64::from(seconds) * 1_000_000_000)
                });
                self.model.set_alarm(birth, at);
                let at = at.map(Timestamp::from_nanos);
                self.table.set_alarm(key, at);
                (Event::SetAlarm { key, at }, None, None)
            }
            Step::TaskExited { crashed, .. } => {
                let (exit, reaped) = if crashed {
                    (TaskExit::Crashed, ReapReason::Crashed)
                } else {
                    (TaskExit::Finished, ReapReason::Finished)
                };
                let expected = self.model.end(birth).map(|_| self.end(birth, reaped));
                (Event::TaskExited { key, exit }, expected, self.table.handle_task_exited(now, key, exit))
            }
            Step::BeginShutdown
            | Step::Clock(_)
            | Step::Drain
            | Step::FinishShutdown
            | Step::Request { .. }
            | Step::Tick => unreachable!("names no key"),
        };
        same("what is reaped", &expected, &found)?;
        let action = expected.map_or_else(|| self.idle(), Action::Reap);
        self.replay(event, action)
    }

    fn shut_down(&mut self, step: Step) -> Result<Action, String> {
        let event = if matches!(step, Step::BeginShutdown) {
            self.model.begin_shutdown();
            self.table.begin_shutdown();
            Event::BeginShutdown
        } else {
            self.model.finish_shutdown();
            self.table.finish_shutdown();
            Event::FinishShutdown
        };
        let action = self.idle();
        self.replay(event, action)
    }

    fn tick(&mut self) -> Result<Action, String> {
        let busy: Vec<_> =
            self.table.sessions().filter(|(_, session)| session.in_flight > 0).map(|(key, _)| key).collect();
        self.model.see(self.clock);
        let expected = self.model.reap().map(|(birth, _, reason)| self.end(birth, reason));
        let found = self.table.poll_reap(self.now());
        if let Some(reap) = found.filter(|reap| reap.reason == ReapReason::Idle) {
            same("reaped as idle with work in flight", &false, &busy.contains(&reap.key))?;
        }
        same("what is reaped", &expected, &found)?;
        if let Some(reap) = expected {
            return self.replay(Event::Tick, Action::Reap(reap));
        }

        let due = self.model.due_alarms();
        let action = match self.table.poll_alarm(self.now()) {
            Some(key) => {
                let birth = self.births[&key];
                same("the alarm is due", &true, &due.contains(&birth))?;
                self.model.set_alarm(birth, None);
                Action::Alarm { key }
            }
            None => {
                same("alarms that are due", &Vec::new(), &due)?;
                self.idle()
            }
        };
        self.replay(Event::Tick, action)
    }

    /// Notes the end of a session. The reap that is due for it.
    fn end(&mut self, birth: Birth, reason: ReapReason) -> Reap {
        self.dead.push(birth);
        *self.closed.entry(reason).or_default() += 1;
        let (key, id) = self.keys[birth];
        Reap { key, id, reason }
    }

    fn compare(&self) -> Result<(), String> {
        let expected: Vec<View> = self
            .model
            .sessions
            .iter()
            .map(|(birth, session)| {
                let (key, id) = self.keys[*birth];
                let idle = self.model.idle_since(session);
                (key, id, session.owner, session.created, session.in_flight, idle, session.version)
            })
            .collect();
        same("the sessions", &expected, &self.views())?;
        same("the count", &expected.len(), &self.table.len())?;
        same("more sessions than the cap allows", &false, &(self.table.len() > self.config.max_sessions))?;
        let next = self.model.next_deadline().map(Timestamp::from_nanos);
        same("the next deadline", &next, &self.table.next_deadline())?;
        for (birth, (key, _)) in self.keys.iter().enumerate() {
            same("whether the key is live", &self.model.sessions.contains_key(&birth), &self.table.contains(*key))?;
        }
        self.compare_counts()?;
        same("how often an id was asked for", &self.model_ids, &self.table_ids)
    }

    /// What the table has counted is what has happened, and neither way in counts otherwise.
    fn compare_counts(&self) -> Result<(), String> {
        let counts = self.table.counts();
        same("how many were opened", &(self.keys.len() as u64), &counts.opened)?;
        let closed = counts.closed.iter().filter(|(_, count)| *count > 0).collect();
        same("how many were closed", &self.closed, &closed)?;
        let rejected = counts.rejected.iter().filter(|(_, count)| *count > 0).collect();
        same("how many were rejected", &self.rejected, &rejected)?;
        let in_flight = self.model.sessions.values().map(|session| u64::from(session.in_flight)).sum();
        same("how many exchanges are in flight", &in_flight, &counts.in_flight)?;
        same("what the façade has counted", &counts, &self.facade.counts())
    }

    fn views(&self) -> Vec<View> {
        self.table
            .sessions()
            .map(|(key, session)| {
                let idle = session.idle_since.map(Timestamp::as_nanos);
                let created = session.created.as_nanos();
                (key, session.id, *session.principal, created, session.in_flight, idle, session.version)
            })
            .collect()
    }
}
