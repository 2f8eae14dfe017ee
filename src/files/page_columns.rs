//! Which columns of a table hold which fields of a page, by the habits of the field.

use super::read_error::ReadError;
use crate::wire::{Fallback, FieldMap, Part, Preset, place_names};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};

/// A field of the [JSON page](crate::wire::parse_json_page) that a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageField {
    Url,
    FetchedAt,
    Sweep,
    Text,
    Html,
    Body,
    BodyBase64,
    /// A JSON array, as `dedup --format parquet` writes it; where a row has a text, the text counts.
    Features,
    ContentType,
    HttpStatus,
    RedirectTo,
    Gone,
    Id,
}

impl PageField {
    /// The part of a page that it holds.
    fn part(self) -> Part {
        match self {
            PageField::Url => Part::Url,
            PageField::FetchedAt => Part::FetchedAt,
            PageField::Sweep => Part::Sweep,
            PageField::Text => Part::Text,
            PageField::Html => Part::Html,
            PageField::Body => Part::Body,
            PageField::BodyBase64 => Part::BodyBase64,
            PageField::Features => Part::Features,
            PageField::ContentType => Part::ContentType,
            PageField::HttpStatus => Part::HttpStatus,
            PageField::RedirectTo => Part::RedirectTo,
            PageField::Gone => Part::Gone,
            PageField::Id => Part::Id,
        }
    }

    /// Its name in a JSON page.
    pub(super) fn name(self) -> &'static str {
        self.part().as_str()
    }

    /// What a record's hash names it. That of HTML is the name of a body, as which it was read once: another one would make
    /// other files of those that stores have read.
    pub(super) fn hashed_name(self) -> &'static str {
        if self == PageField::Html { "body" } else { self.name() }
    }
}

/// The names that columns with a field have, the likeliest first: in FineWeb, C4, Common Crawl's index, the Pile and
/// RedPajama, and in JSON pages.
const HABITS: &[(PageField, &[&str])] = &[
    (PageField::Url, &["url", "uri", "target_uri", "warc_target_uri"]),
    (PageField::FetchedAt, &["fetched_at", "date", "timestamp", "crawl_date", "fetch_time", "warc_date"]),
    (PageField::Sweep, &["sweep", "dump", "crawl"]),
    (PageField::Text, &["text"]),
    (PageField::Html, &["html"]),
    (PageField::Body, &["content", "body"]),
    (PageField::BodyBase64, &["body_base64"]),
    (PageField::Features, &["features"]),
    (PageField::ContentType, &["content_type", "content_mime_type", "mime_type"]),
    (PageField::HttpStatus, &["http_status", "fetch_status"]),
    (PageField::RedirectTo, &["redirect_to", "fetch_redirect"]),
    (PageField::Gone, &[]),
    (PageField::Id, &["id"]),
];

/// The contents of which a row has one, the likeliest first.
const BODIES: [PageField; 4] = [PageField::Text, PageField::Html, PageField::Body, PageField::BodyBase64];

/// The columns that hold a page, by their place in `columns`, which are the paths of single values: a nested column has
/// several parts. A configured place replaces the habits of its part, and a preset all habits. By habit, a column at the top
/// is preferred to a nested one. Of text and a body, the text counts, and of a body and features, the body.
///
/// # Errors
/// [`ReadError::Unusable`] where a configured column is not there, or there is no content, or no URL or time and no
/// fallback for it.
pub(super) fn page_columns(
    columns: &[Vec<String>],
    fields: &FieldMap,
    fallback: &Fallback,
) -> Result<Vec<(usize, PageField)>, ReadError> {
    let there = || columns.iter().map(|column| column.join(".")).collect::<Vec<_>>().join(", ");
    let mut found = Vec::new();
    for (field, names) in HABITS {
        // A content has none where another content is configured.
        let mut places = fields.places(field.part());
        let column = match fields.own_place(field.part()) {
            Some(place) => Some(column_at(columns, place).ok_or_else(|| {
                let problem = format!("no column is at {place:?} for {}; the file has {}", field.name(), there());
                ReadError::Unusable(problem)
            })?),
            None if fields.preset == Preset::Auto => places.next().and_then(|_| column_called(columns, names)),
            None => places.find_map(|place| column_at(columns, place)),
        };
        found.extend(column.map(|column| (column, *field)));
    }
    if !fallback.is_id_url {
        found.retain(|(_, field)| *field != PageField::Id);
    }
    let bodies = BODIES.iter().filter_map(|body| found.iter().find(|(_, field)| field == body));
    let is_inner = |column: usize, field| field != PageField::Text && columns[column].len() > 1;
    if let Some((_, body)) = bodies.min_by_key(|(column, field)| is_inner(*column, *field)).copied() {
        found.retain(|(_, field)| *field == body || !BODIES.contains(field));
        found.retain(|(_, field)| *field != PageField::Features || body == PageField::Text);
    }
    let lacks = |fields: &[PageField]| !found.iter().any(|(_, field)| fields.contains(field));
    let names = |wanted: &[PageField]| {
        let names = HABITS.iter().filter(|(field, _)| wanted.contains(field)).flat_map(|(_, names)| names.iter());
        names.copied().collect::<Vec<_>>().join(", ")
    };
    let has_url = fallback.url.is_some() || (fallback.is_id_url && !lacks(&[PageField::Id]));
    for (wanted, has_fallback, what, advice) in [
        (&[PageField::Url][..], has_url, "the URL", ", with --map url=COLUMN, or give --url-from record"),
        (
            &[PageField::Text, PageField::Html, PageField::Body, PageField::BodyBase64, PageField::Features],
            false,
            "the content",
            ", with --map text=COLUMN or html=COLUMN",
        ),
        (
            &[PageField::FetchedAt],
            fallback.fetched_at.is_some(),
            "the time of fetching",
            ", with --map fetched_at=COLUMN, or give --fetched-at",
        ),
    ] {
        if lacks(wanted) && !has_fallback {
            let problem =
                format!("no column holds {what}: name one of {}{advice}; the file has {}", names(wanted), there());
            return Err(ReadError::Unusable(problem));
        }
    }
    Ok(found)
}

/// The column with one of these names, the likeliest first; at the top or else within a struct.
fn column_called(columns: &[Vec<String>], names: &[&str]) -> Option<usize> {
    let is_called = |column: &[String], name: &str| {
        column.last().is_some_and(|last| last.replace('-', "_").eq_ignore_ascii_case(name))
    };
    let nested = [false, true].into_iter().flat_map(|is_nested| names.iter().map(move |name| (is_nested, *name)));
    nested.into_iter().find_map(|(is_nested, name)| {
        columns.iter().position(|column| (column.len() > 1) == is_nested && is_called(column, name))
    })
}

/// The column at a place: a name, or a JSON pointer to one within structs.
pub(super) fn column_at(columns: &[Vec<String>], place: &str) -> Option<usize> {
    let path = place_names(place);
    let is_there = |column: &Vec<String>| {
        column.len() == path.len() && column.iter().zip(&path).all(|(part, wanted)| part.eq_ignore_ascii_case(wanted))
    };
    columns.iter().position(is_there)
}

/// A column, perhaps within structs.
pub(super) struct NestedColumn {
    pub(super) column: ArrayRef,
    /// The structs around it, the outermost first; a null in one is a null here.
    pub(super) around: Vec<ArrayRef>,
}

impl NestedColumn {
    /// The column at a path; none where the batch has no such column.
    pub(super) fn find(batch: &RecordBatch, path: &[String]) -> Option<Self> {
        let (first, rest) = path.split_first()?;
        let mut column = batch.column_by_name(first)?.clone();
        let mut around = Vec::new();
        for part in rest {
            let inner = column.as_struct_opt()?.column_by_name(part)?.clone();
            around.push(std::mem::replace(&mut column, inner));
        }
        Some(NestedColumn { column, around })
    }
}

/// Whether none of the structs around a column is null in a row.
pub(super) fn is_there(around: &[ArrayRef], row: usize) -> bool {
    around.iter().all(|outer| outer.is_valid(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::FetchTime;

    fn check(columns: &[&str], dated: bool, expected: Result<&[(&str, &str)], &str>) {
        let paths: Vec<Vec<String>> = columns.iter().map(|path| path.split('.').map(String::from).collect()).collect();
        let fallback = Fallback { fetched_at: dated.then_some(FetchTime(0)), ..Fallback::default() };
        match (page_columns(&paths, &FieldMap::default(), &fallback), expected) {
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
        check(&nested, false, Ok(&[("meta.url", "url"), ("meta.warc_date", "fetched_at"), ("raw.html", "html")]));
        let both = ["x.url", "url", "html", "text", "crawl_date"];
        check(&both, false, Ok(&[("url", "url"), ("crawl_date", "fetched_at"), ("text", "text")]));
        check(&["url", "content"], true, Ok(&[("url", "url"), ("content", "body")]));
        let features = ["url", "date", "text", "features"];
        let found = [("url", "url"), ("date", "fetched_at"), ("text", "text"), ("features", "features")];
        check(&features, false, Ok(&found));
        check(&["url", "html", "features"], true, Ok(&[("url", "url"), ("html", "html")]));
        check(&["url", "raw.html", "body"], true, Ok(&[("url", "url"), ("body", "body")]));
        check(&["url", "body_base64", "gone"], true, Ok(&[("url", "url"), ("body_base64", "body_base64")]));
    }

    #[test]
    fn configured_places_come_first() {
        let columns = ["link", "url", "date", "meta.body"].map(|path| path.split('.').map(String::from).collect());
        let mut fields = FieldMap::default();
        fields.set(Part::Url, "Link");
        fields.set(Part::FetchedAt, "date");
        fields.set(Part::Text, "/meta/body");
        let found = page_columns(&columns, &fields, &Fallback::default()).expect("a page");
        assert_eq!(found, [(0, PageField::Url), (2, PageField::FetchedAt), (3, PageField::Text)]);
        fields.set(Part::Url, "nowhere");
        let refused = page_columns(&columns, &fields, &Fallback::default()).expect_err("no such column");
        assert!(refused.to_string().contains("no column is at \"nowhere\" for url"), "{refused}");
    }

    /// Refused once: FineWeb with another column as the URL, for lack of a time. Passed over once: a column that was named
    /// for `gone` or `body_base64`, or with an escape.
    #[test]
    fn a_place_that_is_configured_replaces_the_habits_of_its_part() {
        let columns = ["text", "a/b", "date", "dump", "deleted"].map(|name| vec![name.to_string()]);
        let mut fields = FieldMap::default();
        fields.set(Part::Url, "/a~1b");
        fields.set(Part::Gone, "deleted");
        let found = page_columns(&columns, &fields, &Fallback::default()).expect("a page");
        let (url, fetched_at, sweep) = ((1, PageField::Url), (2, PageField::FetchedAt), (3, PageField::Sweep));
        let gone = (4, PageField::Gone);
        assert_eq!(found, [url, fetched_at, sweep, (0, PageField::Text), gone]);
        fields.set(Part::BodyBase64, "text");
        let found = page_columns(&columns, &fields, &Fallback::default()).expect("a page");
        assert_eq!(found, [url, fetched_at, sweep, (0, PageField::BodyBase64), gone]);
        fields.preset = Preset::Page;
        let refused = page_columns(&columns, &fields, &Fallback::default()).expect_err("no time");
        assert!(refused.to_string().contains("the time of fetching"), "{refused}");
    }

    #[test]
    fn what_is_missing_is_named() {
        check(&["id", "text"], true, Err("no column holds the URL: name one of url, uri, "));
        check(&["id", "text"], true, Err("the file has id, text"));
        check(&["url", "date"], false, Err("no column holds the content: name one of text, html"));
        check(&["url", "text"], false, Err("or give --fetched-at"));
    }
}
