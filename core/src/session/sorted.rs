//! A small ordered map in one vector: no allocation once it has grown, no hashing of what peers choose.

use crate::session::LARGE;

/// Keys with values, sorted. Look-up is a binary search; inserting moves what lies behind, which for the
/// bounded tables of a session is cheaper than a tree's nodes.
#[derive(Debug)]
pub(super) struct SortedMap<K, V> {
    entries: Vec<(K, V)>,
}

impl<K, V> Default for SortedMap<K, V> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<K: Ord, V> SortedMap<K, V> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn find(&self, key: &K) -> Result<usize, usize> {
        self.entries.binary_search_by(|(other, _)| other.cmp(key))
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.find(key).is_ok()
    }

    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.find(key).ok().map(|at| &self.entries[at].1)
    }

    pub(super) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.find(key).ok().map(|at| &mut self.entries[at].1)
    }

    /// Inserts, replacing what was there.
    pub(super) fn insert(&mut self, key: K, value: V) {
        match self.find(&key) {
            Ok(at) => self.entries[at].1 = value,
            Err(at) => {
                if self.entries.capacity() == 0 {
                    // Most sessions have one at a time: don't begin with room for four.
                    self.entries.reserve_exact(1);
                }
                self.entries.insert(at, (key, value));
            }
        }
    }

    pub(super) fn remove(&mut self, key: &K) -> Option<V> {
        let value = self.find(key).ok().map(|at| self.entries.remove(at).1);
        if self.entries.is_empty() && self.entries.capacity() > LARGE {
            self.entries = Vec::new();
        }
        value
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, value)| (key, value))
    }

    pub(super) fn clear(&mut self) {
        self.entries = Vec::new();
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.entries.capacity()
    }
}
