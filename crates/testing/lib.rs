//! Helpers for tests: run programs with a deadline and under conditions, check what they
//! print, and skip visibly.

pub mod conditions;
pub mod pipelines;
pub mod procs;
// The file is fastpipe's, whose tests must not need an unpublished crate.
#[path = "../fastpipe/tests/common/skip.rs"]
mod skip;
pub mod terminal;

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::sync::Once;
use std::time::Duration;

use nix::sys::signal::{SigHandler, signal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

pub use self::skip::skip;

/// Deadline of every wait. A process that takes longer hangs, even on a slow and busy
/// machine.
pub const TIMEOUT: Duration = Duration::from_secs(120);

/// A program with arguments separated by blanks.
pub fn command(program: impl AsRef<OsStr>, args: &str) -> Command {
    let mut command = Command::new(program);
    command.args(args.split_whitespace());
    command
}

fn unwrap(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

/// Checks that a text has all of these words in it.
#[track_caller]
pub fn says(text: impl AsRef<str>, all_words: &[impl AsRef<str>]) {
    let text = text.as_ref();
    for words in all_words {
        let words = words.as_ref();
        assert!(text.contains(words), "{words:?} is missing: {text}");
    }
}

/// Checks that no line of a text is longer than this.
#[track_caller]
pub fn fits(text: &str, width: usize) {
    for line in text.lines() {
        assert!(line.chars().count() <= width, "{width}: {line}");
    }
}

/// Exit status and output of a process.
#[derive(Debug)]
pub struct Outcome {
    /// The command line, for messages.
    pub what: String,
    /// The exit status; `None` if a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Standard output, unless it was redirected.
    pub out: String,
    /// Standard error, without the lines that begin with [`BUSY`]: whether others use the
    /// machine is not up to a test.
    pub err: String,
    /// Standard error as it was.
    pub whole_err: String,
}

/// The beginning of the note that the machine is busy, and of the one that it no longer is.
pub const BUSY: [&str; 2] = [
    "note: the machine is busy: ",
    "note: the machine is no longer busy",
];

/// Text without the lines that begin with [`BUSY`].
fn without_busy(text: &str) -> String {
    let is_busy = |line: &&str| BUSY.iter().any(|beginning| line.starts_with(beginning));
    text.split_inclusive('\n')
        .filter(|line| !is_busy(line))
        .collect()
}

impl Outcome {
    /// Standard output as one line, to search for words that may go over several
    /// lines.
    pub fn unwrapped(&self) -> String {
        unwrap(&self.out)
    }

    /// Standard error as one line.
    pub fn unwrapped_err(&self) -> String {
        unwrap(&self.err)
    }

    /// Checks its status and its standard output.
    #[track_caller]
    pub fn assert_ended(&self, code: i32, out: &str) {
        assert_eq!((self.code, &*self.out), (Some(code), out), "{self:#?}");
    }

    /// Checks that it exited with status 0.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.code, Some(0), "{self:#?}");
        self
    }

    /// Checks that it exited with status 0 and printed nothing on standard error.
    #[track_caller]
    pub fn succeeded_in_silence(self) -> Self {
        assert_eq!((self.code, &*self.err), (Some(0), ""), "{self:#?}");
        self
    }

    /// Checks that it failed with this status, nothing on standard output, and
    /// one line on standard error that contains all of `words`.
    #[track_caller]
    pub fn refused(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.out, "", "{self:#?}");
        self.failed(code, words)
    }

    /// As [`refused`](Self::refused), with any text on standard output.
    #[track_caller]
    pub fn failed(self, code: i32, words: &[&str]) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        let line = self.err.strip_suffix('\n').unwrap_or_default();
        let one = !line.trim().is_empty() && !line.contains('\n');
        assert!(one, "not one line: {self:#?}");
        for word in words {
            assert!(line.contains(word), "{word:?} is missing: {self:#?}");
        }
        self
    }
}

/// A running process, killed when dropped.
#[derive(Debug)]
pub struct Running {
    what: String,
    child: Child,
    out: File,
    err: File,
}

/// Starts a command whose standard output and error are collected. Its standard
/// input is empty unless it was given one.
pub fn start(command: Command) -> Running {
    let out = tempfile::tempfile().unwrap();
    let stdout = Stdio::from(out.try_clone().unwrap());
    spawn(command, stdout, out)
}

/// Starts a command with standard output redirected.
pub fn start_into(command: Command, stdout: impl Into<Stdio>) -> Running {
    spawn(command, stdout.into(), tempfile::tempfile().unwrap())
}

/// Resets the signals that end a command to their defaults. They are ignored if the
/// tests were started in the background or by nohup(1), and child processes inherit that.
fn reset_signals() {
    use nix::sys::signal::Signal::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for number in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
            // SAFETY: no handler is replaced, since the test harness installs none.
            unsafe { signal(number, SigHandler::SigDfl) }.unwrap();
        }
    });
}

fn spawn(mut command: Command, stdout: Stdio, out: File) -> Running {
    reset_signals();
    let err = tempfile::tempfile().unwrap();
    command.stdout(stdout).stderr(err.try_clone().unwrap());
    let what = format!("{command:?}");
    let child = loop {
        match command.spawn() {
            Ok(child) => break child,
            // The program was copied a moment ago, and another thread forked while the
            // copy was open for writing: that child holds the descriptor until it calls exec.
            Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::yield_now();
            }
            Err(error) => panic!("{what}: {error}"),
        }
    };
    Running {
        what,
        child,
        out,
        err,
    }
}

/// Runs a command until it ends; see [`start`].
pub fn run(command: Command) -> Outcome {
    start(command).finish()
}

/// Runs a command with empty standard input.
pub fn run_alone(mut command: Command) -> Outcome {
    command.stdin(Stdio::null());
    run(command)
}

/// Runs two commands with a pipe between them.
pub fn pipeline(writer: Command, mut reader: Command) -> (Outcome, Outcome) {
    let (from, into) = std::io::pipe().unwrap();
    reader.stdin(from);
    let reader = start(reader);
    let writer = start_into(writer, into);
    (writer.finish(), reader.finish())
}

impl Running {
    /// The process.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal to the process.
    pub fn send(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Waits for the end of the process. Panics after the deadline.
    #[track_caller]
    pub fn finish(mut self) -> Outcome {
        if !self.has_ended() && !wait_for_end(self.pid()) {
            panic!("hangs: {} {}", self.what, text(&mut self.err));
        }
        let status = self.child.wait().unwrap();
        let whole_err = text(&mut self.err);
        Outcome {
            what: self.what.clone(),
            code: status.code(),
            signal: status.signal(),
            out: text(&mut self.out),
            err: without_busy(&whole_err),
            whole_err,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for a child's end without reaping it. Returns whether it ended before
/// the deadline.
pub(crate) fn wait_for_end(child: Pid) -> bool {
    wait_until_readable(pidfd_open(child, PidfdFlags::empty()).unwrap())
}

/// Waits until the descriptor has data or is at its end. Returns whether that happened
/// before the deadline.
pub fn wait_until_readable(fd: impl AsFd) -> bool {
    let timeout = Timespec::try_from(TIMEOUT).unwrap();
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut fds, Some(&timeout))).unwrap() > 0
}

fn text(file: &mut File) -> String {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

/// Parses JSON. Panics if it is malformed.
#[track_caller]
pub fn json(text: &str) -> serde_json::Value {
    match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => panic!("not JSON: {error}: {text:?}"),
    }
}

/// Reads a JSON file.
#[track_caller]
pub fn json_file(path: &std::path::Path) -> serde_json::Value {
    json(&std::fs::read_to_string(path).unwrap())
}

/// The names in a directory, sorted.
pub fn names_in(directory: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
