//! Ids that a client uses again although the child may still answer what they meant before.
//!
//! A session's messages pass as they are, ids included. But a request that was cancelled, or has expired, leaves its id free for
//! the client while the child may have its answer on the way (2025-11-25, cancellation, timing considerations). So a request
//! whose id is such a one gets another name on its way to the child, and its answer and progress get the old one back. What the child then
//! says under the old name is late, and reaches nobody.
//!
//! Owns which ids these are. Does not know what is in flight: that is the session's.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use sessile_core::{Message, MessageKind, Request, RequestId};

use super::launch::Counters;
use super::pump::{Inbox, Outbox};
use super::rewrite::{Member, places, splice};
use crate::app::{Receiver, Sender};

/// Names of ours begin so. A request of the client that begins so gets another one too: it can't meet ours.
const PREFIX: &str = "sessile-";
/// How many ids are remembered until the child answers, and of which length. Beyond either every request gets a name of ours.
const MAX_FORGOTTEN: usize = 1_024;
const MAX_LEN: usize = 256;

/// Both directions of a session.
pub(super) fn wrap(receiver: Receiver, sender: Sender, counters: Arc<Counters>) -> (SessionInbox, SessionOutbox) {
    let names = Arc::<Mutex<Names>>::default();
    (SessionInbox { receiver, names: Arc::clone(&names) }, SessionOutbox { sender, names, counters })
}

/// What the client of a session says.
#[derive(Debug)]
pub(super) struct SessionInbox {
    receiver: Receiver,
    names: Arc<Mutex<Names>>,
}

impl Inbox for SessionInbox {
    async fn recv(&mut self) -> Option<Bytes> {
        let message = self.receiver.recv().await?.message;
        Some(lock(&self.names).towards_child(message))
    }

    async fn ended(&mut self) {
        self.receiver.ended().await;
    }
}

/// What the child of a session says.
#[derive(Debug)]
pub(super) struct SessionOutbox {
    sender: Sender,
    names: Arc<Mutex<Names>>,
    counters: Arc<Counters>,
}

impl Outbox for SessionOutbox {
    fn send(&mut self, message: Message) {
        let message = match lock(&self.names).towards_client(message) {
            Ok(message) => message,
            Err(late) => {
                late.counter(&self.counters).fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        Outbox::send(&mut self.sender, message);
    }

    fn end(&mut self) {
        Outbox::end(&mut self.sender);
    }
}

fn lock(names: &Mutex<Names>) -> MutexGuard<'_, Names> {
    names.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is about a request that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    Note,
    Response,
}

impl Late {
    fn counter(self, counters: &Counters) -> &AtomicU64 {
        match self {
            Self::Note => &counters.notes_dropped,
            Self::Response => &counters.responses_unmatched,
        }
    }
}

/// Which ids mean two things to the child.
#[derive(Debug, Default)]
struct Names {
    /// What the child was told to forget and has not answered.
    forgotten: HashSet<RequestId>,
    /// There is more of that than is remembered.
    all: bool,
    /// Requests that the child knows by a name of ours, by its number, until they are answered or cancelled.
    renamed: HashMap<u64, Renamed>,
    last: u64,
}

/// How the client calls a request, typed and as it wrote it.
#[derive(Debug)]
struct Renamed {
    id: RequestId,
    id_text: Box<str>,
    token: Option<RequestId>,
    token_text: Box<str>,
}

impl Names {
    /// A message of the client, as the child gets to see it.
    fn towards_child(&mut self, message: Message) -> Bytes {
        match message.kind() {
            MessageKind::Request(request) if self.is_taken(&request.id) => self.rename(request, message.raw()),
            MessageKind::Notification(note) if note.method == "notifications/cancelled" => {
                let Some(id) = &note.request_id else { return message.into_raw() };
                let number = self.renamed.iter().find(|(_, renamed)| renamed.id == *id).map(|(number, _)| *number);
                let Some(number) = number else {
                    self.forget(id);
                    return message.into_raw();
                };
                self.renamed.remove(&number);
                replaced(message.raw(), Member::Cancelled, &name(number))
            }
            MessageKind::Notification(_) | MessageKind::Request(_) | MessageKind::Response(_) => message.into_raw(),
        }
    }

    /// A message of the child, as the client gets to see it, if it does.
    fn towards_client(&mut self, message: Message) -> Result<Message, Late> {
        if self.last == 0 && self.forgotten.is_empty() {
            return Ok(message);
        }
        let back = match message.kind() {
            MessageKind::Response(response) => {
                let Some(id) = &response.id else { return Ok(message) };
                self.forgotten.remove(id);
                if !is_ours(id) {
                    // No two requests with one id are in flight, so this answers the one before.
                    let late = self.renamed.values().any(|renamed| renamed.id == *id);
                    return if late { Err(Late::Response) } else { Ok(message) };
                }
                let renamed = number(id).and_then(|number| self.renamed.remove(&number)).ok_or(Late::Response)?;
                replaced(message.raw(), Member::Id, &renamed.id_text)
            }
            MessageKind::Notification(note) if note.method == "notifications/progress" => {
                let Some(token) = &note.progress_token else { return Ok(message) };
                if !is_ours(token) {
                    let late = self.renamed.values().any(|renamed| renamed.token.as_ref() == Some(token));
                    return if late { Err(Late::Note) } else { Ok(message) };
                }
                let renamed = number(token).and_then(|number| self.renamed.get(&number)).ok_or(Late::Note)?;
                replaced(message.raw(), Member::Progress, &renamed.token_text)
            }
            MessageKind::Notification(_) | MessageKind::Request(_) => return Ok(message),
        };
        // It was a message, and names are all that has changed.
        Message::parse(back).or(Ok(message))
    }

    /// Whether the child may take this id for another request's.
    fn is_taken(&self, id: &RequestId) -> bool {
        self.all || is_ours(id) || self.forgotten.contains(id)
    }

    fn forget(&mut self, id: &RequestId) {
        let long = matches!(id, RequestId::String(text) if text.len() > MAX_LEN);
        self.all |= long || self.forgotten.len() >= MAX_FORGOTTEN;
        if self.all {
            self.forgotten = HashSet::new();
        } else {
            self.forgotten.insert(id.clone());
        }
    }

    fn rename(&mut self, request: &Request, raw: &[u8]) -> Bytes {
        self.last += 1;
        let name = name(self.last);
        let mut places = places(raw);
        // What can't be a token is left for the child to refuse.
        let has_token = request.progress_token.is_some();
        places.retain(|place| place.member == Member::Id || has_token && place.member == Member::ProgressToken);
        let text = |member| {
            let place = places.iter().find(|place| place.member == member);
            place.and_then(|place| std::str::from_utf8(&raw[place.at.clone()]).ok()).unwrap_or("null").into()
        };
        let renamed = Renamed {
            id: request.id.clone(),
            id_text: text(Member::Id),
            token: request.progress_token.clone(),
            token_text: text(Member::ProgressToken),
        };
        self.renamed.insert(self.last, renamed);
        splice(raw, places.iter().map(|place| (&place.at, &*name)))
    }
}

/// How the child is to call a request, as JSON.
fn name(number: u64) -> String {
    format!("\"{PREFIX}{number}\"")
}

fn is_ours(id: &RequestId) -> bool {
    matches!(id, RequestId::String(text) if text.starts_with(PREFIX))
}

/// The number in a name of ours.
fn number(id: &RequestId) -> Option<u64> {
    let RequestId::String(text) = id else { return None };
    text.strip_prefix(PREFIX)?.parse().ok()
}

/// The same message with another text for this member.
fn replaced(raw: &[u8], member: Member, text: &str) -> Bytes {
    let places = places(raw);
    splice(raw, places.iter().filter(|place| place.member == member).map(|place| (&place.at, text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Message {
        Message::parse(Bytes::from(text.to_owned())).expect("a message")
    }

    fn text(raw: &[u8]) -> String {
        String::from_utf8(raw.to_vec()).expect("UTF-8")
    }

    impl Names {
        fn tell(&mut self, message: &str) -> String {
            text(&self.towards_child(parse(message)))
        }

        fn hear(&mut self, message: &str) -> Result<String, Late> {
            self.towards_client(parse(message)).map(|message| text(message.raw()))
        }

        /// Nothing is remembered but the ids that were forgotten.
        fn is_at_rest(&self) -> bool {
            self.renamed.is_empty()
        }
    }

    fn request(id: &str, token: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0", "id": {id} ,"method":"tools/call","params":{{"arguments":{{"id":1}},"_meta":{{"progressToken":{token}}}}}}}"#
        )
    }

    fn cancelled(id: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":"x"}}}}"#)
    }

    fn progress(token: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progress":1,"progressToken":{token}}}}}"#
        )
    }

    fn result(id: &str) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"id":7}}}}"#)
    }

    #[test]
    fn messages_pass_as_they_are_until_an_id_is_used_again() {
        let mut names = Names::default();
        for message in [request("1", "1"), request("\"1\"", "2"), cancelled("2"), result("1")] {
            assert_eq!(names.tell(&message), message);
        }
        for message in [result("1"), result("\"1\""), progress("1"), request("1", "1"), cancelled("1"), result("2")] {
            assert_eq!(names.hear(&message), Ok(message.clone()));
        }
        // Answered in the meantime, so that its id means one thing again.
        assert_eq!(names.tell(&request("2", "1")), request("2", "1"));
        assert!(names.is_at_rest() && names.forgotten.is_empty());
    }

    #[test]
    fn a_late_answer_never_passes_for_that_of_a_later_request() {
        for (id, other) in [("1", "\"1\""), ("\"a\\u0062\"", "\"a\"")] {
            let mut names = Names::default();
            names.tell(&request(id, id));
            names.tell(&cancelled(id));
            assert_eq!(names.tell(&request(other, other)), request(other, other), "{id}: it is another id");
            let ours = "\"sessile-1\"";
            assert_eq!(names.tell(&request(id, id)), request(ours, ours));
            // What is late, before and after what is not.
            assert_eq!(names.hear(&progress(id)), Err(Late::Note));
            assert_eq!(names.hear(&result(id)), Err(Late::Response));
            assert_eq!(names.hear(&progress(ours)), Ok(progress(id)));
            assert_eq!(names.hear(&result(other)), Ok(result(other)));
            assert_eq!(names.hear(&result(ours)), Ok(result(id)));
            assert_eq!(names.hear(&result(ours)), Err(Late::Response));
            assert_eq!(names.hear(&progress(ours)), Err(Late::Note));
            assert!(names.is_at_rest() && names.forgotten.is_empty());
        }
    }

    #[test]
    fn a_request_that_was_renamed_can_be_cancelled_and_its_id_used_once_more() {
        let mut names = Names::default();
        names.tell(&cancelled("1"));
        assert_eq!(names.tell(&request("1", "true")), request("\"sessile-1\"", "true"), "that is no token");
        assert_eq!(names.tell(&cancelled("1")), cancelled("\"sessile-1\""));
        assert!(names.is_at_rest());
        assert_eq!(names.tell(&request("1", "5")), request("\"sessile-2\"", "\"sessile-2\""));
        for late in [result("1"), result("\"sessile-1\""), result("\"sessile-3\""), result("\"sessile-\"")] {
            assert_eq!(names.hear(&late), Err(Late::Response), "{late}");
        }
        let error = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":1,"message":"x"}}}}"#);
        assert_eq!(names.hear(&error("null")), Ok(error("null")));
        assert_eq!(names.hear(&error("\"sessile-2\"")), Ok(error("1")));
        assert!(names.is_at_rest());
    }

    #[test]
    fn a_client_that_uses_names_like_ours_meets_nobody() {
        let mut names = Names::default();
        let theirs = "\"sessile-2\"";
        assert_eq!(names.tell(&request(theirs, "1")), request("\"sessile-1\"", "\"sessile-1\""));
        names.tell(&cancelled("1"));
        assert_eq!(names.tell(&request("1", "1")), request(theirs, theirs));
        assert_eq!(names.hear(&result(theirs)), Ok(result("1")));
        assert_eq!(names.hear(&result("\"sessile-1\"")), Ok(result(theirs)));
    }

    #[test]
    fn what_is_remembered_has_a_bound_and_is_safe_beyond_it() {
        let mut names = Names::default();
        (0..MAX_FORGOTTEN).for_each(|id| drop(names.tell(&cancelled(&id.to_string()))));
        assert_eq!(names.tell(&request("-1", "1")), request("-1", "1"));
        names.tell(&cancelled("-2"));
        assert_eq!(names.forgotten.len(), 0);
        assert_ne!(names.tell(&request("-3", "1")), request("-3", "1"));
        assert_eq!(names.hear(&result("-1")), Ok(result("-1")), "it was told before that");
        assert_eq!(names.hear(&result("-3")), Err(Late::Response));

        let mut names = Names::default();
        names.tell(&cancelled(&format!("\"{}\"", "x".repeat(MAX_LEN + 1))));
        assert!(names.all && names.forgotten.is_empty());
    }
}
