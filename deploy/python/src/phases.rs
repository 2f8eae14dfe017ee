//! The phases after sketching as operators over Arrow, for a batch that is spread over machines. Whatever runs them sorts
//! and joins; each decision is the function that the program uses.
//!
//! Documents are numbered from 1 in 64 bits. An operator sees the rows of one partition in their order, batch after batch,
//! and keeps of them only what its class says.

use crate::error::{failed, usage};
use crate::settings::Settings;
use crate::table::{Batches, Table, column};
use arrow_array::builder::{Int64Builder, ListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BinaryArray, Float64Array, Int64Array, ListArray, RecordBatch, UInt64Array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema};
use arrow_select::take::take_record_batch;
use lookalike::cluster::{
    IndexQuery, REPRESENTATIVES_MAX, Representatives, candidates_by_representatives, first_representatives,
};
use lookalike::document::DocumentId;
use lookalike::files::{LinkFooter, SketchFiles};
use lookalike::ports::StoreRule;
use lookalike::sketch::{Shingle, Sketch, decode};
use pyo3::prelude::*;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The rule of a configuration, as JSON.
#[pyfunction]
pub(crate) fn match_rule(settings: &Settings) -> PyResult<String> {
    serde_json::to_string(&settings.config.rule()).map_err(failed)
}

/// The files of a folder of sketches, in the order of their inputs: what names them all, and the path and the input of each.
#[pyfunction]
pub(crate) fn sketch_files(
    folder: &str,
    files: Vec<(String, HashMap<String, String>)>,
    rule: &str,
) -> PyResult<(String, Vec<(String, String)>)> {
    let files = files.into_iter().map(|(path, metadata)| (PathBuf::from(path), metadata)).collect();
    let files = SketchFiles::from_metadata(Path::new(folder), files).map_err(usage)?;
    let rule = parse(rule)?;
    if files.rule() != (rule.canonical_version, &rule.sketch) {
        return Err(usage(format!(
            "{folder} holds sketches by another rule; use the configuration that they were made with"
        )));
    }
    let inputs = files.inputs().map(|(path, name)| (path.to_string_lossy().into_owned(), name.to_string()));
    Ok((files.digest().to_string(), inputs.collect()))
}

/// The metadata of a file of links that `backfill --links` takes.
#[pyfunction]
pub(crate) fn link_metadata(
    sketches: String,
    rule: &str,
    n_documents: u64,
    n_links: u64,
) -> PyResult<HashMap<String, String>> {
    let (key, value) = LinkFooter::new(sketches, parse(rule)?, n_documents, n_links).encode().map_err(failed)?;
    Ok(HashMap::from([(key.to_string(), value)]))
}

fn parse(rule: &str) -> PyResult<StoreRule> {
    let rule: StoreRule = serde_json::from_str(rule).map_err(|error| usage(format!("no rule: {error}")))?;
    match rule.cluster.problem() {
        Some(problem) => Err(usage(format!("cluster.{problem}"))),
        None => Ok(rule),
    }
}

/// The columns of a batch by name.
struct Columns<'a>(&'a RecordBatch);

impl Columns<'_> {
    fn as_kind(&self, name: &str, kind: &DataType) -> PyResult<ArrayRef> {
        let cells = cast(column(self.0, name)?, kind).map_err(|error| usage(format!("column {name:?}: {error}")))?;
        match cells.null_count() {
            0 => Ok(cells),
            _ => Err(usage(format!("column {name:?} has nulls"))),
        }
    }

    fn numbers(&self, name: &str) -> PyResult<Int64Array> {
        Ok(self.as_kind(name, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
    }

    fn lists(&self, name: &str) -> PyResult<ListArray> {
        let kind = DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)));
        Ok(self.as_kind(name, &kind)?.as_list::<i32>().clone())
    }

    fn bytes(&self, name: &str) -> PyResult<BinaryArray> {
        Ok(self.as_kind(name, &DataType::Binary)?.as_binary::<i32>().clone())
    }
}

fn list_at(lists: &ListArray, at: usize) -> Vec<i64> {
    lists.value(at).as_primitive::<Int64Type>().values().to_vec()
}

fn shingles_at(lists: &ListArray, at: usize) -> Vec<Shingle> {
    list_at(lists, at).into_iter().map(i64::cast_unsigned).collect()
}

fn numbers(values: Vec<i64>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

/// A table of one batch.
fn table(columns: Vec<(&str, ArrayRef)>) -> PyResult<Table> {
    let fields = columns.iter().map(|(name, cells)| Field::new(*name, cells.data_type().clone(), true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    let cells = columns.into_iter().map(|(_, cells)| cells).collect();
    let batch = RecordBatch::try_new(schema.clone(), cells).map_err(failed)?;
    Ok(Table::new(schema, vec![batch]))
}

/// Calls `each` with every batch, without the interpreter's lock.
fn for_each(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    mut each: impl FnMut(&RecordBatch) -> PyResult<()> + Send,
) -> PyResult<()> {
    let mut rows = Batches::of(rows)?;
    py.detach(|| {
        while let Some(batch) = rows.next()? {
            each(&batch)?;
        }
        Ok(())
    })
}

/// A rule with the shingles that are common so far: indexes documents, and decides pairs.
#[pyclass(module = "lookalike._lookalike")]
pub(crate) struct Matcher {
    rule: StoreRule,
    /// Common shingle → the document that made it so.
    since: HashMap<Shingle, i64>,
    /// Common shingle → the places of its representatives among all that represent.
    representatives: HashMap<Shingle, Representatives>,
    /// All that represent, ascending.
    documents: Vec<i64>,
    /// The document whose pairs came last.
    current: Option<Later>,
}

/// The document whose pairs are being decided.
struct Later {
    document: i64,
    sketch: Sketch,
    /// Clusters that it is linked with.
    joined: HashSet<i64>,
    /// Comparisons that the rule still allows.
    n_left: usize,
}

#[pymethods]
impl Matcher {
    /// How many of the first documents of a common shingle represent all that have it.
    #[classattr]
    const REPRESENTATIVES_MAX: usize = REPRESENTATIVES_MAX;

    /// Documents of a list that count: one more makes no difference.
    #[getter]
    fn list_max(&self) -> usize {
        self.rule.cluster.common_limit + 1
    }

    /// `common` has the columns `shingle`, `since` and `documents`: the first ones of its list.
    #[new]
    #[pyo3(signature = (rule, common=None))]
    fn new(py: Python<'_>, rule: &str, common: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let rule = parse(rule)?;
        let (mut since, mut lists) = (HashMap::new(), Vec::new());
        if let Some(common) = common {
            for_each(py, common, |batch| {
                let columns = Columns(batch);
                let (shingles, sinces) = (columns.numbers("shingle")?, columns.numbers("since")?);
                let documents = columns.lists("documents")?;
                for at in 0..batch.num_rows() {
                    let shingle = shingles.value(at).cast_unsigned();
                    since.insert(shingle, sinces.value(at));
                    lists.push((shingle, list_at(&documents, at)));
                }
                Ok(())
            })?;
        }
        let mut documents: Vec<i64> = lists.iter().flat_map(|(_, documents)| documents.iter().copied()).collect();
        documents.sort_unstable();
        documents.dedup();
        // The program numbers documents in 32 bits. The places of those that represent keep their order.
        let place = |document: &i64| DocumentId(documents.partition_point(|other| other < document) as u32);
        let representatives = lists.iter().map(|(shingle, list)| {
            let places: Vec<DocumentId> = list.iter().map(place).collect();
            (*shingle, first_representatives(&places))
        });
        let representatives = representatives.collect();
        Ok(Matcher { rule, since, representatives, documents, current: None })
    }

    /// The columns `document` and `index`, its smallest shingles, become `document`, `index`: those that index it; `needed`:
    /// how many of them a candidate shares; and `represented`: the representatives that it is compared with.
    fn index(&self, py: Python<'_>, documents: &Bound<'_, PyAny>) -> PyResult<Table> {
        let list = || ListBuilder::new(Int64Builder::new());
        let (mut ids, mut needed, mut index, mut represented) = (Vec::new(), Vec::new(), list(), list());
        let n_index_max = if self.rule.sketch.index_size == 0 { usize::MAX } else { self.rule.sketch.index_size };
        for_each(py, documents, |batch| {
            let columns = Columns(batch);
            let (batch_ids, smallest) = (columns.numbers("document")?, columns.lists("index")?);
            for at in 0..batch.num_rows() {
                let document = batch_ids.value(at);
                let is_common = |shingle| self.is_common_for(shingle, document);
                let query = IndexQuery::new(&shingles_at(&smallest, at), n_index_max, &self.rule.cluster, is_common);
                let of_common = query.common.iter().filter_map(|shingle| self.representatives.get(shingle));
                let others = candidates_by_representatives(of_common, query.common_needed);
                ids.push(document);
                needed.push(self.rule.cluster.shared_needed(query.index.len()) as i64);
                index.append_value(query.index.iter().map(|shingle| Some(shingle.cast_signed())));
                represented.append_value(others.iter().map(|place| Some(self.documents[place.0 as usize])));
            }
            Ok(())
        })?;
        table(vec![
            ("document", numbers(ids)),
            ("index", Arc::new(index.finish())),
            ("needed", numbers(needed)),
            ("represented", Arc::new(represented.finish())),
        ])
    }

    /// The pairs that make links: `later`, `earlier`, `resemblance`. Pairs have the columns `later`, `later_sketch`,
    /// `earlier`, `earlier_sketch`, and `cluster`: that of the earlier document. They are sorted by the later document, and
    /// for each the likeliest come first: of each cluster the first link counts, and the rule may limit the comparisons.
    #[pyo3(signature = (pairs, is_represented=false))]
    fn link(&mut self, py: Python<'_>, pairs: &Bound<'_, PyAny>, is_represented: bool) -> PyResult<Table> {
        let (mut later_out, mut earlier_out, mut resemblances) = (Vec::new(), Vec::new(), Vec::new());
        for_each(py, pairs, |batch| {
            let columns = Columns(batch);
            let [later, earlier, clusters] = ["later", "earlier", "cluster"].map(|name| columns.numbers(name));
            let (later, earlier, clusters) = (later?, earlier?, clusters?);
            let (later_sketches, earlier_sketches) = (columns.bytes("later_sketch")?, columns.bytes("earlier_sketch")?);
            for at in 0..batch.num_rows() {
                let (document, other, cluster) = (later.value(at), earlier.value(at), clusters.value(at));
                self.begin(document, later_sketches.value(at))?;
                let resemblance = self.decide(document, other, cluster, earlier_sketches.value(at), is_represented)?;
                if let Some(resemblance) = resemblance {
                    later_out.push(document);
                    earlier_out.push(other);
                    resemblances.push(resemblance);
                }
            }
            Ok(())
        })?;
        table(vec![
            ("later", numbers(later_out)),
            ("earlier", numbers(earlier_out)),
            ("resemblance", Arc::new(Float64Array::from(resemblances))),
        ])
    }
}

impl Matcher {
    fn is_common_for(&self, shingle: Shingle, document: i64) -> bool {
        self.since.get(&shingle).is_some_and(|since| *since < document)
    }

    /// Begins the pairs of a document, unless it is the one whose pairs came last.
    fn begin(&mut self, document: i64, sketch: &[u8]) -> PyResult<()> {
        if self.current.as_ref().is_none_or(|current| current.document != document) {
            let (sketch, n_left) = (sketch_of(document, sketch)?, self.rule.cluster.n_comparisons());
            self.current = Some(Later { document, sketch, joined: HashSet::new(), n_left });
        }
        Ok(())
    }

    /// The resemblance of a pair that makes a link.
    fn decide(
        &mut self,
        document: i64,
        other: i64,
        cluster: i64,
        sketch: &[u8],
        is_represented: bool,
    ) -> PyResult<Option<f64>> {
        let Some(current) = &self.current else { return Ok(None) };
        if current.n_left == 0 || current.joined.contains(&cluster) {
            return Ok(None);
        }
        let (rule, other) = (&self.rule, sketch_of(other, sketch)?);
        let is_common = |shingle| self.is_common_for(shingle, document);
        let link = rule.cluster.link(&current.sketch, &other, rule.sketch.rule, is_represented, is_common);
        if let Some(current) = &mut self.current {
            current.n_left -= 1;
            if link.is_some() {
                current.joined.insert(cluster);
            }
        }
        Ok(link)
    }
}

fn sketch_of(document: i64, bytes: &[u8]) -> PyResult<Sketch> {
    decode(bytes).map_err(|_| usage(format!("the sketch of document {document} is damaged")))
}

/// The lists of shingles, from rows that are sorted by shingle and document. Keeps a document and a place.
#[pyclass(module = "lookalike._lookalike")]
pub(crate) struct Lists {
    n_documents_max: usize,
    is_super: bool,
    shingle: Option<i64>,
    /// Documents of the list so far.
    n_documents: usize,
    first: i64,
    previous: i64,
}

#[pymethods]
impl Lists {
    /// Lists of so many documents, at most. A document's neighbour is the one before it, or the first one of a super shingle.
    #[new]
    #[pyo3(signature = (n_documents_max=None, is_super=false))]
    fn new(n_documents_max: Option<usize>, is_super: bool) -> Self {
        let n_documents_max = n_documents_max.unwrap_or(usize::MAX);
        Lists { n_documents_max, is_super, shingle: None, n_documents: 0, first: 0, previous: 0 }
    }

    /// The columns `shingle` and `document`, without the rows that are too many.
    fn shorten(&mut self, py: Python<'_>, postings: &Bound<'_, PyAny>) -> PyResult<Table> {
        let (mut shingles, mut documents) = (Vec::new(), Vec::new());
        self.each(py, postings, |_, shingle, document| {
            shingles.push(shingle);
            documents.push(document);
        })?;
        table(vec![("shingle", numbers(shingles)), ("document", numbers(documents))])
    }

    /// The same without lists of one document, and with the columns `place` in the list, from 0, and `neighbour`: the document
    /// to compare with first, null for the first one.
    fn neighbours(&mut self, py: Python<'_>, postings: &Bound<'_, PyAny>) -> PyResult<Table> {
        let (mut shingles, mut documents, mut places, mut neighbours) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let is_super = self.is_super;
        self.each(py, postings, |before, shingle, document| {
            let mut push = |document, place, neighbour| {
                shingles.push(shingle);
                documents.push(document);
                places.push(place);
                neighbours.push(neighbour);
            };
            if before.n_documents == 1 {
                push(before.first, 0, None);
            }
            if before.n_documents > 0 {
                let neighbour = if is_super { before.first } else { before.previous };
                push(document, before.n_documents as i64, Some(neighbour));
            }
        })?;
        table(vec![
            ("shingle", numbers(shingles)),
            ("document", numbers(documents)),
            ("place", numbers(places)),
            ("neighbour", Arc::new(Int64Array::from(neighbours))),
        ])
    }
}

impl Lists {
    /// Calls `each` with every row that is not too many, and with the list before it.
    fn each(
        &mut self,
        py: Python<'_>,
        postings: &Bound<'_, PyAny>,
        mut each: impl FnMut(&Self, i64, i64) + Send,
    ) -> PyResult<()> {
        for_each(py, postings, |batch| {
            let (shingles, documents) = (Columns(batch).numbers("shingle")?, Columns(batch).numbers("document")?);
            for (shingle, document) in shingles.values().iter().zip(documents.values()) {
                if self.shingle.replace(*shingle) != Some(*shingle) {
                    (self.n_documents, self.first) = (0, *document);
                }
                if self.n_documents < self.n_documents_max {
                    each(self, *shingle, *document);
                }
                self.n_documents += 1;
                self.previous = *document;
            }
            Ok(())
        })
    }
}

/// Pairs of documents of different clusters, from rows that are sorted by shingle and document. Keeps the first documents of a
/// list, as many as nominate.
#[pyclass(module = "lookalike._lookalike")]
pub(crate) struct Pairs {
    n_nominating: usize,
    shingle: Option<i64>,
    /// The first documents of the list, with their clusters.
    first: Vec<(i64, i64)>,
    /// Whether these are all of one cluster.
    is_uniform: bool,
}

#[pymethods]
impl Pairs {
    /// Pairs with the first so many documents of each list.
    #[new]
    fn new(n_nominating: usize) -> Self {
        Pairs { n_nominating, shingle: None, first: Vec::new(), is_uniform: true }
    }

    /// The columns `shingle`, `document` and `cluster` become `later`, `earlier` and `cluster`, that of the earlier one; once for
    /// each shingle in common.
    fn form(&mut self, py: Python<'_>, lists: &Bound<'_, PyAny>) -> PyResult<Table> {
        let (mut later, mut earlier, mut earlier_clusters) = (Vec::new(), Vec::new(), Vec::new());
        for_each(py, lists, |batch| {
            let [shingles, documents, clusters] =
                ["shingle", "document", "cluster"].map(|name| Columns(batch).numbers(name));
            let (shingles, documents, clusters) = (shingles?, documents?, clusters?);
            for at in 0..batch.num_rows() {
                let (shingle, document, cluster) = (shingles.value(at), documents.value(at), clusters.value(at));
                if self.shingle.replace(shingle) != Some(shingle) {
                    self.first.clear();
                    self.is_uniform = true;
                }
                let is_like_first = self.first.first().is_none_or(|(_, first)| *first == cluster);
                if !(self.is_uniform && is_like_first) {
                    for (other, other_cluster) in self.first.iter().filter(|(_, other)| *other != cluster) {
                        later.push(document);
                        earlier.push(*other);
                        earlier_clusters.push(*other_cluster);
                    }
                }
                if self.first.len() < self.n_nominating {
                    self.first.push((document, cluster));
                    self.is_uniform &= is_like_first;
                }
            }
            Ok(())
        })?;
        table(vec![("later", numbers(later)), ("earlier", numbers(earlier)), ("cluster", numbers(earlier_clusters))])
    }
}

/// Connected components of documents, each named by its smallest document: 8 bytes a document.
#[pyclass(module = "lookalike._lookalike")]
pub(crate) struct UnionFind {
    /// A document of the same component that is not larger; the smallest one's own.
    parents: Vec<u64>,
    n_links: u64,
}

#[pymethods]
impl UnionFind {
    /// So many documents, each alone.
    #[new]
    fn new(n_documents: u64) -> Self {
        UnionFind { parents: (0..=n_documents).collect(), n_links: 0 }
    }

    /// How many links have joined two components.
    #[getter]
    fn n_links(&self) -> u64 {
        self.n_links
    }

    /// Joins the documents in the columns `later` and `earlier`. Returns the rows that joined two components.
    fn join(&mut self, py: Python<'_>, links: &Bound<'_, PyAny>) -> PyResult<Table> {
        let mut batches = Vec::new();
        for_each(py, links, |batch| {
            let (later, earlier) = (Columns(batch).numbers("later")?, Columns(batch).numbers("earlier")?);
            let mut joined = Vec::new();
            for (at, (a, b)) in later.values().iter().zip(earlier.values()).enumerate() {
                if self.union(self.document(*a)?, self.document(*b)?) {
                    joined.push(at as u64);
                }
            }
            self.n_links += joined.len() as u64;
            batches.push(take_record_batch(batch, &UInt64Array::from(joined)).map_err(failed)?);
            Ok(())
        })?;
        let schema = batches.first().map_or_else(lookalike::files::link_schema, RecordBatch::schema);
        Ok(Table::new(schema, batches))
    }

    /// The columns `document` and `cluster` of the documents from the first on that are not the smallest of their component, out of
    /// so many.
    fn members(&mut self, py: Python<'_>, first: u64, n_documents: u64) -> PyResult<Table> {
        py.detach(|| {
            let (mut documents, mut clusters) = (Vec::new(), Vec::new());
            let end = first.saturating_add(n_documents).min(self.parents.len() as u64);
            for document in first.max(1)..end {
                let cluster = self.root(document);
                if cluster != document {
                    documents.push(document as i64);
                    clusters.push(cluster as i64);
                }
            }
            table(vec![("document", numbers(documents)), ("cluster", numbers(clusters))])
        })
    }
}

impl UnionFind {
    fn document(&self, id: i64) -> PyResult<u64> {
        let document = u64::try_from(id).ok().filter(|id| (1..self.parents.len() as u64).contains(id));
        document.ok_or_else(|| usage(format!("there is no document {id} among {}", self.parents.len() - 1)))
    }

    fn root(&mut self, mut document: u64) -> u64 {
        loop {
            let parent = self.parents[document as usize];
            if parent == document {
                return document;
            }
            let above = self.parents[parent as usize];
            self.parents[document as usize] = above;
            document = above;
        }
    }

    /// Joins two components. The smaller root stays on top, so that it names the component.
    fn union(&mut self, a: u64, b: u64) -> bool {
        let (a, b) = (self.root(a), self.root(b));
        self.parents[a.max(b) as usize] = a.min(b);
        a != b
    }
}
