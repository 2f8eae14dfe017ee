//! URLs read in step with rows that are in their order.

use super::open::RocksStore;
use super::rocks_error::{damaged, failed};
use super::schema::{self, cf};
use crate::document::Fingerprint;
use crate::ports::StoreError;
use rocksdb::{DB, DBRawIteratorWithThreadMode};

/// A reader of URLs for fingerprints that ascend. A step to the next row takes a fraction of a look-up.
pub(super) struct UrlCursor<'a> {
    store: &'a RocksStore,
    /// Opened by the first look-up, so that it knows every URL of a row that was read before.
    rows: Option<DBRawIteratorWithThreadMode<'a, DB>>,
}

impl<'a> UrlCursor<'a> {
    pub fn new(store: &'a RocksStore) -> Self {
        UrlCursor { store, rows: None }
    }

    /// The URL with a fingerprint, which must not be smaller than the one before.
    ///
    /// # Errors
    /// [`StoreError`], also where the URL is missing.
    pub fn url(&mut self, fingerprint: Fingerprint) -> Result<&str, StoreError> {
        let key = schema::fingerprint_key(fingerprint);
        let opened = match self.rows.take() {
            Some(opened) => opened,
            None => self.store.db.raw_iterator_cf(self.store.cf(cf::URLS)?),
        };
        let rows = self.rows.insert(opened);
        if rows.valid() && rows.key() != Some(&key[..]) {
            rows.next();
        }
        if rows.key() != Some(&key[..]) {
            rows.seek(key);
        }
        rows.status().map_err(failed)?;
        let found = rows.item().filter(|(found, _)| *found == key);
        let (_, url) = found.ok_or_else(|| damaged("a row of urls is missing"))?;
        std::str::from_utf8(url).map_err(|_| damaged("a row of urls"))
    }
}
