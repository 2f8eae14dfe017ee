//! The sketcher: from a page's content to everything that clustering needs to know about it.

use super::confirmation::ConfirmationSketcher;
use super::rule::SketchRule;
use super::sample::Sketch;
use super::shingle::Shingle;
use super::shingler::Shingler;
use super::sort::ShingleSorter;
use super::super_shingle::SuperShingler;
use crate::document::{
    Body, CanonicalForm, CanonicalRule, Canonicaliser, Content, Fingerprint, MarkedText, MediaType, NoText, Page, Seed,
};
use std::sync::Arc;

/// Super shingles are made of this many of a document's smallest shingles, so that the few that are kept come from
/// the same number of windows, whatever the document's length.
const SUPER_SHINGLED: usize = 128;

/// The three equivalences of Broder 1997, section 3.3, each found by one fingerprint. They nest: identical contents have
/// equal canonical forms, and equal canonical forms have equal sets of shingles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Equivalences {
    /// Equal bytes, read in the same way.
    pub identical: Fingerprint,
    /// Equal canonical forms.
    pub lexical: Fingerprint,
    /// Equal sets of kept shingles; `None` for a page without shingles.
    pub shingle: Option<Fingerprint>,
}

impl Equivalences {
    /// The widest equivalence. A content that differs in it from every document equals none.
    pub fn widest(&self) -> Fingerprint {
        self.shingle.unwrap_or(self.lexical)
    }

    /// The fingerprints, the closest equivalence first.
    pub fn keys(&self) -> impl Iterator<Item = Fingerprint> {
        [Some(self.identical), Some(self.lexical), self.shingle].into_iter().flatten()
    }
}

/// Why a page has no sketch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsketchable {
    /// Its body is not text.
    #[error(transparent)]
    NoText(#[from] NoText),
    /// It exceeds the limit of words or features.
    #[error(
        "the page has {n_words} words or features, over limits.words_max = {words_max}; raise it to take such pages"
    )]
    TooManyWords {
        /// How many words or features it has.
        n_words: usize,
        /// The limit.
        words_max: usize,
    },
}

/// [`Equivalences::lexical`] of a canonical form.
pub fn lexical_fingerprint(seed: &Seed, form: &CanonicalForm) -> Fingerprint {
    seed.fingerprint("lexical", &[form.as_str().as_bytes()])
}

/// Everything that clustering needs to know about a page's content.
#[derive(Clone, Debug, PartialEq)]
pub struct SketchedContent {
    /// The fingerprints of contents that equal it.
    pub equivalences: Equivalences,
    /// The sketch. It is shared: the store writes it while memory keeps it for comparison.
    pub sketch: Arc<Sketch>,
    /// The shingles that may index the content, the smallest first.
    pub index: Vec<Shingle>,
    /// The mod shingles, which index the content for containment; empty unless the rule has an `index_modulus`.
    pub mod_shingles: Vec<Shingle>,
    /// The super shingles of the sketch.
    pub super_shingles: Vec<Shingle>,
    /// Words in the canonical form, or the number of features.
    pub n_words: u32,
    /// Bytes of the body as received.
    pub n_bytes: u64,
}

impl SketchedContent {
    /// The content's size in memory, in bytes.
    pub fn n_bytes_in_memory(&self) -> usize {
        let lists = [&self.index, &self.mod_shingles, &self.super_shingles];
        let n_shingles: usize = lists.iter().map(|shingles| shingles.len()).sum();
        size_of::<SketchedContent>() + self.sketch.n_bytes() + n_shingles * size_of::<Shingle>()
    }
}

/// The outcome of sketching a page whose bytes may be known already.
#[derive(Clone, Debug, PartialEq)]
pub enum SketchOutcome<K> {
    /// The URL has no page.
    Nothing,
    /// The bytes are known; this is what is known about them.
    Known(K),
    /// The bytes are new; this is their sketch.
    Content(SketchedContent),
}

/// Turns contents into sketches under one rule and one seed. Use one per thread: it reuses its buffers.
#[derive(Clone)]
pub struct Sketcher {
    rule: SketchRule,
    seed: Seed,
    shingler: Shingler,
    super_shingler: SuperShingler,
    confirmer: ConfirmationSketcher,
    buffer: Vec<Shingle>,
    sorter: ShingleSorter,
    canonicaliser: Canonicaliser,
}

impl Sketcher {
    /// Creates a sketcher for a rule and a store's secret.
    pub fn new(rule: &SketchRule, seed: &Seed) -> Self {
        Sketcher {
            rule: rule.clone(),
            seed: *seed,
            shingler: Shingler::new(rule, seed),
            super_shingler: SuperShingler::new(rule, seed),
            confirmer: ConfirmationSketcher::new(seed),
            buffer: Vec::new(),
            sorter: ShingleSorter::default(),
            canonicaliser: Canonicaliser::default(),
        }
    }

    /// Reads pages by a rule other than the default one.
    #[must_use]
    pub fn reading(self, rule: &CanonicalRule) -> Self {
        Sketcher { canonicaliser: Canonicaliser::new(rule), ..self }
    }

    /// Keeps the marks of pages, as [`Canonicaliser::keeping_marks`] does.
    #[must_use]
    pub fn keeping_marks(self) -> Self {
        Sketcher { canonicaliser: self.canonicaliser.keeping_marks(), ..self }
    }

    /// The text and the marks of the page that was sketched last, once; `None` where they were not kept.
    pub fn take_marked(&mut self) -> Option<&MarkedText> {
        self.canonicaliser.take_marked()
    }

    /// Appends the text of the page that was sketched last, or was found to be known: [`Canonicaliser::append_text`]. Nothing
    /// where it has no body.
    pub fn append_text(&self, page: &Page, text: &mut String) {
        if let Content::Body { media_type, body } = &page.content {
            // A body that is not text has no sketch, so nobody asks for its text.
            let _ = self.canonicaliser.append_text(body, *media_type, text);
        }
    }

    /// Sketches a page's content; `None` if the page no longer exists.
    ///
    /// The cost of a page is limited in words (or features), not in time. With a clock, the same page could be
    /// accepted on one run and rejected on the next, and equal inputs would give different events. Reading the
    /// words costs no more than the page's bytes, which have a limit of their own.
    ///
    /// # Errors
    /// [`Unsketchable`] if the body is not text or has more than `words_max` words.
    pub fn sketch_page(&mut self, page: &Page, words_max: usize) -> Result<Option<SketchedContent>, Unsketchable> {
        let sketched = self.sketch_unless_known(page, words_max, |_| None::<()>)?;
        Ok(if let SketchOutcome::Content(content) = sketched { Some(content) } else { None })
    }

    /// [`Self::sketch_page`], unless `known` returns something for the fingerprint of the body's bytes; then the
    /// page costs nothing more.
    ///
    /// # Errors
    /// [`Unsketchable`], as [`Self::sketch_page`].
    pub fn sketch_unless_known<K>(
        &mut self,
        page: &Page,
        words_max: usize,
        known: impl FnOnce(Fingerprint) -> Option<K>,
    ) -> Result<SketchOutcome<K>, Unsketchable> {
        // The page before may have been refused after its text was read.
        self.canonicaliser.forget();
        match &page.content {
            Content::Gone | Content::Redirect(_) => Ok(SketchOutcome::Nothing),
            Content::Features(features) => {
                check_n_words(features.len(), words_max)?;
                Ok(SketchOutcome::Content(self.sketch_features(features)))
            }
            Content::Body { media_type, body } => {
                let identical = self.identical(body, *media_type);
                match known(identical) {
                    Some(known) => Ok(SketchOutcome::Known(known)),
                    None => self.sketch_body(body, *media_type, identical, words_max).map(SketchOutcome::Content),
                }
            }
        }
    }

    fn sketch_body(
        &mut self,
        body: &Body,
        media_type: MediaType,
        identical: Fingerprint,
        words_max: usize,
    ) -> Result<SketchedContent, Unsketchable> {
        // Moved out while its form is borrowed; moved back with its buffers.
        let mut canonicaliser = std::mem::take(&mut self.canonicaliser);
        let sketched = canonicaliser.read(body, media_type).map_err(Unsketchable::from).and_then(|form| {
            check_n_words(form.n_words(), words_max)?;
            Ok(self.finish(form, identical, body.as_bytes().len()))
        });
        self.canonicaliser = canonicaliser;
        sketched
    }

    /// The fingerprint of a body's bytes and of how to read them.
    fn identical(&self, body: &Body, media_type: MediaType) -> Fingerprint {
        let charset = match body {
            Body::Bytes { charset, .. } => charset.as_deref().unwrap_or(""),
            Body::Text(_) => "",
        };
        let reading = match media_type {
            MediaType::Html => "html",
            MediaType::PlainText => "text",
            MediaType::Unknown => "",
        };
        self.seed.fingerprint("identical", &[reading.as_bytes(), charset.as_bytes(), body.as_bytes()])
    }

    /// Sketches a canonical form without a page.
    pub fn sketch_form(&mut self, form: &CanonicalForm) -> SketchedContent {
        let text = form.as_str().as_bytes();
        let identical = self.seed.fingerprint("identical", &[b"form", b"", text]);
        self.finish(form, identical, text.len())
    }

    fn finish(&mut self, form: &CanonicalForm, identical: Fingerprint, n_bytes: usize) -> SketchedContent {
        self.buffer.clear();
        self.shingler.shingle_words(form.as_str(), &mut self.buffer);
        let lexical = lexical_fingerprint(&self.seed, form);
        self.sample(identical, lexical, form.n_words(), n_bytes)
    }

    fn sketch_features(&mut self, features: &[String]) -> SketchedContent {
        self.buffer.clear();
        self.shingler.shingle_features(features.iter().map(String::as_str), &mut self.buffer);
        let mut sorted: Vec<&[u8]> = features.iter().map(|feature| feature.as_bytes()).collect();
        let n_bytes = sorted.iter().map(|feature| feature.len()).sum();
        let identical = self.seed.fingerprint("features", &sorted);
        sorted.sort_unstable();
        let lexical = self.seed.fingerprint("feature-set", &sorted);
        self.sample(identical, lexical, features.len(), n_bytes)
    }

    fn sample(
        &mut self,
        identical: Fingerprint,
        lexical: Fingerprint,
        n_words: usize,
        n_bytes: usize,
    ) -> SketchedContent {
        let mod_shingles = self.rule.mod_shingles(&self.buffer);
        let confirmation = self.rule.is_confirmed(self.buffer.len()).then(|| self.confirmer.confirmation(&self.buffer));
        let mut sketch = self.rule.sketch_with(&mut self.buffer, &mut self.sorter);
        // The first count included repeated shingles.
        sketch.confirmation = confirmation.filter(|_| self.rule.is_confirmed(sketch.n_shingles as usize));
        let kept = &self.buffer;
        let shingle = (!kept.is_empty()).then(|| self.seed.fingerprint_numbers("shingle", kept));
        SketchedContent {
            equivalences: Equivalences { identical, lexical, shingle },
            super_shingles: self.super_shingler.super_shingles(&kept[..kept.len().min(SUPER_SHINGLED)]),
            index: kept[..kept.len().min(self.rule.index_candidates())].to_vec(),
            mod_shingles,
            sketch: Arc::new(sketch),
            n_words: u32::try_from(n_words).unwrap_or(u32::MAX),
            n_bytes: n_bytes as u64,
        }
    }
}

fn check_n_words(n_words: usize, words_max: usize) -> Result<(), Unsketchable> {
    if n_words > words_max { Err(Unsketchable::TooManyWords { n_words, words_max }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::FetchTime;

    #[test]
    fn a_page_has_as_many_words_as_the_limit_and_no_more() {
        let page = |content| Page { url: "http://a/".into(), fetched_at: FetchTime(0), sweep: None, content };
        let mut sketcher = Sketcher::new(&SketchRule::default(), &Seed([1, 2, 3, 4]));
        for n_words in [0, 1, 30] {
            let (text, features) = ("a ".repeat(n_words), vec![String::new(); n_words]);
            for content in [
                Content::Body { media_type: MediaType::PlainText, body: Body::Text(text) },
                Content::Features(features),
            ] {
                let page = page(content);
                assert!(sketcher.sketch_page(&page, n_words).is_ok_and(|content| content.is_some()), "{page:?}");
                if let Some(words_max) = n_words.checked_sub(1) {
                    let error = sketcher.sketch_page(&page, words_max).expect_err("too many");
                    assert_eq!(error, Unsketchable::TooManyWords { n_words, words_max });
                    assert!(error.to_string().contains("limits.words_max"), "{error}");
                }
            }
        }
    }

    /// The marks of a page are its own, whatever became of the page before.
    #[test]
    fn marks_are_those_of_the_last_page() {
        let page = |html: &str| {
            let content = Content::Body { media_type: MediaType::Html, body: Body::Text(html.into()) };
            Page { url: "http://a/".into(), fetched_at: FetchTime(0), sweep: None, content }
        };
        let sketcher = || Sketcher::new(&SketchRule::default(), &Seed([1, 2, 3, 4]));
        let (mut marking, mut plain) = (sketcher().keeping_marks(), sketcher());
        for html in ["<title>Roses</title>a <a href=b>rose</a>", "<p>is", ""] {
            let page = page(html);
            let (marked, unmarked) = (marking.sketch_page(&page, 9), plain.sketch_page(&page, 9));
            assert_eq!(marked.is_ok(), unmarked.is_ok());
            let mut expected = MarkedText::default();
            expected.read_html(html);
            assert_eq!(marking.take_marked(), Some(&expected), "{html}");
            assert_eq!((marking.take_marked(), plain.take_marked()), (None, None));
        }
        marking.sketch_page(&page("<a href=b>too many words</a>"), 1).expect_err("too many");
        let known = marking.sketch_unless_known(&page("known"), 1, |_| Some(()));
        assert!(matches!(known, Ok(SketchOutcome::Known(()))));
        assert_eq!(marking.take_marked(), None);
    }
}
