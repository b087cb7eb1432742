//! Parses the command line and reports wrong usage in one line.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use crate::step::arguments;
use clap::{Args, FromArgMatches};
use pipespeed_base::failure::{
    AlreadyReported, exit_code, full_message, require_memory, require_stack, require_stdout, say,
    usage,
};
use pipespeed_base::output::{print, print_on_stderr};
use pipespeed_base::size;
use pipespeed_base::standard::has_colours;

/// Width of the help where the terminal's is unknown.
const WIDTH: usize = 100;

/// Smallest stack. Defining all subcommands takes most of it, and more if it is not optimised.
const MIN_STACK: u64 = if cfg!(debug_assertions) {
    256 << 10
} else {
    128 << 10
};

/// The same for the options of `boost` alone.
const MIN_BOOST_STACK: u64 = MIN_STACK / 2;

/// Smallest address space: for the program itself and a few allocations.
const MIN_ADDRESS_SPACE: u64 = 32 << 20;

/// Parses the command line. Prints wrong usage in one line, like every error; clap
/// prints help and version. Standard output must be open, unless only the command of `boost`
/// would use it.
///
/// # Errors
/// The exit status to end with.
pub fn parse(program: &'static str) -> Result<super::Cli, ExitCode> {
    let is_boost = arguments().get(1).is_some_and(|word| word == "boost");
    let stack = if is_boost { MIN_BOOST_STACK } else { MIN_STACK };
    // A command that is not boosted is better than none.
    let space = if is_boost { 0 } else { MIN_ADDRESS_SPACE };
    require_stack(stack)
        .and_then(|()| require_memory(space, 0))
        .map_err(|error| exit_code(program, Err(failure(error))))?;
    let boost = boost();
    let prints = |args: &super::BoostArgs| args.pid.is_some() || args.proof.prove.is_some();
    if boost.as_ref().is_none_or(prints) {
        require_stdout().map_err(|error| exit_code(program, Err(error)))?;
    }
    let needs_stack = |args: &super::BoostArgs| args.proof.prove.is_some();
    if boost.as_ref().is_none_or(needs_stack) {
        require_stack(MIN_STACK).map_err(|error| exit_code(program, Err(failure(error))))?;
    }
    match boost {
        Some(args) => Ok(super::Cli {
            command: super::Command::Boost(Box::new(args)),
        }),
        None => parse_command(program, super::command()),
    }
}

/// The failure with the exit status that the subcommand has for it: where 1 has a meaning of its own,
/// another one.
pub fn failure(error: anyhow::Error) -> anyhow::Error {
    // Of `meter`: data can't be passed on, as in pv(1).
    const TRANSFER: u8 = 16;
    let subcommand = arguments().into_iter().nth(1);
    match subcommand.as_ref().and_then(|word| word.to_str()) {
        Some("doctor" | "compare") => usage(full_message(&error)),
        Some("meter") => {
            say(&format!("pipespeed: {}", full_message(&error)));
            AlreadyReported(TRANSFER).into()
        }
        _ => error,
    }
}

/// Parses a correct command line of `boost`. To define all subcommands takes half as long as
/// to start a shell, and every pipeline that is boosted would wait for it.
fn boost() -> Option<super::BoostArgs> {
    let mut words = arguments().into_iter().skip(1).peekable();
    words.peek().filter(|word| *word == "boost")?;
    let command = super::BoostArgs::augment_args(clap::Command::new("boost"));
    let matches = command.infer_long_args(true).try_get_matches_from(words);
    super::BoostArgs::from_arg_matches(&matches.ok()?).ok()
}

/// Parses the arguments of one of the published programs, which accept a pipe size of 0
/// (the size is not set) and 0 bytes to pipe.
pub fn parse_published(program: &'static str) -> Result<super::PublishedArgs, ExitCode> {
    let about = format!("The published {program}, with its options and output");
    let size_or_zero = |text: &str| -> Result<usize, String> {
        match size::parse_or_zero(text)? {
            0 => Ok(0),
            _ => size::parse(text),
        }
    };
    let command = <super::PublishedArgs as clap::CommandFactory>::command()
        .about(about)
        .mut_arg("pipe_size", |arg| arg.value_parser(size_or_zero))
        .mut_arg("bytes_to_pipe", |arg| arg.value_parser(size_or_zero));
    parse_command(program, command)
}

fn parse_command<P: clap::Parser>(
    program: &'static str,
    command: clap::Command,
) -> Result<P, ExitCode> {
    use clap::error::ErrorKind;
    let mut command = command;
    // It says nothing, and clap would break lines after each word.
    if std::env::var_os("COLUMNS").is_some_and(|columns| columns == "0") {
        command = command.term_width(WIDTH);
    }
    let matches = command.name(program).try_get_matches_from(arguments());
    let parsed = matches.and_then(|matches| P::from_arg_matches(&matches));
    parsed.map_err(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let text = help(&error, io::stdout().is_terminal());
            exit_code(program, print(text))
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // On standard error, where a failure can't be reported.
            let _ = print_on_stderr(help(&error, io::stderr().is_terminal()));
            ExitCode::from(2)
        }
        ErrorKind::InvalidUtf8 => exit_code(program, Err(not_utf8())),
        _ => exit_code(program, Err(usage(one_line(&error.to_string())))),
    })
}

/// The text of help, with colours if they may be used. clap's own printing would lose text on a
/// descriptor with O_NONBLOCK.
fn help(error: &clap::Error, is_terminal: bool) -> String {
    let text = error.render();
    if is_terminal && has_colours() {
        text.ansi().to_string()
    } else {
        text.to_string()
    }
}

/// Names the arguments that are not UTF-8, which clap does not.
fn not_utf8() -> anyhow::Error {
    let args = arguments().into_iter();
    let args = args.filter(|arg| arg.to_str().is_none());
    let args: Vec<String> = args.map(|arg| format!("{arg:?}")).collect();
    usage(format!("not UTF-8: {} (see --help)", args.join(", ")))
}

/// Joins the lines of clap's message, without its tips and the usage.
fn one_line(message: &str) -> String {
    let mut line = String::new();
    for part in message.lines().map(str::trim) {
        let left_out = ["tip:", "Usage:", "For more information"];
        if part.is_empty() || left_out.iter().any(|start| part.starts_with(start)) {
            continue;
        }
        if !line.is_empty() {
            let continues = part.starts_with('[') || line.ends_with(':');
            line.push_str(if continues { " " } else { ", " });
        }
        line.push_str(part);
    }
    let line = line.strip_prefix("error: ").unwrap_or(&line);
    format!("{line} (see --help)")
}
