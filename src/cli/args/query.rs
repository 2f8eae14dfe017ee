//! The words of the commands that ask the store, or write out what it holds.

use super::super::answer_table::AnswerFormat;
use super::super::table::TableFormat;
use crate::backfill::{ReclusterPolicy, Representative};
use crate::query::By;
use clap::builder::RangedU64ValueParser;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum Question {
    /// Show the history of a URL: what stood there, and when
    #[command(after_long_help = "\
Examples:
  lookalike query url https://example.com/")]
    Url {
        /// The URL
        url: String,
    },
    /// Show the URLs of a cluster, with their dates
    #[command(after_long_help = "\
Examples:
  lookalike query cluster 17
  lookalike query cluster https://example.com/")]
    Cluster {
        /// The number of the cluster or of any document in it, or a URL in the store
        #[arg(value_name = "ID|URL")]
        of: String,
    },
    /// Show resemblance and containment of two documents
    ///
    /// Two files are compared exactly and need no store. With --passages, the texts themselves are compared: those of files,
    /// those that the store keeps, and else those of the records that the store took in, where their files are still there.
    #[command(after_long_help = "\
Examples:
  lookalike query compare old.html new.html
  lookalike query compare page.html https://example.com/
  lookalike query compare 17 42 --passages
  lookalike query compare https://example.com/ https://example.com/ --a-sweep 1 --b-sweep 2 --passages --json")]
    Compare(CompareArgs),
    /// Show the kept text of a page: what counts of it, without markup
    ///
    /// The store keeps texts of documents that come while store.keep_text is "canonical". Of several pages that are one
    /// document it has the text of the first. In a file or a pipe the text is as it is; a terminal shows U+FFFD for its
    /// control characters.
    #[command(after_long_help = "\
Examples:
  lookalike query text https://example.com/
  lookalike query text https://example.com/ --sweep 2026-11
  diff <(lookalike query text 17) <(lookalike query text 42)

Exit codes:
  0    answered
  1    failed; the message says why and what to do
  2    wrong usage or configuration
  4    the page is not in the store, or its text is not; the message says why")]
    Text {
        /// A URL in the store, or a document's number
        #[arg(value_name = "URL|ID")]
        of: String,
        /// Show the version that this sweep saw at the URL [default: the newest]
        #[arg(long, value_name = "NAME")]
        sweep: Option<String>,
    },
    /// Find the documents of the store that are most like a file
    #[command(after_long_help = "\
Examples:
  lookalike query similar page.html --limit 5")]
    Similar {
        /// A file, HTML or text
        file: PathBuf,
        /// Show at most this many documents
        #[arg(long, default_value_t = 10, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
        limit: usize,
    },
    /// Find pages that are about the same: other pages that links speak of alike, and that have the same words
    ///
    /// Needs a store whose pages are read with `related.on`, and `lookalike related build`. What is asked about is weighed
    /// with all pages taken in so far; answers are as the last build knows them.
    #[command(after_long_help = "\
Examples:
  lookalike query related https://example.com/roses
  lookalike query related page.html --limit 5
  lookalike query related --urls-from urls.txt --json
  lookalike query related --cluster https://example.com/roses --limit 100

Exit codes:
  0    answered
  1    failed; the message says why and what to do
  2    wrong usage or configuration
  4    nothing is known about the URL, or the store keeps nothing for related pages")]
    Related {
        /// A file, HTML or text, or any URL
        #[arg(value_name = "FILE|URL", required_unless_present = "urls_from")]
        of: Option<String>,
        /// Read many URLs from a file, one a line; `-` is standard input. With --json, print one object a line
        #[arg(long, value_name = "FILE", conflicts_with = "of")]
        urls_from: Option<PathBuf>,
        /// Show at most this many pages for each
        #[arg(long, default_value_t = 10, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
        limit: usize,
        /// Show every URL, also copies and versions of pages that are listed already
        #[arg(long)]
        copies: bool,
        /// Show the cluster of related pages that the URL is in instead, as `related build --clusters` found it
        #[arg(long, conflicts_with_all = ["urls_from", "copies"])]
        cluster: bool,
    },
    /// Group URLs, given best first, by their content: versions of one content come together
    #[command(after_long_help = "\
Examples:
  lookalike query group results.txt
  search 'dogs' | lookalike query group")]
    Group {
        /// A file with one URL a line [default: standard input]
        file: Option<PathBuf>,
    },
    /// Find every page that reuses a text, wholly or in part, by host, with its newest copy at each URL
    #[command(after_long_help = "\
Examples:
  lookalike query reuse press-release.txt --threshold 0.8
  lookalike query reuse https://example.com/article")]
    Reuse {
        /// A file, HTML or text, or a URL in the store
        #[arg(value_name = "FILE|URL")]
        of: String,
        /// The least resemblance, or containment either way, of a page that reuses the text
        #[arg(long, default_value_t = 0.5, value_name = "SHARE")]
        threshold: f64,
    },
    /// Find where the content of a URL stands now, best first
    #[command(after_long_help = "\
Examples:
  lookalike query lost https://example.com/old
  lookalike query lost --urls-from broken-links.txt --json")]
    Lost {
        /// A URL in the store
        #[arg(required_unless_present = "urls_from")]
        url: Option<String>,
        /// Read many URLs from a file, one a line; `-` is standard input. With --json, print one object a line
        #[arg(long, value_name = "FILE", conflicts_with = "url")]
        urls_from: Option<PathBuf>,
        /// Show at most this many places for each URL
        #[arg(long, default_value_t = 10, value_name = "N", value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
        limit: usize,
    },
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike changes
  lookalike changes --by host --svg changes.svg
  lookalike changes --by sweep --format csv > changes.csv")]
pub struct ChangesArgs {
    /// Add a row for each host or each sweep
    #[arg(long, value_enum)]
    pub by: Option<ChangesBy>,
    /// How to answer; --json is short for json [default: table]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<AnswerFormat>,
    /// Draw a chart into this file as well
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ChangesBy {
    Host,
    Sweep,
}

impl From<ChangesBy> for By {
    fn from(by: ChangesBy) -> Self {
        match by {
            ChangesBy::Host => By::Host,
            ChangesBy::Sweep => By::Sweep,
        }
    }
}

#[derive(Debug, Subcommand)]
pub enum SweepCommand {
    /// List every sweep: when it began and ended, how many pages it saw, whether it is closed
    #[command(after_long_help = "\
Examples:
  lookalike sweep list")]
    List,
    /// Mark as lost the URLs that a finished sweep should have seen and did not
    ///
    /// These are the URLs, on hosts that the sweep visited, that were alive before it began and were not seen until it ended.
    /// It writes marks and events as `run` does, which must not be running over the store.
    #[command(after_long_help = "\
Examples:
  lookalike sweep close 2026-11
  lookalike sweep close 2026-11 --events events.jsonl

Exit codes:
  0    closed; closing a sweep again marks only what late pages have shown since
  1    failed; the same command goes on
  2    wrong usage or configuration
  4    no page names this sweep")]
    Close {
        /// The sweep's name
        name: String,
        /// Append events to this file; `-` is standard output
        #[arg(long, value_name = "FILE")]
        events: Option<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum ExportCommand {
    /// Write a row for each link that joined two clusters
    ///
    /// The columns are the later document, the earlier one (`to`), their resemblance, how much of the smaller is in the
    /// other (`containment`), and where both were first seen (`url`, `to_url`). With --columns also words and bytes of
    /// the later document, and to_words and to_bytes of the earlier one.
    #[command(after_long_help = "\
Examples:
  lookalike export links --out links.csv
  lookalike export links --out links.parquet")]
    Links(ExportArgs),
    /// Write a row for each URL: what stands there now, by the time of fetching
    ///
    /// The columns are url, fetched_at, sweep, document, cluster and state (page, gone, redirect, lost). With --columns
    /// also words, bytes and representative, as for clusters.
    #[command(after_long_help = "\
Examples:
  lookalike export present --json --out present.jsonl")]
    Present(ExportArgs),
    /// Write a row for each sighting
    ///
    /// The columns are url, fetched_at, sweep, document and cluster. With --columns also the document's words, the bytes
    /// of the page that first had its text, and representative: whether the cluster has its name from this document, which
    /// is so for one document of each cluster.
    ///
    /// With --events, a row for each page of these events instead, in their order, with the cluster that it has now; then
    /// also where the record came from: source (a file, or a topic), partition and offset.
    #[command(after_long_help = "\
Examples:
  lookalike export clusters --columns url,cluster,words,representative --out clusters.parquet
  lookalike export clusters --events events.jsonl --out clusters.parquet
  lookalike export clusters | sort -t, -k5 > by-cluster.csv")]
    Clusters(ExportClustersArgs),
    /// Write a row for each URL whose page is gone, lost or redirected: where its content stands now
    ///
    /// The columns are url, state (gone, lost, redirect), fetched_at and sweep of that, the last copy (document, last_seen),
    /// and the best place that `query lost` finds: to, to_document, to_last_seen, resemblance, evidence (same, direct, chain,
    /// cluster, redirect) and score. Without a place these are empty.
    #[command(after_long_help = "\
Examples:
  lookalike export moves --out moves.csv
  lookalike export moves --columns url,to --out redirects.csv")]
    Moves(ExportArgs),
    /// Write a row for each event of events files
    ///
    /// The columns are the fields of all types of events (docs/reference/events.md); a field that a type does not have is
    /// empty. No store is read.
    #[command(after_long_help = "\
Examples:
  lookalike export events events.jsonl --out events.parquet
  lookalike export events events.jsonl --columns type,url,cluster --out events.csv")]
    Events(ExportEventsArgs),
    /// Write a row for each pair of related pages that `related build --clusters` found, at most ten for each URL
    ///
    /// The columns are url, related and similarity; the most similar come first.
    #[command(after_long_help = "\
Examples:
  lookalike export related --out related.csv")]
    Related(ExportArgs),
    /// Write a row for each URL in a cluster of related pages that `related build --clusters` found
    ///
    /// The columns are url and center, which names the cluster.
    #[command(after_long_help = "\
Examples:
  lookalike export centers --json --out centers.jsonl")]
    Centers(ExportArgs),
    /// Write a row for each file, and each partition of a topic, that pages were read from: where reading goes on
    ///
    /// The columns are source (the path of a file, or the name of a topic), partition (0 for a file) and next_offset: how
    /// many records of the file are taken in, or the offset of the partition's next record. A backup has its own.
    #[command(after_long_help = "\
Examples:
  lookalike export positions
  lookalike export positions --store backups/2026-11-23 --json")]
    Positions(ExportArgs),
    /// Write a row for each pair of clusters, of an older store and of this one, that share a URL
    ///
    /// Only URLs where a page stands now count. The columns are old_cluster, new_cluster, n_shared (URLs of both), n_old and
    /// n_new (URLs of each), and kind: same, where neither shares a URL with another cluster; split, where the old one is
    /// in several; merged, where the new one has several; mixed, where both; old-only and new-only for URLs where one store
    /// alone has a page. The rows are in the order of the old clusters.
    #[command(after_long_help = "\
Examples:
  lookalike export mapping --from crawl.store --store crawl-2.store --out mapping.csv
  lookalike export mapping --from crawl.store --store crawl-2.store --out mapping.parquet")]
    Mapping(ExportMappingArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike report --out report.html
  lookalike report --host www.example.com --limit 200 --out example.html

Exit codes:
  0    written
  1    failed; the message says why and what to do
  2    wrong usage or configuration
  4    the store has no URL of the host; nothing was written")]
pub struct ReportArgs {
    /// Write the page to this file; it has the name only when it is whole
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
    /// Report on the URLs of this host alone
    #[arg(long, value_name = "HOST")]
    pub host: Option<String>,
    /// Show this many rows of each list
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
}

#[derive(Debug, Args)]
pub struct ExportEventsArgs {
    /// Events files, compressed or not
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub export: ExportArgs,
}

#[derive(Debug, Args)]
pub struct ExportMappingArgs {
    /// The older store
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// Memory for sorting, beside 12 bytes a document [default: a third of the machine's]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
    #[command(flatten)]
    pub export: ExportArgs,
}

#[derive(Debug, Args)]
pub struct ExportClustersArgs {
    /// Say of each page where its record came from, by the events files of this store, compressed or not
    #[arg(long, value_name = "FILE")]
    pub events: Vec<PathBuf>,
    #[command(flatten)]
    pub export: ExportArgs,
}

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Write to this file, or the object of this URL, instead of standard output; it has the name only when it is whole
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// How to write; --json is short for jsonl [default: what the file's name ends in: .csv, .jsonl, .parquet; or csv]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<TableFormat>,
    /// Write these columns, in this order
    #[arg(long, value_delimiter = ',', value_name = "COLUMN,…")]
    pub columns: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike recluster --threshold 0.8 --out clusters.csv
  lookalike recluster --threshold 0.5 --containment 0.9 --policy center --out clusters.csv
  lookalike recluster --threshold 0.5 --policy greedy --representative popular --out clusters.csv
  lookalike recluster --threshold 0.8 --out clusters.csv --apply

Exit codes:
  0    done
  1    failed; the store is unchanged
  2    wrong usage or configuration
  130  stopped by SIGTERM or SIGINT; nothing was written")]
pub struct ReclusterArgs {
    /// Link documents of this resemblance or more; over 0, at most 1
    #[arg(long, value_name = "R")]
    pub threshold: f64,
    /// Link documents, too, of which one contains the other to this share or more; over 0, at most 1
    #[arg(long, value_name = "C")]
    pub containment: Option<f64>,
    /// How links make clusters
    ///
    /// components: whatever is linked, however long the chain. star: a document with most links and its neighbours.
    /// center: CENTER of Haveliwala, Gionis and Indyk (2000): in the order of the documents, each that is in no cluster
    /// and its neighbours that are in none. center-by-resemblance: the same around the closest pairs first. greedy:
    /// Broder's (1997): in the order of the documents, each joins the cluster whose representative it resembles most.
    #[arg(long, default_value = "components", value_name = "POLICY")]
    pub policy: ReclusterPolicy,
    /// What stands for a cluster of the policy greedy: its first document, or the most popular shingles of its first 64
    /// members, counted again whenever one joins [default: first]
    #[arg(long, value_name = "first|popular")]
    pub representative: Option<Representative>,
    /// Write a row for each sighting here, as `export clusters` does
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
    /// How to write the rows; --json is short for jsonl [default: what the file's name ends in: .csv, .jsonl, .parquet; or
    /// csv]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<TableFormat>,
    /// Replace the store's clusters by these in one step, and leave the events of the difference to the next `run`.
    /// Later pages join them by the rule the store was created with
    #[arg(long)]
    pub apply: bool,
    /// Memory for the pairs [default: a third of the machine's]; the rest goes through files beside FILE
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
}

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A file, or a URL in the store; with --passages also a document's number
    pub a: String,
    /// A file, or a URL in the store; with --passages also a document's number
    pub b: String,
    /// Show which passages both have, word for word, and the exact shares
    #[arg(long)]
    pub passages: bool,
    /// The version of A that this sweep saw
    #[arg(long, value_name = "SWEEP", requires = "passages")]
    pub a_sweep: Option<String>,
    /// The version of B that this sweep saw
    #[arg(long, value_name = "SWEEP", requires = "passages")]
    pub b_sweep: Option<String>,
    /// Files with the pages' records, where the store keeps no texts [default: the files it took its pages from, as far as
    /// they are still there]
    #[arg(long, value_name = "INPUT", num_args = 1.., requires = "passages")]
    pub from: Vec<PathBuf>,
}
