//! Notes of the inputs that were read to their end, in `meta`.

use super::db::{family, get_meta};
use super::open::RocksStore;
use super::rocks_error::{damaged, failed};
use super::schema::{self, cf, meta};
use crate::ports::{InputNotes, InputState, StoreError};
use rocksdb::DB;
use std::sync::Arc;

/// The notes of a store, for the thread that reads its inputs.
pub struct StoredInputNotes(Arc<DB>);

impl RocksStore {
    /// Reads and writes the notes of inputs.
    pub fn input_notes(&self) -> StoredInputNotes {
        StoredInputNotes(Arc::clone(&self.db))
    }
}

impl InputNotes for StoredInputNotes {
    fn taken_in(&self, input: &str) -> Result<Option<InputState>, StoreError> {
        let row = get_meta(&self.0, &key(input))?;
        row.map(|row| schema::read_input_state(&row).ok_or_else(|| damaged(format!("meta/input/{input}")))).transpose()
    }

    // Not synced: what it follows lies before it in the log of writes.
    fn note_taken_in(&self, input: &str, state: InputState) -> Result<(), StoreError> {
        let row = schema::input_state_row(state);
        self.0.put_cf(family(&self.0, cf::META)?, key(input), row).map_err(failed)
    }
}

fn key(input: &str) -> Vec<u8> {
    [meta::INPUT, input.as_bytes()].concat()
}
