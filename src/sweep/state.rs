//! The state of a URL: what its sightings add up to.

use super::sighting::{Observation, Seen};
use crate::document::{DocumentId, FetchTime};

/// The last page that was seen at a URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastCopy {
    /// When the page was last seen.
    pub fetched_at: FetchTime,
    /// The sweep that saw it.
    pub sweep: Option<String>,
    /// The document that it was.
    pub document: DocumentId,
}

impl LastCopy {
    /// The sighting that the copy comes from.
    pub fn moment(&self) -> Observation {
        Observation { fetched_at: self.fetched_at, seen: Seen::Document(self.document), sweep: self.sweep.clone() }
    }

    /// Returns the copy of a sighting; `None` if it saw no page.
    pub fn from_observation(moment: &Observation) -> Option<Self> {
        let document = moment.seen.document()?;
        Some(LastCopy { fetched_at: moment.fetched_at, sweep: moment.sweep.clone(), document })
    }
}

/// Returns the sightings of a history that count, oldest first. A `lost` mark does not count if its sweep saw the URL
/// after all, or if no page stood there when the sweep began: had everything come in time, closing the sweep would not
/// have set it.
pub fn counted(history: &[Observation]) -> Vec<&Observation> {
    let mut counted: Vec<&Observation> = history.iter().collect();
    counted.sort_unstable();
    let mut stands = false;
    counted.retain(|moment| {
        let contradicts = |other: &Observation| other.seen != Seen::Lost && other.sweep == moment.sweep;
        let counts = moment.seen != Seen::Lost || (stands && !history.iter().any(contradicts));
        if counts {
            stands = moment.seen.document().is_some();
        }
        counts
    });
    counted
}

/// The state of a URL. It depends on the set of its sightings, not on their order; only `found` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlState {
    /// The newest sighting.
    pub newest: Observation,
    /// The newest sighting of a page; `None` if there never was one.
    pub copy: Option<LastCopy>,
    /// A fingerprint of the URL's host.
    pub host: u64,
    /// Whether an event has already said where the last copy moved to.
    pub found: bool,
}

impl UrlState {
    /// Returns the state that a history gives; `None` if it is empty.
    pub fn from_history(history: &[Observation], host: u64) -> Option<Self> {
        let newest = counted(history).pop().or_else(|| history.iter().max())?.clone();
        let copy =
            history.iter().filter(|moment| moment.seen.document().is_some()).max().and_then(LastCopy::from_observation);
        Some(UrlState { newest, copy, host, found: false })
    }

    /// Returns the state after one more sighting. Returns `None` if the sighting comes late, is a `lost` mark,
    /// contradicts one, or is a page where none stood, from which on a later mark may count; then only the whole
    /// history gives the state.
    pub fn after(&self, moment: &Observation) -> Option<Self> {
        let is_contradicted = self.newest.seen == Seen::Lost && moment.sweep == self.newest.sweep;
        let comes_back = !self.is_alive() && moment.seen.document().is_some();
        if *moment <= self.newest || is_contradicted || comes_back || moment.seen == Seen::Lost {
            return None;
        }
        let copy = LastCopy::from_observation(moment);
        let found = self.found && copy.is_none();
        Some(UrlState { newest: moment.clone(), copy: copy.or_else(|| self.copy.clone()), host: self.host, found })
    }

    /// Whether the newest sighting is a page.
    pub fn is_alive(&self) -> bool {
        matches!(self.newest.seen, Seen::Document(_))
    }

    /// The last copy of a URL that is gone or lost, unless an event has already said where it moved to. A redirect
    /// names the place itself.
    pub fn missing_copy(&self) -> Option<&LastCopy> {
        let is_missing = matches!(self.newest.seen, Seen::Gone | Seen::Lost) && !self.found;
        self.copy.as_ref().filter(|_| is_missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn moment(time: i64, seen: Seen, sweep: u8) -> Observation {
        Observation { fetched_at: FetchTime(time), seen, sweep: (sweep > 0).then(|| sweep.to_string()) }
    }

    fn page(time: i64, document: u32, sweep: u8) -> Observation {
        moment(time, Seen::Document(DocumentId(document)), sweep)
    }

    #[test]
    fn a_lost_url_that_its_sweep_saw_after_all_is_not_lost() {
        let history = [page(1, 7, 1), moment(5, Seen::Lost, 2)];
        let lost = UrlState::from_history(&history, 0).expect("a state");
        assert_eq!(lost.missing_copy().map(|copy| copy.document), Some(DocumentId(7)));
        let late = page(4, 8, 2);
        assert_eq!(lost.after(&late), None, "the history must be asked");
        let state = UrlState::from_history(&[history[0].clone(), history[1].clone(), late], 0).expect("a state");
        assert!(state.is_alive() && state.missing_copy().is_none());
        assert_eq!(state.copy.map(|copy| copy.document), Some(DocumentId(8)));
    }

    #[test]
    fn a_mark_counts_only_where_a_page_stood() {
        let (before, mark) = (page(1, 7, 1), moment(5, Seen::Lost, 3));
        let newest = |history: &[&Observation]| {
            let history: Vec<Observation> = history.iter().map(|moment| (*moment).clone()).collect();
            UrlState::from_history(&history, 0).expect("a state").newest
        };
        for end in
            [moment(3, Seen::Gone, 2), moment(3, Seen::Lost, 2), moment(3, Seen::Redirect("http://b/".into()), 2)]
        {
            assert_eq!(newest(&[&before, &mark, &end]), end);
            // From a page between the two on, the mark counts again.
            let (back, later) = (page(4, 7, 0), page(6, 7, 0));
            assert_eq!(newest(&[&before, &mark, &end, &back]), mark);
            assert_eq!(newest(&[&before, &mark, &end, &later]), later);
        }
    }

    #[test]
    fn missing_urls() {
        let gone = UrlState::from_history(&[page(1, 7, 0), moment(2, Seen::Gone, 0)], 0).expect("a state");
        assert!(gone.missing_copy().is_some());
        assert!(UrlState { found: true, ..gone.clone() }.missing_copy().is_none());
        assert_eq!(gone.after(&page(3, 7, 0)), None, "the history must be asked");
        let redirect = gone.after(&moment(3, Seen::Redirect("http://b/".into()), 0)).expect("later");
        assert!(redirect.missing_copy().is_none(), "a redirect says where it went");
        assert!(UrlState::from_history(&[moment(2, Seen::Gone, 0)], 0).expect("a state").missing_copy().is_none());
    }

    #[test]
    fn a_later_moment_has_a_later_time_and_another_sweep() {
        assert!(page(2, 1, 2).is_later_than(&page(1, 1, 1)));
        assert!(!page(2, 1, 1).is_later_than(&page(1, 1, 1)), "of one sweep");
        assert!(page(2, 1, 0).is_later_than(&page(1, 1, 0)), "without sweeps time decides");
        assert!(!page(1, 1, 2).is_later_than(&page(1, 1, 1)));
    }

    proptest! {
        /// The same sightings in any order give the same state, step by step or at once.
        #[test]
        fn the_state_does_not_depend_on_the_order(
            history in prop::collection::vec((0i64..12, 0u32..6, 0u8..4), 1..12),
            order in any::<prop::sample::Index>(),
        ) {
            let mut history: Vec<Observation> = history.into_iter().map(|(time, what, sweep)| match what {
                0 => moment(time, Seen::Gone, sweep),
                1 => moment(time, Seen::Lost, sweep),
                2 => moment(time, Seen::Redirect("http://b/".into()), sweep),
                document => page(time, document, sweep),
            }).collect();
            let at_once = UrlState::from_history(&history, 3);
            let n = order.index(history.len());
            history.rotate_left(n);
            let mut state: Option<UrlState> = None;
            for end in 1..=history.len() {
                let quick = state.as_ref().and_then(|state| state.after(&history[end - 1]));
                let slow = UrlState::from_history(&history[..end], 3);
                if let Some(quick) = quick {
                    prop_assert_eq!(Some(&quick), slow.as_ref());
                }
                state = slow;
            }
            prop_assert_eq!(state, at_once);
        }
    }
}
