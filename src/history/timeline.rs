//! The timelines of a batch's URLs, page by page: sightings, states, sweeps, and which URLs are missing.

use super::effects::HistoryEffects;
use super::missing::MissingUrl;
use super::page_sighting::PageSighting;
use super::positions::Positions;
use super::view::{StoredSighting, View};
use crate::cluster::Decision;
use crate::document::{DocumentId, Fingerprint, Seed, host_key};
use crate::sweep::{LastCopy, Observation, SweepRow, UrlState, counted};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// What a page changes in the timeline of its URL.
#[derive(Default)]
pub(super) struct Added {
    /// The document that stood at the URL before, by fetch time.
    pub previous: Option<DocumentId>,
    /// For a late page, what stands at the URL now, where that did not stand there before.
    pub late: Option<Option<Observation>>,
    /// The URL as it was missing before the page, where it no longer is.
    pub no_longer_missing: Option<MissingUrl>,
    /// The URL, where it is missing from this page on.
    pub missing: Option<MissingUrl>,
    /// Whether the same sighting was there before.
    pub is_repeated: bool,
    /// Whether the page's document stood at the URL before; none where only the URL's whole history says.
    pub has_stood: Option<bool>,
}

/// A URL that a sweep marks as lost.
pub(super) struct Marked {
    /// What stood there when the sweep began.
    pub document: DocumentId,
    /// Whether a newer sighting or mark is what counts there.
    pub is_late: bool,
}

/// What a batch does to the timelines of its URLs.
#[derive(Default)]
pub(super) struct Timeline {
    /// The sighting of each page so far; none for a rejected record.
    pub sightings: Vec<Option<StoredSighting>>,
    by_url: Positions<Fingerprint>,
    by_document: Positions<DocumentId>,
    /// URLs that were never seen before, by fingerprint.
    pub new_urls: Vec<(Fingerprint, String)>,
    /// The states of the batch's URLs after the pages so far, and those of other URLs whose move was found.
    pub states: FxHashMap<Fingerprint, UrlState>,
    /// URLs that were missing before the batch.
    was_missing: FxHashMap<Fingerprint, MissingUrl>,
    pub sweeps: BTreeMap<String, SweepRow>,
}

impl Timeline {
    /// Reads what is known of the URLs and sweeps of a batch, one question for each.
    pub fn read<V: View>(view: &V, pages: &[Option<PageSighting<'_>>]) -> Result<Self, V::Error> {
        let mut timeline = Timeline::default();
        timeline.sightings.reserve(pages.len());
        timeline.new_urls.reserve(pages.len());
        timeline.states.reserve(pages.len());
        timeline.read_states(view, pages)?;
        timeline.read_sweeps(view, pages)?;
        Ok(timeline)
    }

    fn read_states<V: View>(&mut self, view: &V, pages: &[Option<PageSighting<'_>>]) -> Result<(), V::Error> {
        let mut urls: Vec<Fingerprint> = pages.iter().flatten().map(|page| page.key).collect();
        urls.sort_unstable();
        urls.dedup();
        for (url, state) in urls.iter().zip(view.states(&urls)?) {
            let Some(state) = state else { continue };
            self.was_missing.extend(MissingUrl::from_state(*url, &state).map(|missing| (*url, missing)));
            self.states.insert(*url, state);
        }
        Ok(())
    }

    fn read_sweeps<V: View>(&mut self, view: &V, pages: &[Option<PageSighting<'_>>]) -> Result<(), V::Error> {
        let mut names: Vec<&str> = pages.iter().flatten().filter_map(|page| page.sweep).collect();
        names.sort_unstable();
        names.dedup();
        let rows = names.iter().zip(view.sweeps(&names)?);
        self.sweeps = rows.filter_map(|(name, row)| Some((name.to_string(), row?))).collect();
        Ok(())
    }

    /// Adds the next page, or nothing in the place of a rejected record. Only a page that comes late, or back to where none stood, costs a
    /// look at its URL's whole history.
    pub fn add<V: View>(
        &mut self,
        view: &V,
        seed: &Seed,
        page: Option<&PageSighting<'_>>,
        decision: Option<&Decision>,
    ) -> Result<Added, V::Error> {
        let Some(page) = page else {
            self.sightings.push(None);
            return Ok(Added::default());
        };
        let sighting = page.sighting(decision);
        self.count(&sighting.moment);
        let missing = |timeline: &Timeline| MissingUrl::from_state(page.key, timeline.states.get(&page.key)?);
        let was_missing = missing(self);
        let mut added = self.add_sighting(view, seed, page.url, &sighting)?;
        let is_missing = missing(self);
        if was_missing != is_missing {
            (added.no_longer_missing, added.missing) = (was_missing, is_missing);
        }
        self.sightings.push(Some(sighting));
        Ok(added)
    }

    /// Counts a sighting in its sweep.
    fn count(&mut self, moment: &Observation) {
        let Some(name) = &moment.sweep else { return };
        if !self.sweeps.contains_key(name) {
            self.sweeps.insert(name.clone(), SweepRow::begun(moment.fetched_at));
        }
        if let Some(row) = self.sweeps.get_mut(name) {
            row.count(moment.fetched_at, moment.seen.document().is_some());
        }
    }

    fn add_sighting<V: View>(
        &mut self,
        view: &V,
        seed: &Seed,
        url: &str,
        StoredSighting { url: key, moment }: &StoredSighting,
    ) -> Result<Added, V::Error> {
        let known = self.states.get(key);
        // A URL that was seen before has a state, and its name is stored.
        if known.is_none() {
            self.new_urls.push((*key, url.to_string()));
        }
        if let Some(state) = known.and_then(|state| state.after(moment)) {
            let previous = known.and_then(|state| state.copy.as_ref()).map(|copy| copy.document);
            self.states.insert(*key, state);
            let has_stood = (previous == moment.seen.document()).then_some(true);
            return Ok(Added { previous, has_stood, ..Added::default() });
        }
        let mut history = Vec::new();
        if known.is_some() {
            history = view.observations(*key)?;
            self.by_url.read_on(&self.sightings, url_of);
            let earlier = self.by_url.of(*key, &self.sightings).flatten();
            history.extend(earlier.map(|sighting| sighting.moment.clone()));
        }
        // A sighting that comes twice follows itself and changes nothing.
        let previous = history.iter().filter(|other| *other <= moment && other.seen.document().is_some()).max();
        let previous = previous.and_then(|moment| moment.seen.document());
        let (is_repeated, has_stood) = (history.contains(moment), has_stood(&history, moment.seen.document()));
        let mut added = Added { previous, is_repeated, has_stood: Some(has_stood), ..Added::default() };
        history.push(moment.clone());
        let host = known.map_or_else(|| host_key(seed, url), |state| state.host);
        let found_copy = known.filter(|state| state.found).and_then(|state| state.copy.as_ref());
        if let Some(mut state) = UrlState::from_history(&history, host) {
            if state.newest != *moment {
                let has_changed = known.is_none_or(|known| known.newest != state.newest);
                added.late = Some(has_changed.then(|| state.newest.clone()));
            }
            let is_found = |found: &LastCopy| {
                state.copy.as_ref().is_some_and(|copy| is_of_one_life(&history, &found.moment(), &copy.moment()))
            };
            state.found = !state.is_alive() && found_copy.is_some_and(is_found);
            self.states.insert(*key, state);
        }
        Ok(added)
    }

    /// Whether the document of the page that was added last stood at its URL before, by the URL's whole history.
    pub fn has_stood<V: View>(&mut self, view: &V) -> Result<bool, V::Error> {
        let Some((Some(last), earlier)) = self.sightings.split_last() else { return Ok(false) };
        let document = last.moment.seen.document();
        self.by_url.read_on(earlier, url_of);
        let mut of_batch = self.by_url.of(last.url, earlier).flatten();
        Ok(of_batch.any(|sighting| sighting.moment.seen.document() == document)
            || has_stood(&view.observations(last.url)?, document))
    }

    /// The sightings of some documents, those of each in order.
    pub fn sightings_of<'t>(&'t mut self, documents: &'t [DocumentId]) -> impl Iterator<Item = &'t StoredSighting> {
        let document_of = |sighting: &Option<StoredSighting>| sighting.as_ref()?.moment.seen.document();
        self.by_document.read_on(&self.sightings, document_of);
        documents.iter().flat_map(|document| self.by_document.of(*document, &self.sightings)).flatten()
    }

    /// Marks a URL as lost, which is in this state. Nothing where no page stood there when the sweep began.
    pub fn mark<V: View>(
        &mut self,
        view: &V,
        url: Fingerprint,
        state: UrlState,
        mark: &Observation,
    ) -> Result<Option<Marked>, V::Error> {
        // Where no page stands, another mark may be of the same moment: the whole history says which of them counts.
        let (copy, after) = if state.is_alive() && state.newest < *mark {
            (state.copy.clone(), UrlState { newest: mark.clone(), found: false, ..state.clone() })
        } else {
            let mut history = view.observations(url)?;
            let copy =
                history.iter().filter(|moment| *moment < mark).filter_map(LastCopy::from_observation).next_back();
            history.push(mark.clone());
            let Some(after) = UrlState::from_history(&history, state.host) else { return Ok(None) };
            (copy, UrlState { found: state.found, ..after })
        };
        let Some(copy) = copy else { return Ok(None) };
        let is_late = after.newest != *mark;
        self.was_missing.extend(MissingUrl::from_state(url, &state).map(|missing| (url, missing)));
        self.sightings.push(Some(StoredSighting { url, moment: mark.clone() }));
        self.states.insert(url, after);
        Ok(Some(Marked { document: copy.document, is_late }))
    }

    /// The URL, where the batch makes it missing.
    pub fn newly_missing(&self, url: Fingerprint) -> Option<MissingUrl> {
        let missing = MissingUrl::from_state(url, self.states.get(&url)?)?;
        (self.was_missing.get(&url) != Some(&missing)).then_some(missing)
    }

    /// URLs that are missing no more after the batch, and URLs that are missing from now on.
    fn missing_changes(&self) -> (Vec<MissingUrl>, Vec<MissingUrl>) {
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

fn url_of(sighting: &Option<StoredSighting>) -> Option<Fingerprint> {
    Some(sighting.as_ref()?.url)
}

/// Whether two copies are of one document that stood all the time between them.
fn is_of_one_life(history: &[Observation], older: &Observation, newer: &Observation) -> bool {
    let between = |other: &&Observation| *other > older && *other < newer;
    older.seen == newer.seen
        && counted(history).into_iter().filter(between).all(|other| other.seen.document().is_some())
}

/// Whether a document is in a history.
fn has_stood(history: &[Observation], document: Option<DocumentId>) -> bool {
    history.iter().any(|other| other.seen.document() == document)
}
