//! One session whose events are kept in a store, which is late, fails, lies or keeps silent.
//!
//! Where `session` compares with a model step by step, this checks what has to hold whatever the store does: what a client that drops and
//! resumes has read is each event once and in order, every accepted request ends exactly once, whatever is asked of the store is
//! bounded, and a client that stays gets everything though the store never answers again.

mod shelf;
mod step;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use sessile_core::config::SessionConfig;
use sessile_core::session::{
    ConnectionKey, Delivery, Disconnect, Effect, EndReason, Head, MessageAction, ReaderOutput, RequestKey, Session,
    StoreRead, StoreRequest,
};
use sessile_core::{EventId, Message, Outcome, Timestamp};

use self::shelf::{Shelf, garbage, ticket};
pub use self::step::{Case, How, Mode, Settings, Step};

/// Takes the steps and checks the session after each.
///
/// # Panics
///
/// If the session is wrong.
pub fn check_store(settings: Settings, steps: &[Step]) {
    let mut bench = Bench::new(settings);
    for step in steps {
        bench.take(*step);
        bench.compare();
    }
    bench.finish();
}

/// A connection as its driver and its client see it.
struct Connection {
    key: ConnectionKey,
    dest: Dest,
    streaming: bool,
    woken: bool,
    until: Option<Timestamp>,
    done: bool,
    /// The last event that the client knew when it opened it.
    read: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Dest {
    Get,
    Request(usize),
}

/// A request as its client sees it.
struct Call {
    key: RequestKey,
    /// How often its client has got an end of it: an answer, or a refusal in place of it.
    ends: u32,
    cancelled: bool,
    answered: bool,
    /// The connection that was opened last for it.
    connection: usize,
    /// That connection has been there all the time since the request, so that the answer must arrive through it.
    stays: bool,
}

/// What clients have read of one stream.
#[derive(Default)]
struct Heard {
    /// The stream's number in the ids.
    number: Option<u64>,
    /// By sequence.
    events: BTreeMap<u64, String>,
}

struct Bench {
    config: SessionConfig,
    settings: Settings,
    now: Timestamp,
    session: Session<()>,
    shelf: Shelf,
    calls: Vec<Call>,
    connections: Vec<Connection>,
    heard: BTreeMap<Dest, Heard>,
    alarm: Option<Timestamp>,
    gaps: u32,
    draining: bool,
    ended: bool,
    forgotten: bool,
    /// Exchanges that outlive their connections.
    detached: u32,
    released: u32,
    /// Tells the messages apart.
    tag: u32,
    /// Which stream each message was found in.
    found: BTreeMap<String, Dest>,
}

impl Bench {
    fn new(settings: Settings) -> Self {
        let mut bench = Self {
            config: settings.config(),
            settings,
            now: Timestamp::from_secs(100),
            session: Session::new(Delivery::Call),
            shelf: Shelf::default(),
            calls: Vec::new(),
            connections: Vec::new(),
            heard: BTreeMap::new(),
            alarm: None,
            gaps: 0,
            draining: false,
            ended: false,
            forgotten: false,
            detached: 0,
            released: 0,
            tag: 0,
            found: BTreeMap::new(),
        };
        bench.post("initialize", Mode::Json);
        let version = if settings.newest { "2025-11-25" } else { "2025-06-18" };
        let raw = format!(r#"{{"jsonrpc":"2.0","id":0,"result":{{"protocolVersion":"{version}"}}}}"#);
        bench.session.handle_response(bench.now, &bench.config, bench.calls[0].key, raw.into());
        bench.calls[0].answered = true;
        bench.take(Step::Settle);
        assert_eq!(bench.calls[0].ends, 1);
        bench
    }

    fn tag(&mut self, size: u8) -> String {
        self.tag += 1;
        format!(r#"{{"tag":{},"pad":"{}"}}"#, self.tag, "x".repeat(size.into()))
    }

    fn nth(&self, nth: u8) -> usize {
        self.calls.len().saturating_sub(usize::from(nth) + 1)
    }

    fn drain(&mut self) {
        let mut asks = false;
        while let Some(effect) = self.session.poll_effect() {
            match effect {
                Effect::Alarm(at) => self.alarm = at,
                Effect::AskStore => asks = true,
                Effect::Release => self.released += 1,
                Effect::WakeConnection(key) => {
                    self.connections.iter_mut().filter(|other| other.key == key).for_each(|other| other.woken = true);
                }
                Effect::End(_)
                | Effect::Established
                | Effect::WakeAnswer(_)
                | Effect::WakeApp
                | Effect::WakeCall(_) => {}
            }
        }
        while let Some(request) = self.session.poll_store_request() {
            assert!(asks, "{request:?} was not told of");
            assert!(!self.forgotten, "{request:?} after the end");
            match &request {
                StoreRequest::Append { events, .. } => {
                    let bytes: usize = events.iter().map(|event| event.data.len()).sum();
                    assert!(events.len() <= self.config.store_batch_count);
                    assert!(events.len() == 1 || bytes <= self.config.store_batch_bytes);
                    let first = events[0].sequence.get();
                    assert!((first..).zip(events).all(|(sequence, event)| event.sequence.get() == sequence));
                }
                StoreRequest::Forget { .. } => {}
                StoreRequest::ForgetSession => self.forgotten = true,
                StoreRequest::Read { after, through, .. } => assert!(after < through, "nothing is asked for"),
            }
            self.shelf.asked.push(request);
        }
    }

    fn compare(&self) {
        let open = self.calls.iter().filter(|call| self.session.is_in_flight(call.key)).count();
        assert_eq!(open, self.session.requests_in_flight());
        for (at, call) in self.calls.iter().enumerate() {
            assert!(call.ends <= 1, "request {at} ended {} times", call.ends);
        }
        if self.settings.reliable {
            assert_eq!(self.session.counters().store_failures, 0);
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::AppAnswers { nth, size } => self.app_answers(nth, size),
            Step::AppAsks(nth) => {
                let key = self.calls[self.nth(nth)].key;
                let tag = self.tag(0);
                let _ = self.session.request_client(self.now, &self.config, key, "roots/list", &tag);
            }
            Step::AppNotes { nth, get, size } => {
                let tag = self.tag(size);
                let raw = format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{tag}}}"#);
                let related = (!get).then(|| self.calls[self.nth(nth)].key);
                self.session.push_call_note(self.now, &self.config, raw.into(), related);
            }
            Step::ClientCancels(nth) => self.client_cancels(nth),
            Step::ClientGets => self.client_gets(None),
            Step::ClientPosts(mode) => self.post("tools/call", mode),
            Step::ClientResumes { nth, get, back } => self.client_resumes(nth, get, back),
            Step::Disconnect(nth) => {
                if let Some(at) = self.connections.len().checked_sub(usize::from(nth) + 1) {
                    self.disconnect(at);
                }
            }
            Step::Drain => {
                self.session.begin_drain(self.now, &self.config);
                self.draining = true;
            }
            Step::End => self.end(),
            Step::Poll(limit) => self.poll_woken(limit.into()),
            Step::Settle => self.settle(),
            Step::StoreAnswers { nth, how } => {
                if usize::from(nth) < self.shelf.asked.len() {
                    let request = self.shelf.asked.remove(nth.into());
                    self.store_answers(&request, if self.settings.reliable { How::Done } else { how });
                }
            }
            Step::StoreCatchesUp => self.store_catches_up(),
            Step::StoreLoses => {
                if !self.settings.reliable {
                    self.shelf.lose();
                }
            }
            Step::Time(halves) => {
                if self.settings.reliable {
                    self.store_catches_up();
                }
                self.pass(Duration::from_millis(500) * u32::from(halves));
            }
        }
        self.drain();
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
        let mut rounds = 0;
        while let Some(at) = self.alarm.filter(|at| *at <= self.now) {
            rounds += 1;
            assert!(rounds < 100, "an alarm that rings for ever");
            self.alarm = None;
            self.session.handle_timeout(self.now.max(at), &self.config);
            self.drain();
        }
    }

    fn post(&mut self, method: &str, mode: Mode) {
        let id = self.calls.len();
        let raw = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{}}}}"#);
        let message = Message::parse(Bytes::from(raw)).expect("a message");
        let action = self.session.handle_message(self.now, &self.config, message, (), mode.response_mode());
        match action {
            MessageAction::Open { connection, request, .. } => {
                self.connect(connection, Dest::Request(id), 0);
                let connection = self.connections.len() - 1;
                let (ends, cancelled, answered) = (0, false, false);
                self.calls.push(Call { key: request, ends, cancelled, answered, connection, stays: true });
            }
            MessageAction::Refuse { outcome, .. } => assert!(self.draining || self.ended, "{outcome:?}"),
            MessageAction::Accepted { .. } => panic!("a request is answered"),
        }
        self.drain();
    }

    fn app_answers(&mut self, nth: u8, size: u8) {
        let at = self.nth(nth);
        let tag = self.tag(size);
        let raw = format!(r#"{{"jsonrpc":"2.0","id":{at},"result":{tag}}}"#);
        let open = self.session.is_in_flight(self.calls[at].key);
        self.calls[at].answered |= open;
        self.session.handle_response(self.now, &self.config, self.calls[at].key, raw.into());
        assert!(!self.session.is_in_flight(self.calls[at].key));
    }

    fn client_cancels(&mut self, nth: u8) {
        let at = self.nth(nth);
        self.calls[at].cancelled |= self.session.is_in_flight(self.calls[at].key);
        let raw = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{at}}}}}"#);
        let message = Message::parse(Bytes::from(raw)).expect("a message");
        let _ = self.session.handle_message(self.now, &self.config, message, (), Mode::Auto.response_mode());
    }

    fn connect(&mut self, key: ConnectionKey, dest: Dest, read: u64) {
        self.connections.push(Connection { key, dest, streaming: false, woken: true, until: None, done: false, read });
    }

    fn client_gets(&mut self, after: Option<u64>) {
        let id = after.and_then(|sequence| Some(EventId { stream: 0, sequence: sequence.try_into().ok()? }));
        let opened = self.session.open_get(self.now, &self.config, id);
        self.drain();
        match opened {
            Ok(key) => {
                let newest = self.heard.get(&Dest::Get).and_then(|heard| heard.events.keys().next_back());
                let read = after.or_else(|| newest.copied()).unwrap_or(0);
                self.connect(key, Dest::Get, read);
            }
            Err(Outcome::StoreUnavailable) => assert!(!self.settings.reliable),
            Err(outcome) => assert!(self.draining || self.ended, "{outcome:?}"),
        }
    }

    fn client_resumes(&mut self, nth: u8, get: bool, back: u8) {
        let dest = if get { Dest::Get } else { Dest::Request(self.nth(nth)) };
        let Some(heard) = self.heard.get(&dest) else { return };
        let Some(after) = heard.events.keys().rev().nth(back.into()).copied() else { return };
        let Dest::Request(at) = dest else { return self.client_gets(Some(after)) };
        let stream = heard.number.expect("a stream that was heard of");
        let id = EventId { stream, sequence: after.try_into().expect("events are counted from 1") };
        let open = self.session.is_in_flight(self.calls[at].key);
        let opened = self.session.open_get(self.now, &self.config, Some(id));
        self.drain();
        match opened {
            Ok(key) => {
                self.connect(key, dest, after);
                self.calls[at].connection = self.connections.len() - 1;
                self.calls[at].stays = false;
            }
            Err(outcome) => self.may_refuse(&outcome, open),
        }
    }

    /// A stream whose request is in flight can be resumed wherever the client is, if the store does its work.
    fn may_refuse(&self, outcome: &Outcome, open: bool) {
        let reliable = self.settings.reliable;
        let may = [
            (Outcome::NotResumable, !open || !reliable),
            (Outcome::SessionEnded, self.ended || !open),
            (Outcome::SessionNotFound, self.ended),
            (Outcome::ShuttingDown, self.draining),
            (Outcome::StoreUnavailable, !reliable),
            (Outcome::StreamOver, !open),
        ];
        assert!(may.iter().any(|(other, may)| *may && other == outcome), "{outcome:?}");
    }

    fn disconnect(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        connection.done = true;
        if let Dest::Request(call) = connection.dest {
            self.calls[call].stays = false;
        }
        let left = self.session.handle_disconnect(self.now, &self.config, self.connections[at].key);
        self.detached += u32::from(left == Disconnect::Detached);
        self.drain();
        if left == Disconnect::Abandoned {
            self.end();
        }
    }

    fn end(&mut self) {
        self.session.end(EndReason::Closed);
        self.ended = true;
        self.drain();
    }

    fn store_catches_up(&mut self) {
        while !self.shelf.asked.is_empty() {
            let request = self.shelf.asked.remove(0);
            self.store_answers(&request, How::Done);
            if self.settings.reliable {
                self.poll_woken(usize::MAX);
            }
        }
    }

    fn store_answers(&mut self, request: &StoreRequest, how: How) {
        let does = !matches!(how, How::Failed | How::Silent);
        match request {
            _ if !does => {}
            StoreRequest::Append { stream, events, .. } => self.shelf.append(*stream, events),
            StoreRequest::Forget { stream } => self.shelf.forget(*stream),
            StoreRequest::ForgetSession => self.shelf.clear(),
            StoreRequest::Read { .. } => {}
        }
        let Some(key) = ticket(request) else { return };
        let times = if matches!(how, How::Twice) { 2 } else { 1 };
        for _ in 0..times {
            match (request, how) {
                (_, How::Silent) => {}
                (StoreRequest::Append { .. }, _) => {
                    let stored = matches!(how, How::Done | How::Twice);
                    self.session.handle_stored(self.now, &self.config, key, stored);
                }
                (_, How::Garbage(kind)) => {
                    self.session.handle_read(self.now, &self.config, key, garbage(request, kind));
                }
                (_, How::Failed | How::DoneAndFailed) => {
                    self.session.handle_read(self.now, &self.config, key, StoreRead::Failed);
                }
                (_, How::Done | How::Twice) => {
                    let found = self.shelf.read(request);
                    self.session.handle_read(self.now, &self.config, key, found);
                }
            }
            self.drain();
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
            self.poll(at, limit);
        }
    }

    fn settle(&mut self) {
        self.pass(Duration::ZERO);
        self.poll_woken(100);
        let mut rounds = 0;
        while self.connections.iter().any(|connection| connection.woken && !connection.done) {
            self.poll_woken(100);
            rounds += 1;
            assert!(rounds < 100_000, "polled for ever");
        }
        for at in 0..self.connections.len() {
            if !self.connections[at].done {
                let streaming = self.connections[at].streaming;
                let wrote = self.poll(at, usize::MAX);
                let connection = &self.connections[at];
                assert!(!wrote && !connection.done && streaming == connection.streaming, "{at} was not woken");
            }
        }
    }

    /// Polls a connection once, and says whether it got anything.
    fn poll(&mut self, at: usize, limit: usize) -> bool {
        if !self.connections[at].streaming && !self.poll_head(at) {
            return self.connections[at].done;
        }
        let mut out = BytesMut::new();
        let output = self.session.poll_frames(self.now, &self.config, self.connections[at].key, &mut out, limit);
        self.drain();
        self.detached += u32::from(output == ReaderOutput::Detached);
        self.client_reads(at, &String::from_utf8_lossy(&out));
        let connection = &mut self.connections[at];
        connection.done = matches!(output, ReaderOutput::Detached | ReaderOutput::Finished);
        connection.woken |= output == ReaderOutput::Ready;
        // Told to come back, the client has not got the rest through this one.
        let sent_away = String::from_utf8_lossy(&out).split("\n\n").any(|event| event.starts_with("retry: "));
        if sent_away && let Dest::Request(call) = connection.dest {
            self.calls[call].stays = false;
        }
        !out.is_empty()
    }

    fn poll_head(&mut self, at: usize) -> bool {
        let Connection { key, dest, .. } = self.connections[at];
        let head = self.session.poll_head(self.now, &self.config, key);
        self.drain();
        let connection = &mut self.connections[at];
        match head {
            Head::Hold { until } => connection.until = until,
            Head::Json(body) => {
                connection.done = true;
                self.client_gets_message(dest, &String::from_utf8_lossy(&body));
            }
            Head::Refuse(outcome) => {
                connection.done = true;
                match dest {
                    Dest::Request(call) if self.calls[call].stays => self.calls[call].ends += 1,
                    Dest::Request(call) => {
                        let newest = self.calls[call].connection == at;
                        let open = newest && self.session.is_in_flight(self.calls[call].key);
                        self.may_refuse(&outcome, open);
                    }
                    Dest::Get => self.may_refuse(&outcome, false),
                }
                // Nobody is left behind it.
                assert_eq!(self.session.handle_disconnect(self.now, &self.config, key), Disconnect::Done);
                self.drain();
            }
            Head::Stream => connection.streaming = true,
        }
        self.connections[at].streaming
    }

    /// Each event once and in order; one that was read before is the same.
    fn client_reads(&mut self, at: usize, text: &str) {
        let dest = self.connections[at].dest;
        for event in text.split("\n\n") {
            let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name));
            let Some(id) = field("id: ") else {
                assert!(field("data: ").is_none(), "{event}");
                continue;
            };
            let id = EventId::parse(id.as_bytes()).expect("an id");
            let (sequence, data) = (id.sequence.get(), field("data: ").unwrap_or_default());
            let gaps = self.session.counters().resumed_with_gap;
            let heard = self.heard.entry(dest).or_default();
            assert_eq!(*heard.number.get_or_insert(id.stream), id.stream);
            assert!(!data.contains("garbage"), "{data}");
            if data.is_empty() && heard.events.contains_key(&sequence) {
                // It says where the client is, and nothing more.
                assert!(dest == Dest::Get || sequence == self.connections[at].read, "{sequence} is elsewhere");
                continue;
            }
            let newest = heard.events.keys().next_back().copied().unwrap_or(0);
            let mut next = self.connections[at].read + 1;
            while heard.events.get(&next).is_some_and(String::is_empty) {
                next += 1;
            }
            let follows = sequence == next || sequence == newest + 1;
            assert!(follows || (gaps > self.gaps && sequence > next), "{sequence} after {next}, {newest}");
            if !follows {
                self.gaps = gaps;
            }
            self.connections[at].read = sequence;
            if let Some(earlier) = heard.events.get(&sequence) {
                assert_eq!(earlier, data, "what is read again is the same");
                continue;
            }
            heard.events.insert(sequence, data.to_owned());
            if !data.is_empty() {
                self.client_gets_message(dest, data);
            }
        }
    }

    fn client_gets_message(&mut self, dest: Dest, raw: &str) {
        let earlier = self.found.insert(raw.to_owned(), dest);
        assert!(earlier.is_none(), "a message is one event: {raw}");
        let message = Message::parse(Bytes::copy_from_slice(raw.as_bytes())).expect("a message");
        if let sessile_core::MessageKind::Response(response) = message.kind() {
            let Dest::Request(call) = dest else { panic!("{raw} answers nothing") };
            assert_eq!(response.id, Some(sessile_core::RequestId::Number(call as i64)));
            assert!(!self.calls[call].cancelled || self.calls[call].answered, "{raw} answers what was cancelled");
            self.calls[call].ends += 1;
        }
    }

    /// The store never answers again, and those who have stayed get what is theirs all the same.
    fn finish(mut self) {
        self.shelf.asked.clear();
        self.settings.reliable = false;
        if !self.ended {
            for nth in 0..u8::try_from(self.calls.len().min(200)).unwrap_or(u8::MAX) {
                self.take(Step::AppAnswers { nth, size: 0 });
            }
            for _ in 0..self.tag {
                self.pass(self.config.store_timeout);
                self.settle();
                self.shelf.asked.clear();
                if !self.connections.iter().any(|connection| !connection.done && connection.dest != Dest::Get) {
                    break;
                }
            }
            for (at, call) in self.calls.iter().enumerate().filter(|(_, call)| call.stays) {
                let connection = &self.connections[call.connection];
                assert!(connection.done, "request {at} has not ended");
                assert_eq!(call.ends, u32::from(!call.cancelled || call.ends > 0), "request {at}");
            }
        }
        self.end();
        self.settle();
        for at in 0..self.connections.len() {
            self.disconnect(at);
        }
        self.compare();
        assert!(self.session.is_drained(), "something is left");
        assert_eq!(self.released, self.detached, "an exchange that was kept is given back once");
        let late = self.session.counters().store_late;
        for request in std::mem::take(&mut self.shelf.asked) {
            self.store_answers(&request, How::Done);
        }
        assert!(self.session.poll_effect().is_none(), "the end is the end");
        assert!(self.session.counters().store_late >= late);
        if let Some(forget) = self.shelf.asked.first() {
            panic!("{forget:?} after the end");
        }
    }
}
