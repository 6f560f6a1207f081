//! From the id on the wire to the handle inside.
//!
//! Owns the only map with session ids as keys, and the making of new ones. Only ids that were minted here are ever
//! inserted, so that no client chooses a key: a fixed hasher is safe, and deterministic. The map is never iterated.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::id::{IdSource, SessionId};
use crate::slab::Key;

/// How many ids a source is asked for before a session is refused.
const ATTEMPTS: usize = 4;

#[derive(Debug, Default)]
pub(super) struct IdMap(HashMap<SessionId, Key, BuildHasherDefault<IdHasher>>);

impl IdMap {
    /// An id that no live session has. `None` if the source repeats itself too often.
    pub(super) fn mint(&self, source: &mut impl IdSource) -> Option<SessionId> {
        (0..ATTEMPTS).map(|_| source.next_id()).find(|id| !self.0.contains_key(id))
    }

    pub(super) fn insert(&mut self, id: SessionId, key: Key) {
        self.0.insert(id, key);
    }

    pub(super) fn find(&self, id: &SessionId) -> Option<Key> {
        self.0.get(id).copied()
    }

    pub(super) fn remove(&mut self, id: &SessionId) {
        self.0.remove(id);
    }
}

/// Folds the bytes of an id. They are random already; the multiplication is for sources that are not, as in tests,
/// and for bits that a driver fixes.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            let product = u128::from(self.0.rotate_left(23) ^ u64::from_le_bytes(word)) * 0x9e37_79b9_7f4a_7c15;
            self.0 = product as u64 ^ (product >> 64) as u64;
        }
    }

    fn write_usize(&mut self, _length: usize) {
        // The length, which all ids share.
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn ids_that_differ_in_a_few_bits_spread_over_the_buckets() {
        let hasher = BuildHasherDefault::<IdHasher>::default();
        for place in [0, 7, 8, 15] {
            let buckets: BTreeSet<_> = (0..=255)
                .map(|byte| {
                    let mut bytes = [0; 16];
                    bytes[place] = byte;
                    hasher.hash_one(SessionId::from_bytes(bytes)) % 256
                })
                .collect();
            assert!(buckets.len() > 128, "byte {place} fills only {} of 256 buckets", buckets.len());
        }
    }

    #[test]
    fn a_source_that_repeats_itself_is_asked_four_times() {
        let mut map = IdMap::default();
        let key = crate::slab::Slab::default().insert(()).expect("room");
        map.insert(SessionId::from_bytes([1; 16]), key);
        let mut asked = 0;
        let minted = map.mint(&mut || {
            asked += 1;
            SessionId::from_bytes([if asked == 4 { 2 } else { 1 }; 16])
        });
        assert_eq!(minted, Some(SessionId::from_bytes([2; 16])));
        asked = 0;
        let minted = map.mint(&mut || {
            asked += 1;
            SessionId::from_bytes([1; 16])
        });
        assert_eq!((minted, asked), (None, 4));
    }
}
