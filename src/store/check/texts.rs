//! Checks texts: each is of a document, and has the words that made it.

use super::{Check, hex, unreadable};
use crate::document::{CanonicalForm, DocumentId, Fingerprint};
use crate::ports::DocumentText;
use crate::sketch::lexical_fingerprint;
use crate::store::schema::{Fields, cf};
use crate::store::texts::read_text_row;

/// Texts whose documents are looked up together.
const TEXTS_TOGETHER: usize = 1024;

/// A document, and the fingerprint of its text's words where the text is there.
type Found = (DocumentId, Option<Fingerprint>);

impl Check<'_> {
    /// Stores that never kept texts have nothing to check.
    pub(super) fn texts(&mut self) {
        if !self.store.has_texts() {
            return;
        }
        let mut rows = self.rows(cf::TEXTS);
        let mut found: Vec<Found> = Vec::new();
        while let Some((key, row)) = self.next(&mut rows) {
            let document = Fields(&key).document().filter(|id| key.len() == 4 && self.is_document(*id));
            let Some(document) = document else {
                self.add_finding(cf::TEXTS, hex(&key), "the key is not a document");
                continue;
            };
            match read_text_row(&row) {
                Some(DocumentText::Kept(text)) => {
                    let form = CanonicalForm::from_text(&text);
                    found.push((document, Some(lexical_fingerprint(&self.store.seed, &form))));
                }
                Some(_) => found.push((document, None)),
                None => self.add_finding(cf::TEXTS, document, "the row cannot be read"),
            }
            if found.len() == TEXTS_TOGETHER {
                self.documents_of_texts(&mut found);
            }
        }
        self.documents_of_texts(&mut found);
    }

    /// Every text is of a document, to which its words lead.
    fn documents_of_texts(&mut self, found: &mut Vec<Found>) {
        match self.store.rows(cf::DOCS, found.iter().map(|(document, _)| document.0.to_be_bytes())) {
            Ok(rows) => {
                let orphans = found.iter().zip(&rows).filter(|(_, row)| row.is_none());
                let orphans: Vec<DocumentId> = orphans.map(|((document, _), _)| *document).collect();
                for document in orphans {
                    self.add_finding(cf::TEXTS, document, "the document is missing");
                }
            }
            Err(error) => self.add_finding(cf::DOCS, "", unreadable(&error)),
        }
        let (documents, words): (Vec<DocumentId>, Vec<Fingerprint>) =
            found.drain(..).filter_map(|(document, words)| Some((document, words?))).unzip();
        match self.store.equal_documents(&words) {
            Ok(led) => {
                for (document, _) in documents.iter().zip(led).filter(|(document, led)| Some(**document) != *led) {
                    self.add_finding(cf::TEXTS, document, "its words are not those of the document");
                }
            }
            Err(error) => self.add_finding(cf::EQUAL, "", unreadable(&error)),
        }
    }
}
