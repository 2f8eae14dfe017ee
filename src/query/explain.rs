//! Why two pages are in one cluster: the chain of links between their documents.
//!
//! The links of a cluster form a tree, so there is one chain. Its weakest link is what holds the two together: without it
//! they would be in two clusters.

use super::answers::url as url_history;
use super::similar::{Comparison, compare_sketches, hundredths, last_seen};
use crate::cluster::Link;
use crate::document::{ClusterId, DocumentId};
use crate::ports::{Snapshot, StoreError, StoredDocument};
use crate::sketch::{Estimate, compare, compare_redacted};
use crate::sweep::documents_between;
use serde::Serialize;
use std::collections::{HashMap, HashSet};

/// Documents whose links are read in one batch.
const BATCH: usize = 4096;

/// One of the two that are asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedPage {
    /// The URL that was asked about; for a document's number, where the document was last seen.
    pub url: String,
    /// The document last seen at the URL, or the one with the number.
    pub document: DocumentId,
    /// Its cluster.
    pub cluster: ClusterId,
}

/// How two pages are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Connection {
    /// Their texts are equal: both are one document.
    SameDocument,
    /// Links lead from one to the other.
    Chain,
    /// They are in two clusters.
    OtherCluster,
    /// They are in one cluster, which is too large to look for the links between them.
    TooLarge,
}

/// What a link rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// All shingles that the sketches keep are the same.
    Equal,
    /// The documents resemble each other.
    Near,
    /// They resemble each other by less than the store's threshold, but one contains the other by that share or more:
    /// a link of `recluster --containment`.
    Contained,
}

/// A link of a chain.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChainLink {
    /// The document nearer to A.
    pub from: DocumentId,
    /// Where it was last seen.
    pub from_url: String,
    /// The document nearer to B.
    pub to: DocumentId,
    /// Where it was last seen.
    pub to_url: String,
    /// Their resemblance when they were linked, 0 to 1, in hundredths; of documents that are kept whole the one that answers may
    /// reveal, which is a hundredth or two beside it.
    pub resemblance: f64,
    /// How much of one is in the other, the larger way, in hundredths; none: the sketches do not tell.
    pub containment: Option<f64>,
    /// What the link rests on.
    pub kind: LinkKind,
}

/// Why two pages are in one cluster, or that they are not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// The first page.
    pub a: ExplainedPage,
    /// The second page.
    pub b: ExplainedPage,
    /// How they are connected.
    pub connection: Connection,
    /// The link of the chain with the smallest resemblance, the first of several.
    pub weakest: Option<ChainLink>,
    /// The chain, from A to B; empty where there is none.
    pub links: Vec<ChainLink>,
    /// A and B compared directly; none where one has fewer words than a shingle.
    pub comparison: Option<Comparison>,
}

/// What a name on the side of a question leads to.
#[derive(Clone, Debug, PartialEq)]
pub enum NamedDocument {
    /// The document of a number, or the one last seen at a URL.
    Found(DocumentId),
    /// No document has the number.
    NoDocument,
    /// The URL was never seen.
    NeverSeen,
    /// The URL was seen, but never a page there.
    NoPage,
    /// The document of the number is there, and the sweep did not see it.
    OtherSweep,
}

/// Whether the store has the document of a number. One that was forgotten has no sightings.
///
/// # Errors
/// [`StoreError`]
pub fn has_document(snapshot: &impl Snapshot, document: DocumentId) -> Result<bool, StoreError> {
    let is_numbered = (1..=snapshot.n_documents()).contains(&document.0);
    Ok(is_numbered && !snapshot.sightings_of_document_after(document, None, 1)?.is_empty())
}

/// The document that a text names: by its number, or by a URL, whose newest page counts.
///
/// # Errors
/// [`StoreError`]
pub fn named_document(snapshot: &impl Snapshot, name: &str) -> Result<NamedDocument, StoreError> {
    if let Ok(number) = name.parse() {
        let document = DocumentId(number);
        let is_there = has_document(snapshot, document)?;
        return Ok(if is_there { NamedDocument::Found(document) } else { NamedDocument::NoDocument });
    }
    let sightings = url_history(snapshot, name)?.sightings;
    let document = sightings.iter().rev().find_map(|sighting| sighting.moment.seen.document());
    Ok(match document {
        Some(document) => NamedDocument::Found(document),
        None if sightings.is_empty() => NamedDocument::NeverSeen,
        None => NamedDocument::NoPage,
    })
}

/// Explains how two documents are connected. Looks for the links among at most `documents_max` documents. `names` are the
/// texts that [`named_document`] read as them.
///
/// # Errors
/// [`StoreError`]; [`StoreError::Damaged`] where no links connect two documents of one cluster.
pub fn explain(
    snapshot: &impl Snapshot,
    names: [&str; 2],
    [a, b]: [DocumentId; 2],
    documents_max: usize,
) -> Result<Explanation, StoreError> {
    let (cluster, cluster_of_b) = (snapshot.cluster_of(a)?, snapshot.cluster_of(b)?);
    let (connection, links) = if a == b {
        (Connection::SameDocument, Vec::new())
    } else if cluster != cluster_of_b {
        (Connection::OtherCluster, Vec::new())
    } else {
        match chain(snapshot, a, b, documents_max)? {
            Some(links) => (Connection::Chain, links),
            None => (Connection::TooLarge, Vec::new()),
        }
    };
    let mut documents = vec![a];
    for link in &links {
        documents.push(if documents.last() == Some(&link.document) { link.to } else { link.document });
    }
    if documents.last() != Some(&b) {
        documents.push(b);
    }
    let urls = urls(snapshot, &documents, names)?;
    let stored = snapshot.documents(&documents)?;
    let weakest = (0..links.len()).min_by(|x, y| links[*x].resemblance.total_cmp(&links[*y].resemblance));
    let rows = links.iter().zip(documents.windows(2).zip(urls.windows(2).zip(stored.windows(2))));
    let links: Vec<ChainLink> =
        rows.map(|(link, (documents, (urls, stored)))| chain_link(snapshot, link, documents, urls, stored)).collect();
    let page = |at: usize, cluster| ExplainedPage { url: urls[at].clone(), document: documents[at], cluster };
    Ok(Explanation {
        a: page(0, cluster),
        b: page(documents.len() - 1, cluster_of_b),
        connection,
        weakest: weakest.and_then(|at| links.get(at)).cloned(),
        links,
        comparison: direct(snapshot, &stored, a == b),
    })
}

/// The comparison of the first and the last document.
fn direct(snapshot: &impl Snapshot, stored: &[StoredDocument], is_same: bool) -> Option<Comparison> {
    let (first, last) = (stored.first()?, stored.last()?);
    if is_same {
        return Some(Comparison::EQUAL);
    }
    let has_shingles = first.sketch.n_shingles > 0 && last.sketch.n_shingles > 0;
    has_shingles.then(|| compare_sketches(&first.sketch, &last.sketch, snapshot.rule().sketch.rule))
}

/// A link with what is known of its two documents, in the direction of the chain.
fn chain_link(
    snapshot: &impl Snapshot,
    link: &Link,
    documents: &[DocumentId],
    urls: &[String],
    stored: &[StoredDocument],
) -> ChainLink {
    let rule = snapshot.rule();
    let (a, b) = (&stored[0].sketch, &stored[1].sketch);
    let decisive = compare(a, b, rule.sketch.rule);
    let shown = compare_redacted(a, b, rule.sketch.rule);
    let containment = |estimate: &Estimate| {
        let comparison = Comparison::from_estimate(estimate).in_hundredths();
        let ways = [comparison.containment_of_a_in_b, comparison.containment_of_b_in_a];
        ways.into_iter().flatten().max_by(f64::total_cmp)
    };
    let threshold = rule.cluster.threshold;
    let kind = match link.resemblance {
        1.0 => LinkKind::Equal,
        r if r < threshold && containment(&decisive).is_some_and(|share| share >= threshold) => LinkKind::Contained,
        _ => LinkKind::Near,
    };
    ChainLink {
        from: documents[0],
        from_url: urls[0].clone(),
        to: documents[1],
        to_url: urls[1].clone(),
        // What bits that are never revealed add to the link's resemblance stays in the store.
        resemblance: hundredths(if shown == decisive { link.resemblance } else { shown.resemblance }),
        containment: containment(&shown),
        kind,
    }
}

/// A URL for each document of a chain: at its ends those that were asked about, otherwise where each was last seen.
fn urls(snapshot: &impl Snapshot, documents: &[DocumentId], names: [&str; 2]) -> Result<Vec<String>, StoreError> {
    let mut seen = last_seen(snapshot, documents)?;
    let url = |document: &DocumentId| seen.remove(document).map(|sighting| sighting.url).unwrap_or_default();
    let mut urls: Vec<String> = documents.iter().map(url).collect();
    let last = urls.len() - 1;
    for (at, name) in [(0, names[0]), (last, names[1])] {
        if name.parse::<u32>().is_err() {
            urls[at] = name.to_string();
        }
    }
    Ok(urls)
}

/// The links between two documents of one cluster, from the first on; none where they are to be looked for among more than
/// `documents_max` documents.
fn chain(
    snapshot: &impl Snapshot,
    a: DocumentId,
    b: DocumentId,
    documents_max: usize,
) -> Result<Option<Vec<Link>>, StoreError> {
    // A document's row names its earlier neighbours only. Often the way back from both documents meets.
    let (mut read, mut links) = (HashSet::from([a, b]), Vec::new());
    let mut next = vec![a, b];
    while !next.is_empty() && read.len() <= documents_max {
        let found = snapshot.links(&next)?;
        next = found.iter().map(|link| link.to).filter(|document| read.insert(*document)).collect();
        links.extend(found);
    }
    if let Some(chain) = chain_among(&links, a, b) {
        return Ok(Some(chain));
    }
    let members = snapshot.some_members(a, documents_max.saturating_add(1))?;
    if members.len() > documents_max {
        return Ok(None);
    }
    links.clear();
    for batch in members.chunks(BATCH) {
        links.extend(snapshot.links(batch)?);
    }
    let damaged = || StoreError::Damaged(format!("no links connect documents {a} and {b}, which are in one cluster"));
    chain_among(&links, a, b).map(Some).ok_or_else(damaged)
}

fn chain_among(links: &[Link], a: DocumentId, b: DocumentId) -> Option<Vec<Link>> {
    let pairs: Vec<(DocumentId, DocumentId)> = links.iter().map(|link| (link.document, link.to)).collect();
    let between = documents_between(&pairs, a, b)?;
    let of_pair: HashMap<(DocumentId, DocumentId), &Link> = pairs.into_iter().zip(links).collect();
    let path: Vec<DocumentId> = [a].into_iter().chain(between).chain([b]).collect();
    path.windows(2).map(|pair| of_pair.get(&(pair[0].max(pair[1]), pair[0].min(pair[1]))).copied().copied()).collect()
}
