//! WACZ: a zip archive of WARC files, with a list of what is in it.

use super::archive_record::ArchiveDefaults;
use super::compression::{Compression, Decompressed, IdleDecoders, decompressed_as};
use super::input_file::InputFile;
use super::originals::Location;
use super::read_error::ReadError;
use super::record_reader::{Advance, RecordReader};
use super::stream::Stream;
use super::warc::WarcRecords;
use crate::wire::{Limits, Record};
use flate2::Crc;
use flate2::read::DeflateDecoder;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use zip::{CompressionMethod, ZipArchive};

/// The list of what is in the archive.
const LIST: &str = "datapackage.json";
/// The longest list that is read.
const LIST_BYTES_MAX: u64 = 64 << 20;
/// How the names of WARC files end.
const WARC_NAMES: [&str; 3] = [".warc", ".warc.gz", ".warc.zst"];

/// Counts what is read of the archive.
pub(super) type Counting = dyn Fn(Stream) -> Stream + Send;

/// The records of all WARC files of an archive, in the order of their names.
pub(super) struct WaczRecords {
    path: PathBuf,
    members: VecDeque<Member>,
    current: Option<WarcRecords>,
    counting: Box<Counting>,
    idle: IdleDecoders,
    limits: Limits,
    defaults: ArchiveDefaults,
}

/// A file in the archive.
#[derive(Clone, Debug)]
struct Member {
    name: String,
    from: u64,
    n_packed: u64,
    n_bytes: u64,
    crc: u32,
    is_deflated: bool,
    /// What the list says that its SHA-256 is, in hexadecimal.
    sha256: Option<String>,
}

#[derive(Deserialize)]
struct List {
    #[serde(default)]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    path: Option<String>,
    name: Option<String>,
    hash: Option<String>,
    bytes: Option<u64>,
}

impl WaczRecords {
    /// Opens an archive and compares its list with what is there.
    ///
    /// # Errors
    /// [`ReadError`] if it is no zip archive, holds no WARC file, or lists what is not there.
    pub(super) fn open(
        path: &Path,
        counting: Box<Counting>,
        idle: &IdleDecoders,
        limits: &Limits,
        defaults: ArchiveDefaults,
    ) -> Result<Self, ReadError> {
        let mut members = members_of(path)?;
        if let Some(list) = members.iter().find(|member| member.name == LIST) {
            let mut text = Vec::new();
            list.stream(InputFile::open(path)?)?.take(LIST_BYTES_MAX).read_to_end(&mut text)?;
            let list = serde_json::from_slice(&text)
                .map_err(|error| ReadError::Unusable(format!("the archive's {LIST} cannot be read: {error}")))?;
            check_list(list, &mut members)?;
        }
        members.retain(|member| is_warc(&member.name));
        members.sort_by(|one, two| one.name.cmp(&two.name));
        if members.is_empty() {
            return Err(ReadError::Format(
                "a zip archive without WARC files, so no WACZ; unpack it and give what is inside",
            ));
        }
        Ok(WaczRecords {
            path: path.to_path_buf(),
            members: members.into(),
            current: None,
            counting,
            idle: idle.clone(),
            limits: limits.clone(),
            defaults,
        })
    }

    fn begin(&self, member: &Member) -> Result<WarcRecords, ReadError> {
        let raw = (self.counting)(Box::new(InputFile::open(&self.path)?.take_from(member)?));
        let Decompressed { stream, compression, members } = decompressed_as(member.checked(raw), &self.idle)?;
        let has_places = !member.is_deflated && matches!(compression, Compression::None | Compression::Gzip);
        let path = self.path.as_path();
        let location = has_places.then(|| Location { path: path.into(), from: member.from, members });
        Ok(WarcRecords::new(stream, &self.limits, self.defaults.clone()).at(location))
    }
}

impl RecordReader for WaczRecords {
    fn advance(&mut self, chain: u64) -> Result<Advance, ReadError> {
        loop {
            if let Some(current) = &mut self.current {
                match current.advance(chain)? {
                    Advance::End => self.current = None,
                    other => return Ok(other),
                }
            }
            let Some(member) = self.members.pop_front() else { return Ok(Advance::End) };
            self.current = Some(self.begin(&member)?);
        }
    }

    fn decode(&mut self) -> Record {
        match &mut self.current {
            Some(current) => current.decode(),
            None => unreachable_record(),
        }
    }
}

/// Before the first step there is no record to decode.
fn unreachable_record() -> Record {
    Record::Rejected(crate::wire::Rejection::new(crate::wire::Reason::Internal, "no record was read yet"))
}

/// The files that the archive's directory names.
fn members_of(path: &Path) -> Result<Vec<Member>, ReadError> {
    let broken = |why: String| {
        ReadError::Unusable(format!("the zip archive's directory cannot be read ({why}); fetch the file again"))
    };
    let mut archive =
        ZipArchive::new(BufReader::new(InputFile::open(path)?)).map_err(|error| broken(error.to_string()))?;
    let mut members = Vec::with_capacity(archive.len());
    for at in 0..archive.len() {
        let entry = archive.by_index_raw(at).map_err(|error| broken(error.to_string()))?;
        if entry.is_dir() {
            continue;
        }
        let name = entry.name().to_string();
        let is_deflated = match entry.compression() {
            CompressionMethod::Stored => false,
            CompressionMethod::DEFLATE => true,
            other => return Err(broken(format!("{name} is packed by the method {other:?}"))),
        };
        let from = entry.data_start().ok_or_else(|| broken(format!("{name} has no place")))?;
        let (n_packed, n_bytes, crc) = (entry.compressed_size(), entry.size(), entry.crc32());
        members.push(Member { name, from, n_packed, n_bytes, crc, is_deflated, sha256: None });
    }
    Ok(members)
}

fn is_warc(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WARC_NAMES.iter().any(|end| name.ends_with(end))
}

/// Compares the list with the members that are read, and notes their hashes.
fn check_list(list: List, members: &mut [Member]) -> Result<(), ReadError> {
    let mut by_name: HashMap<String, &mut Member> =
        members.iter_mut().map(|member| (member.name.clone(), member)).collect();
    for resource in list.resources {
        let Some(path) = resource.path.or(resource.name).filter(|path| is_warc(path)) else { continue };
        let lies = |what: String| {
            ReadError::Unusable(format!("the archive is not what its {LIST} says: {what}; fetch the file again"))
        };
        let Some(member) = by_name.get_mut(&path) else { return Err(lies(format!("{path} is not in it"))) };
        if let Some(n) = resource.bytes.filter(|n| *n != member.n_bytes) {
            return Err(lies(format!("{path} has {} bytes, not {n}", member.n_bytes)));
        }
        let sha256 = resource.hash.as_deref().and_then(|hash| hash.strip_prefix("sha256:"));
        member.sha256 = sha256.map(str::to_ascii_lowercase);
    }
    Ok(())
}

/// Cuts a member's bytes out of the archive.
trait TakeFrom {
    fn take_from(self, member: &Member) -> io::Result<io::Take<InputFile>>;
}

impl TakeFrom for InputFile {
    fn take_from(mut self, member: &Member) -> io::Result<io::Take<InputFile>> {
        self.seek(SeekFrom::Start(member.from))?;
        Ok(self.take(member.n_packed))
    }
}

impl Member {
    /// The member's contents, out of the whole archive.
    fn stream(&self, archive: InputFile) -> io::Result<Stream> {
        Ok(self.checked(Box::new(archive.take_from(self)?)))
    }

    /// The member's contents, out of its packed bytes; fails at the end if they are not what the archive says.
    fn checked(&self, raw: Stream) -> Stream {
        let stream: Stream = if self.is_deflated { Box::new(DeflateDecoder::new(raw)) } else { raw };
        let sha256 = self.sha256.as_ref().map(|_| Sha256::new());
        Box::new(CheckedMember { stream, member: self.clone(), n_bytes: 0, crc: Crc::new(), sha256 })
    }
}

/// A member's contents, checked at their end.
struct CheckedMember {
    stream: Stream,
    member: Member,
    n_bytes: u64,
    crc: Crc,
    sha256: Option<Sha256>,
}

impl CheckedMember {
    fn check(&mut self) -> io::Result<()> {
        let Member { name, n_bytes, crc, sha256, .. } = &self.member;
        let lies = |what: String| io::Error::new(io::ErrorKind::InvalidData, format!("{name} {what}"));
        if self.n_bytes != *n_bytes {
            return Err(lies(format!("has {} bytes, not the {n_bytes} that the archive says", self.n_bytes)));
        }
        if self.crc.sum() != *crc {
            return Err(lies("has another checksum (CRC-32) than the archive says".into()));
        }
        if let (Some(hash), Some(expected)) = (self.sha256.take(), sha256) {
            let mut found = String::new();
            for byte in hash.finalize() {
                let _ = write!(found, "{byte:02x}");
            }
            if found != *expected {
                return Err(lies(format!("has another checksum (SHA-256) than {LIST} says")));
            }
        }
        Ok(())
    }
}

impl Read for CheckedMember {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let n = self.stream.read(out)?;
        if n == 0 && !out.is_empty() {
            self.check()?;
        }
        self.n_bytes += n as u64;
        self.crc.update(&out[..n]);
        if let Some(hash) = &mut self.sha256 {
            hash.update(&out[..n]);
        }
        Ok(n)
    }
}
