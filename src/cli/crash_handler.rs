//! Deaths of the process's own making, noted as they happen: a record may be to blame for them, never for a `kill -9`.

#![expect(unsafe_code, reason = "what a process dies of can only be seen by a signal handler")]

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

/// What a process does to itself: `abort`, which is how want of memory ends, and what the processor refuses, a stack that
/// has run over among it.
const FATAL: [c_int; 5] = [SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV];

/// What was to be done at each of them before.
static BEFORE: [OnceLock<sigaction>; FATAL.len()] = [const { OnceLock::new() }; FATAL.len()];

/// The file that a death is noted in.
static NOTE: AtomicI32 = AtomicI32::new(-1);

/// From now on a file, which stays open and is written at where it stands, says so if the process dies by its own hand.
pub(super) fn note_deaths(note: File) -> io::Result<()> {
    NOTE.store(note.into_raw_fd(), Ordering::Release);
    for (signal, before) in FATAL.into_iter().zip(&BEFORE) {
        // SAFETY: a `sigaction` is plain numbers, for all of which 0 is a value; both calls get pointers to such that live
        // on, or none; the handler does only what a handler may do.
        let result = unsafe {
            let mut now: sigaction = zeroed();
            libc::sigaction(signal, null(), &raw mut now);
            before.get_or_init(|| now);
            let mut ours: sigaction = zeroed();
            ours.sa_sigaction = dying as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
            // On the stack that is set aside for this, where the thread's own may have run over.
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigaction(signal, &raw const ours, null_mut())
        };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Notes the death and lets it happen as it would have: with the handler of before in place, which tells of stacks that
/// ran over, a fault happens again on return.
extern "C" fn dying(signal: c_int, told: *mut siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel's pointer is good until the handler returns, and a sender is told where there is one; `write`,
    // `sigaction`, `getpid` and `raise` may be called in handlers, and reading what `BEFORE` holds locks nothing.
    unsafe {
        // A fault has no sender; `abort` sends the signal itself.
        let is_sent = (*told).si_code <= 0;
        if !is_sent || (*told).si_pid() == libc::getpid() {
            libc::write(NOTE.load(Ordering::Acquire), DEATH.as_ptr().cast(), DEATH.len());
        }
        let before = FATAL.iter().position(|fatal| *fatal == signal).and_then(|at| BEFORE[at].get());
        libc::sigaction(signal, before.map_or(null(), |before| &raw const *before), null_mut());
        if is_sent {
            libc::raise(signal);
        }
    }
}

/// What the kernel tells of itself; nothing where it is not Linux.
pub(super) fn machine() -> Option<Machine> {
    let boot = read_to_string("/proc/sys/kernel/random/boot_id").ok()?.trim().to_string();
    let counters = read_to_string("/proc/vmstat").ok()?;
    let n_killed = counters.lines().find_map(|line| line.strip_prefix("oom_kill "))?;
    Some(Machine { boot, n_killed_for_memory: n_killed.trim().parse().ok()? })
}
