//! Notes crashes as they happen: a record may have caused a crash, never a `kill -9`.

#![expect(unsafe_code, reason = "only a signal handler sees why a process dies")]

use crate::pipeline::Machine;
use crate::store::DEATH;
use libc::{SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, c_int, c_void, sigaction, siginfo_t};
use std::fs::{File, read_to_string};
use std::io;
use std::mem::zeroed;
use std::os::fd::IntoRawFd;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

/// The signals of a crash: `abort`, which is how failed allocations end, and faults, such as a stack overflow.
const FATAL: [c_int; 5] = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV];

/// The handlers that were installed before ours.
static BEFORE: [OnceLock<sigaction>; FATAL.len()] = [const { OnceLock::new() }; FATAL.len()];

/// The open file that a crash is noted in.
static NOTE: AtomicI32 = AtomicI32::new(-1);

/// From now on, a crash of the process is noted in this file, which stays open, at its present position.
pub(super) fn note_crashes(note: File) -> io::Result<()> {
    NOTE.store(note.into_raw_fd(), Ordering::Release);
    for (signal, before) in FATAL.into_iter().zip(&BEFORE) {
        // SAFETY: a `sigaction` is plain numbers, for which 0 is a valid value; both calls get null or pointers to values
        // that outlive them; the handler calls only async-signal-safe functions.
        let result = unsafe {
            let mut now: sigaction = zeroed();
            libc::sigaction(signal, null(), &raw mut now);
            before.get_or_init(|| now);
            let mut ours: sigaction = zeroed();
            ours.sa_sigaction = on_crash as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
            // The thread's own stack may have overflowed.
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const ours, null_mut())
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Notes the crash and lets it happen: with the former handler back in place, which reports stack overflows, a fault
/// happens again on return.
extern "C" fn on_crash(signal: c_int, info: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel's pointer is valid until the handler returns, and names a sender where `si_code` says so; `write`,
    // `sigaction`, `getpid` and `raise` are async-signal-safe, and reading `BEFORE` takes no lock.
    unsafe {
        // A fault has no sender; `abort` sends the signal itself.
        let is_sent = (*info).si_code <= 0;
        if !is_sent || (*info).si_pid() == libc::getpid() {
            libc::write(NOTE.load(Ordering::Acquire), DEATH.as_ptr().cast(), DEATH.len());
        }
        let before = FATAL.iter().position(|fatal| *fatal == signal).and_then(|at| BEFORE[at].get());
        libc::sigaction(signal, before.map_or(null(), |before| &raw const *before), null_mut());
        if is_sent {
            libc::raise(signal);
        }
    }
}

/// The boot of this machine and its count of processes killed for want of memory; none outside Linux.
pub(super) fn machine() -> Option<Machine> {
    let boot = read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_string();
    let counters = read_to_string("/proc/vmstat").ok()?;
    let n_killed = counters.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    Some(Machine { boot, n_killed_for_memory: n_killed.trim().parse().ok()? })
}
