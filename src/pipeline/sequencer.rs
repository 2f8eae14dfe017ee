//! Restores the order of arrival behind the sketchers, which finish in any order.

use std::collections::BTreeMap;

/// An item with its number in order of arrival.
pub(super) struct Ticketed<T> {
    pub ticket: u64,
    pub item: T,
}

/// Holds back items that come early. Backpressure bounds how many.
pub(super) struct Sequencer<T> {
    next: u64,
    early: BTreeMap<u64, T>,
}

impl<T> Sequencer<T> {
    pub fn new() -> Self {
        Sequencer { next: 0, early: BTreeMap::new() }
    }

    pub fn push(&mut self, ticketed: Ticketed<T>) {
        self.early.insert(ticketed.ticket, ticketed.item);
    }

    /// The next item in order, if it has come.
    pub fn pop(&mut self) -> Option<T> {
        let entry = self.early.first_entry().filter(|entry| *entry.key() == self.next)?;
        self.next += 1;
        Some(entry.remove())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_out_in_the_order_of_their_tickets() {
        let mut sequencer = Sequencer::new();
        let mut out = Vec::new();
        for ticket in [2, 0, 3, 1, 4] {
            sequencer.push(Ticketed { ticket, item: ticket });
            out.push(std::iter::from_fn(|| sequencer.pop()).collect::<Vec<_>>());
        }
        assert_eq!(out, [vec![], vec![0], vec![], vec![1, 2, 3], vec![4]]);
    }
}
