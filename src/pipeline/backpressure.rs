//! Backpressure: limits the records, and their bytes, between source and store.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Admits records while there is room.
pub(super) struct Backpressure {
    room: Mutex<InFlight>,
    changed: Condvar,
    records_max: usize,
    bytes_max: usize,
}

#[derive(Default)]
struct InFlight {
    n_records: usize,
    n_bytes: usize,
    closed: bool,
}

/// Ends admission when it goes out of scope, on success, error or panic.
pub(super) struct CloseOnDrop<'a>(&'a Backpressure);

impl Drop for CloseOnDrop<'_> {
    fn drop(&mut self) {
        self.0.room().closed = true;
        self.0.changed.notify_all();
    }
}

impl Backpressure {
    pub fn new(records_max: usize, bytes_max: usize) -> Self {
        Backpressure { room: Mutex::default(), changed: Condvar::new(), records_max, bytes_max }
    }

    pub fn closer(&self) -> CloseOnDrop<'_> {
        CloseOnDrop(self)
    }

    /// Waits until there is room for records of `n_bytes` together; false where admission has ended. A record larger than the
    /// whole room is admitted alone.
    pub fn enter(&self, n_records: usize, n_bytes: usize) -> bool {
        let mut room = self.room();
        while !room.closed
            && ((room.n_records > 0 && room.n_records + n_records > self.records_max)
                || (room.n_bytes > 0 && room.n_bytes + n_bytes > self.bytes_max))
        {
            room = self.changed.wait(room).unwrap_or_else(PoisonError::into_inner);
        }
        room.n_records += n_records;
        room.n_bytes += n_bytes;
        !room.closed
    }

    /// Whether a stage has ended, so that admitted records could not leave.
    pub fn is_closed(&self) -> bool {
        self.room().closed
    }

    /// Bytes are held no longer.
    pub fn release_bytes(&self, n_bytes: usize) {
        self.room().n_bytes -= n_bytes;
        self.changed.notify_one();
    }

    /// Records have left the stream.
    pub fn release_records(&self, n_records: usize) {
        self.room().n_records -= n_records;
        self.changed.notify_one();
    }

    /// Two numbers and a flag are valid at any moment: a panic elsewhere does not spoil them.
    fn room(&self) -> MutexGuard<'_, InFlight> {
        self.room.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_full_gate_waits_until_there_is_room() {
        let backpressure = Backpressure::new(2, 100);
        assert!(backpressure.enter(1, 60) && backpressure.enter(1, 30));
        std::thread::scope(|scope| {
            let third = scope.spawn(|| backpressure.enter(1, 60));
            std::thread::sleep(Duration::from_millis(20));
            assert!(!third.is_finished());
            backpressure.release_records(1);
            std::thread::sleep(Duration::from_millis(20));
            assert!(!third.is_finished(), "there is room for a record, not for its bytes");
            backpressure.release_bytes(60);
            assert!(third.join().expect("no panic"));
        });
    }

    #[test]
    fn a_record_over_the_limit_is_admitted_alone_and_none_after_the_end() {
        let backpressure = Backpressure::new(2, 100);
        assert!(backpressure.enter(9, 1000));
        std::thread::scope(|scope| {
            let second = scope.spawn(|| backpressure.enter(1, 1));
            drop(backpressure.closer());
            assert!(!second.join().expect("no panic"));
        });
    }
}
