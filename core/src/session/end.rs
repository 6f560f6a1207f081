//! Time-outs, draining and the end of a session. Silence is never an ending: every open request gets an error.

use std::time::Duration;

use crate::config::SessionConfig;
use crate::message::Message;
use crate::outcome::Outcome;
use crate::session::inbox::Inbound;
use crate::session::outside::Wish;
use crate::session::stream::{Closing, ConnectionKey, Place, RequestKey};
use crate::session::{Delivery, Effect, Kind, Phase, Session};
use crate::table::{ReapReason, TaskExit};
use crate::time::Timestamp;

/// Why a session is over, as far as its open requests are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EndReason {
    /// The app returned or crashed.
    AppEnded,
    /// DELETE, expiry, eviction, or the client left before it began.
    Closed,
    /// The app answered `initialize` with an error.
    InitializeFailed,
    /// The app has not answered `initialize` in time.
    NotStarted,
    /// The server shuts down.
    Shutdown,
}

/// What the reason of the table means to the session's open requests.
impl From<ReapReason> for EndReason {
    fn from(reason: ReapReason) -> Self {
        match reason {
            ReapReason::Crashed | ReapReason::Finished => Self::AppEnded,
            ReapReason::Shutdown => Self::Shutdown,
            ReapReason::Abandoned
            | ReapReason::Deleted
            | ReapReason::Dismissed
            | ReapReason::Evicted
            | ReapReason::Idle
            | ReapReason::Lifetime
            | ReapReason::NeverInitialized => Self::Closed,
        }
    }
}

/// What the table is told where the session itself says that it is over, by [`Effect::End`].
impl From<EndReason> for TaskExit {
    fn from(reason: EndReason) -> Self {
        match reason {
            EndReason::NotStarted => Self::Crashed,
            EndReason::AppEnded | EndReason::Closed | EndReason::InitializeFailed | EndReason::Shutdown => {
                Self::Finished
            }
        }
    }
}

impl<X> Session<X> {
    /// Ends what is due: requests without a connection, requests that took too long, requests of the app that nobody took, and a start
    /// that takes for ever. Early calls change nothing.
    pub fn handle_timeout(&mut self, now: Timestamp, config: &SessionConfig) {
        if self.is_over() {
            return;
        }
        self.deadline = Timestamp::MAX;
        if let Phase::Starting { until, .. } = self.phase
            && until <= now
        {
            self.phase = Phase::Failed;
            self.effects.push_back(Effect::End(EndReason::NotStarted));
            return;
        }
        if self.streams.iter().any(|(_, stream)| stream.detached.is_some()) || config.max_request_age.is_some() {
            for key in self.expired_requests(now, config) {
                self.expire(now, config, key);
            }
        }
        if self.has_ids(config) {
            self.expire_kept(now, config);
            self.pause_long(now, config);
            self.expire_store(now, config);
        }
        self.expire_outgoing(now);
        self.deadline = self.next_deadline(config);
        let next = (self.deadline != Timestamp::MAX).then_some(self.deadline);
        self.effects.push_back(Effect::Alarm(next));
    }

    /// No new requests and no new GET from now on, and the open GETs end with a word on when to come back, the newest after
    /// what waits for it. What is in flight goes on.
    ///
    /// In the modern era a subscription ends here with its closing result, since its app would never answer it (2026-07-28, subscriptions,
    /// graceful closure).
    pub fn begin_drain(&mut self, now: Timestamp, config: &SessionConfig) {
        self.draining = true;
        self.close_standalone(Closing::Retry(config.retry));
        if self.kind == Kind::Modern {
            self.close_subscriptions(now, config);
        }
    }

    fn close_subscriptions(&mut self, now: Timestamp, config: &SessionConfig) {
        let subscriptions: Vec<RequestKey> = self.in_flight.iter().map(|(_, key)| *key).collect();
        for key in subscriptions {
            let Some(member) =
                self.member(key).filter(|member| matches!(member.wish.as_deref(), Some(Wish::Listen(_))))
            else {
                continue;
            };
            let id = member.id.to_json();
            let result = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
            );
            self.handle_response(now, config, key, result.into());
            self.effects.push_back(Effect::WakeCall(key));
        }
    }

    /// Ends the session: every open request gets an error, every stream ends, the app is told. Once; later calls
    /// change nothing. Connections still attached may read on until they have got the last of it.
    pub fn end(&mut self, reason: EndReason) {
        let was_open = match self.phase {
            Phase::Ended(_) => return,
            Phase::Open => true,
            Phase::Failed | Phase::New | Phase::Starting { .. } => false,
        };
        let outcome = match reason {
            EndReason::Closed | EndReason::Shutdown => Outcome::SessionEnded,
            EndReason::AppEnded | EndReason::InitializeFailed | EndReason::NotStarted if was_open => {
                Outcome::SessionEnded
            }
            EndReason::AppEnded | EndReason::InitializeFailed | EndReason::NotStarted => Outcome::AppFailed,
        };
        self.phase = Phase::Ended(reason);
        self.close_store();
        let open: Vec<RequestKey> = self.in_flight.iter().map(|(_, key)| *key).collect();
        for key in open {
            self.end_request(key, outcome.clone(), None);
        }
        self.forget_finished();
        self.in_flight.clear();
        self.fail_all_outgoing();
        self.close_standalone(Closing::Final);
        self.inbox.clear();
        if self.deadline != Timestamp::MAX {
            self.deadline = Timestamp::MAX;
            self.effects.push_back(Effect::Alarm(None));
        }
        self.effects.push_back(Effect::WakeApp);
    }

    pub(super) fn close_standalone(&mut self, how: Closing) {
        let Some(standalone) = &mut self.standalone else { return };
        for reader in standalone.readers.iter_mut().filter(|reader| reader.closing.is_none()) {
            reader.closing = Some(how);
            let connection = ConnectionKey { place: Place::Standalone, attached: reader.attached };
            self.effects.push_back(Effect::WakeConnection(connection));
        }
        self.give_up_standalone();
    }

    fn expired_requests(&self, now: Timestamp, config: &SessionConfig) -> Vec<RequestKey> {
        let due = |key: &RequestKey| self.request_deadline(*key, config).is_some_and(|deadline| deadline <= now);
        self.in_flight.iter().map(|(_, key)| *key).filter(due).collect()
    }

    /// When a request ends by time alone: by its age, or for want of a connection. `initialize` has a limit of its own.
    fn request_deadline(&self, key: RequestKey, config: &SessionConfig) -> Option<Timestamp> {
        if self.is_starting(key) {
            return None;
        }
        let stream = self.streams.get(key.stream)?;
        let member = stream.members.get(key.position)?;
        let after = |from: Timestamp, time: Option<Duration>| time.map(|time| from.saturating_add(time));
        let age = after(member.since, config.max_request_age);
        let detached = stream.detached.and_then(|since| after(since.max(member.spoken), config.detached_timeout));
        age.into_iter().chain(detached).min()
    }

    fn expire(&mut self, now: Timestamp, config: &SessionConfig, key: RequestKey) {
        let Some(id) = self.request_id(key) else { return };
        if self.delivery == Delivery::Inbox {
            let reason = "the request has expired";
            let note = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{},"reason":"{reason}"}}}}"#,
                id.to_json()
            );
            if let Ok(message) = Message::parse(note.into()) {
                self.push_inbox(Inbound { context: None, message });
            }
        }
        self.counters.requests_expired += 1;
        self.end_request(key, Outcome::RequestExpired, Some((now, config)));
    }

    fn next_deadline(&self, config: &SessionConfig) -> Timestamp {
        let start = match self.phase {
            Phase::Starting { until, .. } => Some(until),
            Phase::Ended(_) | Phase::Failed | Phase::New | Phase::Open => None,
        };
        let requests = self.in_flight.iter().filter_map(|(_, key)| self.request_deadline(*key, config));
        let outgoing = self.outgoing.iter().filter_map(|(_, request)| request.untaken_until);
        let (kept, store) = (self.next_of_kept(config), self.next_of_store());
        start.into_iter().chain(requests).chain(outgoing).chain(kept).chain(store).min().unwrap_or(Timestamp::MAX)
    }
}
