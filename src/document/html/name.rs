//! Tag names as numbers, so that one comparison recognises a tag.

/// A lower-case tag name, packed into two numbers. All names longer than the longest known one are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TagName {
    head: u64,
    tail: u64,
}

/// The longest name that is distinguished from others.
const NAME_LEN_MAX: usize = 16;

impl TagName {
    /// Reads the name at the beginning of `bytes`, up to a space, `/`, `>` or the end of the page. Returns its
    /// length too.
    pub(super) fn read(bytes: &[u8]) -> (Self, usize) {
        if let Some(chunk) = bytes.first_chunk() {
            let word = u64::from_le_bytes(*chunk);
            let len = n_name_bytes(word);
            if len < 8 && is_name_end(chunk[len]) {
                // Letters become lower-case, digits stay, and no other character becomes a letter or digit.
                let head = (word | repeated(0x20)) & ((1 << (8 * len)) - 1);
                return (Self { head, tail: 0 }, len);
            }
        }
        let len = bytes.iter().position(|b| is_name_end(*b)).unwrap_or(bytes.len());
        (Self::from_bytes(&bytes[..len]), len)
    }

    pub(super) const fn from_bytes(name: &[u8]) -> Self {
        let mut packed = Self { head: 0, tail: 0 };
        let mut i = 0;
        while i < name.len() && name.len() <= NAME_LEN_MAX {
            let byte = (name[i].to_ascii_lowercase() as u64) << (8 * (i % 8));
            if i < 8 {
                packed.head |= byte;
            } else {
                packed.tail |= byte;
            }
            i += 1;
        }
        packed
    }

    pub(super) const fn hash(self) -> u64 {
        (self.head ^ self.tail.rotate_left(29)).wrapping_mul(0x090b_20bb_257e_8455)
    }
}

/// The number of bytes before the first that is `>` or below `0`, which includes all that end a name. The top bit
/// of a byte is set where the subtraction borrowed; only bytes above the first such one can be set wrongly.
fn n_name_bytes(word: u64) -> usize {
    let gt = word ^ repeated(b'>');
    let is_gt = gt.wrapping_sub(repeated(1)) & !gt;
    let is_low = word.wrapping_sub(repeated(b'0')) & !word;
    ((is_gt | is_low) & repeated(0x80)).trailing_zeros() as usize / 8
}

const fn repeated(byte: u8) -> u64 {
    u64::from_le_bytes([byte; 8])
}

/// Whether a tag's name ends before this byte.
pub(super) fn is_name_end(byte: u8) -> bool {
    matches!(byte, b'>' | b'/') || is_space(byte)
}

/// Whether the byte separates the parts of a tag. A carriage return counts as a line feed.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\x0c' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_end_where_the_standard_says() {
        for (bytes, name) in [
            ("p>", "p"),
            ("DIV class", "div"),
            ("h1/><a></a>", "h1"),
            ("a-b>        ", "a-b"),
            ("textarea>   ", "textarea"),
            ("blockquote\r\n", "blockquote"),
            ("a\"b=c>      ", "a\"b=c"),
            ("p", "p"),
        ] {
            assert_eq!(TagName::read(bytes.as_bytes()), (TagName::from_bytes(name.as_bytes()), name.len()), "{bytes}");
        }
        let (long, len) = TagName::read(b"a-name-of-seventeen-letters>");
        assert_eq!((long, len), (TagName::default(), 27));
    }

    proptest! {
        #[test]
        fn a_word_at_a_time_is_byte_by_byte(bytes in "[a-zA-Z][a-zA-Z0-9 />@\\[`_\"=&\u{0}-\u{20}é-]{0,12}") {
            let len = bytes.bytes().position(is_name_end).unwrap_or(bytes.len());
            let (name, read_len) = TagName::read(bytes.as_bytes());
            prop_assert_eq!(read_len, len);
            if bytes.as_bytes()[..len].iter().all(u8::is_ascii_alphanumeric) {
                prop_assert_eq!(name, TagName::from_bytes(&bytes.as_bytes()[..len]));
            }
        }
    }
}
