//! Real WARC, WET, ARC and WACZ files from other projects' test suites, read to the end.

use lookalike::files::{FileSource, Input};
use lookalike::ports::{Polled, ProgressMap, Source};
use lookalike::wire::{Limits, Reason, Record};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What each file yields if that differs from its manifest: (input records, parts that cannot be read).
const EXPECTED: &[(&str, usize, usize)] = &[
    ("pywb__bad.arc", 1, 2),
    ("pywb__example-bad.warc.gz.bad", 3, 0),
    ("pywb__example.arc", 1, 0),
    ("pywb__example.arc.gz", 1, 0),
    ("pywb__example.warc", 3, 1),
    ("pywb__invalid_example_1.wacz", 0, 1),
    ("pywb__valid_example_1.wacz", 1, 0),
    ("warcio__bad.arc", 1, 2),
    ("warcio__example-bad-non-chunked.warc.gz", 2, 0),
    ("warcio__example-bad.warc.gz.bad", 3, 0),
    ("warcio__example-space-in-url.arc", 0, 1),
    ("warcio__example.arc", 1, 0),
    ("warcio__example.arc.gz", 1, 0),
    ("webarchive-commons__IAH-20080430204825-00000-blackbook-truncated.arc", 8, 0),
    ("webarchive-commons__abcd.gz", 0, 1),
    ("webarchive-commons__double-single-inflate-error.gz", 0, 1),
    ("webarchive-commons__hi-2.gz", 2, 0),
    ("webarchive-commons__hi.gz", 1, 0),
    ("webarchive-commons__link-extraction-test.warc", 7, 0),
];

/// What a file yields.
#[derive(Debug, Default, PartialEq, Eq)]
struct Yield {
    n_pages: usize,
    n_json: usize,
    rejections: BTreeMap<Reason, usize>,
    unreadable: Vec<String>,
}

impl Yield {
    fn n_records(&self) -> usize {
        self.n_pages + self.n_json + self.rejections.values().sum::<usize>()
    }
}

fn read(path: &Path, progress: &mut ProgressMap) -> Yield {
    let inputs = vec![Input::File(path.to_path_buf())];
    let mut source = FileSource::new(inputs, progress.clone(), Limits::default(), None);
    let mut told = Yield::default();
    loop {
        match source.poll(Duration::from_secs(10)).expect("a source") {
            Polled::Record(incoming) => {
                let next_offset = incoming.origin.offset + 1;
                let taken = lookalike::ports::Progress { next_offset, chain: incoming.chain };
                progress.insert((incoming.origin.source.to_string(), 0), taken);
                match incoming.record {
                    Record::Page(_) => told.n_pages += 1,
                    Record::Json(_) | Record::Mapped(_) => told.n_json += 1,
                    Record::Message(..) | Record::Poison(..) | Record::Sketched(_) => panic!("a message in a file"),
                    Record::Rejected(rejection) => *told.rejections.entry(rejection.reason).or_default() += 1,
                }
            }
            Polled::Unreadable(text) => told.unreadable.push(text),
            Polled::Idle => {}
            Polled::End => return told,
        }
    }
}

fn folder() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/warc");
    let named = std::env::var_os("LOOKALIKE_SHARED").map(|shared| PathBuf::from(shared).join("data/warc"));
    [Some(beside), named].into_iter().flatten().find(|folder| folder.join("MANIFEST.json").is_file())
}

/// The manifest counts what warcio reads, which stops at the first error.
#[test]
fn real_files_are_read_to_the_end_and_only_once() {
    let Some(folder) = folder() else {
        eprintln!("skipped: no ../shared/data/warc, and LOOKALIKE_SHARED names none");
        return;
    };
    let manifest = std::fs::read(folder.join("MANIFEST.json")).expect("a manifest");
    let manifest: Vec<serde_json::Value> = serde_json::from_slice(&manifest).expect("a manifest");
    assert!(!manifest.is_empty());
    let mut wrong = Vec::new();
    for entry in &manifest {
        let name = entry["file"].as_str().expect("a name");
        let counted = ["response", "resource", "conversion", "revisit"]
            .iter()
            .map(|kind| entry["records"][kind].as_u64().unwrap_or(0) as usize)
            .sum();
        let (_, n_records, n_unreadable) =
            EXPECTED.iter().find(|(file, ..)| *file == name).copied().unwrap_or((name, counted, 0));
        let mut progress = ProgressMap::new();
        let told = read(&folder.join(name), &mut progress);
        if (told.n_records(), told.unreadable.len()) != (n_records, n_unreadable) {
            wrong.push(format!("{name}: expected {n_records} and {n_unreadable}, found {told:?}"));
        }
        let again = read(&folder.join(name), &mut progress);
        assert_eq!((again.n_records(), again.unreadable), (0, told.unreadable), "{name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
