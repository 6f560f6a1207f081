//! The notifications that an app which is called has not done with.
//!
//! Owns their bound: where the app runs with the session they would wait in the inbox, here each is a call that may take its time.
//! The bounds are those of the inbox. A driver gives back what it was given, when its call is over.

use crate::config::SessionConfig;
use crate::session::{Delivery, Session};

/// The calls for notifications that are under way.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NoteCalls {
    count: usize,
    bytes: usize,
}

impl NoteCalls {
    /// Whether one more, of `len` bytes, would go beyond the bounds. The first may have any size that the gate lets through.
    pub(super) const fn is_full(self, config: &SessionConfig, len: usize) -> bool {
        self.count > 0 && (self.count >= config.inbox_count || self.bytes.saturating_add(len) > config.inbox_bytes)
    }
}

impl<X> Session<X> {
    /// The call for a notification of `len` bytes, which [`Session::handle_message`] gave back as accepted, is over: answered,
    /// failed or dropped. There is room for another.
    pub const fn handle_note_done(&mut self, len: usize) {
        self.note_calls.count = self.note_calls.count.saturating_sub(1);
        self.note_calls.bytes = self.note_calls.bytes.saturating_sub(len);
    }

    /// How many calls for notifications are not over.
    #[must_use]
    pub const fn notes_in_flight(&self) -> usize {
        self.note_calls.count
    }

    /// How many GET streams are open.
    #[must_use]
    pub fn streams_open(&self) -> usize {
        self.standalone.as_ref().map_or(0, |standalone| standalone.readers.len())
    }

    /// Whether a notification of `len` bytes would be one too many.
    pub(super) fn notes_are_full(&self, config: &SessionConfig, len: usize) -> bool {
        match self.delivery {
            Delivery::Call => self.note_calls.is_full(config, len),
            Delivery::Inbox => self.inbox_is_full(config, 2, len),
        }
    }

    /// Whether `count` notifications of `len` bytes in all would be too many.
    pub(super) const fn note_calls_are_full(&self, config: &SessionConfig, count: usize, len: usize) -> bool {
        let calls = self.note_calls;
        calls.count.saturating_add(count) > config.inbox_count
            || (calls.count > 0 && calls.bytes.saturating_add(len) > config.inbox_bytes)
    }

    /// A notification goes to the app.
    pub(super) fn begin_note(&mut self, len: usize) {
        if self.delivery == Delivery::Call {
            self.note_calls.count += 1;
            self.note_calls.bytes += len;
        }
    }
}
