//! The command line's words: commands, flags and their help.

mod cluster;
mod dedup;
mod follow;
mod forget;
mod ingest;
mod kafka;
mod migrate;
mod query;
mod related;

pub use cluster::ClusterArgs;
pub use dedup::{CorpusFormat, DedupArgs};
pub use follow::FollowArgs;
pub use forget::ForgetArgs;
pub use ingest::{BackfillArgs, Role, RunArgs, ServeArgs, SketchArgs};
pub use kafka::{DlqCommand, ReplayArgs, Republished, TopicArgs, TopicsCommand};
pub use migrate::MigrateArgs;
pub use query::{
    ChangesArgs, CompareArgs, ExportArgs, ExportClustersArgs, ExportCommand, ExportEventsArgs, ExportMappingArgs,
    Question, ReclusterArgs, ReportArgs, SweepCommand,
};
pub use related::{BuildArgs, EvaluateArgs, RelatedCommand, SampleArgs, TableArgs};

use super::answer_table::AnswerFormat;
use clap::{Args as ClapArgs, Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;

/// Near-duplicate detection for web crawls: which pages are copies, versions and moves of each other.
#[derive(Debug, Parser)]
#[command(
    name = "lookalike",
    version = env!("LOOKALIKE_VERSION"),
    max_term_width = 100,
    after_long_help = "\
Examples:
  lookalike run pages.jsonl                          take pages in, into ./lookalike.store
  lookalike query lost https://example.com/old       where the content of that URL stands now
  lookalike query similar page.html                  the documents most like a file
  lookalike stats                                    what the store holds

Every key of the configuration can be set in the environment: LOOKALIKE__SKETCH__W=8 sets sketch.w.
NO_COLOR turns colours off."
)]
pub struct Args {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, ClapArgs)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Read settings from this TOML file; repeat the flag for more files, later ones win
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// Use the store in this folder [default: lookalike.store]
    #[arg(long, global = true, value_name = "DIR")]
    pub store: Option<PathBuf>,
    /// Answer in JSON: one object, or one a line for rows; an error is one JSON object on standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// Print no progress, notes or summary; answers, warnings and errors stay
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print progress also with --json or --quiet
    #[arg(long, global = true)]
    pub progress: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take pages in, from files, standard input or Kafka
    ///
    /// Run again over the same inputs, it goes on where it stopped. Of a file that has grown, it takes what is new.
    Run(RunArgs),
    /// Keep a second store in step with the one that `run` writes to, check every event, and take over when `run` dies
    ///
    /// Reads the topic of events, takes the same pages in the same order, and compares every byte of what it would publish
    /// with what is published. It publishes nothing until it takes over, and then goes on as `run` does. The store is empty,
    /// with the owner's store.seed, or a backup of the owner's store; it gets the id of that store.
    Follow(FollowArgs),
    /// Take whole files in at once, into a new store that `run` goes on from
    ///
    /// A backfill sorts and merges, as the paper does, and is much faster than `run` for a first crawl. Unfinished work
    /// lies in STORE.backfill: the same command goes on from the last finished piece, whatever ended it.
    Backfill(BackfillArgs),
    /// Write a corpus with one page for each cluster of copies and near-copies, and the list of those that go
    ///
    /// Reads the inputs twice. Kept records keep their bytes, their order and their files: for each input there is an output
    /// of the same name, format and compression in DIR. Killed or out of disk, the same command goes on, and ends with the
    /// same bytes. Without --store, nothing but DIR is left; with it, the pages are held against all that the store has
    /// seen, and added to it.
    Dedup(DedupArgs),
    /// Write a table of whole files: the cluster of every record, and whether it is the page that stays; needs no store
    ///
    /// The clusters and the pages that stay are those of `dedup`. Unfinished work lies in FILE.cluster: the same command
    /// goes on from the last finished piece, whatever ended it.
    Cluster(ClusterArgs),
    /// Print the sketches of pages, or what the sketch rule costs and how sure it is; needs no store
    ///
    /// Without --store, the configuration gives the rule and store.seed the seed. An empty store.seed stands for 64 zeros
    /// here, so that sketches can be reproduced. With --store, both come from that store. The first sketch.index_size of
    /// the printed index shingles that are not common index the page.
    Sketch(SketchArgs),
    /// Cluster the store's sketches by another rule; the store stays as it is without --apply
    Recluster(ReclusterArgs),
    /// Make a new store by another rule from what the store keeps, while the store goes on
    ///
    /// The configuration gives the new rule. The texts that the store keeps (store.keep_text) are sketched by it; sightings,
    /// sweeps and the positions in all sources are taken over, so that `run` on the new store goes on where the old one stood.
    /// The old store stays as it is. Unfinished work lies in DIR.backfill: the same command goes on from the last finished
    /// piece, whatever ended it.
    Migrate(MigrateArgs),
    /// Ask the store: the history of a URL, clusters, similar documents, lost pages
    #[command(after_long_help = "\
Examples:
  lookalike query url https://example.com/
  lookalike query lost https://example.com/old --limit 3
  lookalike --json query cluster 17
  lookalike query cluster 17 --format csv > cluster.csv

Exit codes:
  0    answered
  1    failed; the message says why and what to do
  2    wrong usage or configuration
  4    the store does not know the URL or the cluster")]
    Query {
        /// How to answer; --json is short for json [default: table]
        #[arg(long, value_enum, global = true, value_name = "FORMAT")]
        format: Option<AnswerFormat>,
        #[command(subcommand)]
        question: Question,
    },
    /// Write a report on a site or a crawl: one page of HTML that needs nothing else
    ///
    /// It shows duplicates by host and section, the largest clusters with a URL that could stand for each, where pages have
    /// gone, what is lost, suspicious clusters, and how pages change. Good on paper, too.
    Report(ReportArgs),
    /// Find clusters that look as if a template or a chain had made them, and what would take them apart
    ///
    /// A cluster is suspicious if a quarter of its pages have another name than the most frequent one (the name is the last
    /// part of the path of a URL, without its ending), or if half of its documents do not resemble the one in the
    /// middle. The clusters with most pages of other names come first. Of a large cluster 400 documents are compared.
    #[command(after_long_help = "\
Examples:
  lookalike audit
  lookalike audit --min-documents 3 --limit 100 --format csv > suspicious.csv

Exit codes:
  0    answered, also where no cluster is suspicious
  1    failed; the message says why and what to do
  2    wrong usage or configuration")]
    Audit {
        /// How to answer; --json is short for json [default: table]
        #[arg(long, value_enum, value_name = "FORMAT")]
        format: Option<AnswerFormat>,
        /// Look at clusters of this many documents or more
        #[arg(long, value_name = "N", default_value_t = 10)]
        min_documents: usize,
        /// Print this many at most
        #[arg(long, value_name = "N", default_value_t = 20)]
        limit: usize,
    },
    /// Explain why two pages are in one cluster: the chain of links between them, and its weakest link
    ///
    /// The links of a cluster form a tree, so there is one chain. Without its weakest link the two would be in two
    /// clusters.
    #[command(after_long_help = "\
Examples:
  lookalike explain https://example.com/old https://example.com/new
  lookalike explain 17 42 --json

Exit codes:
  0    answered, also for pages of two clusters
  1    failed; the message says why and what to do
  2    wrong usage or configuration
  4    the store does not know a URL or a document")]
    Explain {
        /// How to answer; --json is short for json. CSV has the links only [default: table]
        #[arg(long, value_enum, value_name = "FORMAT")]
        format: Option<AnswerFormat>,
        /// A document's number, or a URL in the store
        #[arg(value_name = "ID|URL")]
        a: String,
        /// Another document's number or URL
        #[arg(value_name = "ID|URL")]
        b: String,
    },
    /// Count documents, sightings and clusters, as in section 5 of the paper
    #[command(after_long_help = "\
Examples:
  lookalike stats
  lookalike stats --json | jq .clusters")]
    Stats,
    /// Check that the store is sound: compare every family of rows with the others
    ///
    /// Reads what is durable when it starts, also while `run` writes. Reads every row once and takes up to 44 bytes of
    /// memory a document. Prints a line for each finding: family, key, what is wrong. Where nothing happened since the
    /// last `related build`, makes the bags of related pages again and compares them, in a folder beside the store.
    #[command(after_long_help = "\
Examples:
  lookalike verify
  lookalike verify --store copy.store --limit 10

Exit codes:
  0    sound
  1    the store cannot be opened
  2    wrong usage or configuration
  5    not sound: restore a copy, or make a new store from the pages")]
    Verify {
        /// Print at most this many findings; the count includes all
        #[arg(long, default_value_t = 100, value_name = "N")]
        limit: usize,
    },
    /// Copy the store as it is at one moment, also while another process writes to it
    ///
    /// DIR is a store itself: any command can read it. On the same file system it shares the store's tables by links and takes
    /// a moment; elsewhere it is a copy. It appears when it is whole.
    #[command(after_long_help = "\
Examples:
  lookalike backup backups/2026-11-23
  lookalike verify --store backups/2026-11-23

Exit codes:
  0    the backup is whole and durable
  1    failed; the message says why and what to do
  2    wrong usage or configuration, there is no store, or DIR is there already")]
    Backup {
        /// The folder to make
        #[arg(value_name = "DIR")]
        to: PathBuf,
    },
    /// Check a backup and copy it to where the store was
    #[command(after_long_help = "\
Examples:
  lookalike restore backups/2026-11-23 --store lookalike.store

Exit codes:
  0    the store is there, and sound
  1    failed; the message says why and what to do
  2    wrong usage or configuration, or the store is there already
  5    the backup is not sound; nothing was restored")]
    Restore {
        /// The backup, which stays as it is
        #[arg(value_name = "DIR")]
        backup: PathBuf,
    },
    /// Forget URLs, hosts, or what is old: sightings, and the documents that no sighting is left of
    ///
    /// Nothing else may write to the store. The next `run` publishes an event for each URL, and how clusters come apart.
    #[command(after_long_help = "\
Examples:
  lookalike forget https://a.example/private --store crawl.store
  lookalike forget --host www.a.example --dry-run
  lookalike forget --urls-from takedown.txt
  lookalike forget --before 2020-01-01

Exit codes:
  0    all that is selected is forgotten, or nothing is
  1    failed, or there is no store; the message says why and what to do
  2    wrong usage or configuration; nothing was changed
  4    the store has none of the URLs and hosts that are named, or no such sweep
  130  stopped by SIGTERM or SIGINT; the same command goes on")]
    Forget(ForgetArgs),
    /// Rewrite the store's files without what is deleted
    ///
    /// Nothing else may write to the store. It takes as long as reading and writing the store, and for that time as much
    /// space again as its largest part.
    #[command(after_long_help = "\
Examples:
  lookalike compact --store crawl.store

Exit codes:
  0  the files hold nothing but what the store holds
  1  failed, or there is no store; the message says why and what to do
  2  wrong usage or configuration")]
    Compact,
    /// Answer the same questions over HTTP, in JSON and on a page, beside the process that writes to the store
    ///
    /// Serves read-only, until SIGTERM or SIGINT. The default address is reachable from this machine alone.
    Serve(ServeArgs),
    /// Show how pages change: how often, how much, where they move, how long they live
    Changes(ChangesArgs),
    /// List the crawler's sweeps, or close one: what it missed is lost
    #[command(after_long_help = "\
Examples:
  lookalike sweep list
  lookalike sweep close 2026-11 --events events.jsonl")]
    Sweep {
        #[command(subcommand)]
        what: SweepCommand,
    },
    /// Find pages about the same things, by their words and by what links to them say
    #[command(after_long_help = "\
Examples:
  lookalike related build
  lookalike related build crawls/ --out related
  lookalike related table related/
  lookalike related sample related/")]
    Related {
        #[command(subcommand)]
        what: RelatedCommand,
    },
    /// Write out what the store holds, as CSV, JSON lines or Parquet
    #[command(after_long_help = "\
Examples:
  lookalike export clusters --out clusters.csv
  lookalike export clusters --out clusters.parquet
  lookalike export present --json | head")]
    Export {
        #[command(subcommand)]
        what: ExportCommand,
    },
    /// Create and refill the topics that Kafka input and output need
    #[command(after_long_help = "\
Examples:
  lookalike topics create --config kafka.toml --partitions 8
  lookalike topics republish assignments --config kafka.toml")]
    Topics {
        #[command(subcommand)]
        what: TopicsCommand,
    },
    /// Replay rejected messages from the topic of dead letters
    #[command(after_long_help = "\
Examples:
  lookalike dlq replay --config kafka.toml --dry-run")]
    Dlq {
        #[command(subcommand)]
        what: DlqCommand,
    },
    /// Show or check the configuration
    #[command(after_long_help = "\
Examples:
  lookalike config show > lookalike.toml
  lookalike config validate --config lookalike.toml")]
    Config {
        #[command(subcommand)]
        what: ConfigCommand,
    },
    /// Print a completion script for a shell
    #[command(after_long_help = "\
Examples:
  lookalike completions bash > ~/.local/share/bash-completion/completions/lookalike
  lookalike completions zsh > \"${fpath[1]}/_lookalike\"
  lookalike completions fish > ~/.config/fish/completions/lookalike.fish")]
    Completions {
        /// The shell
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page, or write one for every command into a folder
    #[command(after_long_help = "\
Examples:
  lookalike man | man -l -
  lookalike man ~/.local/share/man/man1")]
    Man {
        /// Write lookalike.1 and one page for each command here; the folder is created
        #[arg(value_name = "DIR")]
        folder: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the configuration that the defaults, the files and the environment give
    #[command(after_long_help = "\
Examples:
  lookalike config show
  lookalike config show --config config/kafka.toml --json")]
    Show,
    /// Check the configuration
    #[command(after_long_help = "\
Examples:
  lookalike config validate --config lookalike.toml

Exit codes:
  0    the configuration is valid
  2    it is not; the message names the key")]
    Validate,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_command_shows_examples() {
        fn check(command: &clap::Command) {
            let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Examples:\n  lookalike "), "`{}` shows no example", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Args::command());
    }
}
