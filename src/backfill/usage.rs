//! What the phases take: CPU time, wall time, memory, as the system tells it.

use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::Instant;

/// The phases, in the words of the paper's table (section 5), and what a store needs beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Pages to sketches.
    Sketching,
    /// Pages equal to one before them: found as they come, in the first phase's pass.
    DuplicateElimination,
    /// <shingle, document>, sorted.
    ShingleMerging,
    /// <document, document, count>.
    PairFormation,
    /// The same, merged, and the pairs decided.
    PairMerging,
    /// Union-find, and what it says of each document.
    ClusterFormation,
    /// The store.
    Load,
}

impl Phase {
    /// In their order.
    pub const ALL: [Phase; 7] = [
        Phase::Sketching,
        Phase::DuplicateElimination,
        Phase::ShingleMerging,
        Phase::PairFormation,
        Phase::PairMerging,
        Phase::ClusterFormation,
        Phase::Load,
    ];

    /// Its name, and in the paper's table its CPU-days for 30 million pages and whether it ran in parallel.
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

/// What a phase took, in this run and those before it that finished something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds of CPU time, of all threads.
    pub cpu_seconds: f64,
    /// Seconds of wall time.
    pub wall_seconds: f64,
    /// Bytes that it wrote.
    pub n_bytes: u64,
    /// The process's memory at its peak, in bytes, when the phase ended.
    pub peak_memory: u64,
}

impl Usage {
    /// Adds what another run of the phase took.
    pub fn add(&mut self, other: Usage) {
        self.cpu_seconds += other.cpu_seconds;
        self.wall_seconds += other.wall_seconds;
        self.n_bytes += other.n_bytes;
        self.peak_memory = self.peak_memory.max(other.peak_memory);
    }
}

/// Measures one phase.
#[derive(Debug)]
pub struct Meter {
    begin: Instant,
    cpu_seconds: f64,
}

impl Meter {
    /// Begins to measure.
    pub fn start() -> Self {
        Meter { begin: Instant::now(), cpu_seconds: cpu_seconds() }
    }

    /// What was taken since the start, but for the bytes.
    pub fn so_far(&self) -> Usage {
        Usage {
            cpu_seconds: cpu_seconds() - self.cpu_seconds,
            wall_seconds: self.begin.elapsed().as_secs_f64(),
            n_bytes: 0,
            peak_memory: peak_memory(),
        }
    }

    /// What was taken since the start, or since it was asked the last time.
    pub fn lap(&mut self, n_bytes: u64) -> Usage {
        let usage = self.so_far();
        *self = Self::start();
        Usage { n_bytes, ..usage }
    }
}

/// CPU time of this process, all its threads, those that ended included. 0 where the system does not tell.
fn cpu_seconds() -> f64 {
    // After the name in parentheses the 12th and 13th field are user and system time, in hundredths of a second.
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
}

/// The most memory that this process had at any time, in bytes. 0 where the system does not tell.
pub fn peak_memory() -> u64 {
    kib_of("/proc/self/status", "VmHWM:")
}

/// The memory of the machine, in bytes, or less where the process is given less: as a container or a service is. 0 where
/// the system does not tell.
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
    fn work_takes_time_and_memory() {
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
