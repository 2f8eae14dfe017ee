//! Near misses: the spellings of a URL that the store knows when it does not know the URL itself.

use crate::document::{Fingerprint, host_of};
use crate::ports::{Snapshot, StoreError};

/// The URLs in the store that differ from `url` only in scheme (`http`, `https`), a slash at the end of the path,
/// a fragment, the case of the host or a leading `www.`.
///
/// Costs one batch of at most 64 look-ups, no scan. The URL itself is never among them.
///
/// # Errors
/// [`StoreError`]
pub fn near_urls(snapshot: &impl Snapshot, url: &str) -> Result<Vec<String>, StoreError> {
    let variants = variants(url);
    let keys: Vec<Fingerprint> = variants.iter().map(|variant| snapshot.key_of(variant)).collect();
    let states = snapshot.states(&keys)?;
    Ok(variants.into_iter().zip(states).filter_map(|(variant, state)| state.map(|_| variant)).collect())
}

/// What to say of a URL that the store does not have: it names similar ones that it has.
///
/// # Errors
/// [`StoreError`]
pub fn never_seen(snapshot: &impl Snapshot, url: &str) -> Result<String, StoreError> {
    let advice = match near_urls(snapshot, url)?.as_slice() {
        [] => "; URLs are compared byte by byte".to_string(),
        urls => format!("; the store has\n  {}", urls.join("\n  ")),
    };
    Ok(format!("{url} was never seen{advice}"))
}

/// The other spellings of a URL, each once; none where it is no `http` URL.
fn variants(url: &str) -> Vec<String> {
    let url = url.trim();
    let scheme_end = url.find("://").filter(|end| ["http", "https"].contains(&url[..*end].to_lowercase().as_str()));
    // People leave the scheme out.
    let rest = scheme_end.map_or(url, |end| &url[end + 3..]);
    let host = host_of(&format!("http://{rest}")).to_string();
    if host.is_empty() || !rest.starts_with(&host) {
        return Vec::new();
    }
    let tail = &rest[host.len()..];
    let mut found: Vec<String> = Vec::new();
    for tail in tails(tail) {
        for host in hosts(&host) {
            for scheme in ["http", "https"] {
                let variant = format!("{scheme}://{host}{tail}");
                if variant != url && !found.contains(&variant) {
                    found.push(variant);
                }
            }
        }
    }
    found
}

/// As given and in lower case, with and without `www.`.
fn hosts(host: &str) -> Vec<String> {
    let lower = host.to_ascii_lowercase();
    let other = lower.strip_prefix("www.").map_or(format!("www.{lower}"), String::from);
    let mut hosts = vec![host.to_string(), lower, other];
    hosts.dedup();
    hosts
}

/// Path and query as given, with and without the fragment, with and without the slash at the end of the path.
fn tails(tail: &str) -> Vec<String> {
    let bare = tail.split('#').next().unwrap_or_default();
    let mut tails = Vec::new();
    for tail in [bare, tail] {
        let end = tail.find(['?', '#']).unwrap_or(tail.len());
        let (path, rest) = tail.split_at(end);
        let other = path.strip_suffix('/').map_or(format!("{path}/"), String::from);
        tails.extend([tail.to_string(), format!("{other}{rest}")]);
    }
    tails
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_differ_in_one_habit_or_several() {
        let found = variants("http://A.example/x");
        for expected in [
            "https://A.example/x",
            "http://a.example/x",
            "http://A.example/x/",
            "https://a.example/x/",
            "https://www.a.example/x",
        ] {
            assert!(found.contains(&expected.to_string()), "{expected}: {found:?}");
        }
        assert!(!found.contains(&"http://A.example/x".to_string()), "the URL itself");
        assert!(variants("https://a.example/x/?q=1#top").contains(&"http://a.example/x?q=1".to_string()));
        assert!(variants("a.example").contains(&"https://a.example/".to_string()));
        assert!(variants("http://www.a.example/").contains(&"http://a.example/".to_string()));
        for url in ["http://A.example/x/#y", "", "key", "mailto:a@b", "http://", "ftp://a/", "http://ü@Ä/#?/"] {
            assert!(variants(url).len() < 64, "{url}");
        }
        assert!(variants("").is_empty() && variants("http://").is_empty());
    }
}
