//! What reclustering reads from a store: all posting lists, all links, all sketches.

use super::open::RocksStore;
use super::rocks_error::damaged;
use super::schema::{self, Fields, PostingKind, cf};
use crate::cluster::Link;
use crate::document::DocumentId;
use crate::ports::{LinkView, StoreError};
use crate::sketch::{Shingle, Sketch};
use std::collections::HashSet;
use std::sync::Arc;

impl LinkView for RocksStore {
    fn each_list(&self, each: &mut dyn FnMut(&[DocumentId], bool) -> bool) -> Result<(), StoreError> {
        for kind in [PostingKind::Index, PostingKind::Super] {
            let is_super = kind == PostingKind::Super;
            // Shingles that occur only in the posting buffer are in no run.
            let mut newest = self.posting_buffer()?.shingles(kind);
            let mut documents = Vec::new();
            let mut go_on = true;
            let mut lists = self.posting_runs.all(kind)?;
            while go_on && let Some((shingle, list)) = lists.next()? {
                newest.remove(&shingle);
                documents.clear();
                schema::read_documents(list, &mut documents)
                    .ok_or_else(|| damaged(format!("a list of {}", kind.family())))?;
                self.posting_buffer()?.append(kind, &[shingle], std::slice::from_mut(&mut documents));
                go_on = each(&documents, is_super);
            }
            for shingle in newest {
                documents.clear();
                self.posting_buffer()?.append(kind, &[shingle], std::slice::from_mut(&mut documents));
                go_on = go_on && each(&documents, is_super);
            }
        }
        Ok(())
    }

    fn each_link(&self, each: &mut dyn FnMut(Link) -> bool) -> Result<(), StoreError> {
        self.scan(cf::LINKS, &[], &mut |key, row| {
            let (mut key, mut row) = (Fields(key), Fields(row));
            let link = (|| {
                Some(Link { document: key.document()?, to: key.document()?, resemblance: f64::from_bits(row.u64()?) })
            })();
            Ok(each(link.ok_or_else(|| damaged("a row of links"))?))
        })
    }

    fn each_index_size(&self, each: &mut dyn FnMut(DocumentId, u32)) -> Result<(), StoreError> {
        self.scan(cf::DOCS, &[], &mut |key, row| {
            let found = Fields(key).document().zip(schema::read_index_size(row));
            let (document, n_index) = found.ok_or_else(|| damaged("a row of docs"))?;
            each(document, n_index);
            Ok(true)
        })
    }

    fn each_size(&self, each: &mut dyn FnMut(DocumentId, u32, u64)) -> Result<(), StoreError> {
        self.scan(cf::DOCS, &[], &mut |key, row| {
            let found = Fields(key).document().zip(schema::read_size(row));
            let (document, (n_words, n_bytes)) = found.ok_or_else(|| damaged("a row of docs"))?;
            each(document, n_words, n_bytes);
            Ok(true)
        })
    }

    fn common_shingles(&self) -> Result<HashSet<Shingle>, StoreError> {
        Ok(self.common()?.into_iter().collect())
    }

    fn sketches_of(&self, documents: &[DocumentId]) -> Result<Vec<Arc<Sketch>>, StoreError> {
        Ok(self.stored_documents(documents)?.into_iter().map(|document| document.sketch).collect())
    }
}
