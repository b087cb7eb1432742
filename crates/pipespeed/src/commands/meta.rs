//! Completions and the manual page, generated from the command line's definition.

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

/// Prints the manual page of the command, followed by those of the subcommands.
///
/// # Errors
/// Standard output can't be written.
pub fn man() -> anyhow::Result<()> {
    let mut page = Vec::new();
    let mut command = cli::command();
    command.build();
    clap_mangen::Man::new(command.clone()).render(&mut page)?;
    for subcommand in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        clap_mangen::Man::new(subcommand.clone()).render(&mut page)?;
    }
    print(page)
}
