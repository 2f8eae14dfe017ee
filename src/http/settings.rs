//! Settings of the HTTP server, most of them limits.

use super::archive;
use super::client::TrustedProxies;
use super::hosts::Hosts;
use crate::ports::SecretReference;
use serde::{Deserialize, Serialize, Serializer};

/// The smallest buffer that hyper reads a head into.
const HEAD_BYTES_MIN: usize = 8192;

/// The highest limit of requests a second: times between them are in nanoseconds.
const REQUESTS_PER_SECOND_LIMIT: u32 = 1_000_000;

/// Settings of the HTTP server. Each limit says what happens when it is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where to listen: `host:port`.
    pub listen: String,
    /// Host names, separated by commas, that the server answers to beside IP addresses and `localhost`; others get
    /// 421.
    pub hosts: String,
    /// Where to read the token that a request must show to close a sweep: `file:PATH` or `env:NAME`. Empty: none may.
    #[serde(serialize_with = "shown_secret")]
    pub token: String,
    /// Where to read the token that a request must show to read: `file:PATH` or `env:NAME`. Empty: anybody may read.
    #[serde(serialize_with = "shown_secret")]
    pub read_token: String,
    /// Addresses of proxies, and networks of them, separated by commas, whose `x-forwarded-for` names the client.
    pub trusted_proxies: String,
    /// Requests of one client a second, after a burst of ten seconds' worth; more get 429. 0: no limit.
    pub requests_per_second_max: u32,
    /// Where the pages find the archived copy of a URL: `{url}` stands for the URL, `{time}` for the time of its sighting as 14
    /// digits. Empty: no links.
    pub archive_url: String,
    /// Whether a request that asks for it may read the store's inputs again, where they are files that are still there: for texts
    /// that the store does not keep. One request at a time does so.
    pub read_inputs: bool,
    /// MiB of decompressed blocks of the store kept in memory as they are read; 0: a quarter of the machine's memory.
    pub block_cache_mib: usize,
    /// Connections open at once. One more takes the place of the one that has been idle longest, if for at least a
    /// second; otherwise it gets 503.
    pub connections_max: usize,
    /// The same for one client address, or one IPv6 network. Behind a proxy all clients have one address.
    pub connections_per_address_max: usize,
    /// Streams of events open at once, at most half of `connections_max`; one more gets 503.
    pub streams_max: usize,
    /// How long a connection may be idle before its first request, or between two; then it is closed.
    pub idle_ms_max: u64,
    /// Requests answered at once; 0: two for each core. More wait for `queue_ms_max`. Half as many requests about
    /// many URLs or a cluster are answered beside them.
    pub requests_max: usize,
    /// How long a request waits for its turn, or for memory for its body; then it gets 503.
    pub queue_ms_max: u64,
    /// How long an answer may take; then the request gets 504.
    pub response_ms_max: u64,
    /// Bytes of a request's line and headers, about: how they come in packets decides, too. A larger head gets 431, a URL
    /// of more than 65,534 bytes 414.
    pub request_head_bytes_max: usize,
    /// How long a request's head may take from its first byte; then the connection is closed.
    pub request_head_ms_max: u64,
    /// How long a request's body may take; then the request gets 408.
    pub request_body_ms_max: u64,
    /// MiB of request bodies in memory at once; more wait for `queue_ms_max`.
    pub request_bodies_mib_max: usize,
    /// How long a client may take to read an answer; then the connection is closed.
    pub response_write_ms_max: u64,
    /// Rows in one page of an answer, and URLs in one request; a request for more gets 400.
    pub rows_max: usize,
    /// Milliseconds between two snapshots of a store that another process writes, at least.
    pub refresh_ms: u64,
    /// `/readyz` answers 503 while the snapshot is further behind the store than this.
    pub staleness_ms_max: u64,
    /// How long an answer about the whole store is repeated before the store is counted again.
    pub stats_cache_ms: u64,
}

fn shown_secret<S: Serializer>(setting: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(SecretReference::shown(setting))
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listen: "127.0.0.1:8080".into(),
            hosts: String::new(),
            token: String::new(),
            read_token: String::new(),
            trusted_proxies: String::new(),
            requests_per_second_max: 0,
            archive_url: "https://web.archive.org/web/{time}/{url}".into(),
            read_inputs: true,
            block_cache_mib: 0,
            connections_max: 512,
            connections_per_address_max: 128,
            streams_max: 64,
            idle_ms_max: 5000,
            requests_max: 0,
            queue_ms_max: 1000,
            response_ms_max: 10_000,
            request_head_bytes_max: 65_536,
            request_head_ms_max: 5000,
            request_body_ms_max: 10_000,
            request_bodies_mib_max: 64,
            response_write_ms_max: 10_000,
            rows_max: 1000,
            refresh_ms: 1000,
            staleness_ms_max: 60_000,
            stats_cache_ms: 60_000,
        }
    }
}

impl Settings {
    /// What is wrong with the settings; none where they are valid.
    pub fn problem(&self) -> Option<String> {
        if self.request_head_bytes_max < HEAD_BYTES_MIN {
            return Some(format!(
                "request_head_bytes_max is {}, must be at least {HEAD_BYTES_MIN}",
                self.request_head_bytes_max
            ));
        }
        if let Some(name) = Hosts::first_invalid(&self.hosts) {
            return Some(format!(
                "hosts names {name:?}; it must list host names without scheme and port, separated by commas"
            ));
        }
        if let Some(entry) = TrustedProxies::first_invalid(&self.trusted_proxies) {
            return Some(format!(
                "trusted_proxies names {entry:?}; it must list IP addresses, or networks such as 10.0.0.0/8, separated by commas"
            ));
        }
        if self.requests_per_second_max > REQUESTS_PER_SECOND_LIMIT {
            return Some(format!("requests_per_second_max must be at most {REQUESTS_PER_SECOND_LIMIT}; 0 is no limit"));
        }
        if let Some(problem) = archive::problem(&self.archive_url) {
            return Some(problem);
        }
        let positive = [
            ("connections_max", self.connections_max as u64),
            ("connections_per_address_max", self.connections_per_address_max as u64),
            ("streams_max", self.streams_max as u64),
            ("idle_ms_max", self.idle_ms_max),
            ("queue_ms_max", self.queue_ms_max),
            ("response_ms_max", self.response_ms_max),
            ("request_head_ms_max", self.request_head_ms_max),
            ("request_body_ms_max", self.request_body_ms_max),
            ("request_bodies_mib_max", self.request_bodies_mib_max as u64),
            ("response_write_ms_max", self.response_write_ms_max),
            ("rows_max", self.rows_max as u64),
            ("refresh_ms", self.refresh_ms),
        ];
        let zero = positive.iter().find(|(_, value)| *value == 0);
        zero.map(|(name, _)| format!("{name} is 0, must be at least 1"))
    }
}
