//! Notes from outside of any call, and who wants to hear of what they say.
//!
//! Owns what a subscription was promised, which is what its app has acknowledged (2026-07-28, subscriptions), and the resources that
//! the client of a session has subscribed to (2025-11-25, resources, subscriptions). Does not own whether an app answers either.

use std::fmt;

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::config::SessionConfig;
use crate::id::RequestId;
use crate::message::Request;
use crate::session::stream::{Place, RequestKey};
use crate::session::{Kind, Phase, Session};
use crate::slab::Key;
use crate::time::Timestamp;

/// A notification that belongs to no request: written once, for any number of sessions and subscriptions.
#[derive(Clone, Debug)]
pub struct OutsideNote {
    topic: Topic,
    /// As sessions get it.
    raw: Bytes,
    /// As subscriptions get it, up to the id of each.
    tagged: Box<str>,
}

/// What a note is about.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Topic {
    Prompts,
    Resource(Box<str>),
    Resources,
    Tools,
    /// Something that nobody subscribes to.
    Other,
}

/// A note that can't be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum OutsideNoteError {
    /// The parameters can't be written as JSON.
    Json(serde_json::Error),
    /// They are neither an object nor null.
    NotAnObject,
}

impl fmt::Display for OutsideNoteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "the parameters can't be written as JSON: {error}"),
            Self::NotAnObject => f.write_str("the parameters of a notification are an object, or there are none"),
        }
    }
}

impl std::error::Error for OutsideNoteError {}

const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";

impl OutsideNote {
    /// Writes a note. Parameters that are null are left out.
    ///
    /// # Errors
    ///
    /// If the parameters are no JSON object.
    pub fn new<T: Serialize + ?Sized>(method: &str, params: &T) -> Result<Self, OutsideNoteError> {
        let params = match serde_json::to_value(params).map_err(OutsideNoteError::Json)? {
            Value::Null => None,
            Value::Object(params) => Some(params),
            Value::Array(_) | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                return Err(OutsideNoteError::NotAnObject);
            }
        };
        // Strings and values always serialize.
        let name = serde_json::to_string(method).unwrap_or_default();
        let raw = match &params {
            Some(params) => {
                let params = serde_json::to_string(params).map_err(OutsideNoteError::Json)?;
                format!(r#"{{"jsonrpc":"2.0","method":{name},"params":{params}}}"#)
            }
            None => format!(r#"{{"jsonrpc":"2.0","method":{name}}}"#),
        };
        let mut params = params.unwrap_or_default();
        let topic = Topic::of(method, &params);
        let mut meta = match params.remove("_meta") {
            Some(Value::Object(meta)) => meta,
            Some(_) | None => Map::new(),
        };
        meta.remove(SUBSCRIPTION_ID);
        let tagged = format!(
            r#"{{"jsonrpc":"2.0","method":{name},"params":{{{}"_meta":{{{}"{SUBSCRIPTION_ID}":"#,
            members(&params),
            members(&meta)
        );
        Ok(Self { topic, raw: raw.into(), tagged: tagged.into() })
    }

    /// As the subscription with this id gets it.
    pub(super) fn tagged(&self, id: &RequestId) -> Bytes {
        format!("{}{}}}}}}}", self.tagged, id.to_json()).into()
    }
}

/// The members of an object, to be followed by another.
fn members(object: &Map<String, Value>) -> String {
    let text = serde_json::to_string(object).unwrap_or_default();
    match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        None | Some("") => String::new(),
        Some(members) => format!("{members},"),
    }
}

impl Topic {
    fn of(method: &str, params: &Map<String, Value>) -> Self {
        match method {
            "notifications/prompts/list_changed" => Self::Prompts,
            "notifications/resources/list_changed" => Self::Resources,
            "notifications/resources/updated" => match params.get("uri") {
                Some(Value::String(uri)) => Self::Resource(uri.as_str().into()),
                Some(_) | None => Self::Other,
            },
            "notifications/tools/list_changed" => Self::Tools,
            _ => Self::Other,
        }
    }
}

/// What a request of the client asks to be told of.
#[derive(Debug)]
pub(super) enum Wish {
    /// `subscriptions/listen`, with what its app has acknowledged of it.
    Listen(Option<Filter>),
    /// `resources/subscribe`.
    Subscribe(Box<str>),
    /// `resources/unsubscribe`.
    Unsubscribe(Box<str>),
}

impl Wish {
    pub(super) fn of(request: &Request) -> Option<Box<Self>> {
        let wish = match (&*request.method, &request.resource) {
            _ if request.is_subscription() => Self::Listen(None),
            ("resources/subscribe", Some(uri)) => Self::Subscribe(uri.clone()),
            ("resources/unsubscribe", Some(uri)) => Self::Unsubscribe(uri.clone()),
            _ => return None,
        };
        Some(Box::new(wish))
    }
}

/// What a subscription was promised.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Filter {
    prompts_list_changed: bool,
    resource_subscriptions: Vec<Box<str>>,
    resources_list_changed: bool,
    tools_list_changed: bool,
}

impl Filter {
    /// Reads an acknowledgement. `None` if it is none.
    fn read(note: &[u8]) -> Option<Self> {
        #[derive(Deserialize)]
        struct Note {
            method: String,
            params: Params,
        }
        #[derive(Deserialize)]
        struct Params {
            notifications: Filter,
        }
        let Note { method, params } = serde_json::from_slice(note).ok()?;
        (method == "notifications/subscriptions/acknowledged").then_some(params.notifications)
    }

    fn has(&self, topic: &Topic) -> bool {
        match topic {
            Topic::Prompts => self.prompts_list_changed,
            Topic::Resource(uri) => self.resource_subscriptions.contains(uri),
            Topic::Resources => self.resources_list_changed,
            Topic::Tools => self.tools_list_changed,
            Topic::Other => false,
        }
    }
}

/// The resources that the client of a session has subscribed to.
#[derive(Debug, Default)]
pub(super) struct Resources {
    uris: Vec<Box<str>>,
    /// There were too many to remember, so that it is told of every resource.
    all: bool,
}

/// A longer URI is one too many.
const MAX_URI: usize = 4 << 10;

impl Resources {
    fn add(&mut self, config: &SessionConfig, uri: Box<str>) {
        if self.all || self.uris.contains(&uri) {
            return;
        }
        if self.uris.len() >= config.max_resource_subscriptions || uri.len() > MAX_URI {
            *self = Self { uris: Vec::new(), all: true };
        } else {
            self.uris.push(uri);
        }
    }

    fn remove(&mut self, uri: &str) {
        self.uris.retain(|known| **known != *uri);
    }

    fn has(&self, uri: &str) -> bool {
        self.all || self.uris.iter().any(|known| **known == *uri)
    }
}

impl<X> Session<X> {
    /// A note from outside of any call, for a client that wants to hear of it. Whether it is on its way.
    ///
    /// A session hears of it on its standalone stream, where it waits as other notes do; of a resource that was updated only if its client
    /// has subscribed to that very URI, and nothing before `initialize` was answered. In the modern era a subscription hears of what
    /// was acknowledged, and of nothing else. A request of that era that is no subscription, and one of the legacy era without a
    /// session, hear nothing.
    pub fn push_outside_note(&mut self, now: Timestamp, config: &SessionConfig, note: &OutsideNote) -> bool {
        match self.kind {
            _ if self.phase != Phase::Open => false,
            Kind::Session if self.wants(&note.topic) => {
                self.push_note(now, config, Place::Standalone, note.raw.clone())
            }
            Kind::Modern => {
                let mut sent = false;
                for (key, id) in self.listening(&note.topic) {
                    sent |= self.push_note(now, config, Place::Request(key.stream), note.tagged(&id));
                }
                sent
            }
            Kind::Session | Kind::Stateless => false,
        }
    }

    fn wants(&self, topic: &Topic) -> bool {
        match topic {
            Topic::Resource(uri) => self.resources.as_ref().is_some_and(|resources| resources.has(uri)),
            Topic::Prompts | Topic::Resources | Topic::Tools | Topic::Other => true,
        }
    }

    fn listening(&self, topic: &Topic) -> Vec<(RequestKey, RequestId)> {
        let listens = |key: &RequestKey| {
            let wish = self.member(*key).and_then(|member| member.wish.as_deref());
            matches!(wish, Some(Wish::Listen(Some(filter))) if filter.has(topic))
        };
        self.in_flight.iter().filter(|(_, key)| listens(key)).map(|(id, key)| (*key, id.clone())).collect()
    }

    /// A note of the app goes to this stream: it may be the word that a subscription waits for, which comes before all others.
    pub(super) fn hear_promise(&mut self, stream: Key, note: &[u8]) {
        if self.kind != Kind::Modern {
            return;
        }
        let Some(stream) = self.streams.get_mut(stream) else { return };
        for member in stream.members.iter_mut() {
            if let Some(Wish::Listen(promised @ None)) = member.wish.as_deref_mut() {
                *promised = Filter::read(note);
            }
        }
    }

    /// The app answers a request, which may have been a wish.
    pub(super) fn grant(&mut self, config: &SessionConfig, key: RequestKey, answer: &[u8]) {
        #[derive(Deserialize)]
        struct Answer {
            result: Option<IgnoredAny>,
        }
        let member = self.streams.get_mut(key.stream).and_then(|stream| stream.members.get_mut(key.position));
        let Some(wish) = member.and_then(|member| member.wish.take()) else { return };
        let granted = || serde_json::from_slice::<Answer>(answer).is_ok_and(|answer| answer.result.is_some());
        match *wish {
            Wish::Subscribe(uri) if granted() => self.resources.get_or_insert_default().add(config, uri),
            Wish::Unsubscribe(uri) if granted() => {
                if let Some(resources) = &mut self.resources {
                    resources.remove(&uri);
                }
            }
            Wish::Listen(_) | Wish::Subscribe(_) | Wish::Unsubscribe(_) => {}
        }
    }
}
