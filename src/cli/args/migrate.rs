//! The words of `migrate`.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike migrate --store crawl.store --to crawl-2.store --config new-rule.toml
  lookalike migrate --to crawl-2.store --config new-rule.toml --missing missing.jsonl
  lookalike export mapping --from crawl.store --store crawl-2.store --out mapping.csv

Exit codes:
  0    the new store is whole, and holds every sighting of the old one
  1    failed; the message says why and what to do
  2    wrong usage or configuration, the old store keeps no texts, or the new one exists already; nothing was changed
  3    some texts are not kept; the new store is whole but for their sightings, and --missing lists them
  130  stopped by SIGTERM or SIGINT; the same command goes on")]
pub struct MigrateArgs {
    /// The new store, which must not exist yet; best on the file system of the old one
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Write a line of JSON for each sighting that the new store lacks: url, fetched_at, sweep, reason and message
    #[arg(long, value_name = "FILE")]
    pub missing: Option<PathBuf>,
    /// Memory for everything that grows with the store [default: a third of the machine's]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
}
