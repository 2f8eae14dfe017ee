//! A tag with its attributes, as bytes.

use memchr::memchr;

/// A tag. As an iterator it yields the names and values of its attributes.
pub(super) struct Tag<'h> {
    name: &'h [u8],
    /// The bytes not read yet; `None` if the tag does not end.
    rest: Option<&'h [u8]>,
    is_at_end: bool,
}

impl<'h> Tag<'h> {
    /// Reads a tag from the first letter of its name.
    pub(super) fn read(bytes: &'h [u8]) -> Self {
        let (name, rest) = split_at(bytes, |b| is_space(b) || matches!(b, b'/' | b'>'));
        Tag { name, rest: Some(rest), is_at_end: false }
    }

    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// The value of the first attribute of this name, whatever its case.
    pub(super) fn attribute(mut self, name: &str) -> Option<&'h [u8]> {
        self.find(|(found, _)| found.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value)
    }

    /// The bytes after the tag's `>`.
    pub(super) fn after(mut self) -> Option<&'h [u8]> {
        self.by_ref().for_each(drop);
        self.rest
    }
}

impl<'h> Iterator for Tag<'h> {
    type Item = (&'h [u8], &'h [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_at_end {
            return None;
        }
        let (_, rest) = split_at(self.rest.take()?, |b| !is_space(b) && b != b'/');
        if let Some((b'>', rest)) = rest.split_first() {
            (self.rest, self.is_at_end) = (Some(rest), true);
            return None;
        }
        // An `=` right at the beginning belongs to the name.
        let (_, name_rest) = rest.split_first()?;
        let (more, after_name) = split_at(name_rest, |b| is_space(b) || matches!(b, b'/' | b'>' | b'='));
        let name = &rest[..1 + more.len()];
        let Some(value) = after_name.trim_ascii_start().strip_prefix(b"=").map(<[u8]>::trim_ascii_start) else {
            self.rest = Some(after_name);
            return Some((name, b""));
        };
        let (value, rest) = match value.first()? {
            b'"' | b'\'' => quoted(value).map(|text| (text, &value[text.len() + 2..]))?,
            _ => split_at(value, |b| is_space(b) || b == b'>'),
        };
        self.rest = Some(rest);
        Some((name, value))
    }
}

/// The text between the quotes that `text` begins with.
pub(super) fn quoted(text: &[u8]) -> Option<&[u8]> {
    let (quote, rest) = text.split_first().filter(|(first, _)| matches!(first, b'"' | b'\''))?;
    memchr(*quote, rest).map(|end| &rest[..end])
}

/// Splits before the first byte for which `is_stop` holds.
pub(super) fn split_at(bytes: &[u8], is_stop: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().position(|b| is_stop(*b)).unwrap_or(bytes.len()))
}

pub(super) fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace()
}
