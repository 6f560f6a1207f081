//! What can be done to a table, for proptest and the fuzzer alike.
//!
//! Steps name sessions by position and times by what they mean, so that every random input does something and a
//! failure shrinks.

use std::time::Duration;

use arbitrary::Arbitrary;
use proptest::prelude::*;
use sessile_core::config::{TableConfig, WhenFull};

/// A table's configuration and what is done to it.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case {
    /// The configuration.
    pub settings: Settings,
    /// What is done.
    pub steps: Vec<Step>,
}

impl Case {
    /// Any case; shutdown and very large jumps are rare.
    pub fn strategy() -> impl Strategy<Value = Self> {
        (Settings::strategy(), prop::collection::vec(Step::strategy(), 1..100))
            .prop_map(|(settings, steps)| Self { settings, steps })
    }
}

/// Which of the configurations.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Settings {
    /// Chooses the cap, one to four, and that of a principal: none, one or two.
    pub room: u8,
    /// Whether the longest idle session makes room.
    pub evict: bool,
    /// Whether there is an idle timeout, of 80 s.
    pub idle: bool,
    /// Whether there is an init timeout, of 40 s.
    pub init: bool,
    /// Whether there is a lifetime, of 120 s.
    pub lifetime: bool,
    /// Whether the source of ids knows five ids only.
    pub colliding_ids: bool,
}

impl Settings {
    fn strategy() -> impl Strategy<Value = Self> {
        (0_u8..12, any::<[bool; 5]>()).prop_map(|(room, [evict, idle, init, lifetime, colliding_ids])| Self {
            room,
            evict,
            idle,
            init,
            lifetime,
            colliding_ids,
        })
    }

    pub(super) fn config(self) -> TableConfig {
        let seconds = |given: bool, seconds| given.then(|| Duration::from_secs(seconds));
        TableConfig {
            idle_timeout: seconds(self.idle, 80),
            init_timeout: seconds(self.init, 40),
            max_lifetime: seconds(self.lifetime, 120),
            max_per_principal: Some(usize::from(self.room / 4 % 3)).filter(|max| *max > 0),
            max_sessions: usize::from(self.room % 4) + 1,
            when_full: if self.evict { WhenFull::EvictIdle } else { WhenFull::Refuse },
        }
    }
}

/// One thing that is done to a table.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Step {
    /// The driver's clock moves.
    Clock(Jump),
    /// `begin_shutdown`.
    BeginShutdown,
    /// `handle_close`.
    Close {
        /// Which session.
        session: Pick,
        /// Chooses the reason: abandoned, deleted or dismissed.
        reason: u8,
    },
    /// Ticks until nothing is due.
    Drain,
    /// `finish_shutdown`.
    FinishShutdown,
    /// `handle_initialized`.
    Initialized {
        /// Which session.
        session: Pick,
        /// Chooses the version.
        version: bool,
    },
    /// `handle_request`.
    Request {
        /// What the session header says.
        header: Header,
        /// Who sends it.
        sender: Sender,
        /// Whether it is an `initialize`.
        may_create: bool,
    },
    /// `handle_response_finished`.
    ResponseFinished(Pick),
    /// `set_alarm`.
    SetAlarm {
        /// Which session.
        session: Pick,
        /// In how many seconds, counted from a minute ago, if at all.
        seconds: Option<u8>,
    },
    /// `handle_task_exited`.
    TaskExited {
        /// Which session.
        session: Pick,
        /// Crashed, or else finished.
        crashed: bool,
    },
    /// One tick.
    Tick,
}

impl Step {
    fn strategy() -> impl Strategy<Value = Self> {
        let pick = || prop_oneof![8 => any::<u8>().prop_map(Pick::Live), 1 => any::<u8>().prop_map(Pick::Dead)];
        let header = prop_oneof![
            4 => Just(Header::Absent),
            8 => any::<u8>().prop_map(Header::Live),
            1 => any::<u8>().prop_map(Header::Dead),
            1 => Just(Header::NeverMinted),
        ];
        let sender = prop_oneof![6 => Just(Sender::Owner), 1 => (0_u8..3).prop_map(Sender::Principal)];
        let jump = prop_oneof![
            1 => any::<u8>().prop_map(Jump::Seconds),
            8 => (0_u8..8).prop_map(Jump::TensOfSeconds),
            1 => any::<u8>().prop_map(Jump::Nanos),
            3 => Just(Jump::ToDeadline),
            2 => Just(Jump::JustBeforeDeadline),
            1 => any::<u8>().prop_map(Jump::BackSeconds),
            1 => (30_u8..64).prop_map(Jump::PowerOfTwo),
        ];
        prop_oneof![
            60 => jump.prop_map(Self::Clock),
            1 => Just(Self::BeginShutdown),
            5 => (pick(), 0_u8..3).prop_map(|(session, reason)| Self::Close { session, reason }),
            20 => Just(Self::Drain),
            1 => Just(Self::FinishShutdown),
            30 => (pick(), any::<bool>()).prop_map(|(session, version)| Self::Initialized { session, version }),
            100 => (header, sender, prop::bool::weighted(0.8))
                .prop_map(|(header, sender, may_create)| Self::Request { header, sender, may_create }),
            60 => pick().prop_map(Self::ResponseFinished),
            10 => (pick(), any::<Option<u8>>()).prop_map(|(session, seconds)| Self::SetAlarm { session, seconds }),
            5 => (pick(), any::<bool>()).prop_map(|(session, crashed)| Self::TaskExited { session, crashed }),
            20 => Just(Self::Tick),
        ]
    }
}

/// A session by position.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Pick {
    /// The n-th that died, counted from the last one.
    Dead(u8),
    /// The n-th live one, counted from the oldest.
    Live(u8),
}

/// What the session header of a request says.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Header {
    /// Nothing.
    Absent,
    /// The id of a dead session.
    Dead(u8),
    /// The id of a live session.
    Live(u8),
    /// An id that no source ever gave.
    NeverMinted,
}

/// Who sends a request.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Sender {
    /// The owner of the session that the request names.
    Owner,
    /// One of three principals.
    Principal(u8),
}

/// A movement of the driver's clock.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Jump {
    /// Backwards.
    BackSeconds(u8),
    /// To the last nanosecond before the next deadline.
    JustBeforeDeadline,
    /// A little.
    Nanos(u8),
    /// Two to this power nanoseconds, up to centuries.
    PowerOfTwo(u8),
    /// Some seconds.
    Seconds(u8),
    /// Up to 70 s in tens, of which all timeouts are multiples, so that deadlines coincide.
    TensOfSeconds(u8),
    /// To the next deadline.
    ToDeadline,
}
