//! What can happen to a session whose events are kept in a store, for proptest and the fuzzer alike.

use std::time::Duration;

use arbitrary::Arbitrary;
use proptest::prelude::*;
use sessile_core::config::{ResponseMode, SessionConfig};

/// A session's settings and what happens to it.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case {
    /// The settings.
    pub settings: Settings,
    /// What happens once the session is open.
    pub steps: Vec<Step>,
}

impl Case {
    /// Any case; ends are rare.
    pub fn strategy() -> impl Strategy<Value = Self> {
        (Settings::strategy(), prop::collection::vec(Step::strategy(), 1..120))
            .prop_map(|(settings, steps)| Self { settings, steps })
    }
}

/// Which of the settings.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Settings {
    /// Whether the store does all that it is asked, and in time.
    pub reliable: bool,
    /// Whether the limits are tiny.
    pub tiny: bool,
    /// Whether clients expect an event to begin with.
    pub newest: bool,
}

impl Settings {
    fn strategy() -> impl Strategy<Value = Self> {
        (any::<[bool; 2]>(), prop::bool::weighted(0.7)).prop_map(|([reliable, tiny], newest)| Self {
            reliable,
            tiny,
            newest,
        })
    }

    pub(super) fn config(self) -> SessionConfig {
        let seconds = Duration::from_secs;
        SessionConfig {
            auto_window: seconds(2),
            detached_timeout: Some(seconds(30)),
            log_age: seconds(25),
            log_bytes: if self.tiny { 250 } else { 100_000 },
            log_count: if self.tiny { 3 } else { 100 },
            max_standalone: 2,
            resume: true,
            store: true,
            store_batch_bytes: if self.tiny { 200 } else { 10_000 },
            store_batch_count: if self.tiny { 2 } else { 10 },
            store_timeout: seconds(5),
            ..SessionConfig::default()
        }
    }
}

/// How a request wants to be answered.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Mode {
    /// JSON or a stream.
    Auto,
    /// JSON.
    Json,
    /// A stream.
    Sse,
}

impl Mode {
    pub(super) const fn response_mode(self) -> ResponseMode {
        match self {
            Self::Auto => ResponseMode::Auto,
            Self::Json => ResponseMode::Json,
            Self::Sse => ResponseMode::Sse,
        }
    }
}

/// How the store does something.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum How {
    /// Well.
    Done,
    /// It does it and says that it has failed.
    DoneAndFailed,
    /// It does nothing and says that it has failed.
    Failed,
    /// It answers with what can't be right, in one of several ways.
    Garbage(u8),
    /// It never answers.
    Silent,
    /// It answers twice.
    Twice,
}

/// One thing that happens. Requests and connections are named by position, counted from the newest.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Step {
    /// The app answers a request.
    AppAnswers {
        /// Which.
        nth: u8,
        /// How large the answer is.
        size: u8,
    },
    /// The app asks the client something.
    AppAsks(u8),
    /// The app sends a note, about a request or, with `get`, about none.
    AppNotes {
        /// Which request.
        nth: u8,
        /// Whether none.
        get: bool,
        /// How large it is.
        size: u8,
    },
    /// The client cancels a request.
    ClientCancels(u8),
    /// The client opens a GET.
    ClientGets,
    /// The client sends a request.
    ClientPosts(Mode),
    /// The client resumes the stream of a request, or with `get` the standalone one, after an event that it has read.
    ClientResumes {
        /// Which request.
        nth: u8,
        /// Whether none.
        get: bool,
        /// Which event, counted from the last.
        back: u8,
    },
    /// A connection goes.
    Disconnect(u8),
    /// The server shuts down.
    Drain,
    /// The session ends.
    End,
    /// The connections that were woken are polled once, with about this many bytes of room.
    Poll(u8),
    /// Everything that was woken is polled until nothing is; then nobody may have anything left.
    Settle,
    /// The store does the n-th thing that it was asked.
    StoreAnswers {
        /// Which.
        nth: u8,
        /// How.
        how: How,
    },
    /// The store does everything that it was asked.
    StoreCatchesUp,
    /// The store loses the first half of what it has.
    StoreLoses,
    /// Half seconds pass, and what is due happens.
    Time(u8),
}

impl Step {
    fn strategy() -> impl Strategy<Value = Self> {
        let size = || prop_oneof![6 => Just(0_u8), 1 => any::<u8>()];
        let how = prop_oneof![
            6 => Just(How::Done),
            1 => Just(How::DoneAndFailed),
            2 => Just(How::Failed),
            2 => any::<u8>().prop_map(How::Garbage),
            1 => Just(How::Silent),
            1 => Just(How::Twice),
        ];
        let mode = prop_oneof![1 => Just(Mode::Auto), 1 => Just(Mode::Json), 4 => Just(Mode::Sse)];
        prop_oneof![
            8 => (0_u8..4, size()).prop_map(|(nth, size)| Self::AppAnswers { nth, size }),
            2 => (0_u8..4).prop_map(Self::AppAsks),
            20 => (0_u8..4, prop::bool::weighted(0.3), size())
                .prop_map(|(nth, get, size)| Self::AppNotes { nth, get, size }),
            2 => (0_u8..4).prop_map(Self::ClientCancels),
            4 => Just(Self::ClientGets),
            10 => mode.prop_map(Self::ClientPosts),
            14 => (0_u8..4, prop::bool::weighted(0.3), 0_u8..6)
                .prop_map(|(nth, get, back)| Self::ClientResumes { nth, get, back }),
            6 => (0_u8..5).prop_map(Self::Disconnect),
            1 => Just(Self::Drain),
            1 => Just(Self::End),
            14 => any::<u8>().prop_map(Self::Poll),
            8 => Just(Self::Settle),
            16 => (0_u8..4, how).prop_map(|(nth, how)| Self::StoreAnswers { nth, how }),
            8 => Just(Self::StoreCatchesUp),
            1 => Just(Self::StoreLoses),
            5 => (0_u8..30).prop_map(Self::Time),
        ]
    }
}
