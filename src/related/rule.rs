//! Related rules: which words make a bag, and how many pages may answer.

use super::candidate_pairs::CandidateRule;
use super::signature::SignatureRule;
use super::stop_words::StopWords;
use serde::{Deserialize, Serialize};

/// How bags are made and compared: the keys of `[related]`. What pages say about URLs is kept as words, so that only
/// `window`, `stop_words`, `titles` and `per_page_max` concern what is kept; all others may change from build to build.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelatedRule {
    /// Whether pages are read for related pages at all.
    pub on: bool,
    /// What fills a bag.
    pub bags: BagKind,
    /// Words before and after a link's own that belong to it (section 2.2).
    pub window: usize,
    /// Where the words of a title go.
    pub titles: Titles,
    /// Which words are too common in any text.
    pub stop_words: StopWords,
    /// How words are reduced to terms.
    pub stemmer: Stemmer,
    /// How terms are weighed.
    pub weight: Weight,
    /// The sum of a bag's weights, at most 255; 100 in the paper.
    pub mass: u8,
    /// Terms in fewer bags than this are left out.
    pub low_df: u32,
    /// Terms in more than this share of the bags are left out.
    pub high_df: f64,
    /// Fragments about one URL from one host that count, at most; 0: all, repeated ones as often as they occur.
    pub per_host_max: usize,
    /// Fragments about one URL that count, at most; 0: all.
    pub per_target_max: usize,
    /// Links of one page that count, at most; 0: all.
    pub per_page_max: usize,
    /// The heaviest terms of a bag, under which it is found.
    pub champions: usize,
    /// Bags that are read under one term, at most, the heaviest first.
    pub list_max: usize,
    /// Bags that are read under all terms of a query together, at most; the heaviest terms are read first.
    #[serde(default = "rows_max")]
    pub rows_max: usize,
    /// Bags that are compared for one answer, at most.
    pub verified_max: usize,
    /// The m of the paper: values in a signature.
    pub signature_size: usize,
    /// The k of the paper: values of a signature that must agree in a round.
    pub positions: usize,
    /// The l of the paper: rounds.
    pub rounds: usize,
    /// Bags with equal values in a round with which each is paired, at most, on either side; 0: all.
    pub reach: usize,
    /// What decides which candidate pairs are similar.
    pub filter: PairFilter,
    /// The least similarity of a similar pair.
    pub min_similarity: f64,
    /// Milliseconds between two times that `run` brings bags up to date; 0: never.
    pub refresh_ms: u64,
}

impl Default for RelatedRule {
    fn default() -> Self {
        RelatedRule {
            on: false,
            bags: BagKind::Half,
            window: 16,
            titles: Titles::Own,
            stop_words: StopWords::Short,
            stemmer: Stemmer::None,
            weight: Weight::Idf,
            mass: 100,
            low_df: 2,
            high_df: 0.1,
            per_host_max: 16,
            per_target_max: 256,
            per_page_max: 128,
            champions: 32,
            list_max: 1000,
            rows_max: rows_max(),
            verified_max: 128,
            signature_size: 80,
            positions: 3,
            rounds: 125,
            reach: 64,
            filter: PairFilter::Bags,
            min_similarity: 0.2,
            refresh_ms: 60_000,
        }
    }
}

/// The default of `rows_max`. Builds of older stores have none.
fn rows_max() -> usize {
    12_000
}

/// The widest window. A page's text is kept once for each link whose window it lies in.
const WINDOW_MAX: usize = 1000;

/// The most rounds: each sorts all bags.
const ROUNDS_MAX: usize = 10_000;

impl RelatedRule {
    /// Names each key in which this rule reads pages in another way than `wanted`, with both values. Fragments that were
    /// read in two ways cannot be told apart.
    pub fn reading_differences(&self, wanted: &RelatedRule) -> Vec<String> {
        let keys = |rule: &RelatedRule| {
            [
                ("window", rule.window.to_string()),
                ("titles", format!("{:?}", rule.titles)),
                ("stop_words", format!("{:?}", rule.stop_words)),
                ("per_page_max", rule.per_page_max.to_string()),
                ("per_host_max", if rule.per_host_max == 0 { "0".to_string() } else { "over 0".to_string() }),
            ]
        };
        let differs = |((key, here), (_, there)): ((&str, String), (&str, String))| {
            (here != there).then(|| format!("related.{key} is {here} there and {there} here"))
        };
        keys(self).into_iter().zip(keys(wanted)).filter_map(differs).collect()
    }

    /// How many bags are compared for an answer of `limit` URLs, at most: twice as many, since copies are left out.
    pub fn compared_max(&self, limit: usize) -> usize {
        self.verified_max.max(limit.saturating_mul(2))
    }

    /// How bags are signed.
    pub fn signature(&self) -> SignatureRule {
        SignatureRule { m: self.signature_size }
    }

    /// How candidate pairs are found.
    pub fn candidates(&self) -> CandidateRule {
        let reach = if self.reach == 0 { usize::MAX } else { self.reach };
        CandidateRule { rounds: self.rounds, values: self.positions, reach, agreement_min: self.min_similarity }
    }

    /// Returns what is wrong with the rule, if anything.
    pub fn problem(&self) -> Option<String> {
        let is_share = |share: f64| share > 0.0 && share <= 1.0;
        if self.mass == 0 {
            return Some("mass is 0, must be 1 to 255".into());
        }
        if self.window > WINDOW_MAX {
            return Some(format!("window is {}, must be at most {WINDOW_MAX} words", self.window));
        }
        if !is_share(self.high_df) {
            return Some(format!("high_df is {}, must be over 0 and at most 1", self.high_df));
        }
        for (key, value) in [
            ("champions", self.champions),
            ("list_max", self.list_max),
            ("rows_max", self.rows_max),
            ("verified_max", self.verified_max),
        ] {
            if value == 0 {
                return Some(format!("{key} is 0, must be at least 1"));
            }
        }
        if self.signature().problem().is_some() {
            let most = SignatureRule::VALUES_MAX;
            return Some(format!("signature_size is {}, must be 1 to {most} values", self.signature_size));
        }
        if !(1..=self.signature_size).contains(&self.positions) {
            let (k, m) = (self.positions, self.signature_size);
            return Some(format!("positions is {k}, must be 1 to {m}, as many as a signature has"));
        }
        if !(1..=ROUNDS_MAX).contains(&self.rounds) {
            return Some(format!("rounds is {}, must be 1 to {ROUNDS_MAX}", self.rounds));
        }
        (!is_share(self.min_similarity))
            .then(|| format!("min_similarity is {}, must be over 0 and at most 1", self.min_similarity))
    }
}

/// What fills a bag (section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BagKind {
    /// The words of the page itself (section 2.1).
    Content,
    /// What other pages say where they link to it (section 2.2).
    Anchors,
    /// Half the mass from each; all of it from one where the other is empty.
    Half,
}

/// Where the words of a page's title go in bags of anchors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Titles {
    /// Into the bag of the page that has it.
    Own,
    /// Into each fragment that the page says about others, as in the paper.
    Linking,
}

/// How words are reduced to terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stemmer {
    /// A word is a term.
    None,
    /// Porter's stems of English words, as in the paper.
    Porter,
}

/// How the terms of a bag are weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// By their frequency f.
    None,
    /// By f · log(N / df): terms of few bags are heavier.
    Idf,
}

/// What decides which candidate pairs are similar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PairFilter {
    /// The similarity of the bags, which is exact.
    Bags,
    /// The share of agreeing values of the signatures, as in the paper (section 4).
    Signatures,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_told() {
        let default = RelatedRule::default();
        assert_eq!(default.problem(), None);
        for (wrong, key) in [
            (RelatedRule { mass: 0, ..default.clone() }, "mass"),
            (RelatedRule { window: 1001, ..default.clone() }, "window"),
            (RelatedRule { high_df: 0.0, ..default.clone() }, "high_df"),
            (RelatedRule { high_df: f64::NAN, ..default.clone() }, "high_df"),
            (RelatedRule { champions: 0, ..default.clone() }, "champions"),
            (RelatedRule { list_max: 0, ..default.clone() }, "list_max"),
            (RelatedRule { rows_max: 0, ..default.clone() }, "rows_max"),
            (RelatedRule { verified_max: 0, ..default.clone() }, "verified_max"),
            (RelatedRule { signature_size: 4097, ..default.clone() }, "signature_size"),
            (RelatedRule { positions: 81, ..default.clone() }, "positions"),
            (RelatedRule { rounds: 0, ..default.clone() }, "rounds"),
            (RelatedRule { min_similarity: 1.1, ..default }, "min_similarity"),
        ] {
            assert!(wrong.problem().is_some_and(|problem| problem.starts_with(key)), "{key}");
        }
    }
}
