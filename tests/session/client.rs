//! What client and app send, to the session and to its model.

use std::num::NonZeroU64;

use sessile_core::EventId;
use sessile_core::session::{MessageAction, Relation};

use super::*;

/// The id under which nobody was asked.
const NOBODY: i64 = 1_000_000;

impl Bench {
    fn tag(&mut self, size: u8) -> String {
        self.tag += 1;
        format!(r#"{{"tag":{},"pad":"{}"}}"#, self.tag, "x".repeat(size.into()))
    }

    pub(super) fn initialize(&mut self, mode: Mode) {
        let raw = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
        self.model.open(self.now, 0, mode.response_mode(), true, raw);
        self.post(raw, mode, None);
    }

    pub(super) fn client_posts(&mut self, id: u8, mode: Mode, initialize: bool) {
        let raw = if initialize {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"initialize"}}"#)
        } else {
            // The token names the request, not its id, which comes again.
            let token = self.model.requests.len();
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":{token}}}}}}}"#
            )
        };
        let refusal = self.model.post(self.now, id, mode.response_mode(), initialize, &raw);
        self.post(&raw, mode, refusal);
    }

    fn post(&mut self, raw: &str, mode: Mode, refusal: Option<Outcome>) {
        let action = self.session.handle_message(self.now, &self.config, message(raw), self.tag, mode.response_mode());
        self.drain();
        match (action, refusal) {
            (MessageAction::Open { call, connection, request }, None) => {
                assert_eq!(call.map(|inbound| text(inbound.message.raw())), self.call.then(|| raw.to_owned()));
                let at = self.keys.len();
                let dest = Dest::Request(at);
                self.model.requests[at].connection = self.connections.len();
                self.keys.push(request);
                self.calls_woken.push(0);
                self.read_by_client.push(0);
                self.connect(connection, dest);
            }
            (MessageAction::Refuse { outcome, id }, Some(refusal)) => {
                assert_eq!(outcome, refusal);
                assert_eq!(id.as_ref(), message(raw).as_request().map(|request| &request.id));
            }
            (action, refusal) => panic!("{raw}: {action:?}, expected {refusal:?}"),
        }
    }

    /// A driver polls a new connection at once.
    fn connect(&mut self, key: ConnectionKey, dest: Dest) {
        let number = self.connections.len();
        let new = Connection { key, dest, number, streaming: false, woken: true, until: None, done: false };
        self.connections.push(new);
    }

    pub(super) fn client_gets(&mut self) {
        self.get_after(None);
    }

    fn get_after(&mut self, after: Option<u64>) {
        let expected = self.model.get(after, self.connections.len());
        self.open_get(Dest::Get, after.map(|sequence| (0, sequence)), expected);
    }

    fn open_get(&mut self, dest: Dest, after: Option<(u64, u64)>, expected: Option<Outcome>) {
        let id = after.map(|(stream, sequence)| EventId {
            stream,
            sequence: NonZeroU64::new(sequence).expect("events are counted from 1"),
        });
        let found = self.session.open_get(self.now, &self.config, id);
        self.drain();
        assert_eq!(found.as_ref().err(), expected.as_ref(), "{after:?}");
        if let Ok(key) = found {
            self.connect(key, dest);
            self.come_back(dest, after.map_or(u64::MAX, |(_, sequence)| sequence));
        }
    }

    /// The client has read up to this.
    fn come_back(&mut self, dest: Dest, after: u64) {
        if let Dest::Request(at) = dest {
            self.read_by_client[at] = after;
        }
    }

    pub(super) fn client_resumes(&mut self, nth: u8, get: bool, back: u8, beyond: bool) {
        let after = |given: u64| if beyond { given + 1 } else { given.saturating_sub(back.into()).max(1) };
        if get {
            return self.get_after(Some(after(self.model.get_log.given)));
        }
        let at = self.request(nth);
        let (number, sequence) = (self.model.requests[at].number, after(self.model.requests[at].log.given));
        let expected = self.model.resume(self.now, at, sequence, self.connections.len());
        // One without events has no number.
        let number = if number == 0 { self.model.numbers + 1 } else { number };
        self.open_get(Dest::Request(at), Some((number, sequence)), expected);
    }

    pub(super) fn app_closes(&mut self, nth: u8, get: bool, retry: u8) {
        let time = (retry > 0).then(|| std::time::Duration::from_millis(100) * u32::from(retry));
        let millis = if retry > 0 { u64::from(retry) * 100 } else { 1_000 };
        let (found, expected) = if get {
            (self.session.close_standalone_stream(&self.config, time), self.model.close_get(millis))
        } else {
            let at = self.request(nth);
            (self.session.close_stream(&self.config, self.keys[at], time), self.model.close_stream(at, millis))
        };
        self.drain();
        assert_eq!(found, expected);
    }

    fn send(&mut self, raw: &str, refusal: Option<Outcome>, called: bool) {
        let mode = Mode::Auto.response_mode();
        let action = self.session.handle_message(self.now, &self.config, message(raw), self.tag, mode);
        self.drain();
        match (action, refusal) {
            (MessageAction::Accepted { call }, None) => assert_eq!(call.is_some(), called && self.call, "{raw}"),
            (MessageAction::Refuse { outcome, id: None }, Some(refusal)) => assert_eq!(outcome, refusal, "{raw}"),
            (action, refusal) => panic!("{raw}: {action:?}, expected {refusal:?}"),
        }
    }

    pub(super) fn client_notes(&mut self) {
        let tag = self.tag(0);
        let raw = format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{tag}}}"#);
        let refusal = self.model.refuses_note();
        if refusal.is_none() {
            self.model.note_for_app(&raw);
        }
        self.send(&raw, refusal, true);
    }

    pub(super) fn client_cancels(&mut self, id: u8) {
        let raw = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
        let hidden = self.model.with_id(id).is_some_and(|at| self.model.starting(at));
        let refusal = self.model.cancel(id, &raw);
        self.send(&raw, refusal, !hidden);
    }

    pub(super) fn client_answers(&mut self, which: u8) {
        let id = if self.call {
            let asked = self.asked.len().checked_sub(usize::from(which) + 1);
            asked.map_or(NOBODY, |at| self.asked[at].id)
        } else {
            which.into()
        };
        let tag = self.tag(0);
        let raw = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{tag}}}"#);
        let refusal = self.model.client_answers(id, &raw);
        self.send(&raw, refusal, false);
    }

    pub(super) fn app_answers(&mut self, which: u8, error: bool, size: u8) {
        let mut tag = self.tag(size);
        if self.model.newest {
            tag.insert_str(1, r#""protocolVersion":"2025-11-25","#);
        }
        if self.call {
            let Some(at) = self.model.requests.len().checked_sub(usize::from(which) + 1) else { return };
            let (id, what) = (self.model.requests[at].id, if error { "error" } else { "result" });
            let raw = format!(r#"{{"jsonrpc":"2.0","id":{id},"{what}":{tag}}}"#);
            self.session.handle_response(self.now, &self.config, self.keys[at], raw.clone().into());
            self.model.respond(at, error, raw);
        } else {
            let only = self.model.in_flight();
            let at = if error { only.first().copied().filter(|_| only.len() == 1) } else { self.model.with_id(which) };
            let (raw, id) = if error {
                let id = at.map(|at| self.model.requests[at].id);
                (format!(r#"{{"jsonrpc":"2.0","id":null,"error":{tag}}}"#), id)
            } else {
                (format!(r#"{{"jsonrpc":"2.0","id":{which},"result":{tag}}}"#), None)
            };
            self.relate(&raw, Relation::Derived);
            match (at, id) {
                _ if self.model.over() => {}
                (None, _) => self.model.counts.responses_unmatched += 1,
                (Some(at), Some(id)) => self.model.respond(at, true, raw.replace("null", &id.to_string())),
                (Some(at), None) => self.model.respond(at, false, raw),
            }
        }
        self.drain();
    }

    fn relate(&mut self, raw: &str, relation: Relation) {
        self.session.handle_app_message(self.now, &self.config, message(raw), relation);
        self.drain();
    }

    /// The n-th request, counted from the newest.
    fn request(&self, nth: u8) -> usize {
        self.model.requests.len().saturating_sub(usize::from(nth) + 1)
    }

    fn relation(&self, related: Related) -> Relation {
        match related {
            Related::Derived => Relation::Derived,
            Related::Over => Relation::Over,
            Related::To(nth) => Relation::Request(self.keys[self.request(nth)]),
            Related::Unrelated => Relation::Unrelated,
        }
    }

    pub(super) fn app_notes(&mut self, note: Note, related: Related, size: u8) {
        let tag = self.tag(size);
        let (method, token) = match note {
            Note::Changed => ("tools/list_changed", None),
            Note::Message => ("message", None),
            Note::Progress(nth) => ("progress", Some(self.request(nth))),
        };
        let token_member = token.map_or_else(String::new, |token| format!(r#","progressToken":{token}"#));
        let raw =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{"of":{tag}{token_member}}}}}"#);
        let over = self.model.over();
        if self.call {
            let related = if let Related::To(nth) = related { Some(self.request(nth)) } else { None };
            let key = related.map(|at| self.keys[at]);
            self.session.push_call_note(self.now, &self.config, raw.clone().into(), key);
            if !over {
                self.model.speak(self.now, related);
                self.model.push_note(related.map_or(Dest::Get, Dest::Request), raw);
            }
            return;
        }
        self.relate(&raw, self.relation(related));
        if over {
            return;
        }
        let dest = match (related, note, token) {
            (Related::Over, _, _) => None,
            (Related::To(nth), _, _) => Some(Dest::Request(self.request(nth))),
            (Related::Unrelated, _, _) | (Related::Derived, Note::Changed, _) => Some(Dest::Get),
            (Related::Derived, _, Some(at)) => self.model.requests[at].open.then_some(Dest::Request(at)),
            (Related::Derived, _, None) => Some(self.model.guess_note(self.now)),
        };
        // The initialize has no token.
        let dest = dest.filter(|_| !matches!((related, token), (Related::Derived, Some(0))));
        match dest {
            Some(dest) => {
                if let Dest::Request(at) = dest {
                    self.model.speak(self.now, Some(at));
                }
                self.model.push_note(dest, raw);
            }
            None => self.model.counts.notes_dropped += 1,
        }
    }

    pub(super) fn app_asks(&mut self, id: u8, related: Related, ping: bool) {
        if self.call {
            let Related::To(nth) = related else { return };
            self.call_asks(nth);
            return;
        }
        let tag = self.tag(0);
        let method = if ping { "ping" } else { "elicitation/create" };
        let raw = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{tag}}}"#);
        let over = self.model.over();
        self.relate(&raw, self.relation(related));
        if over {
            return;
        }
        let guess = matches!(related, Related::Derived) && !ping;
        let to = if let Related::To(nth) = related { Some(self.request(nth)) } else { None };
        let newest = self.model.in_flight().into_iter().max();
        self.model.speak(self.now, if guess { newest } else { to });
        if self.model.inbox_full(3) {
            self.model.counts.server_requests_failed += 1;
            return;
        }
        let id = i64::from(id);
        if self.model.questions.contains_key(&id) {
            self.model.counts.server_requests_failed += 1;
            self.model.for_app(ForApp::Error(id, model::STILL_WAITING));
            return;
        }
        let place = if matches!(related, Related::Over) {
            Err(AnswerError::Ended)
        } else {
            self.model.place_question(to, guess)
        };
        if let Err(error) = self.model.ask(self.now, id, place, to, raw) {
            self.model.for_app(ForApp::Error(id, error.as_str()));
        }
    }

    fn call_asks(&mut self, nth: u8) {
        let at = self.request(nth);
        let tag = self.tag(0);
        let found = self.session.request_client(self.now, &self.config, self.keys[at], "roots/list", &tag);
        self.drain();
        let expected = if self.model.requests[at].open {
            self.model.serial += 1;
            let id = self.model.serial;
            let raw = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"roots/list","params":{tag}}}"#);
            let place = self.model.place_question(Some(at), false);
            self.model.ask(self.now, id, place, Some(at), raw)
        } else {
            Err(AnswerError::Ended)
        };
        assert_eq!(found.map(|_| ()), expected);
        if let Ok(key) = found {
            self.asked.push(Asked { key, id: self.model.serial, woken: true, done: false });
        }
    }

    pub(super) fn app_cancels(&mut self, which: u8) {
        if self.call {
            let Some(at) = self.asked.len().checked_sub(usize::from(which) + 1) else { return };
            let Asked { key, id, done, .. } = &mut self.asked[at];
            self.session.forget_request(*key);
            *done = true;
            if let Some(question) = self.model.questions.remove(id) {
                let dest = question.dest;
                self.model.withdraw(dest, *id);
            }
            return;
        }
        let raw = format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{which}}}}}"#);
        let over = self.model.over();
        self.relate(&raw, Relation::Derived);
        if !over {
            self.model.cancel_question(which.into(), raw);
        }
    }
}
