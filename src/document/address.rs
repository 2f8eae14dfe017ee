//! What a URL shows without being normalised: its host, its path, and where a reference in it leads.

use super::fingerprint::{Fingerprint, Seed};
use memchr::memchr;
use std::borrow::Cow;
use std::fmt::Write;

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
    BaseUrl::new(base).resolve(reference)
}

/// The reference in an `href`, as browsers read it: tabs and line ends are dropped; other blanks and control characters, which
/// no page's URL has, are percent-encoded.
pub fn reference_of_href(href: &str) -> Cow<'_, str> {
    if href.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Cow::Borrowed(href);
    }
    let is_invisible = |c: char| c.is_whitespace() || c.is_control();
    let mut reference = String::with_capacity(href.len());
    for c in href.trim_matches(is_invisible).chars() {
        match c {
            '\t' | '\n' | '\r' => {}
            c if is_invisible(c) => c.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| {
                let _ = write!(reference, "%{byte:02X}");
            }),
            c => reference.push(c),
        }
    }
    Cow::Owned(reference)
}

/// A URL against which references are resolved, taken apart once.
#[derive(Clone, Copy, Debug)]
pub struct BaseUrl<'u> {
    /// The scheme and the authority with what stands between; none if it is no absolute URL.
    root: Option<&'u str>,
    scheme: &'u str,
    path: &'u str,
    /// The path to its last slash, or a slash.
    folder: &'u str,
    /// Whether a segment of the folder begins with a dot.
    has_dots: bool,
    query: &'u str,
}

impl<'u> BaseUrl<'u> {
    /// Takes a URL apart.
    pub fn new(url: &'u str) -> Self {
        let (scheme, authority, rest) = parts(url);
        let root = authority.map(|_| &url[..url.len() - rest.len()]);
        let path = path_of(url);
        let query = rest.get(path.len()..).unwrap_or_default();
        let folder = path.rfind('/').map_or("/", |end| &path[..=end]);
        BaseUrl {
            root,
            scheme: scheme.unwrap_or_default(),
            path,
            folder,
            has_dots: folder.contains("/."),
            query: query.split('#').next().unwrap_or_default(),
        }
    }

    /// Resolves a reference, like [`resolve`].
    pub fn resolve(&self, reference: &str) -> Option<String> {
        let reference = reference.trim();
        let reference = &reference[..memchr(b'#', reference.as_bytes()).unwrap_or(reference.len())];
        if scheme_of(reference).is_some() {
            return Some(reference.to_string());
        }
        let root = self.root?;
        if let Some(elsewhere) = reference.strip_prefix("//") {
            return Some(format!("{}://{elsewhere}", self.scheme));
        }
        let (mut path, query) = reference.split_at(memchr(b'?', reference.as_bytes()).unwrap_or(reference.len()));
        let mut url = String::with_capacity(root.len() + self.path.len() + reference.len() + 1);
        url.push_str(root);
        if path.is_empty() {
            url.push_str(self.path);
            url.push_str(if query.is_empty() { self.query } else { query });
            return Some(url);
        }
        let mut folder = if path.starts_with('/') { "" } else { self.folder };
        // The usual way to leave a folder, without reading the whole path once more.
        while let Some(rest) = path.strip_prefix("../").filter(|_| !self.has_dots) {
            folder = parent(folder);
            path = rest;
        }
        url.push_str(folder);
        url.push_str(path);
        if self.has_dots || path.starts_with('.') || path.as_bytes().windows(2).any(|bytes| bytes == b"/.") {
            let path = url.split_off(root.len());
            push_without_dots(&path, &mut url);
        }
        url.push_str(query);
        Some(url)
    }
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
    let is_scheme_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    let n_bytes = url.bytes().take_while(|byte| is_scheme_byte(byte)).count();
    let is_scheme = url.as_bytes().get(n_bytes) == Some(&b':') && url.as_bytes()[0].is_ascii_alphabetic();
    is_scheme.then(|| &url[..n_bytes])
}

/// The folder that a folder lies in, each with its last slash; the root lies in itself.
fn parent(folder: &str) -> &str {
    folder.strip_suffix('/').and_then(|path| path.rfind('/')).map_or("/", |end| &folder[..=end])
}

/// Appends a path, which begins with `/`, without segments that are dots (RFC 3986, section 5.2.4).
fn push_without_dots(path: &str, url: &mut String) {
    let begin = url.len();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        let is_dots = matches!(segment, "." | "..");
        if segment == ".." {
            url.truncate(url[begin..].rfind('/').map_or(begin, |last| begin + last));
        }
        if !is_dots || is_last {
            url.push('/');
        }
        if !is_dots {
            url.push_str(segment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A step out of a folder leads where the whole path does, read segment by segment.
        #[test]
        fn references_lead_where_whole_paths_do(base in "(/(a|b\\.c|\\.|\\.\\.|\\.\\.\\.)?){0,4}", reference in "((a|b\\.c|\\.|\\.\\.)/){0,4}(a|\\.d|\\.|\\.\\.)") {
            let folder = base.rfind('/').map_or("/", |end| &base[..=end]);
            let mut expected = "http://x".to_string();
            push_without_dots(&[folder, &reference].concat(), &mut expected);
            prop_assert_eq!(resolve(&format!("http://x{base}"), &reference), Some(expected));
        }
    }

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

    #[test]
    fn an_href_is_read_as_browsers_do() {
        for (href, reference) in [
            ("/a/b?c=%20", "/a/b?c=%20"),
            ("/été", "/été"),
            (" \n/a\n/b\t\r\n?c\u{1b} ", "/a/b?c"),
            ("/a b\u{1b}[31m\u{9b}\u{a0}c", "/a%20b%1B[31m%C2%9B%C2%A0c"),
        ] {
            assert_eq!(reference_of_href(href), reference, "{href:?}");
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
        for (base, reference, url) in [
            ("http://a/b/./c/../d", "../g", "http://a/g"),
            ("http://a/b/./c/../d", "g", "http://a/b/g"),
            ("http://a/.b/c", "../g", "http://a/g"),
            ("http://a/b/c", ".../g", "http://a/b/.../g"),
            ("http://a/b/c", "..//g", "http://a//g"),
            ("http://a/b//c", "../g", "http://a/b/g"),
        ] {
            assert_eq!(resolve(base, reference).as_deref(), Some(url), "{base} {reference}");
        }
        assert_eq!(resolve("http://a", "g").as_deref(), Some("http://a/g"));
        assert_eq!(resolve("a key", "g"), None);
        assert_eq!(resolve("a key", "http://b/").as_deref(), Some("http://b/"));
    }
}
