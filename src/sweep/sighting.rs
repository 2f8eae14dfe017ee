//! Sightings: what stood at a URL at a moment.

use crate::document::{DocumentId, FetchTime};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

/// What was found at a URL. Of two sightings of one moment the later in this order counts as the newer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(try_from = "SeenFields")]
pub enum Seen {
    /// Nothing was looked for: a sweep that should have come by was closed without it.
    Lost,
    /// Nothing stands there any more (null body, 404, 410).
    Gone,
    /// It stands at this URL now.
    Redirect(String),
    /// A page, whose content is this document.
    Document(DocumentId),
}

impl Seen {
    /// The document, where a page stood there.
    pub fn document(&self) -> Option<DocumentId> {
        match self {
            Seen::Document(document) => Some(*document),
            _ => None,
        }
    }

    /// The word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Seen::Lost => "lost",
            Seen::Gone => "gone",
            Seen::Redirect(_) => "redirect",
            Seen::Document(_) => "page",
        }
    }
}

/// The fields that a [`Seen`] is written as.
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

/// Flat fields: `seen`, a word; `document`, null where there was none; `redirect_to`, only with a redirect.
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

/// One sighting of some URL. The order is that of time, with whatever breaks a tie the same way in any order of arrival:
/// what was seen, and the sweep.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Observation {
    /// When.
    pub fetched_at: FetchTime,
    /// What.
    #[serde(flatten)]
    pub seen: Seen,
    /// On which sweep.
    pub sweep: Option<String>,
}

impl Observation {
    /// Whether it tells of a later state than `other`: a later time, and not one and the same sweep. What one walk of
    /// the crawler saw first says only which way it went.
    pub fn is_later_than(&self, other: &Observation) -> bool {
        self.fetched_at > other.fetched_at && (self.sweep.is_none() || self.sweep != other.sweep)
    }
}

/// A sighting and its URL.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sighting {
    /// Where.
    pub url: String,
    /// When, what, on which sweep.
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
    fn what_does_not_fit_together_is_no_sighting() {
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
