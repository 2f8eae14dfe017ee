//! A full disk: whoever writes waits for room, says so, and goes on by itself.
//!
//! RocksDB looks for room every five seconds, and takes it for enough when 64 MiB are free, the size of a write buffer.

use crate::ports::StoreError;
use std::time::Duration;

/// How often a write is tried again while the disk is full.
const PAUSE: Duration = Duration::from_millis(500);

/// Does something, and again for as long as it fails for want of room on the disk only, until it is to give up. What it
/// does must be harmless to do twice.
pub(super) fn when_there_is_room(
    gives_up: impl Fn() -> bool,
    mut act: impl FnMut() -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut is_waiting = false;
    loop {
        let done = act();
        let is_full = matches!(done, Err(StoreError::DiskFull(_)));
        if is_full != is_waiting {
            tell(is_full);
            is_waiting = is_full;
        }
        if !is_full || gives_up() {
            return done;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether RocksDB says that nothing but room is missing. A failed sync is none of it, whatever the reason: what the
/// system could not keep then it has forgotten, and a second try would succeed and mean nothing.
pub(super) fn is_want_of_room(why: &str) -> bool {
    why.contains("No space left on device") && !why.to_ascii_lowercase().contains("sync")
}

fn tell(is_full: bool) {
    metrics::gauge!("lookalike_disk_full").set(f64::from(u8::from(is_full)));
    if is_full {
        tracing::error!("the disk is full: writing waits until there is room again, 64 MiB at least; queries go on");
    } else {
        tracing::warn!("there is room on the disk again: writing goes on");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_want_of_room_is_waited_for() {
        let full = || Err(StoreError::DiskFull("IO error: No space left on device: x".into()));
        let mut answers = vec![Ok(()), full(), full()];
        let act = || answers.pop().expect("asked no more");
        assert!(when_there_is_room(|| false, act).is_ok());
        let fails = || Err(StoreError::Failed("IO error: Input/output error".into()));
        assert!(when_there_is_room(|| false, fails).is_err());
        assert!(when_there_is_room(|| true, full).is_err(), "who is to give up does not wait");
        assert!(is_want_of_room("IO error: No space left on device: While appending to file: /store/000012.log"));
        for why in ["IO error: Input/output error", "IO error: No space left on device: While fsync: x"] {
            assert!(!is_want_of_room(why));
        }
    }
}
