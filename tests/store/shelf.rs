//! A store that does what the steps say: late, out of order, wrongly or not at all.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use bytes::Bytes;
use sessile_core::session::{StoreRead, StoreRequest, StoreTicket, StoredEvent};

/// What the session has asked for, and what the store has.
#[derive(Default)]
pub(super) struct Shelf {
    pub(super) asked: Vec<StoreRequest>,
    streams: BTreeMap<u64, BTreeMap<u64, Bytes>>,
}

impl Shelf {
    pub(super) fn append(&mut self, stream: u64, events: &[StoredEvent]) {
        let kept = self.streams.entry(stream).or_default();
        for event in events {
            let earlier = kept.insert(event.sequence.get(), event.data.clone());
            assert!(earlier.is_none(), "an event is kept once");
        }
    }

    pub(super) fn forget(&mut self, stream: u64) {
        self.streams.remove(&stream);
    }

    pub(super) fn clear(&mut self) {
        self.streams.clear();
    }

    /// Loses the older half of everything.
    pub(super) fn lose(&mut self) {
        for events in self.streams.values_mut() {
            for _ in 0..events.len().div_ceil(2) {
                events.pop_first();
            }
        }
    }

    /// What the store should answer to a read.
    pub(super) fn read(&self, request: &StoreRequest) -> StoreRead {
        let StoreRequest::Read { stream, after, through, max_count, max_bytes, .. } = request else {
            panic!("{request:?} is no read");
        };
        let Some(events) = self.streams.get(stream) else { return StoreRead::Gone };
        let mut found = Vec::new();
        let mut bytes = 0;
        for sequence in after + 1..=*through {
            let Some(data) = events.get(&sequence).filter(|_| found.len() < *max_count) else { break };
            bytes += data.len();
            if !found.is_empty() && bytes > *max_bytes {
                break;
            }
            found.push(StoredEvent { sequence: number(sequence), data: data.clone() });
        }
        if found.is_empty() { StoreRead::Gone } else { StoreRead::Events(found) }
    }
}

fn number(sequence: u64) -> NonZeroU64 {
    NonZeroU64::new(sequence).expect("events are counted from 1")
}

/// A wrong answer to a read, each wrong in a way of its own.
pub(super) fn garbage(request: &StoreRequest, kind: u8) -> StoreRead {
    let StoreRequest::Read { after, through, max_count, max_bytes, .. } = *request else {
        panic!("{request:?} is no read");
    };
    let event = |sequence: u64, len: usize| StoredEvent {
        sequence: number(sequence),
        data: Bytes::from(format!(r#"{{"garbage":"{}"}}"#, "x".repeat(len))),
    };
    StoreRead::Events(match kind % 6 {
        // A gap at the beginning, or inside, or an event that was had before.
        0 => vec![event(after + 2, 0)],
        1 => vec![event(after + 1, 0), event(after + 3, 0)],
        2 => vec![event(if after > 0 { after } else { 2 }, 0)],
        // More than there is, more than may be, and longer than may be.
        3 => (after + 1..=through + 1).map(|sequence| event(sequence, 0)).collect(),
        4 => (after + 1..).take(max_count + 1).map(|sequence| event(sequence, 0)).collect(),
        _ => vec![event(after + 1, 0), event(after + 2, max_bytes)],
    })
}

pub(super) fn ticket(request: &StoreRequest) -> Option<StoreTicket> {
    match request {
        StoreRequest::Append { ticket, .. } | StoreRequest::Read { ticket, .. } => Some(*ticket),
        StoreRequest::Forget { .. } | StoreRequest::ForgetSession => None,
    }
}
