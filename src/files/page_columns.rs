//! Which columns of a table hold which fields of a page, by the habits of the field.

use super::read_error::ReadError;

/// A field of the [JSON page](crate::wire::parse_json_page) that a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageField {
    Url,
    FetchedAt,
    Sweep,
    Text,
    Body,
    ContentType,
    HttpStatus,
    RedirectTo,
}

impl PageField {
    /// Its name in a JSON page.
    pub(super) fn name(self) -> &'static str {
        match self {
            PageField::Url => "url",
            PageField::FetchedAt => "fetched_at",
            PageField::Sweep => "sweep",
            PageField::Text => "text",
            PageField::Body => "body",
            PageField::ContentType => "content_type",
            PageField::HttpStatus => "http_status",
            PageField::RedirectTo => "redirect_to",
        }
    }
}

/// The names that columns with a field have, the likeliest first: in FineWeb, C4, Common Crawl's index, the Pile and
/// RedPajama, and in JSON pages.
const HABITS: &[(PageField, &[&str])] = &[
    (PageField::Url, &["url", "uri", "target_uri", "warc_target_uri"]),
    (PageField::FetchedAt, &["fetched_at", "date", "timestamp", "crawl_date", "fetch_time", "warc_date"]),
    (PageField::Sweep, &["sweep", "dump", "crawl"]),
    (PageField::Text, &["text"]),
    (PageField::Body, &["html", "content", "body"]),
    (PageField::ContentType, &["content_type", "content_mime_type", "mime_type"]),
    (PageField::HttpStatus, &["http_status", "fetch_status"]),
    (PageField::RedirectTo, &["redirect_to", "fetch_redirect"]),
];

/// The columns that hold a page, by their place in `columns`, which are the paths of single values: a nested column has
/// several parts. A column at the top is preferred to a nested one of the same name. Of text and a body, the text counts.
///
/// # Errors
/// [`ReadError::Columns`] where there is no URL, no content, or no time and none is `dated` otherwise.
pub(super) fn page_columns(columns: &[Vec<String>], dated: bool) -> Result<Vec<(usize, PageField)>, ReadError> {
    let is_called = |column: &[String], name: &str| {
        column.last().is_some_and(|last| last.replace('-', "_").eq_ignore_ascii_case(name))
    };
    let find = |names: &[&str]| {
        let nested = [false, true].into_iter().flat_map(|is_nested| names.iter().map(move |name| (is_nested, *name)));
        nested.into_iter().find_map(|(is_nested, name)| {
            columns.iter().position(|column| (column.len() > 1) == is_nested && is_called(column, name))
        })
    };
    let mut found: Vec<(usize, PageField)> =
        HABITS.iter().filter_map(|(field, names)| Some((find(names)?, *field))).collect();
    if found.iter().any(|(_, field)| *field == PageField::Text) {
        found.retain(|(_, field)| *field != PageField::Body);
    }
    let lacks = |fields: &[PageField]| !found.iter().any(|(_, field)| fields.contains(field));
    let names = |wanted: &[PageField]| {
        let names = HABITS.iter().filter(|(field, _)| wanted.contains(field)).flat_map(|(_, names)| names.iter());
        names.copied().collect::<Vec<_>>().join(", ")
    };
    let there = || columns.iter().map(|column| column.join(".")).collect::<Vec<_>>().join(", ");
    for (fields, what, advice) in [
        (&[PageField::Url][..], "the URL", ""),
        (&[PageField::Text, PageField::Body], "the content", ""),
        (&[PageField::FetchedAt], "the time of fetching", "; or give --fetched-at"),
    ] {
        if lacks(fields) && !(dated && fields == [PageField::FetchedAt]) {
            let problem =
                format!("no column holds {what}: name one of {}{advice}; the file has {}", names(fields), there());
            return Err(ReadError::Columns(problem));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(columns: &[&str], dated: bool, expected: Result<&[(&str, &str)], &str>) {
        let paths: Vec<Vec<String>> = columns.iter().map(|path| path.split('.').map(String::from).collect()).collect();
        match (page_columns(&paths, dated), expected) {
            (Ok(found), Ok(expected)) => {
                let found: Vec<(&str, &str)> = found.iter().map(|(at, field)| (columns[*at], field.name())).collect();
                assert_eq!(found, expected);
            }
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
            (found, expected) => panic!("{found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn the_habits_of_the_field() {
        let fineweb = ["text", "id", "dump", "url", "date", "file_path", "language", "language_score", "token_count"];
        check(&fineweb, false, Ok(&[("url", "url"), ("date", "fetched_at"), ("dump", "sweep"), ("text", "text")]));
        let c4 = ["text", "timestamp", "url"];
        check(&c4, false, Ok(&[("url", "url"), ("timestamp", "fetched_at"), ("text", "text")]));
        let nested = ["raw.html", "meta.WARC-Target-URI", "meta.url", "url2", "meta.warc_date"];
        check(&nested, false, Ok(&[("meta.url", "url"), ("meta.warc_date", "fetched_at"), ("raw.html", "body")]));
        let both = ["x.url", "url", "html", "text", "crawl_date"];
        check(&both, false, Ok(&[("url", "url"), ("crawl_date", "fetched_at"), ("text", "text")]));
        check(&["url", "content"], true, Ok(&[("url", "url"), ("content", "body")]));
    }

    #[test]
    fn what_is_missing_is_named() {
        check(&["id", "text"], true, Err("no column holds the URL: name one of url, uri, "));
        check(&["id", "text"], true, Err("the file has id, text"));
        check(&["url", "date"], false, Err("no column holds the content: name one of text, html"));
        check(&["url", "text"], false, Err("or give --fetched-at"));
    }
}
