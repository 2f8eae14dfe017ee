//! How fast the process takes pages in, read from its own counters.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A rate is over this time at least.
const SPAN_MIN: Duration = Duration::from_secs(10);

/// The pages taken in at two earlier moments.
pub(super) struct Throughput(Mutex<[Sample; 2]>);

#[derive(Clone, Copy)]
struct Sample {
    at: Instant,
    n_pages: f64,
}

/// What the process does at the moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// Pages since the process started.
    pub n_pages: u64,
    /// Pages a second, over the last ten seconds or more.
    pub per_second: f64,
    /// Records that wait to be read, where the source knows.
    pub n_waiting: Option<u64>,
    /// How old the newest record was when it was read, where the source knows.
    pub seconds_behind: Option<u64>,
}

impl Throughput {
    /// The process has just started.
    pub fn new() -> Self {
        Throughput(Mutex::new([Sample { at: Instant::now(), n_pages: 0.0 }; 2]))
    }

    /// The pace by the counters as Prometheus reads them; none where the process takes no pages in.
    pub fn pace(&self, metrics: &str) -> Option<Pace> {
        let n_pages = sum(metrics, "lookalike_pages_total")?;
        let now = Sample { at: Instant::now(), n_pages };
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if now.at.duration_since(samples[1].at) >= SPAN_MIN {
            *samples = [samples[1], now];
        }
        let earlier = samples[0];
        let seconds = now.at.duration_since(earlier.at).as_secs_f64();
        Some(Pace {
            n_pages: n_pages as u64,
            per_second: (n_pages - earlier.n_pages) / seconds.max(1.0),
            n_waiting: sum(metrics, "lookalike_lag_records").map(|n| n as u64),
            seconds_behind: sum(metrics, "lookalike_lag_seconds").map(|seconds| seconds as u64),
        })
    }
}

/// The sum of a metric over its labels; none where it is not there.
fn sum(metrics: &str, name: &str) -> Option<f64> {
    let values = metrics.lines().filter_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (labels, value) = rest.rsplit_once(' ')?;
        (labels.is_empty() || labels.starts_with('{')).then(|| value.parse::<f64>().ok())?
    });
    values.fold(None, |sum, value| Some(sum.unwrap_or(0.0) + value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_their_labels() {
        let metrics = "# TYPE lookalike_pages_total counter\nlookalike_pages_total{outcome=\"new\"} 7\n\
                       lookalike_pages_total{outcome=\"gone\"} 2\nlookalike_pages_total_of_another 90\nlookalike_lag_records 5\n";
        let pace = Throughput::new().pace(metrics).expect("pages");
        assert_eq!((pace.n_pages, pace.n_waiting, pace.seconds_behind), (9, Some(5), None));
        assert!(pace.per_second > 0.0 && pace.per_second <= 9.0, "{}", pace.per_second);
        assert_eq!(Throughput::new().pace("lookalike_http_requests_total 3\n"), None);
    }

    #[test]
    fn a_rate_is_over_the_last_seconds() {
        let throughput = Throughput::new();
        let at = |back| Instant::now().checked_sub(Duration::from_secs(back)).expect("a time");
        *throughput.0.lock().expect("samples") =
            [Sample { at: at(40), n_pages: 0.0 }, Sample { at: at(20), n_pages: 10.0 }];
        let pace = throughput.pace("lookalike_pages_total 210").expect("pages");
        assert!((9.9..10.1).contains(&pace.per_second), "{}", pace.per_second);
    }
}
