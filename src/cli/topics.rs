//! `lookalike topics`: makes the topics that Kafka input and output need.

use super::args::TopicArgs;
use super::query::open;
use super::{Exit, ending};
use crate::config::Config;
use crate::kafka::{TopicPlan, create_topics};
use crate::ports::OutputNotes;
use anyhow::Result;

/// Makes what is not there, and says of each topic what became of it.
pub(super) fn create(config: &Config, args: &TopicArgs) -> Result<Exit> {
    let plan = TopicPlan {
        partitions: args.partitions,
        output_partitions: args.output_partitions,
        replication: args.replication,
        pages_days: args.pages_days,
        events_days: args.events_days,
        body_bytes_max: config.limits.body_bytes_max,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Where there is no store yet, nothing is known.
    let known = open(config).ok().map_or(Ok(OutputNotes::new()), |store| store.outputs())?;
    let made = runtime.block_on(create_topics(&config.kafka, &plan, &known));
    let mut exit = Exit::Done;
    for topic in made.map_err(|why| ending(Exit::Failed, why))? {
        let became = if topic.is_new { "made" } else { "was there" };
        match &*topic.problems {
            [] => println!("{}: {became}", topic.name),
            problems => {
                println!("{}: {became}, but {}", topic.name, problems.join("; "));
                exit = Exit::Failed;
            }
        }
    }
    Ok(exit)
}
