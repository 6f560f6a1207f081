//! The shared children: one for the modern requests of each principal.
//!
//! Owns when one is started and when it is not: there are at most so many, and none for a command that keeps failing. A child
//! is started by a request and by nothing else, so an ended one comes back only if somebody wants it.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;

use sessile_core::{Message, Timestamp};

use super::breaker::Breaker;
use super::calls::Deliver;
use super::launch::{Client, Launched, Launcher, why};
use super::pump::Inbox;
use super::shared::{Closed, Shared, SharedInbox, SharedOutbox};
use super::tasks::Tasks;
use crate::app::AppError;
use crate::principal::Principal;
use crate::runtime::Processes;

/// The shared children of one command.
#[derive(Debug, Default)]
pub(super) struct Pool {
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    closed: bool,
    of: HashMap<Principal, Slot>,
}

/// What there is for one principal.
#[derive(Debug, Default)]
struct Slot {
    child: Option<Arc<Shared>>,
    /// Children that were of no use.
    breaker: Breaker,
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves one request on the child of its principal, until it is answered or its client has gone, which `client`
    /// tells.
    pub(super) async fn serve<R: Processes>(
        self: &Arc<Self>,
        launcher: &Launcher<R>,
        tasks: &Arc<Tasks>,
        principal: &Principal,
        message: &Message,
        deliver: &Deliver,
        client: &mut impl Inbox,
    ) -> Result<(), AppError> {
        if message.as_request().is_none() {
            return Ok(());
        }
        loop {
            let child = self.child(launcher, tasks, principal)?;
            let entered = or_gone(child.enter(&launcher.runtime, message, deliver), client).await;
            let ticket = match entered {
                Some(Ok(ticket)) => ticket,
                // It has ended in between. If the next one does so too, that counts as a failure.
                Some(Err(Closed)) => continue,
                None => return Ok(()),
            };
            return match or_gone(ticket.answered(), client).await {
                Some(Err(why)) => Err(AppError::Exited((*why).to_owned())),
                Some(Ok(())) | None => Ok(()),
            };
        }
    }

    /// Stops all children and starts no more.
    pub(super) fn close(&self) {
        let mut slots = self.lock();
        slots.closed = true;
        let children: Vec<_> = slots.of.drain().filter_map(|(_, slot)| slot.child).collect();
        drop(slots);
        children.iter().for_each(|child| child.close());
    }

    fn child<R: Processes>(
        self: &Arc<Self>,
        launcher: &Launcher<R>,
        tasks: &Arc<Tasks>,
        principal: &Principal,
    ) -> Result<Arc<Shared>, AppError> {
        let now = launcher.runtime.now();
        let mut slots = self.lock();
        if slots.closed {
            return Err(AppError::Other("shutting down".into()));
        }
        if let Some(slot) = slots.of.get_mut(principal) {
            if let Some(child) = slot.child.as_ref().filter(|child| child.is_open()) {
                return Ok(Arc::clone(child));
            }
            slot.breaker.admit(now)?;
        }
        slots.make_room(now, launcher.config.modern_children)?;
        let slot = slots.of.entry(principal.clone()).or_default();
        let launched = match launcher.start(Client::Shared) {
            Ok(launched) => launched,
            Err(error) => {
                slot.breaker.failed(now, error.to_string());
                return Err(error);
            }
        };
        let shared = Shared::new(Arc::clone(&launcher.counters), now);
        slot.child = Some(Arc::clone(&shared));
        // A runtime that has stopped drops the task at once, which needs the lock.
        drop(slots);
        self.pump(launcher, tasks, principal, Arc::clone(&shared), launched);
        Ok(shared)
    }

    fn pump<R: Processes>(
        self: &Arc<Self>,
        launcher: &Launcher<R>,
        tasks: &Arc<Tasks>,
        principal: &Principal,
        shared: Arc<Shared>,
        launched: Launched<R>,
    ) {
        let launcher = launcher.clone();
        let running = tasks.begin();
        let mut end = End {
            pool: Arc::downgrade(self),
            launcher: launcher.clone(),
            principal: principal.clone(),
            shared: Arc::clone(&shared),
            why: "its task was dropped".into(),
        };
        launcher.runtime.clone().spawn(async move {
            let inbox = SharedInbox::new(Arc::clone(&shared), launcher.runtime.clone(), launcher.config.modern_idle);
            let result = launcher.converse(launched, inbox, SharedOutbox(Arc::clone(&shared))).await;
            end.why = if result.is_ok() && shared.was_stopped() { "it was stopped".into() } else { why(&result) };
            drop(end);
            drop(running);
        });
    }

    /// A child is gone.
    fn ended(&self, now: Timestamp, principal: &Principal, shared: &Arc<Shared>, why: String) {
        let mut slots = self.lock();
        let Some(slot) = slots.of.get_mut(principal) else { return };
        if slot.child.as_ref().is_some_and(|child| Arc::ptr_eq(child, shared)) {
            slot.child = None;
        }
        if !shared.was_of_use() {
            slot.breaker.failed(now, why);
        } else if slot.child.is_none() {
            slots.of.remove(principal);
        }
    }
}

impl Slots {
    /// Sees to it that there may be one more child: the longest idle one gives way.
    fn make_room(&mut self, now: Timestamp, max: usize) -> Result<(), AppError> {
        let over = |slot: &Slot| slot.child.is_none() && slot.breaker.is_over(now);
        self.of.retain(|_, slot| !over(slot));
        let open = || self.of.values().filter_map(|slot| slot.child.as_ref()).filter(|child| child.is_open());
        if open().count() < max {
            return Ok(());
        }
        let idle = open().filter_map(|child| Some((child.idle_since()?, child))).min_by_key(|(since, _)| *since);
        let (_, child) = idle.ok_or_else(|| AppError::Other("too many children are busy".into()))?;
        child.close();
        Ok(())
    }
}

/// The end of a child's task, however it comes.
struct End<R: Processes> {
    pool: Weak<Pool>,
    launcher: Launcher<R>,
    principal: Principal,
    shared: Arc<Shared>,
    why: String,
}

impl<R: Processes> Drop for End<R> {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            let now = self.launcher.runtime.now();
            pool.ended(now, &self.principal, &self.shared, self.why.clone());
        }
        // Last, so that who asks again finds that it is gone.
        self.shared.end(&self.why);
    }
}

/// `None`: the client has gone before that.
async fn or_gone<T>(what: impl Future<Output = T>, client: &mut impl Inbox) -> Option<T> {
    let (mut what, mut gone) = (pin!(what), pin!(client.ended()));
    poll_fn(|cx| {
        if let Poll::Ready(output) = what.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        gone.as_mut().poll(cx).map(|()| None)
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_not_forgotten_while_they_go_on() {
        let mut slots = Slots::default();
        let alice = Principal::named("alice");
        for second in 1_000..1_003 {
            let now = Timestamp::from_secs(second);
            slots.make_room(now, 1).expect("there is room");
            let slot = slots.of.entry(alice.clone()).or_default();
            slot.breaker.admit(now).expect("not yet");
            slot.breaker.failed(now, "as the test wants it".into());
        }
        let slot = slots.of.get_mut(&alice).expect("it is there");
        slot.breaker.admit(Timestamp::from_secs(1_004)).expect_err("3 failures in a row");
    }
}
