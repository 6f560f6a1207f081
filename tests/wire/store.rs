//! Clients that come back for what a store has, and stores that are late, fail, lie, panic or never answer.
//!
//! R106 to R109, with the events outside the session.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use sessile::app::{Backend, Handler};
use sessile::runtime::tokio::Tokio;
use sessile::store::{EventStore, Memory, MemoryLimits, Range, SessionName, StoreError, StoredEvent};
use sessile::{Builder, app::Calls};
use sessile_core::Config;

use crate::raw::{Read as _, Site, drain, pass, settle, site};
use crate::resume::{Have, Random, SECOND, Wordy, call, events, read, resumable, resume};
use crate::row::post;

/// How a [`Moody`] store does what it is asked.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Mood {
    /// At once.
    Fine,
    /// After some milliseconds.
    Slow,
    /// Not at all, and says so.
    Fails,
    /// Never says anything.
    Hangs,
    /// It panics, before or while it is waited for.
    Panics,
    /// With events that nobody has ever appended.
    Lies,
    /// Each time in another of these ways.
    Any,
}

const MOODS: [Mood; 6] = [Mood::Fine, Mood::Slow, Mood::Fails, Mood::Hangs, Mood::Panics, Mood::Lies];

type Streams = HashMap<u64, BTreeMap<u64, StoredEvent>>;

/// A store with moods.
#[derive(Clone)]
struct Moody(Arc<Inside>);

struct Inside {
    mood: AtomicU8,
    random: Mutex<Random>,
    sessions: Mutex<HashMap<SessionName, Streams>>,
    reads: AtomicUsize,
    /// How many were never waited for to their end.
    under_way: AtomicUsize,
}

/// Counts what is under way.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Moody {
    fn new(mood: Mood, seed: u64) -> Self {
        Self(Arc::new(Inside {
            mood: AtomicU8::new(mood as u8),
            random: Mutex::new(Random(seed)),
            sessions: Mutex::default(),
            reads: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
        }))
    }

    fn set(&self, mood: Mood) {
        self.0.mood.store(mood as u8, Ordering::SeqCst);
    }

    fn below(&self, below: u64) -> u64 {
        self.0.random.lock().expect("no panic while it is held").below(below)
    }

    /// Does it in its mood; says whether to lie.
    async fn brood(&self) -> Result<bool, StoreError> {
        let before = self.0.under_way.fetch_add(1, Ordering::SeqCst);
        let _under_way = UnderWay(&self.0.under_way);
        assert_eq!(before, 0, "a session asks for one thing after another");
        let mood = usize::from(self.0.mood.load(Ordering::SeqCst));
        let mood = MOODS.get(mood).copied().unwrap_or_else(|| MOODS[self.below(6) as usize]);
        match mood {
            Mood::Slow => tokio::time::sleep(Duration::from_millis(self.below(4))).await,
            Mood::Fails => return Err(StoreError::failed("as the mood is")),
            Mood::Hangs => std::future::pending().await,
            Mood::Panics => {
                tokio::time::sleep(Duration::from_millis(self.below(2))).await;
                panic!("as the mood is");
            }
            Mood::Any | Mood::Fine | Mood::Lies => {}
        }
        Ok(matches!(mood, Mood::Lies))
    }

    fn kept(&self) -> usize {
        let sessions = self.0.sessions.lock().expect("no panic while it is held");
        sessions.values().flat_map(HashMap::values).map(BTreeMap::len).sum()
    }
}

impl EventStore for Moody {
    async fn append(&self, session: &SessionName, stream: u64, events: Vec<StoredEvent>) -> Result<(), StoreError> {
        self.brood().await?;
        let mut sessions = self.0.sessions.lock().expect("no panic while it is held");
        let kept = sessions.entry(session.clone()).or_default().entry(stream).or_default();
        kept.extend(events.into_iter().map(|event| (event.sequence.get(), event)));
        Ok(())
    }

    async fn read(&self, session: &SessionName, range: Range) -> Result<Vec<StoredEvent>, StoreError> {
        self.0.reads.fetch_add(1, Ordering::SeqCst);
        if self.brood().await? {
            let data = Bytes::from_static(br#"{"jsonrpc":"2.0","method":"a lie"}"#);
            let sequence = (range.through + 1).try_into().expect("not zero");
            return Ok(vec![StoredEvent { sequence, data }]);
        }
        let sessions = self.0.sessions.lock().expect("no panic while it is held");
        let stream = sessions.get(session).and_then(|streams| streams.get(&range.stream));
        Ok(stream.map_or_else(Vec::new, |stream| range.cut(stream.range(range.after + 1..).map(|(_, event)| event))))
    }

    async fn forget(&self, session: &SessionName, stream: Option<u64>) -> Result<(), StoreError> {
        self.brood().await?;
        let mut sessions = self.0.sessions.lock().expect("no panic while it is held");
        match stream {
            Some(stream) => drop(sessions.get_mut(session).and_then(|streams| streams.remove(&stream))),
            None => drop(sessions.remove(session)),
        }
        Ok(())
    }
}

fn stored<H: Handler>(config: Config, handler: H, store: impl EventStore) -> Site<Calls<H>> {
    let builder = Builder::new(Tokio::current()).handler(handler).config(config).event_store(store);
    site(builder.build().expect("good settings"))
}

/// A session has its `initialize` answered as JSON, which no store hears of.
async fn numbers<B: Backend>(site: &Site<B>, session: &str) -> http::Response<sessile::http::Body> {
    site.stall(post(Some(session), &call(1, "numbers"))).await
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_comes_from_a_slow_store_wherever_the_connection_breaks() {
    let store = Moody::new(Mood::Slow, 1);
    let site = stored(resumable(), Wordy, store.clone());
    for seed in 0..30 {
        let mut random = Random(seed);
        let session = site.open().await;
        let mut have = Have::default();
        let mut response = numbers(&site, &session).await;
        for breaks in random.breaks().into_iter().map(|at| at.max(1)) {
            assert_eq!(response.status(), 200, "seed {seed}");
            assert!(!read(response.into_body(), &mut have, breaks).await, "seed {seed}");
            tokio::time::sleep(Duration::from_millis(random.below(4))).await;
            response = site.stall(resume(&session, &have.last)).await;
        }
        assert!(read(response.into_body(), &mut have, usize::MAX).await, "seed {seed}");
        have.is_complete();
        site.delete(&session).await;
        pass(SECOND).await;
    }
    assert!(store.0.reads.load(Ordering::SeqCst) > 1_000, "memory had it all");
    assert_eq!((store.kept(), site.manager.stats().store_failures), (0, 0), "everything was forgotten");
}

#[tokio::test(start_paused = true)]
async fn whatever_the_store_does_a_client_that_stays_gets_everything() {
    for mood in MOODS.into_iter().chain([Mood::Any]) {
        for seed in 0..10 {
            let site = stored(resumable(), Wordy, Moody::new(mood, seed));
            let session = site.open().await;
            let mut have = Have::default();
            let response = numbers(&site, &session).await;
            assert!(read(response.into_body(), &mut have, usize::MAX).await, "{mood:?}, seed {seed}");
            have.is_complete();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn whatever_the_store_does_who_comes_back_reads_each_event_once_or_hears_why_not() {
    let (mut complete, mut unavailable, mut gone) = (0, 0, 0);
    for seed in 0..150 {
        let scarce = seed % 2 == 1;
        let mut config = resumable();
        if scarce {
            // Memory has room for little that the store has not taken, and what waits beyond it is dropped.
            config.session.log_count = 6;
        }
        let site = stored(config, Wordy, Moody::new(Mood::Any, seed));
        let mut random = Random(seed);
        let session = site.open().await;
        let mut have = Have::default();
        let mut response = numbers(&site, &session).await;
        let mut breaks = random.breaks().into_iter().step_by(17).map(|at| at.max(1));
        let ended = loop {
            let enough = breaks.next().unwrap_or(usize::MAX);
            let over = read(response.into_body(), &mut have, enough).await;
            if have.messages.last().is_some_and(|message| message["result"] == 300) {
                break true;
            }
            assert!(over || enough < usize::MAX, "seed {seed}");
            response = loop {
                let response = site.stall(resume(&session, &have.last)).await;
                if response.status() != 503 {
                    break response;
                }
                assert_eq!(response.headers()["retry-after"], "5", "seed {seed}");
                unavailable += 1;
                pass(5 * SECOND).await;
            };
            if response.status() != 200 {
                assert_eq!(response.status(), 400, "seed {seed}");
                break false;
            }
        };
        if ended && !scarce {
            have.is_complete();
        }
        complete += u32::from(ended);
        gone += u32::from(!ended);
        let numbers: Vec<_> = have.messages.iter().filter_map(|message| message["params"]["number"].as_u64()).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "seed {seed}: {numbers:?}");
        assert!(!have.messages.iter().any(|message| message["method"] == "a lie"), "seed {seed}");
    }
    assert!(complete > 10 && unavailable > 10 && gone > 0, "{complete}, {unavailable}, {gone}");
}

#[tokio::test(start_paused = true)]
async fn who_comes_back_while_the_store_is_down_is_told_when_to_try_again() {
    let store = Moody::new(Mood::Fine, 0);
    let site = stored(resumable(), Wordy, store.clone());
    let session = site.open().await;
    let text = drain(numbers(&site, &session).await).await;
    let (last, _) = events(&text).pop().expect("the answer");
    for (mood, time) in [(Mood::Fails, Duration::ZERO), (Mood::Lies, Duration::ZERO), (Mood::Panics, SECOND)] {
        store.set(mood);
        let answer = site.send(Some("alice"), resume(&session, "1-1")).await.within(time).await;
        assert_eq!((answer.status(), answer.header("retry-after").as_deref()), (Some(503), Some("5")), "{mood:?}");
    }
    store.set(Mood::Fine);
    let again = drain(site.stall(resume(&session, "1-1")).await).await;
    assert_eq!(events(&again), events(&text)[1..]);
    // The session is busy as long as somebody waits for the store, and no longer.
    store.set(Mood::Hangs);
    let waiting = site.send(Some("alice"), resume(&session, "1-1")).await;
    assert_eq!(waiting.answer().status(), None);
    assert_eq!(waiting.within(5 * SECOND).await.status(), Some(503));
    // It is left alone for a time, whatever its mood is by now.
    store.set(Mood::Fine);
    let asked = store.0.reads.load(Ordering::SeqCst);
    assert_eq!(site.send(Some("alice"), resume(&session, "1-1")).await.answer().status(), Some(503));
    assert_eq!(store.0.reads.load(Ordering::SeqCst), asked);
    let over = site.send(Some("alice"), resume(&session, &last)).await.answer();
    assert_eq!(over.status(), Some(204), "that needs no store");
    pass(30 * SECOND).await;
    assert_eq!(site.send(Some("alice"), resume(&session, "1-1")).await.answer().status(), Some(200));
    let stats = site.manager.stats();
    assert_eq!((stats.store_failures, stats.store_late, stats.exchanges), (4, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_does_not_wait_for_a_store_that_hangs() {
    let store = Moody::new(Mood::Hangs, 0);
    let site = stored(resumable(), Wordy, store.clone());
    let session = site.open().await;
    let open = site.post(&session, &call(1, "slow")).await;
    assert_eq!(open.answer().text(), ":\n\n", "even its first event waits");
    site.delete(&session).await;
    let answer = open.answer();
    assert!(answer.done);
    assert_eq!(events(&answer.text()).last().expect("an error").1["error"]["code"], -32603);
    pass(20 * SECOND).await;
    assert_eq!(store.0.under_way.load(Ordering::SeqCst), 0, "what takes too long is dropped");
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_one_body_and_clients_that_cannot_resume_need_no_store() {
    let store = Arc::new(Memory::new(Tokio::current(), MemoryLimits::default()));
    let site = stored(resumable(), Wordy, Arc::clone(&store));
    let session = site.open().await;
    let answer = site.post(&session, &call(1, "tell")).await.answer();
    assert!(answer.done);
    assert!(store.is_empty());
    let mut config = resumable();
    config.session.resume = false;
    let site = stored(config, Wordy, Arc::clone(&store));
    let session = site.open().await;
    assert_eq!(events(&drain(numbers(&site, &session).await).await), []);
    assert!(store.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_store_of_this_process_keeps_what_memory_no_longer_has() {
    let store = Arc::new(Memory::new(Tokio::current(), MemoryLimits::default()));
    let site = stored(resumable(), Wordy, Arc::clone(&store));
    let session = site.open().await;
    let listening = site.get(&session).await;
    for id in 1..=5 {
        site.post(&session, &call(id, "tell")).await;
    }
    let text = listening.answer().text();
    listening.hang_up().await;
    assert_eq!(store.len(), 6);
    for after in 1..=6 {
        let back = site.send(Some("alice"), resume(&session, &format!("0-{after}"))).await;
        let mut missed = events(&back.answer().text());
        // Where there is none, an event without data says where the client is.
        missed.retain(|(_, data)| !data.is_null());
        assert_eq!(missed, events(&text)[after..], "after {after}");
    }
    site.delete(&session).await;
    settle().await;
    assert!(store.is_empty());
}

#[test]
fn what_a_store_is_told_of_a_session_is_not_shown() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("one");
    runtime.block_on(async {
        let store = Moody::new(Mood::Fine, 0);
        let site = stored(resumable(), Wordy, store.clone());
        let session = site.open().await;
        drop(site.get(&session).await);
        let sessions = store.0.sessions.lock().expect("no panic while it is held");
        let name = sessions.keys().next().expect("a session");
        let hex: String = name.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        let shown = format!("{name:?}");
        let fingerprint = site.manager.list()[0].fingerprint.to_string();
        assert!(shown.contains(&fingerprint) && !shown.contains(&hex) && !shown.contains(&session), "{shown}");
        assert_ne!(hex, session);
    });
}
