//! Which fragments about a URL count: a sample that no order changes, and that no host or template floods.

use super::rule::RelatedRule;
use crate::document::{Seed, host_key};

/// What tells fragments about one URL apart, in the order in which they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FragmentKey {
    /// 32 bits of the fingerprint of the host that says it.
    pub host: u32,
    /// 64 bits of the fingerprint of what it says.
    pub said: u64,
}

/// Makes the keys of what one page says.
pub struct FragmentKeys<'p> {
    page: &'p str,
    host: u32,
    are_distinct: bool,
    seed: Seed,
}

impl<'p> FragmentKeys<'p> {
    /// Keys of the page at a URL.
    pub fn new(page: &'p str, rule: &RelatedRule, seed: &Seed) -> Self {
        let host = host_key(seed, page) as u32;
        FragmentKeys { page, host, are_distinct: rule.per_host_max == 0, seed: *seed }
    }

    /// The host in all of them.
    pub fn host(&self) -> u32 {
        self.host
    }

    /// The key of words that the page says. The same words from one host are one fragment; where the rule sets no limit a
    /// host, each page and each place on it has one of its own, as in the paper.
    pub fn key(&self, place: usize, words: &str) -> FragmentKey {
        let place = if self.are_distinct { format!("{place} {}", self.page) } else { String::new() };
        let said = self.seed.fingerprint("fragment", &[words.as_bytes(), place.as_bytes()]);
        FragmentKey { host: self.host, said: said.0 as u64 }
    }
}

/// The share of each host in the fragments about one URL: its smallest ones.
#[derive(Clone, Copy, Debug)]
pub struct HostShares {
    per_host_max: usize,
    host: Option<u32>,
    n_of_host: usize,
}

impl HostShares {
    /// Shares of so many fragments; 0: all count.
    pub fn new(per_host_max: usize) -> Self {
        HostShares { per_host_max, host: None, n_of_host: 0 }
    }

    /// Whether the next fragment belongs to its host's share. Keys come sorted.
    pub fn admits(&mut self, key: FragmentKey) -> bool {
        if self.host.replace(key.host) != Some(key.host) {
            self.n_of_host = 0;
        }
        self.n_of_host += 1;
        self.per_host_max == 0 || self.n_of_host <= self.per_host_max
    }
}

/// Returns which of the fragments about a URL count, by their places: the share of each host, and of these the
/// `per_target_max` smallest. `keys` are sorted.
pub fn sample(keys: &[FragmentKey], rule: &RelatedRule) -> Vec<usize> {
    let mut shares = HostShares::new(rule.per_host_max);
    let mut kept: Vec<usize> = (0..keys.len()).filter(|at| shares.admits(keys[*at])).collect();
    let most = rule.per_target_max;
    if most > 0 && kept.len() > most {
        kept.sort_unstable_by_key(|at| (keys[*at].said, *at));
        kept.truncate(most);
        kept.sort_unstable();
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(of: &[(u32, u64)]) -> Vec<FragmentKey> {
        of.iter().map(|(host, said)| FragmentKey { host: *host, said: *said }).collect()
    }

    #[test]
    fn no_host_and_no_url_takes_more_than_its_share() {
        let keys = keys(&[(1, 10), (1, 20), (1, 30), (2, 5), (3, 1), (3, 40)]);
        let kept = |per_host_max, per_target_max| {
            sample(&keys, &RelatedRule { per_host_max, per_target_max, ..RelatedRule::default() })
        };
        assert_eq!(kept(2, 9), [0, 1, 3, 4, 5]);
        assert_eq!(kept(1, 2), [3, 4]);
        assert_eq!(kept(0, 0), [0, 1, 2, 3, 4, 5]);
        assert_eq!(kept(0, 1), [4]);
    }

    #[test]
    fn one_host_says_the_same_once() {
        let (rule, seed) = (RelatedRule::default(), Seed([1, 2, 3, 4]));
        let key = |page, place, words| FragmentKeys::new(page, &rule, &seed).key(place, words);
        assert_eq!(key("http://a/1", 0, "red rose"), key("http://a/2", 7, "red rose"));
        assert_ne!(key("http://a/1", 0, "red rose"), key("http://b/1", 0, "red rose"));
        assert_ne!(key("http://a/1", 0, "red rose"), key("http://a/1", 0, "rose"));
        let all = RelatedRule { per_host_max: 0, ..rule };
        let key = |page, place| FragmentKeys::new(page, &all, &seed).key(place, "red rose");
        assert_ne!(key("http://a/1", 0), key("http://a/1", 1));
        assert_ne!(key("http://a/1", 0), key("http://a/2", 0));
    }
}
