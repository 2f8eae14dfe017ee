//! Sweeps: dated crawls, named by the crawler or cut by date.

use crate::document::FetchTime;
use serde::{Deserialize, Serialize};

/// How to assign a sweep to pages that name none, by the date (UTC) of fetching.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SweepCut {
    /// The pages belong to no sweep.
    #[default]
    None,
    /// `2026-11-21`
    Day,
    /// The ISO week: `2026-W47`
    Week,
    /// `2026-11`
    Month,
    /// `2026`
    Year,
}

impl SweepCut {
    /// Returns the name of the sweep that contains a moment. The names of one cut sort by date.
    pub fn name(self, time: FetchTime) -> Option<String> {
        let date = |time: FetchTime| time.in_utc().map(|time| time.date());
        match self {
            SweepCut::None => None,
            SweepCut::Day => date(time).map(|date| date.to_string()),
            SweepCut::Week => {
                let week = date(time)?.iso_week_date();
                Some(format!("{:04}-W{:02}", week.year(), week.week()))
            }
            SweepCut::Month => date(time).map(|date| format!("{:04}-{:02}", date.year(), date.month())),
            SweepCut::Year => date(time).map(|date| format!("{:04}", date.year())),
        }
    }
}

/// The counts of one sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepRow {
    /// When its first page was fetched.
    pub first: FetchTime,
    /// When its last page was fetched.
    pub last: FetchTime,
    /// Pages that the sweep saw.
    pub n_pages: u64,
    /// URLs that the sweep found gone or redirected.
    pub n_gone: u64,
    /// Whether the sweep is closed.
    pub is_closed: bool,
    /// URLs that the sweep should have seen and did not, counted when they were marked.
    pub n_lost: u64,
}

impl SweepRow {
    /// Creates a sweep from its first sighting.
    pub fn begun(at: FetchTime) -> Self {
        SweepRow { first: at, last: at, n_pages: 0, n_gone: 0, is_closed: false, n_lost: 0 }
    }

    /// Counts a sighting.
    pub fn count(&mut self, at: FetchTime, is_page: bool) {
        self.first = self.first.min(at);
        self.last = self.last.max(at);
        if is_page {
            self.n_pages += 1;
        } else {
            self.n_gone += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_are_cut_by_date() {
        for (time, names) in [
            ("2026-11-21T23:59:59.9Z", ["2026-11-21", "2026-W47", "2026-11", "2026"]),
            ("2027-01-01T00:00:00Z", ["2027-01-01", "2026-W53", "2027-01", "2027"]),
            ("2027-01-01T01:00:00+02:00", ["2026-12-31", "2026-W53", "2026-12", "2026"]),
        ] {
            let time = time.parse().expect("a time");
            let cuts = [SweepCut::Day, SweepCut::Week, SweepCut::Month, SweepCut::Year];
            assert_eq!(cuts.map(|cut| cut.name(time).expect("a name")), names);
            assert_eq!(SweepCut::None.name(time), None);
        }
    }
}
