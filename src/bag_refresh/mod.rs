//! Updates the bags of related pages while the stream runs.
//!
//! A new document changes what is known about the URL where it stands and about the URLs that it links to or to which these
//! redirect. Their bags are computed again, with the word weights of the last build. Each step writes some bags together with the last document
//! that they include, so a crash costs at most one repeated step.

use crate::document::DocumentId;
use crate::ports::{BagChange, RelatedRefresh, Snapshot, StoreError};
use crate::query::{self, RedirectWay};
use crate::related::Target;
use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Documents whose URLs are updated in one step.
const DOCUMENTS_TOGETHER: usize = 64;

/// Updates bags after each interval, until the sender of `stop` is gone.
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
            if stop.try_recv() == Err(TryRecvError::Disconnected) {
                return Ok(());
            }
        }
        if store.related_build()?.is_some() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            metrics::gauge!("lookalike_related_refreshed_timestamp_seconds").set(now.as_secs_f64());
        }
    }
    Ok(())
}

/// Updates the bags of the URLs that the next documents concern. Returns false if no document is left, or before the first
/// build.
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
    for way in urls.iter().map(|url| RedirectWay::from_url(store, url)).collect::<Result<Vec<_>, _>>()? {
        urls.extend(way.redirecting.into_iter().chain(way.end));
    }
    let targets: Vec<Target> = urls.iter().map(|url| Target::of(store.seed(), url)).collect();
    let old = store.bags(&targets)?;
    let new = query::bags_of_urls(store, urls.iter().map(String::as_str))?;
    let change = |((target, old), new)| BagChange { target, old, new };
    let changes: Vec<BagChange> = targets.into_iter().zip(old).zip(new).map(change).collect();
    store.replace_bags(&changes, last)?;
    Ok(true)
}
