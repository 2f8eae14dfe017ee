//! Checks sightings: the same by URL and by document, with the right URLs, states and sweep counts.

use super::documents::sighting_hash;
use super::{Check, Row, Rows, hex, hex_fingerprint, index_of, unreadable};
use crate::document::{Fingerprint, host_of};
use crate::ports::{MissingUrl, StoredSighting};
use crate::store::schema::{self, Fields, cf};
use crate::sweep::{Observation, Seen, SweepRow, UrlState};
use std::collections::{BTreeMap, BTreeSet};

/// The families keyed by URL, each read one row ahead.
struct ByUrl<'s> {
    sightings: Ahead<'s>,
    urls: Ahead<'s>,
    states: Ahead<'s>,
}

/// A family whose keys start with a URL fingerprint, read one row ahead.
struct Ahead<'s> {
    rows: Rows<'s>,
    next: Option<(Fingerprint, Row)>,
}

impl<'s> Check<'s> {
    /// Reads the sightings in step with the URLs and their states. `sums` holds, for each document, the sum over its
    /// sightings in the family `standings`.
    pub(super) fn sightings(&mut self, mut sums: Vec<u64>) {
        let mut by_url =
            ByUrl { sightings: self.ahead(cf::SIGHTINGS), urls: self.ahead(cf::URLS), states: self.ahead(cf::STATES) };
        let mut sweeps = BTreeMap::new();
        while let Some(url) = by_url.first() {
            let history = self.history(url, &mut by_url.sightings);
            for moment in &history {
                self.count(url, moment, &mut sums, &mut sweeps);
            }
            let text = self.next_of(url, &mut by_url.urls);
            let state = self.next_of(url, &mut by_url.states);
            self.url(url, &history, text, state);
        }
        self.missing();
        self.sweeps(sweeps);
        let differing = sums.iter().enumerate().filter(|(_, sum)| **sum != 0).map(|(at, _)| at as u32 + 1);
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
                None => self.add_finding(ahead.rows.family, hex(&row.0), "the key cannot be read"),
            }
        }
    }

    /// The next row, if it belongs to this URL.
    fn next_of(&mut self, url: Fingerprint, ahead: &mut Ahead<'_>) -> Option<Row> {
        let (_, row) = ahead.next.take_if(|(next, _)| *next == url)?;
        self.advance_url(ahead);
        Some(row)
    }

    /// All sightings of a URL.
    fn history(&mut self, url: Fingerprint, sightings: &mut Ahead<'_>) -> Vec<Observation> {
        let mut history = Vec::new();
        while let Some((key, _)) = self.next_of(url, sightings) {
            match schema::read_sighting(&key) {
                Some(sighting) => history.push(sighting.moment),
                None => self.add_finding(cf::SIGHTINGS, hex(&key), "the key cannot be read"),
            }
        }
        history
    }

    /// Subtracts a sighting from its document's sum, and counts it for its sweep.
    fn count(
        &mut self,
        url: Fingerprint,
        moment: &Observation,
        sums: &mut [u64],
        sweeps: &mut BTreeMap<String, SweepRow>,
    ) {
        match moment.seen.document() {
            Some(document) if self.is_document(document) => {
                let sum = &mut sums[index_of(document)];
                *sum = sum.wrapping_sub(sighting_hash(url, moment));
            }
            Some(document) => {
                self.add_finding(cf::SIGHTINGS, hex_fingerprint(url), format!("there is no document {document}"))
            }
            None => {}
        }
        if let Some(name) = moment.sweep.as_ref().filter(|_| moment.seen != Seen::Lost) {
            let row = sweeps.entry(name.clone()).or_insert_with(|| SweepRow::begun(moment.fetched_at));
            row.count(moment.fetched_at, moment.seen.document().is_some());
        }
    }

    /// A URL with sightings must have its text and its state; a URL without must have neither.
    fn url(&mut self, url: Fingerprint, history: &[Observation], text: Option<Row>, state: Option<Row>) {
        let host = match &text {
            Some((key, text)) => {
                if self.store.seed.fingerprint("url", &[text]) != url || key.len() != 16 {
                    let what = format!("{} has another fingerprint", String::from_utf8_lossy(text));
                    self.add_finding(cf::URLS, hex(key), what);
                }
                let host = host_of(std::str::from_utf8(text).unwrap_or_default());
                Some(self.store.seed.fingerprint("host", &[host.as_bytes()]).0 as u64)
            }
            None => None,
        };
        if history.is_empty() {
            if text.is_some() {
                self.add_finding(cf::URLS, hex_fingerprint(url), "the URL was never seen");
            }
            if state.is_some() {
                self.add_finding(cf::STATES, hex_fingerprint(url), "the URL was never seen");
            }
            return;
        }
        if text.is_none() {
            self.add_finding(cf::SIGHTINGS, hex_fingerprint(url), "no URL has this fingerprint");
        }
        let Some(state) = state.and_then(|(_, row)| schema::read_state(&row)) else {
            self.add_finding(
                cf::STATES,
                hex_fingerprint(url),
                "the URL was seen, but its state is missing or cannot be read",
            );
            return;
        };
        let expected = UrlState::from_history(history, host.unwrap_or(state.host));
        if expected.map(|expected| UrlState { found: state.found, ..expected }).as_ref() != Some(&state) {
            self.add_finding(cf::STATES, hex_fingerprint(url), "it does not follow from the URL's sightings");
        }
        if let Some(missing) = MissingUrl::from_state(url, &state)
            && !self.has_row(cf::MISSING_URLS, &schema::missing_url_key(&missing))
        {
            let what = format!("is missing; it was last seen as document {}", missing.document);
            self.add_finding(cf::MISSING_URLS, hex_fingerprint(url), what);
        }
    }

    /// Every missing URL must be missing according to its state.
    fn missing(&mut self) {
        let mut rows = self.rows(cf::MISSING_URLS);
        while let Some((key, _)) = self.next(&mut rows) {
            let url = key.last_chunk::<16>().and_then(|url| Fields(url).fingerprint());
            let is_right = url.is_some_and(|url| match self.store.states_of(&[url]).as_deref() {
                Ok([Some(state)]) => MissingUrl::from_state(url, state)
                    .is_some_and(|missing| schema::missing_url_key(&missing) == key[..]),
                _ => false,
            });
            if !is_right {
                self.add_finding(cf::MISSING_URLS, hex(&key), "according to its state, the URL is not missing");
            }
        }
    }

    /// Compares each sweep with its sightings. A sweep may count more than these, because it counts a repeated page
    /// twice.
    fn sweeps(&mut self, mut counted: BTreeMap<String, SweepRow>) {
        let mut rows = self.rows(cf::SWEEPS);
        while let Some((key, row)) = self.next(&mut rows) {
            let name = String::from_utf8_lossy(&key).into_owned();
            let Some(row) = schema::read_sweep_row(&row) else {
                self.add_finding(cf::SWEEPS, name, "the row cannot be read");
                continue;
            };
            match counted.remove(&name) {
                Some(found) if (found.first, found.last) != (row.first, row.last) => {
                    self.add_finding(cf::SWEEPS, name, "its first or last time is not that of its sightings");
                }
                Some(found) if found.n_pages > row.n_pages || found.n_gone > row.n_gone => {
                    let what = format!("its sightings are {} pages and {} gone", found.n_pages, found.n_gone);
                    self.add_finding(
                        cf::SWEEPS,
                        name,
                        format!("{what}, but it counts {} and {}", row.n_pages, row.n_gone),
                    );
                }
                Some(_) => {}
                None => self.add_finding(cf::SWEEPS, name, "it has no sightings"),
            }
        }
        for name in counted.into_keys() {
            self.add_finding(cf::SWEEPS, name, "is missing, although it has sightings");
        }
    }

    /// For documents whose sums differ, finds the sightings that only one of the two families holds.
    fn name_differing(&mut self, differing: &BTreeSet<u32>) {
        let store = self.store;
        for document in differing {
            let scanned = store.scan(cf::SIGHTINGS_BY_DOCUMENT, &document.to_be_bytes(), &mut |key, _| {
                if let Some(sighting) = schema::read_sighting_by_document(key)
                    && !self.has_row(cf::SIGHTINGS, &schema::sighting_key(&sighting))
                {
                    self.add_finding(
                        cf::SIGHTINGS_BY_DOCUMENT,
                        describe(&sighting),
                        "there is no such row in sightings",
                    );
                }
                Ok(true)
            });
            if let Err(error) = scanned {
                self.add_finding(cf::SIGHTINGS_BY_DOCUMENT, document, unreadable(&error));
            }
        }
        let scanned = store.scan(cf::SIGHTINGS, &[], &mut |key, _| {
            if let Some(sighting) = schema::read_sighting(key)
                && let Some(document) = sighting.moment.seen.document().filter(|id| differing.contains(&id.0))
                && !self.has_row(cf::SIGHTINGS_BY_DOCUMENT, &schema::sighting_by_document_key(document, &sighting))
            {
                self.add_finding(cf::SIGHTINGS, describe(&sighting), "there is no such row in sightings-by-document");
            }
            Ok(true)
        });
        if let Err(error) = scanned {
            self.add_finding(cf::SIGHTINGS, "", unreadable(&error));
        }
    }

    fn has_row(&mut self, family: &'static str, key: &[u8]) -> bool {
        let row = self.store.cf(family).and_then(|handle| {
            let row = self.store.db.get_pinned_cf(handle, key).map_err(crate::store::rocks_error::failed)?;
            Ok(row.is_some())
        });
        row.unwrap_or_else(|error| {
            self.add_finding(family, hex(key), unreadable(&error));
            true
        })
    }
}

impl ByUrl<'_> {
    /// The smallest URL fingerprint ahead.
    fn first(&self) -> Option<Fingerprint> {
        let ahead = [&self.sightings, &self.urls, &self.states];
        ahead.into_iter().filter_map(|ahead| ahead.next.as_ref()).map(|(url, _)| *url).min()
    }
}

fn describe(sighting: &StoredSighting) -> String {
    let document = sighting.moment.seen.document().map_or(0, |document| document.0);
    format!("document {document} at {} on {}", hex_fingerprint(sighting.url), sighting.moment.fetched_at)
}
