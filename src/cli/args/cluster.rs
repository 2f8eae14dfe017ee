//! The words of `cluster`.

use super::super::table::TableFormat;
use super::ingest::{FILES_HELP, PageDefaults};
use crate::dedup::Keep;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike cluster crawl-2026/ --out clusters.parquet
  lookalike cluster pages.jsonl.zst --out clusters.csv --keep newest --threshold 0.8
  lookalike cluster 'fineweb/*.parquet' --out clusters.parquet --map url=id

Exit codes:
  0    every input was read, and the table is complete
  1    failed; the message says why and what to do
  2    wrong usage or configuration, an input does not exist, or FILE.cluster was begun with other inputs or options;
       nothing was changed
  3    some input could not be read, the table has the rest; or no record was accepted
  130  stopped by SIGTERM or SIGINT; the same command goes on")]
pub struct ClusterArgs {
    #[arg(help = FILES_HELP, value_name = "INPUT", required = true)]
    pub inputs: Vec<PathBuf>,
    /// Write the table to this file, or the object of this URL
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
    /// How to write it [default: parquet where FILE ends in .parquet, jsonl where it ends in .jsonl, csv otherwise]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub format: Option<TableFormat>,
    /// Write these columns instead of all: source, record, url, fetched_at, document, words, cluster, keep, kind, resemblance,
    /// reason, message
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub columns: Vec<String>,
    /// Which page of a cluster stays: longest (most words), newest (fetched last), first (in the order of the inputs), or the
    /// one with the highest value in a column (its name, or a JSON pointer); among equals the first
    #[arg(long, value_name = "longest|newest|first|COLUMN", default_value_t = Keep::Longest)]
    pub keep: Keep,
    /// Pages of this resemblance or more are linked; over 0, at most 1 [default: cluster.threshold]
    #[arg(long, value_name = "R")]
    pub threshold: Option<f64>,
    /// Memory for everything that grows with the input [default: a third of the machine's]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
    #[command(flatten)]
    pub page_defaults: PageDefaults,
}
