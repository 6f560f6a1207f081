//! Every limit: its unit, its default, its check.
//!
//! Owns the settings of the gate, the table and the session. Does not own where they come from; the program reads them from
//! options and the environment.

use std::fmt;
use std::time::Duration;

/// All settings of the core.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// What is let in.
    pub gate: GateConfig,
    /// How one session behaves.
    pub session: SessionConfig,
    /// How many requests without a session there are.
    pub sessionless: SessionlessConfig,
    /// How many sessions there are and how long they live.
    pub table: TableConfig,
}

impl Config {
    /// Checks every setting against its range and against the others.
    ///
    /// # Errors
    ///
    /// The first setting that is wrong.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.gate.check()?;
        self.session.check()?;
        self.sessionless.check()?;
        match self.gate.stateless {
            true if self.table.idle_timeout.is_some() => Err(ConfigError::IdleWithoutSessions),
            // There is no table of sessions.
            true => Ok(()),
            false => self.table.check(),
        }
    }
}

/// What the gate lets in.
#[derive(Clone, Debug)]
pub struct GateConfig {
    /// Names that the `Host` header may carry besides the loopback names: `name` for any port, `name:port` for
    /// that port, `name:*` as the first; IPv6 addresses in brackets; `*` alone for every name. Compared in any
    /// case, a dot at the end makes another name. An entry for port 80 or 443 is met by a `Host` without port too,
    /// since clients leave the default port out. Default: none.
    pub allowed_hosts: Vec<String>,
    /// Origins that browsers may send besides the loopback ones: `scheme://name` for the scheme's default port,
    /// `scheme://name:port`, `scheme://name:*` for every port. Default: none.
    pub allowed_origins: Vec<String>,
    /// How long a body may take from its head to its last byte. Default: 30 s.
    pub body_timeout: Duration,
    /// Origins whose pages' scripts may read answers (cross-origin resource sharing), in the form of `allowed_origins`, or
    /// `*` alone for every origin; they count as allowed. Default: none, so that no answer says a word about it.
    pub cors_origins: Vec<String>,
    /// Whether `localhost`, 127.0.0.0/8 (in canonical dotted form) and `[::1]` with any port are good in `Host`.
    /// Default: yes.
    pub loopback_hosts: bool,
    /// Whether loopback origins (http and https, any port) are good. Meant for listeners on a loopback address.
    /// Default: yes.
    pub loopback_origins: bool,
    /// The size of a request's body in bytes. Default: 4 MiB.
    pub max_body: usize,
    /// How requests are answered where the client's `Accept` leaves a choice. Default: `Auto`.
    pub response_mode: ResponseMode,
    /// Whether requests of the legacy era are served without sessions: each by a fresh app, with neither a session id nor GET or
    /// DELETE, and with no way for the app to ask its client. Refused together with an idle timeout. Default: no.
    pub stateless: bool,
}

impl Default for GateConfig {
    fn default() -> Self {
        Self {
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            body_timeout: Duration::from_secs(30),
            cors_origins: Vec::new(),
            loopback_hosts: true,
            loopback_origins: true,
            max_body: 4 << 20,
            response_mode: ResponseMode::Auto,
            stateless: false,
        }
    }
}

impl GateConfig {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        positive("gate.max_body", self.max_body)?;
        positive_time("gate.body_timeout", self.body_timeout)
    }
}

/// How a request is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResponseMode {
    /// JSON when the response is the first thing that the app says about the request and comes within a short window,
    /// else a stream of events.
    #[default]
    Auto,
    /// One JSON body. Notifications related to the request have no way to the client then.
    Json,
    /// A stream of events.
    Sse,
}

/// How many sessions there are and how long they live.
#[derive(Clone, Debug)]
pub struct TableConfig {
    /// How long a session may be idle, that is without an exchange and without a request in flight. `None`: for
    /// ever. Default: 30 min.
    pub idle_timeout: Option<Duration>,
    /// How long after the answer to `initialize` the first exchange of a session may come. `None`: any time.
    /// Default: 60 s.
    pub init_timeout: Option<Duration>,
    /// How long a session may live, busy or not. Default: `None`, any time.
    pub max_lifetime: Option<Duration>,
    /// How many sessions one principal may have at once; anonymous clients count as one. Default: `None`, as many as there are.
    pub max_per_principal: Option<usize>,
    /// How many sessions there may be at once. Default: 10,000.
    pub max_sessions: usize,
    /// What happens when they are all taken. Default: `Refuse`.
    pub when_full: WhenFull,
}

impl Default for TableConfig {
    fn default() -> Self {
        Self {
            idle_timeout: Some(Duration::from_secs(30 * 60)),
            init_timeout: Some(Duration::from_secs(60)),
            max_lifetime: None,
            max_per_principal: None,
            max_sessions: 10_000,
            when_full: WhenFull::Refuse,
        }
    }
}

impl TableConfig {
    /// Checks the settings of the table alone.
    ///
    /// # Errors
    ///
    /// The first setting that is wrong. A cap that could stay full for ever is one: with neither idle
    /// expiry, nor a lifetime, nor eviction, nothing would make room again.
    pub fn check(&self) -> Result<(), ConfigError> {
        positive("table.max_sessions", self.max_sessions)?;
        positive("table.max_per_principal", self.max_per_principal.unwrap_or(usize::MAX))?;
        for (name, time) in [
            ("table.idle_timeout", self.idle_timeout),
            ("table.init_timeout", self.init_timeout),
            ("table.max_lifetime", self.max_lifetime),
        ] {
            if let Some(time) = time {
                positive_time(name, time)?;
            }
        }
        if self.idle_timeout.is_none() && self.max_lifetime.is_none() && self.when_full == WhenFull::Refuse {
            return Err(ConfigError::FullForEver);
        }
        Ok(())
    }
}

/// How many requests without a session are served at once. They don't count as sessions.
///
/// Subscriptions (`subscriptions/listen`; 2026-07-28, subscriptions) are counted apart from all other requests: they last for as
/// long as their clients like, and would leave no room for calls that are over in a moment.
#[derive(Clone, Debug)]
pub struct SessionlessConfig {
    /// Requests of one principal; anonymous ones count as of one. Default: 512.
    pub max_per_principal: usize,
    /// All requests. Default: 1,024.
    pub max_requests: usize,
    /// All subscriptions. Each is a connection that waits, as the GET stream of a session is; hence as many by default as there may
    /// be sessions. Default: 10,000.
    pub max_subscriptions: usize,
    /// Subscriptions of one principal; anonymous ones count as of one. Default: `None`, as many as there are, since all clients
    /// of a server may be anonymous.
    pub max_subscriptions_per_principal: Option<usize>,
}

impl Default for SessionlessConfig {
    fn default() -> Self {
        Self {
            max_per_principal: 512,
            max_requests: 1_024,
            max_subscriptions: 10_000,
            max_subscriptions_per_principal: None,
        }
    }
}

impl SessionlessConfig {
    fn check(&self) -> Result<(), ConfigError> {
        positive("sessionless.max_per_principal", self.max_per_principal)?;
        positive("sessionless.max_requests", self.max_requests)?;
        positive("sessionless.max_subscriptions", self.max_subscriptions)?;
        let per_principal = self.max_subscriptions_per_principal.unwrap_or(usize::MAX);
        positive("sessionless.max_subscriptions_per_principal", per_principal)
    }

    /// The settings of a [`SessionTable`](crate::SessionTable) that counts requests.
    #[must_use]
    pub fn table(&self) -> TableConfig {
        Self::table_of(self.max_requests, Some(self.max_per_principal))
    }

    /// The settings of a [`SessionTable`](crate::SessionTable) that counts subscriptions.
    #[must_use]
    pub fn subscriptions_table(&self) -> TableConfig {
        Self::table_of(self.max_subscriptions, self.max_subscriptions_per_principal)
    }

    /// Each is over with its exchange, so that time ends none of them.
    fn table_of(max_sessions: usize, max_per_principal: Option<usize>) -> TableConfig {
        TableConfig {
            idle_timeout: Some(Duration::from_secs(60)),
            init_timeout: None,
            max_lifetime: None,
            max_per_principal,
            max_sessions,
            when_full: WhenFull::Refuse,
        }
    }
}

/// What happens to an `initialize` when all sessions are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WhenFull {
    /// The session that has been idle longest makes room; if none is idle, it is refused.
    EvictIdle,
    /// It is refused with 503.
    #[default]
    Refuse,
}

/// How one session behaves.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// How long a response may take to be sent as JSON in [`ResponseMode::Auto`]. Default: 200 ms.
    pub auto_window: Duration,
    /// How long a request without a connection keeps its session busy after its connection went, or after
    /// the app last said something about it. `None`: as long as it takes. The manager sets it to the idle timeout. Default: 30 min.
    pub detached_timeout: Option<Duration>,
    /// Messages from the client that wait for the app, in bytes; where the app is called, notifications that it has not done with.
    /// Default: 16 MiB.
    pub inbox_bytes: usize,
    /// The same, in number. Default: 1,024.
    pub inbox_count: usize,
    /// How long the head of the answer to `initialize` is held before a stream opens. Default: 5 s.
    pub initialize_window: Duration,
    /// How often a silent stream sends a comment. Zero: never. Default: 15 s.
    pub keep_alive: Duration,
    /// How long an event that was sent can be resumed before, and a stream that has finished can be resumed. What goes earlier
    /// for want of room, see `log_bytes` and `log_count`. Default: 5 min.
    pub log_age: Duration,
    /// Messages that wait in one stream for a reader, in bytes; beyond it the oldest notifications go. With `resume` this counts
    /// what was sent and is kept too, which goes first; a reader that is behind by more is disconnected; and the
    /// finished streams of a session have the same bound together. Default: 4 MiB.
    pub log_bytes: usize,
    /// Messages that wait in one stream for a reader, in number; beyond it the oldest notifications go. With `resume` as
    /// for `log_bytes`; and so many finished streams are kept in a session. Default: 1,024.
    pub log_count: usize,
    /// Requests of the client in flight at once. Default: 1,024.
    pub max_in_flight: usize,
    /// Resources that the client may subscribe to and that are remembered, for notes from outside of its calls; each with a
    /// URI of up to 4 KiB. Beyond it the client is told of every resource that is updated. Default: 1,024.
    pub max_resource_subscriptions: usize,
    /// How long a request may take in all, its connection attached or not. Default: `None`, any time.
    pub max_request_age: Option<Duration>,
    /// Requests of the app to the client at once. Default: 256.
    pub max_server_requests: usize,
    /// GET streams open at once; beyond it the oldest is closed. Default: 4.
    pub max_standalone: usize,
    /// How long the answer to a request may stream over one connection before it is ended, so that the client comes back for
    /// the rest after `retry`. Only with `resume`, and for clients that expect it (2025-11-25). `None`: as long as it takes.
    /// Default: `None`.
    pub poll_after: Option<Duration>,
    /// Whether events have ids and clients can resume a stream after one. Default: no; the program turns it on.
    pub resume: bool,
    /// What `retry` tells clients when a stream is ended early. Default: 1 s.
    pub retry: Duration,
    /// How long a request of the app waits for a connection to take it. Default: 60 s.
    pub server_request_timeout: Duration,
    /// How long the app may take to answer `initialize`, its start included. Default: 120 s.
    pub start_timeout: Duration,
    /// Whether the driver has a store for events, so that with `resume` they are offered to it before readers get them. `log_bytes` and
    /// `log_count` bound memory alone then, and `log_age` what the store has not taken; how long it keeps what is not forgotten is
    /// its own. Default: no; the manager sets it.
    pub store: bool,
    /// How many bytes one append to the store or one read from it has at most; one message of any size goes alone. Default: 256 KiB.
    pub store_batch_bytes: usize,
    /// How many events one append or read has at most. Default: 64.
    pub store_batch_count: usize,
    /// How long an append or a read may take. Then it has failed: events go to their readers without the store, which is asked for nothing
    /// in the next six times this. Default: 5 s.
    pub store_timeout: Duration,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            auto_window: Duration::from_millis(200),
            detached_timeout: Some(Duration::from_secs(30 * 60)),
            inbox_bytes: 16 << 20,
            inbox_count: 1_024,
            initialize_window: Duration::from_secs(5),
            keep_alive: Duration::from_secs(15),
            log_age: Duration::from_secs(5 * 60),
            log_bytes: 4 << 20,
            log_count: 1_024,
            max_in_flight: 1_024,
            max_resource_subscriptions: 1_024,
            max_request_age: None,
            max_server_requests: 256,
            max_standalone: 4,
            poll_after: None,
            resume: false,
            retry: Duration::from_secs(1),
            server_request_timeout: Duration::from_secs(60),
            start_timeout: Duration::from_secs(120),
            store: false,
            store_batch_bytes: 256 << 10,
            store_batch_count: 64,
            store_timeout: Duration::from_secs(5),
        }
    }
}

impl SessionConfig {
    fn check(&self) -> Result<(), ConfigError> {
        for (name, count) in [
            ("session.inbox_bytes", self.inbox_bytes),
            ("session.inbox_count", self.inbox_count),
            ("session.log_bytes", self.log_bytes),
            ("session.log_count", self.log_count),
            ("session.max_in_flight", self.max_in_flight),
            ("session.max_standalone", self.max_standalone),
            ("session.store_batch_bytes", self.store_batch_bytes),
            ("session.store_batch_count", self.store_batch_count),
        ] {
            positive(name, count)?;
        }
        for (name, time) in [
            ("session.log_age", self.log_age),
            ("session.server_request_timeout", self.server_request_timeout),
            ("session.start_timeout", self.start_timeout),
            ("session.store_timeout", self.store_timeout),
        ] {
            positive_time(name, time)?;
        }
        for (name, time) in [("session.max_request_age", self.max_request_age), ("session.poll_after", self.poll_after)]
        {
            time.map_or(Ok(()), |time| positive_time(name, time))?;
        }
        Ok(())
    }
}

const fn positive(setting: &'static str, value: usize) -> Result<(), ConfigError> {
    if value == 0 { Err(ConfigError::NotPositive { setting }) } else { Ok(()) }
}

const fn positive_time(setting: &'static str, value: Duration) -> Result<(), ConfigError> {
    if value.is_zero() { Err(ConfigError::NotPositive { setting }) } else { Ok(()) }
}

/// A setting that can't be served: the fault of whoever configures.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConfigError {
    /// An origin to share with that is no origin, or `*` beside others.
    CorsOrigin {
        /// What was given.
        given: String,
    },
    /// A cap with neither idle expiry, nor a lifetime, nor eviction.
    FullForEver,
    /// An allowed host that is no host.
    Host {
        /// What was given.
        given: String,
    },
    /// An idle timeout where there are no sessions that could be idle.
    IdleWithoutSessions,
    /// No era is to be served.
    NoEra,
    /// A setting that must be greater than zero.
    NotPositive {
        /// Its name, with the part of [`Config`] that it is of: `table.max_sessions`.
        setting: &'static str,
    },
    /// An allowed origin that is no origin.
    Origin {
        /// What was given.
        given: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CorsOrigin { given } => write!(
                f,
                "CORS origin {given:?} is not SCHEME://NAME, SCHEME://NAME:PORT, SCHEME://NAME:* or, alone, *"
            ),
            Self::FullForEver => f.write_str(
                "a session cap needs an idle timeout, a maximum lifetime, or eviction of idle sessions; otherwise a full table stays full",
            ),
            Self::Host { given } => write!(f, "allowed host {given:?} is not NAME, NAME:PORT, NAME:* or *"),
            Self::IdleWithoutSessions => f.write_str("an idle timeout means nothing in stateless mode, which has no sessions"),
            Self::NoEra => f.write_str("at least one era must be served"),
            Self::NotPositive { setting } => write!(f, "{setting} must be greater than zero"),
            Self::Origin { given } => write!(f, "allowed origin {given:?} is not SCHEME://NAME, SCHEME://NAME:PORT or SCHEME://NAME:*"),
        }
    }
}

impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_pass() {
        assert_eq!(Config::default().check(), Ok(()));
    }

    #[test]
    fn a_cap_that_could_stay_full_for_ever_is_refused() {
        let mut config = Config::default();
        config.table.idle_timeout = None;
        assert_eq!(config.check(), Err(ConfigError::FullForEver));
        config.table.when_full = WhenFull::EvictIdle;
        assert_eq!(config.check(), Ok(()));
        config.table.when_full = WhenFull::Refuse;
        config.table.max_lifetime = Some(Duration::from_secs(1));
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn an_idle_timeout_is_refused_where_there_are_no_sessions() {
        let mut config = Config::default();
        config.gate.stateless = true;
        assert_eq!(config.check(), Err(ConfigError::IdleWithoutSessions));
        config.table.idle_timeout = None;
        assert_eq!(config.check(), Ok(()));
    }

    #[test]
    fn zero_is_no_limit_and_the_error_names_the_setting() {
        type Set = fn(&mut Config);
        let settings: [(&str, Set); 22] = [
            ("gate.body_timeout", |config| config.gate.body_timeout = Duration::ZERO),
            ("gate.max_body", |config| config.gate.max_body = 0),
            ("session.inbox_bytes", |config| config.session.inbox_bytes = 0),
            ("session.inbox_count", |config| config.session.inbox_count = 0),
            ("session.log_age", |config| config.session.log_age = Duration::ZERO),
            ("session.log_bytes", |config| config.session.log_bytes = 0),
            ("session.log_count", |config| config.session.log_count = 0),
            ("session.max_in_flight", |config| config.session.max_in_flight = 0),
            ("session.max_standalone", |config| config.session.max_standalone = 0),
            ("session.poll_after", |config| config.session.poll_after = Some(Duration::ZERO)),
            ("session.server_request_timeout", |config| config.session.server_request_timeout = Duration::ZERO),
            ("session.start_timeout", |config| config.session.start_timeout = Duration::ZERO),
            ("sessionless.max_per_principal", |config| config.sessionless.max_per_principal = 0),
            ("sessionless.max_requests", |config| config.sessionless.max_requests = 0),
            ("sessionless.max_subscriptions", |config| config.sessionless.max_subscriptions = 0),
            ("sessionless.max_subscriptions_per_principal", |config| {
                config.sessionless.max_subscriptions_per_principal = Some(0);
            }),
            ("table.idle_timeout", |config| config.table.idle_timeout = Some(Duration::ZERO)),
            ("table.init_timeout", |config| config.table.init_timeout = Some(Duration::ZERO)),
            ("table.max_lifetime", |config| config.table.max_lifetime = Some(Duration::ZERO)),
            ("table.max_per_principal", |config| config.table.max_per_principal = Some(0)),
            ("table.max_sessions", |config| config.table.max_sessions = 0),
            ("session.max_request_age", |config| config.session.max_request_age = Some(Duration::ZERO)),
        ];
        for (setting, set) in settings {
            let mut config = Config::default();
            set(&mut config);
            assert_eq!(config.check(), Err(ConfigError::NotPositive { setting }));
            assert!(ConfigError::NotPositive { setting }.to_string().starts_with(setting));
        }
    }
}
