//! Related pages: what else is about this? (Haveliwala, Gionis and Indyk, "Scalable Techniques for Clustering the Web",
//! 2000.)
//!
//! ```text
//! page ─▶ fragment (its words, where it speaks of URLs) ─▶ said (a row) ─▶ sampling ─▶ weight ─▶ Bag
//!
//! live query:  Bag ─▶ nominate (lists of heavy terms) ─▶ similarity
//! the paper:   Bag ─▶ signature ─▶ candidate_pairs ─▶ similarity ─▶ centers
//! ```

mod bag;
mod candidate_pairs;
mod centers;
mod evaluation;
mod fragment;
mod key_sort;
mod nominate;
mod porter;
mod rule;
mod said;
mod sampling;
mod signature;
mod stop_words;
#[cfg(test)]
mod test_bags;
mod weight;

pub use bag::{Bag, Term};
pub use candidate_pairs::{CandidateRule, Positions, pairs};
pub use centers::Centers;
pub use evaluation::{Classes, Evaluation, Scores};
pub use fragment::Passage;
pub use key_sort::{KeySorter, KeyedId};
pub use nominate::{Nominations, champions};
pub use porter::stem;
pub use rule::{BagKind, PairFilter, RelatedRule, Stemmer, Titles, Weight};
pub use said::{REDIRECTS_MAX, Said, SaidReader, Target};
pub use sampling::{FragmentKey, HostShares, sample};
pub use signature::{Signature, SignatureRule, Signer};
pub use stop_words::StopWords;
pub use weight::{Frequencies, Source, TermCounts, TermReader, bag, weight};
