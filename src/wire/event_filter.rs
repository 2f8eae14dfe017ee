//! Which events somebody wants to hear of.

use super::event::{Event, EventBody, EventType};
use crate::document::host_of;
use std::collections::HashSet;

/// Which events are wanted: those that meet every condition. One that is empty is met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// Of one of these types.
    pub types: HashSet<EventType>,
    /// About one of these URLs, or a URL on one of the hosts.
    pub urls: HashSet<String>,
    /// About a URL on one of these hosts, with their port if their URLs have one, or about one of the URLs.
    pub hosts: HashSet<String>,
}

/// Fails where no URL can be on a host that is written so, as where it is a URL itself.
///
/// # Errors
/// What is wrong, and what to write instead.
pub fn check_host(host: &str) -> Result<(), String> {
    let only = match host_of(host) {
        _ if host_of(&format!("http://{host}/")) == host => return Ok(()),
        "" => "the host alone, such as \"www.example.org\"".to_string(),
        only => format!("{only:?}"),
    };
    Err(format!("{host:?} is no host, and no URL is on it; write {only}"))
}

impl EventFilter {
    /// Whether every event is wanted.
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }

    /// Whether an event is wanted. It is about its page's URL; a `moved` event is also about both places.
    pub fn matches(&self, event: &Event) -> bool {
        let is_about = |url: &str| self.urls.contains(url) || self.hosts.contains(host_of(url));
        let is_moved =
            |body: &EventBody| matches!(body, EventBody::Moved { from, to, .. } if is_about(from) || is_about(to));
        (self.types.is_empty() || self.types.contains(&event.kind()))
            && ((self.urls.is_empty() && self.hosts.is_empty())
                || event.url.as_deref().is_some_and(is_about)
                || is_moved(&event.body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(json: &str) -> Event {
        let head = r#""seq":1,"source":"s","partition":0,"offset":0,"fetched_at":null,"sweep":null"#;
        serde_json::from_str(&format!("{{{head},{json}}}")).expect(json)
    }

    #[test]
    fn every_condition_must_be_met() {
        let gone = event(r#""type":"gone","url":"http://a.example:81/x""#);
        let moved = event(
            r#""type":"moved","url":"http://c.example/","document":2,"resemblance":1.0,"previous_document":1,
               "from":"http://a.example/old","to":"http://b.example/new","evidence":"direct""#,
        );
        let split = event(r#""type":"split","url":null,"cluster":2"#);
        let set = |names: &[&str]| names.iter().map(ToString::to_string).collect::<HashSet<_>>();
        let types = |names: &[&str]| names.iter().map(|name| EventType::parse(name).expect("a type")).collect();
        for (wanted_types, urls, hosts, expected) in [
            (&[][..], &[][..], &[][..], [true, true, true]),
            (&["gone", "split"], &[], &[], [true, false, true]),
            (&[], &[], &["a.example"], [false, true, false]),
            (&[], &[], &["a.example:81", "b.example"], [true, true, false]),
            (&[], &["http://a.example:81/x"], &["c.example"], [true, true, false]),
            (&["gone"], &[], &["b.example"], [false, false, false]),
            (&["moved"], &["http://b.example/new"], &[], [false, true, false]),
        ] {
            let filter = EventFilter { types: types(wanted_types), urls: set(urls), hosts: set(hosts) };
            assert_eq!([&gone, &moved, &split].map(|event| filter.matches(event)), expected, "{filter:?}");
            assert_eq!(filter.is_everything(), expected == [true; 3]);
        }
        assert_eq!(EventType::parse("sweep-closed"), Some(EventType::SweepClosed));
        assert_eq!((EventType::parse("SweepClosed"), EventType::parse("")), (None, None));
    }
}
