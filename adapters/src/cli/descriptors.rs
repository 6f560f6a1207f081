//! How many files the program may have open.
//!
//! A connection is one, and a child takes four: three pipes, and what tells of its exit. Systems let a process begin with few, 1,024
//! as a rule, because `select` can name no more, and let it ask for more. Nothing here uses `select`, so the program takes all that it
//! may have. Children, which may use it, get the limit back that the program was started with.

use std::sync::Arc;

#[cfg(target_os = "linux")]
use rustix::process::{Pid, prlimit};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::app::stdio::GroupWatcher;

/// What a child takes.
const CHILD: u64 = 4;
/// What the program needs whatever it serves: the log, the listener, the runtime, the warden.
const OWN: u64 = 64;
/// More than this some systems refuse, and yet say that there is no limit.
const MODEST: u64 = 10_240;

/// The limit of this process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Descriptors {
    before: Rlimit,
    /// `None`: there is no limit.
    now: Option<u64>,
}

impl Descriptors {
    /// Takes all that this process may have.
    pub(super) fn raise() -> Self {
        let before = getrlimit(Resource::Nofile);
        for more in [before.maximum, Some(MODEST)] {
            let is_more = before.current.is_some_and(|current| more.is_none_or(|more| more > current));
            if is_more && setrlimit(Resource::Nofile, Rlimit { current: more, maximum: before.maximum }).is_ok() {
                break;
            }
        }
        Self { before, now: getrlimit(Resource::Nofile).current }
    }

    /// Warns if there can't be so many sessions, each with one connection at a time and perhaps a child.
    pub(super) fn check(&self, sessions: usize, children: bool) {
        let each = if children { 1 + CHILD } else { 1 };
        if let Some(fewer) = fewer(self.now, sessions, each) {
            let now = self.now.unwrap_or_default();
            tracing::warn!(
                "the limit of {now} open files is reached with {fewer} sessions, of {sessions} that are allowed: raise it (ulimit -n), \
                 or lower --max-sessions"
            );
        }
    }

    /// Children get the limit back as soon as they are there, before anything is sent to them. Then `then` is told.
    pub(super) fn give_back(self, then: Option<Arc<dyn GroupWatcher>>) -> Arc<dyn GroupWatcher> {
        Arc::new(GiveBack { before: self.before, then })
    }
}

/// How many sessions there can be, if that is fewer than there may.
fn fewer(limit: Option<u64>, sessions: usize, each: u64) -> Option<u64> {
    let possible = limit?.saturating_sub(OWN) / each;
    (possible < sessions as u64).then_some(possible)
}

struct GiveBack {
    before: Rlimit,
    then: Option<Arc<dyn GroupWatcher>>,
}

impl GroupWatcher for GiveBack {
    fn born(&self, group: u32) {
        if let Some(then) = &self.then {
            then.born(group);
        }
        // Elsewhere nobody can change the limits of others. A child that has changed its user keeps what it has.
        #[cfg(target_os = "linux")]
        if let Some(leader) = i32::try_from(group).ok().and_then(Pid::from_raw) {
            let _ = prlimit(Some(leader), Resource::Nofile, self.before);
        }
    }

    fn gone(&self, group: u32) {
        if let Some(then) = &self.then {
            then.gone(group);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_are_counted_with_what_each_of_them_takes() {
        for (limit, sessions, each, expected) in [
            (Some(1_024), 10_000, 5, Some(192)),
            (Some(1_024), 10_000, 1, Some(960)),
            (Some(1_024), 192, 5, None),
            (Some(1_024), 193, 5, Some(192)),
            (Some(10), 1, 1, Some(0)),
            (None, usize::MAX, 5, None),
            (Some(u64::MAX), usize::MAX, 1, Some(u64::MAX - OWN)),
        ] {
            assert_eq!(fewer(limit, sessions, each), expected, "{limit:?} {sessions} {each}");
        }
    }
}
