//! Whether the children of sessions begin at all.
//!
//! Owns a breaker for each principal: a command whose child ends before it has answered `initialize`, or can't be started, is not
//! started again and again for clients that never stop asking. Does not own the children.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sessile_core::{Message, MessageKind, Timestamp};

use super::breaker::Breaker;
use super::pump::Outbox;
use crate::app::AppError;
use crate::principal::Principal;

/// The children of one command that did not begin. One that has begun is forgotten.
#[derive(Debug, Default)]
pub(super) struct Attempts(Mutex<HashMap<Principal, Breaker>>);

/// The start of one child.
#[derive(Debug)]
pub(super) struct Attempt {
    attempts: Arc<Attempts>,
    principal: Principal,
    begun: AtomicBool,
}

impl Attempts {
    /// Whether a child may be started now.
    pub(super) fn begin(self: &Arc<Self>, now: Timestamp, principal: &Principal) -> Result<Arc<Attempt>, AppError> {
        if let Some(breaker) = self.lock().get_mut(principal) {
            breaker.admit(now)?;
        }
        let principal = principal.clone();
        Ok(Arc::new(Attempt { attempts: Arc::clone(self), principal, begun: AtomicBool::new(false) }))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Principal, Breaker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt {
    /// The child has answered something, be it with an error: it can be talked to.
    fn begun(&self) {
        self.begun.store(true, Ordering::Relaxed);
        self.attempts.lock().remove(&self.principal);
    }

    /// The child is gone. That it has not begun by then is a failure.
    pub(super) fn ended(&self, now: Timestamp, why: String) {
        if self.begun.load(Ordering::Relaxed) {
            return;
        }
        let mut attempts = self.attempts.lock();
        attempts.retain(|_, breaker| !breaker.is_over(now));
        attempts.entry(self.principal.clone()).or_default().failed(now, why);
    }
}

/// What the child says, with an ear for its first answer.
#[derive(Debug)]
pub(super) struct Heard<O> {
    outbox: O,
    /// `None`: it has begun.
    attempt: Option<Arc<Attempt>>,
}

impl<O> Heard<O> {
    pub(super) const fn new(outbox: O, attempt: Arc<Attempt>) -> Self {
        Self { outbox, attempt: Some(attempt) }
    }
}

impl<O: Outbox> Outbox for Heard<O> {
    fn send(&mut self, message: Message) {
        if matches!(message.kind(), MessageKind::Response(_))
            && let Some(attempt) = self.attempt.take()
        {
            attempt.begun();
        }
        self.outbox.send(message);
    }

    fn end(&mut self) {
        self.outbox.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Timestamp {
        Timestamp::from_secs(second)
    }

    /// R201, R202.
    #[test]
    fn a_child_that_begins_ends_the_pause_of_its_principal_and_of_no_other() {
        let attempts = Arc::new(Attempts::default());
        let (alice, bob) = (Principal::named("alice"), Principal::ANONYMOUS);
        for second in 1_000..1_003 {
            for who in [&alice, &bob] {
                attempts.begin(at(second), who).expect("not yet").ended(at(second), "exit status 1".into());
            }
        }
        for who in [&alice, &bob] {
            attempts.begin(at(1_006), who).expect_err("3 failures in a row");
        }
        // One at a time may try.
        let attempt = attempts.begin(at(1_007), &alice).expect("half open");
        attempts.begin(at(1_007), &alice).expect_err("another one tries");
        attempt.begun();
        attempt.ended(at(1_008), "exit status 1".into());
        for _ in 0..3 {
            attempts.begin(at(1_009), &alice).expect("as if nothing had been").ended(at(1_009), "exit status 1".into());
        }
        attempts.begin(at(1_009), &alice).expect_err("3 failures in a row");
        attempts.begin(at(1_009), &bob).expect("half open").ended(at(1_009), "exit status 1".into());
        attempts.begin(at(1_018), &bob).expect_err("4 failures in a row");
        // What is long ago is forgotten when something fails.
        attempts.begin(at(9_000), &Principal::named("carol")).expect("the first").ended(at(9_000), "x".into());
        assert_eq!(attempts.lock().len(), 1);
    }
}
