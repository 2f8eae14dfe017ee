//! Makes the postings of written batches readable, so that look-ups see the batches whole.

use super::syncer::Written;
use super::visibility::Visibility;
use super::write::ToIndex;
use crate::ports::{Store, StoreError};
use crossbeam::channel::{Receiver, Sender};

/// Runs until no more batches come, or the syncer has ended.
pub(super) fn run<S: Store>(
    store: &S,
    visibility: &Visibility,
    written: &Receiver<ToIndex<S>>,
    out: &Sender<Written>,
) -> Result<(), StoreError> {
    let _ender = visibility.ender();
    for (batch, postings) in written {
        if let Some(postings) = postings {
            store.index(postings)?;
            visibility.count();
        }
        kill_point!("indexed");
        if out.send(batch).is_err() {
            break;
        }
    }
    Ok(())
}
