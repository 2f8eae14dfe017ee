//! Why a source or a sink stops the stream.

/// Why a source or a sink stops the stream. Each reason that a user can act on has its own exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Any other failure; the message says what to do.
    Failed,
    /// The command line or the settings ask for what does not exist.
    Usage,
    /// Records were deleted before they were read.
    Overtaken,
    /// The input is not the one that the store was built from.
    Replaced,
    /// The output holds events that the store does not know: the store is an older copy, or a different store.
    OldStore,
    /// The consumer group has committed offsets, but the store is new.
    NoStore,
    /// Another process has taken over the output.
    Fenced,
    /// The peer did not answer in time.
    Unreachable,
    /// The peer rejected our credentials.
    NotAuthenticated,
    /// Sketched records are missing from the topic of sketches.
    Hole,
    /// Records were sketched under other settings, or by another version of the program.
    OtherSketches,
    /// The events that the store gives are not those that are published.
    Diverged,
    /// Published events did not come from pages, or their pages are no longer there: the store cannot follow them.
    NotFollowed,
}
