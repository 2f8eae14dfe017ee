//! Texts of crawled pages and names of files, as a terminal may show them: none of them moves the cursor, paints or rings.

use std::borrow::Cow;

/// A text in which every control character but tabs and line ends is U+FFFD.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    replaced(text, |c| c.is_control() && !matches!(c, '\t' | '\n'))
}

/// A text for one line, in which every control character is U+FFFD.
pub(super) fn visible_line(text: &str) -> Cow<'_, str> {
    replaced(text, char::is_control)
}

fn replaced(text: &str, is_replaced: impl Fn(char) -> bool) -> Cow<'_, str> {
    match text.contains(&is_replaced) {
        true => Cow::Owned(text.replace(is_replaced, "\u{fffd}")),
        false => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        for (text, shown, line) in [
            ("rose été\u{a0}\u{202e}", "rose été\u{a0}\u{202e}", "rose été\u{a0}\u{202e}"),
            ("a\tb\nc", "a\tb\nc", "a\u{fffd}b\u{fffd}c"),
            (
                "\u{1b}[31m\u{7}\u{9b}2J\r\0\u{7f}",
                "\u{fffd}[31m\u{fffd}\u{fffd}2J\u{fffd}\u{fffd}\u{fffd}",
                "\u{fffd}[31m\u{fffd}\u{fffd}2J\u{fffd}\u{fffd}\u{fffd}",
            ),
        ] {
            assert_eq!((&*visible(text), &*visible_line(text)), (shown, line), "{text:?}");
        }
    }
}
