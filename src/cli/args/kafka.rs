//! The words of the commands that work on Kafka topics: `topics` and `dlq`.

use crate::kafka::TopicPosition;
use crate::wire::Reason;
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum TopicsCommand {
    /// Create the topics that do not exist: pages, events, assignments and merges (compacted), dead letters
    ///
    /// Each new topic gets its own cleanup.policy, retention, max.message.bytes and min.insync.replicas, whatever the
    /// brokers' defaults. Of a topic that exists, the command reports what does not fit, and changes nothing.
    #[command(after_long_help = "\
Examples:
  lookalike topics create --config kafka.toml --partitions 8 --replication 3
  lookalike topics create --config kafka.toml --partitions 8 --sketches

Exit codes:
  0    every topic exists and fits
  1    a topic could not be created, or one that exists does not fit
  2    wrong usage or configuration")]
    Create(TopicArgs),
    /// Write the present state of the store, or events that it still has, to topics that lack them
    ///
    /// Use it where a topic is new or was deleted and the store is not. Without a subcommand it writes assignments and
    /// merges. It publishes for the store as `run` does, which must not be running; waiting events go out first. After a
    /// kill or a stop, give the command again.
    #[command(after_long_help = "\
Examples:
  lookalike topics republish --config kafka.toml
  lookalike topics republish events-from 1200 --config kafka.toml

Exit codes:
  0    written
  1    failed; the message says why and what to do
  2    wrong usage or configuration
  4    the store no longer has these events
  12, 13, 14  as for `run`
  130  stopped by a signal")]
    Republish {
        #[command(subcommand)]
        what: Option<Republished>,
    },
}

#[derive(Clone, Copy, Debug, Subcommand)]
pub enum Republished {
    /// Write where every URL stands, and which URLs hold nothing any more
    #[command(after_long_help = "\
Examples:
  lookalike topics republish assignments --config kafka.toml")]
    Assignments,
    /// Write the cluster of every document that is in another's cluster, under the name of its own
    #[command(after_long_help = "\
Examples:
  lookalike topics republish merges --config kafka.toml")]
    Merges,
    /// Write events from a number on, to the topic of events alone
    ///
    /// The topic must hold none of them. The store has the events that it has not forgotten since, which it does as it
    /// goes on.
    #[command(after_long_help = "\
Examples:
  lookalike topics republish events-from 1200 --config kafka.toml")]
    EventsFrom {
        /// The number of the first event
        #[arg(value_name = "SEQ")]
        seq: u64,
    },
}

/// More days have no number of milliseconds in Kafka.
const DAYS_MAX: u64 = i64::MAX.unsigned_abs() / (24 * 60 * 60 * 1000);

#[derive(Debug, Args)]
pub struct TopicArgs {
    /// Partitions of the topic of pages [default: 1, or as many as it has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub partitions: Option<i32>,
    /// Also the topic of sketches, kafka.sketches_topic, for `run --role`; it has as many partitions as that of pages
    #[arg(long)]
    pub sketches: bool,
    /// Partitions of each other topic, which must never get more later [default: 1, or as many as it has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub output_partitions: Option<i32>,
    /// Copies of each partition [default: the brokers' default]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    pub replication: Option<i32>,
    /// Days that the brokers keep pages [default: the brokers' default]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=DAYS_MAX))]
    pub pages_days: Option<u64>,
    /// Days that the brokers keep events [default: for ever]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=DAYS_MAX))]
    pub events_days: Option<u64>,
}

#[derive(Debug, Subcommand)]
pub enum DlqCommand {
    /// Send rejected messages to the topic of pages again, once their cause is mended
    ///
    /// Reads the dead letters (kafka.topic with the suffix .dlq) up to their present end. Each message goes to the
    /// partition that it came from, with its key, value, headers and time; a message that is rejected again becomes a
    /// dead letter again. The consumer group kafka.group with the suffix -dlq-replay remembers, for each reason, how far
    /// the replay came: the next one goes on there. A page that comes twice is the same sighting.
    #[command(after_long_help = "\
Examples:
  lookalike dlq replay --config kafka.toml --dry-run
  lookalike dlq replay --config kafka.toml --reason too-large --limit 1000

Exit codes:
  0    done
  1    failed; the message says why and what to do
  2    wrong usage or configuration
  3    some letters could not be replayed, the rest are
  14   the brokers were away for too long
  130  stopped by a signal; the same command goes on")]
    Replay(ReplayArgs),
}

#[derive(Debug, Args)]
pub struct ReplayArgs {
    /// Begin at messages of this time or later (2026-11-21T08:00:00Z), or at offsets of the dead letters
    /// (PARTITION=OFFSET,…), and remember what follows from there [default: where the last replay stopped]
    #[arg(long, value_name = "TIME|OFFSETS")]
    pub from: Option<TopicPosition>,
    /// Replay letters of this reason alone; repeat the flag for more reasons [default: all but poison]
    #[arg(long, value_name = "REASON", value_parser = reason)]
    pub reason: Vec<Reason>,
    /// Replay at most this many
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// Leave a message alone that was rejected again after this many replays
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub replays_max: u32,
    /// Only count: send nothing and remember nothing
    #[arg(long)]
    pub dry_run: bool,
}

fn reason(word: &str) -> Result<Reason, String> {
    let found = Reason::ALL.into_iter().find(|reason| reason.as_str() == word);
    found.ok_or_else(|| format!("the reasons are {}", Reason::ALL.map(Reason::as_str).join(", ")))
}
