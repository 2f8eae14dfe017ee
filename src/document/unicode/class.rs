//! Character classes: what a character does to its word.

/// What a character does to its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::document) enum CharClass {
    /// Ends a word.
    Separator,
    /// Is dropped; the word continues.
    Ignored,
    /// A letter or digit: begins or continues a word.
    Letter,
    /// A letter or digit of a script without spaces: always begins a word.
    Alone,
    /// A letter that may compose with the one before it: a conjoining jamo.
    Joining,
    /// A mark that keeps its place and form.
    Mark,
    /// A mark that may trade places with other marks or compose with what precedes it.
    Combining,
    /// Stands for other characters; see [`special`](super::lookup::special).
    Special,
}
