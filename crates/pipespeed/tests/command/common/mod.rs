//! The command under test, and records of invented runs.

pub mod fake;
pub mod records;

use std::fmt::Write;
use std::process::Command;

pub use pipespeed_testing::*;

/// The path of the command.
pub const PIPESPEED: &str = env!("CARGO_BIN_EXE_pipespeed");

/// The command with arguments separated by blanks, in a directory where measurements may
/// be saved.
pub fn pipespeed(args: &str) -> Command {
    let mut command = command(PIPESPEED, args);
    command.current_dir(env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Runs the command without standard input for each of these arguments. Checks
/// that each is bad usage: exit status 2, one line on standard error, nothing
/// else. Returns the command lines with those lines, for a snapshot.
#[track_caller]
pub fn usage_errors<A: AsRef<str>>(all_args: impl IntoIterator<Item = A>) -> String {
    let mut transcript = String::new();
    for args in all_args {
        let args = args.as_ref();
        let mut command = pipespeed(args);
        // Should it be accepted after all, it must not fill the disk.
        conditions::limit(&mut command, rustix::process::Resource::Fsize, 1 << 20);
        let outcome = run_alone(command).refused(2, &[]);
        write!(transcript, "$ pipespeed {args}\n{}", outcome.err).unwrap();
    }
    transcript
}
