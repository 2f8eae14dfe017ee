//! Bags whose similarity is known, for tests.

use super::bag::{Bag, Term};
use super::signature::mix;
use std::collections::BTreeMap;

/// Two bags of the terms that `id` names, whose minima sum to `shared` and whose maxima sum to `either`: their similarity
/// is exactly `shared / either`. What they do not share is halved between them; some of it weighs on shared terms.
pub fn pair(id: u64, shared: u32, either: u32) -> (Bag, Bag) {
    let mut n = mix(id) << 8;
    let mut random = |below: u32| {
        n += 1;
        (mix(n) % u64::from(below)) as u32
    };
    let (mut ours, mut theirs) = (BTreeMap::new(), BTreeMap::new());
    let mut left = shared;
    while left > 0 {
        let term = random(u32::MAX);
        if ours.contains_key(&term) {
            continue;
        }
        let weight = (1 + random(8)).min(left);
        ours.insert(term, weight);
        theirs.insert(term, weight);
        left -= weight;
    }
    let common: Vec<u32> = ours.keys().copied().collect();
    let mut heavier: BTreeMap<u32, bool> = BTreeMap::new();
    for i in 0..either - shared {
        let is_ours = i % 2 == 0;
        // A term on which one bag weighs more is no longer free for the other.
        let term = common[random(common.len() as u32) as usize];
        let is_free = random(3) == 0 && *heavier.entry(term).or_insert(is_ours) == is_ours;
        let term = if is_free { term } else { random(u32::MAX) };
        *if is_ours { &mut ours } else { &mut theirs }.entry(term).or_insert(0) += 1;
    }
    let bag = |weights: BTreeMap<u32, u32>| {
        Bag::new(weights.into_iter().map(|(term, weight)| (Term(term), weight.min(255) as u8)).collect())
    };
    let (a, b) = (bag(ours), bag(theirs));
    assert_eq!((a.shared(&b), a.mass() + b.mass()), (shared, shared + either));
    (a, b)
}
