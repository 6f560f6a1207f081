//! Deadline lists: doubly linked lists that run through the slots of a [`Slab`].
//!
//! Owns the order of deadlines within one timer class. All members of a class share one timeout and time never runs
//! backwards, so the order of joining is the order of the deadlines: to join, to leave and to look at the next deadline
//! are O(1), and nothing is allocated. Does not own a clock, nor what a deadline means.

use std::time::Duration;

use crate::slab::{Key, Slab};
use crate::time::Timestamp;

/// One member's place in a list. A value that is in several lists at once has a node for each: its lanes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Node {
    next: Option<Key>,
    previous: Option<Key>,
    since: Timestamp,
}

impl Node {
    /// When the member joined; of the last list it was in, if it is in none.
    pub(crate) const fn since(&self) -> Timestamp {
        self.since
    }
}

/// A value with nodes for deadline lists. Lists that a value is never in together may share a lane.
pub(crate) trait Timed {
    type Lane: Copy;

    fn node(&self, lane: Self::Lane) -> &Node;
    fn node_mut(&mut self, lane: Self::Lane) -> &mut Node;
}

/// The members of one timer class, the one that joined first at the front.
#[derive(Debug)]
pub(crate) struct DeadlineList<L> {
    lane: L,
    timeout: Option<Duration>,
    front: Option<Key>,
    back: Option<Key>,
}

impl<L: Copy> DeadlineList<L> {
    /// An empty list. Without a timeout it keeps its order and has no deadline.
    pub(crate) const fn new(lane: L, timeout: Option<Duration>) -> Self {
        Self { lane, timeout, front: None, back: None }
    }

    pub(crate) const fn has_timeout(&self) -> bool {
        self.timeout.is_some()
    }

    /// The member that joined first, and so the one whose deadline comes first.
    pub(crate) const fn front(&self) -> Option<Key> {
        self.front
    }

    /// The deadline of the front.
    pub(crate) fn deadline<T: Timed<Lane = L>>(&self, slab: &Slab<T>) -> Option<Timestamp> {
        let front = slab.get(self.front?)?;
        Some(front.node(self.lane).since.saturating_add(self.timeout?))
    }

    /// The member that joined after `key`.
    pub(crate) fn after<T: Timed<Lane = L>>(&self, slab: &Slab<T>, key: Key) -> Option<Key> {
        slab.get(key)?.node(self.lane).next
    }

    /// `key`, which must not be in this list, joins at the back. `now` must not be less than at any call before.
    pub(crate) fn join<T: Timed<Lane = L>>(&mut self, slab: &mut Slab<T>, key: Key, now: Timestamp) {
        let Some(value) = slab.get_mut(key) else { return };
        *value.node_mut(self.lane) = Node { next: None, previous: self.back, since: now };
        match self.back.replace(key).and_then(|back| slab.get_mut(back)) {
            Some(back) => back.node_mut(self.lane).next = Some(key),
            None => self.front = Some(key),
        }
    }

    /// `key`, which must be in this list, leaves it.
    pub(crate) fn leave<T: Timed<Lane = L>>(&mut self, slab: &mut Slab<T>, key: Key) {
        let Some(value) = slab.get_mut(key) else { return };
        let node = value.node_mut(self.lane);
        let (previous, next) = (node.previous.take(), node.next.take());
        match previous.and_then(|previous| slab.get_mut(previous)) {
            Some(value) => value.node_mut(self.lane).next = next,
            None => self.front = next,
        }
        match next.and_then(|next| slab.get_mut(next)) {
            Some(value) => value.node_mut(self.lane).previous = previous,
            None => self.back = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Member(Node);

    impl Timed for Member {
        type Lane = ();

        fn node(&self, (): ()) -> &Node {
            &self.0
        }

        fn node_mut(&mut self, (): ()) -> &mut Node {
            &mut self.0
        }
    }

    fn order(list: &DeadlineList<()>, slab: &Slab<Member>) -> Vec<Key> {
        std::iter::successors(list.front(), |key| list.after(slab, *key)).collect()
    }

    #[test]
    fn the_first_to_join_has_the_next_deadline() {
        let mut slab = Slab::default();
        let mut list = DeadlineList::new((), Some(Duration::from_secs(10)));
        assert_eq!(list.deadline(&slab), None);
        let keys = [1, 2, 3].map(|second| {
            let key = slab.insert(Member::default()).expect("room");
            list.join(&mut slab, key, Timestamp::from_secs(second));
            key
        });
        assert_eq!(list.deadline(&slab), Some(Timestamp::from_secs(11)));
        list.leave(&mut slab, keys[0]);
        assert_eq!(list.deadline(&slab), Some(Timestamp::from_secs(12)));
        list.join(&mut slab, keys[0], Timestamp::from_secs(4));
        assert_eq!(order(&list, &slab), [keys[1], keys[2], keys[0]]);
    }

    #[test]
    fn a_member_can_leave_from_any_place() {
        for leaver in 0..3 {
            let mut slab = Slab::default();
            let mut list = DeadlineList::new((), None);
            let mut keys: Vec<_> = (0..3).map(|_| slab.insert(Member::default()).expect("room")).collect();
            for key in &keys {
                list.join(&mut slab, *key, Timestamp::ZERO);
            }
            let gone = keys.remove(leaver);
            list.leave(&mut slab, gone);
            assert_eq!(order(&list, &slab), keys);
            list.join(&mut slab, gone, Timestamp::ZERO);
            keys.push(gone);
            assert_eq!(order(&list, &slab), keys);
            for key in keys {
                list.leave(&mut slab, key);
            }
            assert_eq!((list.front, list.back), (None, None));
        }
    }

    #[test]
    fn without_a_timeout_there_is_order_and_no_deadline() {
        let mut slab = Slab::default();
        let mut list = DeadlineList::new((), None);
        let key = slab.insert(Member::default()).expect("room");
        list.join(&mut slab, key, Timestamp::ZERO);
        assert_eq!((list.front(), list.deadline(&slab)), (Some(key), None));
    }
}
