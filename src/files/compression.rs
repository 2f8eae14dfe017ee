//! Decompression by content: gzip, zstd, xz and bzip2 are recognised whatever the file's name.

use super::gzip_members::{GzipMembers, GzipReader};
use super::stream::{BUFFER_BYTES, Stream};
use bzip2::bufread::MultiBzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream as lzma;
use std::io::{self, BufReader, Cursor, Read};
use std::sync::{Arc, Mutex, PoisonError};
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer, WriteBuf};
use zstd::stream::zio;

/// The largest zstd window that is accepted (`zstd --long=27`): 128 MiB of memory.
const WINDOW_LOG_MAX: u32 = 27;
/// The most memory that unpacking xz may take: 256 MiB. `xz -9` needs 65 MiB.
const XZ_MEMORY_MAX: u64 = 256 << 20;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
/// A frame that other readers skip: it holds the dictionary of all frames behind it, as crawlers write WARC in zstd.
const ZSTD_DICTIONARY: &[u8] = &[0x5d, 0x2a, 0x4d, 0x18];
/// The largest dictionary, packed or not. Crawlers make them of some 100 KiB.
const DICTIONARY_BYTES_MAX: u64 = 16 << 20;
const XZ: &[u8] = &[0xfd, b'7', b'z', b'X', b'Z', 0];
/// Behind `BZh` and a digit: how the first block begins, and how an empty stream ends.
const BZIP2_BLOCKS: [&[u8]; 2] = [&[0x31, 0x41, 0x59, 0x26, 0x53, 0x59], &[0x17, 0x72, 0x45, 0x38, 0x50, 0x90]];
/// The longest signature: bzip2's.
const SIGNATURE_BYTES: usize = 10;

/// Returns the stream without its compression.
///
/// Gzip with many members, zstd with many frames, xz and bzip2 with many streams are one stream. Reading a truncated or
/// damaged stream fails, and keeps failing: such a stream never just ends.
///
/// # Errors
/// The error of reading its first bytes.
pub(super) fn decompressed(raw: Stream, idle: &IdleDecoders) -> io::Result<Stream> {
    decompressed_as(raw, idle).map(|decompressed| decompressed.stream)
}

/// How a stream is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
    Xz,
    Bzip2,
}

/// A stream without its compression.
pub(super) struct Decompressed {
    pub(super) stream: Stream,
    /// What was undone.
    pub(super) compression: Compression,
    /// Where the members of gzip begin.
    pub(super) members: Option<GzipMembers>,
}

/// Does what [`decompressed`] does, and says what it undid.
///
/// # Errors
/// As [`decompressed`].
pub(super) fn decompressed_as(raw: Stream, idle: &IdleDecoders) -> io::Result<Decompressed> {
    let (head, raw) = peek(raw, SIGNATURE_BYTES)?;
    let mut raw = BufReader::with_capacity(BUFFER_BYTES, raw);
    let mut members = None;
    let (compression, stream): (_, Stream) = if head.starts_with(GZIP) {
        let reader = GzipReader::new(raw);
        members = Some(reader.members());
        (Compression::Gzip, Box::new(StickyError::new(reader)))
    } else if is_zstd(&head) {
        let decoder =
            if head.starts_with(ZSTD_DICTIONARY) { decoder_with_dictionary(&mut raw)? } else { idle.acquire()? };
        (Compression::Zstd, Box::new(StickyError::new(zio::Reader::new(raw, decoder))))
    } else if head.starts_with(XZ) {
        let decoder = lzma::Stream::new_stream_decoder(XZ_MEMORY_MAX, lzma::CONCATENATED)?;
        (Compression::Xz, Box::new(StickyError::new(XzDecoder::new_stream(raw, decoder))))
    } else if is_bzip2(&head) {
        (Compression::Bzip2, Box::new(StickyError::new(MultiBzDecoder::new(raw))))
    } else {
        (Compression::None, Box::new(StickyError::new(raw)))
    };
    Ok(Decompressed { stream, compression, members })
}

/// Reads the dictionary at the beginning of a stream of zstd, and makes a decoder that knows it.
fn decoder_with_dictionary(raw: &mut impl Read) -> io::Result<BorrowedDecoder> {
    let wrong = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("its zstd dictionary {what}"));
    let mut header = [0; 8];
    raw.read_exact(&mut header)?;
    let n_bytes = u64::from(u32::from_le_bytes([header[4], header[5], header[6], header[7]]));
    let read = |from: &mut dyn Read, bytes: &mut Vec<u8>| from.take(DICTIONARY_BYTES_MAX + 1).read_to_end(bytes);
    let mut dictionary = Vec::new();
    read(&mut raw.take(n_bytes), &mut dictionary)?;
    if (dictionary.len() as u64) < n_bytes.min(DICTIONARY_BYTES_MAX) {
        return Err(wrong("is cut"));
    }
    if dictionary.starts_with(ZSTD) {
        let packed = std::mem::take(&mut dictionary);
        read(&mut zstd::Decoder::new(&packed[..])?, &mut dictionary)?;
    }
    if dictionary.len() as u64 > DICTIONARY_BYTES_MAX {
        return Err(wrong("has more than 16 MiB, which is too much"));
    }
    let mut decoder = Decoder::with_dictionary(&dictionary)?;
    decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))?;
    // It is of use for this stream alone.
    Ok(BorrowedDecoder { decoder: Some(decoder), idle: IdleDecoders::default() })
}

/// An idle zstd decoder, kept for the next stream. Its window may be 128 MiB, and allocating that for every file
/// takes longer than decompressing into it.
#[derive(Clone, Default)]
pub(super) struct IdleDecoders(Arc<Mutex<Option<Decoder<'static>>>>);

impl IdleDecoders {
    fn acquire(&self) -> io::Result<BorrowedDecoder> {
        let idle = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut decoder = idle.map_or_else(Decoder::new, Ok)?;
        decoder.reinit()?;
        decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX))?;
        Ok(BorrowedDecoder { decoder: Some(decoder), idle: self.clone() })
    }
}

/// A decoder in use. Dropping it makes it idle again.
struct BorrowedDecoder {
    /// `Some` until the drop.
    decoder: Option<Decoder<'static>>,
    idle: IdleDecoders,
}

impl Drop for BorrowedDecoder {
    fn drop(&mut self) {
        *self.idle.0.lock().unwrap_or_else(PoisonError::into_inner) = self.decoder.take();
    }
}

impl BorrowedDecoder {
    fn decoder(&mut self) -> io::Result<&mut Decoder<'static>> {
        self.decoder.as_mut().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Operation for BorrowedDecoder {
    fn run<C: WriteBuf + ?Sized>(
        &mut self,
        input: &mut InBuffer<'_>,
        output: &mut OutBuffer<'_, C>,
    ) -> io::Result<usize> {
        self.decoder()?.run(input, output)
    }

    fn reinit(&mut self) -> io::Result<()> {
        self.decoder()?.reinit()
    }

    fn finish<C: WriteBuf + ?Sized>(
        &mut self,
        output: &mut OutBuffer<'_, C>,
        finished_frame: bool,
    ) -> io::Result<usize> {
        self.decoder()?.finish(output, finished_frame)
    }
}

/// Whether a zstd frame begins here, or a skippable frame that may precede one.
fn is_zstd(head: &[u8]) -> bool {
    head.starts_with(ZSTD) || (head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == [0x2a, 0x4d, 0x18])
}

/// Whether a bzip2 stream begins here.
pub(super) fn is_bzip2(head: &[u8]) -> bool {
    let block = head.strip_prefix(b"BZh").and_then(|rest| rest.split_first());
    block.is_some_and(|(level, block)| {
        level.is_ascii_digit() && BZIP2_BLOCKS.iter().any(|signature| block.starts_with(signature))
    })
}

/// Returns the first bytes of a stream, at least `n_bytes` unless it is shorter, and the whole stream again. It
/// neither seeks nor waits for more, so that it works on a pipe.
pub(super) fn peek(mut stream: Stream, n_bytes: usize) -> io::Result<(Vec<u8>, Stream)> {
    let mut head = vec![0; 4096.max(n_bytes)];
    let mut n_read = 0;
    while n_read < n_bytes {
        match stream.read(&mut head[n_read..]) {
            Ok(0) => break,
            Ok(n) => n_read += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    head.truncate(n_read);
    Ok((head.clone(), Box::new(Cursor::new(head).chain(stream))))
}

/// The stream itself cannot be read, as opposed to its contents.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct DamagedStream(String);

impl DamagedStream {
    /// Whether a damaged stream caused the error.
    pub(super) fn caused(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|inner| inner.is::<DamagedStream>())
    }
}

/// Fails forever after its first error, because decompressors may report an end when they are read again.
struct StickyError<R> {
    inner: R,
    failure: Option<(io::ErrorKind, DamagedStream)>,
}

impl<R> StickyError<R> {
    fn new(inner: R) -> Self {
        StickyError { inner, failure: None }
    }
}

impl<R: Read> Read for StickyError<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some((kind, damage)) = &self.failure {
            return Err(io::Error::new(*kind, damage.clone()));
        }
        self.inner.read(buffer).map_err(|error| {
            if error.kind() == io::ErrorKind::Interrupted {
                return error;
            }
            let damage = DamagedStream(error.to_string());
            self.failure = Some((error.kind(), damage.clone()));
            io::Error::new(error.kind(), damage)
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    pub(in crate::files) fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    pub(in crate::files) fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 3).expect("memory")
    }

    pub(in crate::files) fn xz(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 6);
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    pub(in crate::files) fn bzip2(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ::bzip2::write::BzEncoder::new(Vec::new(), ::bzip2::Compression::default());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut read = Vec::new();
        decompressed(Box::new(Cursor::new(bytes.to_vec())), &IdleDecoders::default())?.read_to_end(&mut read)?;
        Ok(read)
    }

    fn text() -> Vec<u8> {
        (0..20_000).flat_map(|n: u32| format!("{} ", n.wrapping_mul(2_654_435_761)).into_bytes()).collect()
    }

    /// Records the address of each buffer that it is asked to fill.
    struct Recording(Arc<Mutex<Vec<usize>>>);

    impl Read for Recording {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").push(buffer.as_ptr().addr());
            buffer.fill(b'x');
            Ok(buffer.len())
        }
    }

    /// Lost once: a copy of every byte from one buffer into the next.
    #[test]
    fn uncompressed_bytes_go_straight_into_the_readers_buffer() {
        let asked: Arc<Mutex<Vec<usize>>> = Arc::default();
        let mut stream =
            decompressed(Box::new(Recording(Arc::clone(&asked))), &IdleDecoders::default()).expect("a stream");
        let mut buffer = vec![0; BUFFER_BYTES];
        // The first bytes were read to look for a signature.
        while asked.lock().expect("no panic").len() < 2 {
            assert!(stream.read(&mut buffer).expect("bytes") > 0);
        }
        assert_eq!(asked.lock().expect("no panic")[1], buffer.as_ptr().addr());
    }

    #[test]
    fn compression_is_detected_by_content() {
        let text = text();
        let skippable = [&[0x51, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3], zstd(&text).as_slice()].concat();
        for (name, bytes) in [
            ("plain", text.clone()),
            ("gzip", gzip(&text)),
            ("zstd", zstd(&text)),
            ("xz", xz(&text)),
            ("bzip2", bzip2(&text)),
            ("bzip2 of nothing", [bzip2(b""), bzip2(&text)].concat()),
            ("skippable frame", skippable),
        ] {
            assert_eq!(read(&bytes).expect(name), text, "{name}");
        }
        for short in ["", "a", "ab", "abc", "abcd", "BZh9 is no archive"] {
            assert_eq!(read(short.as_bytes()).expect(short), short.as_bytes());
        }
    }

    /// Lost once: a whole archive of a crawler that trains a dictionary for its pages. It was called damaged.
    #[test]
    fn a_dictionary_at_the_beginning_is_that_of_all_frames() {
        let (dictionary, pages) = (text(), [&text()[100..9000], &text()[..5000]]);
        let frame = |bytes: &[u8]| {
            let mut encoder = zstd::Encoder::with_dictionary(Vec::new(), 3, &dictionary).expect("memory");
            encoder.write_all(bytes).and_then(|()| encoder.finish()).expect("memory")
        };
        let frames = pages.map(frame).concat();
        assert!(frames.len() < 1000, "the dictionary is used");
        let file = |dictionary: &[u8]| {
            let n_bytes = (dictionary.len() as u32).to_le_bytes();
            [ZSTD_DICTIONARY, &n_bytes, dictionary, &frames].concat()
        };
        for dictionary in [dictionary.clone(), zstd(&dictionary)] {
            assert_eq!(read(&file(&dictionary)).expect("zstd"), pages.concat());
        }
        let cut = file(&dictionary)[..1000].to_vec();
        assert!(read(&cut).is_err_and(|error| error.to_string().contains("dictionary is cut")));
        assert!(read(&file(&vec![0; 17 << 20])).is_err_and(|error| error.to_string().contains("16 MiB")));
    }

    #[test]
    fn members_and_frames_are_one_stream() {
        let (a, b) = (text(), b"and more".to_vec());
        let both = [a.clone(), b.clone()].concat();
        assert_eq!(read(&[gzip(&a), gzip(b""), gzip(&b)].concat()).expect("gzip"), both);
        assert_eq!(read(&[zstd(&a), zstd(b""), zstd(&b)].concat()).expect("zstd"), both);
        assert_eq!(read(&[xz(&a), xz(b""), xz(&b)].concat()).expect("xz"), both);
        assert_eq!(read(&[bzip2(&a), bzip2(b""), bzip2(&b)].concat()).expect("bzip2"), both);
    }

    /// A truncated file must never pass for a shorter one, wherever the cut is.
    #[test]
    fn a_truncated_stream_is_an_error() {
        for (name, first, second) in [
            ("gzip", gzip(b"one"), gzip(b"two")),
            ("zstd", zstd(b"one"), zstd(b"two")),
            ("xz", xz(b"one"), xz(b"two")),
            ("bzip2", bzip2(b"one"), bzip2(b"two")),
        ] {
            let whole = [first.clone(), second].concat();
            for cut in SIGNATURE_BYTES..whole.len() {
                let result = read(&whole[..cut]);
                assert_eq!(result.is_ok(), cut == first.len(), "{name} cut at {cut}: {result:?}");
            }
        }
    }

    #[test]
    fn a_reused_decoder_starts_clean() {
        let (idle, text) = (IdleDecoders::default(), text());
        let packed = zstd(&text);
        let mut damaged = packed.clone();
        damaged[packed.len() / 2..].fill(0x55);
        for _ in 0..2 {
            for (bytes, expected) in [(&packed[..], Some(&text)), (&packed[..packed.len() / 2], None), (&damaged, None)]
            {
                let mut stream = decompressed(Box::new(Cursor::new(bytes.to_vec())), &idle).expect("a stream");
                let mut read = Vec::new();
                assert_eq!(stream.read_to_end(&mut read).is_ok(), expected.is_some());
                assert!(expected.is_none_or(|text| *text == read));
                assert!(idle.0.lock().expect("no panic").is_none());
                drop(stream);
                assert!(idle.0.lock().expect("no panic").is_some());
            }
        }
    }

    #[test]
    fn damage_is_an_error_that_stays() {
        let text = text();
        for (name, mut bytes) in
            [("gzip", gzip(&text)), ("zstd", zstd(&text)), ("xz", xz(&text)), ("bzip2", bzip2(&text))]
        {
            let middle = bytes.len() / 2;
            bytes[middle..middle + 8].fill(0x55);
            let mut stream = decompressed(Box::new(Cursor::new(bytes)), &IdleDecoders::default()).expect(name);
            let first = io::copy(&mut stream, &mut io::sink()).expect_err(name);
            assert!(DamagedStream::caused(&first));
            for _ in 0..3 {
                assert_eq!(stream.read(&mut [0; 16]).expect_err(name).to_string(), first.to_string());
            }
        }
    }
}
