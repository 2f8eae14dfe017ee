//! A file that is one page: HTML or plain text. Its path is its URL.

use super::chain::RecordHash;
use super::read_error::ReadError;
use super::record_reader::{Advance, RecordReader};
use super::stream::{BUFFER_BYTES, Stream, fill};
use crate::document::{Body, Content, FetchTime, MediaType, Page};
use crate::wire::{Limits, Reason, Record, Rejection, url_of_text};
use std::io::{BufRead, BufReader};

/// Names that say what a file is, behind the last dot.
const NAMES: [(&str, MediaType); 12] = [
    ("html", MediaType::Html),
    ("htm", MediaType::Html),
    ("xhtml", MediaType::Html),
    ("txt", MediaType::PlainText),
    ("text", MediaType::PlainText),
    ("md", MediaType::PlainText),
    ("markdown", MediaType::PlainText),
    ("rst", MediaType::PlainText),
    ("adoc", MediaType::PlainText),
    ("asciidoc", MediaType::PlainText),
    ("org", MediaType::PlainText),
    ("tex", MediaType::PlainText),
];

/// What the name of a file says that it is.
pub(super) fn media_type_of(name: &str) -> Option<MediaType> {
    let end = last_ending(name)?;
    NAMES.into_iter().find(|(known, _)| end.eq_ignore_ascii_case(known)).map(|(_, media_type)| media_type)
}

/// What is behind the last dot of a file's name, without that of its compression.
pub(super) fn last_ending(name: &str) -> Option<&str> {
    let name = name.rsplit('/').next()?;
    let packed = ["gz", "zst", "xz", "bz2"];
    let (stem, end) = name.rsplit_once('.')?;
    if packed.contains(&end.to_ascii_lowercase().as_str()) { Some(stem.rsplit_once('.')?.1) } else { Some(end) }
}

/// The single record of such a file.
pub(super) struct PageFile {
    reader: BufReader<Stream>,
    media_type: MediaType,
    name: String,
    fetched_at: Option<FetchTime>,
    sweep: Option<String>,
    limits: Limits,
    body: Vec<u8>,
    n_bytes: usize,
    is_read: bool,
}

impl PageFile {
    pub(super) fn new(
        stream: Stream,
        media_type: MediaType,
        name: &str,
        fetched_at: Option<FetchTime>,
        sweep: Option<String>,
        limits: &Limits,
    ) -> Self {
        PageFile {
            reader: BufReader::with_capacity(BUFFER_BYTES, stream),
            media_type,
            name: name.to_string(),
            fetched_at,
            sweep,
            limits: limits.clone(),
            body: Vec::new(),
            n_bytes: 0,
            is_read: false,
        }
    }

    fn page(&mut self) -> Result<Page, Rejection> {
        let url = url_of_text(&self.name);
        self.limits.check_url(&url)?;
        let fetched_at = self.fetched_at.ok_or_else(|| {
            let message = "a page from standard input or a pipe has no time; give --fetched-at TIME";
            Rejection::new(Reason::MissingField, message)
        })?;
        if self.n_bytes > self.limits.body_bytes_max {
            return Err(self.limits.body_too_large(self.n_bytes));
        }
        let body = Body::Bytes { bytes: std::mem::take(&mut self.body), charset: None };
        let content = Content::Body { media_type: self.media_type, body };
        Ok(Page { url, fetched_at, sweep: self.sweep.clone(), content })
    }
}

impl RecordReader for PageFile {
    fn advance(&mut self, chain: u64) -> Result<Advance, ReadError> {
        if std::mem::replace(&mut self.is_read, true) {
            return Ok(Advance::End);
        }
        let mut hash = RecordHash::after(chain);
        loop {
            let buffer = fill(&mut self.reader)?;
            if buffer.is_empty() {
                return Ok(Advance::Record(hash.finish()));
            }
            let n = buffer.len();
            hash.append(buffer);
            self.n_bytes += n;
            if self.n_bytes <= self.limits.body_bytes_max {
                self.body.extend_from_slice(buffer);
            }
            self.reader.consume(n);
        }
    }

    fn take_bytes(&mut self, is_wanted: bool, out: &mut Vec<Vec<u8>>) {
        if is_wanted {
            out.push(std::mem::take(&mut self.body));
        }
    }

    fn decode(&mut self) -> Record {
        let (fetched_at, sweep) = (self.fetched_at, self.sweep.clone());
        match self.page() {
            Ok(page) => Record::Page(Box::new(page)),
            Err(rejection) => {
                Record::Rejected(Rejection { url: Some(url_of_text(&self.name)), fetched_at, sweep, ..rejection })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_files_are() {
        for (name, expected) in [
            ("/a/b.html", Some(MediaType::Html)),
            ("/a/b.HTM.gz", Some(MediaType::Html)),
            ("/a/README.md", Some(MediaType::PlainText)),
            ("/a/b.txt.zst", Some(MediaType::PlainText)),
            ("/a.txt/b", None),
            ("/a/b.gz", None),
            ("/a/b.jsonl", None),
            ("stdin", None),
        ] {
            assert_eq!(media_type_of(name), expected, "{name}");
        }
    }
}
