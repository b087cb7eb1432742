//! The `pipespeed` command.
#![forbid(unsafe_code)]

use std::io;
use std::process::ExitCode;

use pipespeed::cli::{failure, parse};
use pipespeed::step;
use pipespeed_base::failure::{exit_code, to_stdout};
use pipespeed_base::interrupt::survive_sigxfsz;
use pipespeed_base::output::check_by_closing;
use pipespeed_base::standard;
use pipespeed_explain::costs::echo;
use pipespeed_measure::session::SUBCOMMAND;
use pipespeed_measure::spec::ProcessRole;
use pipespeed_pipeline::proc::pipe_probe;
use pipespeed_pipeline::raise;

fn main() -> ExitCode {
    standard::reset_sigchld();
    if let Err(error) = survive_sigxfsz() {
        return exit_code("pipespeed", Err(error.into()));
    }
    // The internal subcommand of child processes (an end of a trial, or another helper) is
    // not part of `Cli`, so that it does not appear in the help.
    let mut args = std::env::args_os();
    if args.nth(1).is_some_and(|word| word == SUBCOMMAND) {
        let role = args.next();
        if role.as_deref().is_some_and(|role| role == echo::ROLE) {
            return exit_code("pipespeed", echo::main().map_err(Into::into));
        }
        if role.as_deref().is_some_and(|role| role == pipe_probe::ROLE) {
            return pipe_probe::main(raise::answer);
        }
        if role.as_deref().is_some_and(|role| role == step::ROLE) {
            return match step::end_with(args.next()) {
                Ok(()) => run(),
                Err(error) => exit_code("pipespeed", Err(error)),
            };
        }
        return match role.and_then(|role| role.to_str()?.parse::<ProcessRole>().ok()) {
            Some(role) => exit_code(
                "pipespeed",
                pipespeed_measure::serve(role).map_err(Into::into),
            ),
            None => ExitCode::from(2),
        };
    }
    run()
}

fn run() -> ExitCode {
    match parse("pipespeed") {
        Ok(cli) => {
            let outcome = step::leave_interruption(pipespeed::commands::run(cli));
            // A full disk of NFS is found only now.
            let outcome =
                outcome.and_then(|()| to_stdout(check_by_closing(io::stdout())).map_err(failure));
            exit_code("pipespeed", outcome)
        }
        Err(code) => code,
    }
}
