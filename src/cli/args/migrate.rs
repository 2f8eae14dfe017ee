//! The words of `migrate`.

use super::ingest::PageDefaults;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike migrate --store crawl.store --to crawl-2.store --config new-rule.toml
  lookalike migrate --to crawl-2.store --config new-rule.toml --missing missing.jsonl
  lookalike migrate --to crawl-2.store --config new-rule.toml --reread
  lookalike migrate --to crawl-2.store --config new-rule.toml archive/*.warc.gz
  lookalike export mapping --from crawl.store --store crawl-2.store --out mapping.csv

Exit codes:
  0    the new store is whole, and holds every sighting of the old one
  1    failed; the message says why and what to do
  2    wrong usage or configuration, there are neither texts nor inputs, or the new store exists already; nothing was
       changed
  3    some pages are neither in the inputs nor kept as texts, or an input cannot be read; the new store is whole but for
       the sightings that --missing lists
  130  stopped by SIGTERM or SIGINT; the same command goes on")]
pub struct MigrateArgs {
    /// The new store, which must not exist yet; best on the file system of the old one
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    #[arg(
        help = "Files with the old store's pages, which are read again; a page that they lack follows from its kept text. As for `backfill`",
        value_name = "INPUT"
    )]
    pub inputs: Vec<PathBuf>,
    /// Read the files again that the old store took its pages from, as far as they are still there
    #[arg(long, conflicts_with = "inputs")]
    pub reread: bool,
    #[command(flatten)]
    pub page_defaults: PageDefaults,
    /// Write a line of JSON for each sighting that the new store lacks: url, fetched_at, sweep, reason and message
    #[arg(long, value_name = "FILE")]
    pub missing: Option<PathBuf>,
    /// Memory for everything that grows with the store [default: a third of the machine's]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
}
