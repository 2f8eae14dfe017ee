//! Who sends a request: the other end of its connection, or the client that a trusted proxy names.

use axum::http::{HeaderMap, HeaderName};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Each proxy appends the address that it was asked from.
pub(super) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address at the other end of a request's connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Peer(pub IpAddr);

/// The proxies whose `x-forwarded-for` is believed.
pub(super) struct TrustedProxies(Vec<Network>);

/// Addresses with the same first bits; those of IPv4 as IPv6 maps them.
struct Network {
    bits: u128,
    mask: u128,
}

impl TrustedProxies {
    /// Parses addresses and networks separated by commas; what is neither is left out.
    pub fn new(list: &str) -> Self {
        TrustedProxies(listed(list).filter_map(Network::parse).collect())
    }

    /// The first of some entries separated by commas that is neither an address nor a network.
    pub fn first_invalid(list: &str) -> Option<&str> {
        listed(list).find(|entry| Network::parse(entry).is_none())
    }

    /// The client of a request: the last address on its way that is no trusted proxy. What stands before that one is the
    /// client's own word.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        self.last_untrusted(peer, headers).to_canonical()
    }

    fn last_untrusted(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer;
        for value in headers.get_all(X_FORWARDED_FOR).iter().rev() {
            for hop in value.to_str().unwrap_or("?").rsplit(',') {
                if !self.0.iter().any(|network| network.holds(client)) {
                    return client;
                }
                let Some(address) = address(hop.trim()) else { return client };
                client = address;
            }
        }
        client
    }
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().ok()?;
        let length_max = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Some(length_max), |length| length.parse().ok()).filter(|n| *n <= length_max)?;
        let mask = u128::MAX.checked_shl(length_max - length).unwrap_or(0);
        let mask = if address.is_ipv4() { mask | u128::MAX << 32 } else { mask };
        Some(Network { bits: bits(address) & mask, mask })
    }

    fn holds(&self, address: IpAddr) -> bool {
        bits(address) & self.mask == self.bits
    }
}

fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|entry| !entry.is_empty())
}

/// An address with or without a port, and of IPv6 with or without brackets.
fn address(text: &str) -> Option<IpAddr> {
    text.trim_matches(['[', ']']).parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()))
}

/// What counts as one address: for IPv6 the network, because a client has a whole network of them.
pub(super) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    /// Lost if this fails: the limits for each client. One that can choose its address has none, and can use up those of
    /// others.
    #[test]
    fn only_trusted_proxies_name_the_client() {
        let proxies = TrustedProxies::new("127.0.0.1, 10.0.0.0/8,2001:db8::/32");
        let client = |peer: &str, forwarded: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in forwarded {
                headers.append(X_FORWARDED_FOR, HeaderValue::from_str(value).expect("a value"));
            }
            proxies.client(peer.parse().expect("an address"), &headers).to_string()
        };
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &["192.0.2.1"]), "192.0.2.1");
        assert_eq!(client("::ffff:127.0.0.1", &["192.0.2.1:4711"]), "192.0.2.1");
        assert_eq!(client("192.0.2.9", &["192.0.2.1"]), "192.0.2.9", "no proxy of ours");
        assert_eq!(client("127.0.0.1", &["203.0.113.7, 192.0.2.1"]), "192.0.2.1", "the client's own word");
        assert_eq!(client("127.0.0.1", &["203.0.113.7, 192.0.2.1, 10.1.2.3"]), "192.0.2.1");
        assert_eq!(client("127.0.0.1", &["203.0.113.7", "192.0.2.1, 10.1.2.3"]), "192.0.2.1");
        assert_eq!(client("2001:db8:1::1", &["10.0.0.1, 10.0.0.2"]), "10.0.0.1", "all are proxies");
        assert_eq!(client("127.0.0.1", &["192.0.2.1, who"]), "127.0.0.1");
        assert_eq!(client("127.0.0.1", &["[2001:db9::1]:80"]), "2001:db9::1");
        assert_eq!(client("127.0.0.1", &["[2001:db9::1]"]), "2001:db9::1");
    }

    #[test]
    fn what_can_be_a_proxy() {
        assert_eq!(TrustedProxies::first_invalid(""), None);
        assert_eq!(TrustedProxies::first_invalid("127.0.0.1, ::1, 10.0.0.0/8, 0.0.0.0/0, ::/0"), None);
        for wrong in ["proxy", "10.0.0.0/33", "::1/129", "10.0.0.0/", "10.0.0.0/-1", "127.0.0.1:80"] {
            assert_eq!(TrustedProxies::first_invalid(&format!("127.0.0.1,{wrong}")), Some(wrong));
        }
        let all = TrustedProxies::new("0.0.0.0/0");
        assert!(all.0[0].holds("192.0.2.1".parse().expect("an address")));
        assert!(!all.0[0].holds("2001:db8::1".parse().expect("an address")), "all of IPv4");
    }
}
