//! How RocksDB keeps each column family.

use super::open::Settings;
use super::schema::{self, PostingKind, cf};
use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DBCompactionStyle, DBCompressionType, DBRecoveryMode,
    MergeOperands, Options,
};

/// Bits of a filter for each key: one block in a thousand is read in vain. At ten bits it is one in a hundred, which, of
/// two dozen keys in up to ten files each, makes two blocks a page.
const FILTER_BITS: f64 = 14.0;

/// The part of a memtable's size that its filter takes: ten bits for each of a million small rows. It is filled with zeros
/// whenever a memtable begins, and all of them when a store is opened.
const MEMTABLE_FILTER_RATIO: f64 = 0.02;

/// What the database as a whole is opened with.
pub(super) fn database_options(settings: &Settings) -> Options {
    let mut options = Options::default();
    // One flipped byte in the log makes RocksDB's default recovery drop everything after it without a word.
    options.set_wal_recovery_mode(DBRecoveryMode::TolerateCorruptedTailRecords);
    // A log that is gone would otherwise open as an empty one.
    options.set_track_and_verify_wals_in_manifest(true);
    options.set_db_write_buffer_size(settings.write_buffer_mib << 20);
    // Whoever opens the store reads the log: it is kept short.
    options.set_max_total_wal_size((settings.wal_mib as u64) << 20);
    options.increase_parallelism(settings.background_threads.max(1));
    // Every file is opened at once, and stays open. One that is missing or damaged is found when the store is opened, and
    // not when it is first needed; and a writer may delete a file at any time, but not out of a reader's hands.
    options.set_max_open_files(-1);
    options.set_keep_log_file_num(4);
    options
}

/// All families with their options.
pub(super) fn families(cache: &Cache) -> Vec<ColumnFamilyDescriptor> {
    cf::ALL.into_iter().map(|name| ColumnFamilyDescriptor::new(name, family_options(name, Some(cache)))).collect()
}

/// The options of a file that is to be taken into a family.
pub(super) fn run_options(posted: PostingKind) -> Options {
    family_options(posted.family(), None)
}

/// The options of a file of a whole family, with which a new store begins. What a file is compressed with is that of the
/// lowest level: here the fast one, because all files there are written at once, and compacted later.
pub(super) fn table_options(name: &str) -> Options {
    let mut options = family_options(name, None);
    options.set_bottommost_compression_type(DBCompressionType::Lz4);
    options
}

/// Families whose keys come in no order: leveled compaction would rewrite all of a level for every file that comes in,
/// tiered compaction rewrites a row a few times altogether.
fn is_scattered(name: &str) -> bool {
    matches!(name, cf::EQUAL | cf::URLS | cf::SIGHTINGS | cf::STATES | cf::POSTINGS | cf::SUPERS | cf::MOD_POSTINGS)
}

/// Families of what waits to be done, which hold little. Every start leaves a file of each, and where the program is killed
/// sooner than compaction comes round to them, writing is not to wait for that.
fn is_waiting(name: &str) -> bool {
    matches!(name, cf::PENDING | cf::OUTBOX)
}

/// Files of such a family at which writing is slowed down; at twice as many it stops.
const WAITING_FILES_MAX: i32 = 256;

/// Sorted runs of a scattered family, not counting those under merge: more are merged whatever their sizes, because each is
/// one more filter to ask. Three of each size, for five sizes, are more than any store of regular runs comes to.
const RUNS_MAX: i32 = 16;

/// Sorted runs of such a family at which writing is slowed down; at twice as many it stops. While large ones are merged,
/// which may take minutes, new ones come.
const RUNS_SLOW: i32 = 64;

/// Families that are asked for whole keys, one by one.
fn is_asked_by_key(name: &str) -> bool {
    matches!(
        name,
        cf::EQUAL | cf::POSTINGS | cf::SUPERS | cf::URLS | cf::STATES | cf::DOCS | cf::CLUSTERS | cf::MOD_POSTINGS
    )
}

/// Families whose rows come as files only: their memtables stay empty.
fn is_taken_in(name: &str) -> bool {
    matches!(name, cf::POSTINGS | cf::SUPERS | cf::MOD_POSTINGS)
}

/// Families of little but fingerprints, of which a page asks for two dozen, and nearly always in vain. Zstd saves a tenth
/// of them, and costs more than all the rest of a look-up whenever a block must be unpacked for one.
fn is_fingerprints(name: &str) -> bool {
    matches!(name, cf::EQUAL | cf::POSTINGS | cf::SUPERS | cf::MOD_POSTINGS)
}

/// The options of a scattered family that RocksDB only takes as text.
fn text_options(name: &str) -> String {
    // Four runs of about the same size become one of the next size: a row is rewritten once where the store has become
    // four times as large. RocksDB by itself would merge the next larger run, too, as soon as the small ones together are
    // as large, and all of them where there are more than four; and as soon as the newer runs are twice as large as the
    // oldest, in case they replace its rows. Rows are replaced in none of these families but that of URLs' states.
    let replaced = if name == cf::STATES { 200 } else { 1_000_000 };
    let tiers = format!(
        "compaction_options_universal={{min_merge_width=4;size_ratio=100;stop_style=kCompactionStopStyleSimilarSize;\
         max_read_amp={RUNS_MAX};max_size_amplification_percent={replaced}}};"
    );
    // A batch's keys come in order: each is put from where the one before it was, and not from the top. The hint is one
    // for all keys, whose prefixes are empty.
    tiers + "memtable_insert_with_hint_prefix_extractor=fixed:0"
}

/// Options to begin with.
fn base_options(name: &str) -> Options {
    let mut options = Options::default();
    if !is_scattered(name) {
        return options;
    }
    options.get_options_from_string(text_options(name)).unwrap_or_else(|error| {
        tracing::error!("the store will be slow, RocksDB does not take its options: {error}");
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
    let mut options = base_options(name);
    if is_asked_by_key(name) {
        table.set_bloom_filter(FILTER_BITS, false);
    }
    if is_asked_by_key(name) && !is_taken_in(name) {
        // Most keys asked for are new, and a filter is sooner asked than a memtable searched.
        options.set_memtable_whole_key_filtering(true);
        options.set_memtable_prefix_bloom_ratio(MEMTABLE_FILTER_RATIO);
    }
    options.set_block_based_table_factory(&table);
    // One compression on every level: RocksDB moves a file down without rewriting it where nothing overlaps it, which
    // is the case of all that is keyed by document, but only if it need not be compressed anew.
    options.set_compression_type(DBCompressionType::Lz4);
    if is_scattered(name) {
        options.set_compaction_style(DBCompactionStyle::Universal);
        options.set_level_zero_slowdown_writes_trigger(RUNS_SLOW);
        options.set_level_zero_stop_writes_trigger(2 * RUNS_SLOW);
        if !is_fingerprints(name) {
            options.set_bottommost_compression_type(DBCompressionType::Zstd);
        }
    }
    if is_waiting(name) {
        options.set_level_zero_slowdown_writes_trigger(WAITING_FILES_MAX);
        options.set_level_zero_stop_writes_trigger(2 * WAITING_FILES_MAX);
    }
    if matches!(name, cf::POSTINGS | cf::SUPERS) {
        options.set_merge_operator_associative("union of documents", union);
    }
    options
}

/// The union of lists of documents. Never panics, which would end the process: a list that is none makes the read or
/// the compaction fail with a corruption.
fn union(_key: &[u8], stored: Option<&[u8]>, others: &MergeOperands) -> Option<Vec<u8>> {
    let mut documents = Vec::new();
    for list in stored.into_iter().chain(others) {
        schema::read_documents(list, &mut documents)?;
    }
    documents.sort_unstable();
    documents.dedup();
    Some(schema::documents_row(&documents))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rocksdb_takes_the_options_that_are_text() {
        for name in cf::ALL.into_iter().filter(|name| is_scattered(name)) {
            let taken = Options::default().get_options_from_string(text_options(name));
            assert_eq!(taken.err(), None, "{name}");
        }
    }
}
