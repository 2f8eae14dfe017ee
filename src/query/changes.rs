//! How pages change: how often, how much, where they go, how long they live.

use super::lost::{LostSearch, lost_many};
use crate::document::{DocumentId, FetchTime, host_of};
use crate::ports::{Snapshot, StoreError};
use crate::sketch::compare_redacted;
use crate::sweep::{Evidence, Observation, Seen, Sighting, counted};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Bars of the distribution of resemblances, a tenth each.
pub const N_TENTHS: usize = 10;

/// Pairs of documents whose sketches are read in one batch.
const BATCH: usize = 4096;

const MICROSECONDS_A_DAY: f64 = 86_400e6;

/// What each row counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// One row for all.
    All,
    /// A row for each host.
    Host,
    /// A row for each sweep.
    Sweep,
}

/// How the pages of a host or a sweep, or all pages, change.
///
/// The three `n_moved_…` count URLs that are gone, lost or redirected now. Together they differ from the number of
/// `moved` events: a URL that has come back since its event counts no more, a redirect counts here and needs no
/// event, and a URL that moved, came back and moved again has two events.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChangeRow {
    /// The host or sweep; empty for all, or for pages of no sweep.
    pub name: String,
    /// URLs at which a page was seen.
    pub n_urls: u64,
    /// Sightings of pages.
    pub n_pages: u64,
    /// Sightings of a page at a URL at which a page was seen before.
    pub n_revisits: u64,
    /// Revisits that found another document.
    pub n_changes: u64,
    /// The changes by their resemblance to the version before, in tenths from 0–0.1 to 0.9–1.
    pub n_changes_by_resemblance: [u64; N_TENTHS],
    /// The mean resemblance of the changes; none where nothing changed.
    pub mean_resemblance: Option<f64>,
    /// URLs at which the first page was seen.
    pub n_births: u64,
    /// Times that a URL with a page was found gone, lost or redirected.
    pub n_deaths: u64,
    /// URLs that are dead now and whose content stands at another URL of the host.
    pub n_moved_within: u64,
    /// URLs that are dead now and whose content stands on another host only.
    pub n_moved_between: u64,
    /// URLs that are dead now and whose content stood elsewhere later, but stands nowhere now.
    pub n_moved_then_lost: u64,
    /// The median of the days from the first page to the death, of the URLs that are dead now.
    pub median_life_days: Option<f64>,
    #[serde(skip)]
    resemblance_sum: f64,
    #[serde(skip)]
    lives: Vec<f64>,
}

/// All that the changes of a store add up to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Changes {
    /// The whole store.
    pub all: ChangeRow,
    /// By host, most URLs first; or by sweep, the earliest first.
    pub rows: Vec<ChangeRow>,
}

/// Reads every sighting, and the sketches of the versions that differ.
///
/// # Errors
/// [`StoreError`]
pub fn changes(snapshot: &impl Snapshot, by: By, search: &LostSearch) -> Result<Changes, StoreError> {
    let mut count = Count::new(by);
    count.read(snapshot, &mut || true)?;
    count.compare(snapshot)?;
    count.follow_the_dead(snapshot, search, &|| true)?;
    count.into_changes(snapshot)
}

/// The same without the resemblances, which cost most, for at most `n_sightings_max` sightings and while `goes_on`; none
/// where the store has more, or it does not go on.
///
/// # Errors
/// [`StoreError`]
pub fn changes_within(
    snapshot: &impl Snapshot,
    by: By,
    search: &LostSearch,
    n_sightings_max: usize,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Changes>, StoreError> {
    let mut count = Count::new(by);
    let mut n_left = n_sightings_max;
    let is_whole = count.read(snapshot, &mut || {
        let reads_on = n_left > 0 && goes_on();
        n_left = n_left.saturating_sub(1);
        reads_on
    })?;
    if !is_whole {
        return Ok(None);
    }
    count.follow_the_dead(snapshot, search, goes_on)?;
    if goes_on() { count.into_changes(snapshot).map(Some) } else { Ok(None) }
}

struct Count {
    by: By,
    all: ChangeRow,
    rows: HashMap<String, ChangeRow>,
    /// Versions that followed each other, and the row they count in.
    pairs: Vec<(DocumentId, DocumentId, String)>,
    /// Dead URLs, and the row they count in.
    dead: Vec<(String, String)>,
}

impl Count {
    fn new(by: By) -> Self {
        Count { by, all: ChangeRow::default(), rows: HashMap::new(), pairs: Vec::new(), dead: Vec::new() }
    }

    /// Counts every sighting, until `goes_on` says stop (false). Returns whether all were read.
    fn read(&mut self, snapshot: &impl Snapshot, goes_on: &mut dyn FnMut() -> bool) -> Result<bool, StoreError> {
        let mut url = String::new();
        let mut history: Vec<Observation> = Vec::new();
        let mut is_whole = true;
        snapshot.each_sighting(&mut |Sighting { url: next, moment }| {
            is_whole = goes_on();
            if next != url {
                self.add(&url, &history);
                history.clear();
                url = next;
            }
            history.push(moment);
            is_whole
        })?;
        self.add(&url, &history);
        Ok(is_whole)
    }

    /// Counts in one row, and in that of all.
    fn each(&mut self, name: &str, count: impl Fn(&mut ChangeRow)) {
        count(&mut self.all);
        if self.by != By::All {
            count(self.rows.entry(name.to_string()).or_default());
        }
    }

    fn row_of(&self, url: &str, moment: &Observation) -> String {
        match self.by {
            By::All => String::new(),
            By::Host => host_of(url).to_string(),
            By::Sweep => moment.sweep.clone().unwrap_or_default(),
        }
    }

    /// Counts the history of a URL.
    fn add(&mut self, url: &str, history: &[Observation]) {
        let history = counted(history);
        let mut before: Option<DocumentId> = None;
        let mut stands = false;
        let mut named = std::collections::HashSet::new();
        for &moment in &history {
            let name = self.row_of(url, moment);
            let Some(document) = moment.seen.document() else {
                if stands {
                    self.each(&name, |row| row.n_deaths += 1);
                }
                stands = false;
                continue;
            };
            let is_first_here = named.insert(name.clone());
            let is_first = before.is_none();
            self.each(&name, |row| row.n_pages += 1);
            if self.by != By::All && is_first_here {
                self.rows.entry(name.clone()).or_default().n_urls += 1;
            }
            match before {
                None => self.each(&name, |row| row.n_births += 1),
                Some(before) if before != document => {
                    self.each(&name, |row| (row.n_revisits, row.n_changes) = (row.n_revisits + 1, row.n_changes + 1));
                    self.pairs.push((before, document, name.clone()));
                }
                Some(_) => self.each(&name, |row| row.n_revisits += 1),
            }
            self.all.n_urls += u64::from(is_first);
            (before, stands) = (Some(document), true);
        }
        self.bury(url, &history);
    }

    /// Counts the life of a URL that is dead now.
    fn bury(&mut self, url: &str, history: &[&Observation]) {
        let first = history.iter().find(|moment| moment.seen.document().is_some());
        let (Some(first), Some(last)) = (first, history.last()) else { return };
        let last_copy = history.iter().rposition(|moment| moment.seen.document().is_some()).unwrap_or(0);
        let Some(death) = history.get(last_copy + 1).filter(|_| !matches!(last.seen, Seen::Document(_))) else {
            return;
        };
        let days = death.fetched_at.0.saturating_sub(first.fetched_at.0) as f64 / MICROSECONDS_A_DAY;
        let name = self.row_of(url, death);
        self.each(&name, |row| row.lives.push(days));
        self.dead.push((url.to_string(), name));
    }

    /// Compares each version with the one before.
    fn compare(&mut self, snapshot: &impl Snapshot) -> Result<(), StoreError> {
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.sort_unstable();
        for batch in pairs.chunks(BATCH) {
            let mut documents: Vec<DocumentId> = batch.iter().flat_map(|(a, b, _)| [*a, *b]).collect();
            documents.sort_unstable();
            documents.dedup();
            let sketches: HashMap<DocumentId, _> =
                documents.iter().copied().zip(snapshot.documents(&documents)?).collect();
            for (a, b, name) in batch {
                let (Some(a), Some(b)) = (sketches.get(a), sketches.get(b)) else { continue };
                let resemblance = compare_redacted(&a.sketch, &b.sketch, snapshot.rule().sketch.rule).resemblance;
                let tenth = ((resemblance * N_TENTHS as f64) as usize).min(N_TENTHS - 1);
                self.each(name, |row| {
                    row.n_changes_by_resemblance[tenth] += 1;
                    row.resemblance_sum += resemblance;
                });
            }
        }
        Ok(())
    }

    /// Finds where the contents of dead URLs went.
    fn follow_the_dead(
        &mut self,
        snapshot: &impl Snapshot,
        search: &LostSearch,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), StoreError> {
        let dead = std::mem::take(&mut self.dead);
        let urls: Vec<String> = dead.iter().map(|(url, _)| url.clone()).collect();
        let mut names = dead.iter().map(|(_, name)| name);
        lost_many(snapshot, &urls, search, |answer| {
            let name = names.next().cloned().unwrap_or_default();
            let mut places = answer.details.iter().filter(|found| found.evidence != Evidence::Itself).peekable();
            if places.peek().is_some() {
                let is_within = places.any(|found| host_of(&found.url) == host_of(&answer.url));
                self.each(&name, |row| if is_within { row.n_moved_within += 1 } else { row.n_moved_between += 1 });
            } else if !answer.former_places.is_empty() {
                self.each(&name, |row| row.n_moved_then_lost += 1);
            }
            goes_on()
        })
    }

    fn into_changes(self, snapshot: &impl Snapshot) -> Result<Changes, StoreError> {
        let order: HashMap<String, FetchTime> = match self.by {
            By::Sweep => snapshot.sweeps()?.into_iter().map(|(name, row)| (name, row.first)).collect(),
            _ => HashMap::new(),
        };
        Ok(self.finish(&order))
    }

    fn finish(mut self, order: &HashMap<String, FetchTime>) -> Changes {
        self.all.finish(String::new());
        let sorted: BTreeMap<String, ChangeRow> = self.rows.into_iter().collect();
        let mut rows: Vec<ChangeRow> = sorted
            .into_iter()
            .map(|(name, mut row)| {
                row.finish(name);
                row
            })
            .collect();
        match self.by {
            By::Sweep => rows.sort_by_key(|row| order.get(&row.name).copied()),
            _ => rows.sort_by_key(|row| std::cmp::Reverse(row.n_urls)),
        }
        Changes { all: self.all, rows }
    }
}

impl ChangeRow {
    fn finish(&mut self, name: String) {
        self.name = name;
        let n_compared: u64 = self.n_changes_by_resemblance.iter().sum();
        self.mean_resemblance = (n_compared > 0).then(|| self.resemblance_sum / n_compared as f64);
        self.lives.sort_by(f64::total_cmp);
        self.median_life_days = self.lives.get(self.lives.len() / 2).copied();
    }
}
