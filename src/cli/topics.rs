//! `lookalike topics`: makes the topics that Kafka input and output need.

use super::args::TopicArgs;
use super::{Exit, ending};
use crate::config::Config;
use crate::kafka::{TopicPlan, create_topics};
use anyhow::Result;

/// Makes what is not there, and says of each topic what became of it.
pub(super) fn create(config: &Config, args: &TopicArgs) -> Result<Exit> {
    let plan = TopicPlan {
        partitions: args.partitions,
        output_partitions: args.output_partitions,
        replication: args.replication,
        events_days: args.events_days,
        body_bytes_max: config.limits.body_bytes_max,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let made = runtime.block_on(create_topics(&config.kafka, &plan)).map_err(|why| ending(Exit::Failed, why))?;
    let mut exit = Exit::Done;
    for topic in made {
        match (topic.is_new, topic.problem) {
            (true, _) => println!("{}: made", topic.name),
            (false, None) => println!("{}: was there", topic.name),
            (false, Some(problem)) => {
                println!("{}: was there, but {problem}", topic.name);
                exit = Exit::Failed;
            }
        }
    }
    Ok(exit)
}
