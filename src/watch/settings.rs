//! The settings of a watch.

use super::post::Hook;
use crate::document::DocumentId;
use crate::ports::SecretReference;
use crate::wire::{EventType, check_host};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Letters of a name, at most: it is part of a key in the store, and a label of metrics.
const NAME_MAX: usize = 64;

/// As `query reuse` has it.
fn threshold() -> f64 {
    0.5
}

/// Which events a hook is sent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WatchSettings {
    /// Under this name the store remembers how far the hook is.
    pub name: String,
    /// Where each event is posted: `http://HOST:PORT/PATH`.
    pub url: String,
    /// Types of events; empty: all.
    #[serde(default)]
    pub types: Vec<EventType>,
    /// Hosts and URLs that events are about; both empty: any.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// See `hosts`.
    #[serde(default)]
    pub urls: Vec<String>,
    /// Documents whose clusters events are about, as they are when an event is looked at; empty: any cluster.
    #[serde(default)]
    pub clusters: Vec<DocumentId>,
    /// Files of HTML or plain text. Events are about documents that carry one of them; empty: any document.
    #[serde(default)]
    pub texts: Vec<PathBuf>,
    /// The share of a text that a document carries at least, or of the document that is in the text, from 0 to 1.
    #[serde(default = "threshold")]
    pub threshold: f64,
    /// Where the secret is that signs deliveries: `file:PATH` or `env:NAME`. Empty: they are not signed.
    #[serde(default)]
    pub secret: String,
}

impl WatchSettings {
    fn problem(&self) -> Option<String> {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let name = &self.name;
        if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(is_letter) {
            return Some(format!("name = {name:?} must be 1 to {NAME_MAX} small letters, digits and hyphens"));
        }
        if let Err(why) = Hook::parse(&self.url) {
            return Some(format!("url of {name:?}: {why}"));
        }
        if !(0.0..=1.0).contains(&self.threshold) {
            return Some(format!("threshold = {} of {name:?} must be from 0 to 1", self.threshold));
        }
        if let Some(why) = self.hosts.iter().find_map(|host| check_host(host).err()) {
            return Some(format!("hosts of {name:?}: {why}"));
        }
        if self.clusters.contains(&DocumentId(0)) {
            let why = "a cluster is named by a document, and documents are numbered from 1";
            return Some(format!("clusters of {name:?} has 0, which matches nothing; {why}"));
        }
        let is_bare = !self.secret.is_empty() && SecretReference::parse(&self.secret).is_none();
        is_bare.then(|| {
            format!("secret of {name:?} must be file:PATH or env:NAME; it does not belong in the configuration itself")
        })
    }
}

/// What is wrong with the settings of all watches of a store that keeps so many events; none where they are valid.
pub fn problem(watches: &[WatchSettings], keep_events: u64) -> Option<String> {
    if let (Some(first), 0) = (watches.first(), keep_events) {
        return Some(format!(
            "{:?} needs the events that a store keeps: set store.keep_events to more than come while a hook is down",
            first.name
        ));
    }
    for (at, watch) in watches.iter().enumerate() {
        if let Some(problem) = watch.problem() {
            return Some(problem);
        }
        if watches[..at].iter().any(|other| other.name == watch.name) {
            return Some(format!("name = {:?} is given twice", watch.name));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_settings_are_named() {
        let watch = |name: &str, url: &str, secret: &str| WatchSettings {
            name: name.into(),
            url: url.into(),
            secret: secret.into(),
            ..WatchSettings::default()
        };
        let good = watch("a-1", "http://127.0.0.1:9/x", "env:SECRET");
        assert_eq!(problem(std::slice::from_ref(&good), 1), None);
        assert_eq!(problem(&[], 0), None);
        for (watches, keep_events, word) in [
            (vec![good.clone()], 0, "store.keep_events"),
            (vec![good.clone(), good.clone()], 1, "twice"),
            (vec![watch("", "http://a/", "")], 1, "small letters"),
            (vec![watch("A", "http://a/", "")], 1, "small letters"),
            (vec![watch("a", "a/b", "")], 1, "http://"),
            (vec![watch("a", "http://a/", "hunter2")], 1, "env:NAME"),
            (vec![WatchSettings { threshold: 1.5, ..good.clone() }], 1, "from 0 to 1"),
        ] {
            let problem = problem(&watches, keep_events).expect(word);
            assert!(problem.contains(word) && !problem.contains("hunter2"), "{problem}");
        }
    }

    /// Lost once: every event of a watch whose host was written as a URL, or whose document was 0. The settings were valid.
    #[test]
    fn what_no_event_can_match_is_refused() {
        let good = WatchSettings { name: "a".into(), url: "http://127.0.0.1:9/x".into(), ..WatchSettings::default() };
        let on = |host: &str| WatchSettings { hosts: vec!["b.example".into(), host.into()], ..good.clone() };
        let of = |document| WatchSettings { clusters: vec![DocumentId(1), DocumentId(document)], ..good.clone() };
        for watch in [on("www.example.org"), on("example.org:8080"), on("[::1]:80"), on("münchen.example"), of(2)] {
            assert_eq!(watch.problem(), None);
        }
        for (watch, advice) in [
            (on("https://example.org"), "write \"example.org\""),
            (on("https://example.org:81/path"), "write \"example.org:81\""),
            (on("example.org/path"), "write the host alone"),
            (of(0), "numbered from 1"),
        ] {
            let problem = watch.problem().expect(advice);
            assert!(problem.contains(advice), "{problem}");
        }
    }
}
