//! A command that keeps failing is left alone for a while, and then tried again.
//!
//! Owns what is remembered of failures and how long that counts. Does not know what a failure is.

use std::io;
use std::time::Duration;

use sessile_core::Timestamp;

use crate::app::AppError;

/// How many failures in a row are taken for bad luck.
const FAILURES: u32 = 3;
/// How long a command is left alone after that; twice as long after each further failure.
const PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_secs(60);

/// The failures in a row of one command for one principal.
#[derive(Debug, Default)]
pub(super) struct Breaker {
    failures: u32,
    /// Why the last one was one.
    why: String,
    not_before: Timestamp,
    /// Whether one is tried after a pause.
    trying: bool,
}

impl Breaker {
    /// Whether the command may be tried now; after a pause, by one at a time. The error says why and for how long not.
    pub(super) fn admit(&mut self, now: Timestamp) -> Result<(), AppError> {
        if self.failures < FAILURES {
            return Ok(());
        }
        if now >= self.not_before {
            self.not_before = now.saturating_add(PAUSE);
            self.trying = true;
            return Ok(());
        }
        let left = self.not_before.saturating_since(now).as_millis().div_ceil(1_000);
        let why =
            format!("{} failures in a row, not tried again for {left} s; the last one: {}", self.failures, self.why);
        Err(AppError::Start(io::Error::other(why)))
    }

    /// It was tried in vain.
    pub(super) fn failed(&mut self, now: Timestamp, why: String) {
        self.why = why;
        // It began with those that have led to the pause: however many fail together, they are one reason to wait.
        if now < self.not_before && !self.trying {
            return;
        }
        self.trying = false;
        self.failures = self.failures.saturating_add(1);
        let further = self.failures.checked_sub(FAILURES);
        let pause = further.map_or(Duration::ZERO, |further| PAUSE.saturating_mul(2_u32.saturating_pow(further)));
        self.not_before = now.saturating_add(pause.min(MAX_PAUSE));
    }

    /// Whether all that is so long ago that it means nothing any more.
    pub(super) fn is_over(&self, now: Timestamp) -> bool {
        now > self.not_before.saturating_add(MAX_PAUSE)
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
    fn after_some_failures_it_waits_longer_and_longer_and_tries_again() {
        let mut breaker = Breaker::default();
        let mut now = 1_000;
        for pause in [0, 0, 5, 10, 20, 40, 60, 60, 60] {
            breaker.failed(at(now), "it fell over".into());
            if pause > 0 {
                let error = breaker.admit(at(now + pause - 1)).expect_err("too early").to_string();
                assert!(error.ends_with("in a row, not tried again for 1 s; the last one: it fell over"), "{error}");
            }
            now += pause;
            breaker.admit(at(now)).expect("half open");
        }
        breaker.admit(at(now)).expect_err("one is under way");
        assert!(!breaker.is_over(at(now + 65)));
        assert!(breaker.is_over(at(now + 66)));
    }

    /// R201, R202.
    #[test]
    fn many_that_fail_together_lengthen_no_pause() {
        let mut breaker = Breaker::default();
        for _ in 0..10 {
            breaker.admit(at(1_000)).expect("nothing has failed yet");
        }
        for _ in 0..10 {
            breaker.failed(at(1_000), "it fell over".into());
        }
        breaker.admit(at(1_004)).expect_err("too early");
        breaker.admit(at(1_005)).expect("half open");
        breaker.failed(at(1_006), "it fell over".into());
        breaker.admit(at(1_015)).expect_err("too early");
        breaker.admit(at(1_016)).expect("half open");
    }
}
