//! The timelines of a batch's URLs: sightings, states, sweeps, and which URLs are missing.

use super::effects::HistoryEffects;
use super::missing::MissingUrl;
use super::page_sighting::PageSighting;
use super::view::{StoredSighting, View};
use crate::cluster::Decision;
use crate::document::{DocumentId, Fingerprint, Seed, host_key};
use crate::sweep::{Observation, SweepRow, UrlState};
use std::collections::{BTreeMap, HashMap};

/// What a batch does to the timelines of its URLs.
#[derive(Default)]
pub(super) struct Timeline {
    /// Each page's sighting; none for a rejected record.
    pub sightings: Vec<Option<StoredSighting>>,
    /// For each page the document that stood at its URL before, by fetch time.
    pub previous: Vec<Option<DocumentId>>,
    /// Late pages by number, each with what stands at its URL now, where that did not stand there before.
    pub late: BTreeMap<usize, Option<Observation>>,
    /// URLs that were never seen before, by fingerprint.
    pub new_urls: Vec<(Fingerprint, String)>,
    /// The states of the URLs after the batch.
    pub states: HashMap<Fingerprint, UrlState>,
    /// URLs that were missing before the batch.
    was_missing: HashMap<Fingerprint, MissingUrl>,
    pub sweeps: BTreeMap<String, SweepRow>,
}

impl Timeline {
    /// Reads what is known of the batch's URLs and sweeps, one question for each, and adds the batch. Only a late page costs
    /// a look at its URL's whole history.
    pub fn read<V: View>(
        view: &V,
        seed: &Seed,
        pages: &[Option<PageSighting<'_>>],
        decisions: &[Option<Decision>],
    ) -> Result<Self, V::Error> {
        let mut timeline = Timeline::default();
        for (page, decision) in pages.iter().zip(decisions) {
            timeline.sightings.push(page.as_ref().map(|page| page.sighting(decision.as_ref())));
        }
        timeline.read_states(view)?;
        timeline.count_sweeps(view)?;
        for (at, page) in pages.iter().enumerate() {
            let previous = match page {
                Some(page) => timeline.add(view, seed, at, page.url)?,
                None => None,
            };
            timeline.previous.push(previous);
        }
        Ok(timeline)
    }

    fn read_states<V: View>(&mut self, view: &V) -> Result<(), V::Error> {
        let mut urls: Vec<Fingerprint> = self.sightings.iter().flatten().map(|sighting| sighting.url).collect();
        urls.sort_unstable();
        urls.dedup();
        for (url, state) in urls.iter().zip(view.states(&urls)?) {
            let Some(state) = state else { continue };
            self.was_missing.extend(MissingUrl::from_state(*url, &state).map(|missing| (*url, missing)));
            self.states.insert(*url, state);
        }
        Ok(())
    }

    fn count_sweeps<V: View>(&mut self, view: &V) -> Result<(), V::Error> {
        let moments = || self.sightings.iter().flatten().map(|sighting| &sighting.moment);
        let mut names: Vec<&str> = moments().filter_map(|moment| moment.sweep.as_deref()).collect();
        names.sort_unstable();
        names.dedup();
        let rows = names.iter().zip(view.sweeps(&names)?);
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

    /// Adds one page to its URL's timeline; returns the document that stood there before it.
    fn add<V: View>(&mut self, view: &V, seed: &Seed, at: usize, url: &str) -> Result<Option<DocumentId>, V::Error> {
        let Some(StoredSighting { url: key, moment }) = &self.sightings[at] else { return Ok(None) };
        let known = self.states.get(key);
        // A URL that was seen before has a state, and its name is stored.
        if known.is_none() {
            self.new_urls.push((*key, url.to_string()));
        }
        if let Some(state) = known.and_then(|state| state.after(moment)) {
            let previous = known.and_then(|state| state.copy.as_ref()).map(|copy| copy.document);
            self.states.insert(*key, state);
            return Ok(previous);
        }
        let mut history = Vec::new();
        if known.is_some() {
            history = view.observations(*key)?;
            let earlier = self.sightings[..at].iter().flatten().filter(|sighting| sighting.url == *key);
            history.extend(earlier.map(|sighting| sighting.moment.clone()));
        }
        // A sighting that comes twice follows itself and changes nothing.
        let previous = history.iter().filter(|other| *other <= moment && other.seen.document().is_some()).max();
        let previous = previous.and_then(|moment| moment.seen.document());
        history.push(moment.clone());
        let host = known.map_or_else(|| host_key(seed, url), |state| state.host);
        let found_copy = known.filter(|state| state.found).and_then(|state| state.copy.clone());
        if let Some(mut state) = UrlState::from_history(&history, host) {
            if state.newest != *moment {
                let has_changed = known.is_none_or(|known| known.newest != state.newest);
                self.late.insert(at, has_changed.then(|| state.newest.clone()));
            }
            state.found = found_copy.is_some() && state.copy == found_copy && !state.is_alive();
            self.states.insert(*key, state);
        }
        Ok(previous)
    }

    /// URLs that are missing no more after the batch, and URLs that are missing from now on.
    pub fn missing_changes(&self) -> (Vec<MissingUrl>, Vec<MissingUrl>) {
        let (mut no_more, mut now) = (Vec::new(), Vec::new());
        for (url, state) in &self.states {
            let (was, is) = (self.was_missing.get(url).copied(), MissingUrl::from_state(*url, state));
            if was != is {
                no_more.extend(was);
                now.extend(is);
            }
        }
        no_more.sort_unstable();
        now.sort_unstable();
        (no_more, now)
    }

    /// The last page of the batch at a URL, by number.
    pub fn last_page_at(&self, url: Fingerprint) -> Option<usize> {
        self.sightings.iter().rposition(|sighting| sighting.as_ref().is_some_and(|sighting| sighting.url == url))
    }

    /// Records that the move of a missing URL's last copy is reported.
    pub fn mark_found(&mut self, missing: MissingUrl, state: UrlState) {
        self.was_missing.entry(missing.url).or_insert(missing);
        self.states.insert(missing.url, UrlState { found: true, ..state });
    }

    /// Everything it holds that is written, as effects that report nothing.
    pub fn into_effects(self) -> HistoryEffects {
        let (no_longer_missing, missing) = self.missing_changes();
        let mut states: Vec<(Fingerprint, UrlState)> = self.states.into_iter().collect();
        states.sort_unstable_by_key(|(url, _)| *url);
        HistoryEffects {
            sightings: self.sightings,
            new_urls: self.new_urls,
            states,
            missing,
            no_longer_missing,
            sweeps: self.sweeps.into_iter().collect(),
            ..HistoryEffects::default()
        }
    }
}
