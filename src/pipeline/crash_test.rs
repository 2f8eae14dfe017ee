//! Ways to crash on a record, for the tests of recovery.

use std::hint::black_box;

/// Ends the process by `abort`, or in the named way.
pub(crate) fn die(how: Option<&str>) -> ! {
    match how {
        Some("overflow") => drop(black_box(deeper(0))),
        Some("memory") => drop(black_box(more_and_more())),
        Some("panic") => panic!("a record that panics"),
        Some("kill") => drop(signal_hook::low_level::raise(signal_hook::consts::SIGKILL)),
        _ => {}
    }
    std::process::abort()
}

/// Overflows the stack.
fn deeper(depth: u64) -> u64 {
    let room = black_box([depth; 64]);
    if room[0] == u64::MAX { 0 } else { deeper(depth + 1) + room[1] }
}

/// Allocates and touches all the memory there is.
fn more_and_more() -> Vec<Vec<u8>> {
    (0..1 << 20).map(|_| vec![1; 1 << 20]).collect()
}
