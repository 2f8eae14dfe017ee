//! A record of an archive, WARC or ARC, and the page in it.

use super::http_body::decode_body;
use super::originals::Originals;
use super::warc_date;
use crate::document::{Body, Content, FetchTime, MediaType, Page};
use crate::wire::{Limits, Reason, Record, Rejection, StatusMeaning};
use fastwarc::warc::header::{HeaderEncoding, HeaderMap};
use std::io::Cursor;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The longest WARC or HTTP header. A longer WARC header is skipped, a longer HTTP header rejected.
pub(super) const HEADER_BYTES_MAX: usize = 256 << 10;
/// Accepts headers with bare LF, and anything between two records.
pub(super) const QUIRKS: bool = true;

/// The URL schemes of pages outside of HTTP. Tools keep logs, screenshots and the like as resources under
/// `metadata:` and `urn:`.
const PAGE_SCHEMES: [&str; 4] = ["http", "https", "ftp", "file"];

/// Values for records that do not have their own.
#[derive(Clone, Default)]
pub(super) struct ArchiveDefaults {
    pub(super) sweep: Option<String>,
    /// The time of records that have none and follow none that has one.
    pub(super) fetched_at: Option<FetchTime>,
    /// Counts the pages whose time is not their own.
    pub(super) n_undated: Arc<AtomicU64>,
    /// What revisits refer to.
    pub(super) originals: Originals,
}

/// The header of a record.
#[derive(Default)]
pub(super) struct RecordHeader {
    /// The WARC type in lower case.
    pub(super) kind: String,
    pub(super) url: Option<String>,
    /// The date as it is written.
    pub(super) date: Option<String>,
    pub(super) time: Option<FetchTime>,
    pub(super) content_type: Option<String>,
    /// The declared length of the block.
    pub(super) n_bytes: Option<u64>,
    pub(super) is_segment: bool,
    /// The digest of what the record holds without its HTTP header.
    pub(super) payload_digest: Option<String>,
}

impl RecordHeader {
    pub(super) fn from_warc(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).map(|value| value.trim().to_string());
        let date = text("WARC-Date");
        RecordHeader {
            kind: text("WARC-Type").unwrap_or_default().to_ascii_lowercase(),
            // The standard's grammar puts the URL in angle brackets by mistake, and some writers follow it.
            url: text("WARC-Target-URI").map(|url| match url.strip_prefix('<').and_then(|url| url.strip_suffix('>')) {
                Some(bare) => bare.to_string(),
                None => url,
            }),
            time: date.as_deref().and_then(warc_date::read),
            date,
            content_type: text("Content-Type"),
            n_bytes: text("Content-Length").and_then(|length| length.parse().ok()),
            is_segment: text("WARC-Segment-Number").is_some(),
            payload_digest: text("WARC-Payload-Digest"),
        }
    }

    /// Checks by kind and URL whether the record is a page.
    fn check_kind(&self) -> Result<(), Rejection> {
        let rejected = |reason, message: &str| Err(Rejection::new(reason, message));
        match self.kind.as_str() {
            "resource" | "conversion" if !self.has_page_scheme() => {
                rejected(Reason::NoPage, "a WARC resource is a page at an http, https, ftp or file URL alone")
            }
            _ if self.is_segment => rejected(
                Reason::Segmented,
                "the WARC record is in several segments (WARC-Segment-Number), which are not joined; write it as one",
            ),
            _ => Ok(()),
        }
    }

    fn has_page_scheme(&self) -> bool {
        let scheme = self.url.as_deref().and_then(|url| url.split_once(':')).map_or("", |(scheme, _)| scheme);
        PAGE_SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known))
    }

    pub(super) fn is_input(&self) -> bool {
        matches!(self.kind.as_str(), "response" | "resource" | "conversion" | "revisit")
    }
}

/// A record: its header and its content, as far as that can be of use.
#[derive(Default)]
pub(super) struct ArchiveRecord {
    pub(super) header: RecordHeader,
    pub(super) block: Vec<u8>,
    /// The content of the capture that a revisit refers to, or why there is none.
    pub(super) original: Option<Result<Content, Rejection>>,
}

impl ArchiveRecord {
    /// The page in the record, or why there is none: `fault` if that is known already. `time_before` is the time of the
    /// last record before it that has one.
    pub(super) fn decode(
        &self,
        fault: Option<Rejection>,
        time_before: Option<FetchTime>,
        defaults: &ArchiveDefaults,
        limits: &Limits,
    ) -> Record {
        match fault.map_or_else(|| self.page(time_before, defaults, limits), Err) {
            Ok(page) => Record::Page(Box::new(page)),
            Err(rejection) => Record::Rejected(Rejection {
                url: self.header.url.clone().filter(|url| !url.is_empty() && url.len() <= limits.url_bytes_max),
                fetched_at: self.header.time,
                sweep: defaults.sweep.clone(),
                ..rejection
            }),
        }
    }

    /// The page in the record. `time_before` is the time of the last record before it that has one.
    fn page(
        &self,
        time_before: Option<FetchTime>,
        defaults: &ArchiveDefaults,
        limits: &Limits,
    ) -> Result<Page, Rejection> {
        let url = without_blanks(self.header.url.as_deref().unwrap_or_default());
        limits.check_url(&url)?;
        self.header.check_kind()?;
        let fetched_at = self.header.time.or(time_before).or(defaults.fetched_at).ok_or_else(|| {
            let date = self.header.date.as_deref().unwrap_or_default();
            let message = format!("the date {date:?} is not a time, and no record before has one; give --fetched-at");
            Rejection::new(Reason::InvalidTime, message)
        })?;
        let content = self.content(limits)?;
        if self.header.time.is_none() {
            defaults.n_undated.fetch_add(1, Relaxed);
        }
        Ok(Page { content, url, fetched_at, sweep: defaults.sweep.clone() })
    }

    fn content(&self, limits: &Limits) -> Result<Content, Rejection> {
        if self.header.kind == "revisit" { self.revisited(limits) } else { self.content_as(None, limits) }
    }

    /// The content of a capture. `http_type` is what its HTTP header should say of the type, where a revisit knows better.
    pub(super) fn content_as(&self, http_type: Option<&str>, limits: &Limits) -> Result<Content, Rejection> {
        let content_type = self.header.content_type.as_deref().unwrap_or_default();
        let is_conversion = self.header.kind == "conversion";
        let is_http = content_type.to_ascii_lowercase().starts_with("application/http")
            || (content_type.is_empty() && self.block.starts_with(b"HTTP/"));
        if is_http && !is_conversion {
            return self.http_content(http_type, limits);
        }
        if content_type.to_ascii_lowercase().starts_with("text/dns") {
            return Err(Rejection::no_text(content_type));
        }
        let (media_type, charset) = match content_type {
            "" if is_conversion => (MediaType::PlainText, None),
            _ => MediaType::parse(content_type).ok_or_else(|| Rejection::no_text(content_type))?,
        };
        let charset = charset.or_else(|| is_conversion.then(|| "utf-8".to_string()));
        if self.header.n_bytes.is_some_and(|n| n > limits.body_bytes_max as u64) {
            return Err(limits.body_too_large(saturated(self.header.n_bytes.unwrap_or_default())));
        }
        Ok(Content::Body { media_type, body: Body::Bytes { bytes: self.block.clone(), charset } })
    }

    /// Whether revisits may refer to the record: it shows what is at its URL. Equal bytes may come with other statuses, too.
    pub(super) fn may_be_original(&self) -> bool {
        let is_capture = matches!(self.header.kind.as_str(), "response" | "resource") && !self.header.is_segment;
        let first_line = self.block.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let status = std::str::from_utf8(first_line).ok().and_then(status_in);
        is_capture
            && status.is_none_or(|status| matches!(StatusMeaning::from_status(status), Ok(StatusMeaning::Present)))
    }

    /// The type that the HTTP header of a revisit tells.
    pub(super) fn http_type(&self) -> Option<String> {
        let head = self.http_head().ok()?;
        head.headers.get("Content-Type").filter(|kind| !kind.trim().is_empty()).map(Into::into)
    }

    /// The content of a revisit: what its own header says of the URL counts, and a body is the original's.
    fn revisited(&self, limits: &Limits) -> Result<Content, Rejection> {
        // "Not modified" and no header say the same.
        if let Ok(head) = self.http_head()
            && head.status != 304
        {
            match StatusMeaning::from_status(head.status)? {
                StatusMeaning::Present => {}
                StatusMeaning::Gone => return Ok(Content::Gone),
                StatusMeaning::Redirect => return self.redirect(&head.headers, limits),
            }
        }
        let missing = || {
            let message = "the capture that the WARC revisit refers to is not before it in the inputs, or brought no page, or \
                           is in a file where it cannot be found again; give the files that hold it, too, in order, plain or \
                           as gzip with a member for each record";
            Err(Rejection::new(Reason::Revisit, message))
        };
        self.original.clone().unwrap_or_else(missing)
    }

    /// The HTTP header at the beginning of the block.
    fn http_head(&self) -> Result<HttpHead, Rejection> {
        let unreadable = |why: String| Rejection::new(Reason::HttpStatus, format!("no readable HTTP header: {why}"));
        let n_bytes = header_bytes(&self.block);
        let mut headers = HeaderMap::new(HeaderEncoding::Latin1);
        headers
            .parse_with_opts(&mut Cursor::new(self.block[..n_bytes].to_vec()), true, HEADER_BYTES_MAX, QUIRKS)
            .map_err(|error| unreadable(error.to_string()))?;
        let status = status_in(&headers.status_line().unwrap_or_default());
        let status = status.ok_or_else(|| unreadable("it has no status line".into()))?;
        Ok(HttpHead { status, headers, n_bytes })
    }

    /// Where an HTTP response leads.
    fn redirect(&self, headers: &HeaderMap, limits: &Limits) -> Result<Content, Rejection> {
        let url = without_blanks(self.header.url.as_deref().unwrap_or_default());
        // Servers send UTF-8, whatever the standard says.
        let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => text.to_string(),
            Err(_) => bytes.iter().copied().map(char::from).collect(),
        };
        let target = headers.get_bytes("Location").map(|bytes| without_blanks(text(&bytes).trim()));
        limits.redirect(&url, target.as_deref())
    }

    /// The content of an HTTP response.
    fn http_content(&self, http_type: Option<&str>, limits: &Limits) -> Result<Content, Rejection> {
        let (block, n_block) = (&self.block, self.header.n_bytes.unwrap_or_default());
        let HttpHead { status, headers, n_bytes: n_header } = self.http_head()?;
        match StatusMeaning::from_status(status)? {
            StatusMeaning::Present => {}
            StatusMeaning::Gone => return Ok(Content::Gone),
            StatusMeaning::Redirect => return self.redirect(&headers, limits),
        }
        let content_type = http_type.map_or_else(|| headers.get("Content-Type").unwrap_or_default(), Into::into);
        let (media_type, charset) = MediaType::parse(&content_type).ok_or_else(|| Rejection::no_text(&content_type))?;
        if n_block > block.len() as u64 {
            return Err(limits.body_too_large(saturated(n_block - n_header as u64)));
        }
        let codings = [headers.get_multiple("Content-Encoding"), headers.get_multiple("Transfer-Encoding")].concat();
        let bytes = decode_body(&block[n_header..], &codings, limits)?;
        Ok(Content::Body { media_type, body: Body::Bytes { bytes, charset } })
    }
}

/// An HTTP header.
struct HttpHead {
    status: u16,
    headers: HeaderMap,
    n_bytes: usize,
}

/// The status in the first line of an HTTP response.
fn status_in(line: &str) -> Option<u16> {
    line.split_whitespace().nth(1).filter(|_| line.starts_with("HTTP/")).and_then(|status| status.parse().ok())
}

/// A URL as a page's key: some writers keep the blanks of a link.
fn without_blanks(url: &str) -> String {
    url.replace(' ', "%20")
}

/// How much of a record's content can be of use: a body at the limit, in chunks, and the HTTP header.
pub(super) fn block_bytes_max(limits: &Limits) -> usize {
    limits.body_bytes_max.saturating_mul(2).saturating_add(HEADER_BYTES_MAX)
}

pub(super) fn saturated(n_bytes: u64) -> usize {
    usize::try_from(n_bytes).unwrap_or(usize::MAX)
}

/// The length of the HTTP header: up to the first blank line, or the whole block.
fn header_bytes(block: &[u8]) -> usize {
    let mut start = 0;
    for end in memchr::memchr_iter(b'\n', block) {
        if block[start..end].trim_ascii().is_empty() {
            return end + 1;
        }
        start = end + 1;
    }
    block.len()
}
