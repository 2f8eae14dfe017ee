//! The first phase: reads on all threads what pages say, and keeps what the newest page of each URL says.
//!
//! ```text
//! reader ─▶ worker ×n: words, fragments ─▶ page rows by URL ─▶ newest ─▶ contents and redirects by URL
//!                                                                      └▶ fragments by target ─▶ past redirects
//! ```

use super::datasets::{FRAGMENTS, PAGES, REDIRECTS, STATES, WORDS};
use super::rows::{FragmentRow, PageRow, Said, StateRow, WordRow, sorted};
use super::work::RelatedBuild;
use crate::backfill::checkpoint::{Checkpoint, FinishedJob};
use crate::backfill::context::Context;
use crate::backfill::datasets::DatasetFile;
use crate::backfill::error::BackfillError;
use crate::backfill::jobs::{Job, run_jobs};
use crate::backfill::report::RecordCounts;
use crate::backfill::sketching::{PageInput, read_chunks};
use crate::document::{Content, FetchTime, Page, Seed};
use crate::extsort::{MergeReader, split_points};
use crate::intake::PageReader;
use crate::ports::{Chunk, Incoming};
use crate::related::{REDIRECTS_MAX, RelatedRule, SaidReader, TermCounts, TermReader};
use crossbeam::channel::{Receiver, bounded};
use rustc_hash::{FxBuildHasher, FxHashSet};
use std::cmp::Reverse;
use std::hash::BuildHasher;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// Chunks under way for each worker.
const CHUNKS_PER_WORKER: usize = 4;

/// Parts into which a phase is divided, about: enough for all threads to end together.
const PARTS: u64 = 32;

/// Rows in a part, at least.
const PART_ROWS_MIN: u64 = 1 << 10;

/// Rows in a part of so many rows.
pub(super) fn part_rows(n_rows: u64) -> u64 {
    (n_rows / PARTS).max(PART_ROWS_MIN)
}

/// Reads all pages of the source. A kill costs all of it.
pub(super) fn read(
    checkpoint: &mut Checkpoint<RelatedBuild>,
    context: &Context,
    input: PageInput,
) -> Result<(), BackfillError> {
    if checkpoint.ingested().is_finished {
        return Ok(());
    }
    let (seed, rule) = (checkpoint.seed()?, checkpoint.spec().rule.clone());
    let PageInput { source, limits, future, .. } = input;
    let mut ingested = checkpoint.ingested().clone();
    let unreadable = Mutex::new(Vec::new());
    let mut files = Vec::new();
    std::thread::scope(|scope| {
        let (chunks, chunks_out) = bounded(CHUNKS_PER_WORKER * context.n_threads);
        let unreadable = &unreadable;
        let send = move |chunk: Chunk<Incoming>| match chunk {
            Chunk::Records(records) => chunks.send(records).is_ok(),
            Chunk::Unreadable(what) => {
                tracing::error!("{what}");
                unreadable.lock().unwrap_or_else(PoisonError::into_inner).push(what);
                true
            }
        };
        let reader = scope.spawn(move || read_chunks(source, context, send));
        let workers = vec![chunks_out; context.n_threads].into_iter().enumerate();
        let workers: Vec<_> = workers
            .map(|(at, chunks)| {
                let pages = PageReader::new(limits.clone(), future);
                let worker = Worker::new(&rule, &seed, pages);
                scope.spawn(move || worker.run(at, &chunks, context))
            })
            .collect();
        for worker in workers {
            let (of_worker, counts) = worker.join().map_err(|_| BackfillError::WorkerPanicked)??;
            files.extend(of_worker);
            add_counts(&mut ingested.counts, &counts);
        }
        reader.join().map_err(|_| BackfillError::WorkerPanicked)??;
        context.check_stop()
    })?;
    ingested.is_finished = true;
    ingested.unreadable.extend(unreadable.into_inner().unwrap_or_else(PoisonError::into_inner));
    checkpoint.record("read".to_string(), FinishedJob { files, reached: None })?;
    checkpoint.record_ingested(ingested)
}

fn add_counts(counts: &mut RecordCounts, more: &RecordCounts) {
    counts.n_records += more.n_records;
    counts.n_bytes += more.n_bytes;
    counts.n_pages += more.n_pages;
    counts.n_gone += more.n_gone;
    counts.n_rejected += more.n_rejected;
}

/// Reads pages, with buffers that it reuses.
struct Worker<'a> {
    rule: &'a RelatedRule,
    seed: &'a Seed,
    pages: PageReader,
    words: WordReader,
    counts: RecordCounts,
}

struct WordReader {
    said: SaidReader,
    terms: TermReader,
    /// Hashes of the words that are in the files already.
    seen: FxHashSet<u64>,
    /// Words that are not.
    new: Vec<WordRow>,
}

/// The most words that a worker remembers. When there are more, it forgets all of them and writes words again that it has
/// written before.
const WORDS_SEEN_MAX: usize = 1 << 20;

impl WordReader {
    fn new(rule: &RelatedRule, seed: &Seed) -> Self {
        let (said, terms) = (SaidReader::new(rule, seed), TermReader::new(rule.stemmer, seed));
        WordReader { said, terms, seen: FxHashSet::default(), new: Vec::new() }
    }

    /// Counts the terms of words, and notes the words that are new.
    fn count<'w>(&mut self, words: impl Iterator<Item = &'w str>, counts: &mut TermCounts) {
        let WordReader { terms, seen, new, .. } = self;
        terms.count_new(words, counts, |term, word| {
            if seen.len() == WORDS_SEEN_MAX {
                seen.clear();
            }
            if seen.insert(FxBuildHasher.hash_one(word)) {
                new.push(WordRow { term, word: word.to_string() });
            }
        });
    }
}

impl<'a> Worker<'a> {
    fn new(rule: &'a RelatedRule, seed: &'a Seed, pages: PageReader) -> Self {
        Worker { rule, seed, pages, words: WordReader::new(rule, seed), counts: RecordCounts::default() }
    }

    /// Reads chunks until the reader ends, and sorts what they say by URL.
    fn run(
        mut self,
        at: usize,
        chunks: &Receiver<Vec<Incoming>>,
        context: &Context,
    ) -> Result<(Vec<DatasetFile>, RecordCounts), BackfillError> {
        let mut sorter = context.sorter_with_eighths(PAGES, at, 7);
        let mut words = context.sorter_with_eighths(WORDS, at, 1);
        for records in chunks {
            context.check_stop()?;
            context.progress.advance(records.len() as u64);
            for incoming in records {
                if let Some(row) = self.row(&incoming) {
                    sorter.push(row)?;
                }
                self.words.new.drain(..).try_for_each(|row| words.push(row))?;
            }
        }
        let mut files = sorter.finish()?;
        files.extend(words.finish()?);
        Ok((files, self.counts))
    }

    /// What a record says; `None` if it is no page.
    fn row(&mut self, incoming: &Incoming) -> Option<PageRow> {
        self.counts.n_records += 1;
        self.counts.n_bytes += incoming.record.n_bytes() as u64;
        let (rule, seed, words) = (self.rule, self.seed, &mut self.words);
        let pages = &mut self.pages;
        let read = catch_unwind(AssertUnwindSafe(|| {
            let page = pages.page(&incoming.record).ok()?;
            let said = said(&page, words)?;
            Some(PageRow { url: page.url.clone(), fetched_at: Reverse(page.fetched_at), said })
        }));
        let row = read.unwrap_or_else(|_| {
            self.words = WordReader::new(rule, seed);
            None
        });
        match &row {
            None => self.counts.n_rejected += 1,
            Some(PageRow { said: Said::Terms { .. }, .. }) => self.counts.n_pages += 1,
            Some(_) => self.counts.n_gone += 1,
        }
        row
    }
}

/// What a page says; `None` if it is no text.
fn said(page: &Page, reader: &mut WordReader) -> Option<Said> {
    match &page.content {
        Content::Body { .. } => {}
        Content::Redirect(target) => return Some(Said::Redirect(target.clone())),
        Content::Features(_) | Content::Gone => return Some(Said::Nothing),
    }
    let said = reader.said.read(page)?;
    let mut counts = TermCounts::default();
    reader.count(said.content(), &mut counts);
    let content = sorted(&counts);
    let mut rows: Vec<FragmentRow> = Vec::with_capacity(said.n_fragments());
    for (passage, key) in said.fragments() {
        counts.clear();
        reader.count(said.words(passage).split(' '), &mut counts);
        rows.push(FragmentRow { target: passage.target.clone(), key, terms: sorted(&counts) });
    }
    Some(Said::Terms { content, fragments: rows })
}

/// Keeps what the newest page of each URL says: its content or where it redirects, and its fragments by target.
pub(super) fn keep_newest(checkpoint: &mut Checkpoint<RelatedBuild>, context: &Context) -> Result<(), BackfillError> {
    let files = checkpoint.open_dataset(PAGES)?;
    let n_rows = files.iter().map(|file| file.n_rows()).sum();
    let first_of = |row: &PageRow| PageRow {
        url: row.url.clone(),
        fetched_at: Reverse(FetchTime(i64::MAX)),
        said: Said::Terms { content: [].into(), fragments: Vec::new() },
    };
    let points = split_points(&files, part_rows(n_rows), first_of);
    let starts = std::iter::once(None).chain(points.iter().cloned().map(Some));
    let ends = points.iter().cloned().map(Some).chain([None]);
    let job = |(at, (from, to)): (usize, (Option<PageRow>, Option<PageRow>))| {
        let files = files.clone();
        Job::new(format!("newest-{at:05}"), move |context: &Context| {
            let mut pages = MergeReader::new(&files, from.as_ref(), to)?;
            let mut states = STATES.create(&context.folder, format_args!("{at:05}"))?;
            let mut redirects = REDIRECTS.create(&context.folder, format_args!("{at:05}"))?;
            let mut sorter = context.sorter(FRAGMENTS, at);
            while let Some(PageRow { url, said, .. }) = pages.next_row()? {
                match said {
                    Said::Terms { content, fragments } => {
                        states.push(StateRow { url, redirect_to: None, content })?;
                        fragments.into_iter().try_for_each(|fragment| sorter.push(fragment))?;
                    }
                    Said::Redirect(target) => {
                        let row = StateRow { url, redirect_to: Some(target), content: [].into() };
                        redirects.push(row.clone())?;
                        states.push(row)?;
                    }
                    Said::Nothing => {}
                }
            }
            let mut files = sorter.finish()?;
            files.extend([states.finish()?, redirects.finish()?]);
            Ok(files)
        })
    };
    run_jobs(starts.zip(ends).enumerate().map(job).collect(), checkpoint, context)
}

/// Adds the fragments about URLs that redirect to those about the URLs where they lead.
pub(super) fn follow_redirects(
    checkpoint: &mut Checkpoint<RelatedBuild>,
    context: &Context,
) -> Result<(), BackfillError> {
    if checkpoint.files_of(REDIRECTS.name()).all(|file| file.n_rows == 0) {
        return Ok(());
    }
    for pass in 0..REDIRECTS_MAX {
        let name = format!("redirects-{pass}");
        let redirects = checkpoint.open_dataset(REDIRECTS)?;
        // In the first pass the links, then what the pass before has moved.
        let before: Vec<_> = match pass {
            0 => checkpoint.open_dataset(FRAGMENTS)?,
            pass => {
                let moved = checkpoint.job(&format!("redirects-{}", pass - 1)).map(|job| &job.files);
                let files = moved.into_iter().flatten();
                files.map(|file| FRAGMENTS.open(&context.folder, &file.file)).collect::<Result<_, _>>()?
            }
        };
        if before.is_empty() {
            break;
        }
        let job = Job::new(name.clone(), move |context: &Context| {
            let mut redirects = MergeReader::new(&redirects, None, None)?;
            let mut fragments = MergeReader::new(&before, None, None)?;
            let mut sorter = FRAGMENTS.sorter(&context.folder, format_args!("{name}"), context.sorter_bytes());
            let mut fragment = fragments.next_row()?;
            while let Some(redirect) = redirects.next_row()? {
                let Some(target) = redirect.redirect_to else { continue };
                while let Some(row) = fragment.take_if(|row| row.target <= redirect.url) {
                    if row.target == redirect.url {
                        sorter.push(FragmentRow { target: target.clone(), ..row })?;
                    }
                    fragment = fragments.next_row()?;
                }
            }
            sorter.finish()
        });
        run_jobs(vec![job], checkpoint, context)?;
    }
    Ok(())
}
