//! Lists that need not be read, because they nominate no document.

use crate::cluster::{IndexQuery, UnreadIn};
use crate::document::DocumentId;
use crate::sketch::Shingle;
use rustc_hash::FxHashMap;

/// Where the documents of a shingle may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    Nowhere,
    /// In these places, but not in the posting buffer.
    Runs(UnreadIn),
    /// In the posting buffer, and perhaps elsewhere.
    Buffer,
}

/// Says of each of some shingles where its list can be left unread, if it can. No page needs it then: a page needs the lists of a
/// place if that may hold as many of its shingles as a candidate must share.
///
/// Filters let shingles through that nothing has. Few pages have several of those in one place, so hardly any list is looked for in
/// vain.
///
/// `buffered` are the documents in the posting buffer. `possible` says of each place where in `shingles` those are that it may hold.
/// No document is in two places.
pub(super) fn unneeded(
    shingles: &[Shingle],
    buffered: &[Vec<DocumentId>],
    possible: &[Vec<usize>],
    pages: &[IndexQuery],
) -> Vec<Option<UnreadIn>> {
    let of_buffer =
        |documents: &Vec<DocumentId>| if documents.is_empty() { Whereabouts::Nowhere } else { Whereabouts::Buffer };
    let mut whereabouts: Vec<Whereabouts> = buffered.iter().map(of_buffer).collect();
    for (place, possible) in (0..).zip(possible) {
        for at in possible {
            whereabouts[*at] = match whereabouts[*at] {
                Whereabouts::Nowhere => Whereabouts::Runs(UnreadIn::Part(place)),
                Whereabouts::Runs(_) => Whereabouts::Runs(UnreadIn::Several),
                Whereabouts::Buffer => Whereabouts::Buffer,
            };
        }
    }
    let is_somewhere = |at: &usize| whereabouts[*at] != Whereabouts::Nowhere;
    // Most shingles of new pages are nowhere, so this is small.
    let somewhere: FxHashMap<Shingle, usize> =
        (0..shingles.len()).filter(is_somewhere).map(|at| (shingles[at], at)).collect();
    let runs_of = |of: &Whereabouts| if let Whereabouts::Runs(runs) = of { Some(*runs) } else { None };
    let mut unneeded: Vec<Option<UnreadIn>> = whereabouts.iter().map(runs_of).collect();
    let mut of_page: Vec<usize> = Vec::new();
    for page in pages {
        of_page.clear();
        of_page.extend(page.index.iter().filter_map(|shingle| somewhere.get(shingle)));
        let parts = of_page.iter().filter_map(|at| runs_of(&whereabouts[*at]));
        let n_buffered = of_page.len() - parts.clone().count();
        if UnreadIn::may_share(parts, page.needed.saturating_sub(n_buffered)) {
            of_page.iter().for_each(|at| unneeded[*at] = None);
        }
    }
    unneeded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(index: &[Shingle], needed: usize) -> IndexQuery {
        IndexQuery { index: index.to_vec(), needed, ..IndexQuery::default() }
    }

    #[test]
    fn lists_are_unneeded_where_no_page_has_enough_of_them() {
        const NONE: [(Shingle, UnreadIn); 0] = [];
        let part = UnreadIn::Part;
        let shingles = [10, 20, 30, 40, 50];
        let mut buffered = vec![Vec::new(); 5];
        buffered[4].push(DocumentId(1));
        let unneeded = |possible: &[&[usize]], pages: &[IndexQuery]| -> Vec<(Shingle, UnreadIn)> {
            let possible: Vec<Vec<usize>> = possible.iter().map(|possible| possible.to_vec()).collect();
            let runs = unneeded(&shingles, &buffered, &possible, pages);
            shingles.into_iter().zip(runs).filter_map(|(shingle, run)| Some((shingle, run?))).collect()
        };
        let in_two = [(10, part(0)), (20, part(0)), (30, part(1))];
        assert_eq!(unneeded(&[&[0, 1], &[2]], &[page(&[10, 20, 30, 40], 3)]), in_two);
        assert_eq!(unneeded(&[&[0, 1], &[2]], &[page(&[10, 20, 30, 40], 2)]), NONE);
        let first_in_both = [(10, UnreadIn::Several), (20, part(0))];
        assert_eq!(unneeded(&[&[0, 1], &[0]], &[page(&[10, 20, 30, 40], 3)]), first_in_both);
        assert_eq!(unneeded(&[&[0, 1], &[0]], &[page(&[10, 20, 30, 40], 2)]), NONE, "a document may have 10 and 20");
        assert_eq!(unneeded(&[&[0, 4]], &[page(&[10, 50], 3)]), [(10, part(0))], "50 is buffered");
        assert_eq!(unneeded(&[&[0]], &[page(&[10, 50], 2)]), NONE, "what is buffered counts");
        let two_pages = [page(&[10, 20, 30], 4), page(&[20], 1)];
        assert_eq!(unneeded(&[&[0, 1, 2]], &two_pages), [(10, part(0)), (30, part(0))]);
        assert_eq!(unneeded(&[], &[page(&[10, 20, 30], 1)]), NONE);
    }
}
