//! The chained fingerprint, which shows whether a file still begins with the records that were read before.

use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// Hashes one record on top of those before it, piece by piece. The hash has no key: it detects that a file was changed, and
/// does not protect against somebody who forges one.
///
/// Carriage returns at the record's end do not count, so that a last line may get its line end later.
pub(super) struct RecordHash {
    hasher: XxHash3_64,
    n_returns: usize,
}

impl RecordHash {
    /// Begins a record that follows the fingerprint `chain`.
    pub(super) fn after(chain: u64) -> Self {
        RecordHash { hasher: XxHash3_64::with_seed(chain), n_returns: 0 }
    }

    /// Adds a piece of the record.
    pub(super) fn append(&mut self, piece: &[u8]) {
        let kept = piece.len() - piece.iter().rev().take_while(|byte| **byte == b'\r').count();
        if kept > 0 {
            (0..std::mem::take(&mut self.n_returns)).for_each(|_| self.hasher.write(b"\r"));
            self.hasher.write(&piece[..kept]);
        }
        self.n_returns += piece.len() - kept;
    }

    /// Returns the chained fingerprint after this record.
    pub(super) fn finish(self) -> u64 {
        self.hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(chain: u64, pieces: &[&str]) -> u64 {
        let mut hash = RecordHash::after(chain);
        pieces.iter().for_each(|piece| hash.append(piece.as_bytes()));
        hash.finish()
    }

    #[test]
    fn pieces_and_returns_at_the_end_do_not_count() {
        assert_eq!(hash(0, &["abc", "", "def"]), hash(0, &["abcdef"]));
        assert_eq!(hash(0, &["abc\r", "\r", "def\r", "\r"]), hash(0, &["abc\r\rdef"]));
        assert_ne!(hash(0, &["abc"]), hash(0, &["abd"]));
        assert_ne!(hash(0, &["abc"]), hash(1, &["abc"]));
        assert_ne!(hash(0, &["a\rc"]), hash(0, &["ac"]));
    }

    /// Stored progress contains these numbers: they must not change.
    #[test]
    fn known_answers() {
        assert_eq!(hash(0, &[]), 3_244_421_341_483_603_138);
        assert_eq!(
            [hash(0, &["{}"]), hash(u64::MAX, &[r#"{"url":"http://a/"}"#])],
            [1_389_868_326_933_519_382, 15_961_913_902_356_108_083]
        );
    }
}
