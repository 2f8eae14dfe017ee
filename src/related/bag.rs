//! Bags: the words about a URL, with whole weights.

/// A word of a bag, after stemming: 32 bits of its fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub u32);

/// The terms about a URL with their weights, which sum to the rule's mass, 100 by default (Haveliwala, Gionis and Indyk
/// 2000, section 2). It is empty where nothing is known about the URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bag(Box<[(Term, u8)]>);

impl Bag {
    /// Creates a bag of terms that differ. Terms of weight 0 are left out.
    pub fn new(mut weights: Vec<(Term, u8)>) -> Self {
        weights.retain(|(_, weight)| *weight > 0);
        weights.sort_unstable();
        Bag(weights.into())
    }

    /// The terms, the smallest first, with their weights.
    pub fn weights(&self) -> &[(Term, u8)] {
        &self.0
    }

    /// The sum of the weights.
    pub fn mass(&self) -> u32 {
        self.0.iter().map(|(_, weight)| u32::from(*weight)).sum()
    }

    /// The weight of a term; 0 if the bag lacks it.
    pub fn weight(&self, term: Term) -> u8 {
        self.0.binary_search_by_key(&term, |(own, _)| *own).map_or(0, |at| self.0[at].1)
    }

    /// The sum of the minima of both bags' weights.
    pub fn shared(&self, other: &Bag) -> u32 {
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut shared = 0;
        while let (Some((our_term, our_weight)), Some((their_term, their_weight))) = (ours.peek(), theirs.peek()) {
            match our_term.cmp(their_term) {
                std::cmp::Ordering::Less => drop(ours.next()),
                std::cmp::Ordering::Greater => drop(theirs.next()),
                std::cmp::Ordering::Equal => {
                    shared += u32::from(*our_weight.min(their_weight));
                    ours.next();
                    theirs.next();
                }
            }
        }
        shared
    }

    /// The similarity of two bags: the sum of the minima of their weights by the sum of the maxima (section 3). Two empty
    /// bags have similarity 0.
    pub fn similarity(&self, other: &Bag) -> f64 {
        let shared = self.shared(other);
        let either = self.mass() + other.mass() - shared;
        if either == 0 { 0.0 } else { f64::from(shared) / f64::from(either) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bag(weights: &[(u32, u8)]) -> Bag {
        Bag::new(weights.iter().map(|(term, weight)| (Term(*term), *weight)).collect())
    }

    #[test]
    fn similarity_is_minima_by_maxima() {
        let a = bag(&[(1, 50), (2, 50)]);
        for (b, shared, similarity) in [
            (bag(&[(3, 50), (1, 50)]), 50, 50.0 / 150.0),
            (bag(&[(1, 20), (4, 80)]), 20, 20.0 / 180.0),
            (a.clone(), 100, 1.0),
            (bag(&[(4, 100)]), 0, 0.0),
            (Bag::default(), 0, 0.0),
        ] {
            assert_eq!((a.shared(&b), a.similarity(&b)), (shared, similarity));
            assert_eq!(b.similarity(&a), similarity);
        }
        assert_eq!(Bag::default().similarity(&Bag::default()), 0.0);
    }
}
