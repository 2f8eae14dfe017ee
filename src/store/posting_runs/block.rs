//! Blocks: the lists of some hundred shingles, packed.
//!
//! For each list, in the order of the shingles: how far its shingle is from the one before it, the first from 0 (varint); how
//! many bytes its documents take (varint); the documents, as in [`schema::put_documents`].

use crate::codec::{decode_varint, encode_varint};
use crate::document::DocumentId;
use crate::sketch::Shingle;
use crate::store::schema;

/// Bytes at which a block is full. A look-up reads half a block, and RocksDB's own share of a block is some twenty bytes.
const BLOCK_BYTES: usize = 1000;

/// Packs lists into a block.
#[derive(Default)]
pub(in crate::store) struct BlockWriter {
    bytes: Vec<u8>,
    last: Shingle,
    documents: Vec<u8>,
}

impl BlockWriter {
    /// Adds a list. Shingles and documents must ascend.
    pub fn put(&mut self, shingle: Shingle, documents: &[DocumentId]) {
        let mut packed = std::mem::take(&mut self.documents);
        packed.clear();
        schema::put_documents(&mut packed, documents);
        self.put_packed(shingle, &packed);
        self.documents = packed;
    }

    /// Adds a list whose documents are packed already.
    pub fn put_packed(&mut self, shingle: Shingle, documents: &[u8]) {
        encode_varint(shingle - self.last, &mut self.bytes);
        encode_varint(documents.len() as u64, &mut self.bytes);
        self.bytes.extend_from_slice(documents);
        self.last = shingle;
    }

    /// Whether no more should be added.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK_BYTES
    }

    /// The last shingle and the block; none where there is nothing in it. What is added next begins another one.
    pub fn take(&mut self) -> Option<(Shingle, Vec<u8>)> {
        let bytes = std::mem::replace(&mut self.bytes, Vec::with_capacity(BLOCK_BYTES + BLOCK_BYTES / 8));
        let last = std::mem::take(&mut self.last);
        (!bytes.is_empty()).then_some((last, bytes))
    }
}

/// The lists of a block, in order, each with its shingle; none and the end where the block is malformed.
pub(in crate::store) fn lists_of(block: &[u8]) -> impl Iterator<Item = Option<(Shingle, &[u8])>> {
    let (mut rest, mut before) = (block, None);
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let next = next_list(&mut rest, before);
        match next {
            Some((shingle, _)) => before = Some(shingle),
            None => rest = &[],
        }
        Some(next)
    })
}

/// Whether packed documents are more than so many.
pub(super) fn is_long(documents: &[u8], short_max: u64) -> bool {
    // A document takes a byte at least, and its last one has no upper bit.
    documents.len() as u64 > short_max && documents.iter().filter(|byte| **byte < 0x80).count() as u64 > short_max
}

/// Takes the next list off a block, behind that of the shingle `before`; none where the block is malformed.
fn next_list<'b>(rest: &mut &'b [u8], before: Option<Shingle>) -> Option<(Shingle, &'b [u8])> {
    Some((next_shingle(rest, before)?, next_documents(rest)?))
}

/// Takes the next shingle off a block, behind `before`. What follows are its documents.
#[inline]
pub(super) fn next_shingle(rest: &mut &[u8], before: Option<Shingle>) -> Option<Shingle> {
    let distance = decode_varint(rest)?;
    match before {
        None => Some(distance),
        Some(before) => before.checked_add(distance).filter(|shingle| *shingle > before),
    }
}

/// Takes the packed documents of a shingle off a block.
#[inline]
pub(super) fn next_documents<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let n_bytes = usize::try_from(decode_varint(rest)?).ok()?;
    let (documents, after) = rest.split_at_checked(n_bytes)?;
    *rest = after;
    Some(documents)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    fn unpacked(block: &[u8]) -> Option<BTreeMap<Shingle, Vec<u32>>> {
        let unpack = |list: Option<(Shingle, &[u8])>| {
            let (shingle, list) = list?;
            let mut documents = Vec::new();
            schema::read_documents(list, &mut documents)?;
            Some((shingle, documents.into_iter().map(|document| document.0).collect()))
        };
        lists_of(block).map(unpack).collect()
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(lists: BTreeMap<Shingle, BTreeSet<u32>>) {
            let (mut writer, mut blocks) = (BlockWriter::default(), Vec::new());
            for (shingle, documents) in &lists {
                let documents: Vec<DocumentId> = documents.iter().copied().map(DocumentId).collect();
                writer.put(*shingle, &documents);
                if writer.is_full() {
                    blocks.extend(writer.take());
                }
            }
            blocks.extend(writer.take());
            let mut all = BTreeMap::new();
            for (last, block) in &blocks {
                let mut of_block = unpacked(block).expect("well formed");
                prop_assert_eq!(of_block.last_key_value().map(|(shingle, _)| shingle), Some(last));
                all.append(&mut of_block);
            }
            let expected: BTreeMap<Shingle, Vec<u32>> =
                lists.into_iter().map(|(shingle, documents)| (shingle, documents.into_iter().collect())).collect();
            prop_assert_eq!(all, expected);
            prop_assert!(writer.take().is_none());
        }

        #[test]
        fn any_bytes_are_lists_or_malformed(block: Vec<u8>) {
            let lists: Vec<_> = lists_of(&block).collect();
            prop_assert!(lists.iter().rev().skip(1).all(Option::is_some), "the first malformed list is the last");
        }
    }
}
