//! Logs, and what becomes of streams whose connection has gone.

use sessile_core::session::AnswerError;
use sessile_core::{Outcome, Timestamp};

use super::{Dest, Get, Kind, Model, Reader};

/// How many and how many bytes.
type Limits = (usize, usize);

#[derive(Clone, Debug)]
pub(in super::super) struct Item {
    pub(in super::super) kind: Kind,
    pub(in super::super) raw: String,
    /// 0 until somebody got it.
    pub(in super::super) id: u64,
    at: Timestamp,
}

/// All that was said in a stream, until it is dropped.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Log {
    pub(in super::super) items: Vec<Item>,
    /// The reader is past the events up to this one.
    cursor: u64,
    /// The last id that was given out.
    pub(in super::super) given: u64,
    /// The last id that was dropped.
    pub(in super::super) lost: u64,
}

/// A stream that has finished and waits for a client that may come back.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Finished {
    pub(in super::super) request: usize,
    at: Timestamp,
    bytes: usize,
}

impl Log {
    pub(super) fn push(&mut self, kind: Kind, raw: String) {
        self.items.push(Item { kind, raw, id: 0, at: Timestamp::ZERO });
    }

    fn is_read(&self, item: &Item) -> bool {
        item.id != 0 && item.id <= self.cursor
    }

    pub(in super::super) fn next_unread(&self) -> Option<usize> {
        self.items.iter().position(|item| !self.is_read(item))
    }

    /// After which event a client can be told to come back.
    pub(in super::super) fn position(&self) -> u64 {
        let next = self.next_unread().map_or(0, |at| self.items[at].id);
        if next == 0 { self.given } else { next - 1 }
    }

    /// The next message, and whether nobody had got it before.
    pub(in super::super) fn take(&mut self, now: Timestamp, keep: bool) -> (Item, bool) {
        let at = self.next_unread().expect("something is there");
        if !keep {
            return (self.items.remove(at), true);
        }
        let item = &mut self.items[at];
        let new = item.id == 0;
        if new {
            self.given += 1;
            item.id = self.given;
        }
        item.at = now;
        self.cursor = item.id;
        (item.clone(), new)
    }

    pub(super) fn bytes(&self) -> usize {
        self.items.iter().map(|item| item.raw.len()).sum()
    }

    pub(super) fn is_over(&self, (count, bytes): Limits) -> bool {
        self.items.len() > 1 && (self.items.len() > count || self.bytes() > bytes)
    }

    fn drop_at(&mut self, at: usize) {
        self.lost = self.lost.max(self.items.remove(at).id);
    }

    pub(super) fn trim(&mut self, limits: Limits) {
        while self.is_over(limits) && self.is_read(&self.items[0]) {
            self.drop_at(0);
        }
    }

    pub(super) fn enforce(&mut self, limits: Limits) -> u32 {
        self.trim(limits);
        let mut dropped = 0;
        while self.is_over(limits) {
            let Some(at) = self.items.iter().position(|item| item.kind == Kind::Note && item.id == 0) else { break };
            self.drop_at(at);
            dropped += 1;
        }
        dropped
    }

    fn expire(&mut self, due: impl Fn(Timestamp) -> bool) {
        while self.items.first().is_some_and(|item| self.is_read(item) && due(item.at)) {
            self.drop_at(0);
        }
    }

    fn oldest(&self) -> Option<Timestamp> {
        self.items.first().filter(|item| self.is_read(item)).map(|item| item.at)
    }

    pub(super) fn settle(&mut self) {
        self.cursor = self.given;
    }

    /// What waits and is no note.
    pub(super) fn waiting(&self) -> Vec<String> {
        let waiting = self.items.iter().filter(|item| !self.is_read(item) && item.kind != Kind::Note);
        waiting.map(|item| item.raw.clone()).collect()
    }

    /// How many notes nobody got.
    pub(super) fn notes(&self) -> u32 {
        self.items.iter().filter(|item| item.kind == Kind::Note && item.id == 0).count() as u32
    }

    pub(super) fn withdraw(&mut self, question: i64) -> bool {
        let at = self.items.iter().position(|item| item.kind == Kind::Question(question) && item.id == 0);
        at.map(|at| self.items.remove(at)).is_some()
    }
}

impl Model {
    pub(super) const fn limits(&self) -> Limits {
        (self.config.log_count, self.config.log_bytes)
    }

    /// Whether clients expect to be sent away, and to come back.
    pub(in super::super) const fn polls(&self) -> bool {
        self.config.resume && self.newest && self.established
    }

    pub(in super::super) fn number(&mut self, dest: Dest) -> u64 {
        let Dest::Request(at) = dest else { return 0 };
        if self.requests[at].number == 0 {
            self.numbers += 1;
            self.requests[at].number = self.numbers;
        }
        self.requests[at].number
    }

    pub(in super::super) fn detach(&mut self, now: Timestamp, at: usize) {
        let request = &mut self.requests[at];
        request.reader = Reader::Left(Some(now));
        request.pause = None;
        if request.log.given > 0 {
            request.log.settle();
        } else {
            self.forget_log(Dest::Request(at));
        }
    }

    /// A stream has finished and nobody reads it.
    pub(in super::super) fn retire(&mut self, at: usize) {
        if self.over() || self.requests[at].log.given == 0 {
            return self.finish(at);
        }
        let limits = self.limits();
        let request = &mut self.requests[at];
        request.reader = Reader::Kept;
        request.pause = None;
        request.log.settle();
        if request.answers == 0 {
            self.counts.notes_dropped += request.log.notes();
            request.log = Log { given: request.log.given, lost: request.log.given, ..Log::default() };
            self.fail(AnswerError::NoWire, |question| question.dest == Dest::Request(at) && question.until.is_some());
        }
        self.counts.notes_dropped += self.requests[at].log.enforce(limits);
        self.finished.push(Finished { request: at, at: self.now, bytes: self.requests[at].log.bytes() });
        loop {
            let bytes: usize = self.finished.iter().map(|finished| finished.bytes).sum();
            let older = &self.finished[..self.finished.len() - 1];
            if older.is_empty() || (self.finished.len() <= limits.0 && bytes <= limits.1) {
                return;
            }
            let read = older.iter().find(|finished| self.requests[finished.request].log.next_unread().is_none());
            self.finish(read.unwrap_or(&older[0]).request);
        }
    }

    fn stuck(&self, moved: Timestamp) -> bool {
        moved.saturating_add(std::time::Duration::from_secs(5)) <= self.now
    }

    pub(super) fn begins_to_wait(&mut self, dest: Dest) {
        let now = self.now;
        match dest {
            Dest::Request(at) => {
                if let Reader::Streaming { moved, .. } = &mut self.requests[at].reader {
                    *moved = now;
                }
            }
            Dest::Get => {
                if let Some(carrier) = self.gets.last_mut() {
                    carrier.moved = now;
                }
            }
        }
    }

    /// More waits than may.
    pub(super) fn cut_off(&mut self, dest: Dest) {
        match dest {
            Dest::Request(at) => {
                let stuck = matches!(self.requests[at].reader, Reader::Streaming { moved, .. } if self.stuck(moved));
                if stuck && self.requests[at].log.given > 0 {
                    self.requests[at].pause = Some((true, 1_000));
                    self.requests[at].log.settle();
                }
            }
            Dest::Get => {
                if self.gets.last().is_some_and(|get| get.begun && self.stuck(get.moved)) {
                    self.gets.pop();
                    self.get_log.settle();
                    if let Some(carrier) = self.gets.last_mut() {
                        carrier.moved = self.now;
                    }
                    self.give_up_get();
                }
            }
        }
    }

    pub(super) fn timeout_kept(&mut self, now: Timestamp) {
        if !self.config.resume {
            return;
        }
        let age = self.config.log_age;
        let due = |at: Timestamp| at.saturating_add(age) <= now;
        while let Some(first) = self.finished.first().filter(|first| due(first.at)) {
            self.finish(first.request);
        }
        for request in self.requests.iter_mut().filter(|request| request.reader != Reader::Kept) {
            request.log.expire(due);
        }
        self.get_log.expire(due);
        for at in 0..self.requests.len() {
            if self.pause_at(at).is_some_and(|at| at <= now) {
                self.requests[at].pause = Some((false, 1_000));
            }
        }
    }

    fn pause_at(&self, at: usize) -> Option<Timestamp> {
        let request = &self.requests[at];
        match request.reader {
            Reader::Streaming { since, .. } if self.polls() && request.open && request.pause.is_none() => {
                Some(since.saturating_add(self.config.poll_after?))
            }
            Reader::Held { .. } | Reader::Streaming { .. } | Reader::Left(_) | Reader::Kept | Reader::Done => None,
        }
    }

    pub(super) fn next_of_kept(&self) -> Option<Timestamp> {
        let running = self.requests.iter().filter(|request| request.reader != Reader::Kept);
        let logs = running.map(|request| &request.log).chain([&self.get_log]).filter_map(Log::oldest);
        let aged = logs.chain(self.finished.iter().map(|finished| finished.at));
        let pauses = (0..self.requests.len()).filter_map(|at| self.pause_at(at));
        aged.map(|at| at.saturating_add(self.config.log_age)).chain(pauses).min()
    }

    pub(in super::super) fn resume(
        &mut self,
        now: Timestamp,
        at: usize,
        after: u64,
        connection: usize,
    ) -> Option<Outcome> {
        if self.over() {
            return Some(Outcome::SessionNotFound);
        }
        let request = &mut self.requests[at];
        if request.number == 0 || request.reader == Reader::Done || after > request.log.given {
            return Some(Outcome::NotResumable);
        }
        let more = request.log.items.iter().any(|item| item.id == 0 || item.id > after);
        let whole = request.log.lost <= after;
        if !request.open && (request.answers == 0 || (whole && !more)) {
            return Some(Outcome::StreamOver);
        }
        if !whole {
            return Some(Outcome::NotResumable);
        }
        self.counts.released += u32::from(matches!(request.reader, Reader::Left(Some(_))));
        request.log.cursor = after;
        request.pause = None;
        request.reader = Reader::Streaming { begun: false, since: now, moved: now };
        request.connection = connection;
        self.finished.retain(|finished| finished.request != at);
        None
    }

    pub(in super::super) fn get(&mut self, after: Option<u64>, number: usize) -> Option<Outcome> {
        if self.over() {
            return Some(Outcome::SessionNotFound);
        }
        if self.draining {
            return Some(Outcome::ShuttingDown);
        }
        let after = after.filter(|_| self.config.resume);
        if self.get_log.items.iter().any(|item| item.id > self.get_log.cursor) {
            self.gets.pop();
        }
        match after {
            Some(after) if self.get_log.lost <= after && after <= self.get_log.given => self.get_log.cursor = after,
            Some(_) => {
                self.get_log.cursor = 0;
                self.counts.resumed_with_gap += 1;
            }
            None => self.get_log.settle(),
        }
        if self.gets.len() >= self.config.max_standalone {
            self.gets.remove(0);
        }
        self.gets.push(Get { number, begun: false, moved: self.now, resumed: after.is_some(), closing: None });
        None
    }

    pub(in super::super) fn close_stream(&mut self, at: usize, retry: u64) -> bool {
        if !self.polls() || self.over() || !self.has_wire(at) {
            return false;
        }
        if self.attached(at) {
            let at_once = self.requests[at].pause.is_some_and(|(at_once, _)| at_once);
            self.requests[at].pause = Some((at_once, retry));
        }
        true
    }

    pub(in super::super) fn close_get(&mut self, retry: u64) -> bool {
        if !self.polls() || self.over() {
            return false;
        }
        for get in &mut self.gets {
            get.closing.get_or_insert(Some(retry));
        }
        self.give_up_get();
        true
    }
}
