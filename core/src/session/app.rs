//! Messages of the app: each goes to exactly one stream, chosen here, when it is pushed.
//!
//! Where the app says which request a message belongs to, that decides. Where it can't (a stdio child), the relation is
//! derived: progress by its token, a cancellation by the request that it cancels, changes of lists and resources
//! belong to none, a request goes to the newest request in flight (SEP-2260), and other notes to the one
//! request in flight, or with several to an open GET, else to the newest.

use bytes::Bytes;
use serde::Deserialize;

use crate::config::SessionConfig;
use crate::id::RequestId;
use crate::message::{Message, MessageKind, Notification, Response};
use crate::session::end::EndReason;
use crate::session::log::Entry;
use crate::session::stream::{ConnectionKey, Place, RequestKey};
use crate::session::{Effect, Phase, Session};
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
        if matches!(self.phase, Phase::Ended(_)) {
            return;
        }
        match message.kind() {
            MessageKind::Response(response) => match self.answered_request(response) {
                Some(request) => self.handle_response(config, request, message.into_raw()),
                None => self.counters.responses_unmatched += 1,
            },
            MessageKind::Request(request) => {
                if relation == Relation::Over {
                    self.refuse_server_request(&request.id);
                    return;
                }
                let related = match relation {
                    Relation::Derived if request.method == "ping" => None,
                    Relation::Derived => self.newest_in_flight(),
                    Relation::Request(key) => Some(key),
                    Relation::Over | Relation::Unrelated => None,
                };
                self.speak(now, related);
                let id = request.id.clone();
                self.handle_server_request(now, config, id, message.into_raw(), related);
            }
            MessageKind::Notification(note) => {
                let place = match relation {
                    Relation::Derived => self.derive_place(now, note),
                    Relation::Request(key) => {
                        self.speak(now, Some(key));
                        Some(Place::Request(key.stream))
                    }
                    Relation::Over => {
                        self.counters.notes_dropped += 1;
                        None
                    }
                    Relation::Unrelated => Some(Place::Standalone),
                };
                if let Some(place) = place {
                    self.push_note(config, place, message.into_raw());
                }
            }
        }
    }

    /// A note of a call that answers `related`, or of none.
    pub fn push_call_note(&mut self, now: Timestamp, config: &SessionConfig, raw: Bytes, related: Option<RequestKey>) {
        if matches!(self.phase, Phase::Ended(_)) {
            return;
        }
        self.speak(now, related);
        let place = related.map_or(Place::Standalone, |key| Place::Request(key.stream));
        self.push_note(config, place, raw);
    }

    /// The app's answer to a request in flight; for one that isn't, nothing happens. `raw` is the whole JSON-RPC
    /// response.
    pub fn handle_response(&mut self, config: &SessionConfig, key: RequestKey, raw: Bytes) {
        let Some(stream) = self.streams.get_mut(key.stream) else {
            self.counters.responses_unmatched += 1;
            return;
        };
        let Some(member) = stream.members.get_mut(key.position).filter(|member| member.open) else {
            self.counters.responses_unmatched += 1;
            return;
        };
        member.open = false;
        self.in_flight.remove(&member.id);
        stream.open -= 1;
        let initialize = matches!(self.phase, Phase::Starting { request, .. } if request == key);
        let result = if initialize { initialize_result(&raw) } else { None };
        if stream.reader.is_some() {
            stream.log.push(Entry::Response, raw);
            self.counters.notes_dropped += stream.log.enforce(config);
        }
        self.fail_outgoing_of(key);
        self.after_answer(key);
        match result {
            Some(version) => {
                self.version = version;
                self.phase = Phase::Open;
                self.effects.push_back(Effect::Established);
            }
            None if initialize => self.effects.push_back(Effect::End(EndReason::InitializeFailed)),
            None => {}
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

    /// `None` for a note that no client should see: it has served its purpose here, or it is about something that is over.
    fn derive_place(&mut self, now: Timestamp, note: &Notification) -> Option<Place> {
        let related = match &*note.method {
            "notifications/cancelled" => {
                let id = note.request_id.as_ref();
                return match id.filter(|id| self.outgoing.contains(id)) {
                    Some(id) => self.cancel_server_request(id),
                    None => Some(Place::Standalone),
                };
            }
            "notifications/progress" => {
                // Progress of what was cancelled or answered is late, and clients report it as an error.
                let request = note.progress_token.as_ref().and_then(|token| self.request_with_token(token));
                if request.is_none() {
                    self.counters.notes_dropped += 1;
                    return None;
                }
                request
            }
            "notifications/prompts/list_changed"
            | "notifications/resources/list_changed"
            | "notifications/resources/updated"
            | "notifications/tools/list_changed" => return Some(Place::Standalone),
            _ if self.in_flight.len() > 1 && self.standalone_carrier().is_some() => None,
            _ => self.newest_in_flight(),
        };
        self.speak(now, related);
        Some(related.map_or(Place::Standalone, |key| Place::Request(key.stream)))
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
            member.spoken = now;
        }
    }

    /// Puts a note where a reader gets it, or drops it where none ever will.
    fn push_note(&mut self, config: &SessionConfig, place: Place, raw: Bytes) {
        let place = match place {
            Place::Standalone => place,
            Place::Request(key) => match self.streams.get(key) {
                Some(stream) if stream.is_json() && self.standalone_carrier().is_some() => Place::Standalone,
                Some(stream) if stream.is_open() && !stream.is_json() => place,
                _ => {
                    self.counters.notes_dropped += 1;
                    return;
                }
            },
        };
        self.append(config, place, Entry::Note, raw);
    }

    /// Appends to a stream's log and wakes whoever reads it.
    pub(super) fn append(&mut self, config: &SessionConfig, place: Place, entry: Entry, raw: Bytes) {
        let (log, reader) = match place {
            Place::Request(key) => {
                let Some(stream) = self.streams.get_mut(key) else { return };
                let reader = stream.reader.as_ref().map(|_| ConnectionKey { place, attached: stream.attached });
                (&mut stream.log, reader)
            }
            Place::Standalone => {
                let standalone = self.standalone.get_or_insert_default();
                let carrier = standalone.carrier();
                (&mut standalone.log, carrier)
            }
        };
        log.push(entry, raw);
        self.counters.notes_dropped += log.enforce(config);
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
