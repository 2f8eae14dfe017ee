//! The words of the commands about related pages.

use super::ingest::{INPUTS_HELP, PageDefaults};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub enum RelatedCommand {
    /// Find the related pages of whole files at once, or make what `query related` answers from in a store
    ///
    /// Without --out it works on the store, over which `run` must not be running: it makes the bags of all URLs anew, from
    /// everything that the store's pages say. With inputs it first reads what their pages say, for documents that the store
    /// holds and has nothing kept of, so that a store made without related.on, or by `backfill`, can be asked as well.
    ///
    /// With --out it needs no store, and finds the neighbours of every URL in the inputs and clusters of them.
    /// Writes into the folder DIR: neighbours.csv (url, related, similarity: the most similar first), centers.csv (url,
    /// center: the clusters), and in `data` what the other commands read. Pages describe themselves and what they link to,
    /// so that URLs count that are no pages of the input. Of several pages of a URL the newest counts. Unfinished work
    /// stays in DIR: the same command goes on from the last finished piece, whatever ended it; reading starts over.
    Build(BuildArgs),
    /// Show what a build took, beside Table 1 of the paper
    #[command(after_long_help = "\
Examples:
  lookalike related table related/
  lookalike related table related/ --json")]
    Table(TableArgs),
    /// Show some URLs near the roots of their sites, with their nearest neighbours
    ///
    /// These are URLs with the fewest segments in their paths that have neighbours, evenly spread, the same ones every
    /// time.
    #[command(after_long_help = "\
Examples:
  lookalike related sample related/
  lookalike related sample related/ --limit 5 --json")]
    Sample(SampleArgs),
    /// Score a build by classes that people made: whether URLs of one class are neighbours
    #[command(after_long_help = "\
Examples:
  lookalike related evaluate related/ --classes classes.csv
  lookalike related evaluate related/ --classes classes.csv --queries queries.txt --depth 3

P@10       of the first ten neighbours that have a class, those of the URL's own, by ten
sibling-D  how much more often a URL of the same class is more similar than one of another class: 1 always, 0 as often
gamma      the same for all URLs by how near their classes are, without ties
coverage   URLs that have a neighbour
Each is the mean over the URLs for which it is defined.")]
    Evaluate(EvaluateArgs),
}

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike related build
  lookalike related build --clusters
  lookalike related build crawl/*.warc.gz
  lookalike related build crawls/ --out related
  lookalike related build pages.jsonl --out related --config config/paper-2000.toml

Exit codes:
  0    every input was read
  1    failed; the message says why and what to do
  2    wrong usage or configuration, an input does not exist, DIR holds a finished build, or the inputs are not those that
       the unfinished build began with; nothing was changed
  3    some input could not be read, the rest is taken in; or no record was accepted
  130  stopped by SIGTERM or SIGINT; the same command goes on")]
pub struct BuildArgs {
    #[arg(help = INPUTS_HELP, value_name = "INPUT")]
    pub inputs: Vec<PathBuf>,
    /// Write neighbours and clusters into this folder, and use no store; with --json, JSON lines instead of CSV
    #[arg(long, short, value_name = "DIR", requires = "inputs")]
    pub out: Option<PathBuf>,
    /// Write bags.jsonl, too: each URL with the words in its bag and their weights; of a stem, its first word in the alphabet
    #[arg(long, requires = "out")]
    pub bags: bool,
    /// Write at most this many neighbours of each URL into neighbours.csv, the most similar; 0: all
    #[arg(long, default_value_t = 0, requires = "out", value_name = "N")]
    pub nearest: usize,
    /// Also find the neighbours of every URL and clusters of them, for `export related`, `export centers` and
    /// `query related --cluster`; with --out they are always found
    #[arg(long, conflicts_with = "out")]
    pub clusters: bool,
    /// Memory for everything that grows with the input [default: a third of the machine's]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
    #[command(flatten)]
    pub page_defaults: PageDefaults,
}

#[derive(Debug, Args)]
pub struct TableArgs {
    /// The folder of a finished build
    #[arg(value_name = "DIR")]
    pub build: PathBuf,
}

#[derive(Debug, Args)]
pub struct SampleArgs {
    /// The folder of a finished build
    #[arg(value_name = "DIR")]
    pub build: PathBuf,
    /// Show this many URLs
    #[arg(long, alias = "n", default_value_t = 20, value_name = "N")]
    pub limit: usize,
}

#[derive(Debug, Args)]
pub struct EvaluateArgs {
    /// The folder of a finished build
    #[arg(value_name = "DIR")]
    pub build: PathBuf,
    /// A CSV file with the columns url and class; classes are paths such as sql/ddl
    #[arg(long, value_name = "FILE")]
    pub classes: PathBuf,
    /// Score these URLs only, one a line [default: all that have a class]
    #[arg(long, value_name = "FILE")]
    pub queries: Option<PathBuf>,
    /// Levels of the classes that count
    #[arg(long, default_value_t = 2, value_name = "LEVELS")]
    pub depth: usize,
}
