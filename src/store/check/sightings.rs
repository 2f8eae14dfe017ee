//! Sightings: by URL and by document the same, each URL with its text and its state, each sweep counted.

use super::documents::sighting_share;
use super::{Check, Row, Rows, at, hex, read_failed, shown};
use crate::document::{Fingerprint, host_of};
use crate::ports::{MissingUrl, StoredSighting};
use crate::store::schema::{self, Fields, cf};
use crate::sweep::{Observation, Seen, SweepRow, UrlState};
use std::collections::{BTreeMap, BTreeSet};

/// The families that are keyed by URL, each one row ahead.
struct ByUrl<'s> {
    sightings: Ahead<'s>,
    urls: Ahead<'s>,
    states: Ahead<'s>,
}

/// A family keyed by a URL's fingerprint, and maybe more, one row ahead.
struct Ahead<'s> {
    rows: Rows<'s>,
    next: Option<(Fingerprint, Row)>,
}

impl<'s> Check<'s> {
    /// Reads the sightings and beside them what else is kept of each URL. `standings` are the sums over the sightings of
    /// each document as `standings` has them.
    pub(super) fn sightings(&mut self, mut standings: Vec<u64>) {
        let mut by_url =
            ByUrl { sightings: self.ahead(cf::SIGHTINGS), urls: self.ahead(cf::URLS), states: self.ahead(cf::STATES) };
        let mut sweeps = BTreeMap::new();
        while let Some(url) = by_url.first() {
            let history = self.history(url, &mut by_url.sightings);
            for moment in &history {
                self.count(url, moment, &mut standings, &mut sweeps);
            }
            let text = self.take(url, &mut by_url.urls);
            let state = self.take(url, &mut by_url.states);
            self.url(url, &history, text, state);
        }
        self.missing();
        self.sweeps(sweeps);
        let differing = standings.iter().enumerate().filter(|(_, sum)| **sum != 0).map(|(at, _)| at as u32 + 1);
        let differing: BTreeSet<u32> = differing.take(self.findings_max).collect();
        if !differing.is_empty() {
            self.name_differing(&differing);
        }
    }

    fn ahead(&mut self, family: &'static str) -> Ahead<'s> {
        let mut ahead = Ahead { rows: self.rows(family), next: None };
        self.advance_url(&mut ahead);
        ahead
    }

    fn advance_url(&mut self, ahead: &mut Ahead<'_>) {
        ahead.next = None;
        while let Some(row) = self.next(&mut ahead.rows) {
            match Fields(&row.0).fingerprint() {
                Some(url) => {
                    ahead.next = Some((url, row));
                    return;
                }
                None => self.find(ahead.rows.family, hex(&row.0), "the key cannot be read"),
            }
        }
    }

    /// The row of a URL, if it is the one ahead.
    fn take(&mut self, url: Fingerprint, ahead: &mut Ahead<'_>) -> Option<Row> {
        let (_, row) = ahead.next.take_if(|(next, _)| *next == url)?;
        self.advance_url(ahead);
        Some(row)
    }

    /// All sightings of a URL.
    fn history(&mut self, url: Fingerprint, sightings: &mut Ahead<'_>) -> Vec<Observation> {
        let mut history = Vec::new();
        while let Some((key, _)) = self.take(url, sightings) {
            match schema::read_sighting(&key) {
                Some(sighting) => history.push(sighting.moment),
                None => self.find(cf::SIGHTINGS, hex(&key), "the key cannot be read"),
            }
        }
        history
    }

    /// Takes a sighting off what `standings` has of its document, and counts it for its sweep.
    fn count(
        &mut self,
        url: Fingerprint,
        moment: &Observation,
        standings: &mut [u64],
        sweeps: &mut BTreeMap<String, SweepRow>,
    ) {
        match moment.seen.document() {
            Some(document) if self.is_document(document) => {
                let sum = &mut standings[at(document)];
                *sum = sum.wrapping_sub(sighting_share(url, moment));
            }
            Some(document) => self.find(cf::SIGHTINGS, shown(url), format!("there is no document {document}")),
            None => {}
        }
        if let Some(name) = moment.sweep.as_ref().filter(|_| moment.seen != Seen::Lost) {
            let row = sweeps.entry(name.clone()).or_insert_with(|| SweepRow::begun(moment.fetched_at));
            row.count(moment.fetched_at, moment.seen.document().is_some());
        }
    }

    /// A URL that was seen has its text and its state, and one that was not has neither.
    fn url(&mut self, url: Fingerprint, history: &[Observation], text: Option<Row>, state: Option<Row>) {
        let host = match &text {
            Some((key, text)) => {
                if self.store.seed.fingerprint("url", &[text]) != url || key.len() != 16 {
                    let what = format!("{} has another fingerprint", String::from_utf8_lossy(text));
                    self.find(cf::URLS, hex(key), what);
                }
                let host = host_of(std::str::from_utf8(text).unwrap_or_default());
                Some(self.store.seed.fingerprint("host", &[host.as_bytes()]).0 as u64)
            }
            None => None,
        };
        if history.is_empty() {
            if text.is_some() {
                self.find(cf::URLS, shown(url), "the URL was never seen");
            }
            if state.is_some() {
                self.find(cf::STATES, shown(url), "the URL was never seen");
            }
            return;
        }
        if text.is_none() {
            self.find(cf::SIGHTINGS, shown(url), "there is no URL of this fingerprint");
        }
        let Some(state) = state.and_then(|(_, row)| schema::read_state(&row)) else {
            self.find(cf::STATES, shown(url), "the URL was seen, but its state is not there or cannot be read");
            return;
        };
        let expected = UrlState::from_history(history, host.unwrap_or(state.host));
        if expected.map(|expected| UrlState { found: state.found, ..expected }).as_ref() != Some(&state) {
            self.find(cf::STATES, shown(url), "it is not what the URL's sightings add up to");
        }
        if let Some(sought) = MissingUrl::from_state(url, &state)
            && !self.is_there(cf::SOUGHT, &schema::sought_key(&sought))
        {
            let what = format!("is missing; it was last seen as document {}", sought.document);
            self.find(cf::SOUGHT, shown(url), what);
        }
    }

    /// Each URL that is sought is so by its state.
    fn missing(&mut self) {
        let mut rows = self.rows(cf::SOUGHT);
        while let Some((key, _)) = self.next(&mut rows) {
            let url = key.last_chunk::<16>().and_then(|url| Fields(url).fingerprint());
            let is_right = url.is_some_and(|url| match self.store.states_of(&[url]).as_deref() {
                Ok([Some(state)]) => {
                    MissingUrl::from_state(url, state).is_some_and(|sought| schema::sought_key(&sought) == key[..])
                }
                _ => false,
            });
            if !is_right {
                self.find(cf::SOUGHT, hex(&key), "its URL's state does not seek it");
            }
        }
    }

    /// Sweeps count what was seen on them: a page that came twice, twice.
    fn sweeps(&mut self, mut counted: BTreeMap<String, SweepRow>) {
        let mut rows = self.rows(cf::SWEEPS);
        while let Some((key, row)) = self.next(&mut rows) {
            let name = String::from_utf8_lossy(&key).into_owned();
            let Some(row) = schema::read_sweep_row(&row) else {
                self.find(cf::SWEEPS, name, "the row cannot be read");
                continue;
            };
            match counted.remove(&name) {
                Some(found) if (found.first, found.last) != (row.first, row.last) => {
                    self.find(cf::SWEEPS, name, "its sightings begin or end at another time");
                }
                Some(found) if found.n_pages > row.n_pages || found.n_gone > row.n_gone => {
                    let what = format!("{} pages and {} gone were seen on it", found.n_pages, found.n_gone);
                    self.find(cf::SWEEPS, name, format!("{what}, it counts {} and {}", row.n_pages, row.n_gone));
                }
                Some(_) => {}
                None => self.find(cf::SWEEPS, name, "nothing was seen on it"),
            }
        }
        for name in counted.into_keys() {
            self.find(cf::SWEEPS, name, "is missing; it is the sweep of some sightings");
        }
    }

    /// Looks up, for the documents whose sums differ, which sightings are in one family alone.
    fn name_differing(&mut self, differing: &BTreeSet<u32>) {
        let store = self.store;
        for document in differing {
            let scanned = store.scan(cf::STANDINGS, &document.to_be_bytes(), &mut |key, _| {
                if let Some(standing) = schema::read_standing(key)
                    && !self.is_there(cf::SIGHTINGS, &schema::sighting_key(&standing))
                {
                    self.find(cf::STANDINGS, describe(&standing), "there is no such row in sightings");
                }
                Ok(true)
            });
            if let Err(error) = scanned {
                self.find(cf::STANDINGS, document, read_failed(&error));
            }
        }
        let scanned = store.scan(cf::SIGHTINGS, &[], &mut |key, _| {
            if let Some(sighting) = schema::read_sighting(key)
                && let Some(document) = sighting.moment.seen.document().filter(|id| differing.contains(&id.0))
                && !self.is_there(cf::STANDINGS, &schema::standing_key(document, &sighting))
            {
                self.find(cf::SIGHTINGS, describe(&sighting), "there is no such row in standings");
            }
            Ok(true)
        });
        if let Err(error) = scanned {
            self.find(cf::SIGHTINGS, "", read_failed(&error));
        }
    }

    fn is_there(&mut self, family: &'static str, key: &[u8]) -> bool {
        let row = self.store.cf(family).and_then(|handle| {
            let row = self.store.db.get_pinned_cf(handle, key).map_err(crate::store::open::failed)?;
            Ok(row.is_some())
        });
        row.unwrap_or_else(|error| {
            self.find(family, hex(key), read_failed(&error));
            true
        })
    }
}

impl ByUrl<'_> {
    /// The URL of the first row of them all.
    fn first(&self) -> Option<Fingerprint> {
        let ahead = [&self.sightings, &self.urls, &self.states];
        ahead.into_iter().filter_map(|ahead| ahead.next.as_ref()).map(|(url, _)| *url).min()
    }
}

fn describe(sighting: &StoredSighting) -> String {
    let document = sighting.moment.seen.document().map_or(0, |document| document.0);
    format!("document {document} at {} on {}", shown(sighting.url), sighting.moment.fetched_at)
}
