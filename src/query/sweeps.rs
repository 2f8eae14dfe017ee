//! Sweeps: the dated walks of the crawler.

use crate::ports::{Snapshot, StoreError};
use crate::sweep::SweepRow;
use serde::Serialize;

/// A sweep and its counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sweep {
    /// Its name.
    pub name: String,
    /// When it began and ended, and what it saw.
    #[serde(flatten)]
    pub row: SweepRow,
}

/// All sweeps, the earliest first.
///
/// # Errors
/// [`StoreError`]
pub fn sweeps(snapshot: &impl Snapshot) -> Result<Vec<Sweep>, StoreError> {
    let mut sweeps: Vec<Sweep> = snapshot.sweeps()?.into_iter().map(|(name, row)| Sweep { name, row }).collect();
    sweeps.sort_by(|a, b| (a.row.first, &a.name).cmp(&(b.row.first, &b.name)));
    Ok(sweeps)
}
