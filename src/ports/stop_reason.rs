//! Why a source or a sink stops the stream.

/// Why a source or a sink stops the stream, where somebody can act on it: each has an exit code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// None of the others; the message says what to do.
    Failed,
    /// Records were deleted before they were read.
    Overtaken,
    /// What is there now is not what the store was made from.
    Replaced,
    /// The output holds events that the store does not know: the store is an older copy, or another one.
    OldStore,
    /// Somebody read the input under our name before, and the store is new.
    NoStore,
    /// Another process has taken the output over.
    Fenced,
    /// Nobody answered for too long.
    Unreachable,
    /// Whoever was asked does not believe who we are: a wrong name or password.
    NotAuthenticated,
}
