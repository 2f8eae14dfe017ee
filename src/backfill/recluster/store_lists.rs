//! The lists of a store that pair documents, copied into files that threads read side by side.

use crate::backfill::context::Context;
use crate::backfill::datasets::{Dataset, DatasetFile, DatasetWriter, LISTS, NEIGHBOUR_PAIRS, SUPER_LISTS};
use crate::backfill::error::BackfillError;
use crate::backfill::phases::lists::neighbours;
use crate::backfill::phases::pair_formation::Lists;
use crate::backfill::phases::posting_lists::PostingFiles;
use crate::backfill::rows::{Pair, Posting};
use crate::document::{ClusterId, DocumentId};
use crate::extsort::RunFile;
use crate::ports::{LinkView, Snapshot};
use crate::sketch::Shingle;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Rows in a file of lists, about. One thread reads a file, so that one file would keep one thread busy.
const FILE_ROWS: u64 = 4 << 20;

/// Documents that may be linked with those of the same part alone, such as what is left of a cluster.
pub(super) type Parts = HashMap<DocumentId, ClusterId>;

/// The lists of a store.
pub(super) struct StoreLists {
    /// Pairs of neighbours, sorted. Empty where they are not wanted.
    pub neighbours: Vec<Arc<RunFile<Pair>>>,
    /// All lists.
    pub lists: Lists,
}

impl StoreLists {
    /// Copies the lists of a store, and writes the pairs of neighbours in them where these are wanted. A list is divided
    /// among the parts, if there are any.
    pub fn copy<S: Snapshot + LinkView>(
        store: &S,
        context: &Context,
        with_neighbours: bool,
        parts: Option<&Parts>,
    ) -> Result<Self, BackfillError> {
        let mut index = ListWriter::new(context, LISTS);
        let mut supers = ListWriter::new(context, SUPER_LISTS);
        let mut pairs = NEIGHBOUR_PAIRS.sorter(&context.folder, "store", context.sorter_bytes());
        let mut failed = None;
        let mut copy_list = |documents: &[DocumentId], is_super: bool| {
            let mut copy = || {
                context.check_stop()?;
                if documents.len() < 2 {
                    return Ok(());
                }
                if with_neighbours {
                    neighbours(documents, is_super).try_for_each(|pair| pairs.push(pair))?;
                }
                if is_super { supers.push(documents) } else { index.push(documents) }
            };
            // The first error must not be overwritten by a later success.
            if failed.is_none() {
                failed = copy().err();
            }
            failed.is_none()
        };
        let mut copy = |documents: &[DocumentId], is_super| match parts {
            None => copy_list(documents, is_super),
            Some(parts) => divided(documents, parts).iter().all(|documents| copy_list(documents, is_super)),
        };
        store.each_list(&mut copy)?;
        // A link nominates its two documents, as a super shingle would.
        store.each_link(&mut |link| copy(&[link.document.min(link.to), link.document.max(link.to)], true))?;
        failed.map_or(Ok(()), Err)?;
        let pairs = pairs.finish()?;
        let neighbours =
            pairs.iter().map(|file| NEIGHBOUR_PAIRS.open(&context.folder, &file.file)).collect::<Result<_, _>>()?;
        let limit = store.rule().cluster.common_limit;
        Ok(StoreLists { neighbours, lists: Lists::new(index.finish()?, supers.finish()?, limit) })
    }
}

/// The documents of each part.
fn divided(documents: &[DocumentId], parts: &Parts) -> Vec<Vec<DocumentId>> {
    let mut divided: BTreeMap<ClusterId, Vec<DocumentId>> = BTreeMap::new();
    for document in documents {
        if let Some(part) = parts.get(document) {
            divided.entry(*part).or_default().push(*document);
        }
    }
    divided.into_values().collect()
}

/// Writes lists to several files.
struct ListWriter<'a> {
    context: &'a Context,
    dataset: Dataset<Posting>,
    n_lists: Shingle,
    n_rows: u64,
    open: Option<DatasetWriter<Posting>>,
    files: Vec<DatasetFile>,
}

impl<'a> ListWriter<'a> {
    fn new(context: &'a Context, dataset: Dataset<Posting>) -> Self {
        ListWriter { context, dataset, n_lists: 0, n_rows: 0, open: None, files: Vec::new() }
    }

    /// Appends a list. A number stands for its shingle: pairs need only know which documents share a list.
    fn push(&mut self, documents: &[DocumentId]) -> Result<(), BackfillError> {
        let writer = match &mut self.open {
            Some(writer) => writer,
            none => none.insert(self.dataset.create(&self.context.folder, self.files.len())?),
        };
        for document in documents {
            writer.push(Posting::new(self.n_lists, *document))?;
        }
        self.n_lists += 1;
        self.n_rows += documents.len() as u64;
        if self.n_rows >= FILE_ROWS { self.close_file() } else { Ok(()) }
    }

    fn close_file(&mut self) -> Result<(), BackfillError> {
        if let Some(writer) = self.open.take() {
            self.files.push(writer.finish()?);
        }
        self.n_rows = 0;
        Ok(())
    }

    fn finish(mut self) -> Result<PostingFiles, BackfillError> {
        self.close_file()?;
        self.files.iter().map(|file| self.dataset.open(&self.context.folder, &file.file)).collect()
    }
}
