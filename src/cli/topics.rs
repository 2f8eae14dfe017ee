//! `lookalike topics create`: creates the topics that Kafka input and output need.

use super::args::TopicArgs;
use super::exit::{Exit, ending};
use super::output::print;
use super::wiring::open_read_only;
use crate::config::Config;
use crate::kafka::{TopicPlan, create_topics};
use crate::ports::OutputNotes;
use anyhow::Result;
use serde::Serialize;

/// A topic, and what does not fit.
#[derive(Serialize)]
struct TopicRow {
    topic: String,
    is_new: bool,
    problems: Vec<String>,
}

/// Creates the topics that do not exist, and prints what became of each.
pub(super) fn create(config: &Config, args: &TopicArgs, json: bool) -> Result<Exit> {
    let plan = TopicPlan {
        partitions: args.partitions,
        output_partitions: args.output_partitions,
        replication: args.replication,
        pages_days: args.pages_days,
        events_days: args.events_days,
        body_bytes_max: config.limits.body_bytes_max,
        with_sketches: args.sketches,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Without a store yet, nothing is known.
    let known = open_read_only(config).ok().map_or(Ok(OutputNotes::new()), |store| store.outputs())?;
    let created = runtime.block_on(create_topics(&config.kafka, &plan, &known));
    let mut exit = Exit::Done;
    for topic in created.map_err(|why| ending(Exit::Failed, why))? {
        let row = TopicRow { topic: topic.name, is_new: topic.is_new, problems: topic.problems };
        print(&row, json, row_text)?;
        if !row.problems.is_empty() {
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}

fn row_text(row: &TopicRow) -> String {
    let state = if row.is_new { "created" } else { "exists" };
    match &*row.problems {
        [] => format!("{}: {state}\n", row.topic),
        problems => format!("{}: {state}, but {}\n", row.topic, problems.join("; ")),
    }
}
