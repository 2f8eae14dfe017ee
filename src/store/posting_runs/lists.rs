//! The lists of several runs, joined, in the order of the shingles.
//!
//! Each run is read some blocks ahead, and all lists that come before anything unread are sorted at once. The standard library's sort
//! finds what is in order already, and merges it without a branch for each list. Comparing the runs list by list is slower, because a
//! processor cannot guess which of them has the next one.

use super::block::{next_documents, next_shingle};
use super::cursor::{block_at, damaged_in};
use super::key::block_key;
use crate::document::DocumentId;
use crate::ports::StoreError;
use crate::sketch::Shingle;
use crate::store::schema::{self, PostingKind};
use rocksdb::{DB, DBRawIteratorWithThreadMode};

/// Bytes of blocks that are read of a run at once, at most. With its lists, what is read of fifteen runs is less than a mebibyte.
const READ_BYTES_MAX: usize = 8 << 10;

/// A list that was read.
#[derive(Clone, Copy)]
struct ReadList {
    shingle: Shingle,
    /// The number of its source.
    source: u32,
    /// Where its documents are in the blocks of the source.
    at: u32,
}

/// A run, and what was read of it.
pub(super) struct Source<'d> {
    /// Its number among the sources.
    number: u32,
    rows: DBRawIteratorWithThreadMode<'d, DB>,
    kind: PostingKind,
    run: u32,
    /// Bytes of a shingle in a key.
    width: usize,
    /// The blocks that were last read.
    blocks: Vec<u8>,
    /// Their lists.
    lists: Vec<ReadList>,
    /// How many of the lists were sorted, or come before what was sought.
    n_done: usize,
    /// Whether `rows` stands at the block that was read last.
    is_read: bool,
    /// Whether nothing is left to read.
    is_at_end: bool,
}

impl<'d> Source<'d> {
    /// A run of which nothing was read.
    pub fn new(rows: DBRawIteratorWithThreadMode<'d, DB>, kind: PostingKind, run: u32, width: usize) -> Self {
        let (blocks, lists) = (Vec::new(), Vec::new());
        Source { number: 0, rows, kind, run, width, blocks, lists, n_done: 0, is_read: false, is_at_end: false }
    }

    /// Goes before the list of a shingle, or of the first behind it.
    fn seek(&mut self, shingle: Shingle) -> Result<(), StoreError> {
        self.rows.seek(block_key(self.run, shingle, self.width));
        (self.is_read, self.is_at_end) = (false, false);
        self.read(0)?;
        self.n_done = self.lists.partition_point(|list| list.shingle < shingle);
        Ok(())
    }

    /// Reads blocks: one, and more until they have so many bytes.
    fn read(&mut self, n_bytes: usize) -> Result<(), StoreError> {
        self.blocks.clear();
        self.lists.clear();
        self.n_done = 0;
        while !self.is_at_end && (self.lists.is_empty() || self.blocks.len() < n_bytes) {
            self.read_block()?;
        }
        Ok(())
    }

    fn read_block(&mut self) -> Result<(), StoreError> {
        if std::mem::replace(&mut self.is_read, true) {
            self.rows.next();
        }
        let Some((last, block)) = block_at(&self.rows, self.run, self.kind, self.width)? else {
            self.is_at_end = true;
            return Ok(());
        };
        let from = self.blocks.len();
        self.blocks.extend_from_slice(block);
        let (mut rest, mut before) = (&self.blocks[from..], None);
        while !rest.is_empty() {
            before = next_shingle(&mut rest, before).filter(|shingle| *shingle <= last);
            let at = (self.blocks.len() - rest.len()) as u32;
            let (shingle, _) =
                before.zip(next_documents(&mut rest)).ok_or_else(|| damaged_in(self.run, self.kind, "a block"))?;
            self.lists.push(ReadList { shingle, source: self.number, at });
        }
        Ok(())
    }

    /// The last shingle that was read, if there may be others behind it.
    fn last_read(&self) -> Option<Shingle> {
        self.lists.last().filter(|_| !self.is_at_end).map(|list| list.shingle)
    }

    /// The packed documents at a place in the blocks.
    #[inline]
    fn documents(&self, at: u32) -> Result<&[u8], StoreError> {
        let documents = self.blocks.get(at as usize..).and_then(|mut rest| next_documents(&mut rest));
        documents.ok_or_else(|| damaged_in(self.run, self.kind, "a block"))
    }
}

/// The lists of several runs, joined.
pub(in crate::store) struct Lists<'d> {
    sources: Vec<Source<'d>>,
    /// The lists that come before all that is unread, in order, and how many of them were returned.
    sorted: Vec<ReadList>,
    n_returned: usize,
    /// How much is read of a run the next time.
    read_bytes: usize,
    joined: Vec<u8>,
    documents: Vec<DocumentId>,
}

impl<'d> Lists<'d> {
    /// The lists of these runs. [`seek`](Self::seek) comes first.
    pub(super) fn new(mut sources: Vec<Source<'d>>) -> Self {
        (0..).zip(&mut sources).for_each(|(number, source)| source.number = number);
        let (sorted, joined, documents) = (Vec::new(), Vec::new(), Vec::new());
        Lists { sources, sorted, n_returned: 0, read_bytes: 0, joined, documents }
    }

    /// Goes before the list of a shingle, or of the first behind it.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn seek(&mut self, shingle: Shingle) -> Result<(), StoreError> {
        (self.n_returned, self.read_bytes) = (0, 1);
        self.sorted.clear();
        self.sources.iter_mut().try_for_each(|source| source.seek(shingle))
    }

    /// The next shingle, and its documents as [`schema::put_documents`] packs them.
    ///
    /// # Errors
    /// [`StoreError`]
    #[inline]
    pub fn next(&mut self) -> Result<Option<(Shingle, &[u8])>, StoreError> {
        if self.n_returned == self.sorted.len() {
            self.sort_more()?;
        }
        let Some(first) = self.sorted.get(self.n_returned).copied() else { return Ok(None) };
        self.n_returned += 1;
        let documents = match self.sorted.get(self.n_returned) {
            Some(next) if next.shingle == first.shingle => self.join(first.shingle)?,
            _ => self.sources[first.source as usize].documents(first.at)?,
        };
        Ok(Some((first.shingle, documents)))
    }

    /// Joins the list that was just returned with those behind it that are of the same shingle.
    fn join(&mut self, shingle: Shingle) -> Result<&[u8], StoreError> {
        let lists = &self.sorted[self.n_returned - 1..];
        let n_same = lists.iter().take_while(|list| list.shingle == shingle).count();
        self.n_returned += n_same - 1;
        self.documents.clear();
        for list in &lists[..n_same] {
            let source = &self.sources[list.source as usize];
            let read = schema::read_documents(source.documents(list.at)?, &mut self.documents);
            read.ok_or_else(|| damaged_in(source.run, source.kind, "a list"))?;
        }
        self.documents.sort_unstable();
        self.documents.dedup();
        self.joined.clear();
        schema::put_documents(&mut self.joined, &self.documents);
        Ok(&self.joined)
    }

    /// Reads on, and sorts what then comes before all that is unread.
    fn sort_more(&mut self) -> Result<(), StoreError> {
        self.sorted.clear();
        self.n_returned = 0;
        for source in self.sources.iter_mut().filter(|source| source.n_done == source.lists.len()) {
            source.read(self.read_bytes)?;
        }
        // Who seeks may want a few lists only.
        self.read_bytes = (2 * self.read_bytes).min(READ_BYTES_MAX);
        let last = self.sources.iter().filter_map(Source::last_read).min().unwrap_or(Shingle::MAX);
        for source in &mut self.sources {
            let unsorted = &source.lists[source.n_done..];
            let n = unsorted.partition_point(|list| list.shingle <= last);
            self.sorted.extend_from_slice(&unsorted[..n]);
            source.n_done += n;
        }
        self.sorted.sort_by_key(|list| list.shingle);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::bloom::spread;
    use crate::store::column_options::run_options;
    use crate::store::runs::tests::open;
    use rocksdb::{WriteBatch, WriteOptions};
    use std::collections::BTreeMap;

    const KIND: PostingKind = PostingKind::Index;

    fn taken(lists: &mut Lists<'_>, n: usize) -> Vec<(Shingle, Vec<DocumentId>)> {
        let mut taken = Vec::new();
        while taken.len() < n
            && let Some((shingle, packed)) = lists.next().expect("read")
        {
            let mut documents = Vec::new();
            schema::read_documents(packed, &mut documents).expect("a list");
            taken.push((shingle, documents));
        }
        taken
    }

    /// Runs of very different density, of which some shingles have long lists, so that blocks end at different places.
    #[test]
    fn lists_of_several_runs_are_joined_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = open(folder.path(), 1);
        let (runs, options) = (&store.posting_runs, run_options(KIND.family()));
        let mut expected: BTreeMap<Shingle, Vec<DocumentId>> = BTreeMap::new();
        for run in 0..6 {
            let mut writer = runs.new_run(KIND, 10_000, folder.path(), &options).expect("begun");
            let end = if run == 5 { 7_000 } else { 30_000 };
            for shingle in (0..end).filter(|shingle| spread(shingle << 8 | run).is_multiple_of(7 * run * run + 2)) {
                let n = if shingle % 100 == 0 { 700 } else { 1 + shingle % 3 };
                let documents = (0..n).map(|n| DocumentId((1000 * run + n) as u32));
                let documents: Vec<DocumentId> = documents.collect();
                writer.put(shingle, &documents).expect("written");
                expected.entry(shingle).or_default().extend(documents);
            }
            let new = runs.ingest(KIND, writer.finish().expect("written")).expect("taken in");
            runs.add(vec![new], WriteBatch::default(), &WriteOptions::default()).expect("noted");
        }
        let expected: Vec<(Shingle, Vec<DocumentId>)> = expected.into_iter().collect();
        assert!(expected.len() > 15_000 && expected.iter().any(|(_, documents)| documents.len() == 1400));
        assert!(taken(&mut runs.all(KIND).expect("read"), usize::MAX) == expected);
        let mut lists = runs.lists(KIND).expect("read");
        for (from, n) in [(29_000, 5000), (0, 1), (0, 900), (6_999, 3), (7_000, 3000), (30_000, 1), (12_345, 2)] {
            lists.seek(from).expect("read");
            let first = expected.partition_point(|(shingle, _)| *shingle < from);
            assert!(taken(&mut lists, n) == expected[first..(first + n).min(expected.len())], "{n} from {from}");
        }
        for at in (0..30_000).step_by(97) {
            let found = runs.look_up(KIND, &[at, at + 1]).expect("read");
            let listed = |shingle| expected.binary_search_by_key(&shingle, |(other, _)| *other);
            let listed = [at, at + 1].map(|shingle| listed(shingle).map_or(vec![], |at| expected[at].1.clone()));
            assert!(found == listed, "{at}");
        }
    }
}
