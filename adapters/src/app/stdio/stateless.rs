//! One legacy request without a session: a child of its own, which lives as long as the request.
//!
//! Owns the handshake that the client did not make, since a legacy server serves nothing before it:
//!
//! ```text
//!   Ask ──initialize──► Asked ──result──► Greeted ──initialized──► Ready ──the request──► Sent ──its answer──► Done
//!                         └──error: it becomes the answer────────────────────────────────────────────────────────▲
//! ```

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use bytes::Bytes;
use sessile_core::{Message, MessageKind, ProtocolVersion, RequestId, Response};

use super::pump::{Inbox, Outbox};
use super::rewrite::{Member, places, splice};

/// No request of the client is on its way while this one is, so it may be any.
const ID: &str = "sessile-initialize";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Ask,
    Asked,
    Greeted,
    Ready,
    Sent,
    Done,
}

/// What both directions know.
#[derive(Debug)]
struct Shared {
    step: Mutex<Step>,
    request: Message,
    id: RequestId,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Step> {
        self.step.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both directions for one request, made of those of its client. `None` for what is no request.
pub(super) fn wrap<I: Inbox, O: Outbox>(
    request: Message,
    version: ProtocolVersion,
    client: I,
    outbox: O,
) -> Option<(StatelessInbox<I>, StatelessOutbox<O>)> {
    let envelope = request.as_request()?;
    let step = if envelope.initialize.is_some() { Step::Ready } else { Step::Ask };
    let id = envelope.id.clone();
    let shared = Arc::new(Shared { step: Mutex::new(step), request, id });
    Some((StatelessInbox { shared: Arc::clone(&shared), version, client }, StatelessOutbox { shared, outbox }))
}

/// The handshake, the request, and what the client says after it.
#[derive(Debug)]
pub(super) struct StatelessInbox<I> {
    shared: Arc<Shared>,
    version: ProtocolVersion,
    client: I,
}

impl<I: Inbox> StatelessInbox<I> {
    /// What is ours to say.
    fn next(&self) -> Option<Bytes> {
        let mut step = self.shared.lock();
        let (next, message) = match *step {
            Step::Ask => (Step::Asked, initialize(self.version)),
            Step::Greeted => {
                let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
                (Step::Ready, Bytes::from_static(note.as_bytes()))
            }
            Step::Ready => (Step::Sent, self.shared.request.raw().clone()),
            Step::Asked | Step::Sent | Step::Done => return None,
        };
        *step = next;
        Some(message)
    }
}

impl<I: Inbox> Inbox for StatelessInbox<I> {
    async fn recv(&mut self) -> Option<Bytes> {
        if let Some(message) = self.next() {
            return Some(message);
        }
        // The child is heard before each look in here, so a step that it makes is seen without a waker.
        let message = {
            let mut client = pin!(self.client.recv());
            let shared = &self.shared;
            let heard = poll_fn(|cx| match *shared.lock() {
                Step::Done => Poll::Ready(None),
                Step::Greeted => Poll::Ready(Some(None)),
                Step::Ask | Step::Asked | Step::Ready | Step::Sent => {
                    client.as_mut().poll(cx).map(|message| message.map(Some))
                }
            });
            heard.await?
        };
        message.or_else(|| self.next())
    }

    async fn ended(&mut self) {
        let mut client = pin!(self.client.ended());
        let shared = &self.shared;
        poll_fn(|cx| if *shared.lock() == Step::Done { Poll::Ready(()) } else { client.as_mut().poll(cx) }).await;
    }
}

/// What the child says, without what it says to us.
#[derive(Debug)]
pub(super) struct StatelessOutbox<O> {
    shared: Arc<Shared>,
    outbox: O,
}

impl<O: Outbox> Outbox for StatelessOutbox<O> {
    fn send(&mut self, message: Message) {
        let mut step = self.shared.lock();
        let message = match (*step, message.kind()) {
            (Step::Asked, MessageKind::Response(Response { id, is_error })) => {
                let ours = id.as_ref().is_none_or(|id| matches!(id, RequestId::String(id) if **id == *ID));
                match (ours, is_error) {
                    (true, true) => {
                        *step = Step::Done;
                        self.as_answer(&message)
                    }
                    (true, false) => {
                        *step = Step::Greeted;
                        None
                    }
                    (false, _) => None,
                }
            }
            (Step::Sent, MessageKind::Response(Response { id, .. })) => {
                if id.as_ref().is_none_or(|id| *id == self.shared.id) {
                    *step = Step::Done;
                }
                Some(message)
            }
            (_, MessageKind::Response(_)) => None,
            (_, MessageKind::Notification(_) | MessageKind::Request(_)) => Some(message),
        };
        drop(step);
        if let Some(message) = message {
            self.outbox.send(message);
        }
    }

    fn end(&mut self) {
        self.outbox.end();
    }
}

impl<O: Outbox> StatelessOutbox<O> {
    /// The child's refusal to begin, as the answer to the request.
    fn as_answer(&self, refusal: &Message) -> Option<Message> {
        let names = places(refusal.raw());
        let id = self.shared.id.to_json();
        let edits = names.iter().filter(|place| place.member == Member::Id).map(|place| (&place.at, &*id));
        Message::parse(splice(refusal.raw(), edits)).ok()
    }
}

fn initialize(version: ProtocolVersion) -> Bytes {
    let request = serde_json::json!({
        "jsonrpc": "2.0",
        "id": ID,
        "method": "initialize",
        "params": {
            "protocolVersion": version.as_str(),
            "capabilities": {},
            "clientInfo": { "name": "sessile", "version": env!("CARGO_PKG_VERSION") },
        },
    });
    Bytes::from(request.to_string())
}
