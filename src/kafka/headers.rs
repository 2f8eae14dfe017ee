//! The names of the headers of outgoing messages.

/// The header that holds an event's sequence number, in decimal.
pub const SEQ_HEADER: &str = "lookalike-seq";

/// The header that holds the id of the store that the event came from. It and the sequence number are the event's id.
pub const STORE_HEADER: &str = "lookalike-store";

/// The header that holds the version of the event format ([`crate::wire::WIRE_VERSION`]), in decimal.
pub const VERSION_HEADER: &str = "lookalike-version";

/// The headers of a dead letter, in addition to those of the original message.
pub mod dead_letter {
    /// The topic of the original message.
    pub const SOURCE: &str = "lookalike-source";
    /// Its partition.
    pub const PARTITION: &str = "lookalike-partition";
    /// Its offset.
    pub const OFFSET: &str = "lookalike-offset";
    /// The reason of the rejection, as one word.
    pub const REASON: &str = "lookalike-reason";
    /// The reason in full, for people.
    pub const MESSAGE: &str = "lookalike-message";
    /// The part that the dead letter lacks: `value` if it is too large, `headers` if they are unreadable, `all` (key,
    /// value and headers) if the letter is too large without its value, too.
    pub const LEFT_OUT: &str = "lookalike-left-out";
}
