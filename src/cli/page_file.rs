//! A file that is one page, HTML or text.

use super::exit::{Exit, ending, file_error};
use crate::document::{Body, Content, FetchTime, MediaType, Page};
use crate::sketch::{SketchedContent, Sketcher};
use crate::wire::Limits;
use anyhow::Result;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Reads a stream to its end as one page; none where it is larger than `bytes_max`.
pub(super) fn read_page(name: String, stream: impl Read, bytes_max: usize) -> io::Result<Option<Page>> {
    let mut bytes = Vec::new();
    stream.take((bytes_max as u64).saturating_add(1)).read_to_end(&mut bytes)?;
    let fits = bytes.len() <= bytes_max;
    Ok(fits.then_some(Page {
        url: name,
        fetched_at: FetchTime(0),
        sweep: None,
        content: Content::Body { media_type: MediaType::Unknown, body: Body::Bytes { bytes, charset: None } },
    }))
}

/// Reads a page file; its content tells HTML from text.
pub(super) fn page_of_file(path: &Path, limits: &Limits) -> Result<Page> {
    let bytes_max = limits.body_bytes_max;
    let name = path.display().to_string();
    let page = File::open(path).and_then(|file| read_page(name.clone(), file, bytes_max));
    let Some(page) = page.map_err(|error| file_error("read", path, &error))? else {
        let why =
            format!("{name} is larger than limits.body_bytes_max = {bytes_max} bytes; raise it to take such pages");
        return Err(ending(Exit::Failed, why));
    };
    Ok(page)
}

/// Sketches a page file.
pub(super) fn sketch_file(path: &Path, sketcher: &mut Sketcher, limits: &Limits) -> Result<SketchedContent> {
    let (page, name) = (page_of_file(path, limits)?, path.display());
    match sketcher.sketch_page(&page, limits.words_max) {
        Ok(Some(content)) => Ok(content),
        Ok(None) => Err(ending(Exit::Failed, format!("{name} has no content"))),
        Err(why) => Err(ending(Exit::Failed, format!("{name}: {why}"))),
    }
}
