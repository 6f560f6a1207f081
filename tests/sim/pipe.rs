//! One direction of a connection in memory.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf as _, Bytes};
use fastrand::Rng;
use sessile_core::Timestamp;

use super::faults::Faults;

/// Bytes on their way from the one end to the other. Both ends hold it.
#[derive(Debug)]
pub(super) struct Pipe(Mutex<State>);

#[derive(Debug)]
struct State {
    faults: Faults,
    rng: Rng,
    /// What is on its way, with the times of its arrival.
    segments: VecDeque<(Timestamp, Bytes)>,
    waiting: usize,
    written: u64,
    /// No more will be written.
    finished: Option<Timestamp>,
    /// The reader has gone: what is written comes back as a reset.
    deaf: bool,
    reset: bool,
    hesitated: [bool; 2],
    reader: Option<Waker>,
    writer: Option<Waker>,
}

/// What a read found.
pub(super) enum Found {
    /// Bytes; none is the end.
    Bytes(Bytes),
    /// Nothing yet, but something that arrives then.
    Later(Timestamp),
    /// Nothing.
    Nothing,
}

impl Pipe {
    pub(super) const fn new(faults: Faults, rng: Rng) -> Self {
        Self(Mutex::new(State {
            faults,
            rng,
            segments: VecDeque::new(),
            waiting: 0,
            written: 0,
            finished: None,
            deaf: false,
            reset: false,
            hesitated: [false; 2],
            reader: None,
            writer: None,
        }))
    }

    /// Takes at most `most` bytes that have arrived.
    pub(super) fn read(&self, cx: &Context<'_>, now: Timestamp, most: usize) -> io::Result<Found> {
        let mut state = self.lock();
        // What has arrived before can be read.
        if state.reset && state.segments.front().is_none_or(|(at, _)| *at > now) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        state.reader = Some(cx.waker().clone());
        if state.hesitates(0) {
            cx.waker().wake_by_ref();
            return Ok(Found::Nothing);
        }
        let State { faults, rng, segments, waiting, finished, .. } = &mut *state;
        let Some((at, segment)) = segments.front_mut() else {
            return Ok(match finished {
                Some(at) if *at <= now => Found::Bytes(Bytes::new()),
                Some(at) => Found::Later(*at),
                None => Found::Nothing,
            });
        };
        if *at > now {
            return Ok(Found::Later(*at));
        }
        let most = most.min(segment.len());
        let taken = if faults.short { rng.usize(1..=most) } else { most };
        let bytes = segment.split_to(taken);
        if !segment.has_remaining() {
            segments.pop_front();
        }
        *waiting -= taken;
        wake(state.writer.take(), state);
        Ok(Found::Bytes(bytes))
    }

    /// Puts as much on its way as there is room for. An error says that the connection is no more; `Err` with
    /// [`io::ErrorKind::ConnectionReset`] from a fault resets both directions, which is the caller's to do.
    pub(super) fn write(&self, cx: &Context<'_>, now: Timestamp, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut state = self.lock();
        if state.reset || state.deaf {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if state.finished.is_some() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        if bytes.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if state.hesitates(1) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let room = state.faults.capacity.saturating_sub(state.waiting).min(bytes.len());
        if room == 0 {
            state.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let taken = if state.faults.short { state.rng.usize(1..=room) } else { room };
        if state.faults.reset_after.is_some_and(|after| state.written + taken as u64 > after) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        state.written += taken as u64;
        state.waiting += taken;
        let at = state.arrival(now);
        state.segments.push_back((at, Bytes::copy_from_slice(&bytes[..taken])));
        wake(state.reader.take(), state);
        Poll::Ready(Ok(taken))
    }

    /// The writer has said all.
    pub(super) fn finish(&self, now: Timestamp) {
        let mut state = self.lock();
        if state.finished.is_none() {
            state.finished = Some(state.arrival(now));
            wake(state.reader.take(), state);
        }
    }

    /// The reader has gone. Whether it left something unread, or will.
    pub(super) fn deafen(&self) -> bool {
        let mut state = self.lock();
        state.deaf = true;
        let unread = state.waiting > 0;
        wake(state.writer.take(), state);
        unread
    }

    /// The connection is no more.
    pub(super) fn reset(&self) {
        let mut state = self.lock();
        state.reset = true;
        let (reader, writer) = (state.reader.take(), state.writer.take());
        drop(state);
        [reader, writer].into_iter().flatten().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

impl State {
    /// When what is sent now arrives: never before what was sent earlier.
    fn arrival(&mut self, now: Timestamp) -> Timestamp {
        let delay = u64::try_from(self.faults.delay.as_nanos()).unwrap_or(u64::MAX);
        let mut at = now.saturating_add(Duration::from_nanos(self.rng.u64(..=delay)));
        if let Some((after, stall)) = self.faults.stall
            && self.written >= after
        {
            self.faults.stall = None;
            at = at.saturating_add(stall);
        }
        self.segments.back().map_or(at, |(last, _)| at.max(*last))
    }

    /// Whether a read (0) or a write (1) does nothing this time.
    fn hesitates(&mut self, which: usize) -> bool {
        let hesitates = !self.hesitated[which] && self.faults.hesitate > 0 && self.rng.u32(..self.faults.hesitate) == 0;
        self.hesitated[which] = hesitates;
        hesitates
    }
}

/// Wakes without the lock.
fn wake(waker: Option<Waker>, lock: MutexGuard<'_, State>) {
    drop(lock);
    if let Some(waker) = waker {
        waker.wake();
    }
}
