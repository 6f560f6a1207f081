//! The requests of strangers in flight on one child, and whom each of its messages is for.
//!
//! Owns their names: a child sees numbers of ours, each given once, as ids and as progress tokens, so that equal names
//! of two clients never meet. A message of the child is for the request that it names; one that names none, or one
//! that is over, reaches nobody, since it could be about somebody else. Pure; knows no child and no lock.
//!
//! Rests on 2026-07-28, basic, transports (stdio), patterns (subscriptions, cancellation, progress).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use sessile_core::{Message, MessageKind, Notification, Request, RequestId, Response};

use super::rewrite::{Member, Place, places, splice};

/// How many cancelled requests are remembered one by one.
const MAX_CANCELLED: usize = 1_024;

/// Gives a message to the client of one request.
pub(super) type Deliver = Arc<dyn Fn(Message) + Send + Sync>;

/// The requests in flight on one child.
#[derive(Debug, Default)]
pub(super) struct Calls {
    last: u64,
    open: BTreeMap<u64, Call>,
    /// Whose clients have gone. The child may not know yet, or not care, and still speak about them.
    cancelled: BTreeSet<u64>,
    /// More were cancelled than are remembered.
    too_many_cancelled: bool,
}

/// A request in flight, with the names that its client gave, as JSON.
struct Call {
    id: Box<str>,
    token: Option<Box<str>>,
    subscribes: bool,
    deliver: Deliver,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call").field("id", &self.id).finish_non_exhaustive()
    }
}

/// What becomes of a message of the child.
pub(super) enum Route {
    /// It goes to a client.
    Deliver {
        to: Deliver,
        message: Message,
        /// It is the answer to the request with this number, which is over once the message has been given.
        answers: Option<u64>,
    },
    /// It is about something that is over, or about nothing that can be told.
    Drop,
    /// An answer to a request that was cancelled or never was.
    Late,
    /// A request of the child, which gets this answer: no server may ask in this era.
    Refuse(Bytes),
}

impl Calls {
    /// Takes a request in: its number, and how the child gets to see it. `None` for what is no request.
    pub(super) fn open(&mut self, message: &Message, deliver: Deliver) -> Option<(u64, Bytes)> {
        let request = message.as_request()?;
        let raw = message.raw();
        self.last += 1;
        let number = self.last.to_string();
        let text = |place: &Place| std::str::from_utf8(&raw[place.at.clone()]).unwrap_or_default();
        let mut call = Call {
            id: request.id.to_json().into(),
            token: None,
            subscribes: request.method == "subscriptions/listen",
            deliver,
        };
        let mut names = places(raw);
        names.retain(|place| match place.member {
            Member::Id => {
                call.id = text(place).into();
                true
            }
            // What can't be a token is left for the child to refuse.
            Member::ProgressToken if may_be_token(text(place)) => {
                call.token = Some(text(place).into());
                true
            }
            Member::Cancelled | Member::Closed | Member::Progress | Member::ProgressToken | Member::Subscription => {
                false
            }
        });
        let renamed = splice(raw, names.iter().map(|place| (&place.at, &*number)));
        self.open.insert(self.last, call);
        Some((self.last, renamed))
    }

    /// The answer to a request was given to its client.
    pub(super) fn finish(&mut self, number: u64) {
        self.open.remove(&number);
        // Its client may have gone in that moment.
        self.cancelled.remove(&number);
    }

    /// Whether this request is still in flight.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Forgets a request that the child has not seen.
    pub(super) fn forget(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// Forgets a request that the child has seen. What to tell it, if the request is in flight.
    pub(super) fn cancel(&mut self, number: u64) -> Option<Bytes> {
        self.open.remove(&number)?;
        if self.cancelled.len() < MAX_CANCELLED {
            self.cancelled.insert(number);
        } else {
            self.too_many_cancelled = true;
        }
        let note =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{number}}}}}"#);
        Some(Bytes::from(note))
    }

    /// Finds out whom a message of the child is for.
    pub(super) fn route(&mut self, message: &Message) -> Route {
        match message.kind() {
            MessageKind::Notification(note) => self.note(note, message.raw()).unwrap_or(Route::Drop),
            MessageKind::Request(request) => Route::Refuse(refusal(request)),
            MessageKind::Response(response) => self.response(response, message.raw()).unwrap_or(Route::Late),
        }
    }

    fn response(&mut self, response: &Response, raw: &[u8]) -> Option<Route> {
        let number = match &response.id {
            Some(id) => number(id)?,
            // An error that says not what it is about.
            None => self.only()?,
        };
        if self.cancelled.remove(&number) {
            return None;
        }
        let call = self.open.get(&number)?;
        let names = places(raw);
        let mine = names.iter().filter(|place| matches!(place.member, Member::Id | Member::Closed));
        let message = renamed(raw, mine.map(|place| (place, &*call.id)))?;
        Some(Route::Deliver { to: Arc::clone(&call.deliver), message, answers: Some(number) })
    }

    fn note(&self, note: &Notification, raw: &[u8]) -> Option<Route> {
        let mut names = places(raw);
        names.retain(|place| match place.member {
            Member::Subscription => true,
            Member::Progress => note.method == "notifications/progress",
            Member::Cancelled => note.method == "notifications/cancelled",
            Member::Closed | Member::Id | Member::ProgressToken => false,
        });
        let mut about = names.iter().map(|place| place_number(raw, place));
        let number = match about.next() {
            Some(first) if about.all(|other| other == first) => first?,
            Some(_) => return None,
            None if names_itself(&note.method) => return None,
            None => self.only()?,
        };
        if note.method == "notifications/cancelled" {
            return self.close(number);
        }
        let call = self.open.get(&number)?;
        let edits = names.iter().map(|place| {
            let text = if place.member == Member::Progress { call.token.as_ref()? } else { &call.id };
            Some((place, &**text))
        });
        let edits = edits.collect::<Option<Vec<_>>>()?;
        Some(Route::Deliver { to: Arc::clone(&call.deliver), message: renamed(raw, edits)?, answers: None })
    }

    /// The child ends a subscription. Over HTTP that is said by the closing result alone.
    fn close(&self, number: u64) -> Option<Route> {
        let Call { id, deliver, .. } = self.open.get(&number).filter(|call| call.subscribes)?;
        let result = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}}}"#
        );
        let message = Message::parse(Bytes::from(result)).ok()?;
        Some(Route::Deliver { to: Arc::clone(deliver), message, answers: Some(number) })
    }

    /// The request that a message without names is about, if the child can be busy with no other.
    fn only(&self) -> Option<u64> {
        let alone = self.open.len() == 1 && self.cancelled.is_empty() && !self.too_many_cancelled;
        self.open.keys().next().copied().filter(|_| alone)
    }
}

/// Whether this JSON is a string or a number.
fn may_be_token(text: &str) -> bool {
    text.starts_with(|first: char| matches!(first, '"' | '-' | '0'..='9'))
}

/// Whether a note of this method is about nothing if it names nothing.
fn names_itself(method: &str) -> bool {
    matches!(method, "notifications/cancelled" | "notifications/progress" | "notifications/subscriptions/acknowledged")
}

fn number(id: &RequestId) -> Option<u64> {
    match id {
        RequestId::Number(number) => u64::try_from(*number).ok(),
        RequestId::String(_) => None,
    }
}

fn place_number(raw: &[u8], place: &Place) -> Option<u64> {
    number(&RequestId::from_json(std::str::from_utf8(&raw[place.at.clone()]).ok()?)?)
}

fn renamed<'a>(raw: &[u8], edits: impl IntoIterator<Item = (&'a Place, &'a str)>) -> Option<Message> {
    Message::parse(splice(raw, edits.into_iter().map(|(place, text)| (&place.at, text)))).ok()
}

fn refusal(request: &Request) -> Bytes {
    crate::app::error_message(&request.id, -32601, "Servers send no requests in this revision")
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    type Heard = Arc<Mutex<Vec<String>>>;

    fn parse(text: &str) -> Message {
        Message::parse(Bytes::from(text.to_owned())).expect("a message")
    }

    fn open(calls: &mut Calls, request: &str) -> (u64, String, Heard) {
        let heard = Heard::default();
        let sink = Arc::clone(&heard);
        let deliver = move |message: Message| {
            let text = String::from_utf8(message.raw().to_vec()).expect("UTF-8");
            sink.lock().expect("no panic").push(text);
        };
        let (number, raw) = calls.open(&parse(request), Arc::new(deliver)).expect("a request");
        (number, String::from_utf8(raw.to_vec()).expect("UTF-8"), heard)
    }

    /// What becomes of a message, in a word; it is delivered if it can be.
    fn say(calls: &mut Calls, message: &str) -> &'static str {
        match calls.route(&parse(message)) {
            Route::Deliver { to, message, answers } => {
                to(message);
                answers.map_or("note", |number| {
                    calls.finish(number);
                    "last"
                })
            }
            Route::Drop => "drop",
            Route::Late => "late",
            Route::Refuse(_) => "refuse",
        }
    }

    fn take(heard: &Heard) -> Vec<String> {
        std::mem::take(&mut *heard.lock().expect("no panic"))
    }

    const CALL: &str = r#"{"jsonrpc":"2.0", "id": "\u0061" ,"method":"tools/call","params":{"_meta":{"progressToken":1.50},"requestId":9,"arguments":{"id":7,"progressToken":8}}}"#;

    #[test]
    fn names_are_ours_towards_the_child_and_the_client_s_towards_the_client() {
        let mut calls = Calls::default();
        let (_, first, one) = open(&mut calls, CALL);
        let expected = CALL.replace(r#""\u0061""#, "1").replace("1.50", "1");
        assert_eq!(first, expected);
        let (_, second, two) = open(&mut calls, CALL);
        assert_eq!(second, CALL.replace(r#""\u0061""#, "2").replace("1.50", "2"));

        let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":1,"progressToken":2,"message":"\u0032"}}"#;
        assert_eq!(say(&mut calls, progress), "note");
        assert_eq!(take(&two), [progress.replace("Token\":2", "Token\":1.50")]);
        let answer = r#"{"jsonrpc":"2.0","result":{"id":1,"n":1e400,"_meta":{"x":1}},"id":1}"#;
        assert_eq!(say(&mut calls, answer), "last");
        assert_eq!(take(&one), [answer.replace(r#""id":1}"#, r#""id":"\u0061"}"#)]);
        assert_eq!(say(&mut calls, answer), "late");
        assert_eq!((take(&one), take(&two)), (vec![], vec![]));
    }

    #[test]
    fn a_subscription_is_named_by_its_client_s_id_to_its_end() {
        let listen = r#"{"jsonrpc":"2.0","id":"s","method":"subscriptions/listen","params":{"_meta":{}}}"#;
        let meta = |id: &str| format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
        for graceful in [true, false] {
            let mut calls = Calls::default();
            let (_, _, one) = open(&mut calls, listen);
            let (_, _, two) = open(&mut calls, listen);
            let note = |id: &str| {
                format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{{{},"uri":"2"}}}}"#,
                    meta(id)
                )
            };
            assert_eq!(say(&mut calls, &note("2")), "note");
            assert_eq!(say(&mut calls, &note("3")), "drop");
            assert_eq!(say(&mut calls, &note("\"2\"")), "drop");
            assert_eq!((take(&one), take(&two)), (vec![], vec![note("\"s\"")]));
            let closed = |id: &str| {
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete",{}}}}}"#, meta(id))
            };
            if graceful {
                assert_eq!(say(&mut calls, &closed("2")), "last");
            } else {
                let cancelled =
                    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"x"}}"#;
                assert_eq!(say(&mut calls, cancelled), "last");
                assert_eq!(say(&mut calls, &closed("2")), "late");
            }
            assert_eq!(take(&two), [closed("\"s\"")]);
            assert!(calls.is_open(1) && !calls.is_open(2));
        }
    }

    #[test]
    fn what_names_nobody_reaches_somebody_only_if_it_can_be_about_nobody_else() {
        let note = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"x"}}"#;
        let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#;
        let mut calls = Calls::default();
        assert_eq!([say(&mut calls, note), say(&mut calls, error)], ["drop", "late"]);
        let (one, _, heard) = open(&mut calls, CALL);
        assert_eq!(say(&mut calls, note), "note");
        assert_eq!(take(&heard), [note]);
        let (two, _, _) = open(&mut calls, CALL);
        assert_eq!([say(&mut calls, note), say(&mut calls, error)], ["drop", "late"]);
        // The child may still be busy with what was cancelled, until it has answered.
        assert!(calls.cancel(two).is_some() && calls.cancel(two).is_none());
        assert_eq!([say(&mut calls, note), say(&mut calls, error)], ["drop", "late"]);
        assert_eq!(say(&mut calls, &format!(r#"{{"jsonrpc":"2.0","id":{two},"result":{{}}}}"#)), "late");
        assert_eq!([say(&mut calls, note), say(&mut calls, error)], ["note", "last"]);
        assert_eq!(take(&heard), [note.to_owned(), error.replace("null", r#""\u0061""#)]);
        assert!(!calls.is_open(one) && calls.is_empty());
    }

    #[test]
    fn what_names_wrongly_reaches_nobody() {
        let mut calls = Calls::default();
        let (_, _, heard) = open(&mut calls, r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#);
        let (_, _, other) = open(&mut calls, CALL);
        for (message, fate) in [
            (r#""method":"notifications/progress","params":{"progressToken":1}"#, "drop"),
            (r#""method":"notifications/progress","params":{"progressToken":"2"}"#, "drop"),
            (r#""method":"notifications/progress","params":{"progressToken":-2}"#, "drop"),
            (r#""method":"notifications/progress","params":{}"#, "drop"),
            (
                r#""method":"notifications/progress","params":{"progressToken":2,"_meta":{"io.modelcontextprotocol/subscriptionId":1}}"#,
                "drop",
            ),
            (r#""method":"notifications/cancelled","params":{"requestId":1}"#, "drop"),
            (r#""method":"notifications/cancelled""#, "drop"),
            (r#""id":3,"result":{}"#, "late"),
            (r#""id":"1","result":{}"#, "late"),
            (r#""id":1,"method":"roots/list""#, "refuse"),
        ] {
            assert_eq!(say(&mut calls, &format!(r#"{{"jsonrpc":"2.0",{message}}}"#)), fate, "{message}");
        }
        assert_eq!((take(&heard), take(&other)), (vec![], vec![]));
    }
}
