//! How far the dead letters of each reason have been replayed, as a committed offset and its metadata.

use crate::wire::Reason;
use std::collections::{BTreeMap, BTreeSet};

/// Selects the dead letters to replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReasonFilter {
    /// All letters except those that crashed the program.
    AllButPoison,
    /// The letters of these reasons.
    Reasons(BTreeSet<&'static str>),
}

impl ReasonFilter {
    /// Selects these reasons; an empty list selects all but [`Reason::Poison`].
    pub(super) fn new(reasons: &[Reason]) -> Self {
        if reasons.is_empty() {
            return ReasonFilter::AllButPoison;
        }
        ReasonFilter::Reasons(reasons.iter().map(|reason| reason.as_str()).collect())
    }

    /// Whether the filter selects letters of this reason.
    pub(super) fn includes(&self, reason: &str) -> bool {
        match self {
            ReasonFilter::AllButPoison => reason != Reason::Poison.as_str(),
            ReasonFilter::Reasons(reasons) => reasons.contains(reason),
        }
    }
}

/// For one partition of the dead letters, the offset of the first unprocessed letter of each reason.
///
/// Replays may select different reasons, so a single offset would make one replay skip the letters that an earlier
/// one left. The committed offset is the mark of most reasons; the metadata lists the exceptions:
/// `poison=0 too-large=17`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplayMarks {
    default_mark: i64,
    exceptions: BTreeMap<String, i64>,
}

impl ReplayMarks {
    /// Decodes a committed offset and its metadata; ignores parts of the metadata that are no marks.
    pub(super) fn decode(offset: i64, metadata: &str) -> Self {
        let mark = |part: &str| {
            let (reason, offset) = part.split_once('=')?;
            Some((reason.to_string(), offset.parse().ok()?))
        };
        ReplayMarks { default_mark: offset, exceptions: metadata.split(' ').filter_map(mark).collect() }
    }

    /// Encodes the marks as the offset to commit, and its metadata.
    pub(super) fn encode(&self) -> (i64, String) {
        let exceptions: Vec<String> =
            self.exceptions.iter().map(|(reason, offset)| format!("{reason}={offset}")).collect();
        (self.default_mark, exceptions.join(" "))
    }

    /// The mark of a reason.
    pub(super) fn mark_of(&self, reason: &str) -> i64 {
        self.exceptions.get(reason).copied().unwrap_or(self.default_mark)
    }

    /// The lowest mark of the selected reasons: the offset at which reading begins.
    pub(super) fn lowest(&self, filter: &ReasonFilter) -> i64 {
        match filter {
            ReasonFilter::Reasons(reasons) => {
                reasons.iter().map(|reason| self.mark_of(reason)).min().unwrap_or(self.default_mark)
            }
            ReasonFilter::AllButPoison => {
                let exceptions = self.exceptions.iter().filter(|(reason, _)| filter.includes(reason));
                exceptions.map(|(_, offset)| *offset).fold(self.default_mark, i64::min)
            }
        }
    }

    /// The highest mark of any reason.
    pub(super) fn highest(&self) -> i64 {
        self.exceptions.values().copied().fold(self.default_mark, i64::max)
    }

    /// Sets the marks of the selected reasons, forwards or backwards.
    pub(super) fn set(&mut self, filter: &ReasonFilter, offset: i64) {
        self.update(filter, |_| offset);
    }

    /// Raises the marks of the selected reasons to an offset; never lowers one.
    pub(super) fn advance(&mut self, filter: &ReasonFilter, offset: i64) {
        self.update(filter, |mark| mark.max(offset));
    }

    fn update(&mut self, filter: &ReasonFilter, to: impl Fn(i64) -> i64) {
        match filter {
            ReasonFilter::Reasons(reasons) => {
                for reason in reasons {
                    self.exceptions.insert((*reason).to_string(), to(self.mark_of(reason)));
                }
            }
            ReasonFilter::AllButPoison => {
                let poison = Reason::Poison.as_str();
                self.exceptions.insert(poison.to_string(), self.mark_of(poison));
                self.exceptions
                    .iter_mut()
                    .filter(|(reason, _)| *reason != poison)
                    .for_each(|(_, mark)| *mark = to(*mark));
                self.default_mark = to(self.default_mark);
            }
        }
        self.exceptions.retain(|_, mark| *mark != self.default_mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_a_mark_of_its_own() {
        let (all, large) = (ReasonFilter::new(&[]), ReasonFilter::new(&[Reason::TooLarge]));
        let mut marks = ReplayMarks::default();
        marks.advance(&large, 17);
        assert_eq!(marks.encode(), (0, "too-large=17".to_string()));
        assert_eq!((marks.lowest(&large), marks.lowest(&all), marks.highest()), (17, 0, 17));
        marks.advance(&all, 10);
        assert_eq!(marks.encode(), (10, "poison=0 too-large=17".to_string()));
        assert_eq!(["too-large", "poison", "media-type"].map(|reason| marks.mark_of(reason)), [17, 0, 10]);
        assert_eq!(marks.lowest(&ReasonFilter::new(&[Reason::Poison])), 0);
        marks.advance(&all, 20);
        assert_eq!(marks.encode(), (20, "poison=0".to_string()));
        marks.set(&large, 3);
        assert_eq!((marks.lowest(&all), marks.mark_of("too-large")), (3, 3));
        marks.set(&all, 5);
        assert_eq!(marks.encode(), (5, "poison=0".to_string()));
        marks.advance(&ReasonFilter::new(&[Reason::Poison]), 5);
        assert_eq!(marks.encode(), (5, String::new()));
    }

    #[test]
    fn committed_marks_survive_a_round_trip() {
        let marks = ReplayMarks::decode(20, "poison=0 too-large=25");
        assert_eq!(marks.encode(), (20, "poison=0 too-large=25".to_string()));
        assert_eq!(
            ReplayMarks::decode(7, "somebody else's = words"),
            ReplayMarks { default_mark: 7, exceptions: BTreeMap::new() }
        );
    }
}
