//! The host names that the server answers to, against DNS rebinding.
//!
//! A foreign site can point its own name at this machine. A browser on that site then takes this server for a part
//! of the site and may read its answers. Such a request carries the foreign name, and gets 421.

use super::error::{HttpError, shortened};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use std::net::IpAddr;

/// Names beside `localhost` and IP addresses, which no site can point elsewhere.
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    /// Parses names separated by commas.
    pub fn new(names: &str) -> Self {
        Hosts(listed(names).map(str::to_ascii_lowercase).collect())
    }

    /// The first of some names separated by commas that cannot be a host name.
    pub fn first_invalid(names: &str) -> Option<&str> {
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        listed(names).find(|name| !is_name(name))
    }

    /// Checks that a request names this server, or no host at all, as no browser does.
    ///
    /// # Errors
    /// [`HttpError`], with what to do.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), HttpError> {
        let in_headers = headers.get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or("?"));
        let mut named = uri.authority().map(Authority::as_str).into_iter().chain(in_headers);
        let Some(other) = named.find(|host| !self.is_known(host)) else { return Ok(()) };
        let message = format!(
            "this server does not answer to the name {:?}; use its IP address or localhost, or add the name to http.hosts \
             and restart",
            shortened(other)
        );
        Err(HttpError::new(StatusCode::MISDIRECTED_REQUEST, "host", message))
    }

    /// Checks that no page of another site sends a request that changes the store.
    ///
    /// # Errors
    /// [`HttpError`], with what to do.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<(), HttpError> {
        let host = headers.get(header::HOST).map_or(&b""[..], |value| value.as_bytes());
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or("?");
            let site = origin.split_once("://").map_or("", |(_, site)| site);
            let is_own = !site.is_empty() && site.as_bytes().eq_ignore_ascii_case(host);
            if !is_own && !name_of(site).is_some_and(|name| self.is_listed(&name)) {
                let message = format!(
                    "a page of {:?} may not change the store; if the site is yours, add its host to http.hosts and restart",
                    shortened(origin)
                );
                return Err(HttpError::new(StatusCode::FORBIDDEN, "origin", message));
            }
        }
        Ok(())
    }

    /// Whether a host, with or without a port, names this server.
    fn is_known(&self, host: &str) -> bool {
        name_of(host).is_some_and(|name| {
            let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(&name);
            bare.parse::<IpAddr>().is_ok() || name == "localhost" || self.is_listed(&name)
        })
    }

    fn is_listed(&self, name: &str) -> bool {
        self.0.iter().any(|listed| listed == name)
    }
}

fn listed(names: &str) -> impl Iterator<Item = &str> {
    names.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// A host without its port, in lower case; none where the text is no host.
fn name_of(host: &str) -> Option<String> {
    let authority: Authority = host.parse().ok()?;
    let name = authority.host();
    Some(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn headers(all: &[(HeaderName, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in all {
            headers.append(name, HeaderValue::from_str(value).expect("a value"));
        }
        headers
    }

    #[test]
    fn which_hosts_are_this_server() {
        let hosts = Hosts::new(" Archive.example, crawl ,");
        let admits = |uri: &str, named: &[&str]| {
            let named: Vec<_> = named.iter().map(|host| (header::HOST, *host)).collect();
            hosts.check(&uri.parse().expect("a URI"), &headers(&named)).is_ok()
        };
        for host in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "192.0.2.7",
            "[::1]",
            "[::1]:8080",
            "localhost",
            "LocalHost:1",
            "localhost.",
            "archive.example",
            "ARCHIVE.example:443",
            "crawl.",
        ] {
            assert!(admits("/", &[host]), "{host}");
            assert!(admits(&format!("http://{host}/"), &[host]), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "2130706433",
            "127.1",
            "archive.example.evil",
            "x archive.example",
            "[::1",
            "user@evil.example",
        ] {
            assert!(!admits("/", &[host]), "{host}");
        }
        assert!(admits("/", &[]), "no browser");
        assert!(!admits("http://evil.example/", &["localhost"]) && !admits("http://localhost/", &["evil.example"]));
        assert!(!admits("/", &["localhost", "evil.example"]));
    }

    #[test]
    fn which_origins_may_change_the_store() {
        let hosts = Hosts::new("archive.example");
        let admits = |host: &str, origins: &[&str]| {
            let origins = origins.iter().map(|origin| (header::ORIGIN, *origin));
            hosts.check_origin(&headers(&[(header::HOST, host)].into_iter().chain(origins).collect::<Vec<_>>())).is_ok()
        };
        assert!(admits("127.0.0.1:8080", &[]) && admits("127.0.0.1:8080", &["http://127.0.0.1:8080"]));
        assert!(admits("127.0.0.1:8080", &["https://archive.example"]));
        for other in ["null", "", "http://evil.example", "http://localhost:8080", "http://127.0.0.1", "127.0.0.1:8080"]
        {
            assert!(!admits("127.0.0.1:8080", &[other]), "{other}");
        }
        assert!(!admits("127.0.0.1:8080", &["http://127.0.0.1:8080", "http://evil.example"]));
        assert!(!admits("", &["http://"]));
    }

    #[test]
    fn which_texts_can_be_a_name() {
        assert_eq!(Hosts::first_invalid(""), None);
        assert_eq!(Hosts::first_invalid("a.example, b"), None);
        for wrong in ["http://a.example", "a.example:80", "*.example", "a b"] {
            assert_eq!(Hosts::first_invalid(&format!("a, {wrong}")), Some(wrong));
        }
    }
}
