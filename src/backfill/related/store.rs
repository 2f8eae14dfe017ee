//! Builds the bags of a store from what its documents say, by sorting and merging.
//!
//! ```text
//! said ─▶ past redirects ─▶ fragments sorted by URL ┐
//! URLs and what stands there ───────────────────────┴▶ counted terms, N and df ─▶ bags, champions, terms
//!                                                               └▶ the phases of the paper ─▶ neighbours, centers
//! ```

use super::datasets::{CHAMPIONS, KEPT_FRAGMENTS, NEAREST, STORE_COUNTED, STORE_COUNTS, STORE_FRAGMENTS};
use super::rows::{CountedRow, sorted};
use super::store_rows::{ChampionRow, CountsRow, KeptFragment, NearestRow, StoreFragment};
use super::{BuildSizes, BuildSpec, Built, KnownUrl, KnownUrls};
use crate::backfill::checkpoint::Checkpoint;
use crate::backfill::context::Context;
use crate::backfill::datasets::{DatasetFile, DatasetWriter};
use crate::backfill::error::BackfillError;
use crate::document::{DocumentId, Fingerprint, Seed};
use crate::extsort::{MergeReader, RunFile};
use crate::ports::{
    NEIGHBOURS_MAX, Neighbours, RelatedBuild, RelatedClusters, RelatedTables, RelatedView, Snapshot, StoreError,
};
use crate::related::{
    Bag, FragmentKey, Frequencies, HostShares, REDIRECTS_MAX, RelatedRule, Said, Source, Target, Term, TermCounts,
    TermReader, bag, champions, sample,
};
use crate::sweep::Seen;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// URLs whose pages are read together.
const URLS_TOGETHER: usize = 1024;

/// The counted terms of every URL of a store, in files.
pub struct CountedUrls<'a> {
    context: &'a Context,
    seed: Seed,
    rule: RelatedRule,
    up_to: DocumentId,
    next_seq: u64,
    redirects: Redirects,
    kept: DatasetFile,
    counts: DatasetFile,
    content: Frequencies,
    anchors: Frequencies,
}

/// Counts the terms of every URL. What documents say that stand nowhere any more does not count.
///
/// # Errors
/// [`BackfillError`]
pub fn count_related<'a, S: Snapshot + RelatedView>(
    store: &S,
    rule: &RelatedRule,
    context: &'a Context,
) -> Result<CountedUrls<'a>, BackfillError> {
    let redirects = Redirects::read(store)?;
    let fragments = sorted_fragments(store, &redirects, context)?;
    let mut counter = Counter {
        store,
        context,
        rule: rule.clone(),
        reader: TermReader::new(rule.stemmer, store.seed()),
        redirects: &redirects,
        fragments,
        next: None,
        waiting: Vec::new(),
        kept: KEPT_FRAGMENTS.create(&context.folder, "store")?,
        counts: STORE_COUNTS.create(&context.folder, "store")?,
        content: Frequencies::default(),
        anchors: Frequencies::default(),
    };
    counter.next = counter.fragments.next_row()?;
    let mut outcome = Ok(());
    store.each_url(&mut |url, state| {
        counter.waiting.push((Target::of(store.seed(), &url), url, state.newest.seen.document()));
        if counter.waiting.len() == URLS_TOGETHER {
            outcome = counter.count_waiting();
        }
        outcome.is_ok()
    })?;
    outcome?;
    counter.count_waiting()?;
    counter.count_uncrawled_before(None)?;
    let Counter { kept, counts, content, anchors, .. } = counter;
    Ok(CountedUrls {
        context,
        seed: *store.seed(),
        rule: rule.clone(),
        up_to: DocumentId(store.n_documents()),
        next_seq: store.next_seq(),
        redirects,
        kept: kept.finish()?,
        counts: counts.finish()?,
        content,
        anchors,
    })
}

/// The URLs that redirect now, in memory.
struct Redirects {
    /// Each such URL by its target, with where it leads.
    next: FxHashMap<Target, Target>,
    /// Where each leads, and its fingerprint, sorted.
    rows: Vec<(Target, Fingerprint)>,
}

impl Redirects {
    fn read(store: &impl Snapshot) -> Result<Self, StoreError> {
        let mut rows = Vec::new();
        store.each_url(&mut |url, state| {
            if let Seen::Redirect(to) = &state.newest.seen {
                rows.push((Target::of(store.seed(), to), store.key_of(&url)));
            }
            true
        })?;
        rows.sort_unstable();
        Ok(Redirects { next: rows.iter().map(|(to, from)| (Target::of_key(*from), *to)).collect(), rows })
    }

    fn has(&self, target: Target) -> bool {
        self.next.contains_key(&target)
    }

    /// The URL that a link to a URL is about; `None` where redirects lead too far.
    fn end(&self, target: Target) -> Option<Target> {
        let way = std::iter::successors(Some(target), |target| self.next.get(target).copied());
        way.take(REDIRECTS_MAX + 1).find(|target| !self.has(*target))
    }

    /// A URL to which another one redirects.
    fn url(&self, store: &impl Snapshot, to: Target) -> Result<Option<String>, StoreError> {
        let first = self.rows.partition_point(|(other, _)| *other < to);
        let from = self.rows.get(first).filter(|(other, _)| *other == to).map(|(_, from)| *from);
        let state = from.map(|from| store.states(&[from])).transpose()?.and_then(|mut states| states.pop().flatten());
        Ok(state.and_then(|state| if let Seen::Redirect(to) = state.newest.seen { Some(to) } else { None }))
    }
}

/// The fragments of all documents that stand somewhere, sorted by the URLs that they name and, where these redirect, also
/// by where they lead.
fn sorted_fragments<S: Snapshot + RelatedView>(
    store: &S,
    redirects: &Redirects,
    context: &Context,
) -> Result<MergeReader<StoreFragment>, BackfillError> {
    let stands = store.standing()?;
    let mut sorter = STORE_FRAGMENTS.sorter(&context.folder, "store", context.sorter_bytes());
    let mut outcome: Result<(), BackfillError> = Ok(());
    store.each_said(DocumentId(0), &mut |document, said| {
        if !stands.get(document.0 as usize).is_some_and(|stands| *stands) {
            return true;
        }
        let said = &said;
        let mut rows = said.fragments().flat_map(|(passage, key)| {
            let named = Target::of(store.seed(), &passage.target);
            let end = redirects.end(named).filter(|end| *end != named);
            let row = move |(target, is_moved): (Target, bool)| StoreFragment {
                target,
                key,
                is_moved,
                document,
                url: passage.target.clone(),
                words: said.words(passage).into_owned(),
            };
            std::iter::once((named, false)).chain(end.map(|end| (end, true))).map(row)
        });
        outcome = context.check_stop().and_then(|()| rows.try_for_each(|row| sorter.push(row)));
        outcome.is_ok()
    })?;
    outcome?;
    let files = sorter.finish()?;
    let files =
        files.iter().map(|file| STORE_FRAGMENTS.open(&context.folder, &file.file)).collect::<Result<Vec<_>, _>>()?;
    Ok(MergeReader::new(&files, None, None)?)
}

/// Merges URLs with the fragments about them, both in the order of the targets.
struct Counter<'a, S> {
    store: &'a S,
    context: &'a Context,
    rule: RelatedRule,
    reader: TermReader,
    redirects: &'a Redirects,
    fragments: MergeReader<StoreFragment>,
    next: Option<StoreFragment>,
    waiting: Vec<(Target, String, Option<DocumentId>)>,
    kept: DatasetWriter<KeptFragment>,
    counts: DatasetWriter<CountsRow>,
    content: Frequencies,
    anchors: Frequencies,
}

impl<S: Snapshot + RelatedView> Counter<'_, S> {
    fn count_waiting(&mut self) -> Result<(), BackfillError> {
        self.context.check_stop()?;
        let waiting = std::mem::take(&mut self.waiting);
        let documents: BTreeSet<DocumentId> = waiting.iter().filter_map(|(.., document)| *document).collect();
        let documents: Vec<DocumentId> = documents.into_iter().collect();
        let said = self.store.said(&documents)?;
        for (target, url, document) in waiting {
            self.count_uncrawled_before(Some(target))?;
            let said = document.and_then(|document| said[documents.binary_search(&document).ok()?].as_ref());
            let (anchors, _) = self.anchors_of(target)?;
            self.count(target, url, said, &anchors)?;
        }
        Ok(())
    }

    /// Counts the URLs with fragments but without a page, up to a target.
    fn count_uncrawled_before(&mut self, end: Option<Target>) -> Result<(), BackfillError> {
        while let Some(target) =
            self.next.as_ref().map(|next| next.target).filter(|next| end.is_none_or(|end| *next < end))
        {
            let (anchors, url) = self.anchors_of(target)?;
            let url = if url.is_some() { url } else { self.redirects.url(self.store, target)? };
            self.count(target, url.unwrap_or_default(), None, &anchors)?;
        }
        Ok(())
    }

    /// The terms of the fragments about the next URL, which must be this one or a later one; and the URL, if they name it.
    fn anchors_of(&mut self, target: Target) -> Result<(TermCounts, Option<String>), BackfillError> {
        let (mut keys, mut words): (Vec<FragmentKey>, Vec<String>) = Default::default();
        let mut named = None;
        let (mut shares, mut kept_shares) = [self.rule.per_host_max; 2].map(HostShares::new).into();
        while let Some(StoreFragment { key, is_moved, document, url, words: said, .. }) =
            self.next.take_if(|next| next.target == target)
        {
            // What one host says beyond its share is left out here, and in the store from now on. The store keeps a
            // fragment under the URL that it names: a redirect may end.
            if !is_moved && kept_shares.admits(key) {
                self.kept.push(KeptFragment { target, key, document })?;
            }
            if !is_moved {
                named.get_or_insert(url);
            }
            if shares.admits(key) {
                keys.push(key);
                words.push(said);
            }
            self.next = self.fragments.next_row()?;
        }
        let mut counts = TermCounts::default();
        for at in sample(&keys, &self.rule) {
            self.reader.count(words[at].split(' '), &mut counts);
        }
        Ok((counts, named))
    }

    fn count(
        &mut self,
        target: Target,
        url: String,
        said: Option<&Said>,
        anchors: &TermCounts,
    ) -> Result<(), BackfillError> {
        if self.redirects.has(target) {
            return Ok(());
        }
        let mut content = TermCounts::default();
        self.reader.count(said.into_iter().flat_map(Said::content), &mut content);
        if content.is_empty() && anchors.is_empty() {
            return Ok(());
        }
        self.content.add(&content);
        self.anchors.add(anchors);
        let (content, anchors) = (sorted(&content), sorted(anchors));
        self.counts.push(CountsRow { target, url, content, anchors })?;
        Ok(())
    }
}

impl CountedUrls<'_> {
    /// Finds neighbours and centers by the phases of the paper, in a folder of their own.
    ///
    /// # Errors
    /// [`BackfillError`]
    pub fn clusters(&self) -> Result<Built, BackfillError> {
        let known = self.by_url()?;
        let context = Context { folder: self.context.folder.join("clusters"), ..self.context.clone() };
        let spec = BuildSpec { rule: self.rule.clone(), reading: String::new(), inputs: Vec::new() };
        let (part_rows, seed) = (super::part_rows(context.memory), self.seed);
        let mut checkpoint = Checkpoint::open(&context.folder, spec, part_rows, Some(seed), || seed)?;
        super::build_known(&mut checkpoint, &context, Some(&known))?;
        Built::of(checkpoint)
    }

    /// Sorts what was counted by URL: the order in which CENTER scans, and in which equal values of signatures are paired, is
    /// then that of a build of files.
    fn by_url(&self) -> Result<KnownByUrl, BackfillError> {
        let mut sorter = STORE_COUNTED.sorter(&self.context.folder, "store", self.context.sorter_bytes());
        let mut rows = STORE_COUNTS.open(&self.context.folder, &self.counts.file)?.read(None);
        while let Some(CountsRow { url, content, anchors, .. }) = rows.next_row()? {
            self.context.check_stop()?;
            sorter.push(CountedRow { url, content, anchors })?;
        }
        let open = |file: &DatasetFile| STORE_COUNTED.open(&self.context.folder, &file.file);
        Ok(KnownByUrl(sorter.finish()?.iter().map(open).collect::<Result<_, _>>()?))
    }

    /// Weighs what was counted, and writes bags, champions, terms, and the clusters where they were looked for.
    ///
    /// # Errors
    /// [`BackfillError`]
    pub fn write(
        &self,
        tables: &mut dyn RelatedTables,
        clusters: Option<&Built>,
    ) -> Result<RelatedBuild, BackfillError> {
        self.write_fragments(tables)?;
        self.redirects.rows.iter().try_for_each(|(to, from)| tables.redirect(*to, *from))?;
        let mut sorter = CHAMPIONS.sorter(&self.context.folder, "store", self.context.sorter_bytes());
        let mut n_urls = 0;
        self.each_bag(&mut |target, bag| {
            n_urls += 1;
            tables.bag(target, &bag)?;
            for (term, weight) in champions(&bag, &self.rule) {
                sorter.push(ChampionRow { term, lightness: u8::MAX - weight, target })?;
            }
            Ok(())
        })?;
        let files = sorter.finish()?;
        let open = |file: &DatasetFile| CHAMPIONS.open(&self.context.folder, &file.file);
        let files = files.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut merged = MergeReader::new(&files, None, None)?;
        while let Some(ChampionRow { term, lightness, target }) = merged.next_row()? {
            tables.champion(term, u8::MAX - lightness, target)?;
        }
        self.terms().try_for_each(|(term, n_with)| tables.term(term, n_with))?;
        Ok(RelatedBuild {
            rule: self.rule.clone(),
            up_to: self.up_to,
            refreshed_up_to: self.up_to,
            next_seq: Some(self.next_seq),
            n_content: self.content.n_bags,
            n_anchors: self.anchors.n_bags,
            n_urls,
            clusters: clusters.map(|built| self.write_clusters(built, tables)).transpose()?,
        })
    }

    /// Weighs what was counted, and gives every bag that is not empty, in the order of the targets.
    pub(super) fn each_bag(
        &self,
        found: &mut dyn FnMut(Target, Bag) -> Result<(), BackfillError>,
    ) -> Result<(), BackfillError> {
        let mut rows = STORE_COUNTS.open(&self.context.folder, &self.counts.file)?.read(None);
        while let Some(row) = rows.next_row()? {
            let [content, anchors] = [row.content, row.anchors].map(TermCounts::from_iter);
            let content = Source { counts: &content, weight: |term| self.content.weight(term, &self.rule) };
            let anchors = Source { counts: &anchors, weight: |term| self.anchors.weight(term, &self.rule) };
            let bag = bag(content, anchors, &self.rule);
            if !bag.weights().is_empty() {
                found(row.target, bag)?;
            }
        }
        Ok(())
    }

    /// In how many bags of content and of anchors each term is, in the order of the terms.
    pub(super) fn terms(&self) -> impl Iterator<Item = (Term, [u32; 2])> {
        let terms: BTreeSet<Term> = self.content.n_with.keys().chain(self.anchors.n_with.keys()).copied().collect();
        let n_with = |of: &Frequencies, term: &Term| of.n_with.get(term).copied().unwrap_or(0);
        terms.into_iter().map(move |term| (term, [n_with(&self.content, &term), n_with(&self.anchors, &term)]))
    }

    /// Writes neighbours and centers. Twelve bytes a URL are in memory, and sixteen more for each member of a cluster.
    fn write_clusters(&self, built: &Built, tables: &mut dyn RelatedTables) -> Result<RelatedClusters, BackfillError> {
        let mut targets: Vec<Target> = Vec::new();
        built.each_bag::<BackfillError>(|url, _| {
            targets.push(Target::of(&self.seed, &url));
            Ok(())
        })?;
        let mut centers: Vec<u32> = Vec::with_capacity(targets.len());
        built.each_center::<BackfillError>(|_, center| {
            centers.push(center);
            Ok(())
        })?;
        let target = |id: u32| targets[id as usize];
        let mut sorter = NEAREST.sorter(&self.context.folder, "store", self.context.sorter_bytes());
        built.each_neighbours::<BackfillError>(|id, neighbours| {
            let nearest = neighbours.iter().take(NEIGHBOURS_MAX);
            let nearest = nearest.map(|found| (target(found.id), (found.similarity as f32).to_bits())).collect();
            sorter.push(NearestRow { target: target(id), center: target(centers[id as usize]), nearest })
        })?;
        let files = sorter.finish()?;
        let open = |file: &DatasetFile| NEAREST.open(&self.context.folder, &file.file);
        let files = files.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut rows = MergeReader::new(&files, None, None)?;
        while let Some(NearestRow { target, center, nearest }) = rows.next_row()? {
            let nearest = nearest.into_iter().map(|(target, bits)| (target, f32::from_bits(bits))).collect();
            tables.neighbours(target, &Neighbours { center, nearest })?;
        }
        let with_center = (0..).zip(&centers).filter(|(id, center)| id != *center);
        let mut members: Vec<(Target, Target)> =
            with_center.map(|(id, center)| (target(*center), target(id))).collect();
        members.sort_unstable();
        members.into_iter().try_for_each(|(center, member)| tables.member(center, member))?;
        let BuildSizes { pairs, clusters_of_related, largest, .. } = built.report().sizes;
        Ok(RelatedClusters { n_pairs: pairs, n_clusters: clusters_of_related, largest })
    }

    fn write_fragments(&self, tables: &mut dyn RelatedTables) -> Result<(), BackfillError> {
        let mut rows = KEPT_FRAGMENTS.open(&self.context.folder, &self.kept.file)?.read(None);
        while let Some(KeptFragment { target, key, document }) = rows.next_row()? {
            tables.fragment(target, key, document)?;
        }
        Ok(())
    }
}

/// The terms of every URL, sorted by URL.
struct KnownByUrl(Vec<Arc<RunFile<CountedRow>>>);

impl KnownUrls for KnownByUrl {
    fn n_parts(&self) -> usize {
        1
    }

    fn read(
        &self,
        _: usize,
        found: &mut dyn FnMut(KnownUrl) -> Result<(), BackfillError>,
    ) -> Result<(), BackfillError> {
        let mut rows = MergeReader::new(&self.0, None, None)?;
        while let Some(CountedRow { url, content, anchors }) = rows.next_row()? {
            let [content, anchors] = [content, anchors].map(TermCounts::from_iter);
            found(KnownUrl { url, content, anchors })?;
        }
        Ok(())
    }
}
