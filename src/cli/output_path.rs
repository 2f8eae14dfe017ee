//! Refuses outputs that would overwrite what commands read: an input, or a store.

use super::exit::usage;
use crate::files::{is_found_by, url_of};
use crate::store::holds_store;
use anyhow::Result;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Fails where an output is one of the inputs, whatever their names, or lies in a store.
pub(super) fn check_output<P: AsRef<Path>>(flag: &str, out: &Path, inputs: impl IntoIterator<Item = P>) -> Result<()> {
    let there = out.metadata().ok().filter(Metadata::is_file);
    let is_out = |input: &Path| {
        // Symbolic links are followed, and hard links have one number.
        let number = |metadata: &Metadata| (metadata.dev(), metadata.ino());
        let is_same = |there| input.metadata().is_ok_and(|metadata| number(&metadata) == number(there));
        there.as_ref().map_or(url_of(out).is_some() && input == out, is_same)
    };
    if let Some(input) = inputs.into_iter().find(|input| is_out(input.as_ref())) {
        let (out, input) = (out.display(), input.as_ref().display());
        return Err(usage(format!("{flag} {out} would overwrite the input {input}; give another file")));
    }
    check_outside_stores(flag, out)
}

/// Fails where an output lies in the folder of a store, or is one, or is named `-`, which is meant for standard output.
pub(super) fn check_outside_stores(flag: &str, out: &Path) -> Result<()> {
    if out.as_os_str() == "-" {
        let why = "this cannot go to standard output; give a path, which may be ./- where that is meant";
        return Err(usage(format!("{flag} -: {why}")));
    }
    match store_around(out) {
        Some(store) => {
            let (out, store) = (out.display(), store.display());
            Err(usage(format!("{flag} {out} lies in the store {store}, which it would damage; give another path")))
        }
        None => Ok(()),
    }
}

/// Fails where a new store would lie in another one: who removes that one would lose both.
pub(super) fn check_new_store(flag: &str, store: &Path) -> Result<()> {
    let whole = absolute(store)?;
    match whole.parent().and_then(store_around) {
        Some(other) => {
            Err(usage(format!("{flag} {} lies in the store {}; give another path", store.display(), other.display())))
        }
        None => Ok(()),
    }
}

/// Fails where an output would be an input, lie in a folder that is read, or be found by a pattern: this look or the next one
/// would take it for pages. The name of no file, or of standard output, is free.
pub(super) fn check_not_read(flag: &str, out: &Path, inputs: &[PathBuf]) -> Result<()> {
    if matches!(out.as_os_str().as_encoded_bytes(), b"" | b"-") {
        return Ok(());
    }
    let there = nearest_path(out);
    let holds = |input: &&PathBuf| {
        let named = input.canonicalize().ok().filter(|input| input.is_dir() || input.is_file()).zip(there.as_ref());
        named.is_some_and(|(input, there)| there.starts_with(input)) || is_found_by(input, out)
    };
    match inputs.iter().find(holds) {
        Some(input) => Err(usage(format!(
            "{flag} {} is among the inputs that {} names, and would be taken for pages; give another path",
            out.display(),
            input.display()
        ))),
        None => Ok(()),
    }
}

/// A path that does not depend on the current folder. Links in it stay.
pub(super) fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|error| usage(format!("{}: {error}", path.display())))
}

/// What is there of a path, without links.
fn nearest_path(path: &Path) -> Option<PathBuf> {
    let whole = std::path::absolute(path).ok()?;
    whole.ancestors().find_map(|folder| folder.canonicalize().ok())
}

/// The store in whose folder a path lies, or would lie.
fn store_around(path: &Path) -> Option<PathBuf> {
    if url_of(path).is_some() {
        return None;
    }
    let there = nearest_path(path)?;
    there.ancestors().find(|folder| holds_store(folder)).map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Lost once: all space on the disk. Events in a followed folder, or under a name that a followed pattern matched, were read as
    /// pages, and each of them became a further event.
    #[test]
    fn events_do_not_go_where_pages_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("in/deep")).expect("made");
        fs::create_dir(path("inside")).expect("made");
        fs::write(path("old.jsonl"), "").expect("written");
        let is_refused = |events: &str, input: &str| check_not_read("--events", &path(events), &[path(input)]).is_err();
        assert_eq!(
            ["in/events.jsonl", "in/deep/e", "inside/e", "e"].map(|events| is_refused(events, "in")),
            [true, true, false, false]
        );
        assert_eq!(["old.jsonl", "new.jsonl", "e"].map(|events| is_refused(events, "*.jsonl")), [true, true, false]);
        assert_eq!(["in/new.jsonl", "in/deep/e"].map(|events| is_refused(events, "in*/d*")), [false, true]);
        assert_eq!(["old.jsonl", "new.jsonl"].map(|events| is_refused(events, "old.jsonl")), [true, false]);
        assert!(["-", ""].iter().all(|out| check_not_read("--events", Path::new(out), &[".".into()]).is_ok()));
    }

    /// Lost once: an input, by a command whose output was the input under another name.
    #[test]
    fn an_input_is_known_by_any_name_and_a_store_by_any_way() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        for name in ["in.jsonl", "other.jsonl"] {
            fs::write(path(name), "").expect("written");
        }
        symlink(path("in.jsonl"), path("link")).expect("linked");
        fs::hard_link(path("in.jsonl"), path("hard")).expect("linked");
        fs::create_dir_all(path("store/deep")).expect("made");
        fs::write(path("store/CURRENT"), "").expect("written");
        symlink(path("store"), path("way")).expect("linked");
        let refused = |out: &str| {
            let refused = check_output("--out", &path(out), [path("other.jsonl"), path("in.jsonl")]);
            refused.map_or_else(|error| error.to_string(), |()| String::new())
        };
        for out in ["in.jsonl", "store/../in.jsonl", "link", "hard"] {
            assert!(refused(out).contains("in.jsonl; give another file"), "{out}: {}", refused(out));
        }
        for out in ["store", "store/out", "store/deep/out", "store/new/out", "store/CURRENT", "way/out"] {
            assert!(refused(out).contains("lies in the store"), "{out}: {}", refused(out));
        }
        assert_eq!(["out.jsonl", "new/out"].map(refused), ["", ""]);
        let is_free = |store: &str| check_new_store("--to", &path(store)).is_ok();
        assert_eq!(["store/new", "way/new", "store", "new"].map(is_free), [false, false, true, true]);
        // Made once, and looked for on standard output: a file of this name.
        let dash = |out: &str| check_outside_stores("--out", Path::new(out)).map_err(|error| error.to_string());
        assert!(dash("-").is_err_and(|why| why.contains("cannot go to standard output")) && dash("./-").is_ok());
        let url = Path::new("s3://bucket/in.jsonl");
        assert!(check_output("--out", url, [url]).is_err());
        assert!(check_output("--out", Path::new("/dev/null"), ["/dev/null"]).is_ok(), "a device overwrites nothing");
    }
}
