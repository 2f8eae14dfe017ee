//! CENTER: clusters around centers, in one scan over sorted pairs (Haveliwala, Gionis and Indyk 2000, section 5).

/// Finds the center of every id. No cluster holds a chain: every member is similar to its center.
#[derive(Clone, Debug)]
pub struct Centers {
    /// The center of each id, or `NONE`.
    centers: Vec<u32>,
}

/// The center of an id that has none yet.
const NONE: u32 = u32::MAX;

impl Centers {
    /// Starts with the ids below `n`, at most 2^32 - 1, none of which has a center.
    pub fn new(n: u32) -> Self {
        Centers { centers: vec![NONE; n as usize] }
    }

    /// Takes the next of the similar pairs, which come both as (u, v) and as (v, u), sorted by u and by v. If u has no
    /// center it becomes one, and if v has none it joins the center u. Both are below the number of ids. The order of ids
    /// is the caller's and decides: ids that come first become centers.
    pub fn push(&mut self, u: u32, v: u32) {
        let center = &mut self.centers[u as usize];
        if *center == NONE {
            *center = u;
        }
        let is_center = *center == u;
        let joining = &mut self.centers[v as usize];
        if is_center && *joining == NONE {
            *joining = u;
        }
    }

    /// The center of each id: its own id if it is one, or if it is similar to none.
    pub fn finish(mut self) -> Vec<u32> {
        for (id, center) in (0..).zip(&mut self.centers) {
            if *center == NONE {
                *center = id;
            }
        }
        self.centers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn centers(n: u32, pairs: &BTreeSet<(u32, u32)>) -> Vec<u32> {
        let mut centers = Centers::new(n);
        pairs.iter().for_each(|(u, v)| centers.push(*u, *v));
        centers.finish()
    }

    fn both_ways(pairs: &[(u32, u32)]) -> BTreeSet<(u32, u32)> {
        pairs.iter().filter(|(u, v)| u != v).flat_map(|(u, v)| [(*u, *v), (*v, *u)]).collect()
    }

    /// The paper's words, slowly: the ids in order, each with all its neighbours.
    fn reference(n: u32, pairs: &BTreeSet<(u32, u32)>) -> Vec<u32> {
        let mut assigned = vec![None; n as usize];
        for u in 0..n {
            if assigned[u as usize].is_none() {
                assigned[u as usize] = Some(u);
                for v in (0..n).filter(|v| pairs.contains(&(u, *v))) {
                    assigned[v as usize].get_or_insert(u);
                }
            }
        }
        assigned.into_iter().flatten().collect()
    }

    #[test]
    fn a_chain_is_cut() {
        assert_eq!(centers(6, &both_ways(&[(0, 1), (1, 2), (2, 3), (3, 4)])), [0, 0, 2, 2, 4, 5]);
        assert_eq!(centers(5, &both_ways(&[(2, 4), (2, 0), (2, 1), (2, 3)])), [0, 1, 0, 3, 4]);
        assert!(centers(0, &BTreeSet::new()).is_empty());
    }

    proptest! {
        #[test]
        fn scans_agree_with_the_reference(
            (n, pairs) in (1u32..40).prop_flat_map(|n| (Just(n), proptest::collection::vec((0..n, 0..n), 0..120))),
        ) {
            let pairs = both_ways(&pairs);
            let found = centers(n, &pairs);
            prop_assert_eq!(&found, &reference(n, &pairs));
            for (id, center) in (0..n).zip(&found) {
                prop_assert_eq!(found[*center as usize], *center);
                prop_assert!(id == *center || pairs.contains(&(*center, id)));
            }
        }
    }
}
