//! How answers leave: refusals, heads that are held, and what streams have.

use bytes::BytesMut;
use http::header::{CONNECTION, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use sessile_core::config::ResponseMode;
use sessile_core::session::{Head, ReaderOutput};
use sessile_core::{
    GetHead, LastEventId, MCP_SESSION_ID, ModernRequest, Outcome, RequestId, SessionKey, modern_status, sse,
};

use super::script::{self, Say, script};
use super::{Answer, State, Upload, World};

impl World {
    /// Decides a head that is held, and reads what a stream has.
    pub(super) fn poll(&mut self, exchange: usize) {
        if let State::Held { key, connection, .. } = self.exchanges[exchange].state {
            let Some(session) = self.sessions.get_mut(&key) else { return };
            let head = session.poll_head(self.now, &self.config.session, connection);
            let initialize = self.exchanges[exchange].initialize;
            let announced = initialize && session.announces_id();
            let mut headers = match head {
                Head::Hold { until } => {
                    self.exchanges[exchange].state = State::Held { key, connection, until };
                    return self.settle(key);
                }
                Head::Refuse(outcome) => {
                    self.exchanges[exchange].state = State::Done;
                    let id = self.exchanges[exchange].id.clone();
                    self.refuse(exchange, id.as_ref(), &outcome);
                    self.settle(key);
                    return self.table.handle_response_finished(self.now, key);
                }
                Head::Json(body) => {
                    let answer = &mut self.exchanges[exchange].answer;
                    answer.body = body.to_vec();
                    answer.done = true;
                    self.exchanges[exchange].state = State::Done;
                    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))])
                }
                Head::Stream => {
                    self.exchanges[exchange].state = State::Streaming { key, connection };
                    event_stream()
                }
            };
            if announced && let Some(id) = self.names.get(&key) {
                headers.insert(MCP_SESSION_ID, id.to_header());
            }
            self.send_head(exchange, StatusCode::OK, headers);
            self.settle(key);
            if self.exchanges[exchange].answer.done {
                return self.table.handle_response_finished(self.now, key);
            }
        }
        if let State::Streaming { key, connection } = self.exchanges[exchange].state {
            let Some(session) = self.sessions.get_mut(&key) else { return };
            let mut out = BytesMut::new();
            let mut output = ReaderOutput::Ready;
            while output == ReaderOutput::Ready {
                output = session.poll_frames(self.now, &self.config.session, connection, &mut out, usize::MAX);
            }
            let answer = &mut self.exchanges[exchange].answer;
            answer.body.extend_from_slice(&out);
            answer.done = matches!(output, ReaderOutput::Detached | ReaderOutput::Finished);
            let done = answer.done;
            if done {
                self.exchanges[exchange].state = State::Done;
            }
            self.settle(key);
            if output == ReaderOutput::Finished {
                self.table.handle_response_finished(self.now, key);
            }
        }
    }

    pub(super) fn open_standalone(&mut self, exchange: usize, key: SessionKey, get: &GetHead) {
        let position = match get.last_event_id {
            None => None,
            Some(LastEventId::Position(id)) => Some(id),
            Some(LastEventId::Unreadable) => {
                self.refuse(exchange, None, &Outcome::NotResumable);
                return self.table.handle_response_finished(self.now, key);
            }
        };
        let Some(session) = self.sessions.get_mut(&key) else { return };
        let opened = session.open_get(self.now, &self.config.session, position);
        self.settle(key);
        match opened {
            Err(outcome) => {
                self.refuse(exchange, None, &outcome);
                self.table.handle_response_finished(self.now, key);
            }
            Ok(connection) => {
                self.exchanges[exchange].state = State::Streaming { key, connection };
                self.send_head(exchange, StatusCode::OK, event_stream());
                self.poll(exchange);
            }
        }
    }

    /// With what every answer says to browsers.
    fn send_head(&mut self, exchange: usize, status: StatusCode, mut headers: HeaderMap) {
        let exchange = &mut self.exchanges[exchange];
        if let Some(cors) = exchange.cors.take() {
            cors.apply(&mut headers);
        }
        exchange.answer.head = Some((status, headers));
    }

    /// Answers with the first thing in the script that is an answer, at once. Whatever else an app does about such a request is not
    /// the gate's.
    pub(super) fn answer_sessionless(&mut self, exchange: usize, request: &ModernRequest) {
        let Some(id) = request.message.as_request().map(|request| request.id.clone()) else { return };
        let said = script(&request.message).into_iter().find_map(|say| match say {
            Say::Error(code, text) => Some((Some(i64::from(code)), script::error(&id, code, &text))),
            Say::Result(result) => Some((None, script::result(&id, &result))),
            Say::Crash | Say::Note(_) | Say::SessionNote(_) | Say::Wait(_) => None,
        });
        let Some((code, text)) = said else { return self.refuse(exchange, Some(&id), &Outcome::AppFailed) };
        let as_events = request.mode == ResponseMode::Sse && code.is_none();
        let (headers, body) = if as_events {
            (event_stream(), format!("event: message\ndata: {text}\n\n"))
        } else {
            (HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/json"))]), text)
        };
        self.exchanges[exchange].answer = Answer { head: None, body: body.into_bytes(), done: true };
        self.send_head(exchange, modern_status(code), headers);
    }

    pub(super) fn refuse(&mut self, exchange: usize, id: Option<&RequestId>, outcome: &Outcome) {
        let (head, body) = Response::into_parts(outcome.respond_in(self.exchanges[exchange].era, id));
        self.exchanges[exchange].answer = Answer { head: None, body: body.to_vec(), done: true };
        self.send_head(exchange, head.status, head.headers);
    }

    /// A refusal before the body was read: the connection can go on if the rest of the body comes, and is small.
    pub(super) fn refuse_unread(&mut self, exchange: usize, parts: &Parts, upload: &Upload, outcome: &Outcome) {
        self.refuse(exchange, None, outcome);
        let drained = match upload {
            Upload::Never => false,
            Upload::Whole(body) => body.is_empty() || self.gate.may_drain(parts) && body.len() <= self.gate.max_body(),
        };
        if !drained {
            self.close_connection(exchange);
        }
    }

    pub(super) fn close_connection(&mut self, exchange: usize) {
        if let Some((_, headers)) = &mut self.exchanges[exchange].answer.head {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

fn event_stream() -> HeaderMap {
    let mut headers = HeaderMap::new();
    sse::set_headers(&mut headers);
    headers
}
