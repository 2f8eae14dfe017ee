//! What a batch does to the history of its URLs: sightings, states, sweeps, and who is sought.

use super::sketcher::SketchedRecord;
use crate::cluster::Decision;
use crate::document::{DocumentId, Fingerprint, Seed, host_key};
use crate::intake::SketchedPage;
use crate::ports::{Batch, MissingUrl, Store, StoreError, StoredSighting};
use crate::sweep::{Observation, Seen, SweepRow, UrlState};
use std::collections::{BTreeMap, HashMap};

/// What a batch does to the history of its URLs.
#[derive(Default)]
pub(super) struct Timeline {
    /// The pages' sightings, in their order; none for what was rejected.
    pub sightings: Vec<Option<StoredSighting>>,
    /// For each page the document that stood at its URL before, by the time of fetching.
    pub before: Vec<Option<DocumentId>>,
    /// Pages that come late, so that something else stands at their URL, by their number; and what that is, where it did
    /// not stand there before.
    pub late: HashMap<usize, Option<Observation>>,
    /// URLs that were never seen before, by fingerprint.
    new_urls: Vec<(Fingerprint, String)>,
    /// The states of the URLs after the batch.
    pub states: HashMap<Fingerprint, UrlState>,
    /// Who was sought before the batch.
    was_sought: HashMap<Fingerprint, MissingUrl>,
    sweeps: BTreeMap<String, SweepRow>,
}

impl Timeline {
    /// Reads what is known of the batch's URLs and sweeps, in one question each, and adds the batch to it. Only a page
    /// that comes late, after a newer sighting of its URL, costs a look at that URL's history.
    pub fn of<S: Store>(
        store: &S,
        seed: &Seed,
        pages: &[SketchedRecord],
        decisions: &[Option<Decision>],
    ) -> Result<Self, StoreError> {
        let mut timeline = Timeline::default();
        for (page, decision) in pages.iter().zip(decisions) {
            let sighting = page.outcome.as_ref().ok().map(|page| sighting_of(seed, page, decision.as_ref()));
            timeline.sightings.push(sighting);
        }
        timeline.read_states(store)?;
        timeline.count_sweeps(store)?;
        for (at, page) in pages.iter().enumerate() {
            let before = match &page.outcome {
                Ok(page) => timeline.add(store, seed, at, &page.url)?,
                Err(_) => None,
            };
            timeline.before.push(before);
        }
        Ok(timeline)
    }

    fn read_states<S: Store>(&mut self, store: &S) -> Result<(), StoreError> {
        let mut urls: Vec<Fingerprint> = self.sightings.iter().flatten().map(|sighting| sighting.url).collect();
        urls.sort_unstable();
        urls.dedup();
        for (url, state) in urls.iter().zip(store.states(&urls)?) {
            let Some(state) = state else { continue };
            self.was_sought.extend(MissingUrl::of(*url, &state).map(|sought| (*url, sought)));
            self.states.insert(*url, state);
        }
        Ok(())
    }

    fn count_sweeps<S: Store>(&mut self, store: &S) -> Result<(), StoreError> {
        let moments = || self.sightings.iter().flatten().map(|sighting| &sighting.moment);
        let mut names: Vec<&str> = moments().filter_map(|moment| moment.sweep.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        let rows = names.iter().zip(store.sweeps(&names)?);
        let mut sweeps: BTreeMap<String, SweepRow> =
            rows.filter_map(|(name, row)| Some((name.to_string(), row?))).collect();
        for moment in moments() {
            let Some(name) = &moment.sweep else { continue };
            let row = sweeps.entry(name.clone()).or_insert_with(|| SweepRow::begun(moment.fetched_at));
            row.count(moment.fetched_at, moment.seen.document().is_some());
        }
        self.sweeps = sweeps;
        Ok(())
    }

    /// Adds one page to its URL's history; tells what stood there before it.
    fn add<S: Store>(
        &mut self,
        store: &S,
        seed: &Seed,
        at: usize,
        url: &str,
    ) -> Result<Option<DocumentId>, StoreError> {
        let Some(StoredSighting { url: key, moment }) = &self.sightings[at] else { return Ok(None) };
        let known = self.states.get(key);
        // A URL that was seen has a state: it need not be written again.
        if known.is_none() {
            self.new_urls.push((*key, url.to_string()));
        }
        if let Some(state) = known.and_then(|state| state.after(moment)) {
            let before = known.and_then(|state| state.copy.as_ref()).map(|copy| copy.document);
            self.states.insert(*key, state);
            return Ok(before);
        }
        let mut history = Vec::new();
        if known.is_some() {
            history = store.history(*key)?;
            let earlier = self.sightings[..at].iter().flatten().filter(|sighting| sighting.url == *key);
            history.extend(earlier.map(|sighting| sighting.moment.clone()));
        }
        // Told twice, a sighting comes after itself and changes nothing.
        let before = history.iter().filter(|other| *other <= moment && other.seen.document().is_some()).max();
        let before = before.and_then(|moment| moment.seen.document());
        history.push(moment.clone());
        let host = known.map_or_else(|| host_key(seed, url), |state| state.host);
        let was = known.filter(|state| state.found).and_then(|state| state.copy.clone());
        if let Some(mut state) = UrlState::from_history(&history, host) {
            if state.newest != *moment {
                let is_another = known.is_none_or(|known| known.newest != state.newest);
                self.late.insert(at, is_another.then(|| state.newest.clone()));
            }
            state.found = was.is_some() && state.copy == was && !state.is_alive();
            self.states.insert(*key, state);
        }
        Ok(before)
    }

    /// Who is sought no more after the batch, and who is from now on.
    pub fn sought_changes(&self) -> (Vec<MissingUrl>, Vec<MissingUrl>) {
        let (mut no_more, mut now) = (Vec::new(), Vec::new());
        for (url, state) in &self.states {
            let (was, is) = (self.was_sought.get(url).copied(), MissingUrl::of(*url, state));
            if was != is {
                no_more.extend(was);
                now.extend(is);
            }
        }
        no_more.sort_unstable();
        now.sort_unstable();
        (no_more, now)
    }

    /// The last page of the batch that was seen at a URL, by its number.
    pub fn last_page_of(&self, url: Fingerprint) -> Option<usize> {
        self.sightings.iter().rposition(|sighting| sighting.as_ref().is_some_and(|sighting| sighting.url == url))
    }

    /// Remembers that it was told where a sought URL's last copy is now.
    pub fn mark_found(&mut self, sought: MissingUrl, state: UrlState) {
        self.was_sought.entry(sought.url).or_insert(sought);
        self.states.insert(sought.url, UrlState { found: true, ..state });
    }

    /// Hands what it holds to the batch.
    pub fn write(self, batch: &mut Batch) {
        (batch.not_sought, batch.sought) = self.sought_changes();
        batch.urls = self.new_urls;
        batch.sightings = self.sightings.into_iter().flatten().collect();
        batch.sweeps = self.sweeps.into_iter().collect();
        batch.states = self.states.into_iter().collect();
        batch.states.sort_unstable_by_key(|(url, _)| *url);
    }
}

fn sighting_of(seed: &Seed, page: &SketchedPage, decision: Option<&Decision>) -> StoredSighting {
    let seen = match (decision, &page.redirect_to) {
        (Some(decision), _) => Seen::Document(decision.document),
        (None, Some(target)) => Seen::Redirect(target.clone()),
        (None, None) => Seen::Gone,
    };
    let moment = Observation { fetched_at: page.fetched_at, seen, sweep: page.sweep.clone() };
    StoredSighting { url: seed.fingerprint("url", &[page.url.as_bytes()]), moment }
}
