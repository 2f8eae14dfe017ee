//! How far the dead letters of each reason have been replayed: what a group's committed offset and its metadata say.

use crate::wire::Reason;
use std::collections::{BTreeMap, BTreeSet};

/// Which dead letters a replay takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Chosen {
    /// All but those that kill the program.
    AllButDeadly,
    /// Those of these reasons.
    Reasons(BTreeSet<&'static str>),
}

impl Chosen {
    /// Those of the reasons; where there are none, all but the deadly ones.
    pub(super) fn new(reasons: &[Reason]) -> Self {
        if reasons.is_empty() {
            return Chosen::AllButDeadly;
        }
        Chosen::Reasons(reasons.iter().map(|reason| reason.as_str()).collect())
    }

    /// Whether letters of this reason are among them.
    pub(super) fn includes(&self, reason: &str) -> bool {
        match self {
            Chosen::AllButDeadly => reason != Reason::Deadly.as_str(),
            Chosen::Reasons(reasons) => reasons.contains(reason),
        }
    }
}

/// For one partition of the dead letters and each reason, the offset of the first letter that no replay has dealt with.
///
/// One replay takes some reasons and another one others, so that a single offset would make the second one pass over
/// what the first left alone. The committed offset is the mark of most reasons, and the metadata names the others:
/// `deadly=0 too-large=17`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Marks {
    most: i64,
    others: BTreeMap<String, i64>,
}

impl Marks {
    /// What was committed; parts of the metadata that are no marks count for nothing.
    pub(super) fn read(offset: i64, metadata: &str) -> Self {
        let mark = |part: &str| {
            let (reason, offset) = part.split_once('=')?;
            Some((reason.to_string(), offset.parse().ok()?))
        };
        Marks { most: offset, others: metadata.split(' ').filter_map(mark).collect() }
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
    pub(super) fn first(&self, chosen: &Chosen) -> i64 {
        match chosen {
            Chosen::Reasons(reasons) => reasons.iter().map(|reason| self.of(reason)).min().unwrap_or(self.most),
            Chosen::AllButDeadly => {
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
    pub(super) fn set(&mut self, chosen: &Chosen, offset: i64) {
        self.change(chosen, |_| offset);
    }

    /// Moves those marks of the chosen reasons to an offset that lie before it.
    pub(super) fn advance(&mut self, chosen: &Chosen, offset: i64) {
        self.change(chosen, |mark| mark.max(offset));
    }

    fn change(&mut self, chosen: &Chosen, to: impl Fn(i64) -> i64) {
        match chosen {
            Chosen::Reasons(reasons) => {
                for reason in reasons {
                    self.others.insert((*reason).to_string(), to(self.of(reason)));
                }
            }
            Chosen::AllButDeadly => {
                let deadly = Reason::Deadly.as_str();
                self.others.insert(deadly.to_string(), self.of(deadly));
                self.others.iter_mut().filter(|(reason, _)| *reason != deadly).for_each(|(_, mark)| *mark = to(*mark));
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
        let (all, large) = (Chosen::new(&[]), Chosen::new(&[Reason::TooLarge]));
        let mut marks = Marks::default();
        marks.advance(&large, 17);
        assert_eq!(marks.to_commit(), (0, "too-large=17".to_string()));
        assert_eq!((marks.first(&large), marks.first(&all), marks.last()), (17, 0, 17));
        marks.advance(&all, 10);
        assert_eq!(marks.to_commit(), (10, "deadly=0 too-large=17".to_string()));
        assert_eq!(["too-large", "deadly", "media-type"].map(|reason| marks.of(reason)), [17, 0, 10]);
        assert_eq!(marks.first(&Chosen::new(&[Reason::Deadly])), 0);
        marks.advance(&all, 20);
        assert_eq!(marks.to_commit(), (20, "deadly=0".to_string()));
        marks.set(&large, 3);
        assert_eq!((marks.first(&all), marks.of("too-large")), (3, 3));
        marks.set(&all, 5);
        assert_eq!(marks.to_commit(), (5, "deadly=0".to_string()));
        marks.advance(&Chosen::new(&[Reason::Deadly]), 5);
        assert_eq!(marks.to_commit(), (5, String::new()));
    }

    #[test]
    fn what_was_committed_is_read_again() {
        let marks = Marks::read(20, "deadly=0 too-large=25");
        assert_eq!(marks.to_commit(), (20, "deadly=0 too-large=25".to_string()));
        assert_eq!(Marks::read(7, "somebody else's = words"), Marks { most: 7, others: BTreeMap::new() });
    }
}
