//! The `pipespeed` command.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use pipespeed::cli::Cli;
use pipespeed::endpoint::process::{self, Role};
use pipespeed::failure::{exit_code, parse};

fn main() -> ExitCode {
    // An end of a trial: not a command for people, so not in the definition.
    let mut args = std::env::args();
    if args.nth(1).as_deref() == Some(process::SUBCOMMAND) {
        return match args.next().as_deref().and_then(Role::from_name) {
            Some(role) => exit_code("pipespeed", process::main(role).map_err(Into::into)),
            None => ExitCode::from(2),
        };
    }
    match parse::<Cli>("pipespeed") {
        Ok(cli) => exit_code("pipespeed", pipespeed::commands::run(cli)),
        Err(code) => code,
    }
}
