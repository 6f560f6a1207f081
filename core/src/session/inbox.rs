//! The messages of the client that wait for an app that runs as long as the session.

use std::collections::VecDeque;

use crate::config::SessionConfig;
use crate::message::Message;
use crate::session::LARGE;

/// A message for the app.
#[derive(Debug)]
pub struct Inbound<X> {
    /// What the driver attached when it arrived. `None` for a message that the session made up, such as
    /// the error that answers an undeliverable request of the app.
    pub context: Option<X>,
    /// The message.
    pub message: Message,
}

#[derive(Debug)]
pub(super) struct Inbox<X> {
    waiting: VecDeque<Inbound<X>>,
    bytes: usize,
}

impl<X> Default for Inbox<X> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), bytes: 0 }
    }
}

impl<X> Inbox<X> {
    /// Whether `len` more bytes would go beyond `times` the bounds. An empty inbox takes anything that the gate lets
    /// through.
    pub(super) fn is_full(&self, config: &SessionConfig, times: usize, len: usize) -> bool {
        self.is_full_for(config, times, 1, len)
    }

    /// The same for `count` more messages.
    pub(super) fn is_full_for(&self, config: &SessionConfig, times: usize, count: usize, len: usize) -> bool {
        self.waiting.len().saturating_add(count) > config.inbox_count.saturating_mul(times)
            || (!self.waiting.is_empty() && self.bytes.saturating_add(len) > config.inbox_bytes.saturating_mul(times))
    }

    pub(super) fn push(&mut self, inbound: Inbound<X>) {
        self.bytes += inbound.message.raw().len();
        self.waiting.push_back(inbound);
    }

    pub(super) fn pop(&mut self) -> Option<Inbound<X>> {
        let inbound = self.waiting.pop_front()?;
        self.bytes -= inbound.message.raw().len();
        if self.waiting.is_empty() && self.waiting.capacity() > LARGE {
            self.waiting = VecDeque::new();
        }
        Some(inbound)
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.waiting.capacity()
    }
}
