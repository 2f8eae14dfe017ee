//! The sizes of the stream.

use serde::{Deserialize, Serialize};

/// Sizes of the stream. Each is a limit: the stages before it wait when it is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Sketcher threads; 0: one for each core.
    pub sketchers: usize,
    /// Threads that look up what the decisions will ask; 0: one for each four cores.
    pub look_ups: usize,
    /// Threads that encode decided batches; 0: one for each four cores.
    pub encoders: usize,
    /// Most records in a micro-batch, and at most a quarter of those between source and store.
    pub batch_records_max: usize,
    /// How long a micro-batch waits for more records at most, in milliseconds. It goes after 4 where the source has no more at
    /// hand and nothing else is being looked up.
    pub batch_latency_ms_max: u64,
    /// Most records between source and store.
    pub in_flight_records_max: usize,
    /// Most MiB of record bodies between source and sketchers.
    pub in_flight_mib_max: usize,
    /// MiB of decoded sketches that are cached.
    pub sketch_cache_mib: usize,
    /// MiB of sketched contents of recent pages, reused where a page comes again unchanged.
    pub repeat_cache_mib: usize,
    /// Whether a record on which the program crashes again and again is rejected.
    pub skip_poison_records: bool,
    /// Documents in a cluster at which an alarm is raised, and again at each doubling; 0: never.
    pub cluster_size_alarm: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            sketchers: 0,
            look_ups: 0,
            encoders: 0,
            batch_records_max: 4096,
            batch_latency_ms_max: 250,
            in_flight_records_max: 16384,
            in_flight_mib_max: 256,
            sketch_cache_mib: 64,
            repeat_cache_mib: 64,
            skip_poison_records: true,
            cluster_size_alarm: 100_000,
        }
    }
}

/// A stream holds at least so many full batches: one is gathered while others are looked up, decided and written.
const BATCHES_IN_FLIGHT_MIN: usize = 4;

impl Settings {
    /// Most records in a micro-batch. One that is full before the stream is leaves room for the next.
    pub(super) fn batch_records(&self) -> usize {
        self.batch_records_max.min(self.in_flight_records_max / BATCHES_IN_FLIGHT_MIN).max(1)
    }

    /// What is wrong with the settings, if anything.
    pub fn problem(&self) -> Option<String> {
        let zero = |name: &str| Some(format!("{name} is 0, must be at least 1"));
        match self {
            Settings { batch_records_max: 0, .. } => zero("batch_records_max"),
            Settings { in_flight_records_max: 0, .. } => zero("in_flight_records_max"),
            Settings { in_flight_mib_max: 0, .. } => zero("in_flight_mib_max"),
            _ => None,
        }
    }
}
