//! Selections of sightings: by URL, host, time and sweep.

use super::sighting::{Observation, Seen};
use crate::document::{FetchTime, host_of};
use std::collections::HashSet;

/// Which sightings are selected: those that meet every condition. One that is not given is met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// At one of these URLs, or on one of the hosts; both empty: at any URL.
    pub urls: HashSet<String>,
    /// On one of these hosts, with their port if their URLs have one, or at one of the URLs.
    pub hosts: HashSet<String>,
    /// Fetched before this time.
    pub before: Option<FetchTime>,
    /// Seen by this sweep.
    pub sweep: Option<String>,
}

impl Selection {
    /// Whether there is no condition, so that everything is selected.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Whether sightings at this URL may be selected.
    pub fn covers(&self, url: &str) -> bool {
        let is_any = self.urls.is_empty() && self.hosts.is_empty();
        is_any || self.urls.contains(url) || self.hosts.contains(host_of(url))
    }

    /// Splits the history of a URL that the selection covers: what is selected, and what is left. A mark of loss tells of a
    /// page, and is selected where no page is left.
    pub fn split(&self, history: Vec<Observation>) -> (Vec<Observation>, Vec<Observation>) {
        let (mut selected, mut left): (Vec<_>, Vec<_>) = history.into_iter().partition(|moment| self.has(moment));
        if !selected.is_empty() && left.iter().all(|moment| moment.seen.document().is_none()) {
            let marks: Vec<_>;
            (marks, left) = left.into_iter().partition(|moment| moment.seen == Seen::Lost);
            selected.extend(marks);
        }
        (selected, left)
    }

    fn has(&self, moment: &Observation) -> bool {
        self.before.is_none_or(|before| moment.fetched_at < before)
            && self.sweep.as_ref().is_none_or(|sweep| moment.sweep.as_ref() == Some(sweep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::DocumentId;

    fn moment(time: i64, seen: Seen, sweep: &str) -> Observation {
        Observation { fetched_at: FetchTime(time), seen, sweep: Some(sweep.into()) }
    }

    #[test]
    fn urls_and_hosts_are_alternatives() {
        let selection = Selection {
            urls: ["http://a.example/x".into()].into(),
            hosts: ["b.example:8080".into()].into(),
            ..Selection::default()
        };
        for (url, is_covered) in [
            ("http://a.example/x", true),
            ("http://a.example/y", false),
            ("https://b.example:8080/y", true),
            ("https://b.example/y", false),
        ] {
            assert_eq!(selection.covers(url), is_covered, "{url}");
        }
        assert!(Selection::default().covers("http://c.example/") && Selection::default().is_everything());
    }

    #[test]
    fn all_other_conditions_must_be_met() {
        let page = |time, sweep| moment(time, Seen::Document(DocumentId(1)), sweep);
        let history = vec![page(1, "a"), page(2, "b"), page(3, "a")];
        let split = |before: Option<i64>, sweep: Option<&str>| {
            let selection =
                Selection { before: before.map(FetchTime), sweep: sweep.map(String::from), ..Selection::default() };
            let (selected, left) = selection.split(history.clone());
            assert_eq!(selected.len() + left.len(), history.len());
            selected.into_iter().map(|moment| moment.fetched_at.0).collect::<Vec<_>>()
        };
        assert_eq!(split(None, None), [1, 2, 3]);
        assert_eq!(split(Some(3), None), [1, 2]);
        assert_eq!(split(None, Some("a")), [1, 3]);
        assert_eq!(split(Some(3), Some("a")), [1]);
    }

    /// Lost if this fails: a URL whose pages are all forgotten would stay in the store as a lost one, without a copy.
    #[test]
    fn a_mark_of_loss_goes_with_the_last_page() {
        let history = vec![moment(1, Seen::Document(DocumentId(1)), "a"), moment(5, Seen::Lost, "b")];
        let selection = Selection { before: Some(FetchTime(2)), ..Selection::default() };
        assert_eq!(selection.split(history.clone()), (history.clone(), vec![]));
        let gone = moment(4, Seen::Gone, "b");
        let all = [history.clone(), vec![gone.clone()]].concat();
        assert_eq!(selection.split(all), (history.clone(), vec![gone]));
        let nothing = Selection { before: Some(FetchTime(0)), ..Selection::default() };
        assert_eq!(nothing.split(history.clone()).0, vec![]);
    }
}
