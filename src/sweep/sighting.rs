//! Sightings: what was at a URL at a moment.

use crate::document::{DocumentId, FetchTime};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// What a crawler found at a URL. Of two sightings at the same moment, the later in this order counts as newer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "SeenFields")]
pub enum Seen {
    /// Not seen: a sweep that should have visited the URL closed without it.
    Lost,
    /// The page no longer exists (null body, 404, 410).
    Gone,
    /// The page is at this URL now.
    Redirect(String),
    /// A page whose content is this document.
    Document(DocumentId),
}

impl Seen {
    /// The document, if a page was there.
    pub fn document(&self) -> Option<DocumentId> {
        match self {
            Seen::Document(document) => Some(*document),
            _ => None,
        }
    }

    /// The word for it in JSON.
    pub fn as_str(&self) -> &'static str {
        match self {
            Seen::Lost => "lost",
            Seen::Gone => "gone",
            Seen::Redirect(_) => "redirect",
            Seen::Document(_) => "page",
        }
    }
}

/// The fields that a [`Seen`] is read from.
#[derive(Deserialize)]
struct SeenFields {
    seen: String,
    document: Option<DocumentId>,
    redirect_to: Option<String>,
}

impl TryFrom<SeenFields> for Seen {
    type Error = &'static str;

    fn try_from(fields: SeenFields) -> Result<Self, &'static str> {
        match (fields.seen.as_str(), fields.document, fields.redirect_to) {
            ("lost", None, None) => Ok(Seen::Lost),
            ("gone", None, None) => Ok(Seen::Gone),
            ("redirect", None, Some(target)) => Ok(Seen::Redirect(target)),
            ("page", Some(document), None) => Ok(Seen::Document(document)),
            _ => Err("no sighting has these fields together"),
        }
    }
}

/// Writes flat fields: `seen`, a word; `document`, null if there is none; `redirect_to`, only for a redirect.
impl Serialize for Seen {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_map(None)?;
        fields.serialize_entry("seen", self.as_str())?;
        fields.serialize_entry("document", &self.document())?;
        if let Seen::Redirect(target) = self {
            fields.serialize_entry("redirect_to", target)?;
        }
        fields.end()
    }
}

/// One sighting of some URL. Observations sort by time. What was seen and the sweep break ties, in the same way for
/// any order of arrival.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Observation {
    /// When the URL was seen.
    pub fetched_at: FetchTime,
    /// What was found there.
    #[serde(flatten)]
    pub seen: Seen,
    /// The sweep that saw it.
    pub sweep: Option<String>,
}

impl Observation {
    /// Whether it shows a later state than `other`: it has a later time and does not belong to the same sweep.
    /// Within one sweep the order only reflects the crawler's route.
    pub fn is_later_than(&self, other: &Observation) -> bool {
        self.fetched_at > other.fetched_at && (self.sweep.is_none() || self.sweep != other.sweep)
    }
}

/// A sighting and its URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sighting {
    /// The URL.
    pub url: String,
    /// When, what, and on which sweep.
    #[serde(flatten)]
    pub moment: Observation,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(seen: Seen) -> String {
        let moment = Observation { fetched_at: FetchTime(0), seen, sweep: Some("s".into()) };
        let sighting = Sighting { url: "http://a/".into(), moment };
        let json = serde_json::to_string(&sighting).expect("JSON");
        assert_eq!(serde_json::from_str::<Sighting>(&json).expect("read back"), sighting);
        json
    }

    #[test]
    fn contradictory_fields_are_not_a_sighting() {
        for fields in [r#""seen":"page","document":null"#, r#""seen":"gone","document":7"#, r#""seen":"redirect""#] {
            let json = format!(r#"{{"url":"http://a/","fetched_at":"1970-01-01T00:00:00Z",{fields},"sweep":null}}"#);
            assert!(serde_json::from_str::<Sighting>(&json).is_err(), "{json}");
        }
    }

    #[test]
    fn as_json() {
        assert_eq!(
            json(Seen::Document(DocumentId(7))),
            r#"{"url":"http://a/","fetched_at":"1970-01-01T00:00:00Z","seen":"page","document":7,"sweep":"s"}"#
        );
        assert_eq!(
            json(Seen::Redirect("http://b/".into())),
            r#"{"url":"http://a/","fetched_at":"1970-01-01T00:00:00Z","seen":"redirect","document":null,"redirect_to":"http://b/","sweep":"s"}"#
        );
        assert!(json(Seen::Gone).contains(r#""seen":"gone","document":null,"sweep""#));
        assert!(json(Seen::Lost).contains(r#""seen":"lost","document":null"#));
    }
}
