//! Compares the bags of a store with what its documents say, by the code that builds them.

use super::store::count_related;
use crate::backfill::context::Context;
use crate::backfill::error::BackfillError;
use crate::ports::{RelatedBuild, RelatedView, Snapshot, StoreError};
use crate::related::{Bag, Target, Term};

/// Rows that are looked up together.
const ROWS_TOGETHER: usize = 4096;

/// What a store has that is not what a build makes of its documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// A bag.
    Bag(Target),
    /// The number of bags with a term.
    Term(Term),
}

/// Whether nothing happened in a store since its last build. Only then a build makes the same bags again.
pub fn is_up_to_date(store: &impl Snapshot, build: &RelatedBuild) -> bool {
    build.next_seq == Some(store.next_seq())
        && build.refreshed_up_to == build.up_to
        && build.up_to.0 == store.n_documents()
}

/// Makes the bags of a store again in the folder of the context, and gives all differences to those of its build.
///
/// # Errors
/// [`BackfillError`]
pub fn recount_related<S: Snapshot + RelatedView>(
    store: &S,
    build: &RelatedBuild,
    context: &Context,
    differs: &mut dyn FnMut(Difference),
) -> Result<(), BackfillError> {
    let counted = count_related(store, &build.rule, context)?;
    let mut waiting: Vec<(Target, Bag)> = Vec::new();
    counted.each_bag(&mut |target, bag| {
        waiting.push((target, bag));
        if waiting.len() < ROWS_TOGETHER {
            return Ok(());
        }
        context.check_stop()?;
        Ok(compare(store, &mut waiting, differs)?)
    })?;
    compare(store, &mut waiting, differs)?;
    let terms: Vec<(Term, [u32; 2])> = counted.terms().collect();
    for terms in terms.chunks(ROWS_TOGETHER) {
        let found = store.frequencies(&terms.iter().map(|(term, _)| *term).collect::<Vec<_>>())?;
        let wrong = terms.iter().zip(found).filter(|((_, expected), found)| expected != found);
        wrong.for_each(|((term, _), _)| differs(Difference::Term(*term)));
    }
    Ok(())
}

fn compare(
    store: &impl RelatedView,
    waiting: &mut Vec<(Target, Bag)>,
    differs: &mut dyn FnMut(Difference),
) -> Result<(), StoreError> {
    let targets: Vec<Target> = waiting.iter().map(|(target, _)| *target).collect();
    for ((target, expected), found) in waiting.drain(..).zip(store.bags(&targets)?) {
        if found != expected {
            differs(Difference::Bag(target));
        }
    }
    Ok(())
}
