//! Tells the program the commit and date it was built from, where it is built from a checkout.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut version = env!("CARGO_PKG_VERSION").to_string();
    // The pure rooms have no `--version`, and a new commit must not rebuild their tests.
    if std::env::var_os("CARGO_FEATURE_SERVICE").is_some()
        && let Some(commit) = commit()
    {
        version += &format!(" ({commit})");
    }
    println!("cargo::rustc-env=LOOKALIKE_VERSION={version}");
}

/// The short hash and the day of the commit; none outside a checkout, as in a crate's archive, or without git.
fn commit() -> Option<String> {
    // An archive that lies inside another checkout must not show that checkout's commit.
    if !Path::new(env!("CARGO_MANIFEST_DIR")).join(".git").exists() {
        return None;
    }
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    // The log of HEAD changes with every commit, also where the branch is in packed-refs.
    for name in ["HEAD", "logs/HEAD", "packed-refs"].into_iter().chain(branch.as_deref()) {
        // Cargo would run this script at every build if one of these were missing.
        if let Some(path) = git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).exists()) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["log", "-1", "--format=%h %cs"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?.trim().to_string();
    Some(text).filter(|text| output.status.success() && !text.is_empty())
}
