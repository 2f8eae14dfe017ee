//! How far the dead letters of each reason have been replayed: what a group's committed offset and its metadata say.

use crate::wire::Reason;
use std::collections::{BTreeMap, BTreeSet};

/// Which dead letters a replay takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReasonFilter {
    /// All but those that kill the program.
    AllButPoison,
    /// Those of these reasons.
    Reasons(BTreeSet<&'static str>),
}

impl ReasonFilter {
    /// Those of the reasons; where there are none, all but the poison ones.
    pub(super) fn new(reasons: &[Reason]) -> Self {
        if reasons.is_empty() {
            return ReasonFilter::AllButPoison;
        }
        ReasonFilter::Reasons(reasons.iter().map(|reason| reason.as_str()).collect())
    }

    /// Whether letters of this reason are among them.
    pub(super) fn includes(&self, reason: &str) -> bool {
        match self {
            ReasonFilter::AllButPoison => reason != Reason::Poison.as_str(),
            ReasonFilter::Reasons(reasons) => reasons.contains(reason),
        }
    }
}

/// For one partition of the dead letters and each reason, the offset of the first letter that no replay has dealt with.
///
/// One replay takes some reasons and another one others, so that a single offset would make the second one pass over
/// what the first left alone. The committed offset is the mark of most reasons, and the metadata names the others:
/// `poison=0 too-large=17`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ReplayMarks {
    most: i64,
    others: BTreeMap<String, i64>,
}

impl ReplayMarks {
    /// What was committed; parts of the metadata that are no marks count for nothing.
    pub(super) fn read(offset: i64, metadata: &str) -> Self {
        let mark = |part: &str| {
            let (reason, offset) = part.split_once('=')?;
            Some((reason.to_string(), offset.parse().ok()?))
        };
        ReplayMarks { most: offset, others: metadata.split(' ').filter_map(mark).collect() }
    }

    /// The offset to commit, and its metadata.
    pub(super) fn to_commit(&self) -> (i64, String) {
        let others: Vec<String> = self.others.iter().map(|(reason, offset)| format!("{reason}={offset}")).collect();
        (self.most, others.join(" "))
    }

    /// The mark of one reason.
    pub(super) fn of(&self, reason: &str) -> i64 {
        self.others.get(reason).copied().unwrap_or(self.most)
    }

    /// The least mark of the chosen ones: where reading begins.
    pub(super) fn first(&self, chosen: &ReasonFilter) -> i64 {
        match chosen {
            ReasonFilter::Reasons(reasons) => reasons.iter().map(|reason| self.of(reason)).min().unwrap_or(self.most),
            ReasonFilter::AllButPoison => {
                let others = self.others.iter().filter(|(reason, _)| chosen.includes(reason));
                others.map(|(_, offset)| *offset).fold(self.most, i64::min)
            }
        }
    }

    /// The greatest mark of all.
    pub(super) fn last(&self) -> i64 {
        self.others.values().copied().fold(self.most, i64::max)
    }

    /// Moves the marks of the chosen reasons to an offset, forwards or backwards.
    pub(super) fn set(&mut self, chosen: &ReasonFilter, offset: i64) {
        self.change(chosen, |_| offset);
    }

    /// Moves those marks of the chosen reasons to an offset that lie before it.
    pub(super) fn advance(&mut self, chosen: &ReasonFilter, offset: i64) {
        self.change(chosen, |mark| mark.max(offset));
    }

    fn change(&mut self, chosen: &ReasonFilter, to: impl Fn(i64) -> i64) {
        match chosen {
            ReasonFilter::Reasons(reasons) => {
                for reason in reasons {
                    self.others.insert((*reason).to_string(), to(self.of(reason)));
                }
            }
            ReasonFilter::AllButPoison => {
                let poison = Reason::Poison.as_str();
                self.others.insert(poison.to_string(), self.of(poison));
                self.others.iter_mut().filter(|(reason, _)| *reason != poison).for_each(|(_, mark)| *mark = to(*mark));
                self.most = to(self.most);
            }
        }
        self.others.retain(|_, mark| *mark != self.most);
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
        assert_eq!(marks.to_commit(), (0, "too-large=17".to_string()));
        assert_eq!((marks.first(&large), marks.first(&all), marks.last()), (17, 0, 17));
        marks.advance(&all, 10);
        assert_eq!(marks.to_commit(), (10, "poison=0 too-large=17".to_string()));
        assert_eq!(["too-large", "poison", "media-type"].map(|reason| marks.of(reason)), [17, 0, 10]);
        assert_eq!(marks.first(&ReasonFilter::new(&[Reason::Poison])), 0);
        marks.advance(&all, 20);
        assert_eq!(marks.to_commit(), (20, "poison=0".to_string()));
        marks.set(&large, 3);
        assert_eq!((marks.first(&all), marks.of("too-large")), (3, 3));
        marks.set(&all, 5);
        assert_eq!(marks.to_commit(), (5, "poison=0".to_string()));
        marks.advance(&ReasonFilter::new(&[Reason::Poison]), 5);
        assert_eq!(marks.to_commit(), (5, String::new()));
    }

    #[test]
    fn what_was_committed_is_read_again() {
        let marks = ReplayMarks::read(20, "poison=0 too-large=25");
        assert_eq!(marks.to_commit(), (20, "poison=0 too-large=25".to_string()));
        assert_eq!(ReplayMarks::read(7, "somebody else's = words"), ReplayMarks { most: 7, others: BTreeMap::new() });
    }
}
