//! Links that were found elsewhere take the place of the search for pairs, once the sketches here confirm each.

use super::checkpoint::Checkpoint;
use super::context::Context;
use super::datasets::{DatasetFile, LINKS};
use super::error::BackfillError;
use super::found_links::found_links;
use super::jobs::{Job, run_jobs};
use super::phases::common_shingles::CommonShingles;
use super::rows::LinkRow;
use super::sketch_cache::{SketchCache, open_sketches};
use crate::cluster::{Clusters, Link};
use crate::ports::{SourceError, StoreRule};

/// Links, some at a time.
type LinkChunks = Box<dyn Iterator<Item = Result<Vec<Link>, SourceError>> + Send>;

/// Links between the documents of a backfill: a spanning forest of its clusters.
pub struct GivenLinks {
    chunks: LinkChunks,
}

/// What the links make.
pub(super) struct TakenLinks {
    pub clusters: Clusters,
    pub links: Vec<LinkRow>,
    /// Links that were confirmed in this run.
    pub n_compared: u64,
}

impl GivenLinks {
    /// Takes the links of an iterator.
    pub fn new(chunks: impl Iterator<Item = Result<Vec<Link>, SourceError>> + Send + 'static) -> Self {
        GivenLinks { chunks: Box::new(chunks) }
    }

    /// Confirms the links and joins their clusters.
    pub(super) fn take(
        self,
        checkpoint: &mut Checkpoint,
        context: &Context,
        common: &CommonShingles,
    ) -> Result<TakenLinks, BackfillError> {
        let sketches = SketchCache::new(&open_sketches(checkpoint)?.0, context);
        let mut confirmer = Confirmer {
            rule: checkpoint.rule().clone(),
            common,
            sketches,
            clusters: Clusters::alone(checkpoint.ingested().n_documents() as usize),
        };
        let job = Job::new("given-links", move |context| confirmer.write(context, self.chunks));
        run_jobs(vec![job], checkpoint, context)?;
        let (clusters, links) = found_links(checkpoint)?;
        Ok(TakenLinks { clusters, n_compared: links.len() as u64, links })
    }
}

/// Confirms links by the sketches of their documents.
struct Confirmer<'a> {
    rule: StoreRule,
    common: &'a CommonShingles,
    sketches: SketchCache,
    clusters: Clusters,
}

impl Confirmer<'_> {
    /// Writes the links that are confirmed.
    fn write(&mut self, context: &Context, chunks: LinkChunks) -> Result<Vec<DatasetFile>, BackfillError> {
        let mut writer = LINKS.create(&context.folder, "given")?;
        for chunk in chunks {
            context.check_stop()?;
            for Link { document, to, resemblance } in chunk? {
                let link = LinkRow { later: document, earlier: to, resemblance };
                if let Some(why) = self.objection(link)? {
                    return Err(BackfillError::UnfitLink { later: document.0, earlier: to.0, why });
                }
                writer.push(link)?;
            }
        }
        Ok(vec![writer.finish()?])
    }

    /// Why a link is none of this backfill, if so.
    fn objection(&mut self, link: LinkRow) -> Result<Option<&'static str>, BackfillError> {
        let LinkRow { later, earlier, resemblance } = link;
        if earlier.0 == 0 || later <= earlier || later.0 as usize > self.clusters.n_documents() {
            return Ok(Some("there are no such documents, or not in this order"));
        }
        let (a, b) = (self.sketches.get(later)?, self.sketches.get(earlier)?);
        let is_common = |shingle| self.common.is_common_for(shingle, later);
        let found = self.rule.cluster.link(&a, &b, self.rule.sketch.rule, false, is_common);
        if found.map(f64::to_bits) != Some(resemblance.to_bits()) {
            return Ok(Some("the rule finds another resemblance"));
        }
        let joins = self.clusters.union(later, earlier).is_some();
        Ok((!joins).then_some("other links join the two already"))
    }
}
