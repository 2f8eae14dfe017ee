//! Related pages: what else is about this? (Haveliwala, Gionis and Indyk 2000.)
//!
//! The bag of the page asked about is made of what the store holds now, so that a link taken in a moment ago counts. The
//! bags of the answers are those of the last build.

use super::redirects::RedirectWay;
use super::target_names::{LINKING_MAX, NamedTarget, TargetNames};
use crate::document::{ClusterId, DocumentId};
use crate::ports::{FragmentsAbout, RelatedBuild, RelatedView, Snapshot, StoreError};
use crate::related::{
    Bag, FragmentKey, Nominations, RelatedRule, Said, Source, Target, Term, TermCounts, TermReader, bag, sample, weight,
};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// What is asked about.
#[derive(Clone, Copy, Debug)]
pub enum RelatedQuestion<'q> {
    /// A URL, whether or not a page was taken in there; where it redirects, the URL where it leads.
    Url(&'q str),
    /// What some page says.
    Said(&'q Said),
}

/// The pages related to one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RelatedAnswer {
    /// The words of its bag, the heaviest first, with their weights.
    pub bag: Vec<SharedWord>,
    /// Fragments that pages say about it; of each host no more than count.
    pub n_fragments: usize,
    /// The last document that the bags of the answers know; none: nothing was built yet.
    pub built_up_to: Option<DocumentId>,
    /// The related pages, best first.
    pub related: Vec<RelatedPage>,
}

/// An answer with its question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelatedTo<'q> {
    /// What was asked about.
    pub of: &'q str,
    /// The answer.
    #[serde(flatten)]
    pub answer: RelatedAnswer,
}

/// A word and its weight: in one bag, or the smaller one of two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SharedWord {
    /// The word.
    pub word: String,
    /// The weight.
    pub weight: u8,
}

/// A related page.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RelatedPage {
    /// Its URL.
    pub url: String,
    /// The similarity of the bags, 0 to 1.
    pub similarity: f64,
    /// The cluster of what stands there; none where no page does.
    pub cluster: Option<ClusterId>,
    /// The words that both bags share, the heaviest first.
    pub shared: Vec<SharedWord>,
    /// Some pages that link to it.
    pub linked_from: Vec<String>,
}

/// What to do about a store that keeps nothing for related pages.
pub const NO_RELATED: &str = "the store keeps nothing for related pages; `lookalike related build INPUT…` reads the inputs \
                              again for that, and with related.on = true `run` does from now on";

/// Words that are named as a reason, at most.
const REASONS_MAX: usize = 8;

/// The pages related to one, best first, at most `limit`; `None` where nothing is known about the URL. Of one near-duplicate
/// cluster only the best URL answers, and none of the cluster asked about, unless `copies` are wanted.
///
/// # Errors
/// [`StoreError`]
pub fn related<S: Snapshot + RelatedView>(
    snapshot: &S,
    question: RelatedQuestion<'_>,
    limit: usize,
    copies: bool,
) -> Result<Option<RelatedAnswer>, StoreError> {
    let Some(search) = Search::new(snapshot)? else { return Ok(None) };
    search.answer(question, limit, copies)
}

/// The bags of URLs by what the store holds now, weighed by the last build. A bag is empty where nothing is known, and
/// where the URL redirects.
///
/// # Errors
/// [`StoreError`]
pub fn bags_of_urls<'u, S: Snapshot + RelatedView>(
    snapshot: &S,
    urls: impl ExactSizeIterator<Item = &'u str>,
) -> Result<Vec<Bag>, StoreError> {
    let Some(mut search) = Search::new(snapshot)? else { return Ok(vec![Bag::default(); urls.len()]) };
    let bag_of = |url| {
        let way = RedirectWay::from_url(snapshot, url)?;
        if !way.redirecting.is_empty() {
            return Ok(Bag::default());
        }
        let asked = search.about(&way)?;
        search.bag_of(&asked)
    };
    urls.map(bag_of).collect()
}

struct Search<'s, S> {
    snapshot: &'s S,
    rule: RelatedRule,
    build: Option<RelatedBuild>,
    reader: TermReader,
}

/// What is known about the page asked about.
#[derive(Default)]
struct Asked {
    content: TermCounts,
    anchors: TermCounts,
    /// A word of each term.
    words: FxHashMap<Term, String>,
    n_fragments: usize,
    target: Option<Target>,
    cluster: Option<ClusterId>,
}

impl<'s, S: Snapshot + RelatedView> Search<'s, S> {
    /// Searches a store; `None` where it keeps nothing for related pages.
    fn new(snapshot: &'s S) -> Result<Option<Self>, StoreError> {
        let (rule, build) = (snapshot.related_rule()?, snapshot.related_build()?);
        let reader = |rule: &RelatedRule| TermReader::new(rule.stemmer, snapshot.seed());
        Ok(rule.map(|rule| Search { snapshot, reader: reader(&rule), build, rule }))
    }

    fn answer(
        mut self,
        question: RelatedQuestion<'_>,
        limit: usize,
        copies: bool,
    ) -> Result<Option<RelatedAnswer>, StoreError> {
        let asked = match question {
            RelatedQuestion::Url(url) => self.about(&RedirectWay::from_url(self.snapshot, url)?)?,
            RelatedQuestion::Said(said) => {
                let mut asked = Asked::default();
                self.count(said.content(), &mut asked.content, &mut asked.words);
                asked
            }
        };
        if asked.content.is_empty() && asked.n_fragments == 0 {
            return Ok(None);
        }
        let bag = self.bag_of(&asked)?;
        let ranked = self.ranked(&bag, asked.target, limit)?;
        let related = self.pages(&bag, &asked, ranked, limit, copies)?;
        Ok(Some(RelatedAnswer {
            bag: named(bag.weights().to_vec(), &asked.words),
            n_fragments: asked.n_fragments,
            built_up_to: self.build.as_ref().map(|build| build.refreshed_up_to),
            related,
        }))
    }

    /// What is known about the URL at the end of redirects.
    fn about(&mut self, way: &RedirectWay) -> Result<Asked, StoreError> {
        let Some(url) = &way.end else { return Ok(Asked::default()) };
        let target = Target::of(self.snapshot.seed(), url);
        let mut asked = Asked { target: Some(target), ..Asked::default() };
        if let Some(document) = way.document {
            asked.cluster = Some(self.snapshot.cluster_of(document)?);
            for said in self.snapshot.said(&[document])?.iter().flatten() {
                self.count(said.content(), &mut asked.content, &mut asked.words);
            }
        }
        for words in self.said_about(target, &mut asked.n_fragments)? {
            self.count(words.split(' '), &mut asked.anchors, &mut asked.words);
        }
        Ok(asked)
    }

    /// The words of the fragments about a URL that count.
    fn said_about(&self, target: Target, n_fragments: &mut usize) -> Result<Vec<String>, StoreError> {
        let FragmentsAbout { targets, fragments, .. } = self.snapshot.fragments(target, self.rule.per_host_max)?;
        *n_fragments = fragments.len();
        let keys: Vec<FragmentKey> = fragments.iter().map(|(key, _)| *key).collect();
        let mut sampled: HashMap<DocumentId, HashSet<FragmentKey>> = HashMap::new();
        for at in sample(&keys, &self.rule) {
            let (key, document) = fragments[at];
            sampled.entry(document).or_default().insert(key);
        }
        let mut documents: Vec<DocumentId> = sampled.keys().copied().collect();
        documents.sort_unstable();
        let mut words = Vec::new();
        for (document, said) in documents.iter().zip(self.snapshot.said(&documents)?) {
            let mut keys = sampled.remove(document).unwrap_or_default();
            let Some(said) = said else { continue };
            for (passage, key) in said.fragments() {
                if keys.contains(&key) && targets.contains(&Target::of(self.snapshot.seed(), &passage.target)) {
                    keys.remove(&key);
                    words.push(said.words(passage).into_owned());
                }
            }
        }
        Ok(words)
    }

    fn count<'w>(
        &mut self,
        said: impl Iterator<Item = &'w str>,
        counts: &mut TermCounts,
        words: &mut FxHashMap<Term, String>,
    ) {
        for word in said {
            let term = self.reader.term(word);
            *counts.entry(term).or_default() += 1;
            words.entry(term).or_insert_with(|| word.to_string());
        }
    }

    fn bag_of(&self, asked: &Asked) -> Result<Bag, StoreError> {
        let mut terms: Vec<Term> = asked.content.keys().chain(asked.anchors.keys()).copied().collect();
        terms.sort_unstable();
        terms.dedup();
        let n_with: FxHashMap<Term, [u32; 2]> = terms.iter().copied().zip(self.snapshot.frequencies(&terms)?).collect();
        let (n_content, n_anchors) = self.build.as_ref().map_or((0, 0), |build| (build.n_content, build.n_anchors));
        let of = |term: &Term, kind: usize| n_with.get(term).map_or(0, |n_with| n_with[kind]);
        let content = Source { counts: &asked.content, weight: |term| weight(n_content, of(&term, 0), &self.rule) };
        let anchors = Source { counts: &asked.anchors, weight: |term| weight(n_anchors, of(&term, 1), &self.rule) };
        Ok(bag(content, anchors, &self.rule))
    }

    /// The URLs with the bags most like one bag, best first.
    fn ranked(&self, asked: &Bag, own: Option<Target>, limit: usize) -> Result<Vec<(f64, Target, Bag)>, StoreError> {
        // A build that was cut off may have left some of its rows.
        let Some(build) = &self.build else { return Ok(Vec::new()) };
        let bags = self.bags_to_compare(asked, build, self.rule.compared_max(limit))?.into_iter();
        let mut ranked: Vec<(f64, Target, Bag)> =
            bags.map(|(target, bag)| (asked.similarity(&bag), target, bag)).collect();
        ranked.retain(|(similarity, target, _)| *similarity > 0.0 && Some(*target) != own);
        ranked.sort_by(|(one, one_target, _), (other, other_target, _)| {
            other.total_cmp(one).then(one_target.cmp(other_target))
        });
        Ok(ranked)
    }

    /// The bags that may be like one bag: all of a build that has no more than `most`, else the best nominated.
    fn bags_to_compare(
        &self,
        asked: &Bag,
        build: &RelatedBuild,
        most: usize,
    ) -> Result<Vec<(Target, Bag)>, StoreError> {
        if build.n_urls <= most as u64
            && let Some(all) = self.snapshot.all_bags(most)?
        {
            return Ok(all);
        }
        let nominations = Nominations::read(asked, &self.rule, |term, most| self.snapshot.champions(term, most))?;
        let mut targets = nominations.best(most);
        // Neighbouring rows are read together.
        targets.sort_unstable();
        let bags = self.snapshot.bags(&targets)?;
        Ok(targets.into_iter().zip(bags).collect())
    }

    /// The first pages of a ranking. What they need is read for all of them together.
    fn pages(
        &self,
        bag: &Bag,
        asked: &Asked,
        ranked: Vec<(f64, Target, Bag)>,
        limit: usize,
        copies: bool,
    ) -> Result<Vec<RelatedPage>, StoreError> {
        let names = TargetNames::with_rule(self.snapshot, &self.rule);
        let mut seen: HashSet<ClusterId> = asked.cluster.into_iter().collect();
        let mut ranked = ranked.into_iter();
        let (mut pages, mut linking) = (Vec::new(), Vec::new());
        while pages.len() < limit {
            let next: Vec<(f64, Target, Bag)> = ranked.by_ref().take(limit - pages.len()).collect();
            if next.is_empty() {
                break;
            }
            let targets: Vec<Target> = next.iter().map(|(_, target, _)| *target).collect();
            let named = names.named(&targets)?;
            let clusters = self.clusters_at(&named)?;
            for (((similarity, _, theirs), named), cluster) in next.into_iter().zip(named).zip(clusters) {
                let Some(url) = named.url else { continue };
                if !copies && cluster.is_some_and(|cluster| !seen.insert(cluster)) {
                    continue;
                }
                let shared = shared_words(bag, &theirs, &asked.words);
                pages.push(RelatedPage { url, similarity, cluster, shared, linked_from: Vec::new() });
                linking.push(named.linking);
            }
        }
        self.tell_linking(&linking, &mut pages)?;
        Ok(pages)
    }

    /// The clusters of what stands at each URL.
    fn clusters_at(&self, named: &[NamedTarget]) -> Result<Vec<Option<ClusterId>>, StoreError> {
        let urls = named.iter().map(|named| named.url.as_deref().unwrap_or_default());
        let keys: Vec<_> = urls.map(|url| self.snapshot.key_of(url)).collect();
        let states = self.snapshot.states(&keys)?.into_iter();
        let documents = states.map(|state| state.and_then(|state| state.newest.seen.document()));
        documents.map(|document| document.map(|document| self.snapshot.cluster_of(document)).transpose()).collect()
    }

    /// Adds the first URLs of the documents that link to each page, without the page's own.
    fn tell_linking(&self, linking: &[Vec<DocumentId>], pages: &mut [RelatedPage]) -> Result<(), StoreError> {
        let mut documents = linking.concat();
        documents.sort_unstable();
        documents.dedup();
        let keys: Vec<_> =
            self.snapshot.documents(&documents)?.into_iter().map(|document| document.first_url).collect();
        let urls = self.snapshot.urls(&keys)?;
        let url = |document: &DocumentId| Some(&urls[documents.binary_search(document).ok()?]);
        for (page, linking) in pages.iter_mut().zip(linking) {
            let others = linking.iter().filter_map(url).filter(|url| **url != page.url);
            page.linked_from = others.take(LINKING_MAX).cloned().collect();
        }
        Ok(())
    }
}

/// The words that two bags share, the heaviest first.
fn shared_words(bag: &Bag, other: &Bag, words: &FxHashMap<Term, String>) -> Vec<SharedWord> {
    let shared = bag.weights().iter().map(|(term, weight)| (*term, (*weight).min(other.weight(*term))));
    let mut shared = named(shared.filter(|(_, weight)| *weight > 0).collect(), words);
    shared.truncate(REASONS_MAX);
    shared
}

/// Terms by a word of each, the heaviest first.
fn named(mut weights: Vec<(Term, u8)>, words: &FxHashMap<Term, String>) -> Vec<SharedWord> {
    weights.sort_unstable_by_key(|(term, weight)| (Reverse(*weight), *term));
    let word = |(term, weight): (Term, u8)| Some(SharedWord { word: words.get(&term)?.clone(), weight });
    weights.into_iter().filter_map(word).collect()
}
