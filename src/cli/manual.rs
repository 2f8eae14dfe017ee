//! `lookalike completions` and `lookalike man`: what shells and manuals know of the command line.

use super::args::Args;
use super::exit::{Exit, file_error};
use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;
use std::io::{Write, stdout};
use std::path::Path;

/// Prints a shell's completion script.
pub(super) fn completions(shell: Shell) -> Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "lookalike", &mut script);
    stdout().write_all(&script)?;
    Ok(Exit::Done)
}

/// Prints the manual page of the program, or writes that of every command into a folder.
pub(super) fn man(folder: Option<&Path>) -> Result<Exit> {
    let Some(folder) = folder else {
        let mut page = Vec::new();
        clap_mangen::Man::new(Args::command()).render(&mut page)?;
        stdout().write_all(&page)?;
        return Ok(Exit::Done);
    };
    std::fs::create_dir_all(folder)
        .and_then(|()| clap_mangen::generate_to(Args::command(), folder))
        .map_err(|error| file_error("write manual pages into", folder, &error))?;
    Ok(Exit::Done)
}
