//! From a Kafka message to a record.

use super::settings::RecordFormat;
use crate::document::{Body, Content, FetchTime, MediaType, Page};
use crate::wire::{Limits, Reason, Record, Rejection, StatusMeaning, status_meaning};
use rdkafka::Message;
use rdkafka::message::Headers;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A message's record. Every message has one, be it a rejection.
pub(super) fn record_of<M: Message>(message: &M, format: RecordFormat, limits: &Limits) -> Record {
    let parts = Parts {
        key: message.key(),
        value: message.payload(),
        time: message.timestamp().to_millis().and_then(time_of_millis),
    };
    match format {
        RecordFormat::Raw => raw(parts, message.headers(), limits),
        RecordFormat::Json => json(parts, limits),
    }
}

/// What every message has, or could have.
#[derive(Clone, Copy, Debug)]
struct Parts<'a> {
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
    /// When it was sent, or appended.
    time: Option<FetchTime>,
}

fn json(parts: Parts<'_>, limits: &Limits) -> Record {
    match parts.value {
        None => page(parts, Named::default(), limits),
        Some(value) if value.len() > limits.json_bytes_max() => Record::Rejected(too_long(value.len(), limits)),
        Some(value) => Record::Json(value.to_vec()),
    }
}

fn too_long(n_bytes: usize, limits: &Limits) -> Rejection {
    let max = limits.json_bytes_max();
    let message =
        format!("the JSON page has {n_bytes} bytes, over the {max} that limits.body_bytes_max allows for; raise it");
    Rejection::new(Reason::TooLarge, message)
}

fn raw<H: Headers>(parts: Parts<'_>, headers: Option<&H>, limits: &Limits) -> Record {
    match headers.map_or_else(|| Ok(Named::default()), named) {
        Ok(named) => page(parts, named, limits),
        Err(rejection) => Record::Rejected(rejection),
    }
}

/// The headers that we know, the last one of each name. One without a value counts as absent.
#[derive(Clone, Copy, Debug, Default)]
struct Named<'a> {
    content_type: Option<&'a [u8]>,
    fetch_time: Option<&'a [u8]>,
    http_status: Option<&'a [u8]>,
    location: Option<&'a [u8]>,
    sweep: Option<&'a [u8]>,
}

fn named<H: Headers>(headers: &H) -> Result<Named<'_>, Rejection> {
    // rdkafka panics where a header's name is not UTF-8, and anybody can send one: it must not stop the stream.
    catch_unwind(AssertUnwindSafe(|| pick(headers)))
        .map_err(|_| Rejection::new(Reason::InvalidField, "a header's name is not UTF-8"))
}

fn pick<H: Headers>(headers: &H) -> Named<'_> {
    let mut named = Named::default();
    for header in headers.iter() {
        match header.key {
            "content-type" => named.content_type = header.value,
            "fetch-time" => named.fetch_time = header.value,
            "http-status" => named.http_status = header.value,
            "location" => named.location = header.value,
            "sweep" => named.sweep = header.value,
            _ => {}
        }
    }
    named
}

/// The page, or its rejection with whatever could be read of URL, time and sweep.
fn page(parts: Parts<'_>, named: Named<'_>, limits: &Limits) -> Record {
    let url = url_of(parts.key, limits);
    let fetched_at = time_of(parts.time, named.fetch_time);
    let sweep = sweep_of(named.sweep, limits);
    let told = Rejection {
        url: url.as_ref().ok().cloned(),
        fetched_at: fetched_at.as_ref().ok().copied(),
        sweep: sweep.as_ref().ok().cloned().flatten(),
        ..Rejection::new(Reason::InvalidField, "")
    };
    let whole = || {
        let url = url?;
        let content = content_of(&url, parts.value, named, limits)?;
        Ok(Page { url, fetched_at: fetched_at?, sweep: sweep?, content })
    };
    match whole() {
        Ok(page) => Record::Page(Box::new(page)),
        Err(Rejection { reason, message, .. }) => Record::Rejected(Rejection { reason, message, ..told }),
    }
}

fn url_of(key: Option<&[u8]>, limits: &Limits) -> Result<String, Rejection> {
    let key = key.ok_or_else(|| Rejection::new(Reason::MissingField, "the record has no key; it must be the URL"))?;
    let url = std::str::from_utf8(key)
        .map_err(|_| Rejection::new(Reason::InvalidUrl, "the key is not UTF-8; it must be the URL"))?;
    limits.check_url(url)?;
    Ok(url.to_string())
}

fn time_of(sent: Option<FetchTime>, header: Option<&[u8]>) -> Result<FetchTime, Rejection> {
    match text("fetch-time", header)? {
        Some(time) => {
            time.parse().map_err(|error| Rejection::new(Reason::InvalidTime, format!("the header fetch-time: {error}")))
        }
        None => sent.ok_or_else(|| {
            Rejection::new(Reason::MissingField, "the record has neither a header fetch-time nor a usable timestamp")
        }),
    }
}

fn time_of_millis(millis: i64) -> Option<FetchTime> {
    // Beyond the year 9999 it could not be written as RFC 3339 again.
    jiff::Timestamp::from_millisecond(millis).ok().map(|time| FetchTime(time.as_microsecond()))
}

fn sweep_of(header: Option<&[u8]>, limits: &Limits) -> Result<Option<String>, Rejection> {
    let sweep = text("sweep", header)?.filter(|sweep| !sweep.is_empty());
    limits.check_sweep(sweep)?;
    Ok(sweep.map(String::from))
}

fn content_of(url: &str, value: Option<&[u8]>, named: Named<'_>, limits: &Limits) -> Result<Content, Rejection> {
    let meaning = status_of(named.http_status)?.map_or(Ok(StatusMeaning::Stands), status_meaning)?;
    if meaning == StatusMeaning::Redirects {
        return limits.redirect(url, text("location", named.location)?);
    }
    let (StatusMeaning::Stands, Some(bytes)) = (meaning, value) else { return Ok(Content::Gone) };
    let (media_type, charset) = match text("content-type", named.content_type)? {
        Some(content_type) => MediaType::parse(content_type).ok_or_else(|| Rejection::no_text(content_type))?,
        None => (MediaType::Unknown, None),
    };
    if bytes.len() > limits.body_bytes_max {
        return Err(limits.body_too_large(bytes.len()));
    }
    Ok(Content::Body { media_type, body: Body::Bytes { bytes: bytes.to_vec(), charset } })
}

fn status_of(header: Option<&[u8]>) -> Result<Option<u16>, Rejection> {
    let Some(status) = text("http-status", header)? else { return Ok(None) };
    status
        .trim()
        .parse()
        .map(Some)
        .map_err(|_| Rejection::new(Reason::InvalidField, "the header http-status is no number such as 200"))
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
    use rdkafka::Timestamp;
    use rdkafka::message::{Header, OwnedHeaders, OwnedMessage};

    const LIMITS: Limits = Limits { body_bytes_max: 10, url_bytes_max: 20, sweep_bytes_max: 8, words_max: 100 };
    const SENT: Timestamp = Timestamp::CreateTime(1_500);
    const URL: Option<&[u8]> = Some(b"http://a/");

    fn message(key: Option<&[u8]>, value: Option<&[u8]>, time: Timestamp, headers: &[(&str, &[u8])]) -> OwnedMessage {
        let headers = headers
            .iter()
            .fold(OwnedHeaders::new(), |headers, (key, value)| headers.insert(Header { key, value: Some(*value) }));
        OwnedMessage::new(value.map(<[u8]>::to_vec), key.map(<[u8]>::to_vec), "t".into(), time, 0, 0, Some(headers))
    }

    fn raw_record(value: Option<&[u8]>, headers: &[(&str, &[u8])]) -> Record {
        record_of(&message(URL, value, SENT, headers), RecordFormat::Raw, &LIMITS)
    }

    fn page_in(record: Record) -> Page {
        match record {
            Record::Page(page) => *page,
            other => panic!("no page: {other:?}"),
        }
    }

    fn rejection_in(record: Record) -> Rejection {
        match record {
            Record::Rejected(rejection) => rejection,
            other => panic!("no rejection: {other:?}"),
        }
    }

    #[test]
    fn a_raw_page_with_all_its_headers() {
        let page = page_in(raw_record(
            Some(b"x"),
            &[
                ("content-type", b"text/plain"),
                ("content-type", b"text/html; charset=latin1"),
                ("fetch-time", b"1970-01-01T00:00:07Z"),
                ("http-status", b"200"),
                ("sweep", b"s1"),
                ("other", b"\xff"),
            ],
        ));
        let body = Body::Bytes { bytes: b"x".to_vec(), charset: Some("latin1".into()) };
        assert_eq!(
            page,
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
        let page = page_in(raw_record(Some(b""), &[]));
        assert_eq!((page.fetched_at, page.sweep), (FetchTime(1_500_000), None));
        assert!(matches!(page.content, Content::Body { media_type: MediaType::Unknown, .. }));
    }

    #[test]
    fn what_is_gone() {
        for (value, headers) in [
            (None, &[][..]),
            (None, &[("content-type", &b"image/png"[..])]),
            (Some(&b"not found"[..]), &[("http-status", &b"404"[..])]),
            (Some(b"far too long a body"), &[("http-status", b"410")]),
        ] {
            assert_eq!(page_in(raw_record(value, headers)).content, Content::Gone);
        }
        let tombstone = record_of(&message(URL, None, SENT, &[]), RecordFormat::Json, &LIMITS);
        assert_eq!(
            page_in(tombstone),
            Page { url: "http://a/".into(), fetched_at: FetchTime(1_500_000), sweep: None, content: Content::Gone }
        );
    }

    #[test]
    fn redirects() {
        let headers = [("http-status", &b"301"[..]), ("location", b"/b")];
        for value in [None, Some(&b"moved"[..])] {
            assert_eq!(page_in(raw_record(value, &headers)).content, Content::Redirect("http://a/b".into()));
        }
        assert_eq!(rejection_in(raw_record(None, &headers[..1])).reason, Reason::HttpStatus);
    }

    #[test]
    fn json_is_passed_on_as_it_is() {
        for value in [&b"{}"[..], b"", b"\xff"] {
            let record =
                record_of(&message(None, Some(value), SENT, &[("sweep", b"\xff")]), RecordFormat::Json, &LIMITS);
            assert_eq!(record, Record::Json(value.to_vec()));
        }
        let long = vec![b' '; LIMITS.json_bytes_max() + 1];
        let record = record_of(&message(None, Some(&long), SENT, &[]), RecordFormat::Json, &LIMITS);
        assert_eq!(rejection_in(record).reason, Reason::TooLarge);
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
            (("fetch-time", b"\xff"), Reason::InvalidField),
            (("sweep", b"much too long"), Reason::InvalidField),
            (("sweep", b"\xff"), Reason::InvalidField),
        ] {
            let rejection = rejection_in(raw_record(Some(b"x"), &[header]));
            assert_eq!(rejection.reason, reason, "{header:?}: {}", rejection.message);
            assert!(!rejection.message.is_empty());
            assert_eq!(rejection.url.as_deref(), Some("http://a/"));
        }
        assert_eq!(rejection_in(raw_record(Some(b"eleven long"), &[])).reason, Reason::TooLarge);
    }

    #[test]
    fn bad_keys_and_times() {
        for format in [RecordFormat::Raw, RecordFormat::Json] {
            for (key, time, reason) in [
                (None, SENT, Reason::MissingField),
                (Some(&b""[..]), SENT, Reason::InvalidUrl),
                (Some(b"\xff"), SENT, Reason::InvalidUrl),
                (Some(b"http://a b/"), SENT, Reason::InvalidUrl),
                (Some(b"http://aaaaaaaaaaaaaaaaa/"), SENT, Reason::InvalidUrl),
                (URL, Timestamp::NotAvailable, Reason::MissingField),
                (URL, Timestamp::CreateTime(i64::MAX), Reason::MissingField),
            ] {
                let rejection = rejection_in(record_of(&message(key, None, time, &[]), format, &LIMITS));
                assert_eq!(rejection.reason, reason, "{key:?}, {time:?}: {}", rejection.message);
            }
        }
    }

    /// A header's name that was not UTF-8 made rdkafka panic, and would have again after every restart.
    #[test]
    fn headers_that_make_rdkafka_panic_are_rejected() {
        struct Hostile;
        impl Headers for Hostile {
            fn count(&self) -> usize {
                1
            }
            fn try_get(&self, _: usize) -> Option<Header<'_, &[u8]>> {
                panic!("as rdkafka does")
            }
        }
        let parts = Parts { key: URL, value: Some(b"x"), time: None };
        assert_eq!(rejection_in(raw(parts, Some(&Hostile), &LIMITS)).reason, Reason::InvalidField);
    }
}
