//! Threads whose work nobody waits for: they give way to those that take in pages.
//!
//! A run of postings takes a second of a core, compaction many. Where they compete with the stages for the cores, the pages of that
//! second are late by half of it. With a lower priority they take what the stages leave. Where that is too little, the
//! posting buffer fills up, or RocksDB slows writing down, until they have caught up.

/// The niceness of a thread that writes a run.
const RUN_NICENESS: i32 = 10;

/// Gives the compactions of this process, whatever the store, the lowest priority. Flushes keep theirs: when all write buffers are
/// full, writing waits for them.
pub(super) fn give_way_in_compactions() {
    match rocksdb::Env::new() {
        Ok(mut env) => env.lower_thread_pool_cpu_priority(),
        Err(error) => tracing::warn!("compactions keep their priority: {error}"),
    }
}

/// Gives the current thread a lower priority, unless it has one.
#[cfg(target_os = "linux")]
pub(super) fn give_way() {
    use rustix::process::{getpriority_process, setpriority_process};
    // On Linux, niceness belongs to a thread. No process stands for the current one.
    let given = getpriority_process(None).and_then(|own| setpriority_process(None, own.max(RUN_NICENESS)));
    if let Err(error) = given {
        tracing::warn!("a thread that writes a run keeps its priority: {error}");
    }
}

/// Elsewhere, niceness belongs to a whole process.
#[cfg(not(target_os = "linux"))]
pub(super) fn give_way() {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;

    #[test]
    fn a_thread_gives_way_alone() {
        let own = getpriority_process(None).expect("a niceness");
        let of_run = std::thread::spawn(|| {
            give_way();
            getpriority_process(None)
        });
        assert_eq!(of_run.join().expect("no panic").expect("a niceness"), own.max(RUN_NICENESS));
        assert_eq!(getpriority_process(None).expect("a niceness"), own);
    }
}
