//! What can happen to a session, for proptest and the fuzzer alike.
//!
//! Steps name requests, connections and questions by position and ids from small pools, so that every random input does
//! something, duplicates are common, and a failure shrinks.

use std::time::Duration;

use arbitrary::Arbitrary;
use proptest::prelude::*;
use sessile_core::config::{ResponseMode, SessionConfig};

/// A session's settings and what happens to it.
#[derive(Arbitrary, Clone, Debug)]
pub struct Case {
    /// The settings.
    pub settings: Settings,
    /// What happens, after the `initialize` has been posted.
    pub steps: Vec<Step>,
}

impl Case {
    /// Any case; ends are rare.
    pub fn strategy() -> impl Strategy<Value = Self> {
        (Settings::strategy(), prop::collection::vec(Step::strategy(), 1..80))
            .prop_map(|(settings, steps)| Self { settings, steps })
    }
}

/// Which of the settings.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Settings {
    /// Whether the app is called, or else runs with the session.
    pub call: bool,
    /// How `initialize` wants to be answered.
    pub initialize: Mode,
    /// Whether it is answered before the first step.
    pub open: bool,
    /// Whether requests without a connection expire, after 30 s.
    pub detached: bool,
    /// Whether requests have a greatest age, of 40 s.
    pub age: bool,
    /// Whether the limits are tiny.
    pub tiny: bool,
    /// Whether streams can be resumed.
    pub resume: bool,
    /// Whether the app is of the newest revision, whose clients expect to be sent away.
    pub newest: bool,
    /// Whether connections are ended after 15 s.
    pub poll: bool,
}

impl Settings {
    fn strategy() -> impl Strategy<Value = Self> {
        (Mode::strategy(), any::<[bool; 5]>(), prop::bool::weighted(0.8), prop::bool::weighted(0.7), any::<bool>())
            .prop_map(|(initialize, [call, detached, age, tiny, poll], open, resume, newest)| Self {
                call,
                initialize,
                open,
                detached,
                age,
                tiny,
                resume,
                newest,
                poll,
            })
    }

    pub(super) fn config(self) -> SessionConfig {
        let seconds = Duration::from_secs;
        SessionConfig {
            auto_window: seconds(2),
            detached_timeout: self.detached.then(|| seconds(30)),
            initialize_window: seconds(5),
            inbox_count: if self.tiny { 2 } else { 100 },
            log_age: seconds(25),
            log_bytes: if self.tiny { 250 } else { 100_000 },
            log_count: if self.tiny { 2 } else { 100 },
            max_in_flight: if self.tiny { 2 } else { 100 },
            max_request_age: self.age.then(|| seconds(40)),
            max_server_requests: if self.tiny { 2 } else { 100 },
            max_standalone: 2,
            poll_after: self.poll.then(|| seconds(15)),
            resume: self.resume,
            server_request_timeout: seconds(10),
            start_timeout: seconds(20),
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
    fn strategy() -> impl Strategy<Value = Self> {
        prop_oneof![3 => Just(Self::Auto), 1 => Just(Self::Json), 2 => Just(Self::Sse)]
    }

    pub(super) const fn response_mode(self) -> ResponseMode {
        match self {
            Self::Auto => ResponseMode::Auto,
            Self::Json => ResponseMode::Json,
            Self::Sse => ResponseMode::Sse,
        }
    }
}

/// What a message of the app belongs to.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Related {
    /// It can't say.
    Derived,
    /// One that is over.
    Over,
    /// The n-th request that ever was, counted from the newest.
    To(u8),
    /// None.
    Unrelated,
}

impl Related {
    fn strategy() -> impl Strategy<Value = Self> {
        prop_oneof![
            4 => Just(Self::Derived),
            1 => Just(Self::Over),
            4 => (0_u8..4).prop_map(Self::To),
            2 => Just(Self::Unrelated),
        ]
    }
}

/// What a note of the app is.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Note {
    /// A change of a list.
    Changed,
    /// A log message.
    Message,
    /// Progress of the n-th request, counted from the newest.
    Progress(u8),
}

/// One thing that happens.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum Step {
    /// The app answers the request with this id, or the n-th request if it is called.
    AppAnswers {
        /// Which.
        which: u8,
        /// With an error, for one that runs with the session without an id.
        error: bool,
        /// How large the answer is.
        size: u8,
    },
    /// The app asks the client.
    AppAsks {
        /// The id of its request.
        id: u8,
        /// What it belongs to.
        related: Related,
        /// Whether it is a ping.
        ping: bool,
    },
    /// The app takes back what it asked under this id.
    AppCancels(u8),
    /// The app sends a note.
    AppNotes {
        /// Which.
        note: Note,
        /// What it belongs to.
        related: Related,
        /// How large it is.
        size: u8,
    },
    /// The app ends the connection of the n-th request, or with `get` those of the standalone stream; the client should come back
    /// after this many tenths of a second, 0 for what the settings say.
    AppCloses {
        /// Which request, counted from the newest.
        nth: u8,
        /// Whether none.
        get: bool,
        /// Tenths of a second.
        retry: u8,
    },
    /// The app reads this many messages, if it was woken.
    AppReads(u8),
    /// The client answers what it was asked under this id.
    ClientAnswers(u8),
    /// The client cancels the request with this id.
    ClientCancels(u8),
    /// The client sends a notification.
    ClientNotes,
    /// The client sends a request.
    ClientPosts {
        /// Its id.
        id: u8,
        /// How it wants to be answered.
        mode: Mode,
        /// Whether it is another `initialize`.
        initialize: bool,
    },
    /// The client opens a GET.
    ClientGets,
    /// The client resumes the stream of the n-th request, or with `get` the standalone one.
    ClientResumes {
        /// Which request, counted from the newest.
        nth: u8,
        /// Whether none.
        get: bool,
        /// After which event, counted from the last that the stream has given out.
        back: u8,
        /// After one that does not exist.
        beyond: bool,
    },
    /// A connection goes: the n-th that ever was, counted from the newest.
    Disconnect(u8),
    /// The server shuts down.
    Drain,
    /// The session ends, for one of its reasons.
    End(u8),
    /// The connections that were woken are polled once, with about this many bytes of room.
    Poll(u8),
    /// Everything that was woken is polled until nothing is. Then nobody may have anything left.
    Settle,
    /// Half seconds pass.
    Time(u8),
    /// `handle_timeout`, due or not.
    Timeout,
    /// Time passes up to the alarm.
    ToAlarm,
}

impl Step {
    fn strategy() -> impl Strategy<Value = Self> {
        let size = || prop_oneof![6 => Just(0_u8), 1 => any::<u8>()];
        let note = prop_oneof![
            1 => Just(Note::Changed),
            2 => Just(Note::Message),
            2 => (0_u8..4).prop_map(Note::Progress),
        ];
        prop_oneof![
            10 => (0_u8..4, prop::bool::weighted(0.1), size())
                .prop_map(|(which, error, size)| Self::AppAnswers { which, error, size }),
            8 => (0_u8..4, Related::strategy(), prop::bool::weighted(0.2))
                .prop_map(|(id, related, ping)| Self::AppAsks { id, related, ping }),
            3 => (0_u8..4).prop_map(Self::AppCancels),
            12 => (note, Related::strategy(), size())
                .prop_map(|(note, related, size)| Self::AppNotes { note, related, size }),
            2 => (0_u8..4, prop::bool::weighted(0.2), 0_u8..50)
                .prop_map(|(nth, get, retry)| Self::AppCloses { nth, get, retry }),
            5 => (0_u8..4).prop_map(Self::AppReads),
            5 => (0_u8..4).prop_map(Self::ClientAnswers),
            4 => (0_u8..4).prop_map(Self::ClientCancels),
            2 => Just(Self::ClientNotes),
            16 => (0_u8..4, Mode::strategy(), prop::bool::weighted(0.02))
                .prop_map(|(id, mode, initialize)| Self::ClientPosts { id, mode, initialize }),
            5 => Just(Self::ClientGets),
            8 => (0_u8..4, prop::bool::weighted(0.3), prop_oneof![2 => Just(0_u8), 3 => 0_u8..5],
                prop::bool::weighted(0.05))
                .prop_map(|(nth, get, back, beyond)| Self::ClientResumes { nth, get, back, beyond }),
            5 => (0_u8..6).prop_map(Self::Disconnect),
            1 => Just(Self::Drain),
            1 => any::<u8>().prop_map(Self::End),
            10 => any::<u8>().prop_map(Self::Poll),
            8 => Just(Self::Settle),
            5 => (0_u8..40).prop_map(Self::Time),
            1 => Just(Self::Timeout),
            2 => Just(Self::ToAlarm),
        ]
    }
}
