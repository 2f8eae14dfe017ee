//! Handing over what was looked up: every order in which look-ups, the decider and the writer may run, as far as a random
//! scheduler finds them. The threads are a model; the overlay and the order of tickets are the program's own.

use super::in_flight::InFlight;
use super::sequencer::{Sequencer, Ticketed};
use crate::cluster::BatchIndex;
use crate::document::DocumentId;
use crate::ports::Batch;
use crate::sketch::Shingle;
use shuttle::sync::{Arc, Mutex, mpsc};
use shuttle::thread;

const N_BATCHES: u64 = 5;
const N_SHINGLES: u64 = 3;

/// The shingles of the one document of a batch.
fn shingles_of(batch: u64) -> impl Iterator<Item = Shingle> {
    (0..N_SHINGLES).filter(move |shingle| (batch + 1) >> shingle & 1 == 1)
}

/// The documents of the batches before `batch` with a shingle.
fn truth(batch: u64, shingle: Shingle) -> Vec<DocumentId> {
    let earlier = (0..batch).filter(|earlier| shingles_of(*earlier).any(|other| other == shingle));
    earlier.map(|earlier| DocumentId(earlier as u32 + 1)).collect()
}

/// What a look-up found: how many batches it counts on, and each list.
struct Found {
    n_visible: u64,
    lists: Vec<(Shingle, Vec<DocumentId>)>,
}

/// The store: a list for each shingle, and how many batches it shows whole.
#[derive(Default)]
struct ModelStore {
    lists: [Mutex<Vec<DocumentId>>; N_SHINGLES as usize],
    n_visible: Mutex<u64>,
}

impl ModelStore {
    fn read(&self, shingle: Shingle) -> Vec<DocumentId> {
        self.lists[shingle as usize].lock().expect("a list").clone()
    }

    fn n_visible(&self) -> u64 {
        *self.n_visible.lock().expect("a number")
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// As in the program: the number of visible batches is taken first, by one look-up at a time.
    CountThenRead,
    /// A planted fault: batches that became visible while the look-up read count as seen.
    ReadThenCount,
    /// A planted fault: a batch is visible before its last list is written.
    CountBeforeWritten,
}

/// A look-up's thread: takes the next batch and reads its lists.
fn look_up(store: &ModelStore, next: &Mutex<u64>, out: &mpsc::Sender<Ticketed<Found>>, order: Order) {
    loop {
        let (ticket, n_before) = {
            let mut next = next.lock().expect("a ticket");
            if *next == N_BATCHES {
                return;
            }
            *next += 1;
            (*next - 1, store.n_visible())
        };
        let lists = shingles_of(ticket).map(|shingle| (shingle, store.read(shingle))).collect();
        let n_visible = if order == Order::ReadThenCount { store.n_visible() } else { n_before };
        out.send(Ticketed { ticket, item: Found { n_visible, lists } }).expect("the decider listens");
    }
}

/// The writer's thread: a batch becomes visible list by list, and counts once it is whole.
fn write(store: &ModelStore, decided: &mpsc::Receiver<u64>, order: Order) {
    let count = || *store.n_visible.lock().expect("a number") += 1;
    for batch in decided.iter() {
        if order == Order::CountBeforeWritten {
            count();
        }
        for shingle in shingles_of(batch) {
            store.lists[shingle as usize].lock().expect("a list").push(DocumentId(batch as u32 + 1));
        }
        if order != Order::CountBeforeWritten {
            count();
        }
    }
}

/// The decider's thread: every list that it uses must hold the documents of all batches before.
fn decide(prepared: &mpsc::Receiver<Ticketed<Found>>, out: &mpsc::Sender<u64>) {
    let ((mut in_flight, _retired), mut sequencer) = (InFlight::new(), Sequencer::new());
    let mut batches = 0..N_BATCHES;
    for ticketed in prepared.iter() {
        sequencer.push(ticketed);
        while let Some(found) = sequencer.pop() {
            let batch = batches.next().expect("a batch");
            in_flight.retire(found.n_visible);
            let mut index = BatchIndex {
                postings: found.lists.into_iter().map(|(shingle, list)| (shingle, list.into())).collect(),
                ..BatchIndex::default()
            };
            in_flight.complete(&mut index, std::iter::empty());
            for (shingle, list) in &mut index.postings {
                assert_eq!(list.to_vec(), truth(batch, *shingle), "batch {batch}, shingle {shingle}");
                list.push(DocumentId(batch as u32 + 1));
            }
            in_flight.add(std::sync::Arc::<Batch>::default(), index, Vec::new());
            out.send(batch).expect("the writer listens");
        }
    }
}

/// One run of all threads.
fn run(order: Order) {
    let (store, next) = (Arc::new(ModelStore::default()), Arc::new(Mutex::new(0)));
    let (prepared_out, prepared_in) = mpsc::channel();
    let (decided_out, decided_in) = mpsc::channel();
    let look_ups: Vec<_> = (0..2)
        .map(|_| {
            let (store, next, out) = (Arc::clone(&store), Arc::clone(&next), prepared_out.clone());
            thread::spawn(move || look_up(&store, &next, &out, order))
        })
        .collect();
    drop(prepared_out);
    let written = Arc::clone(&store);
    let writer = thread::spawn(move || write(&written, &decided_in, order));
    decide(&prepared_in, &decided_out);
    drop(decided_out);
    look_ups.into_iter().chain([writer]).for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(store.n_visible(), N_BATCHES);
}

fn is_caught(order: Order) -> bool {
    std::panic::catch_unwind(|| shuttle::check_random(move || run(order), 3_000)).is_err()
}

#[test]
fn every_list_is_complete_in_any_order() {
    shuttle::check_random(|| run(Order::CountThenRead), 3_000);
    shuttle::check_pct(|| run(Order::CountThenRead), 3_000, 3);
}

/// The model would notice if a look-up counted on a batch that it has not seen whole.
#[test]
fn planted_faults_are_caught() {
    assert!(is_caught(Order::ReadThenCount));
    assert!(is_caught(Order::CountBeforeWritten));
}
