//! The names that the door answers to. Anybody may have a name of his own lead to this machine, and the browsers of those
//! who visit his page then take the door for a part of it (DNS rebinding). What they ask carries that name.

use super::error::HttpError;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use std::net::IpAddr;

/// Names beside IP addresses, which nobody can have lead elsewhere, and `localhost`.
pub(super) struct Hosts(Vec<String>);

impl Hosts {
    /// Of names separated by commas.
    pub fn new(names: &str) -> Self {
        Hosts(listed(names).map(str::to_ascii_lowercase).collect())
    }

    /// The first of some names separated by commas that can be none.
    pub fn wrong(names: &str) -> Option<&str> {
        let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        listed(names).find(|name| !is_name(name))
    }

    /// Lets a request pass that is meant for this door, or names nobody, as no browser does.
    ///
    /// # Errors
    /// [`HttpError`], with what to do.
    pub fn admit(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), HttpError> {
        let in_headers = headers.get_all(header::HOST).iter().map(|value| value.to_str().unwrap_or("?"));
        let mut named = uri.authority().map(Authority::as_str).into_iter().chain(in_headers);
        let Some(other) = named.find(|host| !self.is_known(host)) else { return Ok(()) };
        let message = format!(
            "this door does not answer to the name {:?}; ask by IP address or as localhost, or add the name to http.hosts \
             and start again",
            shortened(other)
        );
        Err(HttpError::new(StatusCode::MISDIRECTED_REQUEST, "host", message))
    }

    /// Lets a request pass that changes something, unless a page of another site sends it.
    ///
    /// # Errors
    /// [`HttpError`], with what to do.
    pub fn admit_origin(&self, headers: &HeaderMap) -> Result<(), HttpError> {
        let asked = headers.get(header::HOST).map_or(&b""[..], |value| value.as_bytes());
        for origin in headers.get_all(header::ORIGIN) {
            let origin = origin.to_str().unwrap_or("?");
            let site = origin.split_once("://").map_or("", |(_, site)| site);
            let is_own = !site.is_empty() && site.as_bytes().eq_ignore_ascii_case(asked);
            if !is_own && !name_of(site).is_some_and(|name| self.is_listed(&name)) {
                let message = format!(
                    "a page of {:?} may change nothing here; add its host to http.hosts and start again if it is yours",
                    shortened(origin)
                );
                return Err(HttpError::new(StatusCode::FORBIDDEN, "origin", message));
            }
        }
        Ok(())
    }

    /// Whether a host, with or without a port, is this door by any name.
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

/// A host without its port and in lower case; none where it is no host.
fn name_of(host: &str) -> Option<String> {
    let authority: Authority = host.parse().ok()?;
    let name = authority.host();
    Some(name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase())
}

fn shortened(text: &str) -> String {
    text.chars().take(64).collect()
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
    fn who_is_meant() {
        let hosts = Hosts::new(" Archive.example, crawl ,");
        let admits = |uri: &str, named: &[&str]| {
            let named: Vec<_> = named.iter().map(|host| (header::HOST, *host)).collect();
            hosts.admit(&uri.parse().expect("a URI"), &headers(&named)).is_ok()
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
    fn who_may_send_a_change() {
        let hosts = Hosts::new("archive.example");
        let admits = |host: &str, origins: &[&str]| {
            let origins = origins.iter().map(|origin| (header::ORIGIN, *origin));
            hosts.admit_origin(&headers(&[(header::HOST, host)].into_iter().chain(origins).collect::<Vec<_>>())).is_ok()
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
    fn what_can_be_a_name() {
        assert_eq!(Hosts::wrong(""), None);
        assert_eq!(Hosts::wrong("a.example, b"), None);
        for wrong in ["http://a.example", "a.example:80", "*.example", "a b"] {
            assert_eq!(Hosts::wrong(&format!("a, {wrong}")), Some(wrong));
        }
    }
}
