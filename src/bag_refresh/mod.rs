//! Keeps the bags of related pages up to date while the stream runs: those of the URLs that new documents stand at or speak
//! of.
//!
//! A build weighs all bags anew; between two builds the weights of words stay those of the last one, and bags follow what
//! is said. Each step replaces some bags and notes up to which document they know, in one write, so that a crash costs
//! nothing but doing a step again.

use crate::document::DocumentId;
use crate::ports::{BagChange, RelatedRefresh, Snapshot, StoreError};
use crate::query;
use crate::related::Target;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Documents whose URLs are brought up to date in one step.
const DOCUMENTS_TOGETHER: usize = 64;

/// Brings bags up to date after each interval, until the sender of `stop` is gone.
///
/// # Errors
/// [`StoreError`]
pub fn refresh_bags<S: Snapshot + RelatedRefresh>(
    store: &S,
    interval: Duration,
    stop: &Receiver<()>,
) -> Result<(), StoreError> {
    while stop.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        while refresh_some(store)? {
            if stop.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Brings the URLs of the next documents up to date. Returns false where no document is left, or before the first build.
fn refresh_some<S: Snapshot + RelatedRefresh>(store: &S) -> Result<bool, StoreError> {
    let Some(build) = store.related_build()? else { return Ok(false) };
    let (mut documents, mut urls) = (Vec::new(), BTreeSet::new());
    store.each_said(DocumentId(build.refreshed_up_to.0.saturating_add(1)), &mut |document, said| {
        documents.push(document);
        urls.extend(said.fragments().map(|(passage, _)| passage.target.clone()));
        documents.len() < DOCUMENTS_TOGETHER
    })?;
    let Some(last) = documents.last().copied() else { return Ok(false) };
    let first_urls: Vec<_> = store.documents(&documents)?.into_iter().map(|document| document.first_url).collect();
    urls.extend(store.urls(&first_urls)?);
    let targets: Vec<Target> = urls.iter().map(|url| Target::of(store.seed(), url)).collect();
    let mut changes = Vec::with_capacity(targets.len());
    for ((url, target), old) in urls.iter().zip(&targets).zip(store.bags(&targets)?) {
        changes.push(BagChange { target: *target, old, new: query::bag_of_url(store, url)? });
    }
    store.replace_bags(&changes, last)?;
    Ok(true)
}
