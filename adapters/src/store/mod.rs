//! Stores for the events of sessions, so that clients can resume what no longer has to be in memory.
//!
//! Owns what a store is asked and what it may answer. When it is asked, what is done when it fails, and what an answer means is decided
//! in the core ([`sessile_core::session::StoreRequest`]); that it is asked, for one session in order, is the manager's.
//!
//! A store of your own, given to [`Builder::event_store`](crate::Builder::event_store):
//!
//! ```
//! use std::collections::{BTreeMap, HashMap};
//! use std::sync::Mutex;
//!
//! use sessile::store::{EventStore, Range, SessionName, StoreError, StoredEvent};
//!
//! /// Keeps everything until it is told to forget it.
//! #[derive(Default)]
//! struct Shelf(Mutex<HashMap<SessionName, HashMap<u64, BTreeMap<u64, StoredEvent>>>>);
//!
//! impl EventStore for Shelf {
//!     async fn append(&self, session: &SessionName, stream: u64, events: Vec<StoredEvent>) -> Result<(), StoreError> {
//!         let mut shelf = self.0.lock().map_err(|error| StoreError::failed(error.to_string()))?;
//!         let kept = shelf.entry(session.clone()).or_default().entry(stream).or_default();
//!         kept.extend(events.into_iter().map(|event| (event.sequence.get(), event)));
//!         Ok(())
//!     }
//!
//!     async fn read(&self, session: &SessionName, range: Range) -> Result<Vec<StoredEvent>, StoreError> {
//!         let shelf = self.0.lock().map_err(|error| StoreError::failed(error.to_string()))?;
//!         let stream = shelf.get(session).and_then(|streams| streams.get(&range.stream));
//!         let Some(stream) = stream else { return Ok(Vec::new()) };
//!         Ok(range.cut(stream.range(range.after + 1..=range.through).map(|(_, event)| event)))
//!     }
//!
//!     async fn forget(&self, session: &SessionName, stream: Option<u64>) -> Result<(), StoreError> {
//!         let mut shelf = self.0.lock().map_err(|error| StoreError::failed(error.to_string()))?;
//!         match stream {
//!             Some(stream) => drop(shelf.get_mut(session).and_then(|streams| streams.remove(&stream))),
//!             None => drop(shelf.remove(session)),
//!         }
//!         Ok(())
//!     }
//! }
//! ```

mod memory;

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use memory::{Memory, MemoryLimits};
use sessile_core::Fingerprint;
pub use sessile_core::session::StoredEvent;

/// Keeps the events of sessions for those who resume their streams.
///
/// An event is offered before its client gets it, and a client waits for its events no longer than
/// [`store_timeout`](sessile_core::config::SessionConfig::store_timeout): a store that fails, panics or is slow costs clients the
/// resumption of what it does not have, and nothing else. Within one session it is asked for one thing after another, in order; what takes
/// too long is dropped, which is the only way in which a future is not polled to its end.
///
/// How long events are kept that nobody has told it to forget is the store's own affair: when the process ends, or a request to
/// forget fails, nobody asks again. So it should have an age of its own, longer than clients stay away.
pub trait EventStore: Send + Sync + 'static {
    /// Keeps the next events of a stream, at least one, in order. The numbers in one call are contiguous. There may be a gap
    /// between two calls, after one that has failed; nobody reads across it.
    ///
    /// # Errors
    ///
    /// If it can't say that all of them are kept. Those that are do no harm.
    fn append(
        &self,
        session: &SessionName,
        stream: u64,
        events: Vec<StoredEvent>,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Gives back events, from the one right after `range.after` on, without a gap and within the limits of the range; none if that
    /// first one is not there. [`Range::cut`] does it.
    ///
    /// What is wrong with an answer is noticed, and then it is a failure.
    ///
    /// # Errors
    ///
    /// If it can't say what is there.
    fn read(
        &self,
        session: &SessionName,
        range: Range,
    ) -> impl Future<Output = Result<Vec<StoredEvent>, StoreError>> + Send;

    /// Nothing of this stream, or with `None` of the whole session, is needed any more.
    ///
    /// # Errors
    ///
    /// If it was not forgotten. It is not asked again.
    fn forget(&self, session: &SessionName, stream: Option<u64>)
    -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// Which events are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Range {
    /// The number of the stream in its session; 0 is the one that GET serves.
    pub stream: u64,
    /// The first event to give is the one right after this; 0 is before all.
    pub after: u64,
    /// The last that may be given.
    pub through: u64,
    /// How many may be given, at most.
    pub max_count: usize,
    /// How many bytes of data they may have together, one of any size excepted.
    pub max_bytes: usize,
}

impl Range {
    /// All of a stream from one event to another, both included.
    #[must_use]
    pub const fn new(stream: u64, after: u64, through: u64, max_count: usize, max_bytes: usize) -> Self {
        Self { stream, after, through, max_count, max_bytes }
    }

    /// As many of these as may be given: they are what the store has after `after`, in order, and what follows a gap is left out.
    pub fn cut<'a>(&self, events: impl IntoIterator<Item = &'a StoredEvent>) -> Vec<StoredEvent> {
        let mut found: Vec<StoredEvent> = Vec::new();
        let mut bytes = 0;
        let sequences = (self.after..self.through).map(|before| before + 1);
        for (event, sequence) in events.into_iter().zip(sequences).take(self.max_count) {
            bytes += event.data.len();
            if event.sequence.get() != sequence || (!found.is_empty() && bytes > self.max_bytes) {
                break;
            }
            found.push(event.clone());
        }
        found
    }
}

/// Names a session to a store: unique, and the same as long as the session lives. It is random, and not the session's id: whoever reads
/// it in a store can't use the session.
///
/// `Debug` shows the session's fingerprint, as logs do.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SessionName {
    name: [u8; 16],
    fingerprint: Fingerprint,
}

impl SessionName {
    pub(crate) const fn new(name: [u8; 16], fingerprint: Fingerprint) -> Self {
        Self { name, fingerprint }
    }

    /// The name: 128 bits.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.name
    }
}

impl fmt::Debug for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionName({})", self.fingerprint)
    }
}

/// Why a store has not done what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// It says so.
    #[error("the store failed: {0}")]
    Failed(#[source] Box<dyn Error + Send + Sync>),
    /// It panicked.
    #[error("the store panicked")]
    Panicked,
}

impl StoreError {
    /// A failure of this kind, or with these words.
    pub fn failed(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Failed(error.into())
    }
}

/// What a store will say.
pub(crate) type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A store of any type, so that a manager needs no parameter for it. Nothing of it runs before it is polled, where a panic is caught.
pub(crate) trait AnyStore: Send + Sync {
    fn append<'a>(&'a self, session: &'a SessionName, stream: u64, events: Vec<StoredEvent>) -> Answer<'a, ()>;
    fn read<'a>(&'a self, session: &'a SessionName, range: Range) -> Answer<'a, Vec<StoredEvent>>;
    fn forget<'a>(&'a self, session: &'a SessionName, stream: Option<u64>) -> Answer<'a, ()>;
}

impl fmt::Debug for dyn AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EventStore")
    }
}

impl<E: EventStore> AnyStore for E {
    fn append<'a>(&'a self, session: &'a SessionName, stream: u64, events: Vec<StoredEvent>) -> Answer<'a, ()> {
        Box::pin(async move { EventStore::append(self, session, stream, events).await })
    }

    fn read<'a>(&'a self, session: &'a SessionName, range: Range) -> Answer<'a, Vec<StoredEvent>> {
        Box::pin(async move { EventStore::read(self, session, range).await })
    }

    fn forget<'a>(&'a self, session: &'a SessionName, stream: Option<u64>) -> Answer<'a, ()> {
        Box::pin(async move { EventStore::forget(self, session, stream).await })
    }
}

/// A store that others hold as well, to look into it.
impl<E: EventStore> EventStore for Arc<E> {
    async fn append(&self, session: &SessionName, stream: u64, events: Vec<StoredEvent>) -> Result<(), StoreError> {
        (**self).append(session, stream, events).await
    }

    async fn read(&self, session: &SessionName, range: Range) -> Result<Vec<StoredEvent>, StoreError> {
        (**self).read(session, range).await
    }

    async fn forget(&self, session: &SessionName, stream: Option<u64>) -> Result<(), StoreError> {
        (**self).forget(session, stream).await
    }
}
