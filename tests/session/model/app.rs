//! Where the messages of the app go, and what becomes of its questions.

use sessile_core::session::AnswerError;
use sessile_core::{Outcome, Timestamp};

use super::{Dest, ForApp, Kind, Model, Phase, Question};

pub(in super::super) const STILL_WAITING: &str = "a request with this id is still waiting for the client";

impl Model {
    pub(in super::super) fn speak(&mut self, now: Timestamp, at: Option<usize>) {
        if let Some(at) = at {
            self.requests[at].spoken = now;
        }
    }

    /// Where a note goes that can't say what it belongs to.
    pub(in super::super) fn guess_note(&mut self, now: Timestamp) -> Dest {
        self.speak(now, self.newest());
        let several = self.in_flight().len() > 1;
        match (self.newest_with_wire(), self.get_is_open()) {
            (Some(_), true) if several => Dest::Get,
            (Some(at), _) => Dest::Request(at),
            (None, true) => Dest::Get,
            (None, false) => self.newest().map_or(Dest::Get, Dest::Request),
        }
    }

    pub(in super::super) fn push_note(&mut self, dest: Dest, raw: String) {
        let dest = match dest {
            Dest::Get => (self.get_is_open() || !self.draining).then_some(dest),
            Dest::Request(at) if self.is_json(at) && self.get_is_open() => Some(Dest::Get),
            Dest::Request(at) => self.has_wire(at).then_some(dest),
        };
        match dest {
            Some(dest) => self.append(dest, Kind::Note, raw),
            None => self.counts.notes_dropped += 1,
        }
    }

    fn append(&mut self, dest: Dest, kind: Kind, raw: String) {
        let limits = self.limits();
        if self.log(dest).next_unread().is_none() {
            self.begins_to_wait(dest);
        }
        let log = self.log(dest);
        log.push(kind, raw);
        log.trim(limits);
        if self.polls() && self.log(dest).is_over(limits) {
            self.cut_off(dest);
        }
        self.counts.notes_dropped += self.log(dest).enforce(limits);
    }

    /// `related`: what the app says; `guess`: it can't say.
    pub(in super::super) fn place_question(&self, related: Option<usize>, guess: bool) -> Result<Dest, AnswerError> {
        let get = if self.draining && !self.get_is_open() { Err(AnswerError::NoWire) } else { Ok(Dest::Get) };
        match related {
            None if !guess => get,
            None => match self.newest_with_wire() {
                Some(at) => Ok(Dest::Request(at)),
                None if self.newest().is_none() || self.get_is_open() => get,
                None => Err(AnswerError::NoWire),
            },
            Some(at) if !self.requests[at].open => Err(AnswerError::Ended),
            Some(at) if self.is_json(at) && self.get_is_open() => Ok(Dest::Get),
            Some(at) if self.has_wire(at) => Ok(Dest::Request(at)),
            Some(_) => Err(AnswerError::NoWire),
        }
    }

    pub(in super::super) fn ask(
        &mut self,
        now: Timestamp,
        id: i64,
        place: Result<Dest, AnswerError>,
        related: Option<usize>,
        raw: String,
    ) -> Result<(), AnswerError> {
        let sent = place.and_then(|dest| {
            let limits = (self.config.log_count, self.config.log_bytes);
            let kept: Vec<usize> = self.log(dest).waiting().iter().map(String::len).collect();
            let fits = kept.is_empty() || (kept.len() < limits.0 && kept.iter().sum::<usize>() + raw.len() <= limits.1);
            if self.questions.len() >= self.config.max_server_requests || !fits {
                return Err(AnswerError::TooMany);
            }
            let until = Some(now.saturating_add(self.config.server_request_timeout));
            self.questions.insert(id, Question { dest, related, until, answer: None });
            self.append(dest, Kind::Question(id), raw);
            Ok(())
        });
        if sent.is_err() {
            self.counts.server_requests_failed += 1;
        }
        sent
    }

    /// The app takes a question back.
    pub(in super::super) fn cancel_question(&mut self, id: i64, raw: String) {
        let Some(question) = self.questions.remove(&id) else {
            self.counts.notes_dropped += 1;
            return;
        };
        if self.withdraw(question.dest, id) {
            return;
        }
        match question.dest {
            Dest::Request(at) if self.has_wire(at) => self.push_note(question.dest, raw),
            Dest::Request(_) | Dest::Get => self.push_note(Dest::Get, raw),
        }
    }

    pub(in super::super) fn withdraw(&mut self, dest: Dest, id: i64) -> bool {
        self.log(dest).withdraw(id)
    }

    pub(super) fn fail(&mut self, error: AnswerError, which: impl Fn(&Question) -> bool) {
        let ids: Vec<i64> = self.questions.iter().filter(|(_, question)| which(question)).map(|(id, _)| *id).collect();
        for id in ids {
            let question = self.questions.get_mut(&id).expect("it is there");
            let dest = question.dest;
            question.until = None;
            let answered = question.answer.is_some();
            if self.call && error != AnswerError::Ended {
                question.answer.get_or_insert(Err(error));
            } else {
                self.questions.remove(&id);
            }
            if answered {
                continue;
            }
            if !matches!(self.phase, Phase::Ended(_)) {
                self.for_app(ForApp::Error(id, error.as_str()));
            }
            self.counts.server_requests_failed += 1;
            self.withdraw(dest, id);
        }
    }

    pub(in super::super) fn client_answers(&mut self, id: i64, raw: &str) -> Option<Outcome> {
        if self.over() {
            return Some(Outcome::SessionNotFound);
        }
        let waits =
            self.questions.get(&id).is_some_and(|question| question.until.is_none() && question.answer.is_none());
        if !waits {
            self.counts.client_responses_unmatched += 1;
            return None;
        }
        if self.inbox_full(2) {
            return Some(Outcome::InboxFull { request: false });
        }
        if self.call {
            self.questions.get_mut(&id).expect("it waits").answer = Some(Ok(raw.to_owned()));
        } else {
            self.questions.remove(&id);
            self.for_app(ForApp::Raw(raw.to_owned()));
        }
        None
    }
}
