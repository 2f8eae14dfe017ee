//! The decision: where a page belongs. The stream and the backfill use the same pure function.

use super::candidates::{
    BatchIndex, Representatives, SharedByDocument, append_capped, candidates_by_representatives, first_representatives,
};
use super::index_query::IndexQuery;
use super::prefetch::Prefetcher;
use super::rule::{ClusterPolicy, MatchRule};
use super::union_find::{ClusterRow, Clusters, Merge};
use super::view::{TooManyDocuments, View};
use crate::document::{ClusterId, DocumentId};
use crate::sketch::{Equivalences, Rule, Shingle, Sketch, SketchRule, SketchedContent};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::sync::{Arc, PoisonError, RwLock};

/// How a page relates to its document and cluster, the closest relation first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// Its bytes equal those of a known document.
    Identical,
    /// Its canonical form equals that of a known document.
    Lexical,
    /// Its sketch equals that of a known document.
    Shingle,
    /// It is a new document that resembles a known one.
    Near,
    /// It is a new document that resembles no other.
    New,
}

/// A known document that a page matches.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// The known document.
    pub document: DocumentId,
    /// The estimated resemblance of the two.
    pub resemblance: f64,
}

/// Where a page belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The page's document, new or known.
    pub document: DocumentId,
    /// The document's cluster after the merges.
    pub cluster: ClusterId,
    /// How the page relates to them.
    pub relation: Relation,
    /// The first known document that the page matched; `None` for [`Relation::New`].
    pub matched: Option<Match>,
    /// The merges of clusters that the page caused, in order.
    pub merges: Vec<Merge>,
}

impl Decision {
    /// Returns whether the page is a new document.
    pub fn is_new_document(&self) -> bool {
        matches!(self.relation, Relation::Near | Relation::New)
    }
}

/// A verified link between two documents that changed a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The later document.
    pub document: DocumentId,
    /// The earlier document.
    pub to: DocumentId,
    /// The estimated resemblance of the two.
    pub resemblance: f64,
}

/// A document to be written.
#[derive(Clone, Debug)]
pub struct NewDocument {
    /// The id.
    pub document: DocumentId,
    /// The fingerprints that find equal pages.
    pub equivalences: Equivalences,
    /// The sketch.
    pub sketch: Arc<Sketch>,
    /// The index shingles whose lists contain it.
    pub index: Vec<Shingle>,
    /// The super shingles whose lists contain it.
    pub super_shingles: Vec<Shingle>,
    /// Its mod shingles. They are written but no decision reads them: they find documents that contain each other,
    /// which do not belong to one cluster.
    pub mod_shingles: Vec<Shingle>,
    /// The number of words in its canonical form.
    pub n_words: u32,
    /// The size of the page's body in bytes.
    pub n_bytes: u64,
}

/// The changes of a batch of decisions, to be written together.
#[derive(Clone, Debug, Default)]
pub struct Effects {
    /// New documents, ascending.
    pub documents: Vec<NewDocument>,
    /// The last state of every cluster row that changed.
    pub rows: FxHashMap<DocumentId, ClusterRow>,
    /// Links that changed a cluster.
    pub links: Vec<Link>,
    /// Shingles that became common.
    pub common: Vec<Shingle>,
    /// How many pairs of sketches were compared.
    pub n_compared: u64,
    /// How many pages had candidates that [`MatchRule::comparisons_max`] left uncompared.
    pub n_limited: u64,
}

/// A document to compare a page with.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    document: DocumentId,
    /// The rarity of the shared shingles; 0 if only common shingles nominate the document.
    rarity: u64,
    /// Whether only common shingles nominate the document.
    is_represented: bool,
}

impl Candidate {
    /// Sorts the rarest shared shingles first, then the newest document.
    fn order_of_comparison(&self) -> (Reverse<u64>, Reverse<DocumentId>) {
        (Reverse(self.rarity), Reverse(self.document))
    }
}

/// Decides where pages belong. It holds what every decision needs: the clusters and the common shingles.
#[derive(Clone, Debug)]
pub struct Decider {
    rule: MatchRule,
    sketch_rule: Rule,
    /// How many shingles index a document, at most.
    n_index: usize,
    clusters: Clusters,
    /// Common shingles. The representatives of each are loaded when a page first needs them.
    common: FxHashMap<Shingle, Option<Representatives>>,
    /// The same shingles, for the prefetchers.
    known_common: Arc<RwLock<FxHashSet<Shingle>>>,
    /// Empty between decisions.
    shared: SharedByDocument,
}

impl Decider {
    /// Creates a decider over the clusters and common shingles of a store.
    pub fn new(rule: MatchRule, sketch_rule: &SketchRule, clusters: Clusters, common: FxHashSet<Shingle>) -> Self {
        Decider {
            rule,
            sketch_rule: sketch_rule.rule,
            n_index: sketch_rule.n_index(),
            clusters,
            common: common.iter().map(|shingle| (*shingle, None)).collect(),
            known_common: Arc::new(RwLock::new(common)),
            shared: SharedByDocument::default(),
        }
    }

    fn index_query(&self, content: &SketchedContent) -> IndexQuery {
        IndexQuery::new(&content.index, self.n_index, &self.rule, |shingle| self.common.contains_key(&shingle))
    }

    /// Returns the document that a content equals, and how.
    pub fn equal_document(batch: &BatchIndex, equivalences: &Equivalences) -> Option<(Relation, DocumentId)> {
        [
            (Relation::Identical, Some(equivalences.identical)),
            (Relation::Lexical, Some(equivalences.lexical)),
            (Relation::Shingle, equivalences.shingle),
        ]
        .into_iter()
        .find_map(|(relation, key)| Some((relation, *batch.equal.get(&key?)?)))
    }

    /// Decides over a page that equals a document.
    pub fn equal_to(&mut self, document: DocumentId, relation: Relation) -> Decision {
        Decision {
            document,
            cluster: self.clusters.cluster_of(document),
            relation,
            matched: Some(Match { document, resemblance: 1.0 }),
            merges: Vec::new(),
        }
    }

    /// The resemblance from which documents are linked.
    pub fn threshold(&self) -> f64 {
        self.rule.threshold
    }

    /// The clusters that the decisions have formed so far.
    pub fn clusters(&mut self) -> &mut Clusters {
        &mut self.clusters
    }

    /// A look-up for the decisions to come, for use in other threads.
    pub fn prefetcher(&self) -> Prefetcher {
        Prefetcher::new(self.rule.clone(), self.n_index, Arc::clone(&self.known_common))
    }

    /// Loads the representatives that are missing.
    fn load_representatives<V: View>(&mut self, common: &[Shingle], view: &V) -> Result<(), V::Error> {
        let is_unknown = |shingle: &&Shingle| self.common.get(shingle).is_some_and(Option::is_none);
        let mut unknown: Vec<Shingle> = common.iter().filter(is_unknown).copied().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        unknown.sort_unstable();
        unknown.dedup();
        for (shingle, list) in unknown.iter().zip(view.postings(&unknown)?) {
            self.common.insert(*shingle, Some(first_representatives(&list)));
        }
        Ok(())
    }

    /// Decides where a content belongs. `batch` must hold the store's entries for its equivalences. `batch` and
    /// `effects` receive the changes.
    ///
    /// # Errors
    /// The view's error, or [`TooManyDocuments`]. After an error `batch`, `effects` and the decider are unusable;
    /// load them from the store again.
    pub fn decide<V: View>(
        &mut self,
        content: &SketchedContent,
        batch: &mut BatchIndex,
        view: &V,
        effects: &mut Effects,
    ) -> Result<Decision, V::Error> {
        if let Some((relation, document)) = Self::equal_document(batch, &content.equivalences) {
            return Ok(self.equal_to(document, relation));
        }
        let query = self.index_query(content);
        self.load_representatives(&query.common, view)?;
        batch.load_missing(&query, &content.super_shingles, &self.rule, view)?;
        let mut candidates = self.candidates(content, &query, batch);
        // Which of them are compared depends on how rare all of their shingles are.
        if candidates.len() > self.rule.n_comparisons() && batch.load_unread(&query, view)? {
            candidates = self.candidates(content, &query, batch);
        }
        let matches = match self.rule.policy {
            ClusterPolicy::Components => self.matches(content, candidates, view, effects)?,
            ClusterPolicy::Star => self.founder(content, candidates, view, effects)?.into_iter().collect(),
        };
        let document = self.clusters.push().ok_or(TooManyDocuments)?;
        self.enter(document, content, query.index, batch, effects);
        let merges = self.join(document, &matches, effects);
        Ok(Decision {
            document,
            cluster: self.clusters.cluster_of(document),
            relation: if matches.is_empty() { Relation::New } else { Relation::Near },
            matched: matches.first().copied(),
            merges,
        })
    }

    /// Returns the documents that are worth a comparison, each once, the best first.
    fn candidates(&mut self, content: &SketchedContent, query: &IndexQuery, batch: &BatchIndex) -> Vec<Candidate> {
        let limits = (query.needed, self.rule.common_limit);
        let found = batch.candidates(&query.index, &content.super_shingles, limits, &mut self.shared);
        let common = query.common.iter().filter_map(|shingle| self.common.get(shingle)?.as_ref());
        let mut more = candidates_by_representatives(common, query.common_needed);
        if !more.is_empty() {
            let found_ids: FxHashSet<DocumentId> = found.iter().map(|(document, _)| *document).collect();
            more.retain(|document| !found_ids.contains(document));
        }
        let found = found.into_iter().map(|(document, shared)| Candidate {
            document,
            rarity: shared.rarity,
            is_represented: false,
        });
        let more = more.into_iter().map(|document| Candidate { document, rarity: 0, is_represented: true });
        found.chain(more).collect()
    }

    /// Returns one verified match in each cluster that has one, in the order of verification.
    ///
    /// Each round compares the best candidate of every cluster that has not matched yet, so that no comparison is
    /// wasted on a partition that is already decided. The round that would exceed [`MatchRule::comparisons_max`] is
    /// cut and is the last.
    fn matches<V: View>(
        &mut self,
        content: &SketchedContent,
        mut candidates: Vec<Candidate>,
        view: &V,
        effects: &mut Effects,
    ) -> Result<Vec<Match>, V::Error> {
        let mut joined = FxHashSet::default();
        let mut matches = Vec::new();
        let mut n_left = self.rule.n_comparisons();
        while !candidates.is_empty() {
            let mut seen = FxHashSet::default();
            let mut round = Vec::new();
            candidates.retain(|candidate| {
                let cluster = self.clusters.cluster_of(candidate.document);
                let best = !joined.contains(&cluster) && seen.insert(cluster);
                if best {
                    round.push((*candidate, cluster));
                }
                !best && !joined.contains(&cluster)
            });
            if round.len() > n_left {
                round.sort_unstable_by_key(|(candidate, _)| candidate.order_of_comparison());
                round.truncate(n_left);
                candidates.clear();
                effects.n_limited += 1;
            }
            n_left -= round.len();
            let ids: Vec<DocumentId> = round.iter().map(|(candidate, _)| candidate.document).collect();
            let sketches = view.sketches(&ids)?;
            effects.n_compared += round.len() as u64;
            for ((candidate, cluster), sketch) in round.into_iter().zip(sketches) {
                if let Some(found) = self.verified(content, candidate, &sketch) {
                    joined.insert(cluster);
                    matches.push(found);
                }
            }
        }
        Ok(matches)
    }

    /// Returns the founder that the content resembles most among the founders of the candidates' clusters, if it
    /// resembles any. Among equals, the one whose cluster has the better candidate wins. Under this policy clusters
    /// never merge, so a cluster's founder is the document that names it.
    fn founder<V: View>(
        &mut self,
        content: &SketchedContent,
        candidates: Vec<Candidate>,
        view: &V,
        effects: &mut Effects,
    ) -> Result<Option<Match>, V::Error> {
        let mut seen = FxHashSet::default();
        let mut founders: Vec<Candidate> = candidates;
        founders.retain_mut(|candidate| {
            candidate.document = DocumentId(self.clusters.cluster_of(candidate.document).0);
            seen.insert(candidate.document)
        });
        if founders.len() > self.rule.n_comparisons() {
            founders.sort_by_key(Candidate::order_of_comparison);
            founders.truncate(self.rule.n_comparisons());
            effects.n_limited += 1;
        }
        let ids: Vec<DocumentId> = founders.iter().map(|founder| founder.document).collect();
        let sketches = view.sketches(&ids)?;
        effects.n_compared += founders.len() as u64;
        let mut best: Option<Match> = None;
        for (founder, sketch) in founders.into_iter().zip(sketches) {
            if let Some(found) = self.verified(content, founder, &sketch)
                && best.is_none_or(|best| found.resemblance > best.resemblance)
            {
                best = Some(found);
            }
        }
        Ok(best)
    }

    /// Estimates the resemblance of two sketches under the rule, given the shingles that are common now.
    pub fn resemblance(&self, a: &Sketch, b: &Sketch) -> f64 {
        self.rule.estimate(a, b, self.sketch_rule, |shingle| self.common.contains_key(&shingle)).resemblance
    }

    /// Returns the match of a content with a candidate, if the rule links them.
    fn verified(&self, content: &SketchedContent, candidate: Candidate, sketch: &Sketch) -> Option<Match> {
        let is_common = |shingle| self.common.contains_key(&shingle);
        let link = self.rule.link(&content.sketch, sketch, self.sketch_rule, candidate.is_represented, is_common);
        link.map(|resemblance| Match { document: candidate.document, resemblance })
    }

    /// Adds a new document to the index and the effects.
    fn enter(
        &mut self,
        document: DocumentId,
        content: &SketchedContent,
        mut index: Vec<Shingle>,
        batch: &mut BatchIndex,
        effects: &mut Effects,
    ) {
        let limit = self.rule.common_limit;
        batch.equal.extend(content.equivalences.keys().map(|key| (key, document)));
        index.retain(|shingle| {
            let list = batch.postings.entry(*shingle).or_default();
            let added = append_capped(list, document, limit);
            if added && list.len() > limit {
                self.common.insert(*shingle, Some(first_representatives(list)));
                self.known_common.write().unwrap_or_else(PoisonError::into_inner).insert(*shingle);
                effects.common.push(*shingle);
            }
            added
        });
        let mut super_shingles = content.super_shingles.clone();
        super_shingles.retain(|shingle| {
            let list = batch.supers.entry(*shingle).or_default();
            append_capped(list, document, limit)
        });
        effects.documents.push(NewDocument {
            document,
            equivalences: content.equivalences,
            sketch: Arc::clone(&content.sketch),
            index,
            super_shingles,
            mod_shingles: content.mod_shingles.clone(),
            n_words: content.n_words,
            n_bytes: content.n_bytes,
        });
    }

    /// Joins a new document with the cluster of every match. Only unions of earlier clusters count as merges: no
    /// event has named the document's own cluster yet.
    fn join(&mut self, document: DocumentId, matches: &[Match], effects: &mut Effects) -> Vec<Merge> {
        let mut merges = Vec::new();
        for found in matches {
            let Some((merge, rows)) = self.clusters.union(document, found.document) else {
                continue;
            };
            effects.rows.extend(rows.map(|row| (row.document, row)));
            effects.links.push(Link { document, to: found.document, resemblance: found.resemblance });
            if merge.loser.0 != document.0 {
                merges.push(merge);
            }
        }
        merges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::view::{PostingList, SketchView, UnreadIn};
    use crate::document::{CanonicalForm, Seed};
    use crate::sketch::Sketcher;
    use proptest::prelude::*;
    use std::collections::{BTreeSet, HashMap};

    /// A view over the documents decided so far.
    struct DecidedView<'a>(&'a [NewDocument]);

    impl SketchView for DecidedView<'_> {
        type Error = TooManyDocuments;

        fn sketches(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, TooManyDocuments> {
            Ok(documents.iter().map(|id| self.0[id.0 as usize - 1].sketch.clone()).collect())
        }
    }

    impl View for DecidedView<'_> {
        fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, TooManyDocuments> {
            Ok(vec![Vec::new(); shingles.len()])
        }

        fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, TooManyDocuments> {
            self.postings(shingles)
        }
    }

    struct World {
        sketcher: Sketcher,
        decider: Decider,
        batch: BatchIndex,
        effects: Effects,
    }

    impl World {
        fn new(sketch_rule: SketchRule, rule: MatchRule) -> Self {
            World {
                sketcher: Sketcher::new(&sketch_rule, &Seed([1, 1, 1, 1])),
                decider: Decider::new(rule, &sketch_rule, Clusters::default(), FxHashSet::default()),
                batch: BatchIndex::default(),
                effects: Effects::default(),
            }
        }

        fn push(&mut self, text: &str) -> Decision {
            let content = self.sketcher.sketch_form(&CanonicalForm::from_text(text));
            let decided = self.effects.documents.clone();
            self.decider
                .decide(&content, &mut self.batch, &DecidedView(&decided), &mut self.effects)
                .expect("room for a document")
        }
    }

    fn exact(w: usize) -> SketchRule {
        SketchRule { w, rule: Rule::All, index_size: 0, ..SketchRule::default() }
    }

    fn paper() -> MatchRule {
        MatchRule { min_shared: 1, ..MatchRule::default() }
    }

    #[test]
    fn each_relation() {
        let mut world = World::new(exact(2), paper());
        let mut relation = |text| {
            let decision = world.push(text);
            (decision.relation, decision.document.0, decision.cluster.0)
        };
        assert_eq!(relation("a b c d e f"), (Relation::New, 1, 1));
        assert_eq!(relation("a b c d e f"), (Relation::Identical, 1, 1));
        assert_eq!(relation("a b c d e g"), (Relation::Near, 2, 1));
        assert_eq!(relation("x y z"), (Relation::New, 3, 3));
        assert_eq!(relation("p q p q p"), (Relation::New, 4, 4));
        assert_eq!(relation("p q p q p q"), (Relation::Shingle, 4, 4));
        assert_eq!(relation("one"), (Relation::New, 5, 5));
    }

    #[test]
    fn a_page_between_two_clusters_merges_them_under_the_smaller_name() {
        let mut world = World::new(exact(1), paper());
        world.push("a b c");
        world.push("d e f");
        let decision = world.push("a b c d e f");
        assert_eq!(decision.merges, [Merge { loser: ClusterId(2), winner: ClusterId(1) }]);
        assert_eq!(decision.cluster, ClusterId(1));
        assert_eq!(world.effects.links.len(), 2);
        assert_eq!(world.decider.clusters().size_of(DocumentId(3)), 3);
    }

    #[test]
    fn common_shingles_nominate_only_representatives() {
        let rule = MatchRule { common_limit: 2, ..paper() };
        let mut world = World::new(SketchRule { super_shingles: 0, ..exact(1) }, rule);
        for text in ["t a", "t b", "t c"] {
            world.push(text);
        }
        assert_eq!(world.effects.common.len(), 1);
        assert_eq!(world.push("t d").relation, Relation::New);
        assert_eq!(world.batch.postings.values().map(|list| list.len()).max(), Some(3));
    }

    /// Pages of a few words from a small vocabulary, so that they resemble each other in every degree.
    fn pages() -> impl Strategy<Value = Vec<String>> {
        let page = proptest::collection::vec(0u8..12, 1..14)
            .prop_map(|words| words.iter().map(|word| format!("w{word}")).collect::<Vec<_>>().join(" "));
        proptest::collection::vec(page, 1..25)
    }

    /// The plain reference: shingle sets as strings, all pairs, breadth-first search.
    fn reference(pages: &[String], w: usize, threshold: f64) -> BTreeSet<BTreeSet<usize>> {
        let sets: Vec<BTreeSet<String>> = pages
            .iter()
            .map(|page| page.split(' ').collect::<Vec<_>>().windows(w).map(|words| words.join(" ")).collect())
            .collect();
        let linked = |a: usize, b: usize| {
            let common = sets[a].intersection(&sets[b]).count();
            let union = sets[a].union(&sets[b]).count();
            pages[a] == pages[b] || (union > 0 && common as f64 / union as f64 >= threshold)
        };
        let mut left: BTreeSet<usize> = (0..pages.len()).collect();
        let mut components = BTreeSet::new();
        while let Some(first) = left.pop_first() {
            let (mut component, mut queue) = (BTreeSet::from([first]), vec![first]);
            while let Some(at) = queue.pop() {
                let found: Vec<usize> = left.iter().copied().filter(|other| linked(at, *other)).collect();
                for other in found {
                    left.remove(&other);
                    component.insert(other);
                    queue.push(other);
                }
            }
            components.insert(component);
        }
        components
    }

    fn partition(world: &mut World, pages: &[String], order: &[usize]) -> BTreeSet<BTreeSet<usize>> {
        let documents: Vec<(usize, DocumentId)> =
            order.iter().map(|page| (*page, world.push(&pages[*page]).document)).collect();
        let mut clusters: HashMap<ClusterId, BTreeSet<usize>> = HashMap::new();
        for (page, document) in documents {
            clusters.entry(world.decider.clusters().cluster_of(document)).or_default().insert(page);
        }
        clusters.into_values().collect()
    }

    /// The store in the middle of a batch. It may leave lists unread.
    struct StoreView<'a> {
        rule: &'a MatchRule,
        /// All documents so far.
        documents: &'a [NewDocument],
        /// Those of earlier batches, which lists have.
        n_stored: usize,
        /// Chooses the lists that it leaves unread, of those that it may.
        leaves_unread: &'a dyn Fn(Shingle) -> bool,
    }

    impl StoreView<'_> {
        fn lists(&self, shingles: &[Shingle], of: impl Fn(&NewDocument) -> &[Shingle]) -> Vec<Vec<DocumentId>> {
            let list = |shingle: &Shingle| {
                let has = |document: &&NewDocument| of(document).contains(shingle);
                self.documents[..self.n_stored].iter().filter(has).map(|document| document.document).collect()
            };
            shingles.iter().map(list).collect()
        }
    }

    impl SketchView for StoreView<'_> {
        type Error = TooManyDocuments;

        fn sketches(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, TooManyDocuments> {
            DecidedView(self.documents).sketches(documents)
        }
    }

    impl View for StoreView<'_> {
        fn postings(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, TooManyDocuments> {
            Ok(self.lists(shingles, |document| &document.index))
        }

        fn postings_for(&self, shingles: &[Shingle], _: &[IndexQuery]) -> Result<Vec<PostingList>, TooManyDocuments> {
            let list = |(shingle, list): (&Shingle, Vec<DocumentId>)| {
                // Two parts: the documents with odd numbers, and those with even ones.
                let parts: BTreeSet<u32> = list.iter().map(|document| document.0 % 2).collect();
                match (self.leaves_unread)(*shingle) && list.len() <= self.rule.unread_max() {
                    true if parts.len() > 1 => PostingList::Unread(UnreadIn::Several),
                    true => PostingList::Unread(UnreadIn::Part(parts.first().copied().unwrap_or_default())),
                    false => PostingList::Read(list),
                }
            };
            Ok(shingles.iter().zip(self.postings(shingles)?).map(list).collect())
        }

        fn supers(&self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, TooManyDocuments> {
            Ok(self.lists(shingles, |document| &document.super_shingles))
        }
    }

    /// Decides over pages batch by batch. Returns the decisions and all effects.
    fn decided(
        pages: &[String],
        batch_size: usize,
        (sketch_rule, rule): (&SketchRule, &MatchRule),
        leaves_unread: &dyn Fn(Shingle) -> bool,
    ) -> (Vec<Decision>, Effects) {
        let World { mut sketcher, mut decider, mut effects, .. } = World::new(sketch_rule.clone(), rule.clone());
        let mut decisions = Vec::new();
        for pages in pages.chunks(batch_size) {
            let mut sketch = |page: &String| sketcher.sketch_form(&CanonicalForm::from_text(page));
            let contents: Vec<SketchedContent> = pages.iter().map(&mut sketch).collect();
            let n_stored = effects.documents.len();
            let equal = effects.documents.iter().flat_map(|new| new.equivalences.keys().map(|key| (key, new.document)));
            let first_recent = Some(DocumentId(n_stored as u32 + 1));
            let mut batch = BatchIndex { equal: equal.collect(), first_recent, ..BatchIndex::default() };
            let view = StoreView { rule, documents: &effects.documents, n_stored, leaves_unread };
            decider.prefetcher().load(contents.iter(), &mut batch, &view).expect("loads");
            for content in &contents {
                let documents = effects.documents.clone();
                let view = StoreView { rule, documents: &documents, n_stored, leaves_unread };
                decisions.push(decider.decide(content, &mut batch, &view, &mut effects).expect("room for a document"));
            }
        }
        (decisions, effects)
    }

    proptest! {
        // Few pages bring an unread list near its limit.
        #![proptest_config(ProptestConfig::with_cases(1024))]

        /// Lists that are left unread change no decision and no list.
        #[test]
        fn it_makes_no_difference_which_lists_are_left_unread(
            // Pages of some words, most of them from one of three templates.
            pages in (3u8..60).prop_flat_map(|n_words| {
                proptest::collection::vec((0usize..4, proptest::collection::vec(0..n_words, 0..9)), 1..60)
            }),
            batch_size in 1usize..9,
            common_limit in 1usize..12,
            min_shared in 1usize..5,
            comparisons_max in 0usize..4,
            super_shingles in 0usize..3,
            is_star: bool,
            seed: u64,
        ) {
            let page = |(template, words): &(usize, Vec<u8>)| {
                let template = ["", "a b", "c d e", "f g h i j"][*template];
                words.iter().fold(template.to_string(), |page, word| format!("{page} w{word}"))
            };
            let pages: Vec<String> = pages.iter().map(page).collect();
            let policy = if is_star { ClusterPolicy::Star } else { ClusterPolicy::Components };
            let rule = MatchRule { common_limit, min_shared, comparisons_max, policy, ..MatchRule::default() };
            let sketch_rule = SketchRule { super_shingles, index_size: 4, ..exact(2) };
            let rules = (&sketch_rule, &rule);
            let (expected, expected_effects) = decided(&pages, batch_size, rules, &|_| false);
            let some = |shingle: Shingle| (shingle ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 63 == 0;
            for leaves_unread in [&|_| true, &some as &dyn Fn(Shingle) -> bool] {
                let (decisions, effects) = decided(&pages, batch_size, rules, leaves_unread);
                prop_assert_eq!(&decisions, &expected);
                prop_assert_eq!(&effects.common, &expected_effects.common);
                prop_assert_eq!(effects.n_compared, expected_effects.n_compared);
                prop_assert_eq!(effects.n_limited, expected_effects.n_limited);
                for (new, expected) in effects.documents.iter().zip(&expected_effects.documents) {
                    prop_assert_eq!(&new.index, &expected.index);
                }
            }
        }
    }

    proptest! {
        /// If every shingle is kept and indexed, any order of arrival gives the clusters of the plain reference.
        #[test]
        fn the_exact_rule_is_exact_in_any_order(
            (pages, order) in pages().prop_flat_map(|pages| {
                let order: Vec<usize> = (0..pages.len()).collect();
                (Just(pages), Just(order).prop_shuffle())
            }),
            w in 1usize..4,
        ) {
            let mut world = World::new(exact(w), paper());
            prop_assert_eq!(partition(&mut world, &pages, &order), reference(&pages, w, 0.5));
        }
    }
}
