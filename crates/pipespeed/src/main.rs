//! The `pipespeed` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use pipespeed::cli::Cli;
use pipespeed::endpoint::process::{self, Role};
use pipespeed::failure::exit_code;

fn main() -> ExitCode {
    // An end of a trial: not a command for people, so not in the definition.
    let mut args = std::env::args();
    if args.nth(1).as_deref() == Some(process::SUBCOMMAND) {
        return match args.next().as_deref().and_then(Role::from_name) {
            Some(role) => exit_code("pipespeed", process::main(role).map_err(Into::into)),
            None => ExitCode::from(2),
        };
    }
    exit_code("pipespeed", pipespeed::commands::run(Cli::parse()))
}
