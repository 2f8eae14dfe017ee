//! Fragments between what documents say and the family that leads to it.

use crate::document::{DocumentId, Seed};
use crate::related::{FragmentKey, Said, Target};

/// A fragment on its way to a run.
pub(super) type BufferedFragment = (Target, FragmentKey, DocumentId);

/// The fragments in what documents say.
pub(super) fn fragments_of<'s>(
    seed: &Seed,
    said: impl IntoIterator<Item = (DocumentId, &'s Said)>,
) -> Vec<BufferedFragment> {
    let of_one = |(document, said): (DocumentId, &'s Said)| {
        said.fragments().map(move |(passage, key)| (Target::of(seed, &passage.target), key, document))
    };
    said.into_iter().flat_map(of_one).collect()
}
