//! What a session should do, in the most obvious way: every request and every question that ever was, in lists, and
//! every log as the texts in it. Nothing of the real thing is used but names of outcomes.

mod app;
mod resume;

use std::collections::{BTreeMap, VecDeque};

use sessile_core::config::{ResponseMode, SessionConfig};
use sessile_core::session::{AnswerError, EndReason};
use sessile_core::{Outcome, RequestId, Timestamp};

pub(super) use self::app::STILL_WAITING;
pub(super) use self::resume::{Finished, Log};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Starting { until: Timestamp },
    Open,
    Failed,
    Ended(EndReason),
}

/// A log's owner, or where a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dest {
    Get,
    Request(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Note,
    Question(i64),
    Response,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    Held {
        until: Option<Timestamp>,
    },
    Streaming {
        begun: bool,
        since: Timestamp,
        /// When it last read, or what it has not read began to wait.
        moved: Timestamp,
    },
    /// The client has left, before (`None`) or after the session could go on without it.
    Left(Option<Timestamp>),
    /// It has finished, and may be resumed.
    Kept,
    /// The exchange is over.
    Done,
}

#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: u8,
    pub(super) mode: ResponseMode,
    pub(super) initialize: bool,
    pub(super) open: bool,
    pub(super) reader: Reader,
    /// The connection that reads it.
    pub(super) connection: usize,
    pub(super) log: Log,
    /// Its number in ids; 0 until it has one.
    pub(super) number: u64,
    pub(super) answers: u32,
    /// It is to be ended: whether at once, and what the client is told to wait.
    pub(super) pause: Option<(bool, u64)>,
    pub(super) refusal: Option<Outcome>,
    /// Ended without an answer of the app.
    pub(super) stopped: bool,
    since: Timestamp,
    spoken: Timestamp,
}

#[derive(Debug)]
pub(super) struct Get {
    pub(super) number: usize,
    pub(super) begun: bool,
    pub(super) moved: Timestamp,
    /// It came with the id of an event.
    pub(super) resumed: bool,
    /// Whether it is to end, and when the client should come back.
    pub(super) closing: Option<Option<u64>>,
}

#[derive(Debug)]
pub(super) struct Question {
    pub(super) dest: Dest,
    related: Option<usize>,
    /// Until when it must be taken.
    pub(super) until: Option<Timestamp>,
    /// For an app that is called: what waits for it.
    pub(super) answer: Option<Result<String, AnswerError>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ForApp {
    Cancelled(u8),
    Error(i64, &'static str),
    Raw(String),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) cancellations_unmatched: u32,
    pub(super) client_responses_unmatched: u32,
    pub(super) notes_dropped: u32,
    pub(super) requests: u64,
    pub(super) requests_cancelled: u32,
    pub(super) requests_expired: u32,
    pub(super) responses_unmatched: u32,
    pub(super) resumed_with_gap: u32,
    pub(super) server_requests_failed: u32,
    pub(super) released: u32,
    pub(super) established: u32,
    pub(super) ends: u32,
}

pub(super) struct Model {
    pub(super) call: bool,
    pub(super) config: SessionConfig,
    pub(super) phase: Phase,
    pub(super) now: Timestamp,
    /// Whether the app is of the newest revision, and whether that is known yet.
    pub(super) newest: bool,
    pub(super) established: bool,
    pub(super) draining: bool,
    pub(super) requests: Vec<Request>,
    pub(super) get_log: Log,
    pub(super) gets: Vec<Get>,
    pub(super) finished: Vec<Finished>,
    /// How many streams have a number.
    pub(super) numbers: u64,
    pub(super) questions: BTreeMap<i64, Question>,
    pub(super) inbox: VecDeque<ForApp>,
    /// The lengths of the notifications that an app which is called is not done with.
    pub(super) note_calls: VecDeque<usize>,
    pub(super) counts: Counts,
    /// Numbers requests and the questions of calls.
    pub(super) serial: i64,
}

impl Model {
    pub(super) fn over(&self) -> bool {
        matches!(self.phase, Phase::Failed | Phase::Ended(_))
    }

    /// The requests in flight, by id.
    pub(super) fn in_flight(&self) -> Vec<usize> {
        let mut open: Vec<usize> = (0..self.requests.len()).filter(|at| self.requests[*at].open).collect();
        open.sort_by_key(|at| self.requests[*at].id);
        open
    }

    pub(super) fn with_id(&self, id: u8) -> Option<usize> {
        self.in_flight().into_iter().find(|at| self.requests[*at].id == id)
    }

    pub(super) fn starting(&self, at: usize) -> bool {
        matches!(self.phase, Phase::Starting { .. }) && self.requests[at].initialize && self.requests[at].open
    }

    fn attached(&self, at: usize) -> bool {
        matches!(self.requests[at].reader, Reader::Held { .. } | Reader::Streaming { .. })
    }

    fn is_json(&self, at: usize) -> bool {
        matches!(self.requests[at].reader, Reader::Held { .. }) && self.requests[at].mode == ResponseMode::Json
    }

    fn has_reader(&self, at: usize) -> bool {
        self.attached(at) || self.requests[at].log.given > 0
    }

    fn has_wire(&self, at: usize) -> bool {
        self.requests[at].open && self.has_reader(at) && !self.is_json(at)
    }

    fn newest_with_wire(&self) -> Option<usize> {
        (0..self.requests.len()).rev().find(|at| self.has_wire(*at))
    }

    fn newest(&self) -> Option<usize> {
        (0..self.requests.len()).rev().find(|at| self.requests[*at].open)
    }

    fn get_is_open(&self) -> bool {
        !self.gets.is_empty()
    }

    pub(super) fn inbox_full(&self, times: usize) -> bool {
        !self.call && !self.inbox.is_empty() && self.inbox.len() >= self.config.inbox_count * times
    }

    pub(super) fn for_app(&mut self, message: ForApp) {
        if !self.call {
            self.inbox.push_back(message);
        }
    }

    pub(super) fn log(&mut self, dest: Dest) -> &mut Log {
        match dest {
            Dest::Get => &mut self.get_log,
            Dest::Request(at) => &mut self.requests[at].log,
        }
    }

    // Requests of the client.

    pub(super) fn post(
        &mut self,
        now: Timestamp,
        id: u8,
        mode: ResponseMode,
        again: bool,
        raw: &str,
    ) -> Option<Outcome> {
        let refusal = if self.over() {
            Some(Outcome::SessionNotFound)
        } else if self.draining {
            Some(Outcome::ShuttingDown)
        } else if again {
            Some(Outcome::AlreadyInitialized)
        } else if self.with_id(id).is_some() {
            Some(Outcome::DuplicateRequestId)
        } else if self.in_flight().len() >= self.config.max_in_flight {
            Some(Outcome::TooManyRequests)
        } else if self.inbox_full(1) {
            Some(Outcome::InboxFull { request: true })
        } else {
            None
        };
        if refusal.is_none() {
            self.open(now, id, mode, false, raw);
        }
        refusal
    }

    pub(super) fn open(&mut self, now: Timestamp, id: u8, mode: ResponseMode, initialize: bool, raw: &str) {
        let window = match mode {
            ResponseMode::Json => None,
            _ if initialize => Some(self.config.initialize_window),
            ResponseMode::Auto => Some(self.config.auto_window),
            ResponseMode::Sse => Some(std::time::Duration::ZERO),
        };
        self.serial += 1;
        self.counts.requests += 1;
        self.requests.push(Request {
            id,
            mode,
            initialize,
            open: true,
            reader: Reader::Held { until: window.map(|window| now.saturating_add(window)) },
            connection: usize::MAX,
            log: Log::default(),
            number: 0,
            answers: 0,
            pause: None,
            refusal: None,
            stopped: false,
            since: now,
            spoken: now,
        });
        self.for_app(ForApp::Raw(raw.to_owned()));
    }

    pub(super) fn cancel(&mut self, id: u8, raw: &str) -> Option<Outcome> {
        if let Some(refusal) = self.refuses_note() {
            return Some(refusal);
        }
        match self.with_id(id) {
            Some(at) if self.starting(at) => {
                self.counts.cancellations_unmatched += 1;
                return None;
            }
            Some(at) => {
                self.counts.requests_cancelled += 1;
                self.stop(at, &Outcome::Accepted);
            }
            None => self.counts.cancellations_unmatched += 1,
        }
        self.note_for_app(raw);
        None
    }

    pub(super) fn refuses_note(&self) -> Option<Outcome> {
        if self.over() {
            Some(Outcome::SessionNotFound)
        } else {
            let full = self.inbox_full(2) || self.note_calls.len() >= self.config.inbox_count;
            full.then_some(Outcome::InboxFull { request: false })
        }
    }

    pub(super) fn note_for_app(&mut self, raw: &str) {
        if self.call {
            self.note_calls.push_back(raw.len());
        }
        self.for_app(ForApp::Raw(raw.to_owned()));
    }

    /// Ends a request without an answer of the app.
    fn stop(&mut self, at: usize, outcome: &Outcome) {
        let request = &mut self.requests[at];
        request.open = false;
        request.stopped = true;
        match request.reader {
            Reader::Held { .. } => request.refusal = Some(outcome.clone()),
            Reader::Streaming { .. } | Reader::Left(_) if *outcome != Outcome::Accepted => {
                let error = outcome.to_message(&RequestId::Number(request.id.into()));
                request.answers += 1;
                if self.has_reader(at) {
                    self.requests[at].log.push(Kind::Response, String::from_utf8_lossy(&error).into_owned());
                }
            }
            Reader::Streaming { .. } | Reader::Left(_) | Reader::Kept | Reader::Done => {}
        }
        self.answered(at);
    }

    pub(super) fn respond(&mut self, at: usize, error: bool, raw: String) {
        if self.over() || !self.requests[at].open {
            self.counts.responses_unmatched += 1;
            return;
        }
        if self.starting(at) {
            if error {
                self.phase = Phase::Failed;
                self.counts.ends += 1;
            } else {
                self.phase = Phase::Open;
                self.established = true;
                self.counts.established += 1;
            }
        }
        self.requests[at].open = false;
        self.requests[at].answers += 1;
        if self.has_reader(at) {
            let limits = self.limits();
            let log = &mut self.requests[at].log;
            log.push(Kind::Response, raw);
            log.trim(limits);
        }
        self.answered(at);
    }

    fn answered(&mut self, at: usize) {
        self.fail(AnswerError::Ended, |question| question.related == Some(at));
        if let Reader::Left(detached) = self.requests[at].reader {
            self.counts.released += u32::from(detached.is_some());
            self.retire(at);
        }
    }

    /// The exchange of a request is over.
    pub(super) fn finish(&mut self, at: usize) {
        self.requests[at].reader = Reader::Done;
        self.finished.retain(|finished| finished.request != at);
        self.forget_log(Dest::Request(at));
    }

    fn forget_log(&mut self, dest: Dest) {
        let log = std::mem::take(self.log(dest));
        self.counts.notes_dropped += log.notes();
        self.fail(AnswerError::NoWire, |question| question.dest == dest && question.until.is_some());
    }

    /// Whether the session has to be ended because of it, and whether the exchange is kept.
    pub(super) fn leave(&mut self, now: Timestamp, at: usize) -> (bool, bool) {
        let over = self.over();
        let request = &mut self.requests[at];
        match request.reader {
            Reader::Left(_) | Reader::Kept | Reader::Done => (false, false),
            Reader::Held { .. } if request.initialize && !over => {
                if request.open {
                    request.reader = Reader::Left(None);
                } else {
                    self.finish(at);
                }
                (true, false)
            }
            Reader::Held { .. } | Reader::Streaming { .. } if request.open => {
                self.detach(now, at);
                (false, true)
            }
            Reader::Held { .. } | Reader::Streaming { .. } => {
                self.retire(at);
                (false, false)
            }
        }
    }

    pub(super) fn leave_get(&mut self, number: usize) {
        if self.gets.last().is_some_and(|get| get.number == number) {
            self.get_log.settle();
        }
        self.gets.retain(|get| get.number != number);
        if let Some(carrier) = self.gets.last_mut() {
            carrier.moved = self.now;
        }
        self.give_up_get();
    }

    fn give_up_get(&mut self) {
        if self.gets.is_empty() && (self.draining || self.over()) {
            self.forget_log(Dest::Get);
        }
    }

    // Time and ends.

    pub(super) fn timeout(&mut self, now: Timestamp) {
        if self.over() {
            return;
        }
        if matches!(self.phase, Phase::Starting { until } if until <= now) {
            self.phase = Phase::Failed;
            self.counts.ends += 1;
            return;
        }
        for at in self.in_flight() {
            if self.request_deadline(at).is_some_and(|deadline| deadline <= now) {
                self.counts.requests_expired += 1;
                self.for_app(ForApp::Cancelled(self.requests[at].id));
                self.stop(at, &Outcome::RequestExpired);
            }
        }
        self.timeout_kept(now);
        self.fail(AnswerError::NotTaken, |question| question.until.is_some_and(|until| until <= now));
    }

    fn request_deadline(&self, at: usize) -> Option<Timestamp> {
        if self.starting(at) {
            return None;
        }
        let request = &self.requests[at];
        let age = self.config.max_request_age.map(|age| request.since.saturating_add(age));
        let detached = match (request.reader, self.config.detached_timeout) {
            (Reader::Left(Some(since)), Some(timeout)) => Some(since.max(request.spoken).saturating_add(timeout)),
            _ => None,
        };
        [age, detached].into_iter().flatten().min()
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        if self.over() {
            return None;
        }
        let start = if let Phase::Starting { until } = self.phase { Some(until) } else { None };
        let requests = self.in_flight().into_iter().filter_map(|at| self.request_deadline(at));
        let questions = self.questions.values().filter_map(|question| question.until);
        start.into_iter().chain(requests).chain(questions).chain(self.next_of_kept()).min()
    }

    pub(super) fn drain(&mut self) {
        self.draining = true;
        for get in &mut self.gets {
            get.closing.get_or_insert(Some(1_000));
        }
        self.give_up_get();
    }

    pub(super) fn end(&mut self, reason: EndReason) {
        let open = match self.phase {
            Phase::Ended(_) => return,
            Phase::Open => true,
            Phase::Failed | Phase::Starting { .. } => false,
        };
        let ours = matches!(reason, EndReason::Closed | EndReason::Shutdown);
        let outcome = if open || ours { Outcome::SessionEnded } else { Outcome::AppFailed };
        self.phase = Phase::Ended(reason);
        for at in self.in_flight() {
            self.stop(at, &outcome);
        }
        for finished in std::mem::take(&mut self.finished) {
            self.finish(finished.request);
        }
        self.fail(AnswerError::Ended, |_| true);
        for get in &mut self.gets {
            get.closing.get_or_insert(None);
        }
        self.give_up_get();
        self.inbox.clear();
    }

    pub(super) fn drained(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
            && self.gets.is_empty()
            && self.requests.iter().all(|request| request.reader == Reader::Done)
    }
}
