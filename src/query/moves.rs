//! Where the pages of all dead URLs stand now: `query lost` for the whole store.

use super::lost::{LostAnswer, LostSearch, lost_many};
use crate::document::{DocumentId, FetchTime};
use crate::ports::{Snapshot, StoreError};
use crate::sweep::Evidence;
use serde::Serialize;

/// A URL whose page is gone, lost or redirected, and where its content stands now, flat for tables.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MoveRow {
    /// The URL.
    pub url: String,
    /// What stands there now: `gone`, `redirect` or `lost`.
    pub state: &'static str,
    /// When that was seen.
    pub fetched_at: FetchTime,
    /// On which sweep; empty: on none.
    pub sweep: String,
    /// The last copy.
    pub document: Option<DocumentId>,
    /// When the last copy was fetched.
    pub last_seen: Option<FetchTime>,
    /// The best place of the content; none: it stands nowhere that the store knows.
    pub to: Option<String>,
    /// What stands there.
    pub to_document: Option<DocumentId>,
    /// When that was seen.
    pub to_last_seen: Option<FetchTime>,
    /// Of the last copy and the document there, in hundredths.
    pub resemblance: Option<f64>,
    /// How the place is known: the kind of [`Evidence`], without what is between.
    pub evidence: Option<&'static str>,
    /// What orders the places, 0 to 1, in hundredths.
    pub score: Option<f64>,
}

/// Calls `each` with every URL whose page is gone, lost or redirected, in the order of
/// [`export_present`](super::export_present), until it says stop (false).
///
/// # Errors
/// [`StoreError`]
pub fn export_moves(
    snapshot: &impl Snapshot,
    search: &LostSearch,
    mut each: impl FnMut(MoveRow) -> bool,
) -> Result<(), StoreError> {
    let mut dead = Vec::new();
    snapshot.each_url(&mut |url, state| {
        if state.newest.seen.document().is_none() {
            dead.push(url);
        }
        true
    })?;
    let best = LostSearch { limit: 1, ..search.clone() };
    lost_many(snapshot, &dead, &best, |answer| MoveRow::from_answer(answer).is_none_or(&mut each))
}

impl MoveRow {
    /// The row of an answer; none for a URL that was never seen.
    pub(super) fn from_answer(answer: LostAnswer) -> Option<Self> {
        let newest = answer.newest?;
        let place = answer.details.into_iter().find(|place| place.evidence != Evidence::Itself);
        Some(MoveRow {
            url: answer.url,
            state: newest.seen.as_str(),
            fetched_at: newest.fetched_at,
            sweep: newest.sweep.unwrap_or_default(),
            document: answer.last_seen.as_ref().and_then(|copy| copy.moment.seen.document()),
            last_seen: answer.last_seen.as_ref().map(|copy| copy.moment.fetched_at),
            to_document: place.as_ref().and_then(|place| place.document),
            to_last_seen: place.as_ref().and_then(|place| place.last_seen),
            resemblance: place.as_ref().and_then(|place| place.resemblance),
            score: place.as_ref().map(|place| place.score),
            evidence: place.as_ref().map(|place| place.evidence.as_str()),
            to: place.map(|place| place.url),
        })
    }
}
