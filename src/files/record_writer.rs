//! Writes records to a file, compressed as the file was that they come from.

use super::compression::Compression;
use super::format::FileFormat;
use super::stream::BUFFER_BYTES;
use bzip2::write::BzEncoder;
use flate2::write::GzEncoder;
use flate2::{Compress, Crc, FlushCompress, Status};
use liblzma::write::XzEncoder;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// The level of the `zstd` program.
const ZSTD_LEVEL: i32 = 3;

/// The level of the `xz` program.
const XZ_LEVEL: u32 = 6;

/// The header of a gzip member: deflate, no name, no time, no system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

type Out = BufWriter<File>;

/// A file of records.
pub(super) enum RecordWriter {
    /// Not compressed.
    Plain(Out),
    /// One gzip member.
    Gzip(GzEncoder<Out>),
    /// A gzip member for each record, as WARC has it.
    GzipRecords(Out, Box<GzipMembers>),
    /// One xz stream.
    Xz(XzEncoder<Out>),
    /// One bzip2 stream.
    Bzip2(BzEncoder<Out>),
    /// One zstd frame.
    Zstd(zstd::Encoder<'static, Out>),
    /// A zstd frame for each record, as WARC has it.
    ZstdRecords(Out, zstd::bulk::Compressor<'static>),
}

impl RecordWriter {
    /// Creates a file, or truncates it.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn create(path: &Path, format: FileFormat, compression: Compression) -> io::Result<Self> {
        let out = BufWriter::with_capacity(BUFFER_BYTES, File::create(path)?);
        Ok(match (compression, format) {
            (Compression::None, _) => RecordWriter::Plain(out),
            (Compression::Gzip, FileFormat::Warc) => RecordWriter::GzipRecords(out, Box::default()),
            (Compression::Gzip, _) => RecordWriter::Gzip(GzEncoder::new(out, Default::default())),
            (Compression::Zstd, FileFormat::Warc) => {
                RecordWriter::ZstdRecords(out, zstd::bulk::Compressor::new(ZSTD_LEVEL)?)
            }
            (Compression::Zstd, _) => RecordWriter::Zstd(zstd::Encoder::new(out, ZSTD_LEVEL)?),
            (Compression::Xz, _) => RecordWriter::Xz(XzEncoder::new(out, XZ_LEVEL)),
            (Compression::Bzip2, _) => RecordWriter::Bzip2(BzEncoder::new(out, bzip2::Compression::best())),
        })
    }

    /// Writes a record.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn write(&mut self, record: &[u8]) -> io::Result<()> {
        match self {
            RecordWriter::Plain(out) => out.write_all(record),
            RecordWriter::Gzip(encoder) => encoder.write_all(record),
            RecordWriter::GzipRecords(out, members) => out.write_all(members.member(record)?),
            RecordWriter::Zstd(encoder) => encoder.write_all(record),
            RecordWriter::Xz(encoder) => encoder.write_all(record),
            RecordWriter::Bzip2(encoder) => encoder.write_all(record),
            RecordWriter::ZstdRecords(out, compressor) => out.write_all(&compressor.compress(record)?),
        }
    }

    /// Ends the file and makes it durable.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn finish(self) -> io::Result<()> {
        let out = match self {
            RecordWriter::Plain(out) | RecordWriter::GzipRecords(out, _) | RecordWriter::ZstdRecords(out, _) => out,
            RecordWriter::Gzip(encoder) => encoder.finish()?,
            RecordWriter::Zstd(encoder) => encoder.finish()?,
            RecordWriter::Xz(encoder) => encoder.finish()?,
            RecordWriter::Bzip2(encoder) => encoder.finish()?,
        };
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

/// Compresses one gzip member after the other. An encoder for each would allocate its tables each time.
pub(super) struct GzipMembers {
    deflate: Compress,
    member: Vec<u8>,
}

impl Default for GzipMembers {
    fn default() -> Self {
        GzipMembers { deflate: Compress::new(Default::default(), false), member: Vec::new() }
    }
}

impl GzipMembers {
    fn member(&mut self, bytes: &[u8]) -> io::Result<&[u8]> {
        self.deflate.reset();
        self.member.clear();
        self.member.extend_from_slice(&GZIP_HEADER);
        loop {
            self.member.reserve(bytes.len() / 4 + 4096);
            let n_read = self.deflate.total_in() as usize;
            let status = self.deflate.compress_vec(&bytes[n_read..], &mut self.member, FlushCompress::Finish);
            if status.map_err(io::Error::other)? == Status::StreamEnd {
                break;
            }
        }
        let mut crc = Crc::new();
        crc.update(bytes);
        self.member.extend_from_slice(&crc.sum().to_le_bytes());
        self.member.extend_from_slice(&crc.amount().to_le_bytes());
        Ok(&self.member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::compression::{Decompressed, IdleDecoders, decompressed_as};
    use std::io::Read;

    const COMPRESSIONS: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Zstd, Compression::Xz, Compression::Bzip2];

    #[test]
    fn what_is_written_is_read_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut random = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (random >> 56) as u8
        })
        .take(300_000)
        .collect();
        let records = [&b"first"[..], b"", &b"again and ".repeat(30_000), &noise, b"last"];
        for format in [FileFormat::Jsonl, FileFormat::Warc] {
            for compression in COMPRESSIONS {
                let path = folder.path().join("file");
                let mut writer = RecordWriter::create(&path, format, compression).expect("created");
                records.iter().for_each(|record| writer.write(record).expect("written"));
                writer.finish().expect("finished");
                let file = Box::new(File::open(&path).expect("opens"));
                let opened = decompressed_as(file, &IdleDecoders::default()).expect("opens");
                let Decompressed { compression: found, mut stream, .. } = opened;
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).expect("whole");
                assert_eq!(found, compression);
                assert!(bytes == records.concat(), "{format:?} {compression:?}");
            }
        }
    }
}
