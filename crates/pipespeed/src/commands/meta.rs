//! Completions and the manual pages, generated from the command line's definition.

use std::fs;
use std::path::Path;

use anyhow::Context;

use crate::cli;
use pipespeed_base::output::print;

/// Prints completions for a shell.
///
/// # Errors
/// Standard output can't be written.
pub fn completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "pipespeed", &mut script);
    print(script)
}

/// Prints the manual page of the command, followed by those of the subcommands; or writes each page
/// to a file of its own in a directory, which is created if it is missing.
///
/// # Errors
/// Standard output, or the directory, can't be written.
pub fn man(directory: Option<&Path>) -> anyhow::Result<()> {
    let command = cli::command();
    if let Some(directory) = directory {
        let written = fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(command, directory));
        return written.with_context(|| format!("--dir: cannot write {}", directory.display()));
    }
    let mut page = Vec::new();
    let mut command = command;
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        clap_mangen::Man::new(subcommand.clone()).render(&mut page)?;
    }
    print(page)
}
