//! How much a client may ask at once and in the long run, in bounded memory (the generic cell rate algorithm of ATM).
//!
//! All that is kept of a client is the moment at which it has its whole burst again. A client past that moment is as one
//! that never came.
//!
//! The crate `governor` has the same algorithm. It cannot tell whether a client has a request left without taking it, which
//! refusals need, nor whether a client is known, without which one client with many addresses would put all others into the
//! share of the unknown.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Clients that are told apart; all others share one rate meanwhile. Some 4 MiB.
const CLIENTS_MAX: usize = 65_536;

/// Time between two looks for clients that can go, at least: a look goes through all of them.
const CLEAN_INTERVAL: Duration = Duration::from_secs(1);

/// Where all clients are that find no room. No client has this address.
const OTHERS: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

/// A rate that each client may reach, after a burst.
pub(super) struct RateLimit {
    /// The time that one request costs.
    interval: Duration,
    /// The time that a client may be ahead of its rate.
    ahead_max: Duration,
    clients: Mutex<Clients>,
}

struct Clients {
    /// When a client has its whole burst again.
    whole_at: HashMap<IpAddr, Instant>,
    cleaned_at: Option<Instant>,
}

impl RateLimit {
    /// One request in each interval, and as many as `burst` at once.
    pub fn new(interval: Duration, burst: u32) -> Self {
        let clients = Mutex::new(Clients { whole_at: HashMap::new(), cleaned_at: None });
        RateLimit { interval, ahead_max: interval * burst.saturating_sub(1), clients }
    }

    /// Takes one request from what a client has.
    ///
    /// # Errors
    /// The time until the client has one again.
    pub fn take(&self, client: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let key = clients.key(client, now);
        let whole_at = clients.whole_at.get(&key).map_or(now, |whole_at| *whole_at.max(&now));
        self.check_at(whole_at, now)?;
        clients.whole_at.insert(key, whole_at + self.interval);
        Ok(())
    }

    /// Whether a client has one, without taking it.
    ///
    /// # Errors
    /// As of [`RateLimit::take`].
    pub fn check(&self, client: IpAddr, now: Instant) -> Result<(), Duration> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let key = clients.key(client, now);
        clients.whole_at.get(&key).map_or(Ok(()), |whole_at| self.check_at(*whole_at, now))
    }

    fn check_at(&self, whole_at: Instant, now: Instant) -> Result<(), Duration> {
        let wait = whole_at.saturating_duration_since(now).saturating_sub(self.ahead_max);
        if wait.is_zero() { Ok(()) } else { Err(wait) }
    }
}

impl Clients {
    /// Where a client stands in the table, or would: with the others where the table is full.
    fn key(&mut self, client: IpAddr, now: Instant) -> IpAddr {
        if self.whole_at.len() < CLIENTS_MAX || self.whole_at.contains_key(&client) {
            return client;
        }
        if self.cleaned_at.is_none_or(|at| now.saturating_duration_since(at) >= CLEAN_INTERVAL) {
            self.cleaned_at = Some(now);
            self.whole_at.retain(|_, whole_at| *whole_at > now);
        }
        if self.whole_at.len() < CLIENTS_MAX { client } else { OTHERS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(n: u32) -> IpAddr {
        IpAddr::V4(n.into())
    }

    #[test]
    fn a_client_has_a_burst_and_then_its_rate() {
        let limit = RateLimit::new(Duration::from_millis(100), 3);
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        for _ in 0..3 {
            assert_eq!(limit.take(client(1), at(0)), Ok(()));
        }
        assert_eq!(limit.take(client(1), at(0)), Err(Duration::from_millis(100)));
        assert_eq!(limit.take(client(1), at(60)), Err(Duration::from_millis(40)), "a refusal costs nothing");
        assert_eq!(limit.check(client(1), at(60)), Err(Duration::from_millis(40)));
        assert_eq!(limit.take(client(2), at(60)), Ok(()), "others have their own");
        assert_eq!(limit.check(client(1), at(100)), Ok(()));
        assert_eq!(limit.take(client(1), at(100)), Ok(()));
        assert_eq!(limit.take(client(1), at(199)), Err(Duration::from_millis(1)));
        let n_in_a_second = (200..1200).filter(|ms| limit.take(client(1), at(*ms)).is_ok()).count();
        assert_eq!(n_in_a_second, 10);
        let n_after_a_pause = (0..9).filter(|_| limit.take(client(1), at(5000)).is_ok()).count();
        assert_eq!(n_after_a_pause, 3, "no more than a burst is saved up");
    }

    /// Lost if this fails: the server's memory, to a client with many addresses.
    #[test]
    fn many_clients_take_bounded_memory() {
        let limit = RateLimit::new(Duration::from_secs(10), 1);
        let now = Instant::now();
        let n_max = u32::try_from(CLIENTS_MAX).expect("a number");
        assert!((0..n_max).all(|n| limit.take(client(n), now).is_ok()));
        assert_eq!(limit.take(client(n_max), now), Ok(()), "the first of the others");
        assert!((n_max..n_max + 1000).all(|n| limit.take(client(n), now).is_err()), "they share one rate");
        assert!(limit.take(client(0), now).is_err(), "who is known stays known");
        let n_kept = || limit.clients.lock().expect("a lock").whole_at.len();
        assert_eq!(n_kept(), CLIENTS_MAX + 1);
        let later = now + Duration::from_secs(11);
        assert!((n_max..n_max + 1000).all(|n| limit.take(client(n), later).is_ok()), "there is room again");
        assert_eq!(n_kept(), 1000);
    }
}
