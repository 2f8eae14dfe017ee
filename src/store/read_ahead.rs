//! Reads ahead what RocksDB's writer drops from the system's cache.

use std::path::Path;

/// Asks the system to read a run into its cache. RocksDB's writer has just dropped it from there, and otherwise the first
/// look-up of each block would wait for the disk.
#[cfg(target_os = "linux")]
pub(super) fn read_ahead(path: &Path) {
    let advised = std::fs::File::open(path)
        .and_then(|file| Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::WillNeed)?));
    if let Err(error) = advised {
        tracing::debug!("{} is not read ahead: {error}", path.display());
    }
}

/// Does nothing: other systems lack the call.
#[cfg(not(target_os = "linux"))]
pub(super) fn read_ahead(_: &Path) {}
