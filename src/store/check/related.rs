//! Checks related pages: what documents say against the ways that lead to it, bags against the terms that lead to them.

use super::{Check, hex, unreadable};
use crate::document::{DocumentId, Seed};
use crate::ports::{Neighbours, RelatedBuild, RelatedView, StoreError};
use crate::related::{Bag, FragmentKey, PairFilter, RelatedRule, Said, Target, champions};
use crate::store::RocksStore;
use crate::store::fragment::fragments_of;
use crate::store::schema::{self, Fields, cf};
use crate::sweep::Seen;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

/// Rows whose counterparts are looked up together.
const ROWS_TOGETHER: usize = 4096;

/// A way from a URL to a document that says something about it.
type Way = (Target, FragmentKey, DocumentId);

impl Check<'_> {
    /// Stores without related pages have nothing to check.
    pub(super) fn related(&mut self) {
        if !self.store.has_related() {
            return;
        }
        let build = match self.store.related_build() {
            Ok(build) => build,
            Err(error) => return self.add_finding(cf::META, "related-build", unreadable(&error)),
        };
        // A swap that was cut off leaves nothing to compare before the next build.
        match self.store.is_swap_cut_off() {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => return self.add_finding(cf::META, "related-swap", unreadable(&error)),
        }
        let left_out = match build.as_ref().map(|build| LeftOut::new(self.store, build)).transpose() {
            Ok(left_out) => left_out,
            Err(error) => return self.add_finding(cf::STATES, "", unreadable(&error)),
        };
        self.said(left_out.as_ref());
        self.fragments();
        self.redirects(build.as_ref().is_some_and(|build| build.next_seq.is_some()));
        if let Some(build) = build {
            self.build(&build);
        }
    }

    /// Every row of `redirects` can be read, and since a build one leads back from where a URL redirects.
    fn redirects(&mut self, is_built: bool) {
        if !self.store.has_redirects() {
            return;
        }
        let mut rows = self.rows(cf::REDIRECTS);
        while let Some((key, _)) = self.next(&mut rows) {
            if schema::read_redirect_key(&key).is_none() {
                self.add_finding(cf::REDIRECTS, hex(&key), "the key cannot be read");
            }
        }
        let (store, mut keys) = (self.store, Vec::new());
        let read = store.scan_states(&mut |url, state| {
            if let (true, Seen::Redirect(to)) = (is_built, state.newest.seen) {
                keys.push(schema::redirect_key(Target::of(&store.seed, &to), url));
            }
        });
        if let Err(error) = read {
            self.add_finding(cf::STATES, "", unreadable(&error));
        }
        for keys in keys.chunks(ROWS_TOGETHER) {
            match store.rows(cf::REDIRECTS, keys.iter()) {
                Ok(rows) => {
                    for (key, _) in keys.iter().zip(rows).filter(|(_, row)| row.is_none()) {
                        self.add_finding(cf::REDIRECTS, hex(key), "nothing leads back from where the URL redirects");
                    }
                }
                Err(error) => self.add_finding(cf::REDIRECTS, "", unreadable(&error)),
            }
        }
    }

    /// Every row of `said` can be read, and `fragments` leads to what it says, but for what the build left out.
    fn said(&mut self, left_out: Option<&LeftOut>) {
        let indexed_up_to = self.store.indexed_up_to().unwrap_or_default();
        let mut rows = self.rows(cf::SAID);
        let mut ways: Vec<Way> = Vec::new();
        while let Some((key, row)) = self.next(&mut rows) {
            let document = Fields(&key).document().filter(|id| key.len() == 4 && self.is_document(*id));
            let Some(document) = document else {
                self.add_finding(cf::SAID, hex(&key), "the key is not a document");
                continue;
            };
            let Some(said) = Said::decode(&row) else {
                self.add_finding(cf::SAID, document, "the row cannot be read");
                continue;
            };
            if document.0 <= indexed_up_to {
                ways.extend(fragments_of(&self.store.seed, [(document, &said)]));
            }
            if ways.len() >= ROWS_TOGETHER {
                self.find_ways(&mut ways, left_out);
            }
        }
        self.find_ways(&mut ways, left_out);
    }

    fn find_ways(&mut self, ways: &mut Vec<Way>, left_out: Option<&LeftOut>) {
        let keys = ways.iter().map(|(target, key, _)| schema::fragment_key(*target, *key));
        match self.store.rows(cf::FRAGMENTS, keys) {
            Ok(rows) => {
                let missing: Vec<Way> =
                    ways.iter().zip(rows).filter(|(_, row)| row.is_none()).map(|(way, _)| *way).collect();
                let is_left_out = |way: &Way| left_out.is_some_and(|of| of.is_left_out(self.store, way));
                let missing: Vec<Way> = missing.into_iter().filter(|way| !is_left_out(way)).collect();
                for (target, key, document) in missing {
                    let what = format!("nothing leads to what document {document} says");
                    self.add_finding(cf::FRAGMENTS, hex(&schema::fragment_key(target, key)), what);
                }
            }
            Err(error) => self.add_finding(cf::FRAGMENTS, "", unreadable(&error)),
        }
        ways.clear();
    }

    /// Every row of `fragments` leads to a document that says it.
    fn fragments(&mut self) {
        let mut rows = self.rows(cf::FRAGMENTS);
        let mut ways: Vec<Way> = Vec::new();
        while let Some((key, row)) = self.next(&mut rows) {
            match schema::read_fragment(&key, &row).filter(|(_, _, document)| self.is_document(*document)) {
                Some(way) => ways.push(way),
                None => self.add_finding(cf::FRAGMENTS, hex(&key), "it does not lead to a document"),
            }
            if ways.len() == ROWS_TOGETHER {
                self.follow_ways(&mut ways);
            }
        }
        self.follow_ways(&mut ways);
    }

    fn follow_ways(&mut self, ways: &mut Vec<Way>) {
        ways.sort_unstable_by_key(|(_, _, document)| *document);
        let mut documents: Vec<DocumentId> = ways.iter().map(|(_, _, document)| *document).collect();
        documents.dedup();
        match self.store.said(&documents) {
            Ok(said) => {
                let says = |way: &Way, said: Option<&Said>| says(&self.store.seed, way, said);
                let wrong = |way: &&Way| {
                    let said = documents.binary_search(&way.2).ok().and_then(|at| said[at].as_ref());
                    !says(way, said)
                };
                let wrong: Vec<Way> = ways.iter().filter(wrong).copied().collect();
                for (target, key, document) in wrong {
                    let what = format!("document {document} does not say it");
                    self.add_finding(cf::FRAGMENTS, hex(&schema::fragment_key(target, key)), what);
                }
            }
            Err(error) => self.add_finding(cf::SAID, "", unreadable(&error)),
        }
        ways.clear();
    }

    /// The bags are whole, and the terms that lead to them are their champions.
    fn build(&mut self, build: &RelatedBuild) {
        self.terms(build);
        self.related_clusters(build);
        let expected = self.bags(build);
        let mut found = 0u64;
        let mut rows = self.rows(cf::CHAMPIONS);
        while let Some((key, row)) = self.next(&mut rows) {
            match schema::read_champions(&key, &row) {
                Some((term, weight, targets)) => {
                    let sum = |sum: u64, target| sum.wrapping_add(row_hash((term, weight, target)));
                    found = targets.fold(found, sum);
                }
                None => self.add_finding(cf::CHAMPIONS, hex(&key), "the row cannot be read"),
            }
        }
        if found != expected {
            let what = "they are not those of the bags; `lookalike related build` makes both anew";
            self.add_finding(cf::CHAMPIONS, "", what);
        }
    }

    /// Neighbours are as similar as their bags, and the members of clusters are those whose rows name the center.
    fn related_clusters(&mut self, build: &RelatedBuild) {
        let mut expected = 0u64;
        let mut rows = self.rows(cf::NEIGHBOURS);
        while let Some((key, row)) = self.next(&mut rows) {
            let target = Fields(&key).u64().filter(|_| key.len() == 8).map(Target);
            let Some((target, neighbours)) = target.zip(schema::read_neighbours(&row)) else {
                self.add_finding(cf::NEIGHBOURS, hex(&key), "the row cannot be read");
                continue;
            };
            if neighbours.center != target {
                expected = expected.wrapping_add(row_hash((neighbours.center, target)));
            }
            // Bags that were made anew since are no longer those that the build compared.
            let is_exact = build.rule.filter == PairFilter::Bags && build.refreshed_up_to <= build.up_to;
            match are_similar(self.store, target, &neighbours, is_exact) {
                Ok(true) => {}
                Ok(false) => self.add_finding(cf::NEIGHBOURS, hex(&key), "the bags are not as similar as it says"),
                Err(error) => self.add_finding(cf::BAGS, "", unreadable(&error)),
            }
        }
        let (mut found, mut n_clusters, mut last) = (0u64, 0u64, None);
        let mut rows = self.rows(cf::CENTERS);
        while let Some((key, _)) = self.next(&mut rows) {
            match schema::read_member_key(&key) {
                Some((center, member)) => {
                    found = found.wrapping_add(row_hash((center, member)));
                    n_clusters += u64::from(last.replace(center) != Some(center));
                }
                None => self.add_finding(cf::CENTERS, hex(&key), "the key cannot be read"),
            }
        }
        if found != expected || n_clusters != build.clusters.map_or(0, |clusters| clusters.n_clusters) {
            let what = "they are not those of the neighbours; `lookalike related build --clusters` makes both anew";
            self.add_finding(cf::CENTERS, "", what);
        }
    }

    /// No term is in more bags than there are.
    fn terms(&mut self, build: &RelatedBuild) {
        let mut rows = self.rows(cf::TERMS);
        while let Some((key, row)) = self.next(&mut rows) {
            let mut fields = Fields(&row);
            let n_with = fields.u32().zip(fields.u32()).filter(|_| row.len() == 8 && key.len() == 4);
            let is_possible = |(content, anchors): (u32, u32)| {
                u64::from(content) <= build.n_content && u64::from(anchors) <= build.n_anchors
            };
            if !n_with.is_some_and(is_possible) {
                self.add_finding(cf::TERMS, hex(&key), "it does not count the bags with a term");
            }
        }
    }

    /// Checks the bags. Returns a sum over their champions.
    fn bags(&mut self, build: &RelatedBuild) -> u64 {
        let RelatedBuild { rule, n_urls, .. } = build;
        let mut rows = self.rows(cf::BAGS);
        let (mut sum, mut n) = (0u64, 0u64);
        while let Some((key, row)) = self.next(&mut rows) {
            let target = Fields(&key).u64().filter(|_| key.len() == 8).map(Target);
            let Some((target, bag)) = target.zip(schema::read_bag(&row)) else {
                self.add_finding(cf::BAGS, hex(&key), "the row cannot be read");
                continue;
            };
            n += 1;
            if bag.mass() != u32::from(rule.mass) {
                let what = format!("its weights sum to {}, not to {}", bag.mass(), rule.mass);
                self.add_finding(cf::BAGS, hex(&key), what);
            }
            sum = champions_sum(&bag, rule, target).wrapping_add(sum);
        }
        if n != *n_urls {
            self.add_finding(cf::BAGS, "", format!("there are {n} bags, the build made {n_urls}"));
        }
        sum
    }
}

/// What a build left out: what documents said that stood nowhere, and what a host said beyond its share.
struct LeftOut {
    up_to: DocumentId,
    per_host_max: usize,
    /// Whether each document stands somewhere now.
    stands: Vec<bool>,
}

impl LeftOut {
    fn new(store: &RocksStore, build: &RelatedBuild) -> Result<Self, StoreError> {
        let stands = store.standing()?;
        Ok(LeftOut { up_to: build.up_to, per_host_max: build.rule.per_host_max, stands })
    }

    fn is_left_out(&self, store: &RocksStore, (target, key, document): &Way) -> bool {
        let has_share = || {
            let of_host = |other: &FragmentKey| other.host == key.host && other.said < key.said;
            let kept = store.fragments_naming(*target, 0).unwrap_or_default();
            self.per_host_max > 0 && kept.iter().filter(|(other, _)| of_host(other)).count() >= self.per_host_max
        };
        *document <= self.up_to && (!self.stands[document.0 as usize] || has_share())
    }
}

fn says(seed: &Seed, (target, key, _): &Way, said: Option<&Said>) -> bool {
    said.is_some_and(|said| {
        said.fragments().any(|(passage, own)| own == *key && Target::of(seed, &passage.target) == *target)
    })
}

fn champions_sum(bag: &crate::related::Bag, rule: &RelatedRule, target: Target) -> u64 {
    champions(bag, rule).into_iter().fold(0, |sum, (term, weight)| sum.wrapping_add(row_hash((term, weight, target))))
}

/// The contribution of one row to a sum that does not depend on the order.
fn row_hash(row: impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(row)
}

/// Whether the bags of a URL and its neighbours are as similar as the row says, best first. Only their order
/// is checked unless the row `is_exact`: similarities by signatures are estimates.
fn are_similar(
    store: &RocksStore,
    target: Target,
    neighbours: &Neighbours,
    is_exact: bool,
) -> Result<bool, StoreError> {
    let targets: Vec<Target> = neighbours.nearest.iter().map(|(target, _)| *target).collect();
    let own = store.bags(&[target])?.into_iter().next().unwrap_or_default();
    let bags = store.bags(&targets)?;
    let as_compared =
        |(bag, (_, similarity)): (&Bag, &(Target, f32))| (own.similarity(bag) as f32).to_bits() == similarity.to_bits();
    let is_sorted = neighbours.nearest.is_sorted_by(|(_, one), (_, other)| one >= other);
    Ok(is_sorted && !targets.is_empty() && (!is_exact || bags.iter().zip(&neighbours.nearest).all(as_compared)))
}
