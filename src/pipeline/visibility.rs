//! How many batches the store shows.

use std::sync::{Condvar, Mutex, PoisonError};

#[derive(Default)]
struct State {
    n_visible: u64,
    has_ended: bool,
}

/// Counts the batches whose writing has ended, and lets others wait for them.
#[derive(Default)]
pub(super) struct Visibility {
    state: Mutex<State>,
    changed: Condvar,
}

impl Visibility {
    /// How many batches every look-up from now on sees.
    pub fn n_visible(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).n_visible
    }

    /// One more batch is written.
    pub fn count(&self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).n_visible += 1;
        self.changed.notify_all();
    }

    /// Waits until `n` batches are written. False where the writer ends before.
    pub fn wait_for(&self, n: u64) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = |state: &mut State| state.n_visible < n && !state.has_ended;
        self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner).n_visible >= n
    }

    /// A guard that tells, when it is dropped, that nothing more will be written.
    pub fn ender(&self) -> Ender<'_> {
        Ender(self)
    }
}

/// See [`Visibility::ender`].
pub(super) struct Ender<'a>(&'a Visibility);

impl Drop for Ender<'_> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).has_ended = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_the_batch_or_with_the_writer() {
        let visibility = Visibility::default();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| (visibility.wait_for(1), visibility.wait_for(2)));
            let ender = visibility.ender();
            visibility.count();
            drop(ender);
            assert_eq!(waits.join().expect("no panic"), (true, false));
        });
        assert_eq!(visibility.n_visible(), 1);
    }
}
