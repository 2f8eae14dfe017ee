//! The live query: which URLs have the bags most like one bag, through the lists of its heaviest terms.
//!
//! A bag that sums to 100 is small enough to be compared itself, so a query needs neither signatures nor the paper's
//! sorting: a URL is listed under the heaviest terms of its bag, its champions, and the lists of all of the query's terms
//! nominate URLs by the weight that they share there.

use super::bag::{Bag, Term};
use super::rule::RelatedRule;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// Returns the champions of a bag: its heaviest terms, the smallest first among equals.
pub fn champions(bag: &Bag, rule: &RelatedRule) -> Vec<(Term, u8)> {
    let mut heaviest = heaviest_first(bag);
    heaviest.truncate(rule.champions);
    heaviest
}

fn heaviest_first(bag: &Bag) -> Vec<(Term, u8)> {
    let mut terms = bag.weights().to_vec();
    terms.sort_unstable_by_key(|(term, weight)| (Reverse(*weight), *term));
    terms
}

/// Collects nominations from the lists of a query's terms.
#[derive(Clone, Debug)]
pub struct Nominations<K> {
    shared: FxHashMap<K, u32>,
}

impl<K> Default for Nominations<K> {
    fn default() -> Self {
        Nominations { shared: FxHashMap::default() }
    }
}

impl<K: Ord + Copy + std::hash::Hash> Nominations<K> {
    /// Reads the lists of a query's terms, the heaviest term first, until the rule's `rows_max` is reached: light terms
    /// share little weight with any bag. `list` returns the URLs under a term, those with the most weight first, at most
    /// as many as it is told.
    ///
    /// # Errors
    /// The first error of `list`.
    pub fn read<E>(
        query: &Bag,
        rule: &RelatedRule,
        mut list: impl FnMut(Term, usize) -> Result<Vec<(K, u8)>, E>,
    ) -> Result<Self, E> {
        let mut nominations = Nominations::default();
        let mut n_left = rule.rows_max;
        for (term, weight) in heaviest_first(query) {
            if n_left == 0 {
                break;
            }
            let urls = list(term, rule.list_max.min(n_left))?;
            n_left = n_left.saturating_sub(urls.len());
            nominations.add(weight, urls.into_iter());
        }
        Ok(nominations)
    }

    /// Adds the list of a term that has this weight in the query: URLs with its weight in their bags.
    pub fn add(&mut self, weight: u8, list: impl Iterator<Item = (K, u8)>) {
        for (url, theirs) in list {
            *self.shared.entry(url).or_default() += u32::from(weight.min(theirs));
        }
    }

    /// The nominated URLs, those first that share the most weight, the smallest first among equals; at most `most`.
    pub fn best(self, most: usize) -> Vec<K> {
        let mut best: Vec<(Reverse<u32>, K)> =
            self.shared.into_iter().map(|(url, shared)| (Reverse(shared), url)).collect();
        if best.len() > most {
            best.select_nth_unstable(most);
            best.truncate(most);
        }
        best.sort_unstable();
        best.into_iter().map(|(_, url)| url).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_share_the_most_come_first() {
        let mut nominations = Nominations::default();
        nominations.add(40, [(1, 60), (2, 10), (3, 40)].into_iter());
        nominations.add(30, [(2, 40), (4, 5)].into_iter());
        assert_eq!(nominations.clone().best(9), [1, 2, 3, 4]);
        assert_eq!(nominations.best(2), [1, 2]);
    }

    #[test]
    fn the_heaviest_terms_are_read_first_and_no_more_than_the_rule_allows() {
        let query = Bag::new(vec![(Term(1), 10), (Term(2), 60), (Term(3), 30)]);
        let rule = RelatedRule { list_max: 3, rows_max: 5, ..RelatedRule::default() };
        let mut asked = Vec::new();
        let list = |term: Term, most| {
            asked.push((term, most));
            Ok::<_, ()>((0..4).map(|url| (url, 50)).take(most).collect())
        };
        let nominations = Nominations::read(&query, &rule, list).expect("no error");
        assert_eq!(nominations.best(9), [0, 1, 2]);
        assert_eq!(asked, [(Term(2), 3), (Term(3), 2)]);
        assert_eq!(Nominations::<u8>::read(&query, &rule, |_, _| Err("unreadable")).err(), Some("unreadable"));
    }

    #[test]
    fn champions_are_the_heaviest() {
        let bag = Bag::new(vec![(Term(4), 10), (Term(2), 10), (Term(9), 70), (Term(1), 5), (Term(3), 5)]);
        let rule = RelatedRule { champions: 3, ..RelatedRule::default() };
        assert_eq!(champions(&bag, &rule), [(Term(9), 70), (Term(2), 10), (Term(4), 10)]);
    }
}
