//! The second phase: collects what is known about each URL, counts in how many URLs' words each term occurs, and weighs
//! the terms to bags.

use super::datasets::{BAGS, COUNTED, FRAGMENTS, FREQUENCIES, STATES};
use super::pages::part_rows;
use super::rows::{BagRow, CountedRow, Counts, FragmentRow, FrequencyRow, Kind, StateRow, sorted};
use super::work::RelatedBuild;
use crate::backfill::checkpoint::{Checkpoint, FinishedJob};
use crate::backfill::context::Context;
use crate::backfill::datasets::{DatasetFile, DatasetSorter};
use crate::backfill::error::BackfillError;
use crate::backfill::jobs::{Job, run_jobs};
use crate::extsort::{MergeReader, RunFile, split_points};
use crate::related::{BagKind, FragmentKey, Frequencies, RelatedRule, Source, Term, TermCounts, bag, sample};
use std::sync::Arc;

/// What is known about a URL.
#[derive(Clone, Debug, Default)]
pub struct KnownUrl {
    /// The URL.
    pub url: String,
    /// The terms of its content.
    pub content: TermCounts,
    /// The terms of the sampled fragments about it.
    pub anchors: TermCounts,
}

/// All URLs about which something is known, in parts that are read side by side.
pub trait KnownUrls: Sync {
    /// The number of parts, which is the same in every run that resumes a build.
    fn n_parts(&self) -> usize;

    /// Gives every URL of a part once, in the order of URLs. All URLs of a part come behind those of the parts before it.
    ///
    /// # Errors
    /// [`BackfillError`], and any error of `found`.
    fn read(
        &self,
        part: usize,
        found: &mut dyn FnMut(KnownUrl) -> Result<(), BackfillError>,
    ) -> Result<(), BackfillError>;
}

/// What the pages of this build say.
pub(super) struct SaidByPages {
    rule: RelatedRule,
    states: Vec<Arc<RunFile<StateRow>>>,
    fragments: Vec<Arc<RunFile<FragmentRow>>>,
    /// The first fragments of all parts but the first.
    points: Vec<FragmentRow>,
}

impl SaidByPages {
    /// Opens the files of the first phase.
    pub fn open(checkpoint: &Checkpoint<RelatedBuild>) -> Result<Self, BackfillError> {
        let (states, fragments) = (checkpoint.open_dataset(STATES)?, checkpoint.open_dataset(FRAGMENTS)?);
        let n_rows = fragments.iter().map(|file| file.n_rows()).sum();
        let points = split_points(&fragments, part_rows(n_rows), |row| first_about(row.target.clone()));
        Ok(SaidByPages { rule: checkpoint.spec().rule.clone(), states, fragments, points })
    }
}

/// The first fragment that a URL can have.
fn first_about(target: String) -> FragmentRow {
    FragmentRow { target, key: FragmentKey { host: 0, said: 0 }, terms: [].into() }
}

impl KnownUrls for SaidByPages {
    fn n_parts(&self) -> usize {
        self.points.len() + 1
    }

    fn read(
        &self,
        part: usize,
        found: &mut dyn FnMut(KnownUrl) -> Result<(), BackfillError>,
    ) -> Result<(), BackfillError> {
        let from = part.checked_sub(1).map(|before| &self.points[before]);
        let to = self.points.get(part);
        let state = |row: &FragmentRow| StateRow { url: row.target.clone(), redirect_to: None, content: [].into() };
        let mut states = MergeReader::new(&self.states, from.map(state).as_ref(), to.map(state))?;
        let mut fragments = MergeReader::new(&self.fragments, from, to.cloned())?;
        let (mut state, mut fragment) = (states.next_row()?, fragments.next_row()?);
        loop {
            let url = match (&state, &fragment) {
                (Some(state), Some(fragment)) => state.url.as_str().min(&fragment.target).to_string(),
                (Some(state), None) => state.url.clone(),
                (None, Some(fragment)) => fragment.target.clone(),
                (None, None) => return Ok(()),
            };
            let (mut keys, mut terms) = (Vec::new(), Vec::new());
            while let Some(row) = fragment.take_if(|row| row.target == url) {
                keys.push(row.key);
                terms.push(row.terms);
                fragment = fragments.next_row()?;
            }
            let mut known = KnownUrl { url, ..KnownUrl::default() };
            if let Some(of_url) = state.take_if(|state| state.url == known.url) {
                state = states.next_row()?;
                if of_url.redirect_to.is_some() {
                    continue;
                }
                known.content = of_url.content.iter().copied().collect();
            }
            for at in sample(&keys, &self.rule) {
                terms[at].iter().for_each(|(term, n)| *known.anchors.entry(*term).or_default() += n);
            }
            found(known)?;
        }
    }
}

/// Counts terms by URL, with bounded memory.
struct Counter<'a> {
    frequencies: [Frequencies; 2],
    sorter: DatasetSorter<'a, FrequencyRow>,
    n_terms_max: usize,
}

const KINDS: [Kind; 2] = [Kind::Content, Kind::Anchors];

impl Counter<'_> {
    fn add(&mut self, known: &KnownUrl) -> Result<(), BackfillError> {
        self.frequencies[0].add(&known.content);
        self.frequencies[1].add(&known.anchors);
        let n_terms: usize = self.frequencies.iter().map(|of_kind| of_kind.n_with.len()).sum();
        if n_terms > self.n_terms_max { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<(), BackfillError> {
        for (kind, Frequencies { n_bags, n_with }) in KINDS.into_iter().zip(&mut self.frequencies) {
            let n = u32::try_from(std::mem::take(n_bags)).unwrap_or(u32::MAX);
            self.sorter.push(FrequencyRow { kind, term: None, n })?;
            for (term, n) in n_with.drain() {
                self.sorter.push(FrequencyRow { kind, term: Some(term), n })?;
            }
        }
        Ok(())
    }
}

/// Bytes of memory for each term that is counted, in a table between 7/16 and 7/8 full.
const BYTES_PER_TERM: usize = 24;

/// Writes what is known about all URLs, and counts its terms.
pub(super) fn count(
    checkpoint: &mut Checkpoint<RelatedBuild>,
    context: &Context,
    known: &dyn KnownUrls,
) -> Result<(), BackfillError> {
    let job = |part: usize| {
        Job::new(format!("count-{part:05}"), move |context: &Context| {
            let mut counted = COUNTED.create(&context.folder, format_args!("{part:05}"))?;
            let mut counter = Counter {
                frequencies: Default::default(),
                sorter: context.sorter_with_eighths(FREQUENCIES, part, 4),
                n_terms_max: context.sorter_bytes() / 4 / BYTES_PER_TERM,
            };
            known.read(part, &mut |known| {
                counter.add(&known)?;
                let KnownUrl { url, content, anchors } = known;
                counted.push(CountedRow { url, content: sorted(&content), anchors: sorted(&anchors) })?;
                Ok(())
            })?;
            counter.spill()?;
            let mut files = counter.sorter.finish()?;
            files.push(counted.finish()?);
            Ok(files)
        })
    };
    run_jobs((0..known.n_parts()).map(job).collect(), checkpoint, context)
}

/// The frequencies of the terms that the rule may keep, of content and of anchors.
pub(super) fn read_frequencies(checkpoint: &Checkpoint<RelatedBuild>) -> Result<[Frequencies; 2], BackfillError> {
    let rule = &checkpoint.spec().rule;
    let mut frequencies: [Frequencies; 2] = Default::default();
    let mut rows = MergeReader::new(&checkpoint.open_dataset(FREQUENCIES)?, None, None)?;
    while let Some(FrequencyRow { kind, term, n }) = rows.next_row()? {
        let of_kind = &mut frequencies[usize::from(kind == Kind::Anchors)];
        match term {
            None => of_kind.n_bags += u64::from(n),
            Some(term) if n >= rule.low_df => _ = of_kind.n_with.insert(term, n),
            Some(_) => {}
        }
    }
    Ok(frequencies)
}

/// Weighs what is known to bags. URLs without a bag end here.
pub(super) fn weigh(checkpoint: &mut Checkpoint<RelatedBuild>, context: &Context) -> Result<(), BackfillError> {
    let rule = checkpoint.spec().rule.clone();
    let [content, anchors] = read_frequencies(checkpoint)?;
    let (rule, content, anchors) = (&rule, &content, &anchors);
    let files = checkpoint.open_dataset(COUNTED)?.into_iter().enumerate();
    let unfinished = files.filter(|(at, _)| !checkpoint.is_finished(&bags_name(*at))).collect();
    let work = |(at, file): (usize, Arc<RunFile<CountedRow>>)| {
        let mut bags = BAGS.create(&context.folder, format_args!("{at:05}"))?;
        let (mut rows, mut n_terms) = (file.read_all(), 0);
        while let Some(row) = rows.next_row()? {
            let (of_page, of_links) = (counts(&row.content, rule.bags != BagKind::Anchors), counts(&row.anchors, true));
            let content = Source { counts: &of_page, weight: |term: Term| content.weight(term, rule) };
            let anchors = Source { counts: &of_links, weight: |term: Term| anchors.weight(term, rule) };
            let bag = bag(content, anchors, rule);
            n_terms += bag.weights().len() as u64;
            if bag.mass() > 0 {
                bags.push(BagRow { url: row.url, bag })?;
            }
        }
        Ok((at, bags.finish()?, n_terms))
    };
    context.run_parallel(unfinished, work, |(at, file, n_terms): (usize, DatasetFile, u64)| {
        checkpoint.record(bags_name(at), FinishedJob { files: vec![file], reached: Some(halves(n_terms)) })
    })
}

fn bags_name(at: usize) -> String {
    format!("bags-{at:05}")
}

fn counts(counts: &Counts, is_wanted: bool) -> TermCounts {
    counts.iter().filter(|_| is_wanted).copied().collect()
}

/// A count as what a job reached.
pub(super) fn halves(n: u64) -> (u32, u32) {
    ((n >> 32) as u32, n as u32)
}

/// The sum of the counts that the jobs of a name reached.
pub(super) fn reached(checkpoint: &Checkpoint<RelatedBuild>, begin: &str) -> u64 {
    let reached = checkpoint.jobs_named(begin).filter_map(|job| job.reached);
    reached.map(|(high, low)| u64::from(high) << 32 | u64::from(low)).sum()
}
