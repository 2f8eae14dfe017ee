//! From the paths and URLs that a person names to the files and objects that are read: folders are walked, patterns are
//! matched.

use super::input_file::{local_path, url_of};
#[cfg(feature = "object-store")]
use crate::objects::{Object, below};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A path that names no readable file, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// A symbolic link leads nowhere.
    #[error("{0}: this link leads to no file; remove it, or correct where it leads")]
    DanglingLink(PathBuf),
    /// Nothing has this name.
    #[error("{0}: no such file or folder; check the path")]
    Missing(PathBuf),
    /// The folder holds nothing to read.
    #[error(
        "{0}: the folder holds no files of pages; hidden ones, images, style sheets, scripts and the like are passed over"
    )]
    EmptyFolder(PathBuf),
    /// No file has a name of this form.
    #[error("{0}: no file matches this pattern; check it")]
    NoMatch(String),
    /// The pattern is not one.
    #[error("{pattern}: {why} at character {at}; correct the pattern, or name the file")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The character that is wrong, counted from 1.
        at: usize,
        /// What is wrong there.
        why: String,
    },
    /// The system refuses to open or list it.
    #[error("{path}: cannot be read ({why}); check the path and its permissions")]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        why: String,
    },
    /// The store of an object, or the server, refuses or does not answer.
    #[error("{url}: {why}; check the URL, and that this machine may read it")]
    Object {
        /// The URL.
        url: String,
        /// What went wrong.
        why: String,
    },
}

/// The files that paths name, in their order. A folder yields the files below it, in order of names, without hidden ones, stores
/// and those whose names say that they hold no pages, such as images. A path that does not exist and holds `*`, `?` or `[…]` is a pattern; `**` crosses folders. `-` stays as it is. URLs of
/// object stores name objects, folders and patterns alike; those of the web name one file each.
///
/// # Errors
/// [`InputError`] for the first path that names no readable file. Nothing has been read by then.
pub fn input_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, InputError> {
    let mut listing = Listing { files: Vec::new(), failed: None };
    paths.iter().try_for_each(|path| listing.add(path))?;
    Ok(listing.files)
}

/// The files that paths name at this moment, as [`input_files`] finds them, and what is there and cannot be listed. A
/// folder or a pattern may hold none yet.
pub(super) fn files_there(paths: &[PathBuf]) -> (Vec<PathBuf>, Vec<InputError>) {
    let mut listing = Listing { files: Vec::new(), failed: Some(Vec::new()) };
    for path in paths {
        if let Err(error) = listing.add(path) {
            listing.failed.get_or_insert_default().push(error);
        }
    }
    let failed = listing.failed.unwrap_or_default();
    let is_news = |error: &InputError| !matches!(error, InputError::EmptyFolder(_) | InputError::NoMatch(_));
    (listing.files, failed.into_iter().filter(is_news).collect())
}

/// Files that are found.
struct Listing {
    files: Vec<PathBuf>,
    /// What cannot be listed, where the rest is listed all the same; otherwise the first of it ends the listing.
    failed: Option<Vec<InputError>>,
}

impl Listing {
    fn add(&mut self, path: &Path) -> Result<(), InputError> {
        if let Some(url) = url_of(path) {
            self.files.extend(objects_of(url)?);
            return Ok(());
        }
        let path = local_path(path);
        match (path.metadata(), path.to_str()) {
            _ if path.as_os_str() == "-" => self.files.push(path.to_path_buf()),
            (Err(error), Some(pattern)) if error.kind() == io::ErrorKind::NotFound && is_pattern(pattern) => {
                self.add_matches(pattern)?;
            }
            _ => self.add_path(path)?,
        }
        Ok(())
    }

    /// Passes an error over where the rest is listed all the same.
    fn tolerate(&mut self, error: InputError) -> Result<(), InputError> {
        match &mut self.failed {
            Some(failed) => failed.push(error),
            None => return Err(error),
        }
        Ok(())
    }

    fn add_matches(&mut self, pattern: &str) -> Result<(), InputError> {
        let matches = glob::glob_with(pattern, PATTERNS).map_err(|error| wrong_pattern(pattern, &error))?;
        let n_before = self.files.len();
        for path in matches {
            let added = match path {
                Ok(path) => self.add_path(&path),
                Err(error) => Err(unreadable(error.path(), error.error())),
            };
            match added {
                // Some other match may hold files.
                Ok(()) | Err(InputError::EmptyFolder(_)) => {}
                Err(error) => self.tolerate(error)?,
            }
        }
        if self.files.len() == n_before { Err(InputError::NoMatch(pattern.to_string())) } else { Ok(()) }
    }

    fn add_path(&mut self, path: &Path) -> Result<(), InputError> {
        let kind = path.metadata().map_err(|error| unreadable(path, &error))?.file_type();
        if kind.is_dir() {
            return self.add_folder(path);
        }
        // Opening a pipe waits for its writer.
        if kind.is_file() && self.failed.is_none() {
            File::open(path).map_err(|error| unreadable(path, &error))?;
        }
        self.files.push(path.to_path_buf());
        Ok(())
    }

    fn add_folder(&mut self, folder: &Path) -> Result<(), InputError> {
        let is_shown = |entry: &walkdir::DirEntry| {
            let is_hidden = || entry.file_name().as_encoded_bytes().starts_with(b".");
            entry.depth() == 0 || !(is_hidden() || entry.file_type().is_dir() && is_own_folder(entry.path()))
        };
        let n_before = self.files.len();
        let entries = walkdir::WalkDir::new(folder).follow_links(true).sort_by_file_name();
        for entry in entries.into_iter().filter_entry(is_shown) {
            let entry = entry.map_err(|error| {
                let path = error.path().unwrap_or(folder);
                match error.io_error() {
                    Some(error) => unreadable(path, error),
                    None => {
                        let why = "a link leads back to its own folder".into();
                        InputError::Unreadable { path: path.to_path_buf(), why }
                    }
                }
            });
            let added = match entry {
                Ok(entry) if entry.file_type().is_dir() || !may_hold_pages(entry.path()) => Ok(()),
                Ok(entry) => self.add_path(entry.path()),
                Err(error) => Err(error),
            };
            added.or_else(|error| self.tolerate(error))?;
        }
        if self.files.len() == n_before { Err(InputError::EmptyFolder(folder.to_path_buf())) } else { Ok(()) }
    }
}

/// Whether a folder is a store, or one in which a command works. Their files are no pages, also where they lie in the folder
/// that is read.
fn is_own_folder(folder: &Path) -> bool {
    let holds = |names: [&str; 2]| names.iter().all(|name| folder.join(name).exists());
    holds(["CURRENT", "IDENTITY"]) || holds(["manifest.json", "lock"])
}

/// A file to read, and its name below the folder that was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedFile {
    /// The file.
    pub path: PathBuf,
    /// The path below the folder, or below the part of the pattern without `*`, `?` and `[…]`; otherwise the file's name.
    pub name: PathBuf,
}

/// The files that paths name, as [`input_files`] finds them, each with its name below what was named.
///
/// # Errors
/// [`InputError`], as for [`input_files`].
pub fn named_files(paths: &[PathBuf]) -> Result<Vec<NamedFile>, InputError> {
    let mut named = Vec::new();
    for path in paths {
        let local = local_path(path);
        let base = if local.is_dir() { local.to_path_buf() } else { plain_beginning(local) };
        for file in input_files(std::slice::from_ref(path))? {
            let name = match file.strip_prefix(&base) {
                Ok(name) if !name.as_os_str().is_empty() => name.to_path_buf(),
                _ => PathBuf::from(file.file_name().unwrap_or(file.as_os_str())),
            };
            named.push(NamedFile { path: file, name });
        }
    }
    Ok(named)
}

/// The folder before the first component with `*`, `?` or `[…]`; of a path that exists, its own folder.
fn plain_beginning(path: &Path) -> PathBuf {
    if path.exists() {
        return path.parent().unwrap_or(Path::new("")).to_path_buf();
    }
    path.components().take_while(|part| !part.as_os_str().to_str().is_some_and(is_pattern)).collect()
}

/// The objects that a URL names: one, all below a folder, or those of a pattern.
#[cfg(feature = "object-store")]
fn objects_of(url: &str) -> Result<Vec<PathBuf>, InputError> {
    let failed = |why: String| InputError::Object { url: url.into(), why };
    let found: Vec<String> = match Object::find(url) {
        Ok(_) => return Ok(vec![url.into()]),
        // A question mark begins the query of a web page.
        Err(error) if error.kind() != io::ErrorKind::NotFound || url.starts_with("http") => {
            return Err(failed(error.to_string()));
        }
        Err(_) if is_pattern(url) => {
            let pattern = glob::Pattern::new(url).map_err(|error| wrong_pattern(url, &error))?;
            let folder = url[..url.find(['*', '?', '[']).unwrap_or(url.len())]
                .rsplit_once('/')
                .map_or(url, |(folder, _)| folder);
            let objects = below(folder).map_err(|error| failed(error.to_string()))?;
            objects.into_iter().filter(|object| pattern.matches_with(object, PATTERNS)).collect()
        }
        Err(_) => {
            let objects = below(url.trim_end_matches('/')).map_err(|error| failed(error.to_string()))?;
            objects.into_iter().filter(|object| may_hold_pages(Path::new(object))).collect()
        }
    };
    if found.is_empty() {
        let what = if is_pattern(url) {
            "no object matches this pattern"
        } else {
            "there is no such object, and none below it"
        };
        return Err(failed(what.into()));
    }
    Ok(found.into_iter().map(PathBuf::from).collect())
}

#[cfg(not(feature = "object-store"))]
fn objects_of(url: &str) -> Result<Vec<PathBuf>, InputError> {
    Err(InputError::Object { url: url.into(), why: super::input_file::no_objects().to_string() })
}

/// How patterns match: as in a shell.
const PATTERNS: glob::MatchOptions =
    glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };

/// Whether a pattern finds this path, or a folder above it, now or once there is one. A path that exists is no pattern.
pub fn is_found_by(pattern: &Path, path: &Path) -> bool {
    let (pattern, Ok(path)) = (local_path(pattern), std::path::absolute(path)) else { return false };
    if pattern.exists() {
        return false;
    }
    // What the folder is called is no part of the pattern.
    let folder = std::env::current_dir().ok().and_then(|folder| Some(glob::Pattern::escape(folder.to_str()?)));
    let whole = folder.and_then(|folder| std::path::absolute(Path::new(&folder).join(pattern)).ok());
    let pattern = whole.as_deref().and_then(Path::to_str).and_then(|pattern| glob::Pattern::new(pattern).ok());
    pattern.is_some_and(|pattern| path.ancestors().any(|path| pattern.matches_path_with(path, PATTERNS)))
}

fn wrong_pattern(pattern: &str, error: &glob::PatternError) -> InputError {
    InputError::Pattern { pattern: pattern.into(), at: error.pos + 1, why: error.msg.into() }
}

fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// How the names of files end that lie among the pages of a site, and are none.
const NO_PAGES: &[&str] = &[
    "avif", "bmp", "css", "eot", "flac", "gif", "ico", "jpeg", "jpg", "js", "map", "mjs", "mov", "mp3", "mp4", "ogg",
    "ogv", "otf", "pdf", "png", "svg", "swf", "tif", "tiff", "ttf", "wasm", "wav", "webm", "webp", "woff", "woff2",
];

/// Files of a data set that Spark or Dask wrote, beside its parts: that it is whole, and what its parts have in common.
const OF_DATA_SETS: &[&str] = &["_SUCCESS", "_common_metadata", "_metadata"];

/// Whether a file of a folder may hold pages, by its name.
fn may_hold_pages(path: &Path) -> bool {
    if path.file_name().and_then(|name| name.to_str()).is_some_and(|name| OF_DATA_SETS.contains(&name)) {
        return false;
    }
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default().to_ascii_lowercase();
    !NO_PAGES.contains(&end.as_str())
}

fn unreadable(path: &Path, error: &io::Error) -> InputError {
    match error.kind() {
        io::ErrorKind::NotFound if path.is_symlink() => InputError::DanglingLink(path.to_path_buf()),
        io::ErrorKind::NotFound => InputError::Missing(path.to_path_buf()),
        _ => InputError::Unreadable { path: path.to_path_buf(), why: plain(error) },
    }
}

/// What the system says, without its number.
fn plain(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error ").next().unwrap_or_default().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(folder: &Path, paths: &[&str], expected: Result<&[&str], &str>) {
        let paths: Vec<PathBuf> = paths.iter().map(|path| folder.join(path)).collect();
        let relative = |path: &PathBuf| path.strip_prefix(folder).expect("inside").display().to_string();
        match (input_files(&paths), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found.iter().map(relative).collect::<Vec<_>>(), expected),
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error} does not say {part:?}"),
            (found, expected) => panic!("{paths:?}: {found:?} is not {expected:?}"),
        }
    }

    #[test]
    fn folders_of_the_program_hold_no_pages() {
        // Read once, and each of their files rejected at every run: the files of a store in the folder that was read.
        let folder = tempfile::tempdir().expect("a folder");
        for name in
            ["a.jsonl", "store/CURRENT", "store/IDENTITY", "x.backfill/manifest.json", "x.backfill/lock", "b/CURRENT"]
        {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, "x").expect("written");
        }
        let found = |path: &Path| input_files(&[path.to_path_buf()]).expect("listed").len();
        assert_eq!(found(folder.path()), 2);
        assert_eq!(found(&folder.path().join("store")), 2, "what is named is read");
    }

    #[test]
    fn folders_are_walked_and_patterns_are_matched() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        for path in [
            "b.jsonl",
            "c/2.warc",
            "c/1.warc",
            "c/d/0.warc",
            "c/.hidden",
            "c/.git/head",
            "c/d/logo.PNG",
            "c/style.css",
            "a[1].jsonl",
            "e/.x",
            // Called damaged once, and copied into a corpus as empty tables.
            "c/_SUCCESS",
            "c/_metadata",
            "c/d/_common_metadata",
        ] {
            std::fs::create_dir_all(folder.join(path).parent().expect("a folder")).expect("made");
            std::fs::write(folder.join(path), "").expect("written");
        }
        check(folder, &["c", "b.jsonl"], Ok(&["c/1.warc", "c/2.warc", "c/d/0.warc", "b.jsonl"]));
        check(folder, &["*.jsonl"], Ok(&["a[1].jsonl", "b.jsonl"]));
        check(folder, &["c/?.warc", "b.json[a-z]"], Ok(&["c/1.warc", "c/2.warc", "b.jsonl"]));
        check(folder, &["**/0.warc"], Ok(&["c/d/0.warc"]));
        check(folder, &["[ce]"], Ok(&["c/1.warc", "c/2.warc", "c/d/0.warc"]));
        check(folder, &["a[1].jsonl"], Ok(&["a[1].jsonl"]));
        check(folder, &["b.jsonl", "missing"], Err("no such file"));
        check(folder, &["*.gz"], Err("no file matches"));
        check(folder, &["c/*.css"], Ok(&["c/style.css"]));
        check(folder, &["c/_metadata"], Ok(&["c/_metadata"]));
        check(folder, &["e"], Err("holds no files of pages"));
        check(folder, &["x["], Err("correct the pattern"));
        let names = |path: &str| -> Vec<String> {
            let named = named_files(&[folder.join(path)]).expect("files");
            named.into_iter().map(|file| file.name.display().to_string()).collect()
        };
        assert_eq!(names("c"), ["1.warc", "2.warc", "d/0.warc"]);
        assert_eq!(names("c/2.warc"), ["2.warc"]);
        assert_eq!(names("a[1].jsonl"), ["a[1].jsonl"]);
        assert_eq!(names("c/?.warc"), ["1.warc", "2.warc"]);
        assert_eq!(names("*/?.warc"), ["c/1.warc", "c/2.warc"]);
        assert_eq!(names("[ce]"), ["c/1.warc", "c/2.warc", "c/d/0.warc"]);
        assert_eq!(input_files(&["-".into()]).expect("standard input"), [PathBuf::from("-")]);
    }
}
