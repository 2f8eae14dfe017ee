//! Reads runs in the order of the shingles: one, or several joined.

use super::block::next_list;
use super::key::{block_key, is_block};
use crate::document::DocumentId;
use crate::ports::StoreError;
use crate::sketch::Shingle;
use crate::store::rocks_error::{damaged, failed};
use crate::store::schema::{self, Fields, PostingKind};
use rocksdb::{DB, DBRawIteratorWithThreadMode};
use std::ops::Range;

/// Stands at a list of a run.
pub(super) struct Cursor<'d> {
    rows: DBRawIteratorWithThreadMode<'d, DB>,
    kind: PostingKind,
    run: u32,
    /// Bytes of a shingle in a key.
    width: usize,
    /// The current block, and where the next list begins in it.
    block: Vec<u8>,
    next: usize,
    /// The last shingle that the block may have.
    last: Shingle,
    /// The current shingle, and where its documents are in the block; none at the end of the run.
    current: Option<(Shingle, Range<usize>)>,
}

impl<'d> Cursor<'d> {
    /// A cursor over a run that stands nowhere yet.
    pub fn new(rows: DBRawIteratorWithThreadMode<'d, DB>, kind: PostingKind, run: u32, width: usize) -> Self {
        Cursor { rows, kind, run, width, block: Vec::new(), next: 0, last: 0, current: None }
    }

    /// Goes to another run. It then stands nowhere.
    pub fn set_run(&mut self, run: u32) {
        (self.run, self.current) = (run, None);
        self.block.clear();
    }

    /// The shingle it stands at.
    pub fn shingle(&self) -> Option<Shingle> {
        self.current.as_ref().map(|(shingle, _)| *shingle)
    }

    /// The packed documents of that shingle.
    pub fn documents(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(_, documents)| &self.block[documents.clone()])
    }

    /// Goes to the list of a shingle, or of the first behind it.
    pub fn seek(&mut self, shingle: Shingle) -> Result<(), StoreError> {
        self.rows.seek(block_key(self.run, shingle, self.width));
        self.take_block()?;
        while self.shingle().is_some_and(|current| current < shingle) {
            self.advance()?;
        }
        Ok(())
    }

    /// Goes to the next list.
    pub fn advance(&mut self) -> Result<(), StoreError> {
        if self.next < self.block.len() {
            return self.take_list();
        }
        self.rows.next();
        self.take_block()
    }

    /// Reads the block that the row is, and goes to its first list.
    fn take_block(&mut self) -> Result<(), StoreError> {
        self.block.clear();
        (self.next, self.current) = (0, None);
        match self.rows.item() {
            Some((key, _)) if !is_block(key, self.width) => Ok(()),
            Some((key, block)) => {
                let mut key = Fields(key);
                let (run, last) = key.u32().zip(key.shingle(self.width)).ok_or_else(|| self.damaged("a key"))?;
                if run != self.run {
                    return Ok(());
                }
                self.last = last;
                self.block.extend_from_slice(block);
                self.take_list()
            }
            None => self.rows.status().map_err(failed),
        }
    }

    fn take_list(&mut self) -> Result<(), StoreError> {
        let (mut rest, before) = (&self.block[self.next..], self.shingle());
        let next = next_list(&mut rest, before).filter(|(shingle, _)| *shingle <= self.last);
        let next = next.map(|(shingle, documents)| (shingle, documents.len(), self.block.len() - rest.len()));
        self.current = None;
        let (shingle, n_bytes, end) = next.ok_or_else(|| self.damaged("a block"))?;
        self.current = Some((shingle, end - n_bytes..end));
        self.next = end;
        Ok(())
    }

    fn damaged(&self, what: &str) -> StoreError {
        damaged(format!("{what} of run {} of {}", self.run, self.kind.family()))
    }
}

/// The lists of several runs, joined, in the order of the shingles.
pub(in crate::store) struct Lists<'d> {
    /// Those that are not at the end of their run come first.
    cursors: Vec<Cursor<'d>>,
    /// The shingles that those stand at.
    shingles: Vec<Shingle>,
    /// The shingle last returned.
    last: Option<Shingle>,
    joined: Vec<u8>,
    documents: Vec<DocumentId>,
}

impl<'d> Lists<'d> {
    /// The lists of these runs, which stand nowhere yet.
    pub(super) fn new(cursors: Vec<Cursor<'d>>) -> Self {
        Lists { cursors, shingles: Vec::new(), last: None, joined: Vec::new(), documents: Vec::new() }
    }

    /// Goes before the list of a shingle, or of the first behind it.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn seek(&mut self, shingle: Shingle) -> Result<(), StoreError> {
        self.last = None;
        self.cursors.iter_mut().try_for_each(|cursor| cursor.seek(shingle))?;
        self.cursors.sort_by_key(|cursor| cursor.shingle().is_none());
        self.shingles = self.cursors.iter().map_while(Cursor::shingle).collect();
        Ok(())
    }

    /// The next shingle, and its documents as [`schema::put_documents`] packs them.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn next(&mut self) -> Result<Option<(Shingle, &[u8])>, StoreError> {
        if let Some(last) = self.last.take() {
            self.leave(last)?;
        }
        let Some(shingle) = self.shingles.iter().copied().reduce(Shingle::min) else { return Ok(None) };
        self.last = Some(shingle);
        let is_holding = |(at, other): (usize, &Shingle)| (*other == shingle).then_some(at);
        let mut holding = self.shingles.iter().enumerate().filter_map(is_holding);
        let Some(first) = holding.next() else { return Ok(None) };
        let Some(second) = holding.next() else { return Ok(Some((shingle, self.cursors[first].documents()))) };
        self.documents.clear();
        for at in [first, second].into_iter().chain(holding) {
            let cursor = &self.cursors[at];
            let read = schema::read_documents(cursor.documents(), &mut self.documents);
            read.ok_or_else(|| cursor.damaged("a list"))?;
        }
        self.documents.sort_unstable();
        self.documents.dedup();
        self.joined.clear();
        schema::put_documents(&mut self.joined, &self.documents);
        Ok(Some((shingle, &self.joined)))
    }

    /// Goes behind the list of a shingle in all runs that have it.
    fn leave(&mut self, shingle: Shingle) -> Result<(), StoreError> {
        let mut at = 0;
        while at < self.shingles.len() {
            if self.shingles[at] == shingle {
                self.cursors[at].advance()?;
                match self.cursors[at].shingle() {
                    Some(next) => self.shingles[at] = next,
                    None => {
                        self.shingles.swap_remove(at);
                        self.cursors.swap(at, self.shingles.len());
                        continue;
                    }
                }
            }
            at += 1;
        }
        Ok(())
    }
}
