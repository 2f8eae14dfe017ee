//! The chained fingerprint, which shows whether a file still begins with the records that were read before.

use highway::{HighwayHash, HighwayHasher, Key};

/// Part of the store's format: with another key no file would be recognised.
const KEY: Key = Key([0x6c6f_6f6b_616c_696b, 0x652e_6669_6c65_732e, 0x6368_6169_6e2e_7631, 0]);

/// Hashes one record on top of those before it, piece by piece.
///
/// Carriage returns at the record's end do not count, so that a last line may get its line end later.
pub(super) struct RecordHash {
    hasher: HighwayHasher,
    n_returns: usize,
}

impl RecordHash {
    /// Begins a record that follows the fingerprint `chain`.
    pub(super) fn after(chain: u64) -> Self {
        let mut hasher = HighwayHasher::new(KEY);
        hasher.append(&chain.to_le_bytes());
        RecordHash { hasher, n_returns: 0 }
    }

    /// Adds a piece of the record.
    pub(super) fn append(&mut self, piece: &[u8]) {
        let kept = piece.len() - piece.iter().rev().take_while(|byte| **byte == b'\r').count();
        if kept > 0 {
            (0..std::mem::take(&mut self.n_returns)).for_each(|_| self.hasher.append(b"\r"));
            self.hasher.append(&piece[..kept]);
        }
        self.n_returns += piece.len() - kept;
    }

    /// Returns the chained fingerprint after this record.
    pub(super) fn finish(self) -> u64 {
        self.hasher.finalize64()
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
        assert_eq!(hash(0, &[]), 12_062_529_213_515_562_329);
        assert_eq!(
            [hash(0, &["{}"]), hash(u64::MAX, &[r#"{"url":"http://a/"}"#])],
            [2_514_828_095_367_946_213, 10_261_961_458_702_289_049]
        );
    }
}
