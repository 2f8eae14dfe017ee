//! A cache with a limit in bytes.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Bytes of an entry beside its value: its slot in a map, and the overhead of an allocation.
const OVERHEAD: usize = 64;

/// Values by key, in two generations of half the limit each. When the young one is full it becomes the old one.
pub(super) struct Cache<K, V> {
    young: FxHashMap<K, V>,
    old: FxHashMap<K, V>,
    n_bytes_young: usize,
    n_bytes_max: usize,
    n_bytes_of: fn(&V) -> usize,
}

impl<K: Copy + Eq + Hash, V: Clone> Cache<K, V> {
    /// An empty cache of at most `n_bytes_max`; `n_bytes_of` measures a value.
    pub fn new(n_bytes_max: usize, n_bytes_of: fn(&V) -> usize) -> Self {
        Cache { young: FxHashMap::default(), old: FxHashMap::default(), n_bytes_young: 0, n_bytes_max, n_bytes_of }
    }

    /// The value of a key, which moves to the young generation.
    pub fn get(&mut self, key: K) -> Option<V> {
        if let Some(value) = self.young.get(&key) {
            return Some(value.clone());
        }
        let value = self.old.remove(&key)?;
        self.insert(key, value.clone());
        Some(value)
    }

    /// Adds a value.
    pub fn insert(&mut self, key: K, value: V) {
        let n_bytes = (self.n_bytes_of)(&value) + OVERHEAD;
        if self.n_bytes_young + n_bytes > self.n_bytes_max / 2 {
            self.old = std::mem::take(&mut self.young);
            self.n_bytes_young = 0;
        }
        self.n_bytes_young += n_bytes;
        self.young.insert(key, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_keeps_to_its_limit_and_what_is_used() {
        let mut cache = Cache::new(10 * (100 + OVERHEAD), |value: &Vec<u8>| value.len());
        for key in 1..100 {
            cache.insert(key, vec![0; 100]);
            cache.get(1).expect("used all the time, so kept");
            assert!(cache.young.len() + cache.old.len() <= 10);
        }
    }
}
