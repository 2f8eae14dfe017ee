//! What the HTTP door allows itself and others.

use super::hosts::Hosts;
use serde::{Deserialize, Serialize};

/// The least that hyper can read a head into.
const HEAD_BYTES_LEAST: usize = 8192;

/// Limits of the HTTP door, each with what happens when it is reached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// `host:port`.
    pub listen: String,
    /// Names, separated by commas, that requests may ask for beside IP addresses and `localhost`; others are told 421.
    pub hosts: String,
    /// Where the token is that those must show who change something: `file:PATH` or `env:NAME`; empty: nobody may.
    pub token: String,
    /// MiB of decompressed blocks of the store kept in memory, as far as they are asked for; 0: a quarter of the machine's.
    pub block_cache_mib: usize,
    /// Connections open at once. Where all are taken, one that has been idle for a second gives way to a new one; where none
    /// has, the new one is told 503 and closed.
    pub connections_max: usize,
    /// The same for one client address, or one network of IPv6. Behind a proxy all clients have one address.
    pub connections_per_address_max: usize,
    /// How long a connection may be idle, before its first request and between two, before it is closed.
    pub idle_ms_max: u64,
    /// Questions answered at once; 0: two for each core. More wait for `queue_ms_max`. Beside them half as many of those
    /// that name many URLs, or a cluster, which may be large.
    pub requests_max: usize,
    /// How long a request waits for its turn, or for memory for its body, before it is told 503.
    pub queue_ms_max: u64,
    /// How long an answer may take before the request is told 504.
    pub response_ms_max: u64,
    /// Bytes of a request's line and headers; more is told 431.
    pub request_head_bytes_max: usize,
    /// How long a request's head may take from its first byte on before the connection is closed.
    pub request_head_ms_max: u64,
    /// How long a request's body may take before it is told 408.
    pub request_body_ms_max: u64,
    /// MiB of request bodies held at once; more wait for `queue_ms_max`.
    pub request_bodies_mib_max: usize,
    /// How long a client may take to read an answer before it is cut off.
    pub response_write_ms_max: u64,
    /// Rows in one page of an answer, and URLs in one request; more is told 400.
    pub rows_max: usize,
    /// How often a view of what another process writes is made, at most.
    pub refresh_ms: u64,
    /// `/readyz` says 503 while the view is more than this behind.
    pub staleness_ms_max: u64,
    /// How long the counts of the whole store are told again before they are counted anew.
    pub stats_cache_ms: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            listen: "127.0.0.1:8080".into(),
            hosts: String::new(),
            token: String::new(),
            block_cache_mib: 0,
            connections_max: 512,
            connections_per_address_max: 128,
            idle_ms_max: 5000,
            requests_max: 0,
            queue_ms_max: 1000,
            response_ms_max: 10_000,
            request_head_bytes_max: 32_768,
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
    /// What is wrong with the settings, if anything.
    pub fn problem(&self) -> Option<String> {
        if self.request_head_bytes_max < HEAD_BYTES_LEAST {
            return Some(format!(
                "request_head_bytes_max is {}, must be at least {HEAD_BYTES_LEAST}",
                self.request_head_bytes_max
            ));
        }
        if let Some(wrong) = Hosts::wrong(&self.hosts) {
            return Some(format!("hosts names {wrong:?}, must be names without scheme and port, separated by commas"));
        }
        let positive = [
            ("connections_max", self.connections_max as u64),
            ("connections_per_address_max", self.connections_per_address_max as u64),
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
