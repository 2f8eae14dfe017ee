//! Checks `meta`, `offsets` and `outbox`.

use super::{Check, hex};
use crate::ports::{Progress, StoreError};
use crate::store::schema::{self, FORMAT_VERSION, Fields, OLDEST_READABLE_FORMAT, cf, meta};
use crate::wire::Event;
use std::collections::BTreeMap;

/// The row of a partition that no longer exists, once the user has accepted its loss.
const GONE: Progress = Progress { next_offset: -1, chain: 0 };

impl Check<'_> {
    pub(super) fn progress(&mut self) {
        self.meta();
        self.offsets();
        self.outbox();
    }

    /// Opening the store has read these rows; this checks them against each other.
    fn meta(&mut self) {
        let mut rows = self.rows(cf::META);
        while let Some((key, row)) = self.next(&mut rows) {
            let name = String::from_utf8_lossy(&key).into_owned();
            let number = || Fields(&row).u32().filter(|_| row.len() == 4);
            let is_right = match &*key {
                meta::FORMAT => number().is_some_and(|n| (OLDEST_READABLE_FORMAT..=FORMAT_VERSION).contains(&n)),
                meta::INDEXED_UP_TO => number().is_some_and(|n| n <= self.store.n_documents()),
                meta::DOCUMENTS => number().is_some(),
                meta::PUBLISHED => Fields(&row).u64().is_some_and(|n| n <= self.store.next_seq()),
                meta::NEXT_SEQ => row.len() == 8,
                // Opening the store has read it.
                meta::KEPT_FROM => row.len() == 16,
                meta::SEED => row.len() == 32,
                meta::COUNTS => schema::read_counts(&row).is_some(),
                key if key.starts_with(meta::EQUAL) => schema::read_equal_clusters(&row).is_some(),
                key if key.starts_with(meta::BEGINNING) || key.starts_with(meta::WATCH) => row.len() == 8,
                key if key.starts_with(meta::INPUT) => schema::read_input_state(&row).is_some(),
                key if key.starts_with(meta::OUTPUT) => schema::read_output(&row).is_some(),
                _ => true,
            };
            if !is_right {
                let what = format!("{} contradicts the other rows of meta, or has the wrong length", hex(&row));
                self.add_finding(cf::META, name, what);
            }
        }
    }

    /// The counts that are kept are those of the rows. What cannot be counted is another check's finding.
    pub(super) fn counts(&mut self) {
        let counted = || -> Result<_, StoreError> {
            let Some(kept) = self.store.counts_if_kept()? else { return Ok(None) };
            Ok(Some(((kept, self.store.equal_clusters()?.0), self.store.count()?)))
        };
        let Ok(Some(((kept, kept_equal), (counts, equal)))) = counted() else { return };
        if kept != counts {
            self.add_finding(cf::META, "counts", format!("it says {kept:?}, and the rows add up to {counts:?}"));
        }
        let pairs =
            kept_equal.iter().map(|cluster| (cluster, false)).chain(equal.iter().map(|cluster| (cluster, true)));
        let mut by_document: BTreeMap<_, [u32; 2]> = BTreeMap::new();
        for (cluster, is_counted) in pairs {
            by_document.entry(cluster.document).or_default()[usize::from(is_counted)] = cluster.n_urls;
        }
        for (document, [kept, counted]) in by_document.into_iter().filter(|(_, [kept, counted])| kept != counted) {
            let what = format!("{kept} URLs are noted as those of document {document} alone, and {counted} carry it");
            self.add_finding(cf::META, "equal", what);
        }
    }

    fn offsets(&mut self) {
        let mut rows = self.rows(cf::OFFSETS);
        while let Some((key, row)) = self.next(&mut rows) {
            let Some((source, partition)) = schema::read_progress_key(&key) else {
                self.add_finding(cf::OFFSETS, hex(&key), "the key is not a source and a partition");
                continue;
            };
            match schema::read_progress(&row) {
                Some(Progress { next_offset: 0.., .. } | GONE) if row.len() == 16 => {}
                _ => self.add_finding(
                    cf::OFFSETS,
                    format!("{source}[{partition}]"),
                    "the row is not an offset and a chain",
                ),
            }
        }
    }

    /// The outbox holds every event from the first kept or unpublished one to the last. Published ones may be redacted.
    fn outbox(&mut self) {
        let mut rows = self.rows(cf::OUTBOX);
        let (first, published, next_seq) = (self.store.keeping.first(), self.store.published(), self.store.next_seq());
        let mut expected = first;
        while let Some((key, row)) = self.next(&mut rows) {
            let Some(event) = schema::read_outbox(&key, &row).filter(|_| key.len() == 8) else {
                self.add_finding(cf::OUTBOX, hex(&key), "the row cannot be read");
                continue;
            };
            if event.seq < first {
                let what = format!("it is already published and not kept, as all events below {first}");
                self.add_finding(cf::OUTBOX, event.seq, what);
                continue;
            }
            if event.seq > expected {
                self.add_finding(
                    cf::OUTBOX,
                    expected,
                    format!("the events from here to {} are missing", event.seq - 1),
                );
            }
            expected = event.seq + 1;
            let is_redacted = event.seq < published && event.key.is_none() && event.json.is_empty();
            let is_event = serde_json::from_slice::<Event>(&event.json).is_ok_and(|read| read.seq == event.seq);
            if !is_event && !is_redacted {
                self.add_finding(cf::OUTBOX, event.seq, "its bytes are not the event with this number");
            }
        }
        if expected == first && first != next_seq {
            self.add_finding(cf::OUTBOX, first, format!("the events from here to {} are missing", next_seq - 1));
        } else if expected != next_seq {
            self.add_finding(cf::OUTBOX, expected, format!("the outbox ends here, but the next event is {next_seq}"));
        }
    }
}
