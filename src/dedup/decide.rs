//! The decision: two passes over the records. The first offers every page to the choice of its cluster; the second tells
//! which records stay, and lists the others.

use super::error::DedupError;
use super::keep::{Candidate, Chooser, Keep, Kept, Preference};
use super::kept_log::{KeptLog, KeptWriter};
use super::record_set::RecordSet;
use super::records::{ClusteredRecord, ClusteredRecords, Counts, Outcome, RejectedRecords};
use super::removed::{Removals, RemovedRecord};
use super::rows::{KeptRow, PageName, PageSource, Why};
use crate::document::DocumentId;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Records between two looks at the stop flag.
const RECORDS_PER_STOP_CHECK: u64 = 1 << 12;

/// Documents whose URLs are asked for together.
const URLS_TOGETHER: usize = 4096;

/// The room that a decision has.
pub struct Workspace<'a> {
    /// The folder of its files, which no later run needs.
    pub folder: &'a Path,
    /// Bytes of memory for the list of removed records.
    pub memory: u64,
    /// Ends the decision early when it becomes true.
    pub stop: &'a AtomicBool,
}

impl Workspace<'_> {
    fn check_stop(&self) -> Result<(), DedupError> {
        if self.stop.load(Relaxed) { Err(DedupError::Stopped) } else { Ok(()) }
    }
}

/// What was there before the records came.
pub struct KnownPages<'a> {
    /// What earlier batches kept.
    pub log: &'a KeptLog,
    /// Documents from before.
    pub n_documents: u32,
    /// The number of these records' first event, which names their batch.
    pub batch: u64,
}

/// Receives the list of removed records.
pub struct List<'a> {
    /// Receives each record.
    pub each: &'a mut dyn FnMut(&RemovedRecord<'_>) -> Result<(), DedupError>,
    /// Whether to list containment.
    pub with_containment: bool,
}

/// Which records stay.
pub struct Decision {
    /// Those records.
    pub kept: RecordSet,
    /// How many records stay and go.
    pub counts: Counts,
    /// The rejected records, by reason.
    pub rejected: BTreeMap<String, RejectedRecords>,
}

/// Decides which records stay. Pages whose cluster was there before go in favour of what was kept then.
///
/// # Errors
/// [`DedupError`]
pub fn decide(
    records: &mut dyn ClusteredRecords,
    preference: Preference<'_>,
    known: Option<&KnownPages<'_>>,
    work: &Workspace<'_>,
    list: Option<List<'_>>,
) -> Result<Decision, DedupError> {
    let chooser = choose(records, preference, known, work)?;
    let mut removals = list.is_some().then(|| Removals::new(work.folder, work.memory));
    if let (Some(removals), Some(known)) = (&mut removals, known) {
        add_known(removals, records, &chooser, known)?;
    }
    let mut split = Split {
        chooser: &chooser,
        clusters: records.clusters(),
        names: records.inputs().iter().map(|input| input.name.as_str()).collect(),
        decision: Decision {
            kept: RecordSet::new(records.inputs().len()),
            counts: Counts::default(),
            rejected: BTreeMap::new(),
        },
        removals,
        log: known.map(|known| known.log.begin(known.batch)).transpose()?,
    };
    records.each_record(&mut |record| {
        if split.decision.counts.n_records.is_multiple_of(RECORDS_PER_STOP_CHECK) {
            work.check_stop()?;
        }
        split.add(record)
    })?;
    let Split { decision, removals, log, .. } = split;
    if let (Some(removals), Some(List { each, with_containment })) = (removals, list) {
        removals.finish(records, with_containment, &|| work.check_stop(), each)?;
    }
    if let (Some(log), Some(known)) = (log, known) {
        known.log.finish(known.batch, log)?;
    }
    Ok(decision)
}

/// The first pass.
fn choose(
    records: &dyn ClusteredRecords,
    preference: Preference<'_>,
    known: Option<&KnownPages<'_>>,
    work: &Workspace<'_>,
) -> Result<Chooser, DedupError> {
    let clusters = records.clusters();
    let cluster_of = |document: DocumentId| clusters.get(document.0 as usize - 1).copied();
    let Preference { keep, values, revisits } = preference;
    let n_words = if *keep == Keep::Longest { records.n_words()? } else { Vec::new() };
    let mut chooser = Chooser::new(keep.clone(), clusters.len());
    if let Some(known) = known {
        known.log.each_before(known.batch, |row| {
            if let Some(cluster) = cluster_of(row.document) {
                chooser.keep_known(cluster, row.document);
            }
            Ok(())
        })?;
        // Of pages that came another way, no log tells; the first one of a cluster counts as kept.
        for document in (1..=known.n_documents).map(DocumentId) {
            if let Some(cluster) = cluster_of(document)
                && chooser.kept(cluster).is_none()
            {
                chooser.keep_known(cluster, document);
            }
        }
    }
    let mut number = 0;
    records.each_record(&mut |record| {
        if number % RECORDS_PER_STOP_CHECK == 0 {
            work.check_stop()?;
        }
        if let Outcome::Page { document, fetched_at } = record.outcome
            && let Some(cluster) = cluster_of(document)
        {
            let value = values.get(record.input, record.offset);
            let n_words = n_words.get(document.0 as usize - 1).copied().unwrap_or_default();
            let is_revisit = revisits.contains(record.input as usize, record.offset);
            chooser.offer(cluster, &Candidate { number, document, n_words, fetched_at, value, is_revisit });
        }
        number += 1;
        Ok(())
    })?;
    Ok(chooser)
}

/// Adds the pages from before in whose favour others go to the list, to be joined with those.
fn add_known(
    removals: &mut Removals<'_>,
    records: &dyn ClusteredRecords,
    chooser: &Chooser,
    known: &KnownPages<'_>,
) -> Result<(), DedupError> {
    let clusters = records.clusters();
    let mut wanted = vec![false; known.n_documents as usize];
    for cluster in (1..).map(DocumentId).take(clusters.len()) {
        if let Some(Kept::Known(document)) = chooser.kept(cluster)
            && chooser.removes_any(cluster)
            && let Some(wanted) = wanted.get_mut(document.0 as usize - 1)
        {
            *wanted = true;
        }
    }
    known.log.each_before(known.batch, |KeptRow { document, url, source, offset }| {
        match wanted.get_mut(document.0 as usize - 1) {
            Some(wanted) if *wanted => *wanted = false,
            _ => return Ok(()),
        }
        let page = PageName { url: Some(url), source: PageSource::Named(source), offset };
        removals.add_kept(Kept::Known(document), document, page)
    })?;
    let documents: Vec<DocumentId> =
        (1..).map(DocumentId).zip(&wanted).filter(|(_, wanted)| **wanted).map(|(document, _)| document).collect();
    for documents in documents.chunks(URLS_TOGETHER) {
        for (document, url) in documents.iter().zip(records.first_urls(documents)?) {
            let page = PageName { url: Some(url), source: PageSource::Unknown, offset: 0 };
            removals.add_kept(Kept::Known(*document), *document, page)?;
        }
    }
    Ok(())
}

/// The second pass.
struct Split<'a, 'w> {
    chooser: &'a Chooser,
    clusters: &'a [DocumentId],
    names: Vec<&'a str>,
    decision: Decision,
    removals: Option<Removals<'w>>,
    log: Option<KeptWriter>,
}

impl Split<'_, '_> {
    fn add(&mut self, record: ClusteredRecord) -> Result<(), DedupError> {
        let ClusteredRecord { input, offset, url, outcome } = record;
        let counts = &mut self.decision.counts;
        let number = counts.n_records;
        counts.n_records += 1;
        let page = PageName { url, source: PageSource::Input(input), offset };
        let why = match outcome {
            Outcome::Page { document, .. } => {
                counts.n_pages += 1;
                return self.add_page(number, document, page);
            }
            Outcome::Gone => {
                counts.n_gone += 1;
                Why::Gone
            }
            Outcome::Redirected => {
                counts.n_redirected += 1;
                Why::Redirected
            }
            Outcome::Rejected(why) => {
                counts.n_rejected += 1;
                let source = || self.names.get(input as usize).copied().unwrap_or_default().to_string();
                let first = || RejectedRecords { n: 0, source: source(), offset, message: why.message.clone() };
                self.decision.rejected.entry(why.reason.as_str().into()).or_insert_with(first).n += 1;
                Why::Rejected { reason: why.reason.as_str().into(), message: why.message }
            }
        };
        self.removals.as_mut().map_or(Ok(()), |removals| removals.add_other(number, page, why))
    }

    fn add_page(&mut self, number: u64, document: DocumentId, page: PageName) -> Result<(), DedupError> {
        let cluster = self.clusters.get(document.0 as usize - 1).copied().unwrap_or(document);
        let kept = self.chooser.kept(cluster).unwrap_or(Kept::Record(number));
        let counts = &mut self.decision.counts;
        if kept != Kept::Record(number) {
            let is_identical = self.chooser.kept_document(cluster) == Some(document);
            counts.n_removed_identical += u64::from(is_identical);
            counts.n_removed_near += u64::from(!is_identical);
            let removals = self.removals.as_mut();
            return removals.map_or(Ok(()), |removals| removals.add_removed(number, document, page, kept));
        }
        counts.n_kept += 1;
        let PageName { url, source: PageSource::Input(input), offset } = &page else { return Ok(()) };
        self.decision.kept.insert(*input as usize, *offset);
        if let Some(log) = &mut self.log {
            let source = self.names.get(*input as usize).copied().unwrap_or_default().to_string();
            log.push(KeptRow { document, url: url.clone().unwrap_or_default(), source, offset: *offset })?;
        }
        match &mut self.removals {
            Some(removals) if self.chooser.removes_any(cluster) => removals.add_kept(kept, document, page),
            _ => Ok(()),
        }
    }
}
