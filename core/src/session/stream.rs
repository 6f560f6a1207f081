//! The streams of a session: request streams and the standalone one.
//!
//! Owns their parts: the log, who reads it, and which requests it will answer. What is pushed into which stream
//! is decided in `app`, when a reader gets something in `reader`.

use std::time::Duration;

use crate::config::ResponseMode;
use crate::id::RequestId;
use crate::outcome::Outcome;
use crate::session::log::Log;
use crate::session::outside::Wish;
use crate::slab::Key;
use crate::time::Timestamp;

/// The handle of a request of the client that is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey {
    pub(super) stream: Key,
    pub(super) position: u32,
}

/// The handle of one connection that reads a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionKey {
    pub(super) place: Place,
    /// Tells the connections of one stream apart.
    pub(super) attached: u32,
}

/// Which stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Place {
    Request(Key),
    Standalone,
}

/// A stream born of a POST. It carries the answers to one or more requests and ends after the last of them.
#[derive(Debug)]
pub(super) struct RequestStream {
    /// Whether it answers `initialize`.
    pub(super) initialize: bool,
    /// Whether its requests came in an array, so that one JSON body is one too.
    pub(super) batch: bool,
    pub(super) log: Log,
    pub(super) members: Members,
    /// How many of them have no answer yet.
    pub(super) open: u32,
    pub(super) reader: Option<Reader>,
    pub(super) attached: u32,
    /// The last number that a connection has got, be it one that still waits to read.
    pub(super) issued: u32,
    /// Its number in event ids, once it has given one out; 0 before.
    pub(super) number: u64,
    /// Whether any of its requests was answered, be it with an error of ours.
    pub(super) answered: bool,
    /// Since when no connection reads it, while requests of it are open.
    pub(super) detached: Option<Timestamp>,
    /// The server ends the connection, so that the client comes back for the rest.
    pub(super) pause: Option<Pause>,
    /// Why a head that is still held becomes an error. Boxed, since there is hardly ever one.
    pub(super) refusal: Option<Box<Outcome>>,
}

/// The connection that reads a request stream.
#[derive(Debug)]
pub(super) enum Reader {
    /// Its head has not left: JSON, a stream or an error are still to be chosen.
    Held { mode: ResponseMode, until: Option<Timestamp> },
    /// Events are on their way, `since` the head left. `begun`: the first byte has been written. `moved`: when it last read, or what
    /// it has not read began to wait.
    Streaming { begun: bool, since: Timestamp, moved: Timestamp },
}

/// How the server ends a connection before the stream's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pause {
    /// Whether what waits is left for the next connection.
    pub(super) at_once: bool,
    /// When the client should come back, in milliseconds.
    retry: u32,
}

impl Pause {
    pub(super) fn new(retry: Duration) -> Self {
        Self { at_once: false, retry: u32::try_from(retry.as_millis()).unwrap_or(u32::MAX) }
    }

    pub(super) fn at_once(retry: Duration) -> Self {
        Self { at_once: true, ..Self::new(retry) }
    }

    pub(super) const fn retry(self) -> Duration {
        Duration::from_millis(self.retry as u64)
    }
}

/// The requests of one stream. The first is stored in place, since there is hardly ever a second.
#[derive(Debug)]
pub(super) struct Members {
    first: Member,
    more: Vec<Member>,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: RequestId,
    pub(super) token: Option<RequestId>,
    pub(super) open: bool,
    /// What it asks to be told of.
    pub(super) wish: Option<Box<Wish>>,
    /// Orders the requests of a session by arrival.
    pub(super) serial: u64,
    pub(super) since: Timestamp,
    /// When the app last said something about it.
    pub(super) spoken: Timestamp,
}

impl Members {
    /// `None` if there are none.
    pub(super) fn new(mut members: impl Iterator<Item = Member>) -> Option<Self> {
        let first = members.next()?;
        Some(Self { first, more: members.collect() })
    }

    pub(super) fn len(&self) -> u32 {
        1 + u32::try_from(self.more.len()).unwrap_or(u32::MAX - 1)
    }

    pub(super) fn get(&self, position: u32) -> Option<&Member> {
        self.iter().nth(position as usize)
    }

    pub(super) fn get_mut(&mut self, position: u32) -> Option<&mut Member> {
        self.iter_mut().nth(position as usize)
    }

    /// The handles of the requests of the stream `stream`, whose members these are.
    pub(super) fn keys(&self, stream: Key) -> impl Iterator<Item = RequestKey> + use<> {
        (0..self.len()).map(move |position| RequestKey { stream, position })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Member> {
        std::iter::once(&self.first).chain(&self.more)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        std::iter::once(&mut self.first).chain(&mut self.more)
    }
}

impl RequestStream {
    pub(super) const fn is_json(&self) -> bool {
        matches!(self.reader, Some(Reader::Held { mode: ResponseMode::Json, .. }))
    }

    /// The connection that reads it.
    pub(super) fn connection(&self, key: Key) -> Option<ConnectionKey> {
        let place = Place::Request(key);
        self.reader.as_ref().map(|_| ConnectionKey { place, attached: self.attached })
    }

    /// A number for a new connection.
    pub(super) fn issue(&mut self) -> u32 {
        self.issued = self.issued.wrapping_add(1);
        self.issued
    }

    /// Whether its client knows of an event of it, after which it can be resumed.
    pub(super) const fn is_known(&self) -> bool {
        self.log.given() > 0
    }

    /// Whether what is pushed now, and is a response, can still reach the client.
    pub(super) const fn has_reader(&self) -> bool {
        self.reader.is_some() || self.is_known()
    }

    /// Whether what is pushed now, and is no response, can still reach the client.
    pub(super) const fn has_wire(&self) -> bool {
        self.open > 0 && self.has_reader() && !self.is_json()
    }
}

/// The stream that GET serves. It lives as long as the session.
#[derive(Debug, Default)]
pub(super) struct Standalone {
    pub(super) log: Log,
    /// The connections that read it, oldest first; the newest gets the messages.
    pub(super) readers: Vec<StandaloneReader>,
    pub(super) attached: u32,
}

#[derive(Debug)]
pub(super) struct StandaloneReader {
    pub(super) attached: u32,
    pub(super) begun: bool,
    /// When it last read, or what it has not read began to wait.
    pub(super) moved: Timestamp,
    /// It has come with the id of an event, and needs none to begin with.
    pub(super) resumed: bool,
    /// It is to end, the one that carries the messages after those in the log.
    pub(super) closing: Option<Closing>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// The session is over.
    Final,
    /// The client should come back after this time.
    Retry(Duration),
}

impl Standalone {
    /// The connection that gets the messages: the newest.
    pub(super) fn carrier(&self) -> Option<ConnectionKey> {
        self.readers.last().map(|reader| ConnectionKey { place: Place::Standalone, attached: reader.attached })
    }
}
