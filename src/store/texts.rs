//! The family of texts, which only stores have that keep them or once did.
//!
//! Sketchers compress each text by itself, so no serial stage spends time on it. Rows come in the order of their keys and are never
//! replaced: RocksDB writes each once and moves the files down.

use super::column_options::OptionalFamilies;
use super::open::RocksStore;
use super::rocks_error::{damaged, failed};
use super::schema::cf;
use crate::document::DocumentId;
use crate::intake::KeptText;
use crate::ports::{DocumentText, RelatedView, StoreError};
use rocksdb::WriteBatch;
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

/// The level of zstd. Level 1 makes texts a twentieth larger and saves no time that a whole run shows.
const LEVEL: i32 = 3;

thread_local! {
    /// A new one for each text would take longer than the text.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = RefCell::new(Compressor::new(LEVEL).ok());
}

/// Compresses a text for [`KeptText`], with a checksum. `None` where memory is missing.
pub fn compress_text(text: &str) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|compressor| {
        let compressor = compressor.as_mut()?;
        compressor.include_checksum(true).ok()?;
        compressor.compress(text.as_bytes()).ok()
    })
}

/// Unpacks the text of a row; `None` where it is damaged.
fn unpack(text: &KeptText) -> Option<String> {
    let bytes = Decompressor::new().ok()?.decompress(text.compressed(), text.n_bytes()).ok()?;
    String::from_utf8(bytes).ok().filter(|unpacked| unpacked.len() == text.n_bytes())
}

/// The text of a row, or its length; `None` where it is damaged.
pub(super) fn read_text_row(row: &[u8]) -> Option<DocumentText> {
    let text = KeptText::from_row(row)?;
    if text.is_there() { unpack(&text).map(DocumentText::Kept) } else { Some(DocumentText::TooLong(text.n_bytes())) }
}

impl RocksStore {
    /// Whether texts are kept, or once were.
    pub(super) fn has_texts(&self) -> bool {
        self.db.cf_handle(cf::TEXTS).is_some()
    }

    /// The families beside those of every store.
    pub(super) fn optional_families(&self) -> OptionalFamilies {
        OptionalFamilies { related: self.has_related(), redirects: self.has_redirects(), texts: self.has_texts() }
    }

    /// Adds the texts of a batch's documents to its rows.
    pub(super) fn put_texts(&self, texts: &[(DocumentId, KeptText)], rows: &mut WriteBatch) -> Result<(), StoreError> {
        if texts.is_empty() {
            return Ok(());
        }
        let family = self.cf(cf::TEXTS)?;
        for (document, text) in texts {
            rows.put_cf(family, document.0.to_be_bytes(), text.as_row());
        }
        Ok(())
    }

    /// Deletes the texts of documents.
    pub(super) fn delete_texts(&self, documents: &[DocumentId], rows: &mut WriteBatch) -> Result<(), StoreError> {
        if !self.has_texts() {
            return Ok(());
        }
        let family = self.cf(cf::TEXTS)?;
        documents.iter().for_each(|document| rows.delete_cf(family, document.0.to_be_bytes()));
        Ok(())
    }

    /// Bytes of the texts: those in tables, and those that are in the log alone.
    pub(super) fn size_of_texts(&self) -> Result<Option<u64>, StoreError> {
        let Some(family) = self.db.cf_handle(cf::TEXTS) else { return Ok(None) };
        let size = |property: &str| -> Result<u64, StoreError> {
            Ok(self.db.property_int_value_cf(family, property).map_err(failed)?.unwrap_or_default())
        };
        Ok(Some(size("rocksdb.total-sst-files-size")? + size("rocksdb.size-all-mem-tables")?))
    }

    /// The text of a document.
    pub(super) fn read_text(&self, document: DocumentId) -> Result<DocumentText, StoreError> {
        if !self.has_texts() {
            return Ok(DocumentText::NeverKept);
        }
        match self.db.get_pinned_cf(self.cf(cf::TEXTS)?, document.0.to_be_bytes()).map_err(failed)? {
            None => Ok(DocumentText::NotKept),
            Some(row) => read_text_row(&row).ok_or_else(|| damaged(format!("the text of document {document}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_and_damage_is_noticed() {
        for text in ["", "a", &"Ein Text, der länger ist. ".repeat(1000)] {
            let mut row = KeptText::new(text.len(), &compress_text(text).expect("compressed")).as_row().to_vec();
            assert_eq!(read_text_row(&row), Some(DocumentText::Kept(text.into())));
            let last = row.len() - 1;
            row[last] ^= 1;
            assert_eq!(read_text_row(&row), None, "a flipped bit");
            row.truncate(last);
            assert_eq!(read_text_row(&row), None, "a byte is missing");
        }
        assert_eq!(read_text_row(KeptText::new(7, b"").as_row()), Some(DocumentText::TooLong(7)));
    }
}
