//! Streams of bytes, and how their buffers are filled.

use std::io::{self, BufRead, Read};

/// A stream of bytes from anywhere.
pub(super) type Stream = Box<dyn Read + Send>;

/// Bytes that are read from a stream, or written to one, at once. `BufReader` passes on a request that is as large as its own buffer, so the
/// bytes of an uncompressed stream go straight into the buffer of the format's reader.
pub(super) const BUFFER_BYTES: usize = 128 << 10;

/// Fills a reader's buffer and returns it; empty only at the end. Retries interrupted system calls.
pub(super) fn fill<R: BufRead + ?Sized>(reader: &mut R) -> io::Result<&[u8]> {
    while let Err(error) = reader.fill_buf() {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // The second call satisfies the borrow checker; it returns the filled buffer at once.
    reader.fill_buf()
}
