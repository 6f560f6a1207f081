//! One test for each rule of a session, over a rig that drains the effects after every call.

mod answers;
mod batches;
mod endings;
mod heads;
mod inbox;
mod memory;
mod outside;
mod questions;
mod resume;
mod routing;
mod sessionless;
mod standalone;
mod store;
mod timeouts;

use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::*;

/// A session with its clock, its settings, and the effects so far.
struct Rig {
    session: Session<u32>,
    config: SessionConfig,
    now: Timestamp,
    effects: Vec<Effect>,
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#;

fn message(text: &str) -> Message {
    Message::parse(Bytes::copy_from_slice(text.as_bytes())).expect("a message")
}

fn call(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"_meta":{{"progressToken":{id}}}}}}}"#)
}

fn answer(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"of":{id}}}}}"#)
}

fn cancelled(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#)
}

fn progress(token: &str, step: u32) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{step}}}}}"#
    )
}

fn log_note(text: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"data":"{text}"}}}}"#)
}

fn question(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"elicitation/create"}}"#)
}

fn error_of(text: &str) -> (serde_json::Value, String) {
    let value: serde_json::Value = serde_json::from_str(text).expect("JSON");
    (value["id"].clone(), value["error"]["message"].as_str().unwrap_or_default().to_owned())
}

impl Rig {
    /// Before `initialize`.
    fn new(delivery: Delivery) -> Self {
        let config = SessionConfig::default();
        Self { session: Session::new(delivery), config, now: Timestamp::from_secs(1), effects: Vec::new() }
    }

    /// After the handshake, with an app that runs with the session.
    fn open() -> Self {
        Self::new(Delivery::Inbox).opened()
    }

    fn opened(mut self) -> Self {
        let (request, connection) = self.request(INITIALIZE, ResponseMode::Auto);
        self.respond(request, INITIALIZED);
        assert!(matches!(self.head(connection), Head::Json(_)));
        self.inbox();
        self.effects.clear();
        self
    }

    fn drain(&mut self) {
        while let Some(effect) = self.session.poll_effect() {
            self.effects.push(effect);
        }
    }

    fn post(&mut self, text: &str, mode: ResponseMode) -> MessageAction<u32> {
        let action = self.session.handle_message(self.now, &self.config, message(text), 7, mode);
        self.drain();
        action
    }

    fn request(&mut self, text: &str, mode: ResponseMode) -> (RequestKey, ConnectionKey) {
        let action = self.post(text, mode);
        let MessageAction::Open { request, connection, .. } = action else { panic!("{text}: {action:?}") };
        (request, connection)
    }

    /// A request whose stream of events is open.
    fn streaming(&mut self, id: &str) -> (RequestKey, ConnectionKey) {
        let (request, connection) = self.request(&call(id), ResponseMode::Sse);
        assert_eq!(self.head(connection), Head::Stream);
        (request, connection)
    }

    fn accepted(&mut self, text: &str) -> Option<Inbound<u32>> {
        let action = self.post(text, ResponseMode::Auto);
        let MessageAction::Accepted { call } = action else { panic!("{text}: {action:?}") };
        call
    }

    fn refused(&mut self, text: &str) -> Outcome {
        let action = self.post(text, ResponseMode::Auto);
        let MessageAction::Refuse { outcome, .. } = action else { panic!("{text}: {action:?}") };
        outcome
    }

    fn says(&mut self, text: &str) {
        self.relates(text, Relation::Derived);
    }

    fn relates(&mut self, text: &str, relation: Relation) {
        self.session.handle_app_message(self.now, &self.config, message(text), relation);
        self.drain();
    }

    fn respond(&mut self, request: RequestKey, text: &str) {
        self.session.handle_response(self.now, &self.config, request, Bytes::copy_from_slice(text.as_bytes()));
        self.drain();
    }

    fn ask(&mut self, related: RequestKey) -> Result<ServerRequestKey, AnswerError> {
        let asked = self.session.request_client(self.now, &self.config, related, "elicitation/create", "{}");
        self.drain();
        asked
    }

    fn head(&mut self, connection: ConnectionKey) -> Head {
        let head = self.session.poll_head(self.now, &self.config, connection);
        self.drain();
        head
    }

    fn json(&mut self, connection: ConnectionKey) -> String {
        let head = self.head(connection);
        let Head::Json(body) = head else { panic!("{head:?}") };
        String::from_utf8(body.to_vec()).expect("UTF-8")
    }

    fn get(&mut self) -> ConnectionKey {
        let connection = self.session.open_get(self.now, &self.config, None).expect("a stream");
        self.drain();
        connection
    }

    fn poll(&mut self, connection: ConnectionKey) -> (String, ReaderOutput) {
        let mut out = BytesMut::new();
        let output = self.session.poll_frames(self.now, &self.config, connection, &mut out, usize::MAX);
        self.drain();
        (String::from_utf8(out.to_vec()).expect("UTF-8"), output)
    }

    /// The data of all events that a reader gets now.
    fn read(&mut self, connection: ConnectionKey) -> Vec<String> {
        let (text, _) = self.poll(connection);
        text.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    fn leave(&mut self, connection: ConnectionKey) -> Disconnect {
        let left = self.session.handle_disconnect(self.now, &self.config, connection);
        self.drain();
        left
    }

    fn end(&mut self, reason: EndReason) {
        self.session.end(reason);
        self.drain();
    }

    fn shut(&mut self) {
        self.session.begin_drain(self.now, &self.config);
        self.drain();
    }

    fn wait(&mut self, time: Duration) {
        self.now = self.now.saturating_add(time);
        self.session.handle_timeout(self.now, &self.config);
        self.drain();
    }

    /// What the app receives now.
    fn inbox(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.session.poll_inbox())
            .map(|inbound| String::from_utf8(inbound.message.raw().to_vec()).expect("UTF-8"))
            .collect()
    }

    fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Whether this was told since the last time that anybody asked.
    fn told(&mut self, effect: Effect) -> bool {
        self.effects().contains(&effect)
    }

    fn count(&self, wanted: Effect) -> usize {
        self.effects.iter().filter(|effect| **effect == wanted).count()
    }

    /// The last alarm that was set.
    fn alarm(&self) -> Option<Timestamp> {
        let alarm = |effect: &Effect| if let Effect::Alarm(at) = effect { Some(*at) } else { None };
        self.effects.iter().rev().find_map(alarm).flatten()
    }
}
