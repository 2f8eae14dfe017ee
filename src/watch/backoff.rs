//! How long to wait before a hook that failed is tried again.

use std::time::Duration;

/// The longest first pause.
const FIRST: Duration = Duration::from_millis(400);
/// The longest pause of all.
const LAST: Duration = Duration::from_secs(120);

/// The pause after so many failures in a row: twice as long each time, and between half of that and all of it, so that hooks
/// behind one broken proxy do not come back at once. `random` is any number.
pub(super) fn pause(n_failures: u32, random: u8) -> Duration {
    let longest = FIRST.saturating_mul(1 << n_failures.saturating_sub(1).min(20)).min(LAST);
    longest / 2 + longest / 2 * u32::from(random) / u32::from(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        for (n_failures, longest) in [(1, FIRST), (2, FIRST * 2), (5, FIRST * 16), (10, LAST), (u32::MAX, LAST)] {
            assert_eq!((pause(n_failures, 0), pause(n_failures, 255)), (longest / 2, longest), "{n_failures}");
        }
    }
}
