//! A buffered stream for the WARC parser: it knows its position and normalises signatures.

use super::stream::{BUFFER_BYTES, Stream};
use fastwarc::stream_io::traits::WarcRead;
use std::any::Any;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How every record begins.
const SIGNATURE: &[u8; 5] = b"WARC/";

/// A stream read through a buffer. It claims to seek, because fastwarc asks for its position; it only counts from
/// its start.
pub(super) struct WarcStream {
    stream: Stream,
    buffer: Box<[u8]>,
    /// The range of the buffer not yet consumed.
    from: usize,
    to: usize,
    /// Bytes consumed so far.
    position: u64,
    /// Whether what is consumed is copied.
    is_copying: Arc<AtomicBool>,
    /// The copy, as the bytes came.
    copy: Vec<u8>,
    /// A signature before it became upper case, and its position.
    original: Option<(u64, [u8; SIGNATURE.len()])>,
}

impl WarcStream {
    pub(super) fn new(stream: Stream) -> Self {
        WarcStream {
            stream,
            buffer: vec![0; BUFFER_BYTES].into(),
            from: 0,
            to: 0,
            position: 0,
            is_copying: Arc::default(),
            copy: Vec::new(),
            original: None,
        }
    }

    /// Switches the copy of what is consumed on and off, from wherever the stream is.
    pub(super) fn copy_switch(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_copying)
    }

    /// Returns the copy and begins another one.
    pub(super) fn take_copy(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.copy)
    }

    /// Drops the copy and begins another one.
    pub(super) fn restart_copy(&mut self) {
        self.copy.clear();
    }

    /// Copies bytes that are about to be consumed.
    fn copy_next(&mut self, n_bytes: usize) {
        let begin = self.copy.len();
        self.copy.extend_from_slice(&self.buffer[self.from..self.from + n_bytes]);
        let Some((at, original)) = self.original else { return };
        for (place, byte) in (at..).zip(original) {
            let copied = place.checked_sub(self.position).and_then(|place| usize::try_from(place).ok());
            if let Some(copied) = copied.and_then(|place| self.copy.get_mut(begin + place)) {
                *copied = byte;
            }
        }
    }

    /// Whether a record or the end of the stream follows. Turns the record's signature into upper case, because
    /// fastwarc does not recognise the lower case of some writers.
    ///
    /// # Errors
    /// The stream's error.
    pub(super) fn is_before_record(&mut self) -> io::Result<bool> {
        while self.to - self.from < SIGNATURE.len() {
            if self.read_more()? == 0 {
                break;
            }
        }
        let found = &mut self.buffer[self.from..self.to.min(self.from + SIGNATURE.len())];
        let is_signature = found.eq_ignore_ascii_case(&SIGNATURE[..found.len()]);
        if is_signature && found.len() == SIGNATURE.len() && found != SIGNATURE {
            let mut original = *SIGNATURE;
            original.copy_from_slice(found);
            self.original = Some((self.position, original));
            found.make_ascii_uppercase();
        }
        Ok(is_signature)
    }

    /// Reads more into the buffer; returns 0 at the end of the stream.
    fn read_more(&mut self) -> io::Result<usize> {
        self.buffer.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        loop {
            match self.stream.read(&mut self.buffer[self.to..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => {
                    let n_bytes = read?;
                    self.to += n_bytes;
                    return Ok(n_bytes);
                }
            }
        }
    }
}

impl BufRead for WarcStream {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.from == self.to {
            self.read_more()?;
        }
        Ok(&self.buffer[self.from..self.to])
    }

    fn consume(&mut self, n_bytes: usize) {
        let n_bytes = n_bytes.min(self.to - self.from);
        if self.is_copying.load(Relaxed) {
            self.copy_next(n_bytes);
        }
        self.from += n_bytes;
        self.position += n_bytes as u64;
    }
}

impl Read for WarcStream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n_bytes = self.fill_buf()?.read(out)?;
        self.consume(n_bytes);
        Ok(n_bytes)
    }
}

impl Seek for WarcStream {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        match position {
            SeekFrom::Current(0) => Ok(self.position),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

impl WarcRead for WarcStream {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn inner_seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.seek(position)
    }

    fn inner_stream_position(&mut self) -> io::Result<u64> {
        self.stream_position()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Yields one byte at a time.
    struct OneByteReader(io::Cursor<Vec<u8>>);

    impl Read for OneByteReader {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = out.len().min(1);
            self.0.read(&mut out[..n])
        }
    }

    #[test]
    fn signatures_are_found_across_buffer_ends() {
        for (bytes, is_before, then) in [
            (&b"warc/1.0"[..], true, &b"WARC/1.0"[..]),
            (b"Warc/1.0 warc/", true, b"WARC/1.0 warc/"),
            (b"WARC/1.0", true, b"WARC/1.0"),
            (b"war", true, b"war"),
            (b"", true, b""),
            (b"warp/1.0", false, b"warp/1.0"),
            (b"HTTP", false, b"HTTP"),
        ] {
            let mut stream = WarcStream::new(Box::new(OneByteReader(io::Cursor::new([b"ab", bytes].concat()))));
            stream.read_exact(&mut [0; 2]).expect("memory");
            assert_eq!(stream.is_before_record().expect("memory"), is_before);
            assert_eq!(stream.stream_position().expect("a place"), 2);
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).expect("memory");
            assert_eq!(rest, then);
        }
    }
}
