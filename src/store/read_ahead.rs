//! Reads ahead what RocksDB's writer drops from the system's cache.

#[cfg(any(test, target_os = "linux"))]
use std::ops::Range;
use std::path::Path;

/// How many bytes are asked for at once. Linux reads no more than its window for reading ahead, whatever is asked for, and that is
/// as large as this unless somebody has changed it.
#[cfg(any(test, target_os = "linux"))]
const WINDOW_BYTES: usize = 128 << 10;

/// Asks the system to read a run into its cache. RocksDB's writer has just dropped it from there, and otherwise the first
/// look-up of each block would wait for the disk.
#[cfg(target_os = "linux")]
pub(super) fn read_ahead(path: &Path) {
    if let Err(error) = advise_all(path) {
        tracing::debug!("{} is not read ahead: {error}", path.display());
    }
}

#[cfg(target_os = "linux")]
fn advise_all(path: &Path) -> std::io::Result<()> {
    let file = std::fs::File::open(path)?;
    for window in windows(file.metadata()?.len()) {
        let length = std::num::NonZeroU64::new(window.end - window.start);
        rustix::fs::fadvise(&file, window.start, length, rustix::fs::Advice::WillNeed)?;
    }
    Ok(())
}

/// The windows of a file of so many bytes.
#[cfg(any(test, target_os = "linux"))]
fn windows(n_bytes: u64) -> impl Iterator<Item = Range<u64>> {
    (0..n_bytes).step_by(WINDOW_BYTES).map(move |from| from..n_bytes.min(from + WINDOW_BYTES as u64))
}

/// Does nothing: other systems lack the call.
#[cfg(not(target_os = "linux"))]
pub(super) fn read_ahead(_: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux reads one window of what is asked for: of runs of hundreds of megabytes, all but the first eight were then read block by
    /// block, each when a look-up had to wait for it.
    #[test]
    fn a_file_is_asked_for_to_its_end_in_windows() {
        assert_eq!(windows(0).count(), 0);
        assert_eq!(windows(300 << 10).collect::<Vec<_>>(), [0..128 << 10, 128 << 10..256 << 10, 256 << 10..300 << 10]);
        assert_eq!(windows(1 << 20).last(), Some(896 << 10..1 << 20));
    }
}
