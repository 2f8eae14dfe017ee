//! The decision: where a page belongs. One pure function for the stream and the batch phases alike.

use super::candidates::{
    BatchIndex, IndexQuery, Representatives, SharedShingles, add, candidates_by_representatives, first_representatives,
};
use super::rule::{ClusterPolicy, MatchRule};
use super::union_find::{ClusterRow, Clusters, Merge};
use super::view::{TooManyDocuments, View};
use crate::document::{ClusterId, DocumentId};
use crate::sketch::{Equivalences, Rule, Shingle, Sketch, SketchRule, SketchedContent};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::sync::Arc;

/// How a page came to its document and cluster, the closest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Relation {
    /// The bytes are those of a known document.
    Identical,
    /// The canonical form is that of a known document.
    Lexical,
    /// The sketch is that of a known document.
    Shingle,
    /// A document of its own that resembles a known one.
    Near,
    /// A document of its own, like no other yet.
    New,
}

/// A known document that a page was matched with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Match {
    /// The known document.
    pub document: DocumentId,
    /// The estimated resemblance.
    pub resemblance: f64,
}

/// Where a page belongs.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Its document, new or known.
    pub document: DocumentId,
    /// The document's cluster after the merges.
    pub cluster: ClusterId,
    /// How it got there.
    pub relation: Relation,
    /// The known document it was matched with first; none for [`Relation::New`].
    pub matched: Option<Match>,
    /// The clusters that the page brought together, in order.
    pub merges: Vec<Merge>,
}

impl Decision {
    /// Whether the page brought a document that was not known.
    pub fn is_new_document(&self) -> bool {
        matches!(self.relation, Relation::Near | Relation::New)
    }
}

/// A verified link between two documents that changed a cluster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// The later document.
    pub document: DocumentId,
    /// The earlier one.
    pub to: DocumentId,
    /// Their estimated resemblance.
    pub resemblance: f64,
}

/// A document that is to be written.
#[derive(Clone, Debug)]
pub struct NewDocument {
    /// Its id.
    pub document: DocumentId,
    /// Its equivalence fingerprints.
    pub equivalences: Equivalences,
    /// Its sketch.
    pub sketch: Arc<Sketch>,
    /// The index shingles whose lists it was added to.
    pub index: Vec<Shingle>,
    /// The super shingles whose lists it was added to.
    pub super_shingles: Vec<Shingle>,
    /// Its mod shingles. They are written and never asked for here: what they find is contained, not alike, and must
    /// change neither the partition nor what it costs.
    pub mod_shingles: Vec<Shingle>,
    /// Of each of `index` and then each of `super_shingles`, whether it stood in no document before. What is not said of
    /// is not known.
    pub begins: Vec<bool>,
    /// Words in its canonical form.
    pub n_words: u32,
    /// Bytes of the page that brought it.
    pub n_bytes: u64,
}

/// What a batch of decisions changes, to be written together.
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
    /// Of how many pages [`MatchRule::comparisons_max`] left candidates uncompared.
    pub n_limited: u64,
}

/// A document that a content is to be compared with.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    document: DocumentId,
    /// How much the shingles tell that it shares with the content; 0 where only common ones nominate it.
    rarity: u64,
    /// Whether only common shingles nominate it.
    is_represented: bool,
}

impl Candidate {
    /// Those first whose shared shingles tell most, then the newest.
    fn order_of_comparison(&self) -> (Reverse<u64>, Reverse<DocumentId>) {
        (Reverse(self.rarity), Reverse(self.document))
    }
}

/// Decides where pages belong. It holds what every decision needs: the clusters and the common shingles.
#[derive(Clone, Debug)]
pub struct Decider {
    rule: MatchRule,
    sketch_rule: Rule,
    /// Index shingles a document, at most.
    index_size: usize,
    clusters: Clusters,
    /// Common shingles, each with its representatives once they were asked for.
    common: FxHashMap<Shingle, Option<Representatives>>,
}

impl Decider {
    /// A decider over the clusters and common shingles that a store holds.
    pub fn new(rule: MatchRule, sketch_rule: &SketchRule, clusters: Clusters, common: FxHashSet<Shingle>) -> Self {
        let index_size = if sketch_rule.index_size == 0 { usize::MAX } else { sketch_rule.index_size };
        let common = common.into_iter().map(|shingle| (shingle, None)).collect();
        Decider { rule, sketch_rule: sketch_rule.rule, index_size, clusters, common }
    }

    fn asked(&self, content: &SketchedContent) -> IndexQuery {
        IndexQuery::new(&content.index, self.index_size, &self.rule, |shingle| self.common.contains_key(&shingle))
    }

    /// The document that a content equals, and how.
    pub fn equal_document(known: &BatchIndex, equivalences: &Equivalences) -> Option<(Relation, DocumentId)> {
        [
            (Relation::Identical, Some(equivalences.identical)),
            (Relation::Lexical, Some(equivalences.lexical)),
            (Relation::Shingle, equivalences.shingle),
        ]
        .into_iter()
        .find_map(|(relation, key)| Some((relation, *known.equal.get(&key?)?)))
    }

    /// The resemblance from which on documents are linked.
    pub fn threshold(&self) -> f64 {
        self.rule.threshold
    }

    /// The clusters.
    pub fn clusters(&mut self) -> &mut Clusters {
        &mut self.clusters
    }

    /// Asks for all that the decisions over some contents will need to know, in one question of each kind.
    ///
    /// # Errors
    /// What the view could not read.
    pub fn learn<'a, V: View>(
        &mut self,
        contents: impl Iterator<Item = &'a SketchedContent>,
        known: &mut BatchIndex,
        view: &mut V,
    ) -> Result<(), V::Error> {
        let (mut index, mut common, mut supers) = (Vec::new(), Vec::new(), Vec::new());
        for content in contents {
            if Self::equal_document(known, &content.equivalences).is_none() {
                let asked = self.asked(content);
                index.extend(asked.index);
                common.extend(asked.common);
                supers.extend_from_slice(&content.super_shingles);
            }
        }
        self.learn_common(&common, view)?;
        known.learn(index, supers, view)
    }

    /// Asks for the representatives that are not known yet.
    fn learn_common<V: View>(&mut self, common: &[Shingle], view: &mut V) -> Result<(), V::Error> {
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

    /// Decides where a content belongs. `known` must hold what the store knows of its equivalences; it and `effects`
    /// take what the decision changes.
    ///
    /// # Errors
    /// What the view could not read, or [`TooManyDocuments`]. `known`, `effects` and the decider are then of no more
    /// use: read them again from the store.
    pub fn decide<V: View>(
        &mut self,
        content: &SketchedContent,
        known: &mut BatchIndex,
        view: &mut V,
        effects: &mut Effects,
    ) -> Result<Decision, V::Error> {
        if let Some((relation, document)) = Self::equal_document(known, &content.equivalences) {
            return Ok(Decision {
                document,
                cluster: self.clusters.cluster_of(document),
                relation,
                matched: Some(Match { document, resemblance: 1.0 }),
                merges: Vec::new(),
            });
        }
        let asked = self.asked(content);
        self.learn_common(&asked.common, view)?;
        known.learn(asked.index.clone(), content.super_shingles.clone(), view)?;
        let candidates = self.candidates(content, &asked, known);
        let matches = match self.rule.policy {
            ClusterPolicy::Components => self.matches(content, candidates, view, effects)?,
            ClusterPolicy::Star => self.founder(content, candidates, view, effects)?.into_iter().collect(),
        };
        let document = self.clusters.push().ok_or(TooManyDocuments)?;
        self.enter(document, content, asked.index, known, effects);
        let merges = self.join(document, &matches, effects);
        Ok(Decision {
            document,
            cluster: self.clusters.cluster_of(document),
            relation: if matches.is_empty() { Relation::New } else { Relation::Near },
            matched: matches.first().copied(),
            merges,
        })
    }

    /// The documents that are worth a comparison, each once, the best first.
    fn candidates(&self, content: &SketchedContent, asked: &IndexQuery, known: &BatchIndex) -> Vec<Candidate> {
        let needed = self.rule.shared_needed(asked.index.len());
        let found = known.candidates(&asked.index, &content.super_shingles, needed, self.rule.common_limit);
        let common = asked.common.iter().filter_map(|shingle| self.common.get(shingle)?.as_ref());
        let mut more = candidates_by_representatives(common, asked.common_needed);
        if !more.is_empty() {
            let known: FxHashSet<DocumentId> = found.iter().map(|shared| shared.document).collect();
            more.retain(|document| !known.contains(document));
        }
        let found = found.into_iter().map(|SharedShingles { document, rarity, .. }| Candidate {
            document,
            rarity,
            is_represented: false,
        });
        let more = more.into_iter().map(|document| Candidate { document, rarity: 0, is_represented: true });
        found.chain(more).collect()
    }

    /// One verified match in every cluster that has one, in the order of verification. In each round the best
    /// candidate of every cluster not yet joined is compared: no comparison is made that cannot change the partition. The
    /// round that would exceed [`MatchRule::comparisons_max`] is the last, and cut.
    fn matches<V: View>(
        &mut self,
        content: &SketchedContent,
        mut candidates: Vec<Candidate>,
        view: &mut V,
        effects: &mut Effects,
    ) -> Result<Vec<Match>, V::Error> {
        let mut joined = FxHashSet::default();
        let mut matches = Vec::new();
        let mut n_left = self.rule.n_comparisons();
        while !candidates.is_empty() {
            let mut asked = FxHashSet::default();
            let mut round = Vec::new();
            candidates.retain(|candidate| {
                let cluster = self.clusters.cluster_of(candidate.document);
                let best = !joined.contains(&cluster) && asked.insert(cluster);
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

    /// Of the founders of the candidates' clusters the one that the content resembles most, if it resembles any; among
    /// equals the one whose cluster has the better candidate. Under this policy clusters never merge, so that a
    /// cluster's founder is the document that names it.
    fn founder<V: View>(
        &mut self,
        content: &SketchedContent,
        candidates: Vec<Candidate>,
        view: &mut V,
        effects: &mut Effects,
    ) -> Result<Option<Match>, V::Error> {
        let mut asked = FxHashSet::default();
        let mut founders: Vec<Candidate> = candidates;
        founders.retain_mut(|candidate| {
            candidate.document = DocumentId(self.clusters.cluster_of(candidate.document).0);
            asked.insert(candidate.document)
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

    /// The estimated resemblance of two sketches under the rule, with the shingles that are common now.
    pub fn resemblance(&self, a: &Sketch, b: &Sketch) -> f64 {
        self.rule.estimate(a, b, self.sketch_rule, |shingle| self.common.contains_key(&shingle)).resemblance
    }

    /// The match of a content with a candidate, if it is one.
    fn verified(&self, content: &SketchedContent, candidate: Candidate, sketch: &Sketch) -> Option<Match> {
        let is_common = |shingle| self.common.contains_key(&shingle);
        let link = self.rule.link(&content.sketch, sketch, self.sketch_rule, candidate.is_represented, is_common);
        link.map(|resemblance| Match { document: candidate.document, resemblance })
    }

    /// Makes a new document known: its equivalences, its postings.
    fn enter(
        &mut self,
        document: DocumentId,
        content: &SketchedContent,
        mut index: Vec<Shingle>,
        known: &mut BatchIndex,
        effects: &mut Effects,
    ) {
        let limit = self.rule.common_limit;
        let mut begins = Vec::with_capacity(index.len() + content.super_shingles.len());
        known.equal.extend(content.equivalences.keys().map(|key| (key, document)));
        index.retain(|shingle| {
            let list = known.postings.entry(*shingle).or_default();
            let added = add(list, document, limit);
            if added && list.len() > limit {
                self.common.insert(*shingle, Some(first_representatives(list)));
                effects.common.push(*shingle);
            }
            begins.extend(added.then_some(list.len() == 1));
            added
        });
        let mut super_shingles = content.super_shingles.clone();
        super_shingles.retain(|shingle| {
            let list = known.supers.entry(*shingle).or_default();
            let added = add(list, document, limit);
            begins.extend(added.then_some(list.len() == 1));
            added
        });
        effects.documents.push(NewDocument {
            document,
            equivalences: content.equivalences,
            sketch: Arc::clone(&content.sketch),
            index,
            super_shingles,
            mod_shingles: content.mod_shingles.clone(),
            begins,
            n_words: content.n_words,
            n_bytes: content.n_bytes,
        });
    }

    /// Joins a new document with the cluster of every match. Only unions of clusters that were known before are
    /// merges: the document's own name was never given out.
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
    use crate::document::{CanonicalForm, Seed};
    use crate::sketch::Sketcher;
    use proptest::prelude::*;
    use std::collections::{BTreeSet, HashMap};

    /// A view over the documents decided so far.
    struct Decided<'a>(&'a [NewDocument]);

    impl View for Decided<'_> {
        type Error = TooManyDocuments;

        fn postings(&mut self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, TooManyDocuments> {
            Ok(vec![Vec::new(); shingles.len()])
        }

        fn supers(&mut self, shingles: &[Shingle]) -> Result<Vec<Vec<DocumentId>>, TooManyDocuments> {
            self.postings(shingles)
        }

        fn sketches(&mut self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, TooManyDocuments> {
            Ok(documents.iter().map(|id| self.0[id.0 as usize - 1].sketch.clone()).collect())
        }
    }

    struct World {
        sketcher: Sketcher,
        decider: Decider,
        known: BatchIndex,
        effects: Effects,
    }

    impl World {
        fn new(sketch_rule: SketchRule, rule: MatchRule) -> Self {
            World {
                sketcher: Sketcher::new(&sketch_rule, &Seed([1, 1, 1, 1])),
                decider: Decider::new(rule, &sketch_rule, Clusters::default(), FxHashSet::default()),
                known: BatchIndex::default(),
                effects: Effects::default(),
            }
        }

        fn push(&mut self, text: &str) -> Decision {
            let content = self.sketcher.sketch_form(&CanonicalForm::from_text(text));
            let decided = self.effects.documents.clone();
            self.decider
                .decide(&content, &mut self.known, &mut Decided(&decided), &mut self.effects)
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

    /// A list that is said to begin hides what the store has of it.
    #[test]
    fn a_shingle_begins_with_the_first_document_that_has_it() {
        let mut world = World::new(SketchRule { super_shingles: 2, ..exact(2) }, paper());
        for text in ["a b c d e f", "a b c d e g", "a b c x y z"] {
            world.push(text);
        }
        let (mut index, mut supers) = (BTreeSet::new(), BTreeSet::new());
        for document in &world.effects.documents {
            let begins = document.index.iter().map(|shingle| index.insert(*shingle));
            let supers_begin = document.super_shingles.iter().map(|shingle| supers.insert(*shingle));
            assert_eq!(document.begins, begins.chain(supers_begin).collect::<Vec<_>>());
        }
        assert!(
            world.effects.documents[1].begins.contains(&true) && world.effects.documents[1].begins.contains(&false)
        );
    }

    #[test]
    fn common_shingles_nominate_nobody() {
        let rule = MatchRule { common_limit: 2, ..paper() };
        let mut world = World::new(SketchRule { super_shingles: 0, ..exact(1) }, rule);
        for text in ["t a", "t b", "t c"] {
            world.push(text);
        }
        assert_eq!(world.effects.common.len(), 1);
        assert_eq!(world.push("t d").relation, Relation::New);
        assert_eq!(world.known.postings.values().map(Vec::len).max(), Some(3));
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

    proptest! {
        /// With every shingle kept and indexed, any order of arrival gives the clusters of the plain reference.
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
