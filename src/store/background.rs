//! Lowers the priority of background work, so that it does not delay the pages that are taken in.
//!
//! Writing a run of postings takes a second of a core, and compactions take many. At the priority of the stages they made the
//! pages of that second up to half a second late. At a lower one they use the time that the stages leave. If that is too
//! little, the posting buffer fills up or RocksDB slows writing down, and the stages wait until the work has caught up.

/// The niceness of a thread that writes a run.
pub(super) const RUN_NICENESS: i32 = 10;

/// The niceness of a thread that merges runs, which is that of compactions.
pub(super) const MERGE_NICENESS: i32 = 19;

/// Gives compactions the lowest priority, in all stores that this process has open. Flushes keep theirs, because writing
/// waits for them when all write buffers are full.
pub(super) fn give_way_in_compactions() {
    match rocksdb::Env::new() {
        Ok(mut env) => env.lower_thread_pool_cpu_priority(),
        Err(error) => tracing::warn!("compactions keep their priority: {error}"),
    }
}

/// Lowers the priority of the current thread, unless it has a lower one already.
#[cfg(target_os = "linux")]
pub(super) fn give_way(niceness: i32) {
    use rustix::process::{getpriority_process, setpriority_process};
    // On Linux, niceness belongs to a thread, and `None` stands for the current one.
    let given = getpriority_process(None).and_then(|own| setpriority_process(None, own.max(niceness)));
    if let Err(error) = given {
        tracing::warn!("a thread that writes or merges runs keeps its priority: {error}");
    }
}

/// Does nothing: on other systems niceness belongs to a whole process.
#[cfg(not(target_os = "linux"))]
pub(super) fn give_way(_: i32) {}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_gives_way_alone() {
        use super::{RUN_NICENESS, give_way};
        use rustix::process::getpriority_process;

        let own = getpriority_process(None).expect("a niceness");
        let of_run = std::thread::spawn(|| {
            give_way(RUN_NICENESS);
            getpriority_process(None)
        });
        assert_eq!(of_run.join().expect("no panic").expect("a niceness"), own.max(RUN_NICENESS));
        assert_eq!(getpriority_process(None).expect("a niceness"), own);
    }
}
