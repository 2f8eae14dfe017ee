//! The shingles that look a page up.

use super::rule::MatchRule;
use crate::sketch::Shingle;

/// How many of a page's common shingles nominate documents; the smallest do.
const COMMON_QUERIED_MAX: usize = 16;

/// The shingles that look a page up in the index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexQuery {
    /// The smallest uncommon shingles, ascending. They also index the page.
    pub index: Vec<Shingle>,
    /// How many shingles of `index` a candidate must share.
    pub needed: usize,
    /// The common shingles that are smaller than the last of `index`; empty if there are fewer than
    /// `common_needed`.
    pub common: Vec<Shingle>,
    /// How many shingles of `common` a representative must have.
    pub common_needed: usize,
}

impl IndexQuery {
    /// Creates the query from a page's smallest shingles, ascending. At most `index_size` of them index the page.
    pub fn new(smallest: &[Shingle], index_size: usize, rule: &MatchRule, is_common: impl Fn(Shingle) -> bool) -> Self {
        let mut query =
            IndexQuery { index: Vec::with_capacity(index_size.min(smallest.len())), ..IndexQuery::default() };
        for shingle in smallest {
            if query.index.len() == index_size {
                break;
            }
            if !is_common(*shingle) {
                query.index.push(*shingle);
            } else if query.common.len() < COMMON_QUERIED_MAX {
                query.common.push(*shingle);
            }
        }
        query.needed = rule.shared_needed(query.index.len());
        query.common_needed = rule.shared_needed(query.index.len() + query.common.len());
        if rule.ignore_common || query.common.len() < query.common_needed {
            query.common.clear();
        }
        query
    }
}
