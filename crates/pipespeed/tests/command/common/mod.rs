//! The command under test, and records of invented runs.

pub mod fake;
pub mod records;

use std::fmt::Write;
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use procs::Mark;
use serde_json::Value;
use tempfile::TempDir;

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

/// The command in this directory.
pub fn pipespeed_in(directory: impl AsRef<Path>, args: &str) -> Command {
    let mut command = pipespeed(args);
    command.current_dir(directory);
    command
}

/// Runs the command in this directory.
pub fn run_in(directory: impl AsRef<Path>, args: &str) -> Outcome {
    run_alone(pipespeed_in(directory, args))
}

/// Starts a command that can be found by its mark.
pub fn start_marked(mut command: Command) -> (Running, Mark) {
    let mark = Mark::on(&mut command);
    (start(command), mark)
}

/// A running command that can be found by its mark, with a directory of its own and another one
/// for temporary files.
pub struct Marked {
    pub running: Running,
    pub mark: Mark,
    pub directory: TempDir,
    private: TempDir,
}

impl Marked {
    pub fn start(args: &str) -> Self {
        Marked::prepared(args, |_| ())
    }

    pub fn prepared(args: &str, prepare: impl FnOnce(&mut Command)) -> Self {
        let [directory, private] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let mut command = pipespeed_in(&directory, args);
        command.env("TMPDIR", private.path());
        prepare(&mut command);
        let (running, mark) = start_marked(command);
        Marked {
            running,
            mark,
            directory,
            private,
        }
    }

    /// The path of the record `run.json`.
    pub fn record_path(&self) -> PathBuf {
        self.directory.path().join("run.json")
    }

    /// Waits until a round has been saved.
    pub fn saved(self) -> Self {
        let path = self.record_path();
        procs::eventually(|| path.exists().then_some(())).unwrap();
        self
    }

    /// Waits for the end, which leaves no process and no temporary file.
    #[track_caller]
    pub fn finish(self) -> (Outcome, TempDir) {
        let outcome = self.running.finish();
        self.mark.nobody_left();
        assert!(names_in(self.private.path()).is_empty());
        (outcome, self.directory)
    }

    /// Waits for the end, of which nothing but the record `run.json` is left.
    #[track_caller]
    pub fn recorded(self) -> (Outcome, Value) {
        let (outcome, directory) = self.finish();
        assert_eq!(names_in(directory.path()), ["run.json"], "{outcome:#?}");
        (outcome, json_file(&directory.path().join("run.json")))
    }
}

/// Runs a command without standard input, which leaves no process.
#[track_caller]
pub fn run_marked(mut command: Command) -> Outcome {
    let mark = Mark::on(&mut command);
    let outcome = run_alone(command);
    mark.nobody_left();
    outcome
}

/// The record that a command that succeeds writes to standard output.
#[track_caller]
pub fn recorded(command: Command) -> Value {
    json(&run_alone(command).succeeded().out)
}

/// The case of this name in a record or a comparison.
#[track_caller]
pub fn case<'a>(record: &'a Value, name: &str) -> &'a Value {
    let cases = record["cases"].as_array().unwrap();
    let found = cases.iter().find(|case| case["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {record:#}"))
}

/// Why the case of this name was not run; empty if it was.
#[track_caller]
pub fn refusal<'a>(record: &'a Value, name: &str) -> &'a str {
    let reason = &case(record, name)["not_run"]["reason"];
    reason.as_str().unwrap_or_default()
}

/// A device that has no room.
pub fn full_device() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

/// A running command, and the far ends of the pipes at its standard input and output.
pub struct Piped {
    pub running: Running,
    pub into: PipeWriter,
    pub out: PipeReader,
}

/// Starts a command between two pipes.
pub fn start_piped(mut command: Command) -> Piped {
    let (from, into) = std::io::pipe().unwrap();
    let (out, out_into) = std::io::pipe().unwrap();
    command.stdin(from);
    let running = start_into(command, out_into);
    Piped { running, into, out }
}

/// What a command writes to a pipe until it ends, and how it ends.
pub fn written_by(command: Command) -> (Outcome, Vec<u8>) {
    let (mut out, into) = std::io::pipe().unwrap();
    let running = start_into(command, into);
    let mut got = Vec::new();
    out.read_to_end(&mut got).unwrap();
    (running.finish(), got)
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
