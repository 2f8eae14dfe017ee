//! Entity tags: whether a client already has the answer it asks for (RFC 9110, section 8.8.3).
//!
//! The tag is strong: the same bytes follow from the same store, moment of the store, question and settings; or the
//! tag is of the bytes. A
//! compressed body is another representation, so its tag has an ending of its own.

use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::Response;

/// What the tag of a compressed body ends with.
const GZIP: &str = "-gzip";

/// The tag of the answer with this fingerprint.
pub(super) fn tag(fingerprint: u128) -> String {
    format!("\"{fingerprint:032x}\"")
}

/// The tag of `If-None-Match` that matches, as the client sent it.
pub(super) fn matching(headers: &HeaderMap, tag: &str) -> Option<String> {
    let given = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let mut given = given.flat_map(|value| value.split(',')).map(str::trim);
    // The comparison is weak (section 13.1.2), so a proxy may have weakened the tag.
    let found = given.find(|given| {
        let strong = given.strip_prefix("W/").unwrap_or(given);
        strong == tag || strong == compressed(tag)
    })?;
    Some(found.to_string())
}

/// Gives the tag of a compressed response its ending.
pub(super) fn mark_compressed(mut response: Response) -> Response {
    let headers = response.headers_mut();
    if headers.contains_key(header::CONTENT_ENCODING)
        && let Some(tag) = headers.get(header::ETAG).and_then(|tag| tag.to_str().ok())
        && let Ok(tag) = HeaderValue::from_str(&compressed(tag))
    {
        headers.insert(header::ETAG, tag);
    }
    response
}

fn compressed(tag: &str) -> String {
    format!("{}{GZIP}\"", tag.strip_suffix('"').unwrap_or(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_of_the_tags_given_may_match() {
        let own = tag(7);
        assert_eq!(own, format!("\"{:032x}\"", 7));
        let headers = |value: &str| {
            HeaderMap::from_iter([(header::IF_NONE_MATCH, HeaderValue::from_str(value).expect("a value"))])
        };
        let zipped = compressed(&own);
        for given in [&own, &zipped, &format!("W/{own}")] {
            assert_eq!(matching(&headers(&format!("\"a\", {given} , \"b\"")), &own).as_ref(), Some(given));
        }
        for given in ["", "\"7\"", "*", &own[1..]] {
            assert_eq!(matching(&headers(given), &own), None, "{given}");
        }
        assert_eq!(matching(&HeaderMap::new(), &own), None);
    }
}
