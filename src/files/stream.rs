//! Streams of bytes, and how their buffers are filled.

use std::io::{self, BufRead, Read};

/// A stream of bytes from anywhere.
pub(super) type Stream = Box<dyn Read + Send>;

/// The buffer of a reader, never empty but at its end; interrupted system calls are tried again.
pub(super) fn fill<R: BufRead + ?Sized>(reader: &mut R) -> io::Result<&[u8]> {
    while let Err(error) = reader.fill_buf() {
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    // Asked twice for the borrow checker's sake: a filled buffer answers at once.
    reader.fill_buf()
}
