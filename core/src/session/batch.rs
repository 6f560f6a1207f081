//! Batches of the client (2025-03-26): all of it is taken in, or none.

use crate::config::{ResponseMode, SessionConfig};
use crate::id::RequestId;
use crate::message::{Message, MessageKind, Request};
use crate::outcome::Outcome;
use crate::session::inbox::Inbound;
use crate::session::stream::{ConnectionKey, RequestKey};
use crate::session::{Delivery, Session};
use crate::time::Timestamp;

/// What a batch of the client leads to.
#[derive(Debug)]
#[must_use]
pub enum BatchAction<X> {
    /// It has no request: 202.
    Accepted {
        /// The messages, for a session whose app is called and has to see them.
        calls: Vec<BatchCall<X>>,
    },
    /// Its requests are in flight now, and their answers leave through `connection`, whose head is held.
    Open {
        /// The messages, for a session whose app is called and has to see them.
        calls: Vec<BatchCall<X>>,
        /// The connection that reads the stream of all requests.
        connection: ConnectionKey,
        /// The first request.
        request: RequestKey,
    },
    /// It was refused and has left nothing behind.
    Refuse(Outcome),
}

/// A message of a batch for an app that is called.
#[derive(Debug)]
pub struct BatchCall<X> {
    /// The message.
    pub inbound: Inbound<X>,
    /// The request that it is, unless it is a notification.
    pub request: Option<RequestKey>,
}

impl<X: Clone> Session<X> {
    /// A batch of the client, which the gate has let through. All its requests share one stream; as one JSON body their
    /// answers are an array, else each is an event.
    pub fn handle_batch(
        &mut self,
        now: Timestamp,
        config: &SessionConfig,
        batch: Vec<Message>,
        context: &X,
        mode: ResponseMode,
    ) -> BatchAction<X> {
        let requests: Vec<&Request> = batch.iter().filter_map(Message::as_request).collect();
        if let Err(outcome) = self.admit_batch(config, &batch, &requests) {
            return BatchAction::Refuse(outcome);
        }
        // The window of `Auto` is for one answer that may be one body.
        let mode = if mode == ResponseMode::Json { mode } else { ResponseMode::Sse };
        let opened = if requests.is_empty() {
            None
        } else {
            let Some(opened) = self.open_stream_of(now, config, &requests, mode, true) else {
                return BatchAction::Refuse(Outcome::TooManyRequests);
            };
            Some(opened)
        };
        let mut calls = Vec::new();
        let mut position = 0;
        for message in batch {
            let request = opened.filter(|_| message.as_request().is_some()).map(|(first, _)| {
                let request = RequestKey { position, ..first };
                position += 1;
                request
            });
            let inbound = if request.is_some() {
                self.deliver(message, context.clone())
            } else {
                self.take_in(now, config, message, context.clone())
            };
            calls.extend(inbound.map(|inbound| BatchCall { inbound, request }));
        }
        match opened {
            Some((request, connection)) => BatchAction::Open { calls, connection, request },
            None => BatchAction::Accepted { calls },
        }
    }

    fn admit_batch(&self, config: &SessionConfig, batch: &[Message], requests: &[&Request]) -> Result<(), Outcome> {
        if self.is_over() {
            return Err(Outcome::SessionNotFound);
        }
        for request in requests {
            self.admit(config, request, 0)?;
        }
        let mut ids: Vec<&RequestId> = requests.iter().map(|request| &request.id).collect();
        ids.sort_unstable();
        if ids.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Outcome::DuplicateRequestId);
        }
        if self.in_flight.len() + requests.len() > config.max_in_flight {
            return Err(Outcome::TooManyRequests);
        }
        let asks = !requests.is_empty();
        let full = match self.delivery {
            Delivery::Call => {
                let notes = batch.iter().filter(|message| matches!(message.kind(), MessageKind::Notification(_)));
                let (count, len) = notes.fold((0, 0), |(count, len), note| (count + 1, len + note.raw().len()));
                self.note_calls_are_full(config, count, len)
            }
            Delivery::Inbox => {
                let len = batch.iter().map(|message| message.raw().len()).sum();
                self.inbox.is_full_for(config, if asks { 1 } else { 2 }, batch.len(), len)
            }
        };
        if full { Err(Outcome::InboxFull { request: asks }) } else { Ok(()) }
    }
}
