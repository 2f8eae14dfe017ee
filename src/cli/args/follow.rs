//! The words of `follow`.

use super::ingest::Role;
use clap::Args;

#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  lookalike follow --config config/kafka.toml --store standby.store
  lookalike follow --config config/kafka.toml --once       bring a restored backup up to date
  kill -USR1 PID                                           ask a standby to take over

Exit codes:
  0    --once: the store has all that is published; otherwise stopped by SIGTERM or SIGINT
  1    failed; the message says why and what to do
  2    wrong usage or configuration; nothing was changed
  12   the topic of events is another store's
  13   Kafka: another process took over in turn
  14   Kafka: the brokers were away for too long, or refuse the name or the password
  17, 18  as for `run --role owner`
  19   an event is not the one that the store gives; the message names it
  20   an event cannot be followed: the pages are gone, or `forget` or `recluster` caused it; start from a newer backup
  130  --once: stopped by SIGTERM or SIGINT; the same command goes on")]
pub struct FollowArgs {
    /// Follow to the end of what is published now, and end
    #[arg(long)]
    pub once: bool,
    /// Take sketches instead of pages, as `run --role owner` does: give `owner` [default: pages]
    #[arg(long)]
    pub role: Option<Role>,
    /// Serve metrics to Prometheus at this address, such as localhost:9464
    #[arg(long, value_name = "HOST:PORT")]
    pub metrics_listen: Option<String>,
}
