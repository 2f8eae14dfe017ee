//! Places in records: plain names of fields, and JSON pointers (RFC 6901), which begin with a slash.

use super::repair::repaired;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use std::fmt;

/// The names through which a place leads, the outermost first.
pub fn place_names(place: &str) -> Vec<String> {
    match place.strip_prefix('/') {
        Some(pointer) => pointer.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect(),
        None => vec![place.to_string()],
    }
}

/// Reads the value at a place of a JSON object, and repairs the object if need be, as a page's reader does. A name that
/// differs only in case matches if no other does. What stands at other places need not be readable as a value.
pub fn read_value_at(json: &[u8], place: &str) -> Option<Value> {
    let path = place_names(place);
    let read = |json: &[u8]| AtPath(&path).deserialize(&mut serde_json::Deserializer::from_slice(json));
    read(json).or_else(|error| repaired(json).map_or(Err(error), |json| read(&json))).ok().flatten()
}

/// Parses the value at a path, and skips the others.
struct AtPath<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for AtPath<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        if self.0.is_empty() { Value::deserialize(deserializer).map(Some) } else { deserializer.deserialize_any(self) }
    }
}

impl<'de> Visitor<'de> for AtPath<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Option<Value>, A::Error> {
        let Some((wanted, rest)) = self.0.split_first() else { return Ok(None) };
        let (mut same, mut alike) = (None, None);
        while let Some(name) = fields.next_key::<String>()? {
            if name == *wanted {
                same = Some(fields.next_value_seed(AtPath(rest))?);
            } else if alike.is_none() && name.eq_ignore_ascii_case(wanted) {
                alike = Some(fields.next_value_seed(AtPath(rest))?);
            } else {
                fields.next_value::<IgnoredAny>()?;
            }
        }
        Ok(same.or(alike).flatten())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Option<Value>, A::Error> {
        let wanted = self.0.split_first().and_then(|(at, rest)| Some((at.parse::<usize>().ok()?, rest)));
        let mut found = None;
        if let Some((n_before, rest)) = wanted {
            for _ in 0..n_before {
                if elements.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(None);
                }
            }
            found = elements.next_element_seed(AtPath(rest))?.flatten();
        }
        while elements.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Lost once: the value of a record that was accepted as a page, where another field cannot be read as a value.
    #[test]
    fn one_value_is_read_whatever_the_others_are() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for (json, place, expected) in [
            (r#"{"score":5}"#.to_string(), "score", Some(json!(5))),
            (r#"{"a":{"SCORE":1,"Score":5},"b":2}"#.into(), "/a/Score", Some(json!(5))),
            (r#"{"a":{"SCORE":1,"b":2}}"#.into(), "/A/score", Some(json!(1))),
            (r#"{"a":[1,{"b":5},3],"c":4}"#.into(), "/a/1/b", Some(json!(5))),
            (r#"{"a":[1,2],"c":4}"#.into(), "/a/2", None),
            (r#"{"a":[1,2],"c":4}"#.into(), "/a/x", None),
            (r#"{"a":1}"#.into(), "/a/b", None),
            (r#"{"a/b~1":5}"#.into(), "/a~1b~01", Some(json!(5))),
            (r#"{"x":"\ud83d","score":5}"#.into(), "score", Some(json!(5))),
            (r#"{"\ud83d":1,"score":"\ud83d"}"#.into(), "score", Some(json!("\u{fffd}"))),
            ("\u{feff}{\"score\":5}".into(), "score", Some(json!(5))),
            (r#"{"x":1e400,"score":5}"#.into(), "score", Some(json!(5))),
            (r#"{"score":1e400}"#.into(), "score", None),
            (format!(r#"{{"a":{{"x":{deep},"score":5}}}}"#), "/a/score", Some(json!(5))),
            (r#"{"score":null}"#.into(), "score", Some(json!(null))),
            ("[".into(), "score", None),
        ] {
            assert_eq!(read_value_at(json.as_bytes(), place), expected, "{json}");
        }
    }
}
