//! The rows of `champions`: under each term the URLs that it leads to, many in a row, because a query reads thousands.

use super::open::RocksStore;
use super::rocks_error::{damaged, failed};
use super::schema::{self, cf};
use crate::ports::StoreError;
use crate::related::{Target, Term};
use rocksdb::WriteBatch;
use std::collections::BTreeSet;

/// URLs in a row, at most.
const ROW_URLS: usize = 256;

/// URLs of one weight under one term that belong into one row, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChampionRow {
    term: Term,
    weight: u8,
    targets: Vec<Target>,
}

impl ChampionRow {
    /// A row with one URL.
    pub fn new(term: Term, weight: u8, target: Target) -> Self {
        ChampionRow { term, weight, targets: vec![target] }
    }

    /// Adds the next URL; false where it belongs into the next row.
    pub fn push(&mut self, term: Term, weight: u8, target: Target) -> bool {
        let has_room = (self.term, self.weight) == (term, weight) && self.targets.len() < ROW_URLS;
        if has_room {
            self.targets.push(target);
        }
        has_room
    }

    /// Its key and value; `None` where it has no URLs.
    pub fn encode(&self) -> Option<(Vec<u8>, Vec<u8>)> {
        let (first, others) = self.targets.split_first()?;
        let row = others.iter().flat_map(|target| target.0.to_be_bytes()).collect();
        Some((schema::champion_key(self.term, self.weight, *first), row))
    }
}

/// A URL that comes under a term, or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ChampionChange {
    pub term: Term,
    pub weight: u8,
    pub target: Target,
    /// What goes and comes again stays.
    pub comes: bool,
}

impl RocksStore {
    /// Adds the changed rows to a batch.
    pub(super) fn change_champions(
        &self,
        mut changes: Vec<ChampionChange>,
        rows: &mut WriteBatch,
    ) -> Result<(), StoreError> {
        changes.sort_unstable();
        for of_list in changes.chunk_by(|a, b| (a.term, a.weight) == (b.term, b.weight)) {
            let mut changes = of_list;
            while let Some(first) = changes.first() {
                changes = &changes[self.change_row(*first, changes, rows)?..];
            }
        }
        Ok(())
    }

    /// Changes the row where the first change belongs. Returns how many of the changes belong there.
    fn change_row(
        &self,
        first: ChampionChange,
        changes: &[ChampionChange],
        rows: &mut WriteBatch,
    ) -> Result<usize, StoreError> {
        let family = self.cf(cf::CHAMPIONS)?;
        let ChampionChange { term, weight, target, .. } = first;
        let mut stored = self.db.raw_iterator_cf(family);
        let begin = schema::champion_key(term, weight, Target(0));
        let list = &begin[..begin.len() - size_of::<Target>()];
        // The last row that begins no later, or else the first one of the list.
        stored.seek_for_prev(schema::champion_key(term, weight, target));
        if !stored.key().is_some_and(|key| key.starts_with(list)) {
            stored.seek(list);
        }
        let mut targets = BTreeSet::new();
        let mut next_begins = None;
        if let Some((key, row)) = stored.item().filter(|(key, _)| key.starts_with(list)) {
            let (_, _, found) = schema::read_champions(key, row).ok_or_else(|| damaged("a row of champions"))?;
            targets.extend(found);
            rows.delete_cf(family, key);
            stored.next();
            let next = stored.key().filter(|key| key.starts_with(list));
            next_begins = next.and_then(|key| schema::read_champions(key, &[])?.2.next());
        }
        stored.status().map_err(failed)?;
        let n_here = changes.iter().take_while(|change| next_begins.is_none_or(|next| change.target < next)).count();
        for change in &changes[..n_here] {
            if change.comes {
                targets.insert(change.target)
            } else {
                targets.remove(&change.target)
            };
        }
        let targets: Vec<Target> = targets.into_iter().collect();
        for targets in targets.chunks(ROW_URLS) {
            if let Some((key, row)) = (ChampionRow { term, weight, targets: targets.to_vec() }).encode() {
                rows.put_cf(family, key, row);
            }
        }
        Ok(n_here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::MatchRule;
    use crate::document::{CANONICAL_VERSION, Seed};
    use crate::ports::{RelatedView, StoreRule};
    use crate::related::RelatedRule;
    use crate::sketch::SketchRule;
    use crate::store::Settings;

    fn store(folder: &std::path::Path) -> RocksStore {
        let settings =
            Settings { related: Some(RelatedRule { on: true, ..RelatedRule::default() }), ..Settings::default() };
        let rule = StoreRule {
            canonical_version: CANONICAL_VERSION,
            canonical: Default::default(),
            sketch: SketchRule::default(),
            cluster: MatchRule::default(),
        };
        RocksStore::open(folder, &settings, &rule, None, || Seed([1, 2, 3, 4])).expect("opens")
    }

    /// Rows fill, are divided, shrink and go; a list reads as the set that it is.
    #[test]
    fn changed_rows_hold_the_urls_that_are_left() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = store(folder.path());
        let (term, mut kept) = (Term(7), [BTreeSet::new(), BTreeSet::new()]);
        let mut random = 1u64;
        for round in 0..40 {
            let mut changes = Vec::new();
            for _ in 0..200 {
                random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                let (weight, target) = (u8::from(random >> 63 == 1), Target(random >> 33 & 0x7ff));
                // First more come than go, then fewer.
                let comes = (random >> 50) % 4 < if round < 20 { 3 } else { 1 };
                let urls = &mut kept[usize::from(weight)];
                if comes == urls.contains(&target)
                    || changes.iter().any(|change: &ChampionChange| change.target == target)
                {
                    continue;
                }
                if comes {
                    urls.insert(target)
                } else {
                    urls.remove(&target)
                };
                changes.push(ChampionChange { term, weight, target, comes });
            }
            // Others have the same URLs.
            changes.push(ChampionChange { term: Term(8), weight: 1, target: Target(round), comes: true });
            let mut rows = WriteBatch::default();
            store.change_champions(changes, &mut rows).expect("changed");
            store.db.write(rows).expect("written");
            let expected: Vec<(Target, u8)> = [1, 0]
                .into_iter()
                .flat_map(|weight| kept[usize::from(weight)].iter().map(move |url| (*url, weight)))
                .collect();
            assert_eq!(store.champions(term, usize::MAX).expect("read"), expected);
            assert_eq!(store.champions(term, 300).expect("read"), expected[..expected.len().min(300)]);
            assert_eq!(store.champions(Term(8), usize::MAX).expect("read").len(), round as usize + 1);
        }
        let mut n_rows = 0;
        let mut each = |_: &[u8], row: &[u8]| {
            n_rows += 1;
            assert!(row.len() < 8 * ROW_URLS);
            Ok(true)
        };
        store.scan(cf::CHAMPIONS, &term.0.to_be_bytes(), &mut each).expect("read");
        assert!(n_rows > 2, "{n_rows}");
    }
}
