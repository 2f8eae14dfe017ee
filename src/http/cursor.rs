//! Cursors: opaque texts that mark where the next page of a list begins.
//!
//! A cursor holds the last row of its page, not a number of rows, so that it means the same after the store has
//! grown: every row that the store has from the first page to the last comes exactly once. A keyed fingerprint ties
//! the cursor to its store and its question.

use super::error::HttpError;
use crate::document::Seed;
use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;

const SEAL_BYTES: usize = 8;

/// A request for the part of a list that follows a position: which list, from where, and how many rows.
pub(super) struct ListRequest<'a, P> {
    pub seed: &'a Seed,
    /// Which list: the path, and whatever else decides its rows.
    pub question: Vec<&'a str>,
    /// The position of the last row that the client has.
    pub after: Option<P>,
    pub limit: usize,
}

impl<P: Serialize> ListRequest<'_, P> {
    /// The requested part of `rows`, which come in the order of their positions, and the cursor of the next part.
    pub fn part_of<T>(&self, rows: Vec<T>, position: impl Fn(&T) -> P) -> (Vec<T>, Option<String>)
    where
        P: Ord,
    {
        let (rows, next) = page(rows, self.after.as_ref(), self.limit, position);
        (rows, self.cursor(next.as_ref()))
    }

    /// The cursor of the rows after `last`; none where no more follow.
    pub fn cursor(&self, last: Option<&P>) -> Option<String> {
        last.map(|last| seal(self.seed, &self.question, last))
    }
}

/// The cursor after a row of the list that `question` names.
fn seal<P: Serialize>(seed: &Seed, question: &[&str], position: &P) -> String {
    // A position holds texts and numbers only, which always have a JSON form.
    let position = serde_json::to_vec(position).unwrap_or_default();
    let mut bytes = fingerprint(seed, question, &position).to_vec();
    bytes.extend(position);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// The row that a cursor holds.
///
/// # Errors
/// [`HttpError`]: 400 for a text that is no cursor of any store, 404 for one that this store did not give for this
/// question.
pub(super) fn open<P: DeserializeOwned>(seed: &Seed, question: &[&str], cursor: &str) -> Result<P, HttpError> {
    let is_character = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if cursor.is_empty() || !cursor.bytes().all(is_character) {
        let message = "the cursor is malformed; send `next` of the previous page as it is, or leave the cursor out";
        return Err(HttpError::bad_request("bad-cursor", message));
    }
    let bytes = URL_SAFE_NO_PAD.decode(cursor).ok();
    let position = bytes.as_deref().and_then(|bytes| {
        let (sealed, position) = bytes.split_at_checked(SEAL_BYTES)?;
        (sealed == fingerprint(seed, question, position)).then(|| serde_json::from_slice(position).ok())?
    });
    position.ok_or_else(|| {
        HttpError::new(
            StatusCode::NOT_FOUND,
            "unknown-cursor",
            "this store did not give the cursor for this question; send `next` of the previous page as it is, or leave the \
             cursor out to start again",
        )
    })
}

fn fingerprint(seed: &Seed, question: &[&str], position: &[u8]) -> [u8; SEAL_BYTES] {
    let mut parts: Vec<&[u8]> = question.iter().map(|part| part.as_bytes()).collect();
    parts.push(position);
    ((seed.fingerprint("http-cursor", &parts).0 >> 64) as u64).to_be_bytes()
}

/// At most `limit` of the rows after a position, and where more follow, the position of the last. Rows come in the
/// order of their positions.
fn page<T, P: Ord>(rows: Vec<T>, after: Option<&P>, limit: usize, position: impl Fn(&T) -> P) -> (Vec<T>, Option<P>) {
    let begin = after.map_or(0, |after| rows.partition_point(|row| position(row) <= *after));
    let has_more = rows.len() - begin > limit;
    let page: Vec<T> = rows.into_iter().skip(begin).take(limit).collect();
    let next = page.last().filter(|_| has_more).map(position);
    (page, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEED: Seed = Seed([1, 2, 3, 4]);

    #[test]
    fn a_cursor_opens_only_where_it_was_sealed() {
        let position = ("http://ä/".to_string(), 7);
        let cursor = seal(&SEED, &["/v1/url", "http://ä/"], &position);
        assert_eq!(open::<(String, i32)>(&SEED, &["/v1/url", "http://ä/"], &cursor).expect("opens"), position);
        for (seed, question) in [
            (Seed([1, 2, 3, 5]), ["/v1/url", "http://ä/"]),
            (SEED, ["/v1/url", "http://b/"]),
            (SEED, ["/v1/cluster", "http://ä/"]),
            (SEED, ["/v1/urlh", "ttp://ä/"]),
        ] {
            assert!(open::<(String, i32)>(&seed, &question, &cursor).is_err(), "{question:?}");
        }
    }

    #[test]
    fn other_texts_are_no_cursors() {
        let cursor = seal(&SEED, &["q"], &7);
        for at in 0..cursor.len() {
            let mut changed = cursor.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert!(open::<i32>(&SEED, &["q"], &changed).is_err(), "{changed}");
        }
        for (text, status, word) in [
            ("", 400, "bad-cursor"),
            ("%", 400, "bad-cursor"),
            ("====", 400, "bad-cursor"),
            ("é", 400, "bad-cursor"),
            ("A", 404, "unknown-cursor"),
            ("AAAAAAAAAAA", 404, "unknown-cursor"),
            (&"A".repeat(100_000), 404, "unknown-cursor"),
        ] {
            let error = open::<i32>(&SEED, &["q"], text).expect_err(text);
            assert_eq!((error.status.as_u16(), error.error), (status, word), "{text:.20}");
        }
    }

    /// Every row once, whatever the size of the page, and also where rows come in between the pages.
    #[test]
    fn pages_are_the_whole_list_also_when_it_grows() {
        for most in 1..12 {
            let mut rows: Vec<u32> = (0..10).map(|n| n * 10).collect();
            let (mut seen, mut after) = (Vec::new(), None);
            loop {
                let (page, next) = page(rows.clone(), after.as_ref(), most, |row| *row);
                assert!(page.len() <= most);
                seen.extend(page);
                rows.push(seen.last().copied().unwrap_or(0) + 5);
                rows.push(1);
                rows.sort_unstable();
                rows.dedup();
                match next {
                    Some(next) if next < 90 => after = Some(next),
                    _ => break,
                }
            }
            let old: Vec<u32> = seen.iter().copied().filter(|row| row % 10 == 0).collect();
            assert_eq!(old, (0..10).map(|n| n * 10).collect::<Vec<_>>(), "{most} a page");
            assert!(seen.is_sorted_by(|a, b| a < b), "{seen:?}");
        }
    }
}
