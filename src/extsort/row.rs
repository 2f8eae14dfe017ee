//! What a row type must provide to be written, read, sorted and merged.

/// A row of a run file.
pub trait Row: Sized {
    /// Bytes of rows that fill a block, which is decoded at once. A reader that begins at a row reads the block that holds it
    /// from its start.
    const BLOCK_BYTES: usize = 128 << 10;

    /// Appends the row's bytes. `previous` is the row before it in its block: a row may be written as its difference.
    fn encode(&self, previous: Option<&Self>, out: &mut Vec<u8>);

    /// Decodes what [`Row::encode`] appended with the same `previous`. `None` where the bytes hold no row.
    fn decode(previous: Option<&Self>, bytes: &mut &[u8]) -> Option<Self>;
}

/// A row with an order.
pub trait SortedRow: Row + Ord + Clone + Send {
    /// Combines the row with the `next` one in order, if both are one row to their reader. Returns whether it did.
    fn absorb(&mut self, _next: &Self) -> bool {
        false
    }

    /// Bytes of memory that the row holds beside its own size.
    fn n_heap_bytes(&self) -> usize {
        0
    }
}
