//! Slots for connections, limited in all and for each address; where all are taken, the longest idle gives way.

use super::client::network_of;
use super::settings::Settings;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a connection must be idle before it gives way to a new one. A connection in use is never idle for as
/// long.
const IDLE_MIN: Duration = Duration::from_secs(1);

/// All slots.
pub(super) struct ConnectionSlots {
    n_max: usize,
    n_of_address_max: usize,
    taken: Mutex<Vec<(IpAddr, Arc<ConnectionState>)>>,
}

/// A slot, free again when this value is dropped.
pub(super) struct Slot {
    slots: Arc<ConnectionSlots>,
    pub state: Arc<ConnectionState>,
}

/// What a connection does.
pub(super) struct ConnectionState {
    activity: Mutex<Activity>,
    /// A new connection needs the slot.
    pub gives_way: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// No byte of a request has come since then.
    Idle(Instant),
    /// A request's head has been coming since then.
    Head(Instant),
    /// A request waits for its answer; its body may still be coming.
    Answering,
    /// An answer is being sent.
    Sending,
    /// A stream of events is being sent, to the end of the connection. It is silent between two events.
    Streaming,
}

impl ConnectionSlots {
    pub fn new(settings: &Settings) -> Self {
        ConnectionSlots {
            n_max: settings.connections_max,
            n_of_address_max: settings.connections_per_address_max,
            taken: Mutex::default(),
        }
    }

    /// A slot for a connection from an address; none where all that it may have are in use. Where one of them has
    /// been idle for a while, that one gives way.
    pub fn acquire(self: &Arc<Self>, from: IpAddr) -> Option<Slot> {
        let address = network_of(from);
        let mut taken = self.taken();
        let n_of_address = taken.iter().filter(|(other, _)| *other == address).count();
        let has_its_share = n_of_address >= self.n_of_address_max;
        if has_its_share || taken.len() >= self.n_max {
            let may_give_way = |(other, _): &&(IpAddr, Arc<ConnectionState>)| !has_its_share || *other == address;
            let idle = taken.iter().filter(may_give_way).filter_map(|(_, state)| Some((state.idle_since()?, state)));
            let (since, longest) = idle.min_by_key(|(since, _)| *since)?;
            if since.elapsed() < IDLE_MIN {
                return None;
            }
            longest.gives_way.notify_one();
            let longest = Arc::clone(longest);
            taken.retain(|(_, state)| !Arc::ptr_eq(state, &longest));
        }
        let state = Arc::new(ConnectionState {
            activity: Mutex::new(Activity::Idle(Instant::now())),
            gives_way: Notify::new(),
        });
        taken.push((address, Arc::clone(&state)));
        drop(taken);
        Some(Slot { slots: Arc::clone(self), state })
    }

    fn taken(&self) -> MutexGuard<'_, Vec<(IpAddr, Arc<ConnectionState>)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.taken().retain(|(_, state)| !Arc::ptr_eq(state, &self.state));
    }
}

impl ConnectionState {
    /// Bytes came.
    pub fn bytes_came(&self) {
        self.update(|at| if let Activity::Idle(_) = at { Activity::Head(Instant::now()) } else { at });
    }

    /// A request's head is complete.
    pub fn head_read(&self) {
        self.update(|_| Activity::Answering);
    }

    /// The answer to a request is ready.
    pub fn answer_ready(&self) {
        self.update(|_| Activity::Sending);
    }

    /// The answer to a request is a stream of events.
    pub fn stream_begins(&self) {
        self.update(|_| Activity::Streaming);
    }

    /// Bytes are sent.
    pub fn bytes_go(&self) {
        self.update(|at| if matches!(at, Activity::Answering | Activity::Streaming) { at } else { Activity::Sending });
    }

    /// All bytes are sent.
    pub fn all_sent(&self) {
        self.update(|at| if at == Activity::Sending { Activity::Idle(Instant::now()) } else { at });
    }

    /// When the client will have had its time, and for what.
    pub fn deadline(&self, idle_max: Duration, head_max: Duration) -> Option<(Instant, &'static str)> {
        match *self.activity() {
            Activity::Idle(since) => Some((since + idle_max, "idle")),
            Activity::Head(since) => Some((since + head_max, "head")),
            Activity::Answering | Activity::Sending | Activity::Streaming => None,
        }
    }

    fn idle_since(&self) -> Option<Instant> {
        if let Activity::Idle(since) = *self.activity() { Some(since) } else { None }
    }

    fn update(&self, next: impl FnOnce(Activity) -> Activity) {
        let mut activity = self.activity();
        *activity = next(*activity);
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slots(n_max: usize, n_of_address_max: usize) -> Arc<ConnectionSlots> {
        let settings =
            Settings { connections_max: n_max, connections_per_address_max: n_of_address_max, ..Settings::default() };
        Arc::new(ConnectionSlots::new(&settings))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Makes a connection idle for so long.
    fn idle_for(slot: &Slot, seconds: u64) {
        slot.state.update(|_| Activity::Idle(Instant::now() - Duration::from_secs(seconds)));
    }

    #[test]
    fn an_address_has_its_share_and_others_have_the_rest() {
        let slots = slots(4, 2);
        let (a, b, c) = (address("192.0.2.1"), address("::ffff:192.0.2.2"), address("192.0.2.2"));
        let of_a: Vec<Slot> = [a, a].map(|from| slots.acquire(from).expect("a slot")).into();
        assert!(slots.acquire(a).is_none());
        let of_b = [b, c].map(|from| slots.acquire(from).expect("a slot"));
        assert!(slots.acquire(c).is_none(), "an address is one in whatever form");
        assert!(slots.acquire(address("192.0.2.3")).is_none(), "all are taken");
        drop(of_b);
        assert!(slots.acquire(a).is_none() && slots.acquire(b).is_some());
        drop(of_a);
        assert!(slots.acquire(a).is_some());
        let slots = self::slots(4, 1);
        let _first = slots.acquire(address("2001:db8::1")).expect("a slot");
        assert!(slots.acquire(address("2001:db8::2")).is_none(), "a network of IPv6 is one address");
        assert!(slots.acquire(address("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn the_longest_idle_gives_way() {
        let slots = slots(3, 2);
        let (a, b) = (address("192.0.2.1"), address("192.0.2.2"));
        let all = [a, a, b].map(|from| slots.acquire(from).expect("a slot"));
        assert!(slots.acquire(a).is_none() && slots.acquire(b).is_none(), "they have just come");
        idle_for(&all[1], 3);
        idle_for(&all[2], 5);
        let third_of_a = slots.acquire(a).expect("its own gives way");
        idle_for(&all[0], 2);
        all[0].state.bytes_came();
        let second_of_b = slots.acquire(b).expect("the one that has been idle longest gives way");
        drop(all);
        assert_eq!(slots.taken().len(), 2, "a connection that gave way frees no second slot");
        drop((third_of_a, second_of_b));
        assert_eq!(slots.taken().len(), 0);
    }

    #[test]
    fn a_connection_is_idle_only_between_requests() {
        let slots = slots(1, 1);
        let slot = slots.acquire(address("192.0.2.1")).expect("a slot");
        let state = &slot.state;
        let why = || state.deadline(Duration::ZERO, Duration::ZERO).map(|(_, why)| why);
        assert_eq!(why(), Some("idle"));
        state.bytes_came();
        assert_eq!(why(), Some("head"));
        state.all_sent();
        assert_eq!(why(), Some("head"));
        state.head_read();
        // "Go on sending the body" is sent before the request is answered.
        for step in [ConnectionState::bytes_came, ConnectionState::bytes_go, ConnectionState::all_sent] {
            step(state);
            assert_eq!(why(), None);
        }
        state.answer_ready();
        state.bytes_go();
        assert_eq!(why(), None);
        state.all_sent();
        assert_eq!(why(), Some("idle"));
        state.bytes_go();
        assert_eq!(why(), None, "the rest of a long answer");
        state.stream_begins();
        for step in [ConnectionState::bytes_go, ConnectionState::all_sent, ConnectionState::bytes_came] {
            step(state);
            assert_eq!((why(), state.idle_since()), (None, None), "a stream may be silent, and gives way to none");
        }
    }
}
