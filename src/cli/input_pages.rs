//! Pages that a store took in, read again from its inputs.

use super::wiring::file_source;
use crate::config::Config;
use crate::document::Content;
use crate::files::{Input, url_of};
use crate::intake::{FutureLimit, PageReader};
use crate::ports::{FoundPage, InputPages, IsPageOf, Polled, ProgressMap, SoughtPage, Source, SourceError};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long one look at the inputs may take before the next.
const POLL: Duration = Duration::from_millis(100);

/// Records between two looks at the clock.
const RECORDS_PER_LOOK: u32 = 64;

/// The inputs of a store, read as the configuration says.
pub(super) struct StoreInputs {
    config: Config,
    /// Whether objects of stores of objects, too: to read those may cost money.
    with_objects: bool,
}

impl StoreInputs {
    /// Files and objects.
    pub fn new(config: &Config) -> Self {
        StoreInputs { config: config.clone(), with_objects: true }
    }

    /// Files alone.
    pub fn of_files(config: &Config) -> Self {
        StoreInputs { with_objects: false, ..StoreInputs::new(config) }
    }
}

impl InputPages for StoreInputs {
    fn readable(&self, sources: Vec<String>) -> Vec<PathBuf> {
        let is_there = |path: &PathBuf| match url_of(path) {
            Some(_) => self.with_objects,
            None => path.is_absolute() && path.is_file(),
        };
        sources.into_iter().map(PathBuf::from).filter(is_there).collect()
    }

    fn find(
        &self,
        sought: &[SoughtPage],
        mut inputs: Vec<PathBuf>,
        is_page_of: IsPageOf<'_>,
        until: Option<Instant>,
    ) -> Result<Vec<Option<FoundPage>>, SourceError> {
        // Files of a crawl are often named after its sweep.
        let is_likely = |name: &str| sought.iter().flat_map(|of| &of.sweeps).any(|sweep| name.contains(sweep));
        inputs.sort_by_key(|path| !is_likely(&path.to_string_lossy()));
        let inputs = inputs.into_iter().map(Input::File).collect();
        let source = file_source(&self.config, inputs, ProgressMap::new());
        let mut source = source.map_err(|error| SourceError::new(error.to_string()))?;
        let mut reader = PageReader::new(self.config.limits.clone(), FutureLimit::NONE);
        let mut found: Vec<Option<FoundPage>> = vec![None; sought.len()];
        for n_read in 1u32.. {
            let is_time_up = n_read % RECORDS_PER_LOOK == 0 && until.is_some_and(|until| Instant::now() >= until);
            if is_time_up || found.iter().all(Option::is_some) {
                break;
            }
            let incoming = match source.poll(POLL)? {
                Polled::Record(incoming) => incoming,
                Polled::Idle | Polled::Unreadable(_) => continue,
                Polled::End => break,
            };
            let Ok(page) = reader.page(&incoming.record) else { continue };
            if !matches!(page.content, Content::Body { .. }) {
                continue;
            }
            let key = (page.url.clone(), page.fetched_at);
            for (found, sought) in found.iter_mut().zip(sought) {
                if found.is_some() || !sought.places.contains(&key) {
                    continue;
                }
                if is_page_of(&page, sought.document).map_err(|error| SourceError::new(error.to_string()))? {
                    *found = Some(FoundPage { page: page.clone().into_owned(), origin: incoming.origin.clone() });
                }
            }
        }
        Ok(found)
    }
}
