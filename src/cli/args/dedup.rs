//! The words of `dedup`.

use super::ingest::{FILES_HELP, PageDefaults};
use crate::dedup::Keep;
use crate::document::PageContent;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// What kept records are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CorpusFormat {
    /// As they came: the same bytes, in the format and compression of their input; of Parquet, the same rows and columns
    Same,
    /// JSON lines with url, fetched_at, sweep and the text that a reader sees, in the compression of their input
    Jsonl,
    /// The same columns as Parquet
    Parquet,
}

/// Which text of a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TextContent {
    /// Every word that a reader sees, and the title
    All,
    /// The page's own content, without menus, headers, footers and the like; see canonical.content
    Main,
}

impl From<TextContent> for PageContent {
    fn from(text: TextContent) -> Self {
        match text {
            TextContent::All => PageContent::All,
            TextContent::Main => PageContent::Main,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike dedup crawl-2026/ --out clean/
  lookalike dedup 'crawl-*.warc.gz' --out clean/ --removed removed.csv
  lookalike dedup pages.jsonl.zst --out clean/ --keep newest --threshold 0.8
  lookalike dedup 'crawl-*.warc.gz' --out text/ --format jsonl --text main
  lookalike dedup monday/ --out clean/monday --store corpus.store
  lookalike dedup tuesday/ --out clean/tuesday --store corpus.store

Exit codes:
  0    every input was read, and the corpus is complete
  1    failed; the message says why and what to do
  2    wrong usage or configuration, an input does not exist, DIR holds something else, or was begun with other inputs
       or options; nothing was changed
  3    some input could not be read, the corpus holds the rest; or no record was accepted
  130  stopped by SIGTERM or SIGINT; the same command goes on")]
pub struct DedupArgs {
    #[arg(help = FILES_HELP, value_name = "INPUT", required = true)]
    pub inputs: Vec<PathBuf>,
    /// Write the corpus into this folder, which is created or empty
    #[arg(long, short, value_name = "DIR")]
    pub out: PathBuf,
    /// Which page of a cluster stays: longest (most words), newest (fetched last), first (in the order of the inputs), or the
    /// one with the highest value in a column (its name, or a JSON pointer); among equals the first
    #[arg(long, value_name = "longest|newest|first|COLUMN", default_value_t = Keep::Longest)]
    pub keep: Keep,
    /// Pages of this resemblance or more are near-copies; over 0, at most 1 [default: cluster.threshold, or the store's]
    #[arg(long, value_name = "R")]
    pub threshold: Option<f64>,
    /// So are pages of which one contains the other to this share or more; over 0, at most 1
    #[arg(long, value_name = "C")]
    pub containment: Option<f64>,
    /// List every record that is not in the corpus here, with the reason and the page that stays: CSV where the name ends
    /// in .csv; JSON lines where it ends in .jsonl or .ndjson, or has no ending
    #[arg(long, value_name = "FILE")]
    pub removed: Option<PathBuf>,
    /// What kept records are written as [default: same; jsonl for ARC and WACZ, which cannot be the same]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<CorpusFormat>,
    /// The text of an HTML page, where --format or an ARC or WACZ file has text written: every word that a reader sees, or
    /// the page's own content alone [default: all]
    #[arg(long, value_enum, value_name = "CONTENT")]
    pub text: Option<TextContent>,
    /// Memory for everything that grows with the input [default: a third of the machine's]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
    #[command(flatten)]
    pub page_defaults: PageDefaults,
}
