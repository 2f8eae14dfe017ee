//! What the store is and how far it has come: `meta`, `offsets`, `outbox`.

use super::{Check, hex};
use crate::ports::Progress;
use crate::store::schema::{self, FORMAT_VERSION, Fields, OLDEST_READABLE_FORMAT, cf, meta};
use crate::wire::Event;

/// What is stored of a partition that is gone, once somebody has accepted it.
const GONE: Progress = Progress { next_offset: -1, chain: 0 };

impl Check<'_> {
    pub(super) fn progress(&mut self) {
        self.meta();
        self.offsets();
        self.outbox();
    }

    /// Opening has read these; here they are held against each other.
    fn meta(&mut self) {
        let mut rows = self.rows(cf::META);
        while let Some((key, row)) = self.next(&mut rows) {
            let name = String::from_utf8_lossy(&key).into_owned();
            let number = || Fields(&row).u32().filter(|_| row.len() == 4);
            let is_right = match &*key {
                meta::FORMAT => number().is_some_and(|n| (OLDEST_READABLE_FORMAT..=FORMAT_VERSION).contains(&n)),
                meta::INDEXED_UP_TO => number().is_some_and(|n| n <= self.store.n_documents),
                meta::DOCUMENTS => number().is_some(),
                meta::PUBLISHED => Fields(&row).u64().is_some_and(|n| n <= self.store.next_seq),
                meta::NEXT_SEQ => row.len() == 8,
                meta::SEED => row.len() == 32,
                key if key.starts_with(meta::BEGINNING) => row.len() == 8,
                key if key.starts_with(meta::OUTPUT) => schema::read_output(&row).is_some(),
                _ => true,
            };
            if !is_right {
                let what = format!("{} is not what it may be beside the other rows of meta", hex(&row));
                self.find(cf::META, name, what);
            }
        }
    }

    fn offsets(&mut self) {
        let mut rows = self.rows(cf::OFFSETS);
        while let Some((key, row)) = self.next(&mut rows) {
            let Some((source, partition)) = schema::read_progress_key(&key) else {
                self.find(cf::OFFSETS, hex(&key), "the key is not a source and a partition");
                continue;
            };
            match schema::read_progress(&row) {
                Some(Progress { next_offset: 0.., .. } | GONE) if row.len() == 16 => {}
                _ => self.find(cf::OFFSETS, format!("{source}[{partition}]"), "the row is not an offset and a chain"),
            }
        }
    }

    /// The outbox is dense from what is out to what is next, or empty.
    fn outbox(&mut self) {
        let mut rows = self.rows(cf::OUTBOX);
        let (published, next_seq) = (self.store.published, self.store.next_seq);
        let mut expected = published;
        while let Some((key, row)) = self.next(&mut rows) {
            let Some(event) = schema::read_outbox(&key, &row).filter(|_| key.len() == 8) else {
                self.find(cf::OUTBOX, hex(&key), "the row cannot be read");
                continue;
            };
            if event.seq < published {
                self.find(cf::OUTBOX, event.seq, format!("it is out: all below {published} are"));
                continue;
            }
            if event.seq > expected {
                self.find(cf::OUTBOX, expected, format!("the events from here to {} are missing", event.seq - 1));
            }
            expected = event.seq + 1;
            let is_event = serde_json::from_slice::<Event>(&event.json).is_ok_and(|read| read.seq == event.seq);
            if !is_event {
                self.find(cf::OUTBOX, event.seq, "its bytes are not the event of this number");
            }
        }
        if expected != next_seq && expected != published {
            self.find(cf::OUTBOX, expected, format!("the outbox ends here, and the next event is {next_seq}"));
        } else if expected == published && published != next_seq {
            self.find(cf::OUTBOX, published, format!("the events from here to {} are missing", next_seq - 1));
        }
    }
}
