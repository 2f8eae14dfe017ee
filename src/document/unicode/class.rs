//! Character classes: what a character does to the word it stands in.

/// What a character does to the word it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::document) enum CharClass {
    /// Ends a word.
    Separator,
    /// Is dropped, and the word goes on.
    Ignored,
    /// A letter or digit: begins a word or goes on with it.
    Letter,
    /// A letter or digit of a script without spaces: always begins a word.
    Alone,
    /// A letter that may make one character with the one before it: a conjoining jamo.
    Joining,
    /// A mark that stays where it is and as it is.
    Mark,
    /// A mark that may change places with other marks or make one character with those before it.
    Combining,
    /// Stands for the characters that [`special`] gives.
    Special,
}
