//! Messages of the app: each goes to exactly one stream, chosen here, when it is pushed.
//!
//! Where the app says which request a message belongs to, that decides. Where it can't (a stdio child), the relation is
//! derived: progress by its token, a cancellation by the request that it cancels, changes of lists and resources
//! belong to none, a request goes to the newest request in flight (SEP-2260), and other notes to the one
//! request in flight, or with several to an open GET, else to the newest. Where that is a guess, it falls on the newest request
//! whose connection can carry it, else on an open GET, and it decides where a message travels, not how long a
//! request of the app lives: `roots/list` must outlive the short call that it happened to travel with.

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::config::SessionConfig;
use crate::id::RequestId;
use crate::message::{Message, MessageKind, Notification, Response};
use crate::session::end::EndReason;
use crate::session::log::Entry;
use crate::session::store::log_of;
use crate::session::stream::{ConnectionKey, Place, Reader, RequestKey, RequestStream};
use crate::session::{Effect, Kind, Phase, Session};
use crate::time::Timestamp;
use crate::version::ProtocolVersion;

/// Which request of the client a message of the app belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The app can't say; see the rules of this module.
    Derived,
    /// One that is no longer in flight: a note about it is dropped, a request gets an error.
    Over,
    /// This one.
    Request(RequestKey),
    /// None: it goes to the standalone stream.
    Unrelated,
}

impl<X> Session<X> {
    /// A message of an app that runs with the session.
    ///
    /// Never waits and never fails: what has no way to the client is dropped and counted, except responses, and requests are answered
    /// with an error.
    pub fn handle_app_message(&mut self, now: Timestamp, config: &SessionConfig, message: Message, relation: Relation) {
        if self.is_over() {
            return;
        }
        match message.kind() {
            MessageKind::Response(response) => match self.answered_request(response) {
                Some(request) => self.handle_response(now, config, request, self.with_id(request, message)),
                None => self.counters.responses_unmatched += 1,
            },
            MessageKind::Request(request) => {
                let relation = match relation {
                    Relation::Derived if request.method == "ping" => Relation::Unrelated,
                    Relation::Derived | Relation::Over | Relation::Request(_) | Relation::Unrelated => relation,
                };
                match relation {
                    Relation::Derived => self.speak(now, self.newest_in_flight()),
                    Relation::Request(key) => self.speak(now, Some(key)),
                    Relation::Over | Relation::Unrelated => {}
                }
                let id = request.id.clone();
                self.handle_server_request(now, config, id, message.into_raw(), relation);
            }
            // It follows what it cancels, whatever the app says.
            MessageKind::Notification(note) if note.method == "notifications/cancelled" => {
                let id = note.request_id.clone();
                self.cancel_server_request(now, config, id.as_ref(), message.into_raw());
            }
            MessageKind::Notification(note) => {
                let place = match relation {
                    Relation::Derived => self.derive_place(now, note),
                    Relation::Over => None,
                    Relation::Request(key) => {
                        self.speak(now, Some(key));
                        Some(Place::Request(key.stream))
                    }
                    Relation::Unrelated => Some(Place::Standalone),
                };
                match place {
                    Some(place) => {
                        self.push_note(now, config, place, message.into_raw());
                    }
                    // About something that is over, which clients report as an error.
                    None => self.counters.notes_dropped += 1,
                }
            }
        }
    }

    /// A note of a call that answers `related`, or of none.
    pub fn push_call_note(&mut self, now: Timestamp, config: &SessionConfig, raw: Bytes, related: Option<RequestKey>) {
        if self.is_over() {
            return;
        }
        self.speak(now, related);
        let place = related.map_or(Place::Standalone, |key| Place::Request(key.stream));
        self.push_note(now, config, place, raw);
    }

    /// The app's answer to a request in flight; for one that isn't, nothing happens. `raw` is the whole JSON-RPC
    /// response.
    pub fn handle_response(&mut self, now: Timestamp, config: &SessionConfig, key: RequestKey, raw: Bytes) {
        if self.is_over() || !self.is_in_flight(key) {
            self.counters.responses_unmatched += 1;
            return;
        }
        // What the client may rely on once it has its answer comes before the word that the answer is there.
        if self.is_starting(key) {
            self.finish_start(config, &raw);
        }
        self.grant(config, key, &raw);
        let Some(stream) = self.streams.get_mut(key.stream) else { return };
        let Some(member) = stream.members.get_mut(key.position) else { return };
        member.open = false;
        self.in_flight.remove(&member.id);
        stream.open -= 1;
        stream.answered = true;
        if stream.has_reader() {
            // The bounds of the log are for notes: those that wait are not dropped because the answer is large.
            stream.log.push(Entry::Response, raw);
            stream.log.trim(config);
        }
        self.tend_store(now, config, Place::Request(key.stream));
        self.fail_outgoing_of(key);
        self.after_answer(key, Some((now, config)));
    }

    /// The app has answered `initialize`.
    fn finish_start(&mut self, config: &SessionConfig, raw: &[u8]) {
        if let Some(version) = initialize_result(raw) {
            self.version = version;
            self.phase = Phase::Open;
            self.effects.push_back(Effect::Established);
            // Only now it is known whether the clients of streams that are open already can be made to poll.
            self.expect_kept(config);
        } else {
            self.phase = Phase::Failed;
            self.effects.push_back(Effect::End(EndReason::InitializeFailed));
        }
    }

    /// The request that a response of the app answers: by its id; an error without an id ends the only one in flight.
    fn answered_request(&self, response: &Response) -> Option<RequestKey> {
        match &response.id {
            Some(id) => self.request_with_id(id),
            None if self.in_flight.len() == 1 => self.in_flight.iter().next().map(|(_, key)| *key),
            None => None,
        }
    }

    /// The response as the client can match it: an error without an id gets the id of the request that it ends.
    fn with_id(&self, request: RequestKey, message: Message) -> Bytes {
        #[derive(Deserialize)]
        struct Failure<'a> {
            #[serde(borrow)]
            error: &'a RawValue,
        }
        if matches!(message.kind(), MessageKind::Response(Response { id: None, .. }))
            && let Some(id) = self.request_id(request)
            && let Ok(Failure { error }) = serde_json::from_slice(message.raw())
        {
            return Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{},"error":{}}}"#, id.to_json(), error.get()));
        }
        message.into_raw()
    }

    /// `None` for a note about something that is over.
    fn derive_place(&mut self, now: Timestamp, note: &Notification) -> Option<Place> {
        let related = match &*note.method {
            // There is nothing else that it could be about.
            _ if self.kind != Kind::Session => Some(self.newest_in_flight()?),
            "notifications/progress" => {
                Some(note.progress_token.as_ref().and_then(|token| self.request_with_token(token))?)
            }
            "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/resources/updated"
            | "notifications/tools/list_changed" => return Some(Place::Standalone),
            _ => {
                self.speak(now, self.newest_in_flight());
                let several = self.in_flight.len() > 1;
                match self.newest_with_wire() {
                    Some(key) if !(several && self.standalone_carrier().is_some()) => Some(key),
                    None if self.standalone_carrier().is_none() => self.newest_in_flight(),
                    Some(_) | None => None,
                }
            }
        };
        self.speak(now, related);
        Some(related.map_or(Place::Standalone, |key| Place::Request(key.stream)))
    }

    /// The newest request whose connection can carry more than its answer.
    pub(super) fn newest_with_wire(&self) -> Option<RequestKey> {
        let with_wire = |key: &RequestKey| self.streams.get(key.stream).is_some_and(RequestStream::has_wire);
        let in_flight = self.in_flight.iter().map(|(_, key)| *key).filter(with_wire);
        in_flight.max_by_key(|key| self.member(*key).map(|member| member.serial))
    }

    fn newest_in_flight(&self) -> Option<RequestKey> {
        self.in_flight.iter().map(|(_, key)| *key).max_by_key(|key| self.member(*key).map(|member| member.serial))
    }

    fn request_with_token(&self, token: &RequestId) -> Option<RequestKey> {
        let has_token = |key: &RequestKey| self.member(*key).and_then(|member| member.token.as_ref()) == Some(token);
        self.in_flight.iter().map(|(_, key)| *key).find(has_token)
    }

    /// The app has said something about a request: one without a connection may go on.
    fn speak(&mut self, now: Timestamp, related: Option<RequestKey>) {
        let Some(key) = related else { return };
        let member = self.streams.get_mut(key.stream).and_then(|stream| stream.members.get_mut(key.position));
        if let Some(member) = member {
            member.spoken = member.spoken.max(now);
        }
    }

    /// Puts a note where a reader gets it, or drops it where none ever will. Whether one may get it.
    pub(super) fn push_note(&mut self, now: Timestamp, config: &SessionConfig, place: Place, raw: Bytes) -> bool {
        if let Place::Request(key) = place {
            self.hear_promise(key, &raw);
        }
        let carrier = self.standalone_carrier().is_some();
        let stream = if let Place::Request(key) = place { self.streams.get(key) } else { None };
        let place = match (place, stream) {
            (Place::Standalone, _) if carrier || (self.kind == Kind::Session && !self.draining) => Some(place),
            (Place::Request(_), Some(stream)) if stream.is_json() && carrier => Some(Place::Standalone),
            (Place::Request(_), Some(stream)) if stream.has_wire() => Some(place),
            (Place::Request(_) | Place::Standalone, _) => None,
        };
        match place {
            Some(place) => self.append(now, config, place, Entry::Note, raw),
            None => self.counters.notes_dropped += 1,
        }
        place.is_some()
    }

    /// Appends to a stream's log and wakes whoever reads it.
    pub(super) fn append(&mut self, now: Timestamp, config: &SessionConfig, place: Place, entry: Entry, raw: Bytes) {
        let polls = self.has_polling(config);
        let (log, reader, moved) = match place {
            Place::Request(key) => {
                let Some(stream) = self.streams.get_mut(key) else { return };
                let reader = stream.reader.as_ref().map(|_| ConnectionKey { place, attached: stream.attached });
                let moved = match &mut stream.reader {
                    Some(Reader::Streaming { moved, .. }) => Some(moved),
                    Some(Reader::Held { .. }) | None => None,
                };
                (&mut stream.log, reader, moved)
            }
            Place::Standalone => {
                let standalone = self.standalone.get_or_insert_default();
                let carrier = standalone.carrier();
                (&mut standalone.log, carrier, standalone.readers.last_mut().map(|reader| &mut reader.moved))
            }
        };
        if let Some(moved) = moved.filter(|_| !log.has_unread()) {
            *moved = now;
        }
        log.push(entry, raw);
        log.trim(config);
        if polls && log.is_over(config) && log.has_ready() {
            self.cut_off(now, config, place);
        }
        let log = log_of(&mut self.streams, &mut self.standalone, place);
        self.counters.notes_dropped += log.map_or(0, |log| log.enforce(config));
        self.tend_store(now, config, place);
        if let Some(reader) = reader {
            self.effects.push_back(Effect::WakeConnection(reader));
        }
    }

    pub(super) fn standalone_carrier(&self) -> Option<ConnectionKey> {
        self.standalone.as_ref().and_then(|standalone| standalone.carrier())
    }
}

/// What an `initialize` result has negotiated: `None` if the app answered with an error, `Some(None)` if it named something
/// unknown.
fn initialize_result(raw: &[u8]) -> Option<Option<ProtocolVersion>> {
    #[derive(Deserialize)]
    struct Answer {
        result: Option<InitializeResult>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct InitializeResult {
        #[serde(default)]
        protocol_version: Option<serde_json::Value>,
    }
    let result = serde_json::from_slice::<Answer>(raw).ok()?.result?;
    let named = result.protocol_version.as_ref().and_then(serde_json::Value::as_str);
    Some(named.and_then(|named| ProtocolVersion::parse(named.as_bytes())).filter(|version| !version.is_modern()))
}
