//! Clusters around centers, from the links of all documents.

use crate::backfill::rows::LinkRow;
use crate::document::DocumentId;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Document → the center of its cluster. 0 means no cluster.
type Centers = Vec<u32>;

/// Clusters around the documents with most links. Returns the cluster of every document, and keeps the links of
/// members and their centers.
pub(super) fn star_clusters(n_documents: u32, links: &mut Vec<LinkRow>) -> Vec<DocumentId> {
    keep_links_of_centers(stars(n_documents, links), links)
}

/// Clusters by falling resemblance. Returns the cluster of every document, and keeps the links of members and their
/// centers.
pub(super) fn clusters_by_resemblance(n_documents: u32, links: &mut Vec<LinkRow>) -> Vec<DocumentId> {
    keep_links_of_centers(centers_by_resemblance(n_documents, links), links)
}

fn keep_links_of_centers(centers: Centers, links: &mut Vec<LinkRow>) -> Vec<DocumentId> {
    let center = |document: DocumentId| centers[document.0 as usize - 1];
    links.retain(|link| center(link.later) == link.earlier.0 || center(link.earlier) == link.later.0);
    name_by_smallest(centers)
}

/// Names each cluster by its smallest document.
fn name_by_smallest(centers: Centers) -> Vec<DocumentId> {
    let mut names: HashMap<u32, u32> = HashMap::new();
    let own = |at: usize, center: u32| if center == 0 { at as u32 + 1 } else { center };
    for (at, center) in centers.iter().enumerate() {
        names.entry(own(at, *center)).or_insert(at as u32 + 1);
    }
    centers.iter().enumerate().map(|(at, center)| DocumentId(names[&own(at, *center)])).collect()
}

fn stars(n_documents: u32, links: &[LinkRow]) -> Centers {
    let mut linked: Vec<Vec<u32>> = vec![Vec::new(); n_documents as usize + 1];
    for LinkRow { later, earlier, .. } in links {
        linked[later.0 as usize].push(earlier.0);
        linked[earlier.0 as usize].push(later.0);
    }
    let mut centers: Centers = vec![0; n_documents as usize];
    let mut queue: BinaryHeap<(usize, Reverse<u32>)> =
        (1..=n_documents).map(|id| (linked[id as usize].len(), Reverse(id))).collect();
    while let Some((n, Reverse(id))) = queue.pop() {
        if centers[id as usize - 1] != 0 {
            continue;
        }
        let free: Vec<u32> =
            linked[id as usize].iter().copied().filter(|other| centers[*other as usize - 1] == 0).collect();
        if free.len() < n {
            queue.push((free.len(), Reverse(id)));
            continue;
        }
        centers[id as usize - 1] = id;
        free.into_iter().for_each(|other| centers[other as usize - 1] = id);
    }
    centers
}

fn centers_by_resemblance(n_documents: u32, links: &mut [LinkRow]) -> Centers {
    links.sort_by(|a, b| {
        let ids = |link: &LinkRow| (link.later, link.earlier);
        b.resemblance.total_cmp(&a.resemblance).then_with(|| ids(a).cmp(&ids(b)))
    });
    let mut centers: Centers = vec![0; n_documents as usize];
    for LinkRow { later, earlier, .. } in links.iter().copied() {
        let [of_later, of_earlier] = [later, earlier].map(|document| centers[document.0 as usize - 1]);
        let (later, earlier) = (later.0, earlier.0);
        match (of_earlier, of_later) {
            (0, 0) => (centers[earlier as usize - 1], centers[later as usize - 1]) = (earlier, earlier),
            (center, 0) if center == earlier => centers[later as usize - 1] = earlier,
            (0, center) if center == later => centers[earlier as usize - 1] = later,
            _ => {}
        }
    }
    centers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(of: &[(u32, u32, f64)]) -> Vec<LinkRow> {
        let link = |(earlier, later, resemblance): &(u32, u32, f64)| LinkRow {
            later: DocumentId(*later),
            earlier: DocumentId(*earlier),
            resemblance: *resemblance,
        };
        of.iter().map(link).collect()
    }

    fn names(centers: Centers) -> Vec<u32> {
        name_by_smallest(centers).into_iter().map(|document| document.0).collect()
    }

    /// A chain 1–2–3–4–5 and a document of its own.
    const CHAIN: [(u32, u32, f64); 4] = [(1, 2, 0.6), (2, 3, 0.9), (3, 4, 0.7), (4, 5, 0.8)];

    #[test]
    fn stars_form_around_the_most_linked_documents() {
        assert_eq!(names(stars(6, &links(&CHAIN))), [1, 1, 1, 4, 4, 6]);
        let hub = [(1, 4, 0.6), (2, 4, 0.6), (3, 4, 0.6), (3, 5, 0.9)];
        assert_eq!(names(stars(5, &links(&hub))), [1, 1, 1, 1, 5]);
    }

    #[test]
    fn centers_take_the_closest_first() {
        // 2 and 3 first, 2 the center; then 4 and 5; 3 is no center for 4, and 1 joins 2.
        assert_eq!(names(centers_by_resemblance(6, &mut links(&CHAIN))), [1, 1, 1, 4, 4, 6]);
        let hub = [(1, 4, 0.6), (2, 4, 0.6), (3, 4, 0.6), (3, 5, 0.9)];
        assert_eq!(
            names(centers_by_resemblance(5, &mut links(&hub))),
            [1, 2, 3, 1, 3],
            "among equals 1 comes before 3, and 4 joins it"
        );
    }
}
