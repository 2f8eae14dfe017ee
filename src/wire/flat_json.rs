//! Reads flat JSON objects, such as nearly every page, 64 bytes at a time; a general parser reads everything else.
//!
//! Pages are long strings with an escape every few dozen bytes, on which the general parser spends a quarter of the CPU time
//! of a page of 143 KB. This reader knows strings, integers, `true`, `false` and `null`. Whatever else it meets, broken JSON
//! included, it leaves to the general parser, which alone says what is wrong.

use super::unescape::{ESCAPES, unescape_blocks};
use memchr::memchr2;
use simdutf8::basic::from_utf8;
use wide::u8x64;

/// The value of a member.
#[derive(Debug, PartialEq)]
pub(super) enum FlatValue<'j> {
    Null,
    Bool(bool),
    /// An integer, as it is written.
    Integer(&'j str),
    String(String),
}

/// Bytes of a string that are examined at once.
const BLOCK_BYTES: usize = 64;

/// Bytes that reading a block may touch: copying a piece of it also reads the bytes after it.
const SEEN_BYTES: usize = 2 * BLOCK_BYTES + 2;

/// Bytes that reading a block may write: its text, and what it copies too much.
const WRITTEN_BYTES: usize = 2 * BLOCK_BYTES;

/// A string is put together in pieces of about this length. Each is written in many small steps, but read only when it is
/// whole: to read at once what has just been written in smaller parts stops a processor for a while.
const PIECE_BYTES: usize = 4 << 10;

/// Why reading a block ended, and after how many bytes.
enum BlockEnd {
    /// The block is read.
    Block(usize),
    /// The string is read, with its quote.
    String(usize),
    /// A longer escape follows, whose backslash is read.
    Escape(usize),
}

/// Calls `member` with each member of the object, in order. Returns `None`, perhaps after some members, unless `json` is a
/// valid JSON object of values that [`FlatValue`] has, whose names need no escapes, and `member` takes each.
pub(super) fn each_member<'j>(
    json: &'j [u8],
    mut member: impl FnMut(&'j str, FlatValue<'j>) -> Option<()>,
) -> Option<()> {
    let mut reader = Reader { rest: json, piece: [0; PIECE_BYTES + WRITTEN_BYTES] };
    reader.expect(b'{')?;
    if reader.next_is(b'}') {
        reader.expect(b'}')?;
        return reader.end();
    }
    loop {
        let name = reader.name()?;
        reader.expect(b':')?;
        member(name, reader.value()?)?;
        if reader.next_is(b'}') {
            reader.expect(b'}')?;
            return reader.end();
        }
        reader.expect(b',')?;
    }
}

struct Reader<'j> {
    rest: &'j [u8],
    /// The end of the string that is being read, and room to write to.
    piece: [u8; PIECE_BYTES + WRITTEN_BYTES],
}

impl<'j> Reader<'j> {
    fn skip_space(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn next_is(&mut self, byte: u8) -> bool {
        self.skip_space();
        self.rest.first() == Some(&byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.skip_space();
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        (*first == byte).then_some(())
    }

    fn end(&mut self) -> Option<()> {
        self.skip_space();
        self.rest.is_empty().then_some(())
    }

    fn name(&mut self) -> Option<&'j str> {
        self.expect(b'"')?;
        let len = memchr2(b'"', b'\\', self.rest)?;
        let (name, rest) = (&self.rest[..len], &self.rest[len..]);
        self.rest = rest.strip_prefix(b"\"")?;
        if name.iter().any(|byte| *byte < b' ') {
            return None;
        }
        std::str::from_utf8(name).ok()
    }

    fn value(&mut self) -> Option<FlatValue<'j>> {
        self.skip_space();
        Some(match self.rest.first()? {
            b'"' => {
                self.rest = &self.rest[1..];
                FlatValue::String(self.string()?)
            }
            b'-' | b'0'..=b'9' => FlatValue::Integer(self.integer()?),
            b'n' => self.literal(b"null", FlatValue::Null)?,
            b't' => self.literal(b"true", FlatValue::Bool(true))?,
            b'f' => self.literal(b"false", FlatValue::Bool(false))?,
            _ => return None,
        })
    }

    fn literal(&mut self, text: &[u8], value: FlatValue<'j>) -> Option<FlatValue<'j>> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(value)
    }

    fn integer(&mut self) -> Option<&'j str> {
        let sign = usize::from(self.rest.first() == Some(&b'-'));
        let n_digits = self.rest[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(sign + n_digits);
        let begins_with_zero = n_digits > 1 && number[sign] == b'0';
        if n_digits == 0 || begins_with_zero || matches!(rest.first(), Some(b'.' | b'e' | b'E')) {
            return None;
        }
        self.rest = rest;
        std::str::from_utf8(number).ok()
    }

    /// The string whose opening quote has been read.
    fn string(&mut self) -> Option<String> {
        let (mut text, mut len) = (String::new(), 0);
        loop {
            let room = self.piece.get_mut(len..PIECE_BYTES).unwrap_or_default();
            let (n_read, n_written) = unescape_blocks(self.rest, room);
            self.rest = &self.rest[n_read..];
            len += n_written;
            if len + BLOCK_BYTES > PIECE_BYTES {
                if text.is_empty() {
                    // A string that is not short is usually most of what is left.
                    text.reserve(len + self.rest.len());
                }
                let n_whole = self.n_whole_bytes(len)?;
                text.push_str(from_utf8(&self.piece[..n_whole]).ok()?);
                self.piece.copy_within(n_whole..len, 0);
                len -= n_whole;
            }
            let mut padded = [0; SEEN_BYTES];
            let seen = self.rest.first_chunk().unwrap_or_else(|| {
                padded[..self.rest.len()].copy_from_slice(self.rest);
                &padded
            });
            let (n_written, end) = copy_block(seen, self.piece[len..].first_chunk_mut()?)?;
            len += n_written;
            let (BlockEnd::Block(n_read) | BlockEnd::String(n_read) | BlockEnd::Escape(n_read)) = end;
            self.rest = self.rest.get(n_read..)?;
            match end {
                BlockEnd::Block(_) => {}
                BlockEnd::String(_) => break,
                BlockEnd::Escape(_) => len += self.unicode_escape()?.encode_utf8(&mut self.piece[len..]).len(),
            }
        }
        text.push_str(from_utf8(&self.piece[..len]).ok()?);
        if text.capacity() / 2 > text.len() {
            text.shrink_to_fit();
        }
        Some(text)
    }

    /// How many of the first `len` bytes of the piece are whole characters, if what is left begins with the rest of one.
    fn n_whole_bytes(&self, len: usize) -> Option<usize> {
        let is_cut = self.rest.first().is_some_and(|next| (0x80..0xc0).contains(next));
        if !is_cut {
            return Some(len);
        }
        self.piece[..len].iter().rposition(|byte| *byte >= 0xc0)
    }

    /// The character of an escape `\uXXXX`, or of two such that are a surrogate pair. The first backslash has been read.
    fn unicode_escape(&mut self) -> Option<char> {
        let mut code = self.code_unit(b"u")?;
        if (0xd800..0xdc00).contains(&code) {
            let low = self.code_unit(b"\\u")?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            code = 0x10000 + (code - 0xd800) * 0x400 + low;
        }
        char::from_u32(code)
    }

    /// The number in four hexadecimal digits after `prefix`.
    fn code_unit(&mut self, prefix: &[u8]) -> Option<u32> {
        let (digits, rest) = self.rest.strip_prefix(prefix)?.split_first_chunk::<4>()?;
        self.rest = rest;
        digits.iter().try_fold(0, |number, digit| Some(number * 16 + char::from(*digit).to_digit(16)?))
    }
}

/// Copies the text of a block of a string, with its escapes of two bytes replaced, and returns how long it is. `None` where a
/// control character stands in it; `seen` has nothing else beyond the object's end.
#[inline]
fn copy_block(seen: &[u8; SEEN_BYTES], out: &mut [u8; WRITTEN_BYTES]) -> Option<(usize, BlockEnd)> {
    let mut specials = specials(seen.first_chunk()?);
    let (mut from, mut len) = (0, 0);
    loop {
        // Always a whole block, because the processor cannot predict how long a piece is. What comes next overwrites the rest.
        out[len..len + BLOCK_BYTES].copy_from_slice(&seen[from..from + BLOCK_BYTES]);
        // The character of an escape may be the first one after the block.
        let to = (specials.trailing_zeros() as usize).max(from);
        len += to - from;
        if to >= BLOCK_BYTES {
            return Some((len, BlockEnd::Block(to)));
        }
        match seen[to] {
            b'"' => return Some((len, BlockEnd::String(to + 1))),
            b'\\' => {}
            _ => return None,
        }
        let meaning = ESCAPES.get(usize::from(seen[to + 1])).copied().unwrap_or_default();
        if meaning == 0 {
            return Some((len, BlockEnd::Escape(to + 1)));
        }
        out[len] = meaning;
        len += 1;
        from = to + 2;
        specials &= !(0b11 << to);
    }
}

/// A bit for each byte, the lowest for the first: set if it is a quote, a backslash or a control character.
#[inline]
fn specials(block: &[u8; BLOCK_BYTES]) -> u64 {
    let bytes = u8x64::new(*block);
    let is_control = bytes.min(u8x64::splat(0x1f)).simd_eq(bytes);
    (bytes.simd_eq(u8x64::splat(b'"')) | bytes.simd_eq(u8x64::splat(b'\\')) | is_control).to_bitmask()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, Value};

    /// The members as the general parser would give them; `None` where they are left to it.
    fn members(json: &[u8]) -> Option<Map<String, Value>> {
        let mut members = Map::new();
        each_member(json, |name, value| {
            let value = match value {
                FlatValue::Null => Value::Null,
                FlatValue::Bool(value) => value.into(),
                FlatValue::Integer(digits) => serde_json::from_str(digits).expect("a number"),
                FlatValue::String(text) => text.into(),
            };
            members.insert(name.to_string(), value);
            Some(())
        })?;
        Some(members)
    }

    fn check(json: &[u8]) {
        if let Some(found) = members(json) {
            let expected: Map<String, Value> =
                serde_json::from_slice(json).unwrap_or_else(|error| panic!("{error}: {json:?}"));
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(json));
        }
    }

    #[test]
    fn flat_objects_are_read() {
        let long = "ab\\\"c".repeat(100);
        for json in [
            "{}".to_string(),
            " {\t\"a\" : \"b\" ,\r\n\"c\":-0 , \"d\": 123,\"e\":true,\"f\":false,\"g\":null } ".to_string(),
            r#"{"":"\"\\\/\b\f\n\r\t\u00e9\u20AC\ud83d\ude00é€😀"}"#.to_string(),
            format!(r#"{{"a":"{long}","b":"{long}","c":"x"}}"#),
        ] {
            assert_eq!(members(json.as_bytes()), serde_json::from_str(&json).ok(), "{json}");
            assert!(members(json.as_bytes()).is_some());
        }
    }

    /// Pieces may end within a character of any length.
    #[test]
    fn long_texts_of_all_characters_are_read() {
        for text in ["x", "é", "€", "😀", "\\n", "\\\"x", "\\u00e9", "xé\\u20ac\\\\"] {
            for n_before in 0..4 {
                let json = format!(r#"{{"a":"{}{}","b":"x"}}"#, "x".repeat(n_before), text.repeat(3 * PIECE_BYTES));
                let found = members(json.as_bytes());
                assert!(found.is_some() && found == serde_json::from_str(&json).ok(), "{n_before} before {text}");
            }
        }
        let cut = format!(r#"{{"a":"{}"}}"#, "x".repeat(2 * PIECE_BYTES));
        for at in 6..cut.len() - 2 {
            let mut cut = cut.clone().into_bytes();
            cut[at] = 0x80;
            assert_eq!(members(&cut), None, "no character at {at}");
        }
    }

    /// Escapes of every kind at every place of a block.
    #[test]
    fn escapes_are_read_wherever_a_block_ends() {
        for escape in ["\\\"", "\\n", "\\\\", "\\u00e9", "\\ud83d\\ude00", "é", "\\n\\n", "\\\\\\\""] {
            for n_before in 0..2 * SEEN_BYTES {
                for n_after in [0, 1, 15, 70] {
                    let json = format!(r#"{{"a":"{}{escape}{}"}}"#, "x".repeat(n_before), "y".repeat(n_after));
                    assert_eq!(members(json.as_bytes()), serde_json::from_str(&json).ok(), "{json}");
                    assert!(members(json.as_bytes()).is_some(), "{json}");
                    for n in (0..json.len()).filter(|_| n_after == 0) {
                        assert_eq!(members(&json.as_bytes()[..n]), None, "{n} bytes of {json}");
                    }
                }
            }
        }
    }

    #[test]
    fn everything_else_is_left_to_the_general_parser() {
        for json in [
            "",
            "{",
            "{}x",
            "[]",
            "null",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{,}",
            "{\"a\":[]}",
            "{\"a\":{}}",
            "{\"a\":1.5}",
            "{\"a\":1e5}",
            "{\"a\":01}",
            "{\"a\":-}",
            "{\"a\":nul}",
            "{\"a\":\"\\x\"}",
            "{\"a\":\"\\u12\"}",
            "{\"a\":\"\\ud800\"}",
            "{\"a\":\"\\ud800\\u0041\"}",
            "{\"a\":\"\\udc00\"}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"",
            "{\"a\\n\":1}",
            "{\"a\t\":1}",
            "{\"a\" 1}",
            "{a:1}",
            "{\"a\":\"b\\",
        ] {
            assert_eq!(members(json.as_bytes()), None, "{json}");
        }
        for bytes in [&b"{\"a\":\"\xff\"}"[..], b"{\"\xff\":1}", b"{\"a\":\"\xed\xa0\x80\"}", b"{\"a\":1}\0"] {
            assert_eq!(members(bytes), None, "{bytes:?}");
        }
    }

    /// The text of the first blocks, one escape after the other.
    fn unescaped(mut text: &[u8], n_bytes: usize) -> Vec<u8> {
        let (mut out, mut block) = (Vec::new(), [0; WRITTEN_BYTES]);
        while out.len() < n_bytes {
            let (n_written, end) = copy_block(text.first_chunk().expect("a block"), &mut block).expect("text");
            let BlockEnd::Block(n_read) = end else { panic!("not the end of a block") };
            out.extend_from_slice(&block[..n_written]);
            text = &text[n_read..];
        }
        out
    }

    proptest! {
        /// Both ways to unescape give the same text.
        #[test]
        fn blocks_are_unescaped_alike(pieces in proptest::collection::vec(
            prop::sample::select(vec!["a", "bc", "é", "€", "\\\"", "\\\\", "\\n", "\\/\\b\\f\\r\\t", "0123456789abcdef"]), 0..400),
            end in prop::sample::select(vec!["\"", "\\u00e9", "\\x", "\n", "\\é"]),
        ) {
            let mut text = pieces.concat().into_bytes();
            let n_before = text.len();
            text.extend_from_slice(end.as_bytes());
            text.resize(text.len() + SEEN_BYTES, b'y');
            let mut out = vec![0; PIECE_BYTES];
            let (n_read, n_written) = unescape_blocks(&text, &mut out);
            prop_assert!(n_read <= n_before, "the end is left");
            // An escape over the end of the last block is left as a whole.
            let n_left = n_before - n_read - usize::from(text[n_read] == b'\\' && n_before - n_read == BLOCK_BYTES);
            prop_assert!(n_read == 0 || n_left < BLOCK_BYTES || out.len() - n_written < BLOCK_BYTES);
            text.truncate(n_before);
            text.resize(n_before + SEEN_BYTES, b'y');
            out.truncate(n_written);
            prop_assert!(unescaped(&text, n_written).starts_with(&out));
        }

        /// What is read is what the general parser reads, whatever the bytes.
        #[test]
        fn as_the_general_parser_reads_it(
            texts in proptest::collection::vec(any::<String>(), 1..4),
            numbers in proptest::collection::vec(any::<i64>(), 0..3),
            is_pretty in any::<bool>(),
            damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        ) {
            let mut object = Map::new();
            for (n, text) in texts.iter().enumerate() {
                object.insert(format!("text{n}"), text.repeat(n * 40 + 1).into());
            }
            object.extend(numbers.iter().enumerate().map(|(n, number)| (format!("n{n}"), (*number).into())));
            let json = if is_pretty { serde_json::to_vec_pretty(&object) } else { serde_json::to_vec(&object) };
            let mut json = json.expect("JSON");
            prop_assert_eq!(members(&json), Some(object));
            for (at, byte) in damage {
                let at = at.index(json.len());
                json[at] = byte;
            }
            check(&json);
        }

        #[test]
        fn whatever_is_read_is_json(pieces in proptest::collection::vec(
            prop::sample::select(vec!["{", "}", "\"", "\\", "a", ":", ",", " ", "1", "-", "\\u", "d83d", "\\ude00", "\\\"", "null",
                "true", "\n", "é", "\"a\":", "\"b\"", "{\"c\":\"", "0", "."]), 0..14)) {
            check(pieces.concat().as_bytes());
        }
    }
}
