//! The command line's words.

use crate::backfill::Policy;
use crate::document::FetchTime;
use crate::kafka::TopicPosition;
use crate::query::By;
use crate::wire::Reason;
use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Near-duplicate detection for web crawls: which pages are copies, versions and moves of each other.
#[derive(Debug, Parser)]
#[command(name = "lookalike", version, max_term_width = 100)]
pub struct Args {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, ClapArgs)]
pub struct Global {
    /// A TOML file of settings that differ from the defaults; may be given several times, later ones win
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Vec<PathBuf>,
    /// The folder that holds the store [default: lookalike.store]
    #[arg(long, global = true, value_name = "DIR")]
    pub store: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Take pages in: from files or standard input, or from Kafka as the configuration says
    ///
    /// Run again over the same inputs it goes on where it stopped; of a file that has grown it takes what is new.
    #[command(after_help = "Exit codes: 0 all taken in; 1 failed; 2 wrong usage or configuration; 3 some input could \
                            not be read, the rest is taken in; 130 stopped by SIGTERM or SIGINT, run again to go \
                            on. Kafka: 0 stopped by SIGTERM or SIGINT; 10 records were deleted before they were read; \
                            11 the topic is another one; 12 the store is older than its output; 13 another process \
                            publishes for this store; 14 the brokers were away for too long; 15 the store is new and \
                            the group is not; 16 the brokers refuse the name or the password.")]
    Run(RunArgs),
    /// Take whole files in at once, into a new store that `run` goes on from
    ///
    /// The paper's phases, by sorting and merging: much faster than `run` for a first crawl. What is unfinished lies in
    /// DIR.backfill; run again with the same inputs it goes on from the last finished piece, whatever ended it.
    #[command(
        after_help = "Exit codes: 0 all taken in; 1 failed; 2 wrong usage or configuration, or other inputs than \
                            those it was begun with; 3 some input could not be read, the rest is taken in; 130 \
                            stopped by SIGTERM or SIGINT, run again to go on."
    )]
    Backfill(BackfillArgs),
    /// Print the sketches of pages, or what the sketch rule costs and how sure it is; needs no store
    ///
    /// The rule is the configured one, and the seed store.seed or, where that is empty, 64 zeros, so that sketches can
    /// be reproduced. With --store they are those of that store. Of the index shingles that are printed, the first
    /// sketch.index_size that are not common index the page.
    #[command(after_help = "Exit codes: 0 all read, rejected records included; 1 failed; 2 wrong usage or \
                            configuration; 3 some input could not be read, the rest is printed.")]
    Sketch(SketchArgs),
    /// Cluster anew with another rule, from the store's sketches alone; the store stays as it is unless it is told to --apply
    Recluster(ReclusterArgs),
    /// Ask the store: what stood at a URL, what belongs together, what is like a document, where a lost page is
    Query {
        #[command(subcommand)]
        question: Question,
        /// Answer in JSON
        #[arg(long, global = true)]
        json: bool,
    },
    /// Count the store: documents, sightings, clusters, as in section 5 of the paper
    Stats {
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Prove the store sound: hold every family of rows against the others, and say what is wrong where
    ///
    /// Reads what is durable when it starts, also while `run` writes. Takes up to 44 bytes of memory a document and
    /// reads every row once. A line for each finding: family, key, what is wrong.
    #[command(
        after_help = "Exit codes: 0 sound; 1 it could not be opened; 2 wrong usage or configuration; 5 not sound: \
                            restore a copy, or make a new store from the pages."
    )]
    Verify {
        /// Tell at most this many findings; all are counted
        #[arg(long, default_value_t = 100, value_name = "N")]
        limit: usize,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Answer the same questions over HTTP, in JSON and on a page, beside the process that writes to the store
    ///
    /// It can change nothing. It listens on this machine alone unless told otherwise, and ends at SIGTERM or SIGINT.
    Serve(ServeArgs),
    /// How pages change: how often, how much, where they go, how long they live
    Changes(ChangesArgs),
    /// Dated walks of the crawler: list them, or close one so that what it missed is lost
    Sweep {
        #[command(subcommand)]
        what: SweepCommand,
    },
    /// Write out what the store holds
    Export {
        #[command(subcommand)]
        what: ExportCommand,
    },
    /// Make the topics that Kafka input and output need
    Topics {
        #[command(subcommand)]
        what: TopicsCommand,
    },
    /// Rejected messages in the topic of dead letters
    Dlq {
        #[command(subcommand)]
        what: DlqCommand,
    },
    /// Show or check the configuration
    Config {
        #[command(subcommand)]
        what: ConfigCommand,
    },
}

#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    /// JSONL or WARC/WET files, plain, gzip or zstd, told apart by their content; `-` is standard input
    pub inputs: Vec<PathBuf>,
    /// Where events go: a file that is appended to, or `-` for standard output
    #[arg(long, value_name = "FILE")]
    pub events: Option<String>,
    /// The sweep of pages that name none themselves (WARC)
    #[arg(long, value_name = "NAME")]
    pub sweep: Option<String>,
    /// The time of WARC records that tell none themselves, nor any record before them in the file (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub fetched_at: Option<FetchTime>,
    /// What standard input is called: under a name, records that were read before are passed over
    #[arg(long, value_name = "NAME")]
    pub stdin_name: Option<String>,
    /// Kafka: begin with a new store, although pages were read under the same group before; the topics that events go to
    /// must be new, too
    #[arg(long)]
    pub bootstrap: bool,
    /// Kafka: go on without records that the topic no longer has; an event says exactly which they were
    #[arg(long)]
    pub accept_gap: bool,
    /// Serve metrics to Prometheus at this address, such as 127.0.0.1:9464
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_listen: Option<String>,
    /// Answer questions over HTTP at this address while running, as `serve` does
    #[arg(long, value_name = "HOST:PORT")]
    pub http_listen: Option<String>,
    /// Print the summary as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// No progress and no summary
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, ClapArgs)]
pub struct BackfillArgs {
    /// JSONL or WARC/WET files, as for `run`
    #[arg(required = true)]
    pub inputs: Vec<PathBuf>,
    /// Memory for all that grows with the input [default: a third of the machine's]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
    /// Write one event for each record, in order, with the cluster that its page has in the end
    #[arg(long, value_name = "FILE")]
    pub events: Option<String>,
    /// The sweep of pages that name none themselves (WARC)
    #[arg(long, value_name = "NAME")]
    pub sweep: Option<String>,
    /// The time of WARC records that tell none themselves, nor any record before them in the file (RFC 3339)
    #[arg(long, value_name = "TIME")]
    pub fetched_at: Option<FetchTime>,
    /// Where `run` is to begin in kafka.topic: with the first message of a time (RFC 3339) or later, or at offsets
    /// (PARTITION=OFFSET,…; partitions not named are begun at their oldest message)
    #[arg(long, value_name = "TIME|OFFSETS")]
    pub then_from_kafka: Option<String>,
    /// Print the report as JSON on standard output
    #[arg(long)]
    pub json: bool,
    /// No progress and no report
    #[arg(long, short)]
    pub quiet: bool,
}

#[derive(Debug, ClapArgs)]
pub struct ReclusterArgs {
    /// Documents of this resemblance or more are linked, over 0 and at most 1
    #[arg(long, value_name = "R")]
    pub threshold: f64,
    /// So are those of which one is in the other for this much or more
    #[arg(long, value_name = "C")]
    pub containment: Option<f64>,
    /// What links make: components; star: clusters around the documents with most links; center: around the first of the
    /// closest pairs
    #[arg(long, default_value = "components", value_name = "components|star|center")]
    pub policy: Policy,
    /// Write rows as of `export clusters` here
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Put these clusters in the place of the store's, in one step, and hand the events of the difference to the next
    /// `run`. What comes after is joined to them by the store's own rule
    #[arg(long)]
    pub apply: bool,
    /// One JSON object a line instead of CSV
    #[arg(long)]
    pub json: bool,
    /// Memory for the pairs [default: a third of the machine's]; the rest goes through files beside FILE
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
}

#[derive(Debug, ClapArgs)]
pub struct SketchArgs {
    /// JSONL or WARC/WET files, read as by `run`; `-` is standard input
    pub inputs: Vec<PathBuf>,
    /// Each input is one page, HTML or text, and not a file of pages
    #[arg(long)]
    pub page: bool,
    /// Sketch nothing; tell for documents of several sizes what is kept of them and how sure their resemblance is
    #[arg(long, conflicts_with_all = ["inputs", "page"])]
    pub explain: bool,
    /// Print no sketches; tell how long they took, reading apart
    #[arg(long, conflicts_with = "explain")]
    pub time: bool,
    /// One JSON object for each page, the sketches in full; with --explain or --time one for all
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, ClapArgs)]
pub struct ServeArgs {
    /// Where to listen [default: 127.0.0.1:8080]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Question {
    /// The history of a URL: what stood there and when
    Url { url: String },
    /// The URLs of a cluster, with their dates
    Cluster {
        /// The cluster's number, that of any document in it, or a URL that was seen
        #[arg(value_name = "ID|URL")]
        of: String,
    },
    /// Resemblance and containment of two documents
    Compare {
        /// A file, or a URL that the store knows
        a: String,
        /// A file, or a URL that the store knows
        b: String,
    },
    /// The documents of the store that are most like any document
    Similar {
        /// A file: HTML or text
        file: PathBuf,
        /// How many, at most
        #[arg(long, default_value_t = 10, value_name = "N")]
        limit: usize,
    },
    /// Group URLs, given best first, by what they carry: versions of one content come together
    Group {
        /// A file with one URL a line, or standard input
        file: Option<PathBuf>,
    },
    /// Every page that carries a text wholly or in part, by host, with its newest copy at each URL
    Carriers {
        /// A file, HTML or text, or a URL that the store knows
        #[arg(value_name = "FILE|URL")]
        of: String,
        /// The resemblance or containment, either way, from which on a page carries it
        #[arg(long, default_value_t = 0.5, value_name = "SHARE")]
        threshold: f64,
    },
    /// Where the content of a URL stands now, best first
    Lost {
        /// A URL that was seen
        #[arg(required_unless_present = "urls_from")]
        url: Option<String>,
        /// Take many URLs from a file, one a line; `-` is standard input. With --json one object a line
        #[arg(long, value_name = "FILE", conflicts_with = "url")]
        urls_from: Option<PathBuf>,
        /// How many answers a URL, at most
        #[arg(long, default_value_t = 10, value_name = "N")]
        limit: usize,
    },
}

#[derive(Debug, ClapArgs)]
pub struct ChangesArgs {
    /// A row for each of these beside that of all
    #[arg(long, value_enum)]
    pub by: Option<ChangesBy>,
    /// Answer in JSON
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Answer in CSV
    #[arg(long)]
    pub csv: bool,
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
    /// Every sweep: when it began and ended, how many pages it saw, whether it was closed
    List {
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Mark the URLs that a finished sweep should have seen and did not as lost
    ///
    /// These are the URLs, on hosts that the sweep visited, that were alive before it began and were not seen since.
    /// Their marks and events are written as those of `run`, which must not be running over the store.
    #[command(after_help = "Exit codes: 0 closed; 1 failed; 2 wrong usage or configuration; 4 there is no such sweep.")]
    Close {
        name: String,
        /// Where events go: a file that is appended to, or `-` for standard output
        #[arg(long, value_name = "FILE")]
        events: Option<String>,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum ExportCommand {
    /// One row for each link that joined two clusters: the later document, the earlier, their resemblance, how much of
    /// the smaller is in the other, and where both were first seen
    Links {
        /// Write here instead of standard output
        #[arg(long, short, value_name = "FILE")]
        out: Option<PathBuf>,
        /// One JSON object a line instead of CSV
        #[arg(long)]
        json: bool,
    },
    /// One row for each URL, what stands there now by the time of fetching: url, fetched_at, sweep, document, cluster,
    /// state (page, gone, redirect, lost)
    Present {
        /// Write here instead of standard output
        #[arg(long, short, value_name = "FILE")]
        out: Option<PathBuf>,
        /// One JSON object a line instead of CSV
        #[arg(long)]
        json: bool,
    },
    /// One row for each sighting: url, fetched_at, sweep, document, cluster
    Clusters {
        /// Write here instead of standard output
        #[arg(long, short, value_name = "FILE")]
        out: Option<PathBuf>,
        /// One JSON object a line instead of CSV
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
pub enum TopicsCommand {
    /// Make those that are not there: pages, events, assignments and merges (compacted), dead letters
    ///
    /// Each is made with its own cleanup.policy, retention, max.message.bytes and min.insync.replicas, whatever the
    /// brokers' defaults; of those that are there it says what is otherwise, and changes nothing.
    #[command(
        after_help = "Exit codes: 0 all are there and fit; 1 one could not be made, or one that was there does not \
                            fit."
    )]
    Create(TopicArgs),
    /// Write the present state of the store, or events that it still has, to topics that lack them
    ///
    /// For topics that are new, or were deleted, while the store is not: without a subcommand both assignments and
    /// merges. It publishes for the store as `run` does, which must not be running: what waits goes out first. Killed or
    /// stopped, give the command again.
    #[command(
        after_help = "Exit codes: 0 it is there; 1 failed; 2 wrong usage or configuration; 4 the store no longer has these \
                            events; 12, 13, 14 as of `run`; 130 stopped by a signal."
    )]
    Republish {
        #[command(subcommand)]
        what: Option<Republished>,
    },
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum Republished {
    /// Where every URL stands, and that nothing stands there any more
    Assignments,
    /// Every document that is part of another's cluster, under the name that its own would have
    Merges,
    /// Events from a number on, to the topic of events alone, which must not hold one of them: those that were out when
    /// the topic was lost and that the store has not forgotten, which it does as it goes on
    EventsFrom {
        /// The number of the first one
        #[arg(value_name = "SEQ")]
        seq: u64,
    },
}

#[derive(Debug, ClapArgs)]
pub struct TopicArgs {
    /// Partitions of the topic of pages [default: 1, or as many as it has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub partitions: Option<i32>,
    /// Partitions of each other topic, which must never have more [default: 1, or as many as it has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub output_partitions: Option<i32>,
    /// Copies of each partition [default: as the brokers have it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub replication: Option<i32>,
    /// How many days pages are kept [default: as the brokers have it]
    #[arg(long, value_name = "N")]
    pub pages_days: Option<u64>,
    /// How many days events are kept [default: for ever]
    #[arg(long, value_name = "N")]
    pub events_days: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub enum DlqCommand {
    /// Send rejected messages to the topic of pages again, after the cause was mended
    ///
    /// It reads kafka.topic with .dlq behind up to where that ends now, and sends each message to the partition that it
    /// came from, with key, value, headers and time as it had them. What is rejected again is a dead letter again. How
    /// far it came is remembered for each reason, under the consumer group kafka.group with -dlq-replay behind, so that
    /// it goes on where it stopped. A page that comes twice is the same sighting.
    #[command(
        after_help = "Exit codes: 0 done; 1 failed; 2 wrong usage or configuration; 3 some letters could not be replayed, \
                            the rest is; 14 the brokers were away for too long; 130 stopped by a signal, replay again to \
                            go on."
    )]
    Replay(ReplayArgs),
}

#[derive(Debug, ClapArgs)]
pub struct ReplayArgs {
    /// Begin with the letters of messages of this time or later (2026-11-21T08:00:00Z), or at these offsets of the dead
    /// letters (PARTITION=OFFSET,…), and remember what follows from there [default: where the last replay stopped]
    #[arg(long, value_name = "TIME|OFFSETS")]
    pub from: Option<TopicPosition>,
    /// Only letters of this reason; may be given several times [default: all but poison]
    #[arg(long, value_name = "REASON", value_parser = reason)]
    pub reason: Vec<Reason>,
    /// Replay this many at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Leave a message alone that was rejected again after so many replays
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub replays_max: u32,
    /// Only count; send nothing and remember nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Answer in JSON
    #[arg(long)]
    pub json: bool,
}

/// The reason of a word.
fn reason(word: &str) -> Result<Reason, String> {
    let found = Reason::ALL.into_iter().find(|reason| reason.as_str() == word);
    found.ok_or_else(|| format!("the reasons are {}", Reason::ALL.map(Reason::as_str).join(", ")))
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print the configuration that results from the defaults, the files and the environment
    Show,
    /// Check it
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
}
