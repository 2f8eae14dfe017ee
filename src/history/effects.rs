//! What a batch changes in the history, to be written and reported together.

use super::missing::MissingUrl;
use super::view::StoredSighting;
use crate::document::{ClusterId, DocumentId, Fingerprint};
use crate::sweep::{Observation, SweepRow, UrlState};
use serde::{Deserialize, Serialize};

/// How a move is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MoveEvidence {
    /// The last copy itself stands at the new place.
    Same,
    /// The document at the new place resembles the last copy by the threshold or more.
    Direct,
    /// Other documents link the two.
    Chain,
}

/// Content that turned up elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// The page of the batch that reports it, by number.
    pub page: usize,
    /// The URL that is gone or lost.
    pub from: String,
    /// Where its content stands now.
    pub to: String,
    /// The last copy.
    pub from_document: DocumentId,
    /// The document at the new place.
    pub to_document: DocumentId,
    /// Their estimated resemblance; 1 where they are one document.
    pub resemblance: f64,
    /// How the move is known.
    pub evidence: MoveEvidence,
}

/// A URL at which a page replaced another document.
#[derive(Clone, Debug, PartialEq)]
pub struct ContentChange {
    /// The page of the batch, by number.
    pub page: usize,
    /// The document that stood there before.
    pub previous: DocumentId,
    /// The page's document.
    pub document: DocumentId,
    /// Their estimated resemblance.
    pub resemblance: f64,
}

/// What stands at a URL now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Present {
    /// The URL's newest sighting ([`UrlState::newest`]).
    pub newest: Observation,
    /// The cluster of the sighted document; none where no page stands there.
    pub cluster: Option<ClusterId>,
}

/// A page or a mark of loss that comes late: a newer sighting of its URL is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatePage {
    /// The page of the batch, by number; of a sweep that is closed, the lost URL.
    pub page: usize,
    /// What stands at its URL now, where that differs from before the batch: the page undid a mark of loss.
    pub present: Option<Present>,
}

/// What a batch changes in the history.
#[derive(Clone, Debug, Default)]
pub struct HistoryEffects {
    /// The sighting of each page of the batch, by number; none for a rejected record.
    pub sightings: Vec<Option<StoredSighting>>,
    /// URLs that were never seen before, under their fingerprints.
    pub new_urls: Vec<(Fingerprint, String)>,
    /// The states of URLs after the batch, by fingerprint.
    pub states: Vec<(Fingerprint, UrlState)>,
    /// URLs that are missing from now on.
    pub missing: Vec<MissingUrl>,
    /// URLs that are missing no more.
    pub no_longer_missing: Vec<MissingUrl>,
    /// Sweeps after the batch, by name.
    pub sweeps: Vec<(String, SweepRow)>,
    /// Content changes, by page. Empty unless changes are reported.
    pub changes: Vec<ContentChange>,
    /// Moves, by page. Empty unless changes are reported.
    pub moves: Vec<Move>,
    /// Late pages, by page. Empty unless changes are reported.
    pub late: Vec<LatePage>,
}

impl HistoryEffects {
    /// The content change that a page brings.
    pub fn change_of(&self, page: usize) -> Option<&ContentChange> {
        self.changes.binary_search_by_key(&page, |change| change.page).ok().map(|at| &self.changes[at])
    }

    /// The moves that a page reports.
    pub fn moves_of(&self, page: usize) -> &[Move] {
        let begin = self.moves.partition_point(|found| found.page < page);
        let end = self.moves.partition_point(|found| found.page <= page);
        &self.moves[begin..end]
    }

    /// Whether a page comes late, and how.
    pub fn late_page(&self, page: usize) -> Option<&LatePage> {
        self.late.binary_search_by_key(&page, |late| late.page).ok().map(|at| &self.late[at])
    }
}
