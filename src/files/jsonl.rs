//! JSONL: one record a line, in bounded memory.

use super::chain::RecordHash;
use super::read_error::ReadError;
use super::record_reader::{Advance, RecordReader};
use super::stream::{BUFFER_BYTES, Stream, fill};
use crate::wire::{Limits, Reason, Record, Rejection};
use memchr::memchr;
use serde::de::IgnoredAny;
use std::io::{self, BufRead, BufReader};

/// The lines of a stream. Blank lines are not records. Lines over [`Limits::json_bytes_max`] are rejected and not
/// kept.
pub(super) struct JsonLines {
    reader: BufReader<Stream>,
    bytes_max: usize,
    /// The line; empty once it is too long.
    line: Vec<u8>,
    /// The length of the whole line without its line end.
    n_bytes: usize,
    /// The length of the line before.
    n_bytes_before: usize,
    ends_in_return: bool,
    ends_in_feed: bool,
}

impl JsonLines {
    pub(super) fn new(stream: Stream, limits: &Limits) -> Self {
        JsonLines {
            reader: BufReader::with_capacity(BUFFER_BYTES, stream),
            bytes_max: limits.json_bytes_max(),
            line: Vec::new(),
            n_bytes: 0,
            n_bytes_before: 0,
            ends_in_return: false,
            ends_in_feed: false,
        }
    }

    /// Reads up to a line feed; returns false if the stream ends first.
    fn read_line(&mut self, hash: &mut RecordHash) -> io::Result<bool> {
        self.line.clear();
        self.n_bytes_before = std::mem::take(&mut self.n_bytes);
        self.ends_in_return = false;
        loop {
            let buffer = fill(&mut self.reader)?;
            if buffer.is_empty() {
                self.drop_return();
                return Ok(false);
            }
            let (n, ended) = memchr(b'\n', buffer).map_or((buffer.len(), false), |at| (at, true));
            hash.append(&buffer[..n]);
            self.n_bytes += n;
            self.ends_in_return = buffer[..n].last().map_or(self.ends_in_return, |last| *last == b'\r');
            // One more byte than the limit, for a carriage return.
            if self.n_bytes <= self.bytes_max.saturating_add(1) {
                if !ended && self.line.is_empty() {
                    // The line may be as long as the one before. Growing to that by doubling costs more than reading it.
                    self.line.reserve(n.max(self.n_bytes_before + self.n_bytes_before / 8));
                }
                self.line.extend_from_slice(&buffer[..n]);
            } else {
                self.line = Vec::new();
            }
            self.reader.consume(n + usize::from(ended));
            if ended {
                self.drop_return();
                return Ok(true);
            }
        }
    }

    fn drop_return(&mut self) {
        if self.ends_in_return {
            self.line.pop();
            self.n_bytes -= 1;
        }
    }

    fn is_blank(&self) -> bool {
        self.line.len() == self.n_bytes && self.line.trim_ascii().is_empty()
    }

    /// Whether a line without a line feed must be complete: a number could continue, an object cannot.
    fn is_complete(&self) -> bool {
        matches!(self.line.trim_ascii().first(), Some(b'{' | b'['))
            && serde_json::from_slice::<IgnoredAny>(&self.line).is_ok()
    }
}

impl RecordReader for JsonLines {
    fn advance(&mut self, chain: u64) -> Result<Advance, ReadError> {
        loop {
            let mut hash = RecordHash::after(chain);
            let ended = self.read_line(&mut hash)?;
            self.ends_in_feed = ended;
            match (self.is_blank(), ended) {
                (true, true) => {}
                (true, false) => return Ok(Advance::End),
                (false, false) if !self.is_complete() => return Err(ReadError::UnfinishedLine),
                (false, _) => return Ok(Advance::Record(hash.finish())),
            }
        }
    }

    fn decode(&mut self) -> Record {
        let (n, max) = (self.n_bytes, self.bytes_max);
        let line = std::mem::take(&mut self.line);
        if n <= max {
            return Record::Json(line);
        }
        let message = format!("the line has {n} bytes, over {max}; raise limits.body_bytes_max to take such pages");
        Record::Rejected(Rejection::new(Reason::TooLarge, message))
    }

    fn take_bytes(&mut self, is_wanted: bool, out: &mut Vec<Vec<u8>>) {
        if is_wanted {
            let mut bytes = std::mem::take(&mut self.line);
            bytes.extend(self.ends_in_return.then_some(b'\r'));
            bytes.extend(self.ends_in_feed.then_some(b'\n'));
            out.push(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// 6 × 10 + 6 × 10 + 64 KiB = 65,656 bytes a line.
    const LIMITS: Limits =
        Limits { body_bytes_max: 10, url_bytes_max: 10, sweep_bytes_max: 10, words_max: 100, text_bytes_max: 100 };

    /// The lines, `<n>` for one of n bytes that is too long, and what follows the last.
    fn lines(bytes: &[u8]) -> (Vec<String>, &'static str, u64) {
        let mut reader = JsonLines::new(Box::new(Cursor::new(bytes.to_vec())), &LIMITS);
        let (mut lines, mut chain) = (Vec::new(), 0);
        loop {
            match reader.advance(chain) {
                Ok(Advance::Record(after)) => chain = after,
                Ok(Advance::End) => return (lines, "end", chain),
                Ok(Advance::Gap(text)) => panic!("{text}"),
                Err(ReadError::UnfinishedLine) => return (lines, "unfinished", chain),
                Err(error) => panic!("{error}"),
            }
            lines.push(match reader.decode() {
                Record::Json(json) => String::from_utf8(json).expect("text"),
                Record::Rejected(rejection) => {
                    assert_eq!(rejection.reason, Reason::TooLarge);
                    format!("<{}>", rejection.message.split(' ').nth(3).expect("a number"))
                }
                other => panic!("no line: {other:?}"),
            });
        }
    }

    #[test]
    fn lines_and_their_ends() {
        for (text, expected, end) in [
            ("", vec![], "end"),
            ("\n\r\n  \n\n", vec![], "end"),
            ("   ", vec![], "end"),
            ("a\nb\n", vec!["a", "b"], "end"),
            ("a\r\n\r\nb\r\n", vec!["a", "b"], "end"),
            ("a\n{\"b\":1}", vec!["a", "{\"b\":1}"], "end"),
            ("a\n{\"b\":1} \r", vec!["a", "{\"b\":1} "], "end"),
            ("a\n{\"b\":1", vec!["a"], "unfinished"),
            ("a\nb", vec!["a"], "unfinished"),
            ("a\n12", vec!["a"], "unfinished"),
        ] {
            let (found, found_end, _) = lines(text.as_bytes());
            assert_eq!((found.iter().map(String::as_str).collect::<Vec<_>>(), found_end), (expected, end), "{text:?}");
        }
    }

    #[test]
    fn too_long_lines_are_rejected_and_the_next_one_is_read() {
        let max = LIMITS.json_bytes_max();
        for n in [max, max + 1, 3 * BUFFER_BYTES, 1 << 20] {
            for end in ["\n", "\r\n"] {
                let long = "x".repeat(n);
                let (found, at_end, _) = lines(format!("a{end}{long}{end}b{end}").as_bytes());
                let expected = if n > max { format!("<{n}>") } else { long };
                assert_eq!(found, ["a".to_string(), expected, "b".to_string()], "{n}");
                assert_eq!(at_end, "end");
            }
        }
        assert_eq!(lines(&vec![b'x'; 1 << 20]).1, "unfinished");
    }

    #[test]
    fn the_chain_ignores_line_ends() {
        let of = |text: &str| lines(text.as_bytes()).2;
        assert_eq!(of("{}\n[]\n"), of("{}\r\n\n[]"));
        assert_ne!(of("{}\n[]\n"), of("[]\n{}\n"));
        assert_ne!(of("{}\n[]\n"), of("{}[]\n"));
        let long = "x".repeat(1 << 20);
        assert_ne!(of(&format!("{long}\n")), of(&format!("{long}x\n")));
    }
}
