//! The second decision: what a batch's sightings and decisions change in the history. One pure function for pages and for
//! sweeps that are closed.

use super::counts::HistoryCounts;
use super::effects::{ContentChange, HistoryEffects, LatePage, Move, MoveEvidence, Present};
use super::missing::MissingIndex;
use super::moves::{FoundCopy, MoveFinder};
use super::page_sighting::PageSighting;
use super::timeline::{Added, Timeline};
use super::view::View;
use crate::cluster::{Clusters, Decider, Decision};
use crate::document::{DocumentId, Fingerprint, Seed};
use crate::sketch::Sketch;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A pair of documents whose resemblance is reported.
type Pair = (DocumentId, DocumentId);

/// Advances the history of a store, batch by batch. Between batches it holds the missing URLs, where moves are reported.
pub struct History {
    seed: Seed,
    /// None without a sink: nothing is reported, and missing URLs stay missing until a run with a sink.
    missing: Option<MissingIndex>,
    counts: HistoryCounts,
}

impl History {
    /// The history of a store, which adds up to these counts; `reports` says whether changes and moves are reported.
    ///
    /// # Errors
    /// The view's own.
    pub fn open<V: View>(
        view: &V,
        seed: Seed,
        clusters: &mut Clusters,
        counts: HistoryCounts,
        reports: bool,
    ) -> Result<Self, V::Error> {
        let missing = if reports { Some(MissingIndex::new(view.missing_urls()?, clusters)) } else { None };
        Ok(History { seed, missing, counts })
    }

    /// What all batches so far add up to.
    pub fn counts(&self) -> HistoryCounts {
        self.counts
    }

    /// Whether changes and moves are reported.
    pub fn reports(&self) -> bool {
        self.missing.is_some()
    }

    /// Begins a batch of pages, in order of arrival, with nothing in the place of a rejected record. The view must show the
    /// store as it is before the batch, and know the sketch of each new document from its decision on.
    ///
    /// # Errors
    /// The view's own.
    pub fn begin<'p, V: View>(
        &mut self,
        view: &V,
        pages: &'p [Option<PageSighting<'p>>],
    ) -> Result<HistoryBatch<'_, 'p>, V::Error> {
        let timeline = Timeline::read(view, pages)?;
        let mut urls = FxHashMap::with_capacity_and_hasher(pages.len(), FxBuildHasher);
        urls.extend(pages.iter().flatten().map(|page| (page.key, page.url)));
        let reports = self.missing.as_mut().map(|missing| (missing, Reports::default()));
        Ok(HistoryBatch { seed: self.seed, pages, urls, timeline, reports, counts: &mut self.counts })
    }

    /// The effects of a timeline that marks URLs as lost, one for each sighting; the `late` marks change nothing that stands
    /// there. Later batches will mark those `to_be_lost`, descending.
    pub(super) fn close<V: View>(
        &mut self,
        view: &V,
        decider: &mut Decider,
        mut timeline: Timeline,
        urls: &FxHashMap<Fingerprint, &str>,
        late: Vec<LatePage>,
        to_be_lost: &[Fingerprint],
    ) -> Result<HistoryEffects, V::Error> {
        self.counts.n_gone += timeline.sightings.len() as u64;
        let Some(missing) = &mut self.missing else { return Ok(timeline.into_effects()) };
        let lost = timeline.sightings.iter().flatten().map(|sighting| sighting.url).enumerate();
        let lost = lost.filter_map(|(at, url)| Some((at, timeline.newly_missing(url)?))).collect();
        let clusters = decider.clusters();
        let moves =
            MoveFinder { view, clusters, missing, timeline: &mut timeline, urls, to_be_lost }.find_places(lost)?;
        Reports { moves, late, ..Reports::default() }.into_effects(view, decider, timeline)
    }
}

/// A batch on its way through the history, page by page. Each page sees what those before it changed, so that the results
/// are the same however pages are batched.
pub struct HistoryBatch<'h, 'p> {
    seed: Seed,
    pages: &'p [Option<PageSighting<'p>>],
    urls: FxHashMap<Fingerprint, &'p str>,
    timeline: Timeline,
    /// The missing URLs and what is to be reported, where anything is.
    reports: Option<(&'h mut MissingIndex, Reports)>,
    counts: &'h mut HistoryCounts,
}

impl HistoryBatch<'_, '_> {
    /// Adds the next page, with its decision where a page stands. `clusters` are those after the decision.
    ///
    /// # Errors
    /// The view's own. The history is then of no more use: open it again.
    pub fn add<V: View>(
        &mut self,
        view: &V,
        clusters: &mut Clusters,
        decision: Option<&Decision>,
    ) -> Result<(), V::Error> {
        let at = self.timeline.sightings.len();
        let page = self.pages.get(at).and_then(Option::as_ref);
        let n_urls = self.timeline.new_urls.len();
        let added = self.timeline.add(view, &self.seed, page, decision)?;
        if page.is_some() {
            self.counts.n_urls += (self.timeline.new_urls.len() - n_urls) as u64;
            self.count(view, clusters, &added, decision)?;
        }
        let (Some(_), Some((missing, reports))) = (page, &mut self.reports) else { return Ok(()) };
        let mut finder =
            MoveFinder { view, clusters, missing, timeline: &mut self.timeline, urls: &self.urls, to_be_lost: &[] };
        reports.moves.extend(finder.find(&added, decision)?);
        if let (Some(previous), Some(decision)) = (added.previous, decision)
            && previous != decision.document
        {
            reports.changes.push((at, (previous, decision.document)));
        }
        if let Some(newest) = added.late {
            let cluster_of = |document| clusters.cluster_of(document);
            let present = newest.map(|newest| Present { cluster: newest.seen.document().map(cluster_of), newest });
            reports.late.push(LatePage { page: at, present });
        }
        Ok(())
    }

    /// Counts the page that was added last. A document's first page is its first URL, which needs no count.
    fn count<V: View>(
        &mut self,
        view: &V,
        clusters: &mut Clusters,
        added: &Added,
        decision: Option<&Decision>,
    ) -> Result<(), V::Error> {
        let is_new = u64::from(!added.is_repeated);
        let Some(decision) = decision else {
            self.counts.n_gone += is_new;
            return Ok(());
        };
        self.counts.n_sightings += is_new;
        if decision.is_new_document() || added.has_stood == Some(true) || clusters.size_of(decision.document) > 1 {
            return Ok(());
        }
        if added.has_stood == Some(false) || !self.timeline.has_stood(view)? {
            clusters.add_url(decision.document);
        }
        Ok(())
    }

    /// What the batch changes.
    ///
    /// # Errors
    /// The view's own. The history is then of no more use: open it again.
    pub fn into_effects<V: View>(self, view: &V, decider: &Decider) -> Result<HistoryEffects, V::Error> {
        match self.reports {
            None => Ok(self.timeline.into_effects()),
            Some((_, reports)) => reports.into_effects(view, decider, self.timeline),
        }
    }
}

/// What is reported of a batch, before the resemblances are known.
#[derive(Default)]
struct Reports {
    /// The pages whose document is not the one that stood at their URL before, with both.
    changes: Vec<(usize, Pair)>,
    moves: Vec<FoundCopy>,
    late: Vec<LatePage>,
}

impl Reports {
    fn into_effects<V: View>(
        self,
        view: &V,
        decider: &Decider,
        timeline: Timeline,
    ) -> Result<HistoryEffects, V::Error> {
        let Reports { changes, moves, late } = self;
        let pairs = changes.iter().map(|(_, pair)| *pair);
        let pairs = pairs.chain(moves.iter().map(|found| (found.from_document, found.to_document)));
        let resemblances = resemblances(view, decider, pairs.collect())?;
        let resemblance = |pair: Pair| resemblances.get(&pair).copied().unwrap_or(0.0);
        let change = |(page, pair): (usize, Pair)| ContentChange {
            page,
            previous: pair.0,
            document: pair.1,
            resemblance: resemblance(pair),
        };
        let changes = changes.into_iter().map(change).collect();
        let moves = moves.into_iter().map(|found| {
            let resemblance = resemblance((found.from_document, found.to_document));
            found.with_resemblance(resemblance, decider.threshold())
        });
        let moves = moves.collect();
        Ok(HistoryEffects { changes, moves, late, ..timeline.into_effects() })
    }
}

impl FoundCopy {
    fn with_resemblance(self, resemblance: f64, threshold: f64) -> Move {
        let FoundCopy { page, from, to, from_document, to_document } = self;
        let evidence = if from_document == to_document {
            MoveEvidence::Same
        } else if resemblance >= threshold {
            MoveEvidence::Direct
        } else {
            MoveEvidence::Chain
        };
        Move { page, from, to, from_document, to_document, resemblance, evidence }
    }
}

/// The resemblances of pairs of documents, read in one question.
fn resemblances<V: View>(view: &V, decider: &Decider, pairs: BTreeSet<Pair>) -> Result<FxHashMap<Pair, f64>, V::Error> {
    let documents: BTreeSet<DocumentId> = pairs.iter().filter(|(a, b)| a != b).flat_map(|(a, b)| [*a, *b]).collect();
    let documents: Vec<DocumentId> = documents.into_iter().collect();
    if documents.is_empty() {
        return Ok(pairs.into_iter().map(|pair| (pair, 1.0)).collect());
    }
    let sketches = view.sketches(&documents)?;
    let sketches: FxHashMap<DocumentId, Arc<Sketch>> = documents.into_iter().zip(sketches).collect();
    let resemblance = |(a, b): Pair| {
        let estimated = || Some(decider.resemblance(sketches.get(&a)?, sketches.get(&b)?));
        ((a, b), if a == b { 1.0 } else { estimated().unwrap_or(0.0) })
    };
    Ok(pairs.into_iter().map(resemblance).collect())
}
