//! One child for the modern requests of one principal.
//!
//! Owns the way from many requests to one standard input and back: what waits to be written, who waits for an answer,
//! and when the child has had nothing to do for long enough. Does not own the process; a task pumps it, for which this
//! is the session.
//!
//! ```text
//!   Open ──idle, or told to stop──► Closing ──the process is gone──► Ended
//!     └──────────────the process is gone, or can't speak──────────────▲
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use sessile_core::{Message, Timestamp};

use super::calls::{Calls, Deliver, Route};
use super::launch::Counters;
use super::pump::{Inbox, Outbox};
use crate::runtime::{Runtime, Timer};

/// How many bytes of requests may wait to be written; more wait with their clients. One is always let in.
const MAX_QUEUED: usize = 1024 * 1024;
/// How many bytes of our own answers may wait.
const MAX_ANSWERS: usize = 16 * 1024;

/// The requests on one child, and what they share.
#[derive(Debug)]
pub(super) struct Shared {
    counters: Arc<Counters>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    calls: Calls,
    queue: Queue,
    /// Since when there is no request.
    idle_since: Timestamp,
    answered: bool,
    /// It was us who ended it.
    stopped: bool,
    /// The task that pumps the child.
    pump: Option<Waker>,
    /// Those who wait for room in the queue, and for answers.
    waiting: Vec<Waker>,
    answers: BTreeMap<u64, Waker>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    Closing,
    /// Why it is gone.
    Ended(Arc<str>),
}

/// What waits to be written to the child.
#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    requests: usize,
    answers: usize,
}

#[derive(Debug)]
enum Entry {
    Answer(Bytes),
    Cancellation(Bytes),
    Request(u64, Bytes),
}

/// The child takes no more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Closed;

/// A request on a child. Dropping it cancels the request, unless it was answered.
#[derive(Debug)]
pub(super) struct Ticket<R: Runtime> {
    shared: Arc<Shared>,
    runtime: R,
    number: u64,
}

impl Shared {
    pub(super) fn new(counters: Arc<Counters>, now: Timestamp) -> Arc<Self> {
        let state = State {
            phase: Phase::Open,
            calls: Calls::default(),
            queue: Queue::default(),
            idle_since: now,
            answered: false,
            stopped: false,
            pump: None,
            waiting: Vec::new(),
            answers: BTreeMap::new(),
        };
        Arc::new(Self { counters, state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a request in, once there is room for it. Cancel-safe.
    pub(super) async fn enter<R: Runtime>(
        self: &Arc<Self>,
        runtime: &R,
        message: &Message,
        deliver: &Deliver,
    ) -> Result<Ticket<R>, Closed> {
        poll_fn(|cx| {
            let mut state = self.lock();
            if state.phase != Phase::Open {
                return Poll::Ready(Err(Closed));
            }
            if !state.queue.has_room(message.raw().len()) {
                state.waiting.retain(|waiting| !waiting.will_wake(cx.waker()));
                state.waiting.push(cx.waker().clone());
                return Poll::Pending;
            }
            let Some((number, raw)) = state.calls.open(message, Arc::clone(deliver)) else {
                return Poll::Ready(Err(Closed));
            };
            state.queue.push(Entry::Request(number, raw));
            let pump = state.pump.take();
            drop(state);
            wake(pump);
            Poll::Ready(Ok(Ticket { shared: Arc::clone(self), runtime: runtime.clone(), number }))
        })
        .await
    }

    /// Takes no more requests, and stops the child.
    pub(super) fn close(&self) {
        self.close_for(true);
    }

    fn close_for(&self, wanted: bool) {
        let mut state = self.lock();
        if state.phase == Phase::Open {
            state.phase = Phase::Closing;
            state.stopped = wanted;
        }
        let woken = state.pump.take().into_iter().chain(state.waiting.drain(..)).collect::<Vec<_>>();
        drop(state);
        wake(woken);
    }

    /// Since when it has had nothing to do. `None`: it has, or it is being stopped.
    pub(super) fn idle_since(&self) -> Option<Timestamp> {
        let state = self.lock();
        (state.phase == Phase::Open && state.calls.is_empty()).then_some(state.idle_since)
    }

    /// Whether requests may still come in.
    pub(super) fn is_open(&self) -> bool {
        self.lock().phase == Phase::Open
    }

    /// Whether it has answered any request, or was not given the time for it.
    pub(super) fn was_of_use(&self) -> bool {
        let state = self.lock();
        state.answered || state.stopped
    }

    /// Whether it ended because we wanted it to.
    pub(super) fn was_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Nothing will come of the requests that are in flight.
    pub(super) fn end(&self, why: &str) {
        let mut state = self.lock();
        if !matches!(state.phase, Phase::Ended(_)) {
            state.phase = Phase::Ended(why.into());
        }
        state.queue = Queue::default();
        let answers = std::mem::take(&mut state.answers).into_values();
        let woken = answers.chain(state.pump.take()).chain(state.waiting.drain(..)).collect::<Vec<_>>();
        drop(state);
        wake(woken);
    }
}

/// Not under a lock.
fn wake(wakers: impl IntoIterator<Item = Waker>) {
    wakers.into_iter().for_each(Waker::wake);
}

impl Queue {
    fn has_room(&self, len: usize) -> bool {
        self.requests == 0 || self.requests + len <= MAX_QUEUED
    }

    fn push(&mut self, entry: Entry) {
        *self.count(&entry) += entry.raw().len();
        self.entries.push_back(entry);
    }

    fn pop(&mut self) -> Option<Bytes> {
        let entry = self.entries.pop_front()?;
        *self.count(&entry) -= entry.raw().len();
        Some(entry.raw().clone())
    }

    /// Takes a request back that was not written.
    fn take_back(&mut self, number: u64) -> bool {
        let is_it = |entry: &Entry| matches!(entry, Entry::Request(other, _) if *other == number);
        let entry = self.entries.iter().rposition(is_it).and_then(|at| self.entries.remove(at));
        self.requests -= entry.as_ref().map_or(0, |entry| entry.raw().len());
        entry.is_some()
    }

    fn count(&mut self, entry: &Entry) -> &mut usize {
        match entry {
            Entry::Answer(_) | Entry::Cancellation(_) => &mut self.answers,
            Entry::Request(..) => &mut self.requests,
        }
    }
}

impl Entry {
    const fn raw(&self) -> &Bytes {
        match self {
            Self::Answer(raw) | Self::Cancellation(raw) | Self::Request(_, raw) => raw,
        }
    }
}

impl<R: Runtime> Ticket<R> {
    /// Waits for the answer to have been delivered. Cancel-safe.
    ///
    /// # Errors
    ///
    /// Why there will be none.
    pub(super) async fn answered(&self) -> Result<(), Arc<str>> {
        poll_fn(|cx| {
            let mut state = self.shared.lock();
            if !state.calls.is_open(self.number) {
                return Poll::Ready(Ok(()));
            }
            if let Phase::Ended(why) = &state.phase {
                return Poll::Ready(Err(Arc::clone(why)));
            }
            state.answers.insert(self.number, cx.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl<R: Runtime> Drop for Ticket<R> {
    fn drop(&mut self) {
        let now = self.runtime.now();
        let mut state = self.shared.lock();
        let State { calls, queue, .. } = &mut *state;
        if queue.take_back(self.number) {
            calls.forget(self.number);
        } else if let Some(note) = calls.cancel(self.number) {
            // One for each request that was written, which is short: what the pipe holds bounds them.
            queue.push(Entry::Cancellation(note));
        }
        state.answers.remove(&self.number);
        if state.calls.is_empty() {
            state.idle_since = now;
        }
        let woken = state.pump.take().into_iter().chain(state.waiting.drain(..)).collect::<Vec<_>>();
        drop(state);
        wake(woken);
    }
}

/// What the pump takes from the requests. Ends when the child has been idle for long enough.
pub(super) struct SharedInbox<R: Runtime> {
    shared: Arc<Shared>,
    runtime: R,
    idle: Duration,
    /// Armed for when the idle time is over.
    timer: Option<(Timestamp, R::Timer)>,
}

impl<R: Runtime> SharedInbox<R> {
    pub(super) const fn new(shared: Arc<Shared>, runtime: R, idle: Duration) -> Self {
        Self { shared, runtime, idle, timer: None }
    }

    fn poll(&mut self, cx: &mut Context<'_>, takes: bool) -> Poll<Option<Bytes>> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        if state.phase != Phase::Open {
            return Poll::Ready(None);
        }
        if let Some(raw) = takes.then(|| state.queue.pop()).flatten() {
            let woken = std::mem::take(&mut state.waiting);
            drop(state);
            wake(woken);
            return Poll::Ready(Some(raw));
        }
        state.pump = Some(cx.waker().clone());
        if !state.calls.is_empty() {
            return Poll::Pending;
        }
        let at = state.idle_since.saturating_add(self.idle);
        let (armed, timer) = self.timer.get_or_insert_with(|| (at, self.runtime.timer_at(at)));
        if *armed != at {
            *armed = at;
            timer.reset(at);
        }
        // Polled again by whoever becomes idle later, so one that has rung is not polled twice.
        if Pin::new(timer).poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.timer = None;
        state.phase = Phase::Closing;
        state.stopped = true;
        let woken = std::mem::take(&mut state.waiting);
        drop(state);
        wake(woken);
        Poll::Ready(None)
    }
}

/// Nothing more is written to the child, so nothing more may come in.
impl<R: Runtime> Drop for SharedInbox<R> {
    fn drop(&mut self) {
        self.shared.close_for(false);
    }
}

impl<R: Runtime> Inbox for SharedInbox<R> {
    async fn recv(&mut self) -> Option<Bytes> {
        poll_fn(|cx| self.poll(cx, true)).await
    }

    async fn ended(&mut self) {
        poll_fn(|cx| self.poll(cx, false).map(drop)).await;
    }
}

/// Where the pump brings what the child says.
#[derive(Debug)]
pub(super) struct SharedOutbox(pub(super) Arc<Shared>);

impl Outbox for SharedOutbox {
    fn send(&mut self, message: Message) {
        let shared = &self.0;
        let mut state = shared.lock();
        match state.calls.route(&message) {
            Route::Deliver { to, message, answers } => {
                drop(state);
                to(message);
                // Only now, so that the answer is there when its request turns out to be over.
                if let Some(number) = answers {
                    let mut state = shared.lock();
                    state.calls.finish(number);
                    state.answered = true;
                    let woken = state.answers.remove(&number);
                    drop(state);
                    wake(woken);
                }
            }
            Route::Drop => drop_counted(&shared.counters.notes_dropped),
            Route::Late => drop_counted(&shared.counters.responses_unmatched),
            Route::Refuse(answer) => {
                drop_counted(&shared.counters.requests_refused);
                if state.queue.answers + answer.len() <= MAX_ANSWERS {
                    state.queue.push(Entry::Answer(answer));
                }
                // The pump looks into its inbox after it has heard the child.
            }
        }
    }

    fn end(&mut self) {
        self.0.end("it says nothing more");
    }
}

fn drop_counted(counter: &std::sync::atomic::AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
