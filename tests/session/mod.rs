//! One session against its reference model, behind a driver that does only what it is told.
//!
//! The driver polls a connection, an app or a question only when an effect has woken it or its time has come. After every
//! step the counts must agree; whatever is read must be what the model has in that log, byte for byte; and when all that
//! was woken has been polled, polling the others too must give nothing: no wake-up was lost.

mod client;
mod expect;
mod model;
mod step;

use bytes::{Bytes, BytesMut};
use sessile_core::config::SessionConfig;
use sessile_core::session::{
    AnswerError, ConnectionKey, Delivery, Disconnect, Effect, EndReason, Head, ReaderOutput, RequestKey,
    ServerRequestKey, Session,
};
use sessile_core::{Message, Outcome, Timestamp};

use self::model::{Counts, Dest, ForApp, Kind, Model, Phase, Reader};
pub use self::step::{Case, Mode, Note, Related, Settings, Step};

/// Takes the steps and checks the session after each.
///
/// # Panics
///
/// If the session is wrong.
pub fn check_session(settings: Settings, steps: &[Step]) {
    let mut bench = Bench::new(settings);
    for step in steps {
        bench.take(*step);
        bench.compare();
    }
    // Every end is reached: whatever happened, nothing stays behind.
    bench.take(Step::Settle);
    bench.compare();
    bench.take(Step::End(0));
    bench.take(Step::Settle);
    bench.compare();
    for connection in 0..bench.connections.len() {
        bench.disconnect(connection);
    }
    bench.compare();
    assert!(bench.session.is_drained(), "something is left");
    let stopped = bench.model.requests.iter().map(|request| u32::from(request.stopped));
    assert!(stopped.eq(bench.calls_woken.iter().copied()), "every call that ends unanswered is told once");
    assert_eq!(bench.counts.released, bench.detached, "an exchange that was kept is given back once");
}

/// A connection as its driver sees it.
struct Connection {
    key: ConnectionKey,
    dest: Dest,
    /// Its number among the GETs.
    number: usize,
    streaming: bool,
    woken: bool,
    until: Option<Timestamp>,
    done: bool,
}

/// A question of a call.
struct Asked {
    key: ServerRequestKey,
    id: i64,
    woken: bool,
    done: bool,
}

struct Bench {
    call: bool,
    config: SessionConfig,
    now: Timestamp,
    session: Session<u32>,
    model: Model,
    keys: Vec<RequestKey>,
    connections: Vec<Connection>,
    asked: Vec<Asked>,
    alarm: Option<Timestamp>,
    app_woken: bool,
    calls_woken: Vec<u32>,
    /// What the effects said.
    counts: Counts,
    detached: u32,
    /// The last event that the client has read of each request.
    read_by_client: Vec<u64>,
    /// Tells the messages apart.
    tag: u32,
}

fn text(raw: &[u8]) -> String {
    String::from_utf8_lossy(raw).into_owned()
}

fn message(raw: &str) -> Message {
    Message::parse(Bytes::copy_from_slice(raw.as_bytes())).expect("a message")
}

impl Bench {
    fn new(settings: Settings) -> Self {
        let config = settings.config();
        let now = Timestamp::from_secs(100);
        let until = now.saturating_add(config.start_timeout);
        let mut bench = Self {
            call: settings.call,
            now,
            session: Session::new(if settings.call { Delivery::Call } else { Delivery::Inbox }),
            model: Model {
                call: settings.call,
                config: config.clone(),
                phase: Phase::Starting { until },
                now,
                newest: settings.newest,
                established: false,
                draining: false,
                requests: Vec::new(),
                get_log: model::Log::default(),
                gets: Vec::new(),
                finished: Vec::new(),
                numbers: 0,
                questions: std::collections::BTreeMap::new(),
                inbox: std::collections::VecDeque::new(),
                note_calls: std::collections::VecDeque::new(),
                counts: Counts::default(),
                serial: 0,
            },
            config,
            keys: Vec::new(),
            connections: Vec::new(),
            asked: Vec::new(),
            alarm: None,
            app_woken: false,
            calls_woken: Vec::new(),
            counts: Counts::default(),
            detached: 0,
            read_by_client: Vec::new(),
            tag: 0,
        };
        bench.initialize(settings.initialize);
        if settings.open {
            bench.app_answers(0, false, 0);
            bench.take(Step::Settle);
        }
        bench
    }

    /// Takes what the session has told, as every driver does after every call.
    fn drain(&mut self) {
        while let Some(effect) = self.session.poll_effect() {
            match effect {
                Effect::Alarm(at) => self.alarm = at,
                Effect::AskStore => panic!("there is no store"),
                Effect::End(_) => self.counts.ends += 1,
                Effect::Established => self.counts.established += 1,
                Effect::Release => self.counts.released += 1,
                Effect::WakeAnswer(key) => {
                    self.asked.iter_mut().filter(|asked| asked.key == key).for_each(|asked| asked.woken = true);
                }
                Effect::WakeApp => self.app_woken = true,
                Effect::WakeCall(key) => {
                    let at = self.keys.iter().position(|other| *other == key).expect("a request");
                    self.calls_woken[at] += 1;
                }
                Effect::WakeConnection(key) => {
                    self.connections.iter_mut().filter(|other| other.key == key).for_each(|other| other.woken = true);
                }
            }
        }
    }

    fn compare(&self) {
        let counters = self.session.counters();
        let found = Counts {
            cancellations_unmatched: counters.cancellations_unmatched,
            client_responses_unmatched: counters.client_responses_unmatched,
            notes_dropped: counters.notes_dropped,
            requests: counters.requests,
            requests_cancelled: counters.requests_cancelled,
            requests_expired: counters.requests_expired,
            responses_unmatched: counters.responses_unmatched,
            resumed_with_gap: counters.resumed_with_gap,
            server_requests_failed: counters.server_requests_failed,
            released: self.counts.released,
            established: self.counts.established,
            ends: self.counts.ends,
        };
        assert_eq!(found, self.model.counts);
        assert_eq!(self.session.requests_in_flight(), self.model.in_flight().len());
        assert_eq!(self.session.notes_in_flight(), self.model.note_calls.len());
        assert_eq!(self.session.streams_open(), self.model.gets.len());
        for (at, key) in self.keys.iter().enumerate() {
            assert_eq!(self.session.is_in_flight(*key), self.model.requests[at].open, "request {at}");
        }
        let ended = if let Phase::Ended(reason) = self.model.phase { Some(reason) } else { None };
        assert_eq!(self.session.ended(), ended);
        assert_eq!(self.session.is_drained(), self.model.drained());
        assert_eq!(self.session.announces_id(), ended.is_none() && !self.model.over());
        // An alarm may be early and is never late.
        if let Some(due) = self.model.next_deadline() {
            assert!(self.alarm.is_some_and(|alarm| alarm <= due), "alarm {:?}, due {due:?}", self.alarm);
        }
    }

    fn take(&mut self, step: Step) {
        self.model.now = self.now;
        match step {
            Step::AppAnswers { which, error, size } => self.app_answers(which, error, size),
            Step::AppAsks { id, related, ping } => self.app_asks(id, related, ping),
            Step::AppCancels(id) => self.app_cancels(id),
            Step::AppCloses { nth, get, retry } => self.app_closes(nth, get, retry),
            Step::AppNotes { note, related, size } => self.app_notes(note, related, size),
            Step::AppReads(count) => {
                for _ in 0..count {
                    // An app that is called is done with a notification, the oldest first.
                    if let Some(len) = self.model.note_calls.pop_front() {
                        self.session.handle_note_done(len);
                    }
                    if self.app_woken {
                        self.app_reads();
                    }
                }
            }
            Step::ClientAnswers(id) => self.client_answers(id),
            Step::ClientCancels(id) => self.client_cancels(id),
            Step::ClientNotes => self.client_notes(),
            Step::ClientPosts { id, mode, initialize } => self.client_posts(id, mode, initialize),
            Step::ClientGets => self.client_gets(),
            Step::ClientResumes { nth, get, back, beyond } => self.client_resumes(nth, get, back, beyond),
            Step::Disconnect(nth) => {
                if let Some(at) = self.connections.len().checked_sub(usize::from(nth) + 1) {
                    self.disconnect(at);
                }
            }
            Step::Drain => {
                self.session.begin_drain(self.now, &self.config);
                self.model.drain();
            }
            Step::End(reason) => {
                let reasons = [EndReason::Closed, EndReason::AppEnded, EndReason::NotStarted, EndReason::Shutdown];
                self.end(reasons[usize::from(reason) % 4]);
            }
            Step::Poll(limit) => self.poll_woken(usize::from(limit)),
            Step::Settle => self.settle(),
            Step::Time(halves) => {
                self.now = self.now.saturating_add(std::time::Duration::from_millis(500) * u32::from(halves));
            }
            Step::Timeout => self.timeout(),
            Step::ToAlarm => self.now = self.now.max(self.alarm.unwrap_or(self.now)),
        }
        self.drain();
    }

    fn end(&mut self, reason: EndReason) {
        self.session.end(reason);
        self.model.end(reason);
        self.drain();
    }

    fn timeout(&mut self) {
        self.alarm = None;
        self.session.handle_timeout(self.now, &self.config);
        self.model.timeout(self.now);
        self.drain();
    }

    /// What the driver does until it has nothing to do; then nobody may have anything left.
    fn settle(&mut self) {
        if self.alarm.is_some_and(|alarm| alarm <= self.now) {
            self.timeout();
        }
        assert!(self.model.next_deadline().is_none_or(|due| due > self.now), "something is overdue");
        loop {
            self.poll_woken(100);
            while self.app_woken {
                self.app_reads();
            }
            if !self.connections.iter().any(|connection| connection.woken && !connection.done) {
                break;
            }
        }
        for at in 0..self.asked.len() {
            if self.asked[at].woken && !self.asked[at].done {
                self.poll_answer(at);
            }
        }
        for at in 0..self.connections.len() {
            if !self.connections[at].done {
                let before = (self.connections[at].streaming, self.model.requests.len());
                let wrote = self.poll_connection(at, usize::MAX);
                let connection = &self.connections[at];
                assert!(
                    !wrote && !connection.done && before.0 == connection.streaming,
                    "connection {at} was not woken"
                );
            }
        }
        assert!(self.session.poll_inbox().is_none(), "the app was not woken");
        for at in 0..self.asked.len() {
            if !self.asked[at].done {
                self.poll_answer(at);
                assert!(!self.asked[at].done, "question {at} was not woken");
            }
        }
    }

    fn app_reads(&mut self) {
        let found = self.session.poll_inbox();
        let Some(inbound) = found else {
            assert_eq!(self.model.inbox.pop_front(), None);
            self.app_woken = false;
            return;
        };
        let raw = text(inbound.message.raw());
        let expected = self.model.inbox.pop_front().expect("nothing waits for the app");
        assert_eq!(inbound.context.is_some(), matches!(expected, ForApp::Raw(_)));
        match expected {
            ForApp::Raw(expected) => assert_eq!(raw, expected),
            ForApp::Error(id, why) => {
                assert!(raw.contains(&format!("\"id\":{id},\"error\"")) && raw.contains(why), "{raw}: {why}");
            }
            ForApp::Cancelled(id) => {
                assert!(
                    raw.contains("notifications/cancelled") && raw.contains(&format!("\"requestId\":{id},")),
                    "{raw}"
                );
            }
        }
    }

    fn poll_woken(&mut self, limit: usize) {
        for at in 0..self.connections.len() {
            let connection = &mut self.connections[at];
            if connection.done || !(connection.woken || connection.until.is_some_and(|until| until <= self.now)) {
                continue;
            }
            connection.woken = false;
            connection.until = None;
            self.poll_connection(at, limit);
        }
    }

    /// Polls once, and says whether anything came of it.
    fn poll_connection(&mut self, at: usize, limit: usize) -> bool {
        if !self.connections[at].streaming && !self.poll_head(at) {
            return self.connections[at].done;
        }
        let (key, dest, number) = (self.connections[at].key, self.connections[at].dest, self.connections[at].number);
        let (expected, output) = match dest {
            Dest::Get => self.expect_get(number, limit),
            Dest::Request(request) => self.expect_frames(request, number, limit),
        };
        let mut out = BytesMut::new();
        let found = self.session.poll_frames(self.now, &self.config, key, &mut out, limit);
        assert_eq!((text(&out), found), (expected, output), "connection {at}");
        self.drain();
        self.detached += u32::from(found == ReaderOutput::Detached);
        if let Dest::Request(request) = dest {
            self.client_reads(request, &text(&out));
        }
        let connection = &mut self.connections[at];
        connection.done = matches!(found, ReaderOutput::Detached | ReaderOutput::Finished);
        connection.woken |= found == ReaderOutput::Ready;
        !out.is_empty()
    }

    /// Whether there is a stream to read.
    fn poll_head(&mut self, at: usize) -> bool {
        let Connection { key, dest, .. } = self.connections[at];
        let Dest::Request(request) = dest else {
            assert_eq!(self.session.poll_head(self.now, &self.config, key), Head::Stream);
            self.connections[at].streaming = true;
            return true;
        };
        let expected = if self.model.requests[request].connection == at {
            self.expect_head(request)
        } else {
            Head::Refuse(Outcome::SessionEnded)
        };
        let found = self.session.poll_head(self.now, &self.config, key);
        assert_eq!(found, expected, "request {request}");
        self.drain();
        let connection = &mut self.connections[at];
        match found {
            Head::Hold { until } => connection.until = until,
            Head::Json(_) | Head::Refuse(_) => connection.done = true,
            Head::Stream => connection.streaming = true,
        }
        connection.streaming
    }

    /// Whoever drops and resumes reads each event once and in order, with none left out.
    fn client_reads(&mut self, request: usize, events: &str) {
        for event in events.split("\n\n") {
            let Some(id) = event.lines().find_map(|line| line.strip_prefix("id: ")) else { continue };
            let sequence: u64 = id.split_once('-').and_then(|(_, sequence)| sequence.parse().ok()).expect("an id");
            let read = &mut self.read_by_client[request];
            if event.ends_with("data: ") && *read == sequence {
                continue; // it is told where it is
            }
            assert_eq!(*read + 1, sequence, "request {request}");
            *read = sequence;
        }
    }

    fn disconnect(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        connection.done = true;
        let (abandoned, kept) = match connection.dest {
            Dest::Get => {
                self.model.leave_get(connection.number);
                (false, false)
            }
            Dest::Request(request) if self.model.requests[request].connection != at => (false, false),
            Dest::Request(request) => self.model.leave(self.now, request),
        };
        let found = self.session.handle_disconnect(self.now, &self.config, connection.key);
        let expected = match (abandoned, kept) {
            (true, _) => Disconnect::Abandoned,
            (false, true) => Disconnect::Detached,
            (false, false) => Disconnect::Done,
        };
        assert_eq!(found, expected, "connection {at}");
        self.detached += u32::from(kept);
        self.drain();
        if abandoned {
            self.end(EndReason::Closed);
        }
    }

    fn poll_answer(&mut self, at: usize) {
        let asked = &mut self.asked[at];
        let found = self.session.poll_answer(asked.key).map(|answer| answer.map(|message| text(message.raw())));
        let expected = match self.model.questions.get_mut(&asked.id) {
            None => Some(Err(AnswerError::Ended)),
            Some(question) => question.answer.take(),
        };
        assert_eq!(found, expected, "question {at}");
        asked.woken = false;
        if found.is_some() {
            self.model.questions.remove(&asked.id);
            asked.done = true;
        }
    }
}
