//! The sketch of what several documents have in common: the representative of a cluster (Broder, "On the resemblance
//! and containment of documents", section 4.4).
//!
//! The representative is a made-up document. It has as many shingles as the members have on average, and
//! those are the most popular ones. Its sketch follows from the members' sketches, in their form:
//!
//! - **Samples** are cut to the smallest of the members' bounds, below which all are complete. What remains of each is
//!   the same sample of its document, so the most popular of the sampled shingles are a sample of the most popular
//!   ones. As many are kept as a member has below the bound on average.
//! - **Whole documents** are samples with nothing left out. The n-th shingle of a document that begins with the same 16
//!   bits counts as a shingle of its own.
//! - **Bitmaps** are folded to the smallest of them, and a document that is kept whole is turned into one. The majority
//!   of each bit gives the bitmap of what most members have; of the bits on which the members are divided evenly, every
//!   other one is set. It stands for more or fewer shingles than a member has on average, and each shingle too many or
//!   too few flips a bit: one with the least majority, but not one on which they are divided, because that would undo
//!   what the choice there has done.
//!
//! Where all are equally popular the value decides, its lowest bit first. So the chosen ones come from the whole range,
//! and a comparison that looks at a part of it finds its share of them.

use super::confirmation::Confirmation;
use super::parity;
use super::sample::{Sketch, SketchForm};
use super::shingle::Shingle;
use std::cmp::Reverse;
use std::collections::HashMap;

impl Sketch {
    /// The sketch of the shingles that are most popular among some documents, sketched by one rule. That of a single
    /// document is its own sketch, and that of no document is empty.
    pub fn popular(members: &[&Sketch]) -> Sketch {
        let n_members = members.len().max(1) as u64;
        let n_shingles: u64 = members.iter().map(|member| u64::from(member.n_shingles)).sum();
        let confirmations: Option<Vec<Confirmation>> = members.iter().map(|member| member.confirmation).collect();
        Sketch {
            n_shingles: rounded_mean(n_shingles, n_members) as u32,
            form: popular_samples(members).or_else(|| popular_tops(members)).unwrap_or_else(|| popular_bits(members)),
            confirmation: confirmations.filter(|all| !all.is_empty()).map(|all| Confirmation::popular(&all)),
        }
    }
}

/// The representative of samples; `None` if a member is none.
fn popular_samples(members: &[&Sketch]) -> Option<SketchForm> {
    let sample = |member: &&'_ Sketch| match &member.form {
        SketchForm::Sample { values, bound } => Some((values.clone(), *bound)),
        SketchForm::Whole(_) | SketchForm::Parity(_) => None,
    };
    let samples: Vec<(Vec<Shingle>, u128)> = members.iter().map(sample).collect::<Option<_>>()?;
    let bound = samples.iter().map(|(_, bound)| *bound).min().unwrap_or_default();
    let below = |value: &Shingle| u128::from(*value) < bound;
    let values = samples.into_iter().map(|(values, _)| values.into_iter().take_while(below));
    Some(SketchForm::Sample { values: most_popular(values), bound })
}

/// The representative of documents that are kept whole; `None` if a member is not.
fn popular_tops(members: &[&Sketch]) -> Option<SketchForm> {
    let tops = |member: &&'_ Sketch| match &member.form {
        SketchForm::Whole(tops) => Some(numbered(tops)),
        SketchForm::Sample { .. } | SketchForm::Parity(_) => None,
    };
    let tops: Vec<Vec<u64>> = members.iter().map(tops).collect::<Option<_>>()?;
    let tops = most_popular(tops.into_iter());
    Some(SketchForm::Whole(tops.into_iter().map(|top| (top >> 32) as u16).collect()))
}

/// Ascending numbers, each with how often it came before in its low 32 bits.
fn numbered(tops: &[u16]) -> Vec<u64> {
    let equal = tops.chunk_by(u16::eq);
    equal.flat_map(|equal| (0..).zip(equal).map(|(nth, top)| u64::from(*top) << 32 | nth)).collect()
}

/// The representative of bitmaps and of documents that are kept whole.
fn popular_bits(members: &[&Sketch]) -> SketchForm {
    let n_bits = |member: &&Sketch| match &member.form {
        SketchForm::Parity(words) => words.len() * 64,
        SketchForm::Sample { .. } | SketchForm::Whole(_) => parity::BITS_OF_TOPS,
    };
    let n_bits = members.iter().map(n_bits).min().unwrap_or(parity::BITS_MIN);
    let bitmap = |member: &&Sketch| match &member.form {
        SketchForm::Parity(words) => parity::folded_to(words.clone(), n_bits),
        SketchForm::Whole(tops) => parity::folded_to(parity::bitmap_of_tops(tops, n_bits), n_bits),
        SketchForm::Sample { .. } => vec![0; n_bits / 64],
    };
    let bitmaps: Vec<Vec<u64>> = members.iter().map(bitmap).collect();
    SketchForm::Parity(majority(&bitmaps, n_bits))
}

/// The representative of bitmaps of one size.
fn majority(bitmaps: &[Vec<u64>], n_bits: usize) -> Vec<u64> {
    let n_set = |bit: usize| bitmaps.iter().filter(|words| words[bit / 64] >> (bit % 64) & 1 == 1).count();
    let mut majority = vec![0u64; n_bits / 64];
    let mut by_margin: Vec<(usize, u64)> = Vec::new();
    let mut n_divided = 0;
    for bit in 0..n_bits {
        let n_twice = 2 * n_set(bit);
        let margin = n_twice.abs_diff(bitmaps.len());
        if margin > 0 {
            by_margin.push((margin, (bit as u64).reverse_bits()));
        } else {
            n_divided += 1;
        }
        let is_set = n_twice > bitmaps.len() || margin == 0 && n_divided % 2 == 1;
        majority[bit / 64] |= u64::from(is_set) << (bit % 64);
    }
    let mean = bitmaps.iter().map(|words| parity::n_shingles(words)).sum::<f64>() / bitmaps.len().max(1) as f64;
    let n_astray = (mean - parity::n_shingles(&majority)).abs();
    let n_flips = (parity::n_ones(n_astray, n_bits as f64).round() as usize).min(by_margin.len());
    if n_flips < by_margin.len() {
        by_margin.select_nth_unstable(n_flips);
    }
    for (_, reversed) in &by_margin[..n_flips] {
        let bit = reversed.reverse_bits();
        majority[bit as usize / 64] ^= 1 << (bit % 64);
    }
    majority
}

/// The most popular items of several sets, ascending, as many as a set has on average.
fn most_popular(sets: impl ExactSizeIterator<Item = impl IntoIterator<Item = u64>>) -> Vec<u64> {
    let n_sets = sets.len().max(1) as u64;
    let mut counts: HashMap<u64, u32> = HashMap::new();
    sets.flatten().for_each(|item| *counts.entry(item).or_default() += 1);
    let n_items = rounded_mean(counts.values().map(|n| u64::from(*n)).sum(), n_sets) as usize;
    let mut ranked: Vec<(Reverse<u32>, u64)> =
        counts.into_iter().map(|(item, n)| (Reverse(n), item.reverse_bits())).collect();
    if n_items < ranked.len() {
        ranked.select_nth_unstable(n_items);
        ranked.truncate(n_items);
    }
    let mut items: Vec<u64> = ranked.into_iter().map(|(_, reversed)| reversed.reverse_bits()).collect();
    items.sort_unstable();
    items
}

fn rounded_mean(sum: u64, n: u64) -> u64 {
    (sum + n / 2) / n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Seed;
    use crate::sketch::confirmation::ConfirmationSketcher;
    use crate::sketch::{Rule, SketchRule, compare};
    use proptest::prelude::*;

    const RULES: [Rule; 7] = [
        Rule::All,
        Rule::Mod { modulus: 5 },
        Rule::Min { size: 300 },
        Rule::MinOfMod { size: 200, modulus: 4 },
        Rule::Adaptive { size: 400 },
        Rule::Parity { size: 384, error_per_mille: 16 },
        Rule::Parity { size: 1024, error_per_mille: 16 },
    ];

    fn rule(rule: Rule) -> SketchRule {
        SketchRule { rule, ..SketchRule::default() }
    }

    /// The sketch of some of a seed's numbers, with its confirmation.
    fn sketch(of: Rule, seed: u64, numbers: impl Iterator<Item = u64>) -> Sketch {
        let seed = Seed([seed, 7, 0, 0]);
        let mut shingles: Vec<u64> = numbers.map(|i| seed.derive("n", i) >> 24).collect();
        let confirmation = Some(ConfirmationSketcher::new(&seed).confirmation(&shingles));
        Sketch { confirmation, ..rule(of).sketch(&mut shingles) }
    }

    fn popular(members: &[Sketch]) -> Sketch {
        Sketch::popular(&members.iter().collect::<Vec<_>>())
    }

    #[test]
    fn the_most_popular_come_first_and_ties_go_by_the_lowest_bit() {
        let of = |sets: &[&[u64]]| most_popular(sets.iter().map(|set| set.iter().copied()));
        assert_eq!(of(&[&[1, 2, 3], &[2, 3, 4], &[3, 4, 5]]), [2, 3, 4]);
        assert_eq!(of(&[&[1, 9, 11], &[2, 9, 12], &[3, 9, 16]]), [9, 12, 16], "16 ends with more zeros than 12 and 2");
        assert_eq!(of(&[&[1, 2], &[1, 2, 3, 4]]), [1, 2, 4], "three on average");
        assert!(of(&[]).is_empty());
    }

    #[test]
    fn one_document_is_its_own_representative() {
        for rule in RULES {
            for n in [0, 1, 100, 384, 3000] {
                let own = sketch(rule, n, 0..n);
                assert_eq!(popular(std::slice::from_ref(&own)), own, "{rule:?} of {n}");
            }
        }
        assert_eq!(Sketch::popular(&[]).n_shingles, 0);
    }

    /// 16 bits of different shingles may be equal; each copy counts.
    #[test]
    fn copies_of_leading_bits_are_kept() {
        let whole = |tops: &[u16]| Sketch {
            n_shingles: tops.len() as u32,
            form: SketchForm::Whole(tops.to_vec()),
            confirmation: None,
        };
        let found = popular(&[whole(&[5, 5, 8, 9]), whole(&[5, 5, 5, 9]), whole(&[2, 5, 5, 7])]);
        assert_eq!(found, whole(&[5, 5, 8, 9]), "5 twice in three, 9 in two, and 8 of those in one");
    }

    /// Documents of one template of `common` shingles and `own` of their own. Their representative is one more of them:
    /// what they do not share fills it up. So another document has the resemblance to it that the members have to each
    /// other. Means over many seeds, under every rule and in every form.
    #[test]
    fn the_estimate_is_that_of_the_common_part() {
        for (common, own, n_members) in
            [(700, 300, 2), (700, 300, 3), (700, 300, 10), (240, 60, 10), (330, 90, 10), (9000, 1000, 10)]
        {
            let truth = common as f64 / (common + 2 * own) as f64;
            for rule in RULES {
                let rounds = 20;
                let resemblance = |seed| {
                    let page =
                        |nth: u64| sketch(rule, seed, (0..common).chain(common + nth * own..common + (nth + 1) * own));
                    let representative = popular(&(0..n_members).map(page).collect::<Vec<_>>());
                    compare(&representative, &page(n_members), rule).resemblance
                };
                let mean = (0..rounds).map(resemblance).sum::<f64>() / rounds as f64;
                let case = format!("{rule:?} of {common} and {own}, {n_members} members");
                assert!((mean - truth).abs() < 0.025, "{case}: {mean}, truth {truth}");
            }
        }
    }

    /// The representative's confirmation allows what has the common part and refuses what has not.
    #[test]
    fn the_confirmation_is_that_of_the_common_part() {
        let page = |nth: u64| sketch(Rule::Min { size: 8 }, 1, (0..700).chain(700 + nth * 300..1000 + nth * 300));
        let representative = popular(&(0..10).map(page).collect::<Vec<_>>());
        assert!(page(10).confirms(&representative, 0.5));
        assert!(!sketch(Rule::Min { size: 8 }, 1, 9000..10_000).confirms(&representative, 0.5));
        let unconfirmed = Sketch { confirmation: None, ..page(1) };
        assert_eq!(popular(&[page(0), unconfirmed]).confirmation, None);
    }

    proptest! {
        /// Documents kept whole and bitmaps of several sizes, in any order.
        #[test]
        fn the_order_of_the_members_does_not_matter(
            sizes in prop::collection::vec(1u64..6000, 1..6),
            rule in prop::sample::select(RULES.to_vec()),
        ) {
            let mut members: Vec<Sketch> = sizes.iter().map(|n| sketch(rule, 1, 0..*n)).collect();
            let found = popular(&members);
            members.reverse();
            prop_assert_eq!(popular(&members), found);
        }
    }
}
