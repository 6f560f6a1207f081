//! Generational slots: values behind small copyable keys that never name the wrong value.
//!
//! Owns storage and the life of keys. A key of a removed value stays dead for ever: a slot whose
//! generation is used up is retired instead of wrapping round.

use std::fmt;
use std::num::NonZeroU32;

/// The handle of a value in a [`Slab`]: eight bytes, also as an `Option`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Key {
    index: u32,
    generation: NonZeroU32,
}

impl Key {
    /// The position of the slot, dense from zero; for tables that run parallel to the slab.
    pub(crate) const fn index(self) -> u32 {
        self.index
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}v{}", self.index, self.generation)
    }
}

/// Declares a public handle type around [`Key`].
macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub(crate) $crate::slab::Key);

        impl $name {
            /// The position of its slot, dense from zero and reused after removal, for tables that a
            /// driver keeps in parallel. Alone it does not tell an old handle from a new one: compare
            /// the handles for that.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0.index() as usize
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), self.0)
            }
        }
    };
}
pub(crate) use handle;

#[derive(Debug)]
struct Slot<T> {
    generation: NonZeroU32,
    content: Content<T>,
}

#[derive(Debug)]
enum Content<T> {
    Occupied(T),
    /// The next free slot, if there is one.
    Vacant(Option<u32>),
}

/// A vector of reusable slots. Insert, look-up and remove are O(1).
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    free: Option<u32>,
    len: usize,
    /// The generation of a new slot: beyond that of every slot that was given back.
    first: NonZeroU32,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: None, len: 0, first: NonZeroU32::MIN }
    }
}

impl<T> Slab<T> {
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Stores `value`. `None` only when all 2^32 slots are in use or retired.
    pub(crate) fn insert(&mut self, value: T) -> Option<Key> {
        let index = match self.free {
            Some(index) => {
                let slot = &mut self.slots[index as usize];
                if let Content::Vacant(next) = slot.content {
                    self.free = next;
                }
                slot.content = Content::Occupied(value);
                index
            }
            None => {
                let index = u32::try_from(self.slots.len()).ok()?;
                if self.slots.capacity() == 0 {
                    self.slots.reserve_exact(1);
                }
                self.slots.push(Slot { generation: self.first, content: Content::Occupied(value) });
                index
            }
        };
        self.len += 1;
        Some(Key { index, generation: self.slots[index as usize].generation })
    }

    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        match self.slots.get(key.index as usize)? {
            Slot { generation, content: Content::Occupied(value) } if *generation == key.generation => Some(value),
            Slot { .. } => None,
        }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        match self.slots.get_mut(key.index as usize)? {
            Slot { generation, content: Content::Occupied(value) } if *generation == key.generation => Some(value),
            Slot { .. } => None,
        }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        let slot = &mut self.slots[key.index as usize];
        let next = match slot.generation.checked_add(1) {
            Some(generation) => {
                slot.generation = generation;
                self.free.replace(key.index)
            }
            None => None, // retired: never on the free list again
        };
        self.len -= 1;
        match std::mem::replace(&mut slot.content, Content::Vacant(next)) {
            Content::Occupied(value) => Some(value),
            Content::Vacant(_) => None,
        }
    }

    /// Gives the memory of more than `keep` slots back once none is in use. Dead keys stay dead.
    pub(crate) fn shrink_if_empty(&mut self, keep: usize) {
        if self.len > 0 || self.slots.len() <= keep {
            return;
        }
        // The generation of a vacant slot was never given out; that of a retired one was, and there is none beyond it.
        let newest = self.slots.iter().map(|slot| slot.generation).max();
        if let Some(first) = newest.filter(|newest| *newest < NonZeroU32::MAX) {
            *self = Self { first, ..Self::default() };
        }
    }

    /// All values in slot order, which is deterministic.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| match &slot.content {
            Content::Occupied(value) => Some((Key { index: index as u32, generation: slot.generation }, value)),
            Content::Vacant(_) => None,
        })
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().filter_map(|slot| match &mut slot.content {
            Content::Occupied(value) => Some(value),
            Content::Vacant(_) => None,
        })
    }

    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_eight_bytes_also_as_an_option() {
        assert_eq!(size_of::<Key>(), 8);
        assert_eq!(size_of::<Option<Key>>(), 8);
    }

    #[test]
    fn a_dead_key_stays_dead_when_its_slot_is_reused() {
        let mut slab = Slab::default();
        let first = slab.insert('a').expect("room");
        assert_eq!(slab.remove(first), Some('a'));
        let second = slab.insert('b').expect("room");
        assert_eq!(second.index(), first.index());
        assert_eq!(slab.get(first), None);
        assert_eq!(slab.remove(first), None);
        assert_eq!(slab.get(second), Some(&'b'));
        assert_eq!(slab.len(), 1);
    }

    #[test]
    fn a_slot_whose_generations_are_used_up_is_retired() {
        let mut slab = Slab::default();
        let key = slab.insert('a').expect("room");
        slab.slots[0].generation = NonZeroU32::MAX;
        let last = Key { generation: NonZeroU32::MAX, ..key };
        assert_eq!(slab.remove(last), Some('a'));
        let next = slab.insert('b').expect("room");
        assert_eq!(next.index(), 1);
        assert_eq!(slab.get(last), None);
    }

    #[test]
    fn memory_given_back_does_not_revive_a_key() {
        let mut slab = Slab::default();
        let keys: Vec<_> = (0..3).map(|n| slab.insert(n).expect("room")).collect();
        slab.remove(keys[2]);
        slab.shrink_if_empty(1);
        assert_eq!(slab.slots.len(), 3, "slots are in use");
        slab.remove(keys[0]);
        slab.remove(keys[1]);
        slab.shrink_if_empty(3);
        assert_eq!(slab.slots.len(), 3, "few enough to keep");
        slab.shrink_if_empty(2);
        assert_eq!(slab.slots.capacity(), 0);
        for n in 0..3 {
            slab.insert(n).expect("room");
        }
        assert!(keys.iter().all(|key| slab.get(*key).is_none()));
        assert_eq!(slab.slots.len(), 3);
    }

    #[test]
    fn the_first_slot_comes_alone() {
        let mut slab = Slab::default();
        slab.insert(0_u64).expect("room");
        assert_eq!(slab.slots.capacity(), 1);
    }

    #[test]
    fn slots_are_reused_before_new_ones_are_made() {
        let mut slab = Slab::default();
        let keys: Vec<_> = (0..4).map(|n| slab.insert(n).expect("room")).collect();
        for key in &keys {
            slab.remove(*key);
        }
        for n in 0..4 {
            slab.insert(n).expect("room");
        }
        assert_eq!(slab.slots.len(), 4);
        assert_eq!(slab.iter().count(), 4);
    }
}
