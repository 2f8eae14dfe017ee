//! Reads records in chunks and has all threads work on them; the results come in the order of the records.
//!
//! ```text
//! reader ─▶ worker ×n ─▶ taker
//! chunks                 in the order of the chunks
//! ```
//! Each chunk travels with a slot for its result, and the taker gets the slots in the order of the chunks. Whichever
//! worker fills a slot, nothing needs to be sorted. The slots limit the chunks under way, so that a slow chunk delays
//! the others only once all slots are in use.

use super::context::Context;
use super::error::BackfillError;
use crate::document::Seed;
use crate::intake::{FutureLimit, RecordSketcher, SketchedRecord, TextRule};
use crate::ports::{Chunk, Incoming, Polled, Source, StoreRule};
use crate::sweep::SweepCut;
use crate::wire::Limits;
use crossbeam::channel::{Receiver, bounded};
use std::time::Duration;

/// A chunk is full with so many records, or so many bytes of them.
pub(super) const CHUNK_RECORDS: usize = 64;
const CHUNK_BYTES: usize = 128 << 10;

/// Chunks under way for each worker.
const CHUNKS_PER_WORKER: usize = 16;

/// Chunks that wait for each worker. What was read should still be in the processor's caches when a worker takes it.
const CHUNKS_WAITING_PER_WORKER: usize = 2;

/// How long the source may keep the reader from the stop flag.
const POLL_TIMEOUT: Duration = Duration::from_millis(100);

/// Where pages come from and how they are read.
pub struct PageInput {
    /// The source. It resumes after what is ingested already.
    pub source: Box<dyn Source>,
    /// The limits on a record.
    pub limits: Limits,
    /// Assigns sweeps to pages that name none.
    pub sweep_cut: SweepCut,
    /// How far ahead of the clock pages may be dated.
    pub future: FutureLimit,
    /// How the texts of documents are kept, where they are.
    pub texts: Option<TextRule>,
}

/// Sketches all records of a source on all threads. `take` gets them in their order.
///
/// # Errors
/// [`BackfillError::Stopped`] after a stop, any other [`BackfillError`] of the source, and any error of `take`.
pub fn sketch_records<E: From<BackfillError>>(
    context: &Context,
    input: PageInput,
    rule: &StoreRule,
    seed: &Seed,
    mut take: impl FnMut(Chunk<SketchedRecord>) -> Result<(), E>,
) -> Result<(), E> {
    let PageInput { source, limits, sweep_cut, future, texts } = input;
    let worker = || {
        let mut sketcher =
            RecordSketcher::new(rule.sketcher(seed), limits.clone(), sweep_cut, future).with_texts(texts);
        move |chunk: Chunk<Incoming>| {
            chunk.map(|Incoming { origin, chain, record, .. }| {
                let n_bytes = record.n_bytes();
                SketchedRecord { origin, chain, n_bytes, outcome: sketcher.sketch(&record) }
            })
        }
    };
    let (taken, read) = in_order(
        context,
        |send| read_chunks(source, context, send),
        worker,
        |chunk| {
            if let Chunk::Records(records) = &chunk {
                context.progress.advance(records.len() as u64);
            }
            take(chunk)
        },
    );
    taken?;
    read?;
    Ok(context.check_stop()?)
}

/// Works on chunks on all threads. `read` sends them, until its `send` returns false because a result could not be taken;
/// `worker` makes a worker for each thread; `take` gets what the workers return, in the order of the chunks. Returns how
/// the taking ended, and then what `read` returned. A slot that no worker fills is an error: to skip it would count its
/// records as taken.
pub(super) fn in_order<C: Send, T: Send, W: FnMut(C) -> T + Send, R: Send, E: From<BackfillError>>(
    context: &Context,
    read: impl FnOnce(&dyn Fn(C) -> bool) -> Result<R, BackfillError> + Send,
    worker: impl Fn() -> W,
    mut take: impl FnMut(T) -> Result<(), E>,
) -> (Result<(), E>, Result<R, BackfillError>) {
    let (jobs, jobs_out) = bounded(CHUNKS_WAITING_PER_WORKER * context.n_threads);
    let (slots, slots_out) = bounded::<Receiver<T>>(CHUNKS_PER_WORKER * context.n_threads);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            let send = |chunk| {
                let (slot, filled) = bounded(1);
                slots.send(filled).is_ok() && jobs.send((chunk, slot)).is_ok()
            };
            read(&send)
        });
        let workers: Vec<_> = vec![jobs_out; context.n_threads]
            .into_iter()
            .map(|jobs| {
                let mut work = worker();
                scope.spawn(move || {
                    for (chunk, slot) in jobs {
                        if slot.send(work(chunk)).is_err() {
                            return;
                        }
                    }
                })
            })
            .collect();
        // At the end the queue of slots is gone, which ends the reader, and with it the workers.
        let taken = slots_out.into_iter().try_for_each(|slot| {
            let result = slot.recv().map_err(|_| BackfillError::WorkerPanicked)?;
            take(result)
        });
        for worker in workers {
            // A panic shows in the slot that it leaves empty.
            let _ = worker.join();
        }
        (taken, reader.join().unwrap_or(Err(BackfillError::WorkerPanicked)))
    })
}

/// Reads chunks and sends them. Returns true at the end of the source, and false after a stop, or once `send` returns false
/// because chunks are no longer taken.
pub(super) fn read_chunks(
    mut source: Box<dyn Source>,
    context: &Context,
    send: impl Fn(Chunk<Incoming>) -> bool,
) -> Result<bool, BackfillError> {
    let (mut records, mut n_bytes) = (Vec::new(), 0);
    loop {
        if context.check_stop().is_err() {
            return Ok(false);
        }
        let (unreadable, is_end) = match source.poll(POLL_TIMEOUT)? {
            Polled::Idle => continue,
            Polled::Record(incoming) => {
                n_bytes += incoming.record.n_bytes();
                records.push(incoming);
                (None, false)
            }
            Polled::Unreadable(what) => (Some(what), false),
            Polled::End => (None, true),
        };
        let is_full = records.len() == CHUNK_RECORDS || n_bytes >= CHUNK_BYTES;
        if (is_full || is_end || unreadable.is_some()) && !records.is_empty() {
            n_bytes = 0;
            if !send(Chunk::Records(std::mem::take(&mut records))) {
                return Ok(false);
            }
        }
        if is_end || unreadable.is_some_and(|what| !send(Chunk::Unreadable(what))) {
            return Ok(is_end);
        }
    }
}
