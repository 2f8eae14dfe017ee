//! What the phases take: CPU time, wall time and memory, as the system reports them.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// The phases: those of the paper's table (section 5), and the load of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Turns pages into sketches.
    Sketching,
    /// Finds pages that equal an earlier one. It shares its pass over the input with sketching.
    DuplicateElimination,
    /// Sorts <shingle, document>.
    ShingleMerging,
    /// Forms <document, document, count>.
    PairFormation,
    /// Merges the pairs and decides them.
    PairMerging,
    /// Derives the clusters from the links by union-find.
    ClusterFormation,
    /// Loads the store. Tables that earlier phases wrote are counted with those.
    Load,
}

impl Phase {
    /// All phases, in the order in which they run.
    pub const ALL: [Phase; 7] = [
        Phase::Sketching,
        Phase::DuplicateElimination,
        Phase::ShingleMerging,
        Phase::PairFormation,
        Phase::PairMerging,
        Phase::ClusterFormation,
        Phase::Load,
    ];

    /// The phase's name, and from the paper's table its CPU-days for 30 million pages and whether it ran in parallel.
    pub fn paper(self) -> (&'static str, Option<f64>, bool) {
        match self {
            Phase::Sketching => ("sketching", Some(4.6), true),
            Phase::DuplicateElimination => ("duplicate elimination", Some(0.3), false),
            Phase::ShingleMerging => ("shingle merging", Some(1.7), true),
            Phase::PairFormation => ("pair formation", Some(0.7), false),
            Phase::PairMerging => ("pair merging", Some(2.6), true),
            Phase::ClusterFormation => ("cluster formation", Some(0.5), false),
            Phase::Load => ("load into the store", None, true),
        }
    }
}

/// What a phase took, in this run and in the runs that it resumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds of CPU time of all threads.
    pub cpu_seconds: f64,
    /// Seconds of wall time.
    pub wall_seconds: f64,
    /// Bytes that the phase wrote.
    pub n_bytes: u64,
    /// The peak memory of the process in bytes, up to the end of the phase.
    pub peak_memory: u64,
}

impl Usage {
    /// Adds what another run of the phase took. Peaks are not added: the higher one counts.
    pub fn add(&mut self, other: Usage) {
        self.cpu_seconds += other.cpu_seconds;
        self.wall_seconds += other.wall_seconds;
        self.n_bytes += other.n_bytes;
        self.peak_memory = self.peak_memory.max(other.peak_memory);
    }
}

/// Measures a phase.
#[derive(Debug)]
pub struct Meter {
    begin: Instant,
    cpu_seconds: f64,
}

impl Meter {
    /// Starts to measure.
    pub fn start() -> Self {
        Meter { begin: Instant::now(), cpu_seconds: cpu_seconds() }
    }

    /// What the process took since the start. The bytes written stay 0.
    pub fn elapsed(&self) -> Usage {
        Usage {
            cpu_seconds: cpu_seconds() - self.cpu_seconds,
            wall_seconds: self.begin.elapsed().as_secs_f64(),
            n_bytes: 0,
            peak_memory: peak_memory(),
        }
    }

    /// Ends a lap: returns what the process took since the start or the last lap, and starts again.
    pub fn lap(&mut self, n_bytes: u64) -> Usage {
        let usage = self.elapsed();
        *self = Self::start();
        Usage { n_bytes, ..usage }
    }
}

/// CPU seconds of all threads of this process, ended ones included. 0 where the system does not report them.
fn cpu_seconds() -> f64 {
    // Behind the name in parentheses, fields 12 and 13 are user and system time in hundredths of a second.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The peak memory of this process in bytes. 0 where the system does not report it.
pub fn peak_memory() -> u64 {
    kib_of("/proc/self/status", "VmHWM:")
}

/// The memory of the machine in bytes, or the limit of the process's control group where that is lower. 0 where the
/// system reports neither.
pub fn machine_memory() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let limit = |group: &Path| {
        let limit = fs::read_to_string(Path::new("/sys/fs/cgroup").join(group).join("memory.max")).ok()?;
        limit.trim().parse::<u64>().ok()
    };
    Path::new(group).ancestors().filter_map(limit).fold(kib_of("/proc/meminfo", "MemTotal:"), u64::min)
}

fn kib_of(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_loop_takes_time_and_memory() {
        let mut meter = Meter::start();
        let mut n = 0u64;
        while meter.begin.elapsed().as_millis() < 50 {
            n = std::hint::black_box(n.wrapping_mul(31) + 1);
        }
        let usage = meter.lap(7);
        assert!(usage.cpu_seconds > 0.0 && usage.wall_seconds >= 0.05 && usage.peak_memory > 1 << 20, "{usage:?}");
        assert!(machine_memory() > usage.peak_memory);
        assert!(meter.lap(0).wall_seconds < usage.wall_seconds);
    }
}
