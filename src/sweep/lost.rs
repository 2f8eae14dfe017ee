//! Lost and found: where the content of a URL stands now.

use super::Sighting;
use crate::document::{DocumentId, FetchTime};
use serde::Serialize;
use std::collections::HashMap;

/// A URL that carries the content of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Found {
    /// Where.
    pub url: String,
    /// When it was last seen there.
    pub last_seen: FetchTime,
    /// On which sweep.
    pub sweep: Option<String>,
    /// The document that it carries.
    pub document: DocumentId,
}

/// The URLs at which the documents of a cluster were seen last, most recent first, then by URL. A URL that has
/// carried something else since, or nothing, is not among them: `latest` is the newest sighting of each URL. The
/// documents are given ascending.
pub fn found(cluster: &[DocumentId], latest: &HashMap<String, Sighting>) -> Vec<Found> {
    let mut found: Vec<Found> = latest
        .values()
        .filter_map(|sighting| {
            let moment = &sighting.moment;
            let document = moment.seen.document().filter(|document| cluster.binary_search(document).is_ok())?;
            Some(Found {
                url: sighting.url.clone(),
                last_seen: moment.fetched_at,
                sweep: moment.sweep.clone(),
                document,
            })
        })
        .collect();
    found.sort_by(|a, b| b.last_seen.cmp(&a.last_seen).then_with(|| a.url.cmp(&b.url)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::{Moment, Seen};

    #[test]
    fn most_recent_first_and_only_what_still_stands() {
        let sighting = |url: &str, time, document: Option<u32>| {
            let seen = document.map_or(Seen::Gone, |document| Seen::Document(DocumentId(document)));
            let moment = Moment { fetched_at: FetchTime(time), seen, sweep: None };
            (url.to_string(), Sighting { url: url.to_string(), moment })
        };
        let latest = HashMap::from([
            sighting("http://old", 1, Some(1)),
            sighting("http://new", 3, Some(2)),
            sighting("http://also-new", 3, Some(1)),
            sighting("http://gone", 4, None),
            sighting("http://other", 4, Some(9)),
        ]);
        let urls: Vec<String> =
            found(&[DocumentId(1), DocumentId(2)], &latest).into_iter().map(|found| found.url).collect();
        assert_eq!(urls, ["http://also-new", "http://new", "http://old"]);
    }
}
