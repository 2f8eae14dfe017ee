//! What related pages need of a store.

use super::store::StoreError;
use crate::document::{DocumentId, Fingerprint};
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
    /// The last document that bags know which were made anew since the build; at least `up_to`.
    pub refreshed_up_to: DocumentId,
    /// The number of the next event when it was made, by which later events are noticed; none if an older program made it,
    /// or if documents were given words since.
    #[serde(default)]
    pub next_seq: Option<u64>,
    /// The clusters, where the build looked for them.
    #[serde(default)]
    pub clusters: Option<RelatedClusters>,
}

/// The clusters of related pages that a build found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelatedClusters {
    /// Pairs of similar bags.
    pub n_pairs: u64,
    /// Clusters of two URLs or more.
    pub n_clusters: u64,
    /// URLs in the largest cluster.
    pub largest: u64,
}

/// What a build found about a URL that is similar to others.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbours {
    /// The center of its cluster, which may be the URL itself.
    pub center: Target,
    /// The most similar URLs with their similarities, best first; at most [`NEIGHBOURS_MAX`].
    pub nearest: Vec<(Target, f32)>,
}

/// Neighbours that a store keeps of each URL. The paper shows ten (section 3).
pub const NEIGHBOURS_MAX: usize = 10;

/// What is said about a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FragmentsAbout {
    /// The URL, and those that redirect to it.
    pub targets: Vec<Target>,
    /// The URL by the name that redirects give it; `None` where none leads there.
    pub url: Option<String>,
    /// The fragments, sorted, each with a document that says it about one of the targets.
    pub fragments: Vec<(FragmentKey, DocumentId)>,
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

    /// Calls `each` with what every document from one on says, in the order of the documents, until it returns false.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_said(&self, from: DocumentId, each: &mut dyn FnMut(DocumentId, Said) -> bool) -> Result<(), StoreError>;

    /// Whether each document stands somewhere now, by its number; the first entry is of no document.
    ///
    /// # Errors
    /// [`StoreError`]
    fn standing(&self) -> Result<Vec<bool>, StoreError>;

    /// The fragments about a URL and about the URLs that redirect to it now; the smallest `per_host_max` of each host, or
    /// all where that is 0.
    ///
    /// # Errors
    /// [`StoreError`]
    fn fragments(&self, target: Target, per_host_max: usize) -> Result<FragmentsAbout, StoreError>;

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

    /// All bags of the last build, in the order of the targets; `None` where there are more than `most`.
    ///
    /// # Errors
    /// [`StoreError`]
    fn all_bags(&self, most: usize) -> Result<Option<Vec<(Target, Bag)>>, StoreError>;

    /// What the last build found about a URL; `None` where it is similar to no other.
    ///
    /// # Errors
    /// [`StoreError`]
    fn neighbours(&self, target: Target) -> Result<Option<Neighbours>, StoreError>;

    /// Calls `each` with what the last build found about every URL, in the order of the targets, until it returns false.
    ///
    /// # Errors
    /// [`StoreError`]
    fn each_neighbours(&self, each: &mut dyn FnMut(Target, Neighbours) -> bool) -> Result<(), StoreError>;

    /// The URLs of the cluster with this center, without the center, in the order of the targets; at most `most`.
    ///
    /// # Errors
    /// [`StoreError`]
    fn related_members(&self, center: Target, most: usize) -> Result<Vec<Target>, StoreError>;

    /// The URL of each target at which a page that was taken in stood.
    ///
    /// # Errors
    /// [`StoreError`]
    fn urls_of_targets(&self, targets: &[Target]) -> Result<Vec<Option<String>>, StoreError>;
}

/// A bag that is no longer what the last build made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct BagChange {
    /// The URL.
    pub target: Target,
    /// The bag that the store has; empty: none.
    pub old: Bag,
    /// What becomes of it.
    pub new: Bag,
}

/// A store whose bags are brought up to date between two builds.
pub trait RelatedRefresh: RelatedView {
    /// Replaces bags, with the terms that lead to them, and notes that bags know what documents say up to one. All of it
    /// happens or nothing.
    ///
    /// # Errors
    /// [`StoreError`]
    fn replace_bags(&self, changes: &[BagChange], refreshed_up_to: DocumentId) -> Result<(), StoreError>;
}

/// Receives a build, table by table, each in the order of its keys.
pub trait RelatedTables {
    /// A fragment that counts, with a document that says it. Targets ascend, then keys.
    ///
    /// # Errors
    /// [`StoreError`], as for every method here.
    fn fragment(&mut self, target: Target, key: FragmentKey, document: DocumentId) -> Result<(), StoreError>;

    /// A URL that redirects to a target. Targets ascend, then URLs.
    ///
    /// # Errors
    /// [`StoreError`]
    fn redirect(&mut self, to: Target, from: Fingerprint) -> Result<(), StoreError>;

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

    /// The neighbours of a URL. Targets ascend.
    ///
    /// # Errors
    /// [`StoreError`]
    fn neighbours(&mut self, target: Target, neighbours: &Neighbours) -> Result<(), StoreError>;

    /// A member of a cluster other than its center. Centers ascend, then members.
    ///
    /// # Errors
    /// [`StoreError`]
    fn member(&mut self, center: Target, member: Target) -> Result<(), StoreError>;
}
