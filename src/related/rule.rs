//! Related rules: which words make a bag, and how many pages may answer.

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
    /// Bags that are compared for one answer, at most.
    pub verified_max: usize,
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
            verified_max: 512,
        }
    }
}

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
