//! The RocksDB options of the database and of each column family.

use super::key_filter;
use super::schema::cf;
use super::settings::Settings;
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DBCompactionStyle, DBCompressionType, DBRecoveryMode, Options,
};
use std::fs::DirEntry;
use std::path::Path;

/// Bits of a Bloom filter per key: one look-up in a thousand reads a block in vain.
const FILTER_BITS: f64 = 14.0;

/// The same for families whose keys are in the [key filter](super::key_filter), which answers for most absent keys, and for URLs, of
/// which only those are asked for that exist: one look-up in fifty of the others reads a block in vain.
const FRONTED_FILTER_BITS: f64 = 8.0;

/// Entries of an index of blocks of which one is stored whole. Indexes lie in memory, and take half of it if the others name only
/// how they differ.
const INDEX_RESTART_INTERVAL: i32 = 8;

/// The share of the largest memtable (64 MiB) that its Bloom filter takes: ten bits per row for 270,000 rows. With the default
/// buffers, which all families share, a memtable has 150,000 small rows when it is written. RocksDB zeroes the filter of every
/// new memtable, and all filters when it opens a store, so a larger share costs time.
const MEMTABLE_FILTER_RATIO: f64 = 0.005;

/// How many tables of a store there are for each thread that opens them. RocksDB starts new threads for every family, even for one
/// that has no tables: with its default of sixteen, that was half of the time it took to open a small store.
const TABLES_A_THREAD: usize = 16;

/// The most threads that open tables: RocksDB's default.
const OPENING_THREADS_MAX: usize = 16;

/// The options of the database as a whole. `folder` is where it is, or will be.
pub(super) fn database_options(settings: &Settings, folder: &Path) -> Options {
    let mut options = Options::default();
    // After one flipped byte in the log, RocksDB's default recovery silently drops everything that follows.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    // Otherwise a missing log opens as an empty one.
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_db_write_buffer_size(settings.write_buffer_mib << 20);
    // Opening the store reads the whole log.
    options.set_max_total_wal_size((settings.wal_mib as u64) << 20);
    options.increase_parallelism(settings.background_threads.max(1));
    // RocksDB opens every file at once and keeps it open. So a missing or damaged file fails the opening rather than
    // a later look-up, and a reader keeps the files that the writer deletes.
    options.set_max_open_files(-1);
    options.set_max_file_opening_threads(opening_threads(folder));
    options.set_keep_log_file_num(4);
    options
}

/// How many threads open the tables of each family.
fn opening_threads(folder: &Path) -> i32 {
    let is_table = |entry: &DirEntry| entry.path().extension().is_some_and(|extension| extension == "sst");
    let n_tables = folder.read_dir().map_or(0, |entries| entries.flatten().filter(is_table).count());
    (n_tables / TABLES_A_THREAD).clamp(1, OPENING_THREADS_MAX) as i32
}

/// The column families of every store and those of `optional`, with their options.
pub(super) fn families(cache: &Cache, optional: OptionalFamilies) -> Vec<ColumnFamilyDescriptor> {
    cf::ALL
        .into_iter()
        .chain(optional.names())
        .map(|name| ColumnFamilyDescriptor::new(name, family_options(name, Some(cache))))
        .collect()
}

/// Which families a store has beside those of every store.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OptionalFamilies {
    /// Those of related pages.
    pub related: bool,
    /// The one of redirects among them, which the first stores with related pages lack.
    pub redirects: bool,
    /// The one of texts.
    pub texts: bool,
}

impl OptionalFamilies {
    /// Their names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let related = cf::RELATED.into_iter();
        let related = related.filter(move |name| if *name == cf::REDIRECTS { self.redirects } else { self.related });
        related.chain([cf::TEXTS].into_iter().filter(move |_| self.texts))
    }
}

/// The options of a run, a file that will be ingested into a derived family.
pub(super) fn run_options(name: &str) -> Options {
    family_options(name, None)
}

/// Bytes of a bulk-loaded table that are written at once. RocksDB's mebibyte is fresh memory for each table, in ever larger pieces.
const TABLE_BUFFER_BYTES: u64 = 128 << 10;

/// The options of a bulk-loaded table. RocksDB compresses such a file as it does the lowest level. Here that is the
/// fast algorithm: a load writes all files at once, and compaction rewrites them later.
pub(super) fn table_options(name: &str) -> Options {
    let mut options = family_options(name, None);
    if !is_compact(name) {
        options.set_bottommost_compression_type(DBCompressionType::Lz4);
        // With zstd's level RocksDB would take the slower variant of LZ4.
        options.set_bottommost_compression_options(WINDOW_BITS, FAST_LEVEL, 0, 0, false);
    }
    options.set_writable_file_max_buffer_size(TABLE_BUFFER_BYTES);
    options
}

/// Whether the keys of a family arrive in random order, or some of them do: each batch has sightings of new documents, and of some
/// that are anywhere among the old ones. Leveled compaction would rewrite a whole level for every new file; tiered compaction
/// rewrites each row only a few times.
fn has_random_keys(name: &str) -> bool {
    matches!(
        name,
        cf::EQUAL
            | cf::URLS
            | cf::SIGHTINGS
            | cf::SIGHTINGS_BY_DOCUMENT
            | cf::STATES
            | cf::MOD_POSTINGS
            | cf::FRAGMENTS
    )
}

/// Whether a family is a queue, which holds little. Every start leaves one file of it. If the program is killed again
/// and again before compaction reaches these files, they must not stall writing.
fn is_queue(name: &str) -> bool {
    matches!(name, cf::PENDING | cf::OUTBOX)
}

/// Files of a queue at which RocksDB slows writing down; at twice as many it stops writing.
const QUEUE_FILES_MAX: i32 = 256;

/// Sorted runs of a family with random keys, not counting those being merged. RocksDB merges any excess whatever the
/// sizes, because every run is one more filter to query. Regular runs never get there: they are three of each of five
/// sizes, or seven of each of four.
const RUNS_MAX: i32 = 32;

/// Sorted runs of a family with random keys at which RocksDB slows writing down; at twice as many it stops writing.
/// Merging large runs may take minutes, and new runs arrive meanwhile.
const RUNS_SLOW: i32 = 64;

/// Whether a family's rows leave little to compress: sketches are coded to the bit, lists are packed, each text is compressed by
/// itself, and no fingerprint is like another. A row with a fingerprint takes 30 bytes, and compressed 25.
fn is_compact(name: &str) -> bool {
    matches!(name, cf::DOCS | cf::TEXTS | cf::POSTINGS | cf::SUPERS | cf::EQUAL)
}

/// Whether look-ups in a family use whole keys.
fn is_read_by_key(name: &str) -> bool {
    matches!(
        name,
        cf::EQUAL | cf::URLS | cf::STATES | cf::DOCS | cf::CLUSTERS | cf::MOD_POSTINGS | cf::BAGS | cf::TERMS
    )
}

/// Whether a family, other than those of lists, is derived from the documents. All its rows arrive as ingested files, so that its memtables stay empty. It
/// holds little but fingerprints, of which a page looks up two dozen, nearly all absent: zstd would save a tenth of the
/// space, but unpacking a block costs more than the rest of the look-up.
fn is_derived(name: &str) -> bool {
    matches!(name, cf::EQUAL | cf::MOD_POSTINGS | cf::FRAGMENTS)
}

/// The options of a family with random keys that RocksDB accepts only as text.
fn text_options(name: &str) -> String {
    // Four runs of similar size become one run of the next size. So a row is rewritten once each time the store grows
    // fourfold. Fingerprints of contents are merged by eights, because the filter of keys answers for nearly all that are absent;
    // and URLs, because few pages have one read by its key. RocksDB's defaults merge more: the next larger run too, once the small
    // ones together are as large; all runs, when there are more than four; and all runs, once the newer ones are twice as large as
    // the oldest, in case they replace its rows. Only the family of URL states replaces rows: three times as large then.
    let replaced = if name == cf::STATES { 300 } else { 1_000_000 };
    let merged = if matches!(name, cf::EQUAL | cf::URLS) { 8 } else { 4 };
    let tiers = format!(
        "compaction_options_universal={{min_merge_width={merged};size_ratio=100;stop_style=kCompactionStopStyleSimilarSize;\
         max_read_amp={RUNS_MAX};max_size_amplification_percent={replaced}}};"
    );
    // The keys of a batch are sorted. With a hint, RocksDB inserts each next to its predecessor instead of searching
    // from the top. The empty prefix gives all keys the same hint.
    tiers + "memtable_insert_with_hint_prefix_extractor=fixed:0"
}

/// Bytes of what pages say that are compressed together: some twenty pages.
const SAID_BLOCK_BYTES: usize = 32 << 10;

/// What RocksDB takes as the default window of a compression; zstd knows none of these.
const WINDOW_BITS: i32 = -14;

/// The fastest regular level of zstd.
const FAST_LEVEL: i32 = 1;

/// The text options of a family, or RocksDB's defaults.
fn base_options(name: &str) -> Options {
    let mut options = Options::default();
    if !has_random_keys(name) {
        return options;
    }
    options.get_options_from_string(text_options(name)).unwrap_or_else(|error| {
        tracing::error!("RocksDB rejects the compaction options, so the store will be slow: {error}");
        options
    })
}

fn family_options(name: &str, cache: Option<&Cache>) -> Options {
    let mut table = BlockBasedOptions::default();
    match cache {
        Some(cache) => table.set_block_cache(cache),
        None => table.disable_cache(),
    }
    table.set_format_version(5);
    table.set_index_block_restart_interval(INDEX_RESTART_INTERVAL);
    let mut options = base_options(name);
    // Documents come in the order of their keys, so that files do not overlap, and only those that exist are asked for: their
    // filters would never spare reading a block.
    if is_read_by_key(name) && name != cf::DOCS {
        let bits = if key_filter::has(name) || name == cf::URLS { FRONTED_FILTER_BITS } else { FILTER_BITS };
        table.set_bloom_filter(bits, false);
    }
    if is_read_by_key(name) && !is_derived(name) {
        // Most look-ups are for absent keys, and querying a filter is faster than searching a memtable.
        options.set_memtable_whole_key_filtering(true);
        options.set_memtable_prefix_bloom_ratio(MEMTABLE_FILTER_RATIO);
    }
    if name == cf::SAID {
        table.set_block_size(SAID_BLOCK_BYTES);
    }
    options.set_block_based_table_factory(&table);
    // The same compression on every level: RocksDB moves a file down without rewriting it if nothing overlaps, as in
    // the families keyed by document, but only if the compression stays the same.
    options.set_compression_type(DBCompressionType::Lz4);
    if has_random_keys(name) {
        options.set_compaction_style(DBCompactionStyle::Universal);
        options.set_level_zero_slowdown_writes_trigger(RUNS_SLOW);
        options.set_level_zero_stop_writes_trigger(2 * RUNS_SLOW);
        if !is_derived(name) && name != cf::STATES {
            // At its fast level zstd takes less time, and hardly more space. URL states would take a fifth less space with it, but are
            // rewritten most often.
            options.set_bottommost_compression_type(DBCompressionType::Zstd);
            options.set_bottommost_compression_options(WINDOW_BITS, FAST_LEVEL, 0, 0, true);
        }
    }
    if name == cf::SAID {
        // Words, which nothing but a query and a build reads. The fast level over large blocks takes less time than the
        // usual one over small ones, and less space.
        options.set_compression_type(DBCompressionType::Zstd);
        options.set_compression_options(WINDOW_BITS, FAST_LEVEL, 0, 0);
    }
    if is_compact(name) {
        options.set_compression_type(DBCompressionType::None);
    }
    if is_queue(name) {
        options.set_level_zero_slowdown_writes_trigger(QUEUE_FILES_MAX);
        options.set_level_zero_stop_writes_trigger(2 * QUEUE_FILES_MAX);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lost once: half of the time it took to open a small store, to threads that had nothing to open.
    #[test]
    fn a_small_store_is_opened_by_one_thread() {
        for (n_tables, n_threads) in [(0, 1), (31, 1), (32, 2), (300, 16)] {
            let folder = tempfile::tempdir().expect("a folder");
            let tables = (0..n_tables).map(|number| format!("{number:06}.sst"));
            // Of the logs none counts.
            for name in tables.chain((0..99).map(|number| format!("{number:06}.log"))) {
                std::fs::write(folder.path().join(name), "").expect("written");
            }
            assert_eq!(opening_threads(folder.path()), n_threads, "{n_tables} tables");
        }
        assert_eq!(opening_threads(Path::new("/no/such/folder")), 1);
    }

    #[test]
    fn rocksdb_takes_the_options_that_are_text() {
        for name in cf::ALL.into_iter().filter(|name| has_random_keys(name)) {
            let result = Options::default().get_options_from_string(text_options(name));
            assert_eq!(result.err(), None, "{name}");
        }
    }
}
