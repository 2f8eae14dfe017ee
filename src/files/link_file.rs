//! Link files: links between documents that were found elsewhere, for a backfill from the same sketches.

use super::sketch_file::SketchFiles;
use crate::cluster::Link;
use crate::document::DocumentId;
use crate::ports::{SourceError, StoreRule};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// The format of columns and footer. Files of another one are refused.
const FORMAT: u32 = 1;

/// The key of the footer in a file's metadata.
const KEY: &str = "lookalike.links";

/// Links that are decoded at once.
const BATCH_ROWS: usize = 4096;

static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| {
    let column = |name: &str, kind: DataType| Field::new(name, kind, true);
    Arc::new(Schema::new(vec![
        column("later", DataType::Int64),
        column("earlier", DataType::Int64),
        column("resemblance", DataType::Float64),
    ]))
});

/// The columns of a link file: two documents, numbered from 1 in the order in which they came, and their resemblance.
pub fn link_schema() -> Arc<Schema> {
    Arc::clone(&SCHEMA)
}

/// What a link file says of itself, beside its rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkFooter {
    format: u32,
    /// The sketches between whose documents the links are, as [`SketchFiles::digest`] names them.
    pub sketches: String,
    /// The rule that decided.
    pub rule: StoreRule,
    /// Documents of the sketches.
    pub n_documents: u64,
    /// Links in the file.
    pub n_links: u64,
}

impl LinkFooter {
    /// The footer of links between the documents of some sketches.
    pub fn new(sketches: String, rule: StoreRule, n_documents: u64, n_links: u64) -> Self {
        LinkFooter { format: FORMAT, sketches, rule, n_documents, n_links }
    }

    /// The footer as a key and a value of a file's metadata.
    ///
    /// # Errors
    /// Where the footer is no JSON, which it always is.
    pub fn encode(&self) -> serde_json::Result<(&'static str, String)> {
        Ok((KEY, serde_json::to_string(self)?))
    }
}

/// Links that a backfill cannot take, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LinkFileError {
    /// The system refuses.
    #[error("cannot read {path}: {error}; check the path and its permissions")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// A file that holds no links, or those of another version.
    #[error("{path} is no link file: {why}; make it again, or name another file")]
    NoLinks {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// Links between other documents, or by another rule.
    #[error("{path} holds links {difference}; make them again, from these sketches with this configuration")]
    Unfit {
        /// The file.
        path: PathBuf,
        /// What differs.
        difference: &'static str,
    },
    /// More documents than a store holds.
    #[error(
        "{path} holds links between {n_documents} documents, and a store ends at {}; use the clusters as tables, or give \
         parts of the crawl stores of their own",
        u32::MAX
    )]
    TooManyDocuments {
        /// The file.
        path: PathBuf,
        /// Documents.
        n_documents: u64,
    },
}

/// An open link file that fits sketches and a rule.
#[derive(Debug)]
pub struct LinkFile {
    path: PathBuf,
    n_links: u64,
    batches: ParquetRecordBatchReader,
}

impl LinkFile {
    /// Opens the links between the documents of some sketches by a rule.
    ///
    /// # Errors
    /// [`LinkFileError`]
    pub fn open(path: &Path, sketches: &SketchFiles, rule: &StoreRule) -> Result<Self, LinkFileError> {
        let path = path.to_path_buf();
        let file = File::open(&path).map_err(|error| LinkFileError::Io { path: path.clone(), error })?;
        let no_links = |why: String| LinkFileError::NoLinks { path: path.clone(), why };
        let builder = ParquetRecordBatchReaderBuilder::try_new(file)
            .map_err(|error| no_links(format!("it is cut or damaged ({error})")))?;
        let pairs = builder.metadata().file_metadata().key_value_metadata();
        let footer = pairs.into_iter().flatten().find(|pair| pair.key == KEY).and_then(|pair| pair.value.as_deref());
        let footer = footer.ok_or_else(|| no_links("another program wrote it".into()))?;
        let footer: LinkFooter = serde_json::from_str(footer)
            .map_err(|error| no_links(format!("its footer is of another kind ({error})")))?;
        if footer.format != FORMAT {
            return Err(no_links(format!("it has format {}, and this program reads {FORMAT}", footer.format)));
        }
        let kinds = |schema: &Schema| -> Vec<_> {
            schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
        };
        if kinds(builder.schema()) != kinds(&link_schema()) {
            return Err(no_links("it has other columns".into()));
        }
        let difference = match () {
            () if footer.sketches != sketches.digest() => Some("between documents of other sketches"),
            () if footer.rule != *rule => Some("by another rule"),
            () => None,
        };
        if let Some(difference) = difference {
            return Err(LinkFileError::Unfit { path, difference });
        }
        if footer.n_documents > u64::from(u32::MAX) {
            return Err(LinkFileError::TooManyDocuments { path, n_documents: footer.n_documents });
        }
        let batches = builder.with_batch_size(BATCH_ROWS).build().map_err(|error| no_links(error.to_string()))?;
        Ok(LinkFile { path, n_links: footer.n_links, batches })
    }

    /// The links, some at a time. Nothing follows an error.
    pub fn into_chunks(self) -> impl Iterator<Item = Result<Vec<Link>, SourceError>> + Send {
        let LinkFile { path, n_links, mut batches } = self;
        let (mut n_read, mut is_over) = (0u64, false);
        std::iter::from_fn(move || {
            if is_over {
                return None;
            }
            let links = match batches.next() {
                Some(Ok(batch)) => links(&batch).ok_or_else(|| "a row is no link".to_string()),
                Some(Err(error)) => Err(error.to_string()),
                None if n_read != n_links => Err(format!("it holds {n_read} of {n_links} links")),
                None => return None,
            };
            n_read += links.as_ref().map_or(0, |links| links.len() as u64);
            is_over = links.is_err();
            Some(links.map_err(|why| {
                SourceError::new(format!("{} is damaged ({why}); make the links again", path.display()))
            }))
        })
    }
}

/// The links of a batch; none where a row cannot be a link of a store.
fn links(batch: &RecordBatch) -> Option<Vec<Link>> {
    let [later, earlier] = [0, 1].map(|at| batch.column(at).as_primitive_opt::<Int64Type>());
    let (later, earlier, resemblance) = (later?, earlier?, batch.column(2).as_primitive_opt::<Float64Type>()?);
    let document = |id: i64| u32::try_from(id).ok().map(DocumentId);
    let has_nulls = batch.columns().iter().any(|column| column.null_count() > 0);
    let link = |at: usize| {
        Some(Link {
            document: document(later.value(at))?,
            to: document(earlier.value(at))?,
            resemblance: resemblance.value(at),
        })
    };
    if has_nulls { None } else { (0..batch.num_rows()).map(link).collect() }
}
