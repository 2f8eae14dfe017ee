//! Candidate pairs: bags whose signatures agree in k values that chance has chosen, l times over (Haveliwala, Gionis and
//! Indyk 2000, section 4, `ExtractSimilarPairs`).
//!
//! ```text
//! for each of l rounds:  signatures ─▶ key of k values, id ─▶ sorted ─▶ runs of equal keys ─▶ all pairs of a run
//! all pairs, distinct  ─▶ those whose signatures agree in enough values
//! ```
//!
//! A round finds a pair of similarity s with probability s^k. All rounds draw from the same m values, so they find a little
//! less than 1 - (1 - s^k)^l of the pairs: with 80 values 57 % at s = 0.2, 91 % at 0.3, 99.5 % at 0.4.

use super::key_sort::KeyedId;
use super::signature::{Signature, SignatureRule, mix};
use crate::document::Seed;

/// Which pairs of bags are candidates, and which of them are similar.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CandidateRule {
    /// The l of the paper: rounds.
    pub rounds: usize,
    /// The k of the paper: values that must agree in a round.
    pub values: usize,
    /// With how many members after it a member of a run is paired; see [`pairs`].
    pub reach: usize,
    /// The smallest share of agreeing values of a similar pair.
    pub agreement_min: f64,
}

impl Default for CandidateRule {
    /// The paper's rule; `reach` is ours.
    fn default() -> Self {
        CandidateRule { rounds: 125, values: 3, reach: 64, agreement_min: 0.2 }
    }
}

impl CandidateRule {
    /// Returns what is wrong with the rule for such signatures, if anything.
    pub fn problem(&self, signature: &SignatureRule) -> Option<String> {
        let m = signature.m;
        match self {
            _ if self.rounds == 0 => Some("rounds is 0, must be at least 1".into()),
            _ if !(1..=m).contains(&self.values) => {
                Some(format!("values is {}, must be 1 to {m}, as many as a signature has", self.values))
            }
            _ if self.reach == 0 => Some("reach is 0, must be at least 1 member of a run".into()),
            _ if !(0.0..=1.0).contains(&self.agreement_min) => {
                Some(format!("agreement_min is {}, must be 0 to 1", self.agreement_min))
            }
            _ => None,
        }
    }

    /// Whether two signatures agree in enough values.
    pub fn accepts<A: AsRef<[u8]>, B: AsRef<[u8]>>(&self, a: &Signature<A>, b: &Signature<B>) -> bool {
        a.agreement(b) >= self.agreement_min
    }
}

/// The positions whose values make the key of each round.
#[derive(Clone, Debug)]
pub struct Positions {
    values: usize,
    /// The k positions of round 0, of round 1, and so on.
    positions: Vec<u32>,
}

impl Positions {
    /// Chooses distinct positions for every round, by the seed.
    pub fn new(rule: &CandidateRule, signature: &SignatureRule, seed: &Seed) -> Self {
        let mut numbers = (0..).map(|n| seed.derive("related-positions", n));
        let mut positions = Vec::with_capacity(rule.rounds * rule.values);
        let mut free: Vec<u32> = Vec::new();
        for _ in 0..rule.rounds {
            free.clear();
            free.extend(0..signature.m as u32);
            let chosen = numbers.by_ref().take(rule.values);
            positions.extend(chosen.map(|number| free.swap_remove((number % free.len() as u64) as usize)));
        }
        Positions { values: rule.values, positions }
    }

    /// The number of rounds.
    pub fn n_rounds(&self) -> usize {
        self.positions.len() / self.values
    }

    /// The key of a signature in a round below [`n_rounds`](Self::n_rounds): 64 mixed bits of k values of 24 bits.
    /// Signatures that differ in these values have equal keys with probability 2^-64.
    pub fn key<B: AsRef<[u8]>>(&self, signature: &Signature<B>, round: usize) -> u64 {
        let positions = &self.positions[round * self.values..][..self.values];
        positions.iter().fold(0, |key, at| mix(key ^ u64::from(signature.value(*at as usize)) << 24))
    }
}

/// Gives every pair of ids with equal keys once, the smaller id first. `records` are sorted by key and id.
///
/// In a run of more than 2 `reach` + 1 members, such as a hundred thousand pages of one template, not all are paired:
/// each is paired with the `reach` members that follow it in the order of ids, and the last ones also with the first. So
/// every member of such a run has 2 `reach` partners, whatever order the records came in, and a run of n members gives
/// at most n · `reach` pairs.
pub fn pairs(records: &[KeyedId], reach: usize, mut found: impl FnMut(u32, u32)) {
    for run in records.chunk_by(|a, b| a.key == b.key) {
        let n = run.len();
        for (at, member) in run.iter().enumerate() {
            let end = if n / 2 <= reach { n } else { at + 1 + reach };
            run[at + 1..end.min(n)].iter().for_each(|next| found(member.id, next.id));
            run[..end.saturating_sub(n)].iter().for_each(|first| found(first.id, member.id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::key_sort::KeySorter;
    use super::super::signature::Signer;
    use super::super::test_bags::pair;
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn found_pairs(records: &[KeyedId], reach: usize) -> Vec<(u32, u32)> {
        let mut found = Vec::new();
        pairs(records, reach, |u, v| found.push((u, v)));
        found
    }

    fn run(n: u32) -> Vec<KeyedId> {
        (0..n).map(|id| KeyedId { key: 5, id: 10 * id }).collect()
    }

    #[test]
    fn all_pairs_of_short_runs() {
        for n in 0..8 {
            let expected: Vec<(u32, u32)> = (0..n).flat_map(|u| (u + 1..n).map(move |v| (10 * u, 10 * v))).collect();
            assert_eq!(found_pairs(&run(n), 3), expected, "{n}");
        }
    }

    #[test]
    fn runs_are_kept_apart() {
        let records = [(1, 4), (1, 9), (2, 0), (3, 1), (3, 2), (3, 7)].map(|(key, id)| KeyedId { key, id });
        assert_eq!(found_pairs(&records, 2), [(4, 9), (1, 2), (1, 7), (2, 7)]);
    }

    #[test]
    fn members_of_long_runs_have_as_many_partners_each() {
        for (n, reach) in [(8, 3), (9, 3), (1000, 3), (3, 1), (4, 1)] {
            let found = found_pairs(&run(n), reach);
            assert!(found.iter().all(|(u, v)| u < v));
            assert_eq!(BTreeSet::from_iter(&found).len(), found.len(), "a pair twice");
            let mut n_partners: BTreeMap<u32, usize> = BTreeMap::new();
            found.iter().flat_map(|(u, v)| [u, v]).for_each(|id| *n_partners.entry(*id).or_default() += 1);
            assert_eq!(n_partners.len(), n as usize);
            assert!(n_partners.values().all(|count| *count == 2 * reach), "{n} {reach}");
        }
    }

    #[test]
    fn positions_are_distinct_within_a_round_and_spread() {
        let signature = SignatureRule::default();
        for (rounds, values) in [(125, 3), (1, 80), (4, 1)] {
            let rule = CandidateRule { rounds, values, ..CandidateRule::default() };
            let positions = Positions::new(&rule, &signature, &Seed([1, 2, 3, 4]));
            assert_eq!(positions.n_rounds(), rounds);
            for round in positions.positions.chunks(values) {
                assert_eq!(BTreeSet::from_iter(round).len(), values);
                assert!(round.iter().all(|at| *at < 80));
            }
        }
        let positions = Positions::new(&CandidateRule::default(), &signature, &Seed([1, 2, 3, 4]));
        assert!(BTreeSet::from_iter(positions.positions).len() > 70);
    }

    #[test]
    fn keys_are_equal_where_all_values_are() {
        let rule = CandidateRule { rounds: 20, ..CandidateRule::default() };
        let positions = Positions::new(&rule, &SignatureRule { m: 8 }, &Seed([1, 2, 3, 4]));
        let ours = Signature::from_bytes([7; 24]);
        for changed in 0..8 {
            let mut bytes = [7; 24];
            bytes[8 + changed] = 9;
            let theirs = Signature::from_bytes(bytes);
            for round in 0..20 {
                let is_chosen = positions.positions[3 * round..][..3].contains(&(changed as u32));
                assert_eq!(positions.key(&ours, round) != positions.key(&theirs, round), is_chosen);
            }
        }
    }

    #[test]
    fn problems_are_told() {
        let (default, signature) = (CandidateRule::default(), SignatureRule::default());
        assert_eq!(default.problem(&signature), None);
        for wrong in [
            CandidateRule { rounds: 0, ..default },
            CandidateRule { values: 81, ..default },
            CandidateRule { values: 0, ..default },
            CandidateRule { reach: 0, ..default },
            CandidateRule { agreement_min: f64::NAN, ..default },
        ] {
            assert!(wrong.problem(&signature).is_some(), "{wrong:?}");
        }
    }

    /// Pairs of bags of every seed and similarity.
    const N_PAIRS: u64 = 500;

    /// The share of pairs of similarity `shared / either` that the rounds find, and the share that the filter leaves.
    fn recall(shared: u32, either: u32) -> (f64, f64) {
        let (rule, signature_rule) = (CandidateRule::default(), SignatureRule::default());
        let (mut n_candidates, mut n_accepted) = (0, 0);
        for n in 0..8 {
            let seed = Seed([n, 2, 3, 4]);
            let mut signer = Signer::new(&signature_rule, &seed);
            let positions = Positions::new(&rule, &signature_rule, &seed);
            for id in 0..N_PAIRS {
                let (a, b) = pair(n * N_PAIRS + id, shared, either);
                let (a, b) = (signer.sign(&a).unwrap(), signer.sign(&b).unwrap());
                if (0..rule.rounds).any(|round| positions.key(&a, round) == positions.key(&b, round)) {
                    n_candidates += 1;
                    n_accepted += u32::from(rule.accepts(&a, &b));
                }
            }
        }
        let n = 8.0 * N_PAIRS as f64;
        (f64::from(n_candidates) / n, f64::from(n_accepted) / n)
    }

    /// The expected shares follow from the binomial number of agreeing values among 80.
    #[test]
    fn pairs_are_found_as_often_as_calculated() {
        for (shared, either, candidates, accepted) in
            [(30, 150, 0.567, 0.404), (40, 160, 0.774, 0.726), (45, 150, 0.905, 0.897), (56, 140, 0.995, 0.995)]
        {
            let found = recall(shared, either);
            println!("s {:.2}: {:.3} {:.3}", f64::from(shared) / f64::from(either), found.0, found.1);
            assert!((found.0 - candidates).abs() <= 0.03, "{shared} of {either}: {} found", found.0);
            assert!((found.1 - accepted).abs() <= 0.03, "{shared} of {either}: {} accepted", found.1);
        }
    }

    /// The whole way: a round after round over the same bags, in any order, gives the same pairs.
    #[test]
    fn pairs_do_not_depend_on_the_order_of_signatures() {
        let (rule, signature_rule) =
            (CandidateRule { rounds: 10, reach: 2, ..CandidateRule::default() }, SignatureRule::default());
        let seed = Seed([1, 2, 3, 4]);
        let positions = Positions::new(&rule, &signature_rule, &seed);
        let mut signer = Signer::new(&signature_rule, &seed);
        // Eleven copies of every bag, so that runs are longer than the reach.
        let mut signatures: Vec<(u32, Signature)> =
            (0..220).map(|id| (id, signer.sign(&pair(u64::from(id % 20), 50, 150).0).unwrap())).collect();
        let all = |signatures: &[(u32, Signature)]| {
            let mut found = BTreeSet::new();
            let mut sorter = KeySorter::default();
            for round in 0..rule.rounds {
                let record =
                    |(id, signature): &(u32, Signature)| KeyedId { key: positions.key(signature, round), id: *id };
                let mut records: Vec<KeyedId> = signatures.iter().map(record).collect();
                sorter.sort(&mut records);
                pairs(&records, rule.reach, |u, v| found.extend([(u, v)]));
            }
            found
        };
        let expected = all(&signatures);
        assert!(expected.len() >= 220 * 2, "{}", expected.len());
        signatures.sort_by_key(|(id, _)| mix(u64::from(*id)));
        assert_eq!(all(&signatures), expected);
    }
}
