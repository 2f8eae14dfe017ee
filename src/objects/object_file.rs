//! An object as a file: read from any place, in blocks, the next ones ahead of time.

use super::connections::received;
use super::object::Object;
use bytes::Bytes;
use std::collections::VecDeque;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that a request asks for.
const BLOCK_BYTES: u64 = 4 << 20;
/// Blocks that are requested before they are wanted, once blocks are read one after the other.
const N_AHEAD: u64 = 3;
/// Blocks that are kept: Parquet goes back and forth between its columns. With those ahead, up to 64 MiB a file.
const N_KEPT: usize = 13;

/// An object, read as a file is. Clones share what has been read, each with its own place.
#[derive(Clone, Debug)]
pub struct ObjectFile {
    object: Object,
    blocks: Arc<Mutex<Blocks>>,
    position: u64,
}

/// The blocks at hand, the latest used last.
#[derive(Debug, Default)]
struct Blocks {
    held: VecDeque<(u64, Block)>,
    /// The one that was read last.
    last: Option<u64>,
}

#[derive(Debug)]
enum Block {
    Here(Bytes),
    Coming(Receiver<io::Result<Bytes>>),
}

impl ObjectFile {
    /// An object, at its beginning.
    pub fn new(object: Object) -> Self {
        ObjectFile { object, blocks: Arc::default(), position: 0 }
    }

    /// Its size.
    pub fn n_bytes(&self) -> u64 {
        self.object.n_bytes()
    }

    /// The same file, at another place.
    #[must_use]
    pub fn at(&self, position: u64) -> Self {
        ObjectFile { position, ..self.clone() }
    }

    /// The bytes from a place to the end of their block; empty at the end of the object.
    fn rest_of_block(&self, position: u64) -> io::Result<Bytes> {
        if position >= self.n_bytes() {
            return Ok(Bytes::new());
        }
        let number = position / BLOCK_BYTES;
        let block = self.blocks.lock().unwrap_or_else(PoisonError::into_inner).get(&self.object, number)?;
        let from = (position - number * BLOCK_BYTES) as usize;
        if from >= block.len() {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the store sent less than it said"));
        }
        Ok(block.slice(from..))
    }
}

impl Blocks {
    fn get(&mut self, object: &Object, number: u64) -> io::Result<Bytes> {
        let held = self.held.iter().position(|(held, _)| *held == number).and_then(|at| self.held.remove(at));
        let bytes = match held {
            Some((_, Block::Here(bytes))) => bytes,
            Some((_, Block::Coming(coming))) => received(&coming)?,
            None => received(&begin(object, number)?)?,
        };
        self.held.push_back((number, Block::Here(bytes.clone())));
        if self.last.is_some_and(|last| last + 1 == number) {
            let n_blocks = object.n_bytes().div_ceil(BLOCK_BYTES);
            for next in (number + 1..n_blocks).take(N_AHEAD as usize) {
                if !self.held.iter().any(|(held, _)| *held == next) {
                    self.held.push_back((next, Block::Coming(begin(object, next)?)));
                }
            }
        }
        self.last = Some(number);
        let n_over = self.held.len().saturating_sub(N_KEPT + N_AHEAD as usize);
        self.held.drain(..n_over);
        Ok(bytes)
    }
}

fn begin(object: &Object, number: u64) -> io::Result<Receiver<io::Result<Bytes>>> {
    let from = number * BLOCK_BYTES;
    object.begin_read(from..(from + BLOCK_BYTES).min(object.n_bytes()))
}

impl Read for ObjectFile {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        let bytes = self.rest_of_block(self.position)?;
        let n = bytes.len().min(out.len());
        out[..n].copy_from_slice(&bytes[..n]);
        self.position += n as u64;
        Ok(n)
    }
}

impl Seek for ObjectFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.n_bytes().checked_add_signed(by),
        };
        self.position = position.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt};
    use proptest::prelude::*;

    fn wait<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
    }

    fn put(store: &Arc<InMemory>, bytes: &[u8]) -> ObjectFile {
        let key = Path::from("a");
        wait(store.put(&key, bytes.to_vec().into())).expect("stored");
        let meta = wait(store.head(&key)).expect("there");
        ObjectFile::new(Object::of(Arc::clone(store) as Arc<dyn ObjectStore>, meta))
    }

    fn bytes(n: usize) -> Vec<u8> {
        (0..n as u64).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    #[test]
    fn an_object_reads_as_a_file() {
        for n in [0, 1, BLOCK_BYTES as usize, 3 * BLOCK_BYTES as usize + 7] {
            let bytes = bytes(n);
            let mut read = Vec::new();
            put(&Arc::default(), &bytes).read_to_end(&mut read).expect("read");
            assert!(read == bytes, "{n} bytes");
        }
    }

    /// Half of one state and half of another would be a file that never was.
    #[test]
    fn an_object_that_changes_while_it_is_read_is_an_error() {
        let (store, before) = (Arc::default(), bytes(2 * BLOCK_BYTES as usize));
        let mut file = put(&store, &before);
        file.read_exact(&mut [0; 10]).expect("the first block");
        put(&store, &before[1..]);
        let error = file.read_to_end(&mut Vec::new()).expect_err("changed").to_string();
        assert!(error.contains("changed since it was opened"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn any_place_can_be_read(
            n in 1..40 * BLOCK_BYTES as usize,
            reads in prop::collection::vec((any::<prop::sample::Index>(), 1..3 * BLOCK_BYTES as usize), 1..40),
        ) {
            let bytes = bytes(n);
            let mut file = put(&Arc::default(), &bytes);
            for (from, n_bytes) in reads {
                let from = from.index(n);
                let expected = &bytes[from..(from + n_bytes).min(n)];
                file.seek(SeekFrom::Start(from as u64)).expect("a place");
                let mut read = Vec::new();
                (&mut file).take(n_bytes as u64).read_to_end(&mut read).expect("read");
                prop_assert!(read == expected);
                let blocks = file.blocks.lock().expect("no panic");
                prop_assert!(blocks.held.len() <= N_KEPT + N_AHEAD as usize);
            }
        }
    }
}
