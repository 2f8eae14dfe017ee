//! What a URL shows without being normalised: its host, its path, and where a reference in it leads.

use super::fingerprint::{Fingerprint, Seed};

/// Returns the host of a URL with its port; empty if it has none. URLs are opaque keys and are never normalised.
pub fn host_of(url: &str) -> &str {
    let (_, authority, _) = parts(url);
    let authority = authority.unwrap_or_default();
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// The fingerprint by which a store knows a URL.
pub fn url_key(seed: &Seed, url: &str) -> Fingerprint {
    seed.fingerprint("url", &[url.as_bytes()])
}

/// The fingerprint of a URL's host.
pub fn host_key(seed: &Seed, url: &str) -> u64 {
    seed.fingerprint("host", &[host_of(url).as_bytes()]).0 as u64
}

/// The path of a URL, without query and fragment.
pub fn path_of(url: &str) -> &str {
    let (_, _, rest) = parts(url);
    rest.find(['?', '#']).map_or(rest, |end| &rest[..end])
}

/// Resolves a reference found at `base` (RFC 3986, section 5.2) and drops its fragment. Returns `None` if the base
/// is not an absolute URL or nothing is left.
pub fn resolve(base: &str, reference: &str) -> Option<String> {
    let reference = reference.trim();
    let reference = reference.split('#').next().unwrap_or_default();
    if scheme_of(reference).is_some() {
        return Some(reference.to_string());
    }
    let (scheme, authority, rest) = parts(base);
    let (scheme, authority) = (scheme?, authority?);
    if let Some(elsewhere) = reference.strip_prefix("//") {
        return Some(format!("{scheme}://{elsewhere}"));
    }
    let path = path_of(base);
    let (reference_path, query) = match reference.find('?') {
        Some(at) => reference.split_at(at),
        None => (reference, ""),
    };
    let (path, query) = if reference_path.is_empty() {
        let base_query = &rest[path.len()..];
        let base_query = base_query.split('#').next().unwrap_or_default();
        (path.to_string(), if query.is_empty() { base_query } else { query })
    } else if reference_path.starts_with('/') {
        (without_dots(reference_path), query)
    } else {
        let folder = path.rfind('/').map_or("/", |end| &path[..=end]);
        (without_dots(&format!("{folder}{reference_path}")), query)
    };
    Some(format!("{scheme}://{authority}{path}{query}"))
}

/// Scheme, authority, and everything after them.
fn parts(url: &str) -> (Option<&str>, Option<&str>, &str) {
    let Some(scheme) = scheme_of(url) else { return (None, None, url) };
    let rest = &url[scheme.len() + 1..];
    let Some(rest) = rest.strip_prefix("//") else { return (Some(scheme), None, rest) };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    (Some(scheme), Some(&rest[..end]), &rest[end..])
}

fn scheme_of(url: &str) -> Option<&str> {
    let scheme = &url[..url.find([':', '/', '?', '#'])?];
    let is_scheme = url[scheme.len()..].starts_with(':')
        && scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    is_scheme.then_some(scheme)
}

/// RFC 3986, section 5.2.4.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let n_segments = path.split('/').count();
    for (number, segment) in path.split('/').enumerate().skip(1) {
        let is_last = number + 1 == n_segments;
        match segment {
            "." if is_last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop();
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_paths() {
        for (url, host, path) in [
            ("http://a.example/b/c?d#e", "a.example", "/b/c"),
            ("https://me:secret@a.example:8080", "a.example:8080", ""),
            ("http://a?b/c", "a", ""),
            ("urn:isbn:1", "", "isbn:1"),
            ("just a key", "", "just a key"),
            ("/path", "", "/path"),
            ("", "", ""),
        ] {
            assert_eq!((host_of(url), path_of(url)), (host, path), "{url}");
        }
    }

    /// The examples of RFC 3986, section 5.4, without the fragments.
    #[test]
    fn references() {
        for (reference, url) in [
            ("g:h", "g:h"),
            ("g", "http://a/b/c/g"),
            ("./g", "http://a/b/c/g"),
            ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"),
            ("//g", "http://g"),
            ("?y", "http://a/b/c/d;p?y"),
            ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"),
            ("g#s", "http://a/b/c/g"),
            (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"),
            ("./", "http://a/b/c/"),
            ("..", "http://a/b/"),
            ("../g", "http://a/b/g"),
            ("../..", "http://a/"),
            ("../../g", "http://a/g"),
            ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"),
            ("/../g", "http://a/g"),
            ("g.", "http://a/b/c/g."),
            ("..g", "http://a/b/c/..g"),
            ("./../g", "http://a/b/g"),
            ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"),
            ("g;x=1/../y", "http://a/b/c/y"),
            ("g?y/../x", "http://a/b/c/g?y/../x"),
            (" http://other/ ", "http://other/"),
        ] {
            assert_eq!(resolve("http://a/b/c/d;p?q", reference).as_deref(), Some(url), "{reference}");
        }
        assert_eq!(resolve("http://a", "g").as_deref(), Some("http://a/g"));
        assert_eq!(resolve("a key", "g"), None);
        assert_eq!(resolve("a key", "http://b/").as_deref(), Some("http://b/"));
    }
}
