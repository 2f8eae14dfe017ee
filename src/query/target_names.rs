//! The URLs of targets: those of pages that were taken in, and those that only links or redirects name.

use crate::document::DocumentId;
use crate::ports::{FragmentsAbout, RelatedView, Snapshot, StoreError};
use crate::related::{RelatedRule, Said, Target};

/// Pages that link to a target which are named, at most.
pub(super) const LINKING_MAX: usize = 3;

/// What is known of a target by its name.
pub(super) struct NamedTarget {
    /// Its URL; `None` where nothing that is kept names it.
    pub url: Option<String>,
    /// A few documents that link to it.
    pub linking: Vec<DocumentId>,
}

/// Names targets.
pub(super) struct TargetNames<'s, S> {
    snapshot: &'s S,
    per_host_max: usize,
}

impl<'s, S: Snapshot + RelatedView> TargetNames<'s, S> {
    /// Names the targets of a store; `None` where it keeps nothing for related pages.
    pub fn new(snapshot: &'s S) -> Result<Option<Self>, StoreError> {
        Ok(snapshot.related_rule()?.map(|rule| TargetNames::with_rule(snapshot, &rule)))
    }

    /// Names targets by what a rule keeps.
    pub fn with_rule(snapshot: &'s S, rule: &RelatedRule) -> Self {
        TargetNames { snapshot, per_host_max: rule.per_host_max }
    }

    /// Names targets, each with a few documents that link to it.
    pub fn named(&self, targets: &[Target]) -> Result<Vec<NamedTarget>, StoreError> {
        let urls = self.snapshot.urls_of_targets(targets)?;
        let named = targets.iter().zip(urls).map(|(target, url)| {
            let (linking, by_redirect) = self.linking_documents(*target)?;
            let url = match url.or(by_redirect) {
                Some(url) => Some(url),
                None => self.url_by_link(*target, &linking)?,
            };
            Ok(NamedTarget { url, linking })
        });
        named.collect()
    }

    /// A few documents that link to a target, and its URL where one redirects to it.
    fn linking_documents(&self, target: Target) -> Result<(Vec<DocumentId>, Option<String>), StoreError> {
        let FragmentsAbout { url, fragments, .. } = self.snapshot.fragments(target, self.per_host_max)?;
        let mut documents: Vec<DocumentId> = fragments.into_iter().map(|(_, document)| document).collect();
        documents.sort_unstable();
        documents.dedup();
        documents.truncate(LINKING_MAX + 1);
        Ok((documents, url))
    }

    /// A URL that was never crawled, from the first document that links to it.
    fn url_by_link(&self, target: Target, linking: &[DocumentId]) -> Result<Option<String>, StoreError> {
        let said = self.snapshot.said(&linking[..linking.len().min(1)])?;
        let mut passages = said.iter().flatten().flat_map(Said::fragments).map(|(passage, _)| &passage.target);
        Ok(passages.find(|url| Target::of(self.snapshot.seed(), url) == target).cloned())
    }

    /// The URL of a target, wherever it is known from.
    pub fn url(&self, target: Target) -> Result<Option<String>, StoreError> {
        let url = self.snapshot.urls_of_targets(&[target])?.pop().flatten();
        Ok(if url.is_some() { url } else { self.named(&[target])?.pop().and_then(|named| named.url) })
    }
}
