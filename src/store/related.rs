//! The families of related pages, which only stores have whose pages are read for them.
//!
//! What documents say is written with them, in one batch, and so is what leads back along redirects. `fragments` leads from
//! URLs to the documents that speak of them and is ingested as runs, like postings. A build replaces all families but
//! `said` as a whole, and leaves out fragments that do not count. `meta/related-swap` says that it is under way. If the
//! build is interrupted, the store has none until the next one, which starts from `said`. Forgetting leaves the store in the
//! same state.

use super::champions::{ChampionChange, ChampionRow};
use super::column_options;
use super::db::{ingest, synced};
use super::disk_full::retry_while_full;
use super::fragment::fragments_of;
use super::open::RocksStore;
use super::rocks_error::{damaged, failed};
use super::schema::{self, Fields, cf, meta};
use crate::document::{DocumentId, Fingerprint};
use crate::ports::{
    BagChange, Forgotten, FragmentsAbout, Neighbours, RelatedBuild, RelatedRefresh, RelatedTables, RelatedView,
    StoreError,
};
use crate::related::{Bag, FragmentKey, HostShares, REDIRECTS_MAX, RelatedRule, Said, Target, Term, champions};
use crate::sweep::{Seen, UrlState};
use rocksdb::{Options, SstFileWriter, WriteBatch};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder of tables to ingest, inside the store's.
const FOLDER: &str = "related";

/// Sorts after every key of the families of a build.
const END: [u8; 24] = [0xff; 24];

/// The families that a build replaces.
const BUILT: [&str; 7] =
    [cf::FRAGMENTS, cf::REDIRECTS, cf::BAGS, cf::CHAMPIONS, cf::TERMS, cf::NEIGHBOURS, cf::CENTERS];

/// URLs redirecting to one URL that a look-up reads, at most. A build counts all of them.
const REDIRECTING_MAX: usize = 1000;

impl RocksStore {
    /// Adds what the documents of a batch say to its rows.
    pub(super) fn put_said(&self, said: &[(DocumentId, Arc<Said>)], rows: &mut WriteBatch) -> Result<(), StoreError> {
        if said.is_empty() {
            return Ok(());
        }
        let (family, mut row) = (self.cf(cf::SAID)?, Vec::new());
        for (document, said) in said {
            row.clear();
            said.encode(&mut row);
            rows.put_cf(family, document.0.to_be_bytes(), &row);
        }
        Ok(())
    }

    /// Writes what documents say that are in the store already. Durable on return.
    ///
    /// # Errors
    /// [`StoreError`]
    pub fn add_said(&self, said: &[(DocumentId, Arc<Said>)]) -> Result<(), StoreError> {
        let mut rows = WriteBatch::default();
        self.put_said(said, &mut rows)?;
        let family = self.cf(cf::FRAGMENTS)?;
        for (target, key, document) in fragments_of(&self.seed, said.iter().map(|(id, said)| (*id, &**said))) {
            rows.put_cf(family, schema::fragment_key(target, key), document.0.to_be_bytes());
        }
        if let Some(build) = self.related_build()? {
            self.put_build(&RelatedBuild { next_seq: None, ..build }, &mut rows)?;
        }
        self.db.write_opt(rows, &synced()).map_err(failed)
    }

    /// Adds the way back from where a URL redirects, if it does.
    pub(super) fn put_redirect(
        &self,
        url: Fingerprint,
        state: &UrlState,
        rows: &mut WriteBatch,
    ) -> Result<(), StoreError> {
        if let (Seen::Redirect(to), true) = (&state.newest.seen, self.has_redirects()) {
            rows.put_cf(self.cf(cf::REDIRECTS)?, schema::redirect_key(Target::of(&self.seed, to), url), []);
        }
        Ok(())
    }

    /// Whether the store keeps which URLs redirect to a URL.
    pub(super) fn has_redirects(&self) -> bool {
        self.db.cf_handle(cf::REDIRECTS).is_some()
    }

    /// The URLs that redirect to one now, through others as well; each with the next URL on its way.
    fn redirecting(&self, to: Target) -> Result<Vec<(Target, String)>, StoreError> {
        let (mut found, mut ends) = (Vec::new(), vec![to]);
        if !self.has_redirects() {
            return Ok(found);
        }
        for _ in 0..REDIRECTS_MAX {
            let (mut keys, begin) = (Vec::new(), found.len());
            for end in ends.drain(..) {
                self.scan(cf::REDIRECTS, &end.0.to_be_bytes(), &mut |key, _| {
                    keys.push(schema::read_redirect_key(key).ok_or_else(|| damaged("a row of redirects"))?);
                    Ok(begin + keys.len() < REDIRECTING_MAX)
                })?;
            }
            let urls: Vec<Fingerprint> = keys.iter().map(|(_, url)| *url).collect();
            for ((end, url), state) in keys.into_iter().zip(self.states_of(&urls)?) {
                let Some(Seen::Redirect(next)) = state.map(|state| state.newest.seen) else { continue };
                if Target::of(&self.seed, &next) == end {
                    found.push((Target::of_key(url), next));
                }
            }
            ends.extend(found[begin..].iter().map(|(target, _)| *target));
            if ends.is_empty() || found.len() >= REDIRECTING_MAX {
                break;
            }
        }
        Ok(found)
    }

    /// The fragments of links that name a URL itself, sorted; the smallest `per_host_max` of each host.
    pub(super) fn fragments_naming(
        &self,
        target: Target,
        per_host_max: usize,
    ) -> Result<Vec<(FragmentKey, DocumentId)>, StoreError> {
        // The buffer first: what leaves it meanwhile is in the rows by then.
        let mut found = self.posting_buffer()?.fragments(target);
        let mut next = Some(FragmentKey { host: 0, said: 0 });
        while let Some(from) = next.take() {
            let mut shares = HostShares::new(per_host_max);
            self.scan_from(cf::FRAGMENTS, &schema::fragment_key(target, from), &mut |key, row| {
                let (of, key, document) =
                    schema::read_fragment(key, row).ok_or_else(|| damaged("a row of fragments"))?;
                if of != target {
                    return Ok(false);
                }
                if !shares.admits(key) {
                    // What is left of a host that has its share is passed over, however much it is.
                    next = key.host.checked_add(1).map(|host| FragmentKey { host, said: 0 });
                    return Ok(false);
                }
                found.push((key, document));
                Ok(true)
            })?;
        }
        keep_shares(&mut found, per_host_max);
        Ok(found)
    }

    fn put_build(&self, build: &RelatedBuild, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let row = serde_json::to_vec(build).map_err(|error| StoreError::Failed(error.to_string()))?;
        rows.put_cf(self.cf(cf::META)?, meta::RELATED_BUILD, row);
        Ok(())
    }

    /// Whether a build was cut off while it was swapped in.
    pub(super) fn is_swap_cut_off(&self) -> Result<bool, StoreError> {
        Ok(self.db.get_cf(self.cf(cf::META)?, meta::RELATED_SWAP).map_err(failed)?.is_some())
    }

    /// The rule under which pages are read, where they are.
    pub(super) fn reading_rule(&self) -> Result<Option<RelatedRule>, StoreError> {
        self.related_meta(meta::RELATED_RULE)
    }

    fn related_meta<T: serde::de::DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>, StoreError> {
        let row = self.db.get_cf(self.cf(cf::META)?, key).map_err(failed)?;
        let read = |row: Vec<u8>| {
            serde_json::from_slice(&row)
                .map_err(|error| damaged(format!("meta/{}: {error}", String::from_utf8_lossy(key))))
        };
        row.map(read).transpose()
    }

    /// Replaces the last build by what `write` puts into the tables.
    ///
    /// # Errors
    /// [`StoreError`]; the store then has no build, and the next one repairs that.
    pub fn replace_related<E: From<StoreError>>(
        &mut self,
        write: impl FnOnce(&mut dyn RelatedTables) -> Result<RelatedBuild, E>,
    ) -> Result<RelatedBuild, E> {
        let folder = self.path().join(FOLDER);
        let unwritten =
            |error: std::io::Error| StoreError::Failed(format!("cannot write {}: {error}", folder.display()));
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(unwritten)?;
        }
        std::fs::create_dir(&folder).map_err(unwritten)?;
        let options = BUILT.map(|name| (name, column_options::run_options(name))).into();
        let build = {
            let mut tables = SstTables::new(&folder, &options);
            let build = write(&mut tables)?;
            tables.finish()?;
            build
        };
        self.swap_build(&folder, &build)?;
        std::fs::remove_dir_all(&folder).map_err(unwritten)?;
        Ok(build)
    }

    /// Deletes what forgotten documents say. Deletes the build, too, because its bags, champions and neighbours mention them and
    /// the forgotten URLs. The next build starts from what is left.
    pub(super) fn forget_said(&self, forgotten: &Forgotten, rows: &mut WriteBatch) -> Result<(), StoreError> {
        if !self.has_related() || forgotten.urls.is_empty() {
            return Ok(());
        }
        let said = self.cf(cf::SAID)?;
        for document in &forgotten.documents {
            rows.delete_cf(said, document.0.to_be_bytes());
        }
        self.take_build_away(rows)
    }

    /// Deletes the build. The store has none until the next one is complete.
    fn take_build_away(&self, rows: &mut WriteBatch) -> Result<(), StoreError> {
        let metas = self.cf(cf::META)?;
        rows.delete_cf(metas, meta::RELATED_BUILD);
        rows.put_cf(metas, meta::RELATED_SWAP, []);
        // A store of an older program may lack some.
        for family in BUILT.iter().filter_map(|name| self.db.cf_handle(name)) {
            rows.delete_range_cf(family, [].as_slice(), END.as_slice());
        }
        Ok(())
    }

    fn swap_build(&self, folder: &Path, build: &RelatedBuild) -> Result<(), StoreError> {
        let metas = self.cf(cf::META)?;
        let mut away = WriteBatch::default();
        self.take_build_away(&mut away)?;
        self.db.write_opt(away, &synced()).map_err(failed)?;
        kill_point!("related-taken-away");
        for name in BUILT {
            let path = table_path(folder, name);
            if path.exists() {
                ingest(&self.db, name, vec![path])?;
            }
            kill_point!("related-ingested");
        }
        let mut done = WriteBatch::default();
        self.put_build(build, &mut done)?;
        done.delete_cf(metas, meta::RELATED_SWAP);
        self.db.write_opt(done, &synced()).map_err(failed)
    }
}

/// Keeps each fragment once, and of each host the smallest ones.
fn keep_shares(fragments: &mut Vec<(FragmentKey, DocumentId)>, per_host_max: usize) {
    fragments.sort_unstable();
    fragments.dedup_by_key(|(key, _)| *key);
    let mut shares = HostShares::new(per_host_max);
    fragments.retain(|(key, _)| shares.admits(*key));
}

fn table_path(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.sst"))
}

/// The tables of a build as files. A table's first row creates its file, because RocksDB rejects a file without rows.
struct SstTables<'o> {
    folder: PathBuf,
    writers: BTreeMap<&'static str, (SstFileWriter<'o>, u64)>,
    /// The champions that go into the next row.
    champions: Option<ChampionRow>,
}

impl<'o> SstTables<'o> {
    fn new(folder: &Path, options: &'o BTreeMap<&'static str, Options>) -> Self {
        let writer = |(name, options): (&&'static str, &'o Options)| (*name, (SstFileWriter::create(options), 0));
        SstTables { folder: folder.to_path_buf(), writers: options.iter().map(writer).collect(), champions: None }
    }

    fn put(&mut self, name: &'static str, key: &[u8], row: &[u8]) -> Result<(), StoreError> {
        let (writer, n_rows) =
            self.writers.get_mut(name).ok_or_else(|| StoreError::Failed(format!("a build does not write {name}")))?;
        if *n_rows == 0 {
            writer.open(table_path(&self.folder, name)).map_err(failed)?;
        }
        *n_rows += 1;
        writer.put(key, row).map_err(failed)
    }

    fn put_champions(&mut self, row: Option<ChampionRow>) -> Result<(), StoreError> {
        let Some((key, row)) = row.as_ref().and_then(ChampionRow::encode) else { return Ok(()) };
        self.put(cf::CHAMPIONS, &key, &row)
    }

    fn finish(mut self) -> Result<(), StoreError> {
        let last = self.champions.take();
        self.put_champions(last)?;
        for (mut writer, n_rows) in self.writers.into_values() {
            if n_rows > 0 {
                writer.finish().map_err(failed)?;
            }
        }
        Ok(())
    }
}

impl RelatedTables for SstTables<'_> {
    fn fragment(&mut self, target: Target, key: FragmentKey, document: DocumentId) -> Result<(), StoreError> {
        self.put(cf::FRAGMENTS, &schema::fragment_key(target, key), &document.0.to_be_bytes())
    }

    fn redirect(&mut self, to: Target, from: Fingerprint) -> Result<(), StoreError> {
        self.put(cf::REDIRECTS, &schema::redirect_key(to, from), &[])
    }

    fn bag(&mut self, target: Target, bag: &Bag) -> Result<(), StoreError> {
        self.put(cf::BAGS, &target.0.to_be_bytes(), &schema::bag_row(bag))
    }

    fn champion(&mut self, term: Term, weight: u8, target: Target) -> Result<(), StoreError> {
        if self.champions.as_mut().is_some_and(|row| row.push(term, weight, target)) {
            return Ok(());
        }
        let full = self.champions.replace(ChampionRow::new(term, weight, target));
        self.put_champions(full)
    }

    fn term(&mut self, term: Term, n_with: [u32; 2]) -> Result<(), StoreError> {
        self.put(cf::TERMS, &term.0.to_be_bytes(), &n_with.map(u32::to_be_bytes).concat())
    }

    fn neighbours(&mut self, target: Target, neighbours: &Neighbours) -> Result<(), StoreError> {
        self.put(cf::NEIGHBOURS, &target.0.to_be_bytes(), &schema::neighbours_row(neighbours))
    }

    fn member(&mut self, center: Target, member: Target) -> Result<(), StoreError> {
        self.put(cf::CENTERS, &schema::member_key(center, member), &[])
    }
}

impl RelatedRefresh for RocksStore {
    fn replace_bags(&self, changes: &[BagChange], refreshed_up_to: DocumentId) -> Result<(), StoreError> {
        let Some(mut build) = self.related_build()? else { return Ok(()) };
        let bags = self.cf(cf::BAGS)?;
        let (mut rows, mut of_champions) = (WriteBatch::default(), Vec::new());
        for BagChange { target, old, new } in changes.iter().filter(|change| change.old != change.new) {
            for (bag, comes) in [(old, false), (new, true)] {
                let change = |(term, weight)| ChampionChange { term, weight, target: *target, comes };
                of_champions.extend(champions(bag, &build.rule).into_iter().map(change));
            }
            match new.weights() {
                [] => rows.delete_cf(bags, target.0.to_be_bytes()),
                _ => rows.put_cf(bags, target.0.to_be_bytes(), schema::bag_row(new)),
            }
            build.n_urls += u64::from(old.weights().is_empty());
            build.n_urls -= u64::from(new.weights().is_empty());
        }
        self.change_champions(of_champions, &mut rows)?;
        build.refreshed_up_to = refreshed_up_to;
        self.put_build(&build, &mut rows)?;
        // Not synced: what a crash takes back is made anew.
        let write = || self.db.write(WriteBatch::from_data(rows.data())).map_err(failed);
        retry_while_full(|| self.should_stop(), write)
    }
}

impl RelatedView for RocksStore {
    fn has_related(&self) -> bool {
        self.db.cf_handle(cf::SAID).is_some()
    }

    fn related_rule(&self) -> Result<Option<RelatedRule>, StoreError> {
        Ok(match self.related_build()? {
            Some(build) => Some(build.rule),
            None => self.reading_rule()?,
        })
    }

    fn related_build(&self) -> Result<Option<RelatedBuild>, StoreError> {
        self.related_meta(meta::RELATED_BUILD)
    }

    fn said(&self, documents: &[DocumentId]) -> Result<Vec<Option<Said>>, StoreError> {
        if !self.has_related() {
            return Ok(vec![None; documents.len()]);
        }
        let rows = self.rows(cf::SAID, documents.iter().map(|document| document.0.to_be_bytes()))?;
        let read = |row: &[u8]| Said::decode(row).ok_or_else(|| damaged("a row of said"));
        rows.into_iter().map(|row| row.map(|row| read(&row)).transpose()).collect()
    }

    fn each_said(&self, from: DocumentId, each: &mut dyn FnMut(DocumentId, Said) -> bool) -> Result<(), StoreError> {
        if !self.has_related() {
            return Ok(());
        }
        let from = from.0.to_be_bytes();
        // From the beginning: a long read.
        let from = if from == [0; 4] { &[][..] } else { &from };
        self.scan_from(cf::SAID, from, &mut |key, row| {
            let document = Fields(key).document().filter(|_| key.len() == 4);
            let (document, said) = document.zip(Said::decode(row)).ok_or_else(|| damaged("a row of said"))?;
            Ok(each(document, said))
        })
    }

    fn standing(&self) -> Result<Vec<bool>, StoreError> {
        let mut stands = vec![false; self.n_documents() as usize + 1];
        self.scan_states(&mut |_, state| {
            let place = state.newest.seen.document().and_then(|document| stands.get_mut(document.0 as usize));
            if let Some(stands) = place {
                *stands = true;
            }
        })?;
        Ok(stands)
    }

    fn fragments(&self, target: Target, per_host_max: usize) -> Result<FragmentsAbout, StoreError> {
        if !self.has_related() {
            return Ok(FragmentsAbout::default());
        }
        let redirecting = self.redirecting(target)?;
        let url = redirecting.iter().find(|(_, next)| Target::of(&self.seed, next) == target);
        let url = url.map(|(_, next)| next.clone());
        let targets: Vec<Target> = std::iter::once(target).chain(redirecting.iter().map(|(of, _)| *of)).collect();
        let mut fragments = Vec::new();
        for target in &targets {
            fragments.extend(self.fragments_naming(*target, per_host_max)?);
        }
        if targets.len() > 1 {
            keep_shares(&mut fragments, per_host_max);
        }
        Ok(FragmentsAbout { targets, url, fragments })
    }

    fn frequencies(&self, terms: &[Term]) -> Result<Vec<[u32; 2]>, StoreError> {
        if !self.has_related() {
            return Ok(vec![[0; 2]; terms.len()]);
        }
        let rows = self.rows(cf::TERMS, terms.iter().map(|term| term.0.to_be_bytes()))?;
        let read = |row: &[u8]| {
            let mut fields = Fields(row);
            let n_with = fields.u32().zip(fields.u32()).map(<[u32; 2]>::from);
            n_with.ok_or_else(|| damaged("a row of terms"))
        };
        rows.into_iter().map(|row| row.map_or(Ok([0; 2]), |row| read(&row))).collect()
    }

    fn champions(&self, term: Term, most: usize) -> Result<Vec<(Target, u8)>, StoreError> {
        let mut found = Vec::new();
        if !self.has_related() || most == 0 {
            return Ok(found);
        }
        self.scan(cf::CHAMPIONS, &term.0.to_be_bytes(), &mut |key, row| {
            let (_, weight, targets) = schema::read_champions(key, row).ok_or_else(|| damaged("a row of champions"))?;
            found.extend(targets.take(most - found.len()).map(|target| (target, weight)));
            Ok(found.len() < most)
        })?;
        Ok(found)
    }

    fn bags(&self, targets: &[Target]) -> Result<Vec<Bag>, StoreError> {
        if !self.has_related() {
            return Ok(vec![Bag::default(); targets.len()]);
        }
        let rows = self.rows(cf::BAGS, targets.iter().map(|target| target.0.to_be_bytes()))?;
        let read = |row: &[u8]| schema::read_bag(row).ok_or_else(|| damaged("a row of bags"));
        rows.into_iter().map(|row| row.map_or(Ok(Bag::default()), |row| read(&row))).collect()
    }

    fn all_bags(&self, most: usize) -> Result<Option<Vec<(Target, Bag)>>, StoreError> {
        let mut bags = Vec::new();
        if self.has_related() {
            self.scan(cf::BAGS, &[], &mut |key, row| {
                let target = Fields(key).u64().filter(|_| key.len() == 8).map(Target);
                bags.push(target.zip(schema::read_bag(row)).ok_or_else(|| damaged("a row of bags"))?);
                Ok(bags.len() <= most)
            })?;
        }
        Ok((bags.len() <= most).then_some(bags))
    }

    fn neighbours(&self, target: Target) -> Result<Option<Neighbours>, StoreError> {
        if !self.has_related() {
            return Ok(None);
        }
        let rows = self.rows(cf::NEIGHBOURS, [target.0.to_be_bytes()])?;
        let read = |row: &[u8]| schema::read_neighbours(row).ok_or_else(|| damaged("a row of neighbours"));
        rows.into_iter().flatten().map(|row| read(&row)).next().transpose()
    }

    fn each_neighbours(&self, each: &mut dyn FnMut(Target, Neighbours) -> bool) -> Result<(), StoreError> {
        if !self.has_related() {
            return Ok(());
        }
        self.scan(cf::NEIGHBOURS, &[], &mut |key, row| {
            let target = Fields(key).u64().filter(|_| key.len() == 8).map(Target);
            let row = target.zip(schema::read_neighbours(row)).ok_or_else(|| damaged("a row of neighbours"))?;
            Ok(each(row.0, row.1))
        })
    }

    fn related_members(&self, center: Target, most: usize) -> Result<Vec<Target>, StoreError> {
        let mut members = Vec::new();
        if !self.has_related() || most == 0 {
            return Ok(members);
        }
        self.scan(cf::CENTERS, &center.0.to_be_bytes(), &mut |key, _| {
            members.push(schema::read_member_key(key).ok_or_else(|| damaged("a row of centers"))?.1);
            Ok(members.len() < most)
        })?;
        Ok(members)
    }

    fn urls_of_targets(&self, targets: &[Target]) -> Result<Vec<Option<String>>, StoreError> {
        // A target begins a key of `urls`: one iterator serves them all.
        let mut rows = self.db.raw_iterator_cf(self.cf(cf::URLS)?);
        let url = |target: &Target| {
            let begin = target.0.to_be_bytes();
            rows.seek(begin);
            rows.status().map_err(failed)?;
            let row = rows.item().filter(|(key, _)| key.starts_with(&begin)).map(|(_, row)| row.to_vec());
            row.map(|row| String::from_utf8(row).map_err(|_| damaged("a URL is not UTF-8"))).transpose()
        };
        targets.iter().map(url).collect()
    }
}
