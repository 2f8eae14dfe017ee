//! Gzip of many members as one stream that tells where its members begin.

use super::stream::fill;
use flate2::bufread::GzDecoder;
use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::sync::{Arc, Mutex, PoisonError};

/// Where members begin: packed and unpacked positions, in order.
#[derive(Clone, Default)]
pub(super) struct GzipMembers(Arc<Mutex<VecDeque<(u64, u64)>>>);

impl GzipMembers {
    fn push(&self, packed: u64, unpacked: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back((packed, unpacked));
    }

    /// The last member that begins at an unpacked position or before it. Forgets those before: positions only grow.
    pub(super) fn before(&self, position: u64) -> Option<(u64, u64)> {
        let mut members = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while members.get(1).is_some_and(|(_, unpacked)| *unpacked <= position) {
            members.pop_front();
        }
        members.front().copied().filter(|(_, unpacked)| *unpacked <= position)
    }
}

/// The unpacked stream. Reading a truncated or damaged one fails.
pub(super) struct GzipReader<R> {
    /// `None` behind the last member.
    decoder: Option<GzDecoder<CountingReader<R>>>,
    members: GzipMembers,
    n_unpacked: u64,
}

impl<R: BufRead> GzipReader<R> {
    pub(super) fn new(packed: R) -> Self {
        let members = GzipMembers::default();
        members.push(0, 0);
        let decoder = GzDecoder::new(CountingReader { inner: packed, n_bytes: 0 });
        GzipReader { decoder: Some(decoder), members, n_unpacked: 0 }
    }

    /// Where the members begin, as far as the stream was read.
    pub(super) fn members(&self) -> GzipMembers {
        self.members.clone()
    }
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if out.is_empty() {
            return Ok(0);
        }
        while let Some(decoder) = &mut self.decoder {
            let n = decoder.read(out)?;
            if n > 0 {
                self.n_unpacked += n as u64;
                return Ok(n);
            }
            let Some(mut packed) = self.decoder.take().map(GzDecoder::into_inner) else { break };
            if !is_over(&mut packed)? {
                self.members.push(packed.n_bytes, self.n_unpacked);
                self.decoder = Some(GzDecoder::new(packed));
            }
        }
        Ok(0)
    }
}

/// Whether no member follows: the stream ends, or zeros pad it to its end.
fn is_over<R: BufRead>(packed: &mut CountingReader<R>) -> io::Result<bool> {
    if fill(packed)?.first() != Some(&0) {
        return Ok(fill(packed)?.is_empty());
    }
    loop {
        let buffer = fill(packed)?;
        let (n_zeros, n) = (buffer.iter().take_while(|byte| **byte == 0).count(), buffer.len());
        packed.consume(n_zeros);
        if n == 0 || n_zeros < n {
            return Ok(n == 0);
        }
    }
}

/// Counts the bytes that were consumed.
struct CountingReader<R> {
    inner: R,
    n_bytes: u64,
}

impl<R: BufRead> Read for CountingReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(out)?;
        self.n_bytes += n as u64;
        Ok(n)
    }
}

impl<R: BufRead> BufRead for CountingReader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, n: usize) {
        self.inner.consume(n);
        self.n_bytes += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::compression::tests::gzip;

    /// Lost once: the end of a file, after which archives on blocks are padded with zeros.
    #[test]
    fn zeros_behind_the_last_member_are_no_member() {
        let read = |packed: &[u8]| {
            let mut unpacked = Vec::new();
            GzipReader::new(packed).read_to_end(&mut unpacked).map(|_| unpacked)
        };
        let padded = |n: usize, behind: &[u8]| [&gzip(b"one"), &vec![0; n][..], behind].concat();
        assert_eq!(read(&padded(512, b"")).expect("gzip"), b"one");
        assert_eq!(read(&padded(512, &gzip(b"two"))).expect("gzip"), b"onetwo");
        assert!(read(&padded(512, b"two")).is_err());
    }

    #[test]
    fn members_are_where_they_begin() {
        let texts = [&b"one"[..], b"", b"three and more", b"four"];
        let packed: Vec<Vec<u8>> = texts.iter().map(|text| gzip(text)).collect();
        let all = packed.concat();
        let mut reader = GzipReader::new(&all[..]);
        let members = reader.members();
        let mut unpacked = Vec::new();
        reader.read_to_end(&mut unpacked).expect("gzip");
        assert_eq!(unpacked, texts.concat());
        let (mut at_packed, mut at) = (0, 0);
        for (text, member) in texts.iter().zip(&packed) {
            if !text.is_empty() {
                assert_eq!(members.before(at), Some((at_packed, at)));
                assert_eq!(members.before(at + 1), Some((at_packed, at)));
            }
            at += text.len() as u64;
            at_packed += member.len() as u64;
        }
    }
}
