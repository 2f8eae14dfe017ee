//! The plan: which inputs become which outputs, by which rules.

use crate::backfill::is_free;
use crate::cli::args::{CorpusFormat, DedupArgs};
use crate::cli::backfill::{input_sizes, reading};
use crate::cli::exit::usage;
use crate::cli::output_path::{absolute, check_not_read, check_output, check_outside_stores};
use crate::cli::table::ending_of;
use crate::cli::wiring::{beside, check_local, refuse_star};
use crate::config::Config;
use crate::dedup::CorpusSpec;
use crate::document::{CanonicalRule, PageContent};
use crate::files::{CopyFormat, can_stay_same, named_files};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// What a deduplication reads and writes.
pub(super) struct Plan {
    /// The inputs, each once.
    pub inputs: Vec<PathBuf>,
    /// What a corpus under way must have in common with this one.
    pub spec: CorpusSpec,
    /// The folder of the corpus.
    pub out: PathBuf,
    /// The list of removed records.
    pub removed: Option<PathBuf>,
    /// What the kept records of each input are written as.
    pub formats: Vec<CopyFormat>,
}

impl Plan {
    /// Checks the inputs and names the outputs. Creates nothing.
    pub fn new(config: &Config, store: Option<&Path>, args: &DedupArgs) -> Result<Self> {
        check_local("--out", &args.out)?;
        args.removed.as_deref().map_or(Ok(()), |removed| check_local("--removed", removed))?;
        let is_new = store.is_none_or(is_free);
        if is_new {
            refuse_star(config, "a store of them, which --store takes")?;
        }
        let named = named_files(&args.inputs).map_err(usage)?;
        // There once the command has run or was killed: what it wrote is no input of it.
        let out = args.out.canonicalize().ok();
        let is_output = |whole: &str| out.as_ref().is_some_and(|out| Path::new(whole).starts_with(out));
        let sizes = input_sizes(&named.iter().map(|file| file.path.clone()).collect::<Vec<_>>())?;
        let mut seen = BTreeSet::new();
        let (mut inputs, mut names, mut rows, mut formats) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (file, (whole, n_bytes)) in named.into_iter().zip(sizes) {
            if !is_output(&whole) && seen.insert(whole.clone()) {
                let format = match args.format {
                    Some(CorpusFormat::Same) => CopyFormat::Same,
                    Some(CorpusFormat::Jsonl) => CopyFormat::Jsonl,
                    Some(CorpusFormat::Parquet) => CopyFormat::Parquet,
                    None if can_stay_same(&file.path) => CopyFormat::Same,
                    None => CopyFormat::Jsonl,
                };
                formats.push(format);
                rows.push((whole, n_bytes, output_name(&file.name, format, false)?));
                names.push(file.name);
                inputs.push(file.path);
            }
        }
        tell_apart(&mut rows, &names, &formats)?;
        if inputs.is_empty() {
            let out = args.out.display();
            return Err(usage(format!("--out {out} holds all inputs, and is not read; give another folder")));
        }
        if args.text.is_some() && formats.iter().all(|format| *format == CopyFormat::Same) {
            return Err(usage(
                "--text says which text is written, but records stay as they came; add --format jsonl or parquet",
            ));
        }
        check_outside_stores("--out", &args.out)?;
        if let Some(removed) = &args.removed {
            is_csv(removed)?;
            if removed.is_dir() {
                return Err(usage(format!("--removed {}: this is a folder; give a file", removed.display())));
            }
            check_output("--removed", removed, &inputs)?;
            check_output("--removed", &unfinished(removed), &inputs)?;
            if !absolute(removed)?.starts_with(absolute(&args.out)?) {
                check_not_read("--removed", removed, &args.inputs)?;
            }
        }
        let removed = args.removed.as_deref().map(absolute).transpose()?;
        check_names(&rows, removed.as_deref(), &absolute(&args.out)?)?;
        let spec = CorpusSpec {
            inputs: rows,
            rule: serde_json::to_string(&(config.rule(), args.threshold, args.containment))?,
            reading: reading(config)?,
            keep: args.keep.clone(),
            format: args.format.map_or("auto".into(), |format| format!("{format:?}").to_lowercase()),
            text: CanonicalRule { content: args.text.map_or(PageContent::All, PageContent::from) },
            removed: removed.map(|path| path.to_string_lossy().into_owned()),
            store: store.map(absolute).transpose()?.map(|path| path.to_string_lossy().into_owned()),
        };
        Ok(Plan { inputs, spec, out: args.out.clone(), removed: args.removed.clone(), formats })
    }

    /// Bytes of the inputs as files.
    pub fn n_bytes(&self) -> u64 {
        self.spec.inputs.iter().map(|(_, n_bytes, _)| n_bytes).sum()
    }
}

/// Whether the list of removed records is CSV, by what its name ends in; JSON lines otherwise.
pub(super) fn is_csv(removed: &Path) -> Result<bool> {
    match ending_of(removed).as_deref() {
        Some("csv") => Ok(true),
        None | Some("jsonl" | "ndjson") => Ok(false),
        Some(_) => Err(usage(format!("--removed {}: the name must end in .csv, .jsonl or .ndjson", removed.display()))),
    }
}

/// Where the list of removed records grows, beside the place where it will be.
pub(super) fn unfinished(removed: &Path) -> PathBuf {
    beside(removed, ".unfinished")
}

/// Gives outputs that would have one name, such as those of `a.warc` and `a.arc`, names that keep what their inputs end in.
fn tell_apart(rows: &mut [(String, u64, String)], names: &[PathBuf], formats: &[CopyFormat]) -> Result<()> {
    let mut n_named: BTreeMap<String, usize> = BTreeMap::new();
    rows.iter().for_each(|(_, _, output)| *n_named.entry(output.clone()).or_default() += 1);
    for (((_, _, output), name), format) in rows.iter_mut().zip(names).zip(formats) {
        if n_named.get(output).is_some_and(|n| *n > 1) {
            *output = output_name(name, *format, true)?;
        }
    }
    Ok(())
}

/// The name of an input's output. With `keeps_end`, an output of text is named after all of the input's name.
fn output_name(name: &Path, format: CopyFormat, keeps_end: bool) -> Result<String> {
    let text =
        name.to_str().ok_or_else(|| usage(format!("{}: the name is not UTF-8; rename the file", name.display())))?;
    let (end, keeps_compression) = match format {
        CopyFormat::Same => return Ok(text.into()),
        CopyFormat::Jsonl => (".jsonl", true),
        CopyFormat::Parquet => (".parquet", false),
    };
    if keeps_end && !keeps_compression {
        return Ok(format!("{text}{end}"));
    }
    let compression =
        [".gz", ".zst", ".zstd", ".xz", ".bz2"].into_iter().find(|end| text.ends_with(end)).unwrap_or_default();
    let stem = text.strip_suffix(compression).unwrap_or(text);
    let plain = stem.rsplit_once('.').filter(|(before, end)| !keeps_end && !before.is_empty() && !end.contains('/'));
    let compression = if keeps_compression { compression } else { "" };
    Ok(format!("{}{end}{compression}", plain.map_or(stem, |(before, _)| before)))
}

/// Fails where two outputs would have one name, or the list cannot be where it is wanted.
fn check_names(rows: &[(String, u64, String)], removed: Option<&Path>, out: &Path) -> Result<()> {
    let folder = removed.and_then(Path::parent).filter(|folder| *folder != out && !folder.is_dir());
    if let Some(folder) = folder {
        return Err(usage(format!("--removed: {} is no folder; create it, or give another file", folder.display())));
    }
    let mut by_name: BTreeMap<&str, &str> = BTreeMap::new();
    for (input, _, name) in rows {
        if let Some(other) = by_name.insert(name, input) {
            return Err(usage(format!(
                "{other} and {input} would both be written to {name}; give the folder that holds both, whose paths are \
                 kept, or another --out for each, or rename one"
            )));
        }
        if Path::new(name).components().next().is_some_and(|first| first.as_os_str() == ".dedup") {
            return Err(usage(format!("{input}: an output cannot be named {name}; rename the file")));
        }
        if removed.is_some_and(|removed| removed == out.join(name)) {
            return Err(usage(format!("--removed names the output of {input}; give another file")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_of_text_are_named_after_their_inputs() {
        for (name, expected) in [
            ("a.jsonl", "a.jsonl"),
            ("a.jsonl.zst", "a.jsonl.zst"),
            ("b/a.warc.gz", "b/a.jsonl.gz"),
            ("CC-MAIN-2026.warc.wet.gz", "CC-MAIN-2026.warc.jsonl.gz"),
            ("pages", "pages.jsonl"),
            (".hidden", ".hidden.jsonl"),
            ("b.d/pages", "b.d/pages.jsonl"),
        ] {
            assert_eq!(output_name(Path::new(name), CopyFormat::Jsonl, false).expect(name), expected);
            assert_eq!(output_name(Path::new(name), CopyFormat::Same, false).expect(name), name);
            let stem = expected.split(".jsonl").next().expect("a stem");
            assert_eq!(
                output_name(Path::new(name), CopyFormat::Parquet, false).expect(name),
                format!("{stem}.parquet")
            );
        }
    }

    /// Refused once: a folder in which two files differ only in their ends.
    #[test]
    fn outputs_of_one_name_are_told_apart() {
        let named = |format, names: &[&str]| {
            let names: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
            let row = |name: &PathBuf| (String::new(), 0, output_name(name, format, false).expect("a name"));
            let mut rows: Vec<_> = names.iter().map(row).collect();
            tell_apart(&mut rows, &names, &vec![format; names.len()]).expect("named");
            rows.into_iter().map(|(_, _, output)| output).collect::<Vec<_>>()
        };
        let inputs = ["a.warc", "a.warc.gz", "a.arc", "d.x/a.arc"];
        assert_eq!(named(CopyFormat::Jsonl, &inputs), ["a.warc.jsonl", "a.jsonl.gz", "a.arc.jsonl", "d.x/a.jsonl"]);
        let expected = ["a.warc.parquet", "a.warc.gz.parquet", "a.arc.parquet", "d.x/a.parquet"];
        assert_eq!(named(CopyFormat::Parquet, &inputs), expected);
        assert_eq!(named(CopyFormat::Same, &["a", "a"]), ["a", "a"]);
    }
}
