//! The kept text of a document, of the page at a URL, or of the page that a sweep saw there.

use super::answers::url as url_history;
use super::explain::{NamedDocument, named_document};
use crate::document::{CanonicalRule, ClusterId, Content, DocumentId, Page, tidy_text};
use crate::ports::{DocumentText, Snapshot, SoughtPage, StoreError};
use crate::sketch::Sketcher;
use crate::sweep::Observation;
use serde::Serialize;

/// The kept text of a document, or why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TextAnswer {
    /// The document.
    pub document: DocumentId,
    /// Its cluster.
    pub cluster: ClusterId,
    /// Words in its canonical form.
    pub n_words: u32,
    /// The text of the page that brought the document: what counts of it, without markup. `None` where it is missing.
    pub text: Option<String>,
    /// Why the text is missing.
    pub missing: Option<MissingText>,
}

/// Why a text is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingText {
    /// The store never kept texts.
    NeverKept,
    /// The document came while the store kept none, or as features.
    NotKept,
    /// It was over the limit.
    TooLong,
}

impl MissingText {
    /// The reason in a sentence.
    pub fn reason(self) -> &'static str {
        match self {
            MissingText::NeverKept => {
                "The store keeps no texts; with store.keep_text = \"canonical\" it keeps those of documents that come from then on."
            }
            MissingText::NotKept => {
                "The document came while store.keep_text was \"none\", or as features, which are no text."
            }
            MissingText::TooLong => "The text was longer than limits.text_bytes_max when it came.",
        }
    }
}

/// The text of a document, which must exist.
///
/// # Errors
/// [`StoreError`]
pub fn text(snapshot: &impl Snapshot, document: DocumentId) -> Result<TextAnswer, StoreError> {
    let (text, missing) = match snapshot.text_of(document)? {
        DocumentText::Kept(text) => (Some(text), None),
        DocumentText::TooLong(_) => (None, Some(MissingText::TooLong)),
        DocumentText::NotKept => (None, Some(MissingText::NotKept)),
        DocumentText::NeverKept => (None, Some(MissingText::NeverKept)),
    };
    let n_words = snapshot.document(document)?.map_or(0, |stored| stored.n_words);
    Ok(TextAnswer { document, cluster: snapshot.cluster_of(document)?, n_words, text, missing })
}

/// The text of a page as a store would keep it: what counts of it, without markup.
///
/// # Errors
/// Why it has none, in words.
pub fn text_of_page(page: &Page, rule: &CanonicalRule) -> Result<String, String> {
    let Content::Body { media_type, body } = &page.content else { return Err(format!("{} has no content", page.url)) };
    let text = tidy_text(body, *media_type, rule).map_err(|why| format!("{}: {why}", page.url))?;
    Ok(text.into_owned())
}

/// Where to look for a page of a document.
///
/// # Errors
/// [`StoreError`]
pub fn sought_page(snapshot: &impl Snapshot, document: DocumentId) -> Result<SoughtPage, StoreError> {
    let sightings = snapshot.sightings_of_document(document)?;
    let sweeps = sightings.iter().filter_map(|sighting| sighting.moment.sweep.clone()).collect();
    let places = sightings.into_iter().map(|sighting| (sighting.url, sighting.moment.fetched_at)).collect();
    Ok(SoughtPage { document, places, sweeps })
}

/// Whether a page is one of a document, by the equivalences of the store, whose `sketcher` this is. The limits of today do not
/// matter: the store took the page in.
///
/// # Errors
/// [`StoreError`]
pub fn is_page_of(
    snapshot: &impl Snapshot,
    sketcher: &mut Sketcher,
    page: &Page,
    document: DocumentId,
) -> Result<bool, StoreError> {
    let Ok(Some(content)) = sketcher.sketch_page(page, usize::MAX) else { return Ok(false) };
    Ok(snapshot.equal_to(&content.equivalences)?.contains(&document))
}

/// The document that a text names as of [`named_document`], or that a sweep saw last at a URL. A document that is named by its
/// number is one that the sweep saw anywhere.
///
/// # Errors
/// [`StoreError`]
pub fn named_version(snapshot: &impl Snapshot, name: &str, sweep: Option<&str>) -> Result<NamedDocument, StoreError> {
    let Some(sweep) = sweep else { return named_document(snapshot, name) };
    let is_of_sweep = |moment: &Observation| moment.sweep.as_deref() == Some(sweep);
    if name.parse::<u32>().is_ok() {
        let named = named_document(snapshot, name)?;
        let NamedDocument::Found(document) = named else { return Ok(named) };
        let sightings = snapshot.sightings_of_document(document)?;
        let is_seen = sightings.iter().any(|sighting| is_of_sweep(&sighting.moment));
        return Ok(if is_seen { named } else { NamedDocument::OtherSweep });
    }
    let sightings = url_history(snapshot, name)?.sightings;
    let of_sweep = sightings.iter().rev().filter(|sighting| is_of_sweep(&sighting.moment));
    Ok(match of_sweep.into_iter().find_map(|sighting| sighting.moment.seen.document()) {
        Some(document) => NamedDocument::Found(document),
        None if sightings.is_empty() => NamedDocument::NeverSeen,
        None => NamedDocument::NoPage,
    })
}
