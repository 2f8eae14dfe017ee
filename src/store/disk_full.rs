//! A full disk: writers report it, wait for free space and resume by themselves.
//!
//! RocksDB checks for free space every five seconds. It resumes when 64 MiB are free, the size of a write buffer.

use crate::ports::StoreError;
use std::time::Duration;

/// The pause before the next retry while the disk is full.
const PAUSE: Duration = Duration::from_millis(500);

/// Runs `act`, and retries it while it fails only because the disk is full. Stops retrying once `should_stop` returns
/// true. Running `act` twice must be harmless.
pub(super) fn retry_while_full<T>(
    should_stop: impl Fn() -> bool,
    mut act: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let mut is_waiting = false;
    loop {
        let result = act();
        let is_full = matches!(result, Err(StoreError::DiskFull(_)));
        if is_full != is_waiting {
            report(is_full);
            is_waiting = is_full;
        }
        if !is_full || should_stop() {
            return result;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether an error of RocksDB means that only disk space is missing. A failed sync never counts: the system has
/// already dropped the data it could not write, so a retry would succeed without making anything durable.
pub(super) fn is_disk_full(message: &str) -> bool {
    message.contains("No space left on device") && !message.to_ascii_lowercase().contains("sync")
}

fn report(is_full: bool) {
    metrics::gauge!("lookalike_disk_full").set(f64::from(u8::from(is_full)));
    if is_full {
        tracing::error!("the disk is full: writing waits until at least 64 MiB are free; queries go on");
    } else {
        tracing::warn!("the disk has free space again: writing goes on");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_full_disk_is_waited_for() {
        let full = || Err(StoreError::DiskFull("IO error: No space left on device: x".into()));
        let mut answers = vec![Ok(()), full(), full()];
        let act = || answers.pop().expect("no further call");
        assert!(retry_while_full(|| false, act).is_ok());
        let fails = || -> Result<(), StoreError> { Err(StoreError::Failed("IO error: Input/output error".into())) };
        assert!(retry_while_full(|| false, fails).is_err());
        assert!(retry_while_full(|| true, full).is_err(), "no wait after a stop");
        assert!(is_disk_full("IO error: No space left on device: While appending to file: /store/000012.log"));
        for why in ["IO error: Input/output error", "IO error: No space left on device: While fsync: x"] {
            assert!(!is_disk_full(why));
        }
    }
}
