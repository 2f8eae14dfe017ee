//! When an owner counts as dead: once its heartbeat has stood still for long enough.

use std::time::{Duration, Instant};

/// Watches a heartbeat. Only this machine's clock counts, from the first sight of a beat on.
#[derive(Debug)]
pub struct Silence {
    after: Duration,
    last: Option<(String, Instant)>,
}

impl Silence {
    /// Suspects an owner that is silent for `after`.
    pub fn new(after: Duration) -> Self {
        Silence { after, last: None }
    }

    /// Whether the owner counts as dead. `beat` is its last beat; none if no owner ever beat; an error where nobody can tell,
    /// for who cannot hear cannot say that somebody is silent.
    pub fn observe(&mut self, now: Instant, beat: Result<Option<String>, ()>) -> bool {
        match (beat, &mut self.last) {
            (Err(()), Some((_, since))) => *since = now,
            (Err(()), None) => {}
            (Ok(None), _) => self.last = None,
            (Ok(Some(beat)), Some((last, since))) if beat == *last => {
                return now.saturating_duration_since(*since) >= self.after;
            }
            (Ok(Some(beat)), _) => self.last = Some((beat, now)),
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_beat_that_stands_still_is_silence() {
        let begin = Instant::now();
        let mut silence = Silence::new(Duration::from_secs(3));
        let mut observe = |second: u64, beat: Result<Option<&str>, ()>| {
            silence.observe(begin + Duration::from_secs(second), beat.map(|beat| beat.map(String::from)))
        };
        assert!(!observe(0, Ok(None)) && !observe(9, Ok(None)), "an owner that never beat is not suspected");
        assert!(!observe(10, Ok(Some("1"))) && !observe(12, Ok(Some("1"))));
        assert!(!observe(13, Ok(Some("2"))) && !observe(15, Ok(Some("2"))));
        assert!(!observe(16, Err(())), "the brokers are away");
        assert!(!observe(18, Ok(Some("2"))), "it may have been unable to beat");
        assert!(observe(19, Ok(Some("2"))));
    }
}
