//! Events in this process's memory, within one bound for all sessions.
//!
//! Owns what goes when there is too much: the oldest events, whoever's they are. Does not outlive the process; it is for a host with
//! many sessions of which few are resumed, and an example of a store.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sessile_core::Timestamp;

use super::{EventStore, Range, SessionName, StoreError, StoredEvent};
use crate::clock::{Clock, RuntimeClock};
use crate::runtime::Runtime;

/// What an event costs beside its data.
const OVERHEAD: usize = 128;

/// How much a [`Memory`] keeps.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct MemoryLimits {
    /// How long an event is kept. Default: 5 min.
    pub age: Duration,
    /// How many bytes all events have together, each with 128 for its keep. Default: 64 MiB.
    pub bytes: usize,
    /// How many events there are. Default: 65,536.
    pub count: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { age: Duration::from_secs(5 * 60), bytes: 64 << 20, count: 1 << 16 }
    }
}

/// A store in this process, of a bounded size: beyond a limit the oldest events go, of whichever session.
pub struct Memory {
    clock: Arc<dyn Clock>,
    limits: MemoryLimits,
    shelves: Mutex<Shelves>,
}

#[derive(Default)]
struct Shelves {
    sessions: HashMap<SessionName, HashMap<u64, VecDeque<StoredEvent>>>,
    /// What came when, oldest first; with entries of what was forgotten since.
    arrivals: VecDeque<Arrival>,
    count: usize,
    bytes: usize,
}

struct Arrival {
    session: SessionName,
    stream: u64,
    sequence: u64,
    at: Timestamp,
}

impl Memory {
    /// An empty store that takes the time from this runtime.
    pub fn new<R: Runtime>(runtime: R, limits: MemoryLimits) -> Self {
        Self { clock: Arc::new(RuntimeClock(runtime)), limits, shelves: Mutex::default() }
    }

    /// How many events there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventStore for Memory {
    async fn append(&self, session: &SessionName, stream: u64, events: Vec<StoredEvent>) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut shelves = self.lock();
        for event in events {
            shelves.put(session, stream, event, now);
        }
        shelves.bound(&self.limits, now);
        Ok(())
    }

    async fn read(&self, session: &SessionName, range: Range) -> Result<Vec<StoredEvent>, StoreError> {
        let mut shelves = self.lock();
        shelves.bound(&self.limits, self.clock.now());
        let Some(events) = shelves.sessions.get(session).and_then(|streams| streams.get(&range.stream)) else {
            return Ok(Vec::new());
        };
        let start = events.partition_point(|event| event.sequence.get() <= range.after);
        Ok(range.cut(events.range(start..)))
    }

    async fn forget(&self, session: &SessionName, stream: Option<u64>) -> Result<(), StoreError> {
        let mut shelves = self.lock();
        match stream {
            Some(stream) => shelves.forget(session, stream),
            None => {
                for events in shelves.sessions.remove(session).unwrap_or_default().into_values() {
                    shelves.uncount(&events);
                }
            }
        }
        shelves.tidy();
        Ok(())
    }
}

impl Shelves {
    /// An event out of turn is not kept: an append that was given up has come late.
    fn put(&mut self, session: &SessionName, stream: u64, event: StoredEvent, now: Timestamp) {
        let sequence = event.sequence.get();
        let events = self.sessions.entry(session.clone()).or_default().entry(stream).or_default();
        if events.back().is_some_and(|last| last.sequence.get() >= sequence) {
            return;
        }
        self.count += 1;
        self.bytes += event.data.len() + OVERHEAD;
        events.push_back(event);
        self.arrivals.push_back(Arrival { session: session.clone(), stream, sequence, at: now });
    }

    /// Drops the oldest while there is too much.
    fn bound(&mut self, limits: &MemoryLimits, now: Timestamp) {
        while let Some(oldest) = self.arrivals.front()
            && (self.count > limits.count || self.bytes > limits.bytes || oldest.at.saturating_add(limits.age) <= now)
            && let Some(Arrival { session, stream, sequence, .. }) = self.arrivals.pop_front()
        {
            let Some(streams) = self.sessions.get_mut(&session) else { continue };
            let Some(events) = streams.get_mut(&stream) else { continue };
            if events.front().is_none_or(|event| event.sequence.get() != sequence) {
                continue;
            }
            let Some(event) = events.pop_front() else { continue };
            self.count -= 1;
            self.bytes -= event.data.len() + OVERHEAD;
            if events.is_empty() {
                streams.remove(&stream);
            }
            if streams.is_empty() {
                self.sessions.remove(&session);
            }
        }
    }

    fn forget(&mut self, session: &SessionName, stream: u64) {
        let Some(streams) = self.sessions.get_mut(session) else { return };
        let events = streams.remove(&stream).unwrap_or_default();
        if streams.is_empty() {
            self.sessions.remove(session);
        }
        self.uncount(&events);
    }

    fn uncount(&mut self, events: &VecDeque<StoredEvent>) {
        self.count -= events.len();
        self.bytes -= events.iter().map(|event| event.data.len() + OVERHEAD).sum::<usize>();
    }

    /// Drops what is said of events that are gone, once it is the most.
    fn tidy(&mut self) {
        if self.arrivals.len() <= 2 * self.count + 64 {
            return;
        }
        let sessions = &self.sessions;
        self.arrivals.retain(|arrival| {
            let events = sessions.get(&arrival.session).and_then(|streams| streams.get(&arrival.stream));
            events.is_some_and(|events| events.front().is_some_and(|first| first.sequence.get() <= arrival.sequence))
        });
        self.arrivals.shrink_to_fit();
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("limits", &self.limits).field("len", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::num::NonZeroU64;
    use std::pin::{Pin, pin};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Poll, Waker};

    use bytes::Bytes;
    use sessile_core::{FingerprintKey, SessionId};

    use super::*;

    /// A clock that stands still until it is set.
    #[derive(Default)]
    struct Standing(AtomicU64);

    impl Clock for Standing {
        fn now(&self) -> Timestamp {
            Timestamp::from_secs(self.0.load(Ordering::Relaxed))
        }

        fn sleep_until(&self, _: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send>> {
            Box::pin(std::future::pending())
        }

        fn spawn(&self, _: Pin<Box<dyn Future<Output = ()> + Send>>) {}
    }

    /// This store never waits.
    fn now<F: Future>(future: F) -> F::Output {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("it waits"),
        }
    }

    fn name(byte: u8) -> SessionName {
        let key = FingerprintKey::from_bytes([0; 16]);
        SessionName::new([byte; 16], key.fingerprint(&SessionId::from_bytes([byte; 16])))
    }

    fn store(limits: MemoryLimits) -> (Memory, Arc<Standing>) {
        let clock = Arc::new(Standing::default());
        (Memory { clock: clock.clone(), limits, shelves: Mutex::default() }, clock)
    }

    fn append(store: &Memory, session: u8, stream: u64, sequences: std::ops::RangeInclusive<u64>) {
        let event = |sequence| StoredEvent {
            sequence: NonZeroU64::new(sequence).expect("events are counted from 1"),
            data: Bytes::from(vec![b'x'; 72]),
        };
        now(EventStore::append(store, &name(session), stream, sequences.map(event).collect())).expect("kept");
    }

    fn read(store: &Memory, session: u8, stream: u64, after: u64) -> Vec<u64> {
        let range = Range::new(stream, after, 100, 10, 10_000);
        let found = now(EventStore::read(store, &name(session), range)).expect("said");
        found.iter().map(|event| event.sequence.get()).collect()
    }

    #[test]
    fn each_session_and_stream_has_its_own_events() {
        let (store, _) = store(MemoryLimits::default());
        append(&store, 1, 0, 1..=3);
        append(&store, 1, 7, 1..=2);
        append(&store, 2, 0, 1..=1);
        assert_eq!(read(&store, 1, 0, 1), [2, 3]);
        assert_eq!(read(&store, 1, 7, 0), [1, 2]);
        assert_eq!(read(&store, 2, 0, 0), [1]);
        assert_eq!((read(&store, 2, 7, 0), read(&store, 3, 0, 0), store.len()), (vec![], vec![], 6));
    }

    #[test]
    fn beyond_a_limit_the_oldest_events_of_all_go() {
        for limits in [
            MemoryLimits { count: 4, ..MemoryLimits::default() },
            MemoryLimits { bytes: 4 * (72 + OVERHEAD), ..MemoryLimits::default() },
        ] {
            let (store, _) = store(limits);
            append(&store, 1, 0, 1..=3);
            append(&store, 2, 0, 1..=3);
            assert_eq!(store.len(), 4);
            assert_eq!(
                (read(&store, 1, 0, 0), read(&store, 1, 0, 2)),
                (vec![], vec![3]),
                "what is gone is not skipped"
            );
            assert_eq!(read(&store, 2, 0, 0), [1, 2, 3]);
        }
    }

    #[test]
    fn events_grow_old() {
        let (store, clock) = store(MemoryLimits { age: Duration::from_secs(10), ..MemoryLimits::default() });
        append(&store, 1, 0, 1..=1);
        clock.0.store(9, Ordering::Relaxed);
        append(&store, 1, 0, 2..=2);
        assert_eq!(read(&store, 1, 0, 0), [1, 2]);
        clock.0.store(10, Ordering::Relaxed);
        assert_eq!((read(&store, 1, 0, 0), read(&store, 1, 0, 1)), (vec![], vec![2]));
    }

    #[test]
    fn what_is_forgotten_leaves_nothing() {
        let (store, _) = store(MemoryLimits { count: 100, ..MemoryLimits::default() });
        for round in 0..1_000 {
            append(&store, 1, round, 1..=3);
            append(&store, 2, round, 1..=3);
            now(EventStore::forget(&store, &name(1), Some(round))).expect("forgotten");
            now(EventStore::forget(&store, &name(2), None)).expect("forgotten");
        }
        let shelves = store.lock();
        assert_eq!((shelves.count, shelves.bytes, shelves.sessions.len()), (0, 0, 0));
        assert!(shelves.arrivals.len() <= 64, "{}", shelves.arrivals.len());
    }

    #[test]
    fn an_append_that_comes_late_changes_nothing() {
        let (store, _) = store(MemoryLimits::default());
        append(&store, 1, 0, 4..=5);
        append(&store, 1, 0, 1..=4);
        assert_eq!((read(&store, 1, 0, 3), read(&store, 1, 0, 0), store.len()), (vec![4, 5], vec![], 2));
    }
}
