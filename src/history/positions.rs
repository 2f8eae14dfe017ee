//! Finds the items of a list that have some key in common, without a walk over the list for each question.

use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Where in a list the items of each key are. The list may grow, and is read on before a question.
#[derive(Clone, Debug)]
pub struct Positions<K> {
    n_read: usize,
    by_key: FxHashMap<K, Vec<u32>>,
}

impl<K> Default for Positions<K> {
    fn default() -> Self {
        Positions { n_read: 0, by_key: FxHashMap::default() }
    }
}

impl<K: Copy + Eq + Hash> Positions<K> {
    /// The positions in a whole list, by the key of each item; items without a key are left out.
    pub fn new<T>(list: &[T], key_of: impl Fn(&T) -> Option<K>) -> Self {
        let mut positions = Positions::default();
        positions.read_on(list, key_of);
        positions
    }

    /// Reads what the list has gained.
    pub fn read_on<T>(&mut self, list: &[T], key_of: impl Fn(&T) -> Option<K>) {
        for (at, item) in list.iter().enumerate().skip(self.n_read) {
            if let Some(key) = key_of(item) {
                self.by_key.entry(key).or_default().push(at as u32);
            }
        }
        self.n_read = list.len();
    }

    /// The items of a key among those that were read, in the order of the list.
    pub fn of<'l, T>(&self, key: K, list: &'l [T]) -> impl Iterator<Item = &'l T> {
        let positions = self.by_key.get(&key).map(Vec::as_slice).unwrap_or_default();
        positions.iter().map(|at| &list[*at as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_are_found_in_the_order_of_the_list_as_it_grows() {
        let key_of = |item: &i32| (*item > 0).then_some(item % 10);
        let mut list = vec![11, -1, 2, 21];
        let mut positions = Positions::new(&list, key_of);
        assert_eq!(positions.of(1, &list).collect::<Vec<_>>(), [&11, &21]);
        assert_eq!(positions.of(-1, &list).count(), 0);
        list.extend([31, 3]);
        assert_eq!(positions.of(1, &list).count(), 2, "not read on yet");
        positions.read_on(&list, key_of);
        positions.read_on(&list, key_of);
        assert_eq!(positions.of(1, &list).collect::<Vec<_>>(), [&11, &21, &31]);
        assert_eq!(positions.of(3, &list).collect::<Vec<_>>(), [&3]);
    }
}
