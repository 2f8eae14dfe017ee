//! The second decision: what a batch's sightings and decisions change in the history. One pure function for pages and for
//! sweeps that are closed.

use super::effects::{ContentChange, HistoryEffects, LatePage, Move, MoveEvidence, Present};
use super::missing::MissingIndex;
use super::moves::{FoundCopy, MoveFinder};
use super::page_sighting::PageSighting;
use super::timeline::Timeline;
use super::view::View;
use crate::cluster::{Clusters, Decider, Decision};
use crate::document::{DocumentId, Fingerprint, Seed};
use crate::sketch::Sketch;
use crate::sweep::Observation;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// A pair of documents whose resemblance is reported.
type Pair = (DocumentId, DocumentId);

/// Advances the history of a store, batch by batch. Between batches it holds the missing URLs, where moves are reported.
pub struct History {
    seed: Seed,
    /// None without a sink: nothing is reported, and missing URLs stay missing until a run with a sink.
    missing: Option<MissingIndex>,
}

impl History {
    /// The history of a store; `reports` says whether changes and moves are reported.
    ///
    /// # Errors
    /// The view's own.
    pub fn open<V: View>(view: &V, seed: Seed, clusters: &mut Clusters, reports: bool) -> Result<Self, V::Error> {
        let missing = if reports { Some(MissingIndex::new(view.missing_urls()?, clusters)) } else { None };
        Ok(History { seed, missing })
    }

    /// Whether changes and moves are reported.
    pub fn reports(&self) -> bool {
        self.missing.is_some()
    }

    /// What a batch of pages changes: `pages` and `decisions` are in order of arrival, with nothing in the place of a
    /// rejected record, and no decision where no page stands. The view must know the batch's new documents by their
    /// sketches, and otherwise the store as it is before the batch.
    ///
    /// # Errors
    /// The view's own. The history is then of no more use: open it again.
    pub fn advance<V: View>(
        &mut self,
        view: &V,
        decider: &mut Decider,
        pages: &[Option<PageSighting<'_>>],
        decisions: &[Option<Decision>],
    ) -> Result<HistoryEffects, V::Error> {
        let timeline = Timeline::read(view, &self.seed, pages, decisions)?;
        let names = pages.iter().zip(&timeline.sightings);
        let urls: HashMap<Fingerprint, &str> =
            names.filter_map(|(page, sighting)| Some((sighting.as_ref()?.url, page.as_ref()?.url))).collect();
        self.effects(view, decider, timeline, decisions, &urls)
    }

    /// The effects of a timeline, with its reports where they are wanted.
    pub(super) fn effects<V: View>(
        &mut self,
        view: &V,
        decider: &mut Decider,
        mut timeline: Timeline,
        decisions: &[Option<Decision>],
        urls: &HashMap<Fingerprint, &str>,
    ) -> Result<HistoryEffects, V::Error> {
        let Some(missing) = &mut self.missing else { return Ok(timeline.into_effects()) };
        let clusters = decider.clusters();
        let mut finder = MoveFinder { view, clusters, missing, timeline: &mut timeline, urls };
        let moves = finder.find(decisions)?;
        let late = late_pages(&timeline, decider.clusters());
        let changes = changed_pages(&timeline, decisions);
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

/// The pages whose document is not the one that stood at their URL before, with both.
fn changed_pages(timeline: &Timeline, decisions: &[Option<Decision>]) -> Vec<(usize, Pair)> {
    let pages = timeline.previous.iter().zip(decisions).enumerate();
    let changed = pages.filter_map(|(at, (previous, decision))| {
        let (previous, document) = ((*previous)?, decision.as_ref()?.document);
        (previous != document).then_some((at, (previous, document)))
    });
    changed.collect()
}

/// The late pages, with what stands at their URLs now where that is new.
fn late_pages(timeline: &Timeline, clusters: &mut Clusters) -> Vec<LatePage> {
    let mut present = |newest: &Observation| {
        let cluster = newest.seen.document().map(|document| clusters.cluster_of(document));
        Present { newest: newest.clone(), cluster }
    };
    let late = timeline.late.iter();
    late.map(|(page, newest)| LatePage { page: *page, present: newest.as_ref().map(&mut present) }).collect()
}

/// The resemblances of pairs of documents, read in one question.
fn resemblances<V: View>(view: &V, decider: &Decider, pairs: BTreeSet<Pair>) -> Result<HashMap<Pair, f64>, V::Error> {
    let documents: BTreeSet<DocumentId> = pairs.iter().filter(|(a, b)| a != b).flat_map(|(a, b)| [*a, *b]).collect();
    let documents: Vec<DocumentId> = documents.into_iter().collect();
    if documents.is_empty() {
        return Ok(pairs.into_iter().map(|pair| (pair, 1.0)).collect());
    }
    let sketches = view.sketches(&documents)?;
    let sketches: HashMap<DocumentId, Arc<Sketch>> = documents.into_iter().zip(sketches).collect();
    let resemblance = |(a, b): Pair| {
        let estimated = || Some(decider.resemblance(sketches.get(&a)?, sketches.get(&b)?));
        ((a, b), if a == b { 1.0 } else { estimated().unwrap_or(0.0) })
    };
    Ok(pairs.into_iter().map(resemblance).collect())
}
