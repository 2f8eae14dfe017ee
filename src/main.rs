//! The `lookalike` program: [`lookalike::cli`] under a faster allocator.

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The options of jemalloc, which looks for a symbol of this name. Filters and hash tables of many megabytes are read
/// at random: on pages of 4 KiB nearly every read misses the processor's table of pages as well as its caches. What is
/// over 8 MiB is not given back at once, which it would be by default, to be cleared again as the next huge page. What is free for
/// two seconds is: by default for ten, in which compaction leaves hundreds of megabytes. A thread of its own gives it back, because
/// the threads that freed it may be idle. A core has one arena, by default four, each of which has huge pages of its own.
#[cfg(feature = "jemalloc")]
#[expect(unsafe_code, reason = "jemalloc finds its options by the name of a symbol")]
#[unsafe(export_name = "malloc_conf")]
static MALLOC_CONF: &[u8; 116] = b"thp:always,oversize_threshold:0,dirty_decay_ms:2000,background_thread:true,\
    max_background_threads:1,narenas_ratio:1\0";

fn main() -> std::process::ExitCode {
    lookalike::cli::main()
}
