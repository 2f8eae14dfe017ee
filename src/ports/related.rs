//! What related pages need of a store.

use super::store::StoreError;
use crate::document::DocumentId;
use crate::related::{Bag, FragmentKey, RelatedRule, Said, Target, Term};
use serde::{Deserialize, Serialize};

/// A build of related pages: what it counted, and the rule that its bags follow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelatedBuild {
    /// The rule.
    pub rule: RelatedRule,
    /// The last document that it knew.
    pub up_to: DocumentId,
    /// N: the bags of content that are not empty.
    pub n_content: u64,
    /// N: the bags of anchors that are not empty.
    pub n_anchors: u64,
    /// The URLs with a bag.
    pub n_urls: u64,
}

/// What a store knows for related pages. Without any page read for them, every answer is empty.
pub trait RelatedView {
    /// Whether pages of this store were ever read for related pages.
    fn has_related(&self) -> bool;

    /// The rule of the last build, or else that under which pages are read; `None` where neither ever was.
    ///
    /// # Errors
    /// [`StoreError`], as for every method here.
    fn related_rule(&self) -> Result<Option<RelatedRule>, StoreError>;

    /// The last build, if there is one.
    ///
    /// # Errors
    /// [`StoreError`], as for every method here.
    fn related_build(&self) -> Result<Option<RelatedBuild>, StoreError>;

    /// What documents say, in their order; `None` where that was not read.
    ///
    /// # Errors
    /// [`StoreError`]
    fn said(&self, documents: &[DocumentId]) -> Result<Vec<Option<Said>>, StoreError>;

    /// Calls `each` with what every document says, in the order of the documents, until it returns false.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_said(&self, each: &mut dyn FnMut(DocumentId, Said) -> bool) -> Result<(), StoreError>;

    /// Whether each document stands somewhere now, by its number; the first entry is of no document.
    ///
    /// # Errors
    /// [`StoreError`]
    fn standing(&self) -> Result<Vec<bool>, StoreError>;

    /// The fragments about a URL, sorted, each with a document that says it; the smallest `per_host_max` of each host, or
    /// all where that is 0.
    ///
    /// # Errors
    /// [`StoreError`]
    fn fragments(&self, target: Target, per_host_max: usize) -> Result<Vec<(FragmentKey, DocumentId)>, StoreError>;

    /// How many bags of content and of anchors hold each term, by the last build.
    ///
    /// # Errors
    /// [`StoreError`]
    fn frequencies(&self, terms: &[Term]) -> Result<Vec<[u32; 2]>, StoreError>;

    /// The URLs that have a term among their champions, with its weight in their bags; at most `most`, the heaviest first.
    ///
    /// # Errors
    /// [`StoreError`]
    fn champions(&self, term: Term, most: usize) -> Result<Vec<(Target, u8)>, StoreError>;

    /// The bags of URLs, by the last build; empty for those without one.
    ///
    /// # Errors
    /// [`StoreError`]
    fn bags(&self, targets: &[Target]) -> Result<Vec<Bag>, StoreError>;

    /// The URL of a target, where a page that stood there was taken in.
    ///
    /// # Errors
    /// [`StoreError`]
    fn url_of_target(&self, target: Target) -> Result<Option<String>, StoreError>;
}

/// Receives a build, table by table, each in the order of its keys.
pub trait RelatedTables {
    /// A fragment that counts, with a document that says it. Targets ascend, then keys.
    ///
    /// # Errors
    /// [`StoreError`], as for every method here.
    fn fragment(&mut self, target: Target, key: FragmentKey, document: DocumentId) -> Result<(), StoreError>;

    /// A bag. Targets ascend.
    ///
    /// # Errors
    /// [`StoreError`]
    fn bag(&mut self, target: Target, bag: &Bag) -> Result<(), StoreError>;

    /// A champion. Terms ascend, then weights fall, then targets ascend.
    ///
    /// # Errors
    /// [`StoreError`]
    fn champion(&mut self, term: Term, weight: u8, target: Target) -> Result<(), StoreError>;

    /// In how many bags of content and of anchors a term is. Terms ascend.
    ///
    /// # Errors
    /// [`StoreError`]
    fn term(&mut self, term: Term, n_with: [u32; 2]) -> Result<(), StoreError>;
}
