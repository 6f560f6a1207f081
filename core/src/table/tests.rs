//! One named test for each rule of the table, in virtual time. The rules in every combination are the matter of the
//! reference model in `tests/`.

use std::time::Duration;

use super::*;
use crate::event::{Action, Event};
use crate::outcome::Outcome;

const VERSION: ProtocolVersion = ProtocolVersion::V2025_11_25;
const OWNER: &str = "owner";
const STRANGER: &str = "stranger";

/// Seconds: init 10, idle 100, no lifetime, room for two.
fn config() -> TableConfig {
    TableConfig {
        idle_timeout: Some(Duration::from_secs(100)),
        init_timeout: Some(Duration::from_secs(10)),
        max_sessions: 2,
        ..TableConfig::default()
    }
}

fn at(seconds: u64) -> Timestamp {
    Timestamp::from_secs(seconds)
}

/// A table with its source of ids: 1, 2, 3 and so on.
struct Bench {
    table: SessionTable<&'static str>,
    asked: u8,
}

impl Bench {
    fn new(config: TableConfig) -> Self {
        Self { table: SessionTable::new(config).expect("a good configuration"), asked: 0 }
    }

    fn request(
        &mut self,
        now: u64,
        session: Option<SessionId>,
        principal: &'static str,
        may_create: bool,
    ) -> RequestAction {
        let head = RequestHead { session, principal: &principal, may_create };
        let asked = &mut self.asked;
        self.table.handle_request(at(now), head, &mut || {
            *asked += 1;
            SessionId::from_bytes([*asked; 16])
        })
    }

    fn try_create(&mut self, now: u64) -> RequestAction {
        self.request(now, None, OWNER, true)
    }

    fn create(&mut self, now: u64) -> (SessionKey, SessionId) {
        let action = self.try_create(now);
        let RequestAction::Create { key, id, evicted: None } = action else { panic!("{action:?}") };
        (key, id)
    }

    /// A session with the handshake and one call behind it, idle since `now`.
    fn idle(&mut self, now: u64) -> (SessionKey, SessionId) {
        let (key, id) = self.create(now);
        self.table.handle_initialized(at(now), key, VERSION);
        self.finish(now, key);
        self.route(now, id);
        self.finish(now, key);
        (key, id)
    }

    fn route(&mut self, now: u64, id: SessionId) {
        let action = self.request(now, Some(id), OWNER, false);
        assert!(matches!(action, RequestAction::Route { .. }), "{action:?}");
    }

    fn finish(&mut self, now: u64, key: SessionKey) {
        self.table.handle_response_finished(at(now), key);
    }

    fn reaped(&mut self, now: u64) -> Vec<(SessionKey, ReapReason)> {
        std::iter::from_fn(|| self.table.poll_reap(at(now))).map(|reap| (reap.key, reap.reason)).collect()
    }
}

#[test]
fn a_slot_of_the_table_stays_small() {
    // With an `Arc<str>` as principal.
    assert!(size_of::<Session<std::rc::Rc<str>>>() <= 112, "{}", size_of::<Session<std::rc::Rc<str>>>());
}

#[test]
fn a_wrong_configuration_makes_no_table() {
    let config = TableConfig { idle_timeout: None, ..config() };
    assert_eq!(SessionTable::<()>::new(config).err(), Some(ConfigError::FullForEver));
}

#[test]
fn an_unknown_id_is_never_adopted() {
    let mut bench = Bench::new(config());
    let unknown = SessionId::from_bytes([0xee; 16]);
    for may_create in [false, true] {
        assert_eq!(
            bench.request(0, Some(unknown), OWNER, may_create),
            RequestAction::Reject(Rejection::UnknownSession)
        );
    }
    assert!(bench.table.is_empty());
    assert_eq!(bench.asked, 0);
}

#[test]
fn only_initialize_creates() {
    let mut bench = Bench::new(config());
    assert_eq!(bench.request(0, None, OWNER, false), RequestAction::Reject(Rejection::MissingSession));
    assert_eq!((bench.table.len(), bench.asked), (0, 0));
}

#[test]
fn initialize_that_names_a_live_session_is_routed() {
    let mut bench = Bench::new(config());
    let (key, id) = bench.create(0);
    assert_eq!(bench.request(0, Some(id), OWNER, true), RequestAction::Route { key, version: None });
    assert_eq!(bench.table.len(), 1);
}

#[test]
fn a_route_tells_what_was_negotiated() {
    let mut bench = Bench::new(config());
    let (key, id) = bench.create(0);
    bench.table.handle_initialized(at(0), key, VERSION);
    bench.table.handle_initialized(at(0), key, ProtocolVersion::V2025_03_26);
    assert_eq!(bench.request(0, Some(id), OWNER, false), RequestAction::Route { key, version: Some(VERSION) });
}

#[test]
fn foreign_and_unknown_are_the_same_answer() {
    let mut bench = Bench::new(config());
    let (key, id) = bench.create(0);
    assert_eq!(bench.request(0, Some(id), STRANGER, false), RequestAction::Reject(Rejection::ForeignPrincipal));
    assert_eq!(bench.table.in_flight(key), 1);

    let (foreign, unknown) = (Rejection::ForeignPrincipal, Rejection::UnknownSession);
    assert_eq!(foreign.outcome(), unknown.outcome());
    let (foreign_answer, unknown_answer) = (foreign.outcome().respond(None), unknown.outcome().respond(None));
    assert_eq!(foreign_answer.status(), unknown_answer.status());
    assert_eq!(foreign_answer.headers(), unknown_answer.headers());
    assert_eq!(foreign_answer.body(), unknown_answer.body());
    assert_ne!(foreign.log_reason(), unknown.log_reason());
}

#[test]
fn a_stranger_does_not_keep_a_session_alive() {
    let mut bench = Bench::new(config());
    let (key, id) = bench.idle(0);
    let _ = bench.request(99, Some(id), STRANGER, false);
    assert_eq!(bench.reaped(100), [(key, ReapReason::Idle)]);
}

#[test]
fn a_call_longer_than_the_idle_timeout_keeps_its_session() {
    let mut bench = Bench::new(config());
    let (key, id) = bench.idle(0);
    bench.route(50, id);
    assert_eq!(bench.table.next_deadline(), None);
    assert_eq!(bench.reaped(100_000), []);
    bench.finish(100_000, key);
    assert_eq!(bench.reaped(100_099), []);
    assert_eq!(bench.reaped(100_100), [(key, ReapReason::Idle)]);
}

#[test]
fn idle_counts_from_the_end_of_the_last_exchange() {
    let mut bench = Bench::new(config());
    let (key, id) = bench.idle(0);
    bench.route(10, id);
    bench.route(20, id);
    bench.finish(30, key);
    assert_eq!(bench.table.next_deadline(), None);
    bench.finish(40, key);
    assert_eq!(bench.table.next_deadline(), Some(at(140)));
    assert_eq!(bench.table.session(key).and_then(|session| session.idle_since), Some(at(40)));
}

#[test]
fn a_finish_too_many_changes_nothing() {
    let mut bench = Bench::new(config());
    let (key, id) = bench.idle(0);
    bench.finish(50, key);
    assert_eq!(bench.table.next_deadline(), Some(at(100)));
    bench.route(60, id);
    assert_eq!(bench.table.in_flight(key), 1);
}

#[test]
fn before_its_answer_has_left_initialize_may_take_any_time() {
    let mut bench = Bench::new(config());
    let (key, _) = bench.create(0);
    assert_eq!(bench.table.next_deadline(), None);
    assert_eq!(bench.reaped(100_000), []);
    bench.table.handle_initialized(at(100_000), key, VERSION);
    assert_eq!(bench.table.next_deadline(), Some(at(100_010)));
}

#[test]
fn a_client_that_never_comes_back_is_reaped_by_the_init_timer() {
    let mut bench = Bench::new(config());
    let (key, _) = bench.create(0);
    bench.table.handle_initialized(at(1), key, VERSION);
    bench.finish(5, key);
    assert_eq!(bench.reaped(10), []);
    assert_eq!(bench.reaped(11), [(key, ReapReason::NeverInitialized)]);
}

#[test]
fn the_first_exchange_with_the_id_ends_the_init_timer() {
    let mut bench = Bench::new(config());
    let (key, id) = bench.create(0);
    bench.table.handle_initialized(at(1), key, VERSION);
    bench.finish(1, key);
    bench.route(10, id);
    assert_eq!(bench.table.next_deadline(), None);
    bench.finish(11, key);
    assert_eq!(bench.table.next_deadline(), Some(at(111)));
}

#[test]
fn an_exchange_before_the_answer_has_left_forestalls_the_init_timer() {
    let mut bench = Bench::new(config());
    let (key, id) = bench.create(0);
    bench.route(1, id);
    bench.table.handle_initialized(at(2), key, VERSION);
    assert_eq!(bench.table.next_deadline(), None);
}

#[test]
fn without_an_init_timeout_the_idle_timer_rules_the_unconfirmed() {
    let mut bench = Bench::new(TableConfig { init_timeout: None, ..config() });
    let (key, _) = bench.create(0);
    bench.table.handle_initialized(at(1), key, VERSION);
    assert_eq!(bench.table.next_deadline(), None);
    bench.finish(2, key);
    assert_eq!(bench.reaped(102), [(key, ReapReason::Idle)]);
}

#[test]
fn a_session_that_was_forgotten_before_it_started_is_idle() {
    let mut bench = Bench::new(config());
    let (key, _) = bench.create(0);
    bench.finish(5, key);
    assert_eq!(bench.reaped(105), [(key, ReapReason::Idle)]);
}

#[test]
fn lifetime_ends_a_session_in_the_middle_of_a_call() {
    let mut bench = Bench::new(TableConfig { max_lifetime: Some(Duration::from_secs(50)), ..config() });
    let (key, id) = bench.idle(0);
    bench.route(40, id);
    assert_eq!(bench.table.next_deadline(), Some(at(50)));
    assert_eq!(bench.reaped(50), [(key, ReapReason::Lifetime)]);
    bench.finish(60, key);
    assert_eq!(bench.table.next_deadline(), None);
}

#[test]
fn reaps_come_earliest_deadline_first_and_by_class_where_equal() {
    let lifetime = Some(Duration::from_secs(100));
    let mut bench = Bench::new(TableConfig { max_lifetime: lifetime, max_sessions: 4, ..config() });
    let (busy, id) = bench.idle(0); // lifetime: 100
    bench.route(0, id);
    let (idle, _) = bench.idle(0); // idle: 100, lifetime: 100
    let (offered, _) = bench.create(80);
    bench.table.handle_initialized(at(90), offered, VERSION); // init: 100
    let (early, _) = bench.create(80);
    bench.table.handle_initialized(at(90), early, VERSION); // init: 100, but second there
    assert_eq!(
        bench.reaped(1_000),
        [
            (offered, ReapReason::NeverInitialized),
            (early, ReapReason::NeverInitialized),
            (idle, ReapReason::Idle),
            (busy, ReapReason::Lifetime),
        ]
    );
}

#[test]
fn a_full_table_says_when_to_come_again() {
    let mut bench = Bench::new(config());
    bench.create(0);
    let (_, id) = bench.idle(0);
    let refused = |retry_after| RequestAction::Reject(Rejection::AtCapacity { retry_after });
    assert_eq!(bench.try_create(0), refused(60)); // 100 s to go
    assert_eq!(bench.try_create(50), refused(50));
    assert_eq!(bench.try_create(100), refused(1)); // due, and not yet reaped
    bench.route(100, id);
    assert_eq!(bench.try_create(100), refused(60)); // none is idle
    assert_eq!(bench.asked, 2);
}

// R013
#[test]
fn a_principal_with_all_its_sessions_leaves_room_for_others() {
    let mut bench = Bench::new(TableConfig { max_per_principal: Some(1), max_sessions: 4, ..config() });
    let (key, _) = bench.create(0);
    assert_eq!(bench.try_create(0), RequestAction::Reject(Rejection::PrincipalAtCapacity));
    let other = RequestHead { session: None, principal: &STRANGER, may_create: true };
    let mut id = || SessionId::from_bytes([0xee; 16]);
    assert!(matches!(bench.table.handle_request(at(0), other, &mut id), RequestAction::Create { .. }));
    bench.table.handle_close(at(1), key, CloseReason::Deleted);
    assert!(matches!(bench.try_create(1), RequestAction::Create { .. }));
}

#[test]
fn seconds_to_come_again_are_rounded_up() {
    let mut bench = Bench::new(config());
    bench.create(0);
    bench.idle(0);
    let head = RequestHead { session: None, principal: &OWNER, may_create: true };
    let action = bench.table.handle_request(Timestamp::from_millis(97_999), head, &mut || unreachable!());
    assert_eq!(action, RequestAction::Reject(Rejection::AtCapacity { retry_after: 3 }));
}

#[test]
fn a_full_table_makes_room_again() {
    let mut bench = Bench::new(config());
    let (busy, _) = bench.create(0);
    let (idle, _) = bench.idle(0);
    assert!(matches!(bench.try_create(99), RequestAction::Reject(Rejection::AtCapacity { .. })));
    assert_eq!(bench.reaped(100), [(idle, ReapReason::Idle)]);
    bench.create(100);
    let _ = bench.table.handle_close(at(100), busy, CloseReason::Abandoned);
    bench.create(100);
}

#[test]
fn the_longest_idle_session_makes_room_under_evict_idle() {
    let mut bench = Bench::new(TableConfig { when_full: WhenFull::EvictIdle, idle_timeout: None, ..config() });
    let (older, older_id) = bench.idle(0);
    let (newer, newer_id) = bench.idle(1);
    bench.route(2, older_id);
    bench.finish(3, older);
    let action = bench.try_create(4);
    let RequestAction::Create { key, evicted: Some(evicted), .. } = action else { panic!("{action:?}") };
    assert_eq!(evicted, Reap { key: newer, id: newer_id, reason: ReapReason::Evicted });
    assert_ne!(key.index(), newer.index());
    assert_eq!(bench.request(4, Some(newer_id), OWNER, false), RequestAction::Reject(Rejection::UnknownSession));
    assert_eq!(bench.table.len(), 2);
}

#[test]
fn a_busy_session_is_never_evicted() {
    let mut bench = Bench::new(TableConfig { when_full: WhenFull::EvictIdle, ..config() });
    bench.create(0);
    let (offered, _) = bench.create(0);
    bench.table.handle_initialized(at(0), offered, VERSION);
    bench.finish(0, offered);
    let refused = RequestAction::Reject(Rejection::AtCapacity { retry_after: 60 });
    assert_eq!(bench.try_create(1), refused); // one busy, one under the init timer
}

#[test]
fn nothing_is_evicted_for_a_session_that_gets_no_id() {
    let mut bench = Bench::new(TableConfig { when_full: WhenFull::EvictIdle, max_sessions: 1, ..config() });
    let (_, id) = bench.idle(0);
    let head = RequestHead { session: None, principal: &OWNER, may_create: true };
    let mut asked = 0;
    let action = bench.table.handle_request(at(1), head, &mut || {
        asked += 1;
        id
    });
    assert_eq!((action, asked), (RequestAction::Reject(Rejection::IdsExhausted), 4));
    assert_eq!(Rejection::IdsExhausted.outcome(), Outcome::TableFull { retry_after: 1 });
    bench.route(1, id);
}

#[test]
fn a_session_is_reaped_once_and_its_key_is_dead() {
    let mut bench = Bench::new(config());
    let (key, id) = bench.idle(0);
    bench.table.set_alarm(key, Some(at(5)));
    let reap = bench.table.handle_task_exited(at(1), key, TaskExit::Crashed);
    assert_eq!(reap, Some(Reap { key, id, reason: ReapReason::Crashed }));

    let (next, _) = bench.create(1);
    assert_eq!(next.index(), key.index());
    assert_eq!(bench.table.handle_task_exited(at(1), key, TaskExit::Finished), None);
    assert_eq!(bench.table.handle_close(at(1), key, CloseReason::Deleted), None);
    bench.finish(1, key);
    bench.table.handle_initialized(at(1), key, VERSION);
    bench.table.set_alarm(key, Some(at(1)));
    assert_eq!(bench.reaped(1_000), []);
    assert_eq!(bench.table.poll_alarm(at(1_000)), None);
    assert_eq!((bench.table.len(), bench.table.in_flight(next), bench.table.next_deadline()), (1, 1, None));
    assert!(!bench.table.contains(key));
    assert_eq!(bench.table.principal(key), None);
}

#[test]
fn an_alarm_rings_once_and_in_its_turn() {
    let mut bench = Bench::new(config());
    let ((one, _), (two, _)) = (bench.create(0), bench.create(0));
    bench.table.set_alarm(one, Some(at(5)));
    bench.table.set_alarm(one, Some(at(30)));
    bench.table.set_alarm(two, Some(at(20)));
    assert_eq!(bench.table.next_deadline(), Some(at(20)));
    assert_eq!(bench.table.poll_alarm(at(19)), None);
    assert_eq!(bench.table.poll_alarm(at(30)), Some(two));
    assert_eq!(bench.table.poll_alarm(at(30)), Some(one));
    assert_eq!(bench.table.poll_alarm(at(30)), None);
    bench.table.set_alarm(one, Some(at(40)));
    bench.table.set_alarm(one, None);
    assert_eq!(bench.table.next_deadline(), None);
}

#[test]
fn time_never_runs_backwards() {
    let mut bench = Bench::new(config());
    let (key, id) = bench.idle(500);
    bench.route(400, id);
    bench.finish(300, key);
    assert_eq!(bench.table.next_deadline(), Some(at(600)));
    assert_eq!(bench.reaped(600), [(key, ReapReason::Idle)]);
}

#[test]
fn shutdown_lets_calls_finish_and_then_reaps_the_rest() {
    let mut bench = Bench::new(config());
    let (one, id) = bench.idle(0);
    let (two, _) = bench.create(0);
    bench.table.begin_shutdown();
    assert_eq!(bench.try_create(1), RequestAction::Reject(Rejection::ShuttingDown));
    bench.route(1, id);
    assert_eq!(bench.reaped(1), []);

    bench.table.finish_shutdown();
    assert_eq!(bench.table.next_deadline(), Some(Timestamp::ZERO));
    let unknown = SessionId::from_bytes([0xee; 16]);
    for session in [None, Some(id), Some(unknown)] {
        for may_create in [false, true] {
            let action = bench.request(1, session, STRANGER, may_create);
            assert_eq!(action, RequestAction::Reject(Rejection::ShuttingDown));
        }
    }
    assert_eq!(bench.table.sessions().map(|(key, _)| key).collect::<Vec<_>>(), [one, two]);
    assert_eq!(bench.reaped(1), [(one, ReapReason::Shutdown), (two, ReapReason::Shutdown)]);
    assert_eq!(bench.table.next_deadline(), None);
    bench.table.begin_shutdown();
    assert_eq!(bench.try_create(1), RequestAction::Reject(Rejection::ShuttingDown));
}

#[test]
fn a_dead_key_changes_nothing_in_a_closed_table_either() {
    let mut bench = Bench::new(config());
    let (dead, _) = bench.create(0);
    let _ = bench.table.handle_close(at(0), dead, CloseReason::Abandoned);
    bench.create(0);
    bench.table.finish_shutdown();
    let before = bench.table.next_deadline();
    bench.finish(1, dead);
    assert_eq!(bench.table.next_deadline(), before);
}

#[test]
fn a_tick_yields_reaps_then_alarms_and_idle_last() {
    let mut bench = Bench::new(config());
    let (idle, id) = bench.idle(0);
    let (busy, _) = bench.create(0);
    bench.table.set_alarm(busy, Some(at(7)));
    let mut tick = |now| bench.table.handle_event(at(now), Event::Tick, &mut || unreachable!());
    assert_eq!(tick(6), Action::Idle { next: Some(at(7)) });
    assert_eq!(tick(100), Action::Reap(Reap { key: idle, id, reason: ReapReason::Idle }));
    assert_eq!(tick(100), Action::Alarm { key: busy });
    assert_eq!(tick(100), Action::Idle { next: None });
}
