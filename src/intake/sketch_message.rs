//! The message in which a sketcher sends one record to the owner of the store.
//!
//! ```text
//! version, 1 byte | rule id (16) | from (8) | offset (8) | next (8) | chain (8) | kind, 1 byte | …
//! kind 0, page:      url, time (8), sweep | content | said | text
//! kind 1, gone:      url, time (8), sweep
//! kind 2, redirect:  url, time (8), sweep | target
//! kind 3, rejected:  the rejection | the original message, to the end; nothing where there is none
//! ```
//! Numbers of a fixed length are little-endian. Contents, rejections, messages and what pages say have the same bytes as
//! elsewhere: [`SketchedContent::encode`], [`Rejection::encode`], [`Message::encode`], [`Said::encode`], [`KeptText::as_row`].

use super::continuity::{Continuity, continuity};
use super::kept_text::KeptText;
use super::sketched_page::SketchedPage;
use crate::codec::{
    decode_array, decode_bytes, decode_flag, decode_string, decode_text, encode_bytes, encode_flag, encode_text,
};
use crate::document::{FetchTime, Fingerprint};
use crate::related::Said;
use crate::sketch::SketchedContent;
use crate::wire::{Message, Rejection};
use std::sync::Arc;

/// The version of the message. An owner refuses any other.
const VERSION: u8 = 3;

const PAGE: u8 = 0;
const GONE: u8 = 1;
const REDIRECT: u8 = 2;
const REJECTED: u8 = 3;

/// Which record a message holds, and how its sketcher came to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SketchHeader {
    /// Where the sketcher stood before the record: behind the record that it handled before, or, for the first record of
    /// an assignment, where it began to read.
    pub from: i64,
    /// The record's offset.
    pub offset: i64,
    /// Where its partition goes on after it: behind the record, or behind the gap.
    pub next: i64,
    /// The source's chain after it, as in `ports::Progress`.
    pub chain: u64,
}

/// A sketched record on its way to the owner.
#[derive(Clone, Debug)]
pub struct SketchMessage {
    /// The record.
    pub header: SketchHeader,
    /// The sketched page, or why the record is none.
    pub outcome: Result<SketchedPage, Rejection>,
    /// The original message of a rejected record, where dead letters are kept.
    pub original: Option<Box<Message>>,
}

/// The owner cannot use a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SketchMessageError {
    /// Another version of the program wrote it, or another program.
    #[error("its version is {0}, and this program reads {VERSION}")]
    Version(u8),
    /// It was sketched under other settings or another seed.
    #[error("it was sketched under other settings or another seed")]
    Rule,
    /// Its bytes are damaged.
    #[error("its bytes are damaged")]
    Damaged,
}

impl SketchHeader {
    /// Whether the record continues what was taken below `next`.
    pub fn continuity(&self, next: i64) -> Continuity {
        continuity(next, self.from, self.next)
    }

    /// Reads the header of a message. `rule` is the id of the owner's settings.
    ///
    /// # Errors
    /// [`SketchMessageError`] where the header is of another version, or damaged. The inner error says that the record
    /// was sketched under another rule: only a record that is to be taken needs the right one.
    pub fn read(bytes: &[u8], rule: Fingerprint) -> Result<(Self, Result<(), SketchMessageError>), SketchMessageError> {
        let (version, mut rest) = bytes.split_first().ok_or(SketchMessageError::Damaged)?;
        if *version != VERSION {
            return Err(SketchMessageError::Version(*version));
        }
        let (its_rule, header) = read_header(&mut rest).ok_or(SketchMessageError::Damaged)?;
        Ok((header, if its_rule == rule { Ok(()) } else { Err(SketchMessageError::Rule) }))
    }
}

fn read_header(bytes: &mut &[u8]) -> Option<(Fingerprint, SketchHeader)> {
    let rule = Fingerprint(u128::from_le_bytes(decode_array(bytes)?));
    let mut number = || decode_array(bytes).map(i64::from_le_bytes);
    let header = SketchHeader { from: number()?, offset: number()?, next: number()?, chain: number()?.cast_unsigned() };
    Some((rule, header))
}

impl SketchMessage {
    /// The bytes of the message. `rule` is the id of the settings under which it was sketched.
    pub fn encode(&self, rule: Fingerprint) -> Vec<u8> {
        let SketchHeader { from, offset, next, chain } = self.header;
        let mut out = Vec::with_capacity(1024);
        out.push(VERSION);
        out.extend(rule.0.to_le_bytes());
        for number in [from, offset, next, chain.cast_signed()] {
            out.extend(number.to_le_bytes());
        }
        match &self.outcome {
            Ok(page) => encode_page(page, &mut out),
            Err(rejection) => {
                out.push(REJECTED);
                rejection.encode(&mut out);
                encode_flag(rejection.gap_to.is_some(), &mut out);
                if let Some(original) = &self.original {
                    original.encode(&mut out);
                }
            }
        }
        out
    }

    /// Decodes a message whose header was read before.
    ///
    /// # Errors
    /// [`SketchMessageError`], except [`SketchMessageError::Rule`].
    pub fn decode(bytes: &[u8]) -> Result<Self, SketchMessageError> {
        let (version, mut rest) = bytes.split_first().ok_or(SketchMessageError::Damaged)?;
        if *version != VERSION {
            return Err(SketchMessageError::Version(*version));
        }
        decode_record(&mut rest).ok_or(SketchMessageError::Damaged)
    }
}

fn encode_page(page: &SketchedPage, out: &mut Vec<u8>) {
    out.push(match (&page.content, &page.redirect_to) {
        (Some(_), _) => PAGE,
        (None, Some(_)) => REDIRECT,
        (None, None) => GONE,
    });
    encode_bytes(page.url.as_bytes(), out);
    out.extend(page.fetched_at.0.to_le_bytes());
    encode_text(page.sweep.as_deref(), out);
    match (&page.content, &page.redirect_to) {
        (Some(content), _) => {
            content.encode(out);
            encode_flag(page.said.is_some(), out);
            if let Some(said) = &page.said {
                let mut row = Vec::new();
                said.encode(&mut row);
                encode_bytes(&row, out);
            }
            encode_flag(page.text.is_some(), out);
            page.text.iter().for_each(|text| encode_bytes(text.as_row(), out));
        }
        (None, Some(target)) => encode_bytes(target.as_bytes(), out),
        (None, None) => {}
    }
}

fn decode_record(bytes: &mut &[u8]) -> Option<SketchMessage> {
    let (_, header) = read_header(bytes)?;
    let [kind] = decode_array(bytes)?;
    let mut original = None;
    let outcome = if kind == REJECTED {
        let mut rejection = Rejection::decode(bytes)?;
        rejection.gap_to = decode_flag(bytes)?.then_some(header.next);
        if !bytes.is_empty() {
            original = Some(Box::new(Message::decode(std::mem::take(bytes))?));
        }
        Err(rejection)
    } else {
        Ok(decode_page(kind, bytes)?)
    };
    bytes.is_empty().then_some(SketchMessage { header, outcome, original })
}

fn decode_page(kind: u8, bytes: &mut &[u8]) -> Option<SketchedPage> {
    let url = decode_string(bytes)?;
    let fetched_at = FetchTime(i64::from_le_bytes(decode_array(bytes)?));
    let sweep = decode_text(bytes)?;
    let mut page = SketchedPage { url, fetched_at, sweep, content: None, redirect_to: None, said: None, text: None };
    match kind {
        GONE => {}
        REDIRECT => page.redirect_to = Some(decode_string(bytes)?),
        PAGE => {
            page.content = Some(Arc::new(SketchedContent::decode(bytes)?));
            if decode_flag(bytes)? {
                page.said = Some(Arc::new(Said::decode(decode_bytes(bytes)?)?));
            }
            if decode_flag(bytes)? {
                page.text = Some(KeptText::from_row(decode_bytes(bytes)?)?);
            }
        }
        _ => return None,
    }
    Some(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Seed;
    use crate::intake::{FutureLimit, RecordSketcher, TextRule};
    use crate::related::{RelatedRule, SaidReader};
    use crate::sketch::{SketchRule, Sketcher};
    use crate::sweep::SweepCut;
    use crate::wire::{Limits, MessageFault, Reason, Record};

    const RULE: Fingerprint = Fingerprint(7);

    fn header() -> SketchHeader {
        SketchHeader { from: 3, offset: 5, next: 6, chain: u64::MAX }
    }

    fn messages() -> Vec<SketchMessage> {
        let seed = Seed([1, 2, 3, 4]);
        let sketcher = Sketcher::new(&SketchRule { index_modulus: 4, ..SketchRule::default() }, &seed);
        let said = SaidReader::new(&RelatedRule::default(), &seed);
        let sketcher =
            RecordSketcher::new(sketcher, Limits::default(), SweepCut::Month, FutureLimit::NONE).with_said(Some(said));
        let texts = TextRule { bytes_max: 5000, compress: |text| Some(text.as_bytes().to_vec()) };
        let mut sketcher = sketcher.with_texts(Some(texts));
        let words: String = (0..400).map(|n| format!("word{n} ")).collect();
        let mut message = |parts: &str| {
            let json = format!(r#"{{"url":"http://a/","fetched_at":"2026-11-21T08:00:00Z",{parts}}}"#);
            let outcome = sketcher.sketch(&Record::Json(json.into_bytes()));
            SketchMessage { header: header(), outcome, original: None }
        };
        let mut messages = vec![
            message(&format!(r#""content_type":"text/html","body":"<a href=b>{words}</a>""#)),
            message(r#""content_type":"text/plain","body":"few words""#),
            message(r#""gone":true"#),
            message(r#""redirect_to":"http://b/""#),
            message(r#""body":7"#),
        ];
        let original = Message {
            key: Some(b"k".to_vec()),
            headers: vec![("h".into(), None)],
            time_ms: Some(-1),
            fault: Some(MessageFault::TooLarge(1 << 40)),
            ..Message::default()
        };
        messages.push(SketchMessage { original: Some(Box::new(original)), ..messages[4].clone() });
        let gap = Rejection { gap_to: Some(6), ..Rejection::new(Reason::Overtaken, "deleted") };
        messages.push(SketchMessage { outcome: Err(gap), ..messages[4].clone() });
        messages
    }

    /// Lost if this fails: whatever the owner reads otherwise than the sketcher wrote it, it stores and publishes.
    #[test]
    fn every_kind_of_record_is_read_as_it_was_written_and_no_other_bytes_are() {
        let messages = messages();
        assert!(messages[0].outcome.as_ref().is_ok_and(|page| page.said.is_some() && page.text.is_some()));
        for message in messages {
            let bytes = message.encode(RULE);
            assert_eq!(SketchHeader::read(&bytes, RULE), Ok((header(), Ok(()))));
            let read = SketchMessage::decode(&bytes).expect("a message");
            assert_eq!(format!("{read:?}"), format!("{message:?}"));
            for n in 0..bytes.len() {
                // An original is all that follows a rejection, so a rejection may end where one would begin.
                let is_whole = message.original.is_some() && SketchMessage::decode(&bytes[..n]).is_ok();
                assert!(is_whole || SketchMessage::decode(&bytes[..n]).is_err(), "{n} of {message:?}");
            }
        }
    }

    #[test]
    fn other_versions_and_other_rules_are_refused() {
        let mut bytes = messages()[2].encode(RULE);
        assert_eq!(SketchHeader::read(&bytes, Fingerprint(8)), Ok((header(), Err(SketchMessageError::Rule))));
        bytes[0] = VERSION + 1;
        assert_eq!(SketchHeader::read(&bytes, RULE), Err(SketchMessageError::Version(VERSION + 1)));
        assert_eq!(SketchMessage::decode(&bytes).err(), Some(SketchMessageError::Version(VERSION + 1)));
        assert_eq!(SketchHeader::read(&[], RULE), Err(SketchMessageError::Damaged));
        assert_eq!(SketchHeader::read(&[VERSION, 0], RULE), Err(SketchMessageError::Damaged));
    }
}
