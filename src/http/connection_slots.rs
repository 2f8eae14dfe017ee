//! Places for connections, so many in all and so many for one address, and who gives way where they are taken.

use super::settings::Settings;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

/// How long a connection must have been idle to give way to a new one. One that is in use is not idle for as long.
const IDLE_LEAST: Duration = Duration::from_secs(1);

/// The places there are.
pub(super) struct ConnectionSlots {
    most: usize,
    most_of_address: usize,
    taken: Mutex<Vec<(IpAddr, Arc<ConnectionState>)>>,
}

/// A place, given back when it goes out of scope.
pub(super) struct Slot {
    places: Arc<ConnectionSlots>,
    pub talk: Arc<ConnectionState>,
}

/// What is going on over a connection.
pub(super) struct ConnectionState {
    at: Mutex<Activity>,
    /// That the place is wanted for somebody else.
    pub gives_way: Notify,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    /// No byte of a request has come, since then.
    Idle(Instant),
    /// A request's head is coming, since then.
    Head(Instant),
    /// A request is being answered; its body may still be coming.
    Answering,
    /// An answer is on its way.
    Telling,
}

impl ConnectionSlots {
    pub fn new(settings: &Settings) -> Self {
        ConnectionSlots {
            most: settings.connections_max,
            most_of_address: settings.connections_per_address_max,
            taken: Mutex::default(),
        }
    }

    /// A place for a connection from an address; none where all that it may have are in use. Where one of them has been
    /// idle for a while, that one gives way.
    pub fn take(self: &Arc<Self>, from: IpAddr) -> Option<Slot> {
        let address = network_of(from);
        let mut taken = self.taken();
        let n_of_address = taken.iter().filter(|(other, _)| *other == address).count();
        let has_its_share = n_of_address >= self.most_of_address;
        if has_its_share || taken.len() >= self.most {
            let may_give_way = |(other, _): &&(IpAddr, Arc<ConnectionState>)| !has_its_share || *other == address;
            let idle = taken.iter().filter(may_give_way).filter_map(|(_, talk)| Some((talk.idle_since()?, talk)));
            let (since, longest) = idle.min_by_key(|(since, _)| *since)?;
            if since.elapsed() < IDLE_LEAST {
                return None;
            }
            longest.gives_way.notify_one();
            let longest = Arc::clone(longest);
            taken.retain(|(_, talk)| !Arc::ptr_eq(talk, &longest));
        }
        let talk =
            Arc::new(ConnectionState { at: Mutex::new(Activity::Idle(Instant::now())), gives_way: Notify::new() });
        taken.push((address, Arc::clone(&talk)));
        drop(taken);
        Some(Slot { places: Arc::clone(self), talk })
    }

    fn taken(&self) -> MutexGuard<'_, Vec<(IpAddr, Arc<ConnectionState>)>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.places.taken().retain(|(_, talk)| !Arc::ptr_eq(talk, &self.talk));
    }
}

/// What counts as one address: of IPv6, where whoever has one has a network of them, the network.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

impl ConnectionState {
    /// Bytes came.
    pub fn heard(&self) {
        self.becomes(|at| if let Activity::Idle(_) = at { Activity::Head(Instant::now()) } else { at });
    }

    /// A request's head is whole.
    pub fn asked(&self) {
        self.becomes(|_| Activity::Answering);
    }

    /// What a request is answered with is known.
    pub fn answered(&self) {
        self.becomes(|_| Activity::Telling);
    }

    /// Bytes are sent.
    pub fn told(&self) {
        self.becomes(|at| if at == Activity::Answering { at } else { Activity::Telling });
    }

    /// All bytes are sent.
    pub fn all_told(&self) {
        self.becomes(|at| if at == Activity::Telling { Activity::Idle(Instant::now()) } else { at });
    }

    /// When, as things are, the other side has had its time, and for what.
    pub fn deadline(&self, idle_max: Duration, head_max: Duration) -> Option<(Instant, &'static str)> {
        match *self.at() {
            Activity::Idle(since) => Some((since + idle_max, "idle")),
            Activity::Head(since) => Some((since + head_max, "head")),
            Activity::Answering | Activity::Telling => None,
        }
    }

    fn idle_since(&self) -> Option<Instant> {
        if let Activity::Idle(since) = *self.at() { Some(since) } else { None }
    }

    fn becomes(&self, next: impl FnOnce(Activity) -> Activity) {
        let mut at = self.at();
        *at = next(*at);
    }

    fn at(&self) -> MutexGuard<'_, Activity> {
        self.at.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(most: usize, most_of_address: usize) -> Arc<ConnectionSlots> {
        let settings =
            Settings { connections_max: most, connections_per_address_max: most_of_address, ..Settings::default() };
        Arc::new(ConnectionSlots::new(&settings))
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// A connection that has been idle for so long.
    fn idle_for(place: &Slot, seconds: u64) {
        place.talk.becomes(|_| Activity::Idle(Instant::now() - Duration::from_secs(seconds)));
    }

    #[test]
    fn an_address_has_its_share_and_others_have_the_rest() {
        let places = places(4, 2);
        let (a, b, c) = (address("192.0.2.1"), address("::ffff:192.0.2.2"), address("192.0.2.2"));
        let of_a: Vec<Slot> = [a, a].map(|from| places.take(from).expect("a place")).into();
        assert!(places.take(a).is_none());
        let of_b = [b, c].map(|from| places.take(from).expect("a place"));
        assert!(places.take(c).is_none(), "an address is one in whatever form");
        assert!(places.take(address("192.0.2.3")).is_none(), "all are taken");
        drop(of_b);
        assert!(places.take(a).is_none() && places.take(b).is_some());
        drop(of_a);
        assert!(places.take(a).is_some());
        let places = self::places(4, 1);
        let _first = places.take(address("2001:db8::1")).expect("a place");
        assert!(places.take(address("2001:db8::2")).is_none(), "a network of IPv6 is one address");
        assert!(places.take(address("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn who_has_been_idle_longest_gives_way() {
        let places = places(3, 2);
        let (a, b) = (address("192.0.2.1"), address("192.0.2.2"));
        let all = [a, a, b].map(|from| places.take(from).expect("a place"));
        assert!(places.take(a).is_none() && places.take(b).is_none(), "they have just come");
        idle_for(&all[1], 3);
        idle_for(&all[2], 5);
        let third_of_a = places.take(a).expect("its own gives way");
        idle_for(&all[0], 2);
        all[0].talk.heard();
        let second_of_b = places.take(b).expect("the one that has been idle longest gives way");
        drop(all);
        assert_eq!(places.taken().len(), 2, "who gave way has nothing to give back");
        drop((third_of_a, second_of_b));
        assert_eq!(places.taken().len(), 0);
    }

    #[test]
    fn a_connection_is_idle_only_between_requests() {
        let places = places(1, 1);
        let place = places.take(address("192.0.2.1")).expect("a place");
        let talk = &place.talk;
        let why = || talk.deadline(Duration::ZERO, Duration::ZERO).map(|(_, why)| why);
        assert_eq!(why(), Some("idle"));
        talk.heard();
        assert_eq!(why(), Some("head"));
        talk.all_told();
        assert_eq!(why(), Some("head"));
        talk.asked();
        // "Go on sending the body" is sent before the request is answered.
        for step in [ConnectionState::heard, ConnectionState::told, ConnectionState::all_told] {
            step(talk);
            assert_eq!(why(), None);
        }
        talk.answered();
        talk.told();
        assert_eq!(why(), None);
        talk.all_told();
        assert_eq!(why(), Some("idle"));
        talk.told();
        assert_eq!(why(), None, "the rest of a long answer");
    }
}
