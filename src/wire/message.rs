//! Messages: what a broker delivers, kept unchanged, and how it becomes a page.

use super::fallback::Fallback;
use super::fields::FieldMap;
use super::http_status::StatusMeaning;
use super::json_page::parse_json_page;
use super::limits::Limits;
use super::page_parts::assemble_page;
use super::rejection::{Reason, Rejection};
use super::repair::repaired;
use crate::document::{Body, Content, FetchTime, MediaType, Page};
use std::sync::Arc;

/// A message as the broker delivered it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The key, if any.
    pub key: Option<Vec<u8>>,
    /// The value. `None` is a tombstone unless there is a fault.
    pub value: Option<Vec<u8>>,
    /// The headers in their order.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// When the message was sent or appended, in milliseconds since 1970, if known.
    pub time_ms: Option<i64>,
    /// The part of the message that could not be kept.
    pub fault: Option<MessageFault>,
}

/// A part of a message that could not be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageFault {
    /// The value exceeds the limit and was not kept. It has this many bytes.
    TooLarge(u64),
    /// A header's name is not UTF-8, so that no header could be read.
    HeaderName,
    /// Nothing but the time was kept: a topic refused the message without its value, too.
    Bare,
}

/// Undoes the codings that a `Content-Encoding` names, within the limits.
pub type ContentDecoder = fn(&[u8], &str, &Limits) -> Result<Vec<u8>, Rejection>;

/// How a message holds a page.
#[derive(Clone, Debug)]
pub enum MessageFormat {
    /// Key: the URL. Value: the body. Headers: `content-type`, `content-encoding` (which the function undoes),
    /// `fetch-time`, `http-status`, `location`, `sweep`.
    Raw(ContentDecoder),
    /// Value: a JSON page.
    Json,
    /// Value: a JSON object with a page's parts at the places of the map.
    Mapped(Arc<FieldMap>),
    /// Value: one WARC record, which the function reads.
    Warc(fn(&[u8], &Limits) -> Result<Page, Rejection>),
}

/// Formats are equal if they have the same parts. Functions are not compared: the variant says which one it holds.
impl PartialEq for MessageFormat {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (MessageFormat::Mapped(one), MessageFormat::Mapped(two)) => one == two,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl MessageFormat {
    /// The longest value, in bytes, that can hold a page within the limits.
    pub fn value_bytes_max(&self, limits: &Limits) -> usize {
        match self {
            MessageFormat::Raw(_) => limits.body_bytes_max,
            MessageFormat::Json | MessageFormat::Mapped(_) => limits.json_bytes_max(),
            // A body in chunks, and two headers.
            MessageFormat::Warc(_) => limits.body_bytes_max.saturating_mul(2).saturating_add(1 << 20),
        }
    }
}

impl Message {
    /// The message's approximate size in memory, in bytes.
    pub fn n_bytes(&self) -> usize {
        let length = |bytes: &Option<Vec<u8>>| bytes.as_ref().map_or(0, Vec::len);
        let headers = self.headers.iter().map(|(name, value)| name.len() + length(value) + 48).sum::<usize>();
        length(&self.key) + length(&self.value) + headers
    }

    /// Returns the message with less in it, for a topic that refused it as too large: first without its value, then
    /// without key and headers, too; `None` if nothing is left to leave out.
    pub fn reduced(&self) -> Option<Message> {
        let time_ms = self.time_ms;
        match (&self.value, self.fault) {
            (_, Some(MessageFault::Bare)) => None,
            (Some(value), None) => {
                let fault = Some(MessageFault::TooLarge(value.len() as u64));
                Some(Message { key: self.key.clone(), value: None, headers: self.headers.clone(), time_ms, fault })
            }
            _ => Some(Message { time_ms, fault: Some(MessageFault::Bare), ..Message::default() }),
        }
    }

    /// Reads the page in the message. In every format a message without a value means that its key, a URL, is gone.
    ///
    /// # Errors
    /// A [`Rejection`] with whatever could be read of URL, time and sweep.
    pub fn page(&self, format: &MessageFormat, limits: &Limits) -> Result<Page, Rejection> {
        match (self.fault, format, &self.value) {
            (Some(MessageFault::TooLarge(n_bytes)), _, _) => {
                Err(self.about(too_large(n_bytes, format, limits), limits))
            }
            (Some(MessageFault::HeaderName), _, _) => {
                Err(self.about(Rejection::new(Reason::InvalidField, "a header's name is not UTF-8"), limits))
            }
            (Some(MessageFault::Bare), _, _) => {
                Err(self.about(Rejection::new(Reason::TooLarge, "only the message's time was kept"), limits))
            }
            (None, MessageFormat::Raw(decoder), _) => self.raw_page(self.headers(), Some(*decoder), limits),
            (None, _, None) => self.raw_page(KnownHeaders::default(), None, limits),
            (None, MessageFormat::Json, Some(value)) => parse_json_page(value, limits),
            (None, MessageFormat::Mapped(fields), Some(value)) => fields.page(value, &self.fallback(), limits),
            (None, MessageFormat::Warc(read), Some(value)) => read(value, limits),
        }
    }

    /// Returns the message with its JSON repaired by [`repaired()`]; `None` if that changes nothing.
    pub fn repaired(&self, format: &MessageFormat) -> Option<Message> {
        match format {
            MessageFormat::Json | MessageFormat::Mapped(_) => {
                Some(Message { value: Some(repaired(self.value.as_deref()?)?), ..self.clone() })
            }
            MessageFormat::Raw(_) | MessageFormat::Warc(_) => None,
        }
    }

    fn about(&self, rejection: Rejection, limits: &Limits) -> Rejection {
        Rejection { url: self.url(limits).ok(), fetched_at: self.time(), ..rejection }
    }

    /// The known headers. The last one of each name counts; one without a value counts as absent.
    fn headers(&self) -> KnownHeaders<'_> {
        let mut headers = KnownHeaders::default();
        for (name, value) in &self.headers {
            match name.as_str() {
                "content-type" => headers.content_type = value.as_deref(),
                "content-encoding" => headers.content_encoding = value.as_deref(),
                "fetch-time" => headers.fetch_time = value.as_deref(),
                "http-status" => headers.http_status = value.as_deref(),
                "location" => headers.location = value.as_deref(),
                "sweep" => headers.sweep = value.as_deref(),
                _ => {}
            }
        }
        headers
    }

    fn raw_page(
        &self,
        headers: KnownHeaders<'_>,
        decoder: Option<ContentDecoder>,
        limits: &Limits,
    ) -> Result<Page, Rejection> {
        let url = self.url(limits);
        let fetched_at = fetch_time(self.time(), headers.fetch_time);
        let sweep = sweep_of(headers.sweep, limits);
        assemble_page(url, fetched_at, sweep, |url| content_of(url, self.value.as_deref(), headers, decoder, limits))
    }

    fn url(&self, limits: &Limits) -> Result<String, Rejection> {
        let missing = || Rejection::new(Reason::MissingField, "the record has no key; it must be the URL");
        let url = std::str::from_utf8(self.key.as_ref().ok_or_else(missing)?)
            .map_err(|_| Rejection::new(Reason::InvalidUrl, "the key is not UTF-8; it must be the URL"))?;
        limits.check_url(url)?;
        Ok(url.to_string())
    }

    /// The message's own time stands in for the page's.
    fn fallback(&self) -> Fallback {
        Fallback { fetched_at: self.time(), ..Fallback::default() }
    }

    fn time(&self) -> Option<FetchTime> {
        // Beyond the year 9999 it could not be written as RFC 3339.
        let time = jiff::Timestamp::from_millisecond(self.time_ms?).ok()?;
        Some(FetchTime(time.as_microsecond()))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct KnownHeaders<'a> {
    content_type: Option<&'a [u8]>,
    content_encoding: Option<&'a [u8]>,
    fetch_time: Option<&'a [u8]>,
    http_status: Option<&'a [u8]>,
    location: Option<&'a [u8]>,
    sweep: Option<&'a [u8]>,
}

fn too_large(n_bytes: u64, format: &MessageFormat, limits: &Limits) -> Rejection {
    let max = format.value_bytes_max(limits);
    let message =
        format!("the message has {n_bytes} bytes, over the {max} that limits.body_bytes_max allows for; raise it");
    Rejection::new(Reason::TooLarge, message)
}

fn fetch_time(sent: Option<FetchTime>, header: Option<&[u8]>) -> Result<FetchTime, Rejection> {
    match text("fetch-time", header)? {
        Some(time) => {
            time.parse().map_err(|error| Rejection::new(Reason::InvalidTime, format!("the header fetch-time: {error}")))
        }
        None => sent.ok_or_else(|| {
            Rejection::new(Reason::MissingField, "the record has neither a header fetch-time nor a usable timestamp")
        }),
    }
}

fn sweep_of(header: Option<&[u8]>, limits: &Limits) -> Result<Option<String>, Rejection> {
    let sweep = text("sweep", header)?.filter(|sweep| !sweep.is_empty());
    limits.check_sweep(sweep)?;
    Ok(sweep.map(String::from))
}

fn content_of(
    url: &str,
    value: Option<&[u8]>,
    headers: KnownHeaders<'_>,
    decoder: Option<ContentDecoder>,
    limits: &Limits,
) -> Result<Content, Rejection> {
    let meaning = status_of(headers.http_status)?.map_or(Ok(StatusMeaning::Present), StatusMeaning::from_status)?;
    if meaning == StatusMeaning::Redirect {
        return limits.redirect(url, text("location", headers.location)?);
    }
    let (StatusMeaning::Present, Some(bytes)) = (meaning, value) else { return Ok(Content::Gone) };
    let (media_type, charset) = match text("content-type", headers.content_type)? {
        Some(content_type) => MediaType::parse(content_type).ok_or_else(|| Rejection::no_text(content_type))?,
        None => (MediaType::Unknown, None),
    };
    if bytes.len() > limits.body_bytes_max {
        return Err(limits.body_too_large(bytes.len()));
    }
    let bytes = match text("content-encoding", headers.content_encoding)?.zip(decoder) {
        Some((codings, decoder)) => decoder(bytes, codings, limits)?,
        None => bytes.to_vec(),
    };
    Ok(Content::Body { media_type, body: Body::Bytes { bytes, charset } })
}

fn status_of(header: Option<&[u8]>) -> Result<Option<u16>, Rejection> {
    let Some(status) = text("http-status", header)? else { return Ok(None) };
    status
        .trim()
        .parse()
        .map(Some)
        .map_err(|_| Rejection::new(Reason::InvalidField, "the header http-status is not a number such as 200"))
}

fn text<'a>(name: &str, header: Option<&'a [u8]>) -> Result<Option<&'a str>, Rejection> {
    header
        .map(std::str::from_utf8)
        .transpose()
        .map_err(|_| Rejection::new(Reason::InvalidField, format!("the header {name} is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits =
        Limits { body_bytes_max: 10, url_bytes_max: 20, sweep_bytes_max: 8, words_max: 100, text_bytes_max: 100 };
    const SENT: Option<i64> = Some(1_500);
    const URL: Option<&[u8]> = Some(b"http://a/");

    fn message(key: Option<&[u8]>, value: Option<&[u8]>, time_ms: Option<i64>, headers: &[(&str, &[u8])]) -> Message {
        let headers = headers.iter().map(|(name, value)| ((*name).to_string(), Some(value.to_vec()))).collect();
        Message { key: key.map(<[u8]>::to_vec), value: value.map(<[u8]>::to_vec), headers, time_ms, fault: None }
    }

    fn raw(value: Option<&[u8]>, headers: &[(&str, &[u8])]) -> Result<Page, Rejection> {
        message(URL, value, SENT, headers).page(&RAW, &LIMITS)
    }

    /// Knows one coding, which drops a byte.
    const RAW: MessageFormat = MessageFormat::Raw(|bytes, codings, _| match codings {
        "shorter" => Ok(bytes[1..].to_vec()),
        _ => Err(Rejection::new(Reason::ContentEncoding, "not known")),
    });

    /// Lost once: the header was ignored, and gzip was sketched as text or rejected.
    #[test]
    fn content_encodings_are_undone() {
        let page = raw(Some(b"xy"), &[("content-encoding", b"shorter")]).expect("a page");
        let Content::Body { body, .. } = page.content else { panic!("no body") };
        assert_eq!(body.as_bytes(), b"y");
        let unknown = raw(Some(b"xy"), &[("content-encoding", b"other")]).expect_err("a rejection");
        assert_eq!((unknown.reason, unknown.url.as_deref()), (Reason::ContentEncoding, Some("http://a/")));
        assert_eq!(raw(None, &[("content-encoding", b"other")]).expect("a page").content, Content::Gone);
    }

    #[test]
    fn json_is_repaired_where_possible() {
        let lone = message(URL, Some(br#""\udc80""#), SENT, &[]);
        let repaired = lone.repaired(&MessageFormat::Json).expect("repaired");
        assert_eq!(repaired, Message { value: Some(br#""\ufffd""#.to_vec()), ..lone.clone() });
        assert_eq!((repaired.repaired(&MessageFormat::Json), lone.repaired(&RAW)), (None, None));
    }

    #[test]
    fn a_raw_page_with_all_its_headers() {
        let page = raw(
            Some(b"x"),
            &[
                ("content-type", b"text/plain"),
                ("content-type", b"text/html; charset=latin1"),
                ("fetch-time", b"19700101000007"),
                ("http-status", b"200"),
                ("sweep", b"s1"),
                ("other", b"\xff"),
            ],
        );
        let body = Body::Bytes { bytes: b"x".to_vec(), charset: Some("latin1".into()) };
        assert_eq!(
            page.expect("a page"),
            Page {
                url: "http://a/".into(),
                fetched_at: FetchTime(7_000_000),
                sweep: Some("s1".into()),
                content: Content::Body { media_type: MediaType::Html, body },
            }
        );
    }

    #[test]
    fn a_raw_page_without_headers_was_fetched_when_it_was_sent() {
        let page = raw(Some(b""), &[]).expect("a page");
        assert_eq!((page.fetched_at, page.sweep), (FetchTime(1_500_000), None));
        assert!(matches!(page.content, Content::Body { media_type: MediaType::Unknown, .. }));
    }

    #[test]
    fn gone_pages() {
        for (value, headers) in [
            (None, &[][..]),
            (None, &[("content-type", &b"image/png"[..])]),
            (Some(&b"not found"[..]), &[("http-status", &b"404"[..])]),
            (Some(b"far too long a body"), &[("http-status", b"410")]),
        ] {
            assert_eq!(raw(value, headers).expect("a page").content, Content::Gone);
        }
        let never: fn(&[u8], &Limits) -> Result<Page, Rejection> = |_, _| panic!("there is nothing to read");
        let fields = Arc::new(FieldMap::default());
        for format in [MessageFormat::Json, MessageFormat::Mapped(fields), MessageFormat::Warc(never)] {
            let tombstone = message(URL, None, SENT, &[("sweep", b"\xff")]).page(&format, &LIMITS).expect("a page");
            let (url, fetched_at) = ("http://a/".into(), FetchTime(1_500_000));
            assert_eq!(tombstone, Page { url, fetched_at, sweep: None, content: Content::Gone });
        }
    }

    #[test]
    fn redirects() {
        let headers = [("http-status", &b"301"[..]), ("location", b"/b")];
        for value in [None, Some(&b"moved"[..])] {
            assert_eq!(raw(value, &headers).expect("a page").content, Content::Redirect("http://a/b".into()));
        }
        assert_eq!(raw(None, &headers[..1]).expect_err("no target").reason, Reason::HttpStatus);
    }

    #[test]
    fn bad_headers() {
        for (header, reason) in [
            (("http-status", &b"ok"[..]), Reason::InvalidField),
            (("http-status", b"-1"), Reason::InvalidField),
            (("http-status", b"99999"), Reason::InvalidField),
            (("http-status", b"\xff"), Reason::InvalidField),
            (("http-status", b"500"), Reason::HttpStatus),
            (("http-status", b"301"), Reason::HttpStatus),
            (("content-type", b"image/png"), Reason::MediaType),
            (("content-type", b"\xff"), Reason::InvalidField),
            (("fetch-time", b"soon"), Reason::InvalidTime),
            (("fetch-time", b"20240132000000"), Reason::InvalidTime),
            (("content-encoding", b"\xff"), Reason::InvalidField),
            (("fetch-time", b"\xff"), Reason::InvalidField),
            (("sweep", b"much too long"), Reason::InvalidField),
            (("sweep", b"\xff"), Reason::InvalidField),
        ] {
            let rejection = raw(Some(b"x"), &[header]).expect_err("a rejection");
            assert_eq!(rejection.reason, reason, "{header:?}: {}", rejection.message);
            assert!(!rejection.message.is_empty());
            assert_eq!(rejection.url.as_deref(), Some("http://a/"));
        }
        assert_eq!(raw(Some(b"eleven long"), &[]).expect_err("too long").reason, Reason::TooLarge);
    }

    #[test]
    fn bad_keys_and_times() {
        for format in [RAW, MessageFormat::Json] {
            for (key, time, reason) in [
                (None, SENT, Reason::MissingField),
                (Some(&b""[..]), SENT, Reason::InvalidUrl),
                (Some(b"\xff"), SENT, Reason::InvalidUrl),
                (Some(b"http://a b/"), SENT, Reason::InvalidUrl),
                (Some(b"http://aaaaaaaaaaaaaaaaa/"), SENT, Reason::InvalidUrl),
                (URL, None, Reason::MissingField),
                (URL, Some(i64::MAX), Reason::MissingField),
            ] {
                let rejection = message(key, None, time, &[]).page(&format, &LIMITS).expect_err("a rejection");
                assert_eq!(rejection.reason, reason, "{key:?}, {time:?}: {}", rejection.message);
            }
        }
    }

    #[test]
    fn messages_with_faults_are_rejected_with_their_url() {
        for (fault, reason) in [
            (MessageFault::TooLarge(1 << 30), Reason::TooLarge),
            (MessageFault::HeaderName, Reason::InvalidField),
            (MessageFault::Bare, Reason::TooLarge),
        ] {
            let message = Message { fault: Some(fault), ..message(URL, None, SENT, &[]) };
            let rejection = message.page(&MessageFormat::Json, &LIMITS).expect_err("a rejection");
            assert_eq!((rejection.reason, rejection.url.as_deref()), (reason, Some("http://a/")));
        }
    }

    #[test]
    fn a_message_is_reduced_until_only_its_time_is_left() {
        let whole = message(URL, Some(b"value"), SENT, &[("h", b"x")]);
        let bare = Message { time_ms: SENT, fault: Some(MessageFault::Bare), ..Message::default() };
        let without_value = Message { value: None, fault: Some(MessageFault::TooLarge(5)), ..whole.clone() };
        let unread = Message { headers: vec![], fault: Some(MessageFault::HeaderName), ..whole.clone() };
        let tombstone = Message { value: None, ..whole.clone() };
        assert_eq!(whole.reduced(), Some(without_value.clone()));
        for message in [without_value, unread, tombstone] {
            assert_eq!(message.reduced(), Some(bare.clone()), "{message:?}");
        }
        assert_eq!(bare.reduced(), None);
    }
}
