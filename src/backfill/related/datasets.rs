//! The data sets of a related build.

use super::rows::{
    BagRow, CenterRow, CountedRow, FragmentRow, FrequencyRow, NeighbourRow, PageRow, PairRow, SignatureRow, StateRow,
    WordRow,
};
use super::store_rows::{ChampionRow, CountsRow, KeptFragment, NearestRow, StoreFragment};
use crate::backfill::datasets::Dataset;

/// What pages said, URL by URL, the newest page first.
pub(super) const PAGES: Dataset<PageRow> = Dataset::compressed("page-words");
/// A word of each term, for people who read bags.
pub(super) const WORDS: Dataset<WordRow> = Dataset::compressed("words");
/// The contents and redirects of the newest pages, URL by URL.
pub(super) const STATES: Dataset<StateRow> = Dataset::compressed("url-words");
/// The redirects among them.
pub(super) const REDIRECTS: Dataset<StateRow> = Dataset::compressed("redirects");
/// What the newest pages say about others, target by target.
pub(super) const FRAGMENTS: Dataset<FragmentRow> = Dataset::compressed("fragments");
/// What is known about each URL, in the order of URLs.
pub(super) const COUNTED: Dataset<CountedRow> = Dataset::compressed("counted");
/// In how many URLs' words each term occurs.
pub(super) const FREQUENCIES: Dataset<FrequencyRow> = Dataset::plain("frequencies");
/// The bags, in the order of their ids.
pub(super) const BAGS: Dataset<BagRow> = Dataset::compressed("bags");
/// The signatures of the bags, in the same order.
pub(super) const SIGNATURES: Dataset<SignatureRow> = Dataset::plain("signatures");
/// Pairs of bags whose signatures agree in the values of a round.
pub(super) const PAIRS: Dataset<PairRow> = Dataset::plain("pairs");
/// Pairs of similar bags, the smaller id first.
pub(super) const SIMILAR: Dataset<NeighbourRow> = Dataset::plain("similar");
/// The same pairs both ways, bag by bag.
pub(super) const NEIGHBOURS: Dataset<NeighbourRow> = Dataset::plain("neighbours");
/// The centers of the bags.
pub(super) const CENTERS: Dataset<CenterRow> = Dataset::plain("centers");

/// What the documents of a store say about URLs.
pub(super) const STORE_FRAGMENTS: Dataset<StoreFragment> = Dataset::compressed("store-fragments");
/// Those that count.
pub(super) const KEPT_FRAGMENTS: Dataset<KeptFragment> = Dataset::plain("kept-fragments");
/// The counted terms of each URL.
pub(super) const STORE_COUNTS: Dataset<CountsRow> = Dataset::compressed("store-counts");
/// The same terms in the order of URLs.
pub(super) const STORE_COUNTED: Dataset<CountedRow> = Dataset::compressed("store-counted");
/// The nearest neighbours of each URL, in the order of the targets.
pub(super) const NEAREST: Dataset<NearestRow> = Dataset::plain("nearest");
/// URLs under the heaviest terms of their bags.
pub(super) const CHAMPIONS: Dataset<ChampionRow> = Dataset::plain("champions");
