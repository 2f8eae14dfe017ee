//! The words of `lookalike related`.

use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum RelatedCommand {
    /// Make the bags of all URLs anew, from everything that the store's pages say
    ///
    /// With files it first reads what their pages say, for documents that the store holds and has nothing kept of: so a
    /// store made without `related.on`, or by `backfill`, can be asked as well. `run` must not be running over the store.
    #[command(after_long_help = "\
Examples:
  lookalike related build
  lookalike related build crawl/*.warc.gz

Exit codes:
  0    done
  1    failed; the next build repairs it
  2    wrong usage or configuration
  3    some input could not be read; the rest is done
  130  stopped by SIGTERM or SIGINT; the last build stays")]
    Build(RelatedBuildArgs),
}

#[derive(Debug, Args)]
pub struct RelatedBuildArgs {
    /// Files whose pages are in the store
    #[arg(value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// Use about this much memory [default: a third of the machine's]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
}
