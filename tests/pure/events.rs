//! What follows from an input: effects of sessions, speech of apps, deadlines, and ends.

use sessile_core::session::{Delivery, Effect, Relation, RequestKey, Session};
use sessile_core::{Message, Outcome, ProtocolVersion, Reap, RequestId, SessionKey, TaskExit, Timestamp};

use super::script::{self, Say};
use super::{Speech, State, World};

impl World {
    /// Does what the effects of a session ask for.
    pub(super) fn settle(&mut self, key: SessionKey) {
        while let Some(effect) = self.sessions.get_mut(&key).and_then(Session::poll_effect) {
            match effect {
                Effect::Alarm(at) => self.table.set_alarm(key, at),
                Effect::AskStore => {}
                Effect::End(reason) => {
                    let reap = self.table.handle_task_exited(self.now, key, reason.into());
                    self.bury(reap);
                }
                Effect::Established => {
                    let version = self.sessions.get(&key).and_then(Session::version);
                    self.table.handle_initialized(self.now, key, version.unwrap_or(ProtocolVersion::ASSUMED));
                }
                Effect::Release => self.table.handle_response_finished(self.now, key),
                Effect::WakeAnswer(_) => {}
                Effect::WakeApp => self.run_app(key),
                Effect::WakeCall(request) => {
                    self.speech.retain(|_, speech| (speech.key, speech.request) != (key, request));
                }
                Effect::WakeConnection(connection) => {
                    let woken = self.exchanges.iter().position(|exchange| match exchange.state {
                        State::Held { key: of, connection: at, .. } | State::Streaming { key: of, connection: at } => {
                            (of, at) == (key, connection)
                        }
                        State::Done | State::Uploading { .. } => false,
                    });
                    if let Some(exchange) = woken {
                        self.poll(exchange);
                    }
                }
            }
        }
    }

    /// An app that runs as long as its session reads its inbox.
    pub(super) fn run_app(&mut self, key: SessionKey) {
        while let Some(inbound) = self.sessions.get_mut(&key).and_then(|session| {
            // A deaf app reads its first message and no other.
            (!self.deaf || session.version().is_none()).then(|| session.poll_inbox()).flatten()
        }) {
            let Some(id) = inbound.message.as_request().map(|request| request.id.clone()) else { continue };
            let request = self.sessions.get(&key).and_then(|session| session.request_with_id(&id));
            if let Some(request) = request {
                self.schedule(key, request, id, script::script(&inbound.message));
                self.speak_due();
            }
        }
    }

    pub(super) fn schedule(&mut self, key: SessionKey, request: RequestKey, id: RequestId, says: Vec<Say>) {
        let mut at = self.now;
        for say in says {
            if let Say::Wait(time) = say {
                at = at.saturating_add(time);
                continue;
            }
            self.serial += 1;
            self.speech.insert((at, self.serial), Speech { key, request, id: id.clone(), say });
        }
    }

    pub(super) fn speak_due(&mut self) {
        while let Some(first) = self.speech.first_entry().filter(|first| first.key().0 <= self.now) {
            let Speech { key, request, id, say } = first.remove();
            let config = &self.config.session;
            let Some(session) = self.sessions.get_mut(&key) else { continue };
            let related = Relation::Request(request);
            let (text, relation) = match say {
                Say::Crash => {
                    let reap = self.table.handle_task_exited(self.now, key, TaskExit::Crashed);
                    self.bury(reap);
                    continue;
                }
                Say::Wait(_) => continue,
                Say::Error(code, text) => (script::error(&id, code, &text), related),
                Say::Note(params) => (script::note(&params), related),
                Say::Result(result) => (script::result(&id, &result), related),
                Say::SessionNote(params) => (script::note(&params), Relation::Unrelated),
            };
            let message = Message::parse(text.into()).expect("a script writes messages");
            match (self.delivery, message.as_request().is_none() && message.method().is_none()) {
                (Delivery::Call, true) => session.handle_response(self.now, config, request, message.into_raw()),
                (Delivery::Call, false) => {
                    let related = (relation == related).then_some(request);
                    session.push_call_note(self.now, config, message.into_raw(), related);
                }
                (Delivery::Inbox, _) => session.handle_app_message(self.now, config, message, relation),
            }
            self.settle(key);
        }
    }

    pub(super) fn bury(&mut self, reap: Option<Reap>) {
        let Some(reap) = reap else { return };
        self.reaped.push(reap.reason);
        self.speech.retain(|_, speech| speech.key != reap.key);
        if let Some(session) = self.sessions.get_mut(&reap.key) {
            session.end(reap.reason.into());
        }
        self.settle(reap.key);
    }

    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let held = self.exchanges.iter().filter_map(|exchange| match exchange.state {
            State::Held { until, .. } => until,
            State::Uploading { until, .. } => Some(until),
            State::Done | State::Streaming { .. } => None,
        });
        let speech = self.speech.keys().next().map(|(at, _)| *at);
        held.chain(speech).chain(self.table.next_deadline()).min()
    }

    pub(super) fn run_due(&mut self) {
        self.speak_due();
        for exchange in 0..self.exchanges.len() {
            match self.exchanges[exchange].state {
                State::Held { until: Some(until), .. } if until <= self.now => self.poll(exchange),
                State::Uploading { key, until } if until <= self.now => {
                    self.exchanges[exchange].state = State::Done;
                    self.refuse(exchange, None, &Outcome::BodyTooSlow);
                    self.close_connection(exchange);
                    if let Some(key) = key {
                        self.table.handle_response_finished(self.now, key);
                    }
                }
                State::Done | State::Held { .. } | State::Streaming { .. } | State::Uploading { .. } => {}
            }
        }
        while let Some(reap) = self.table.poll_reap(self.now) {
            self.bury(Some(reap));
        }
        while let Some(key) = self.table.poll_alarm(self.now) {
            if let Some(session) = self.sessions.get_mut(&key) {
                session.handle_timeout(self.now, &self.config.session);
            }
            self.settle(key);
        }
    }
}
