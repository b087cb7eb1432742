//! Running the published programs, with a deadline.

// Each test program uses a part of this.
#![allow(dead_code)]

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// Nothing here takes so long unless it hangs, on a slow and busy machine either.
const PATIENCE: Duration = Duration::from_secs(120);

/// The published `write`, with arguments separated by blanks.
pub fn write(args: &str) -> Command {
    program(env!("CARGO_BIN_EXE_write"), args)
}

/// The published `read`.
pub fn read(args: &str) -> Command {
    program(env!("CARGO_BIN_EXE_read"), args)
}

/// The published `get-user-pages`.
pub fn get_user_pages(args: &str) -> Command {
    program(env!("CARGO_BIN_EXE_get-user-pages"), args)
}

fn program(path: &str, args: &str) -> Command {
    let mut command = Command::new(path);
    command.args(args.split_whitespace()).stdin(Stdio::null());
    command
}

/// How a process ended and what it said.
#[derive(Debug)]
pub struct Outcome {
    pub what: String,
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Outcome {
    /// Checks that it ended well, in silence on standard error.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!((self.code, &*self.err), (Some(0), ""), "{self:#?}");
        self
    }

    /// Checks that it failed with this status and one line on standard error
    /// in which all of `words` stand.
    #[track_caller]
    pub fn refused(self, code: i32, words: &[&str]) -> Self {
        assert_eq!((self.code, &*self.out), (Some(code), ""), "{self:#?}");
        let line = self.err.strip_suffix('\n').unwrap_or_default();
        let one = !line.trim().is_empty() && !line.contains('\n');
        assert!(one, "not one line: {self:#?}");
        for word in words {
            assert!(line.contains(word), "{word:?} is missing: {self:#?}");
        }
        self
    }
}

/// A process under way, killed when it is dropped.
#[derive(Debug)]
pub struct Running {
    what: String,
    child: Child,
    out: File,
    err: File,
}

/// Starts a command whose standard output and error are collected.
pub fn start(command: Command) -> Running {
    let out = tempfile::tempfile().unwrap();
    let stdout = Stdio::from(out.try_clone().unwrap());
    spawn(command, stdout, out)
}

/// Starts a command whose standard output goes elsewhere.
pub fn start_into(command: Command, stdout: impl Into<Stdio>) -> Running {
    spawn(command, stdout.into(), tempfile::tempfile().unwrap())
}

fn spawn(mut command: Command, stdout: Stdio, out: File) -> Running {
    let err = tempfile::tempfile().unwrap();
    command.stdout(stdout).stderr(err.try_clone().unwrap());
    let child = command.spawn().unwrap();
    Running {
        what: format!("{command:?}"),
        child,
        out,
        err,
    }
}

/// `write | read`.
pub fn pipeline(writer: Command, mut reader: Command) -> (Outcome, Outcome) {
    let (from, into) = std::io::pipe().unwrap();
    reader.stdin(from);
    let reader = start(reader);
    let writer = start_into(writer, into);
    (writer.finish(), reader.finish())
}

impl Running {
    /// Kills it.
    pub fn kill(&self) {
        kill_process(Pid::from_child(&self.child), Signal::KILL).unwrap();
    }

    /// Waits for its end.
    #[track_caller]
    pub fn finish(mut self) -> Outcome {
        let ended = self.child.try_wait().unwrap().is_some();
        let pid = Pid::from_child(&self.child);
        if !ended && !readable(pidfd_open(pid, PidfdFlags::empty()).unwrap()) {
            panic!("hangs: {} {}", self.what, text(&mut self.err));
        }
        let status = self.child.wait().unwrap();
        Outcome {
            what: self.what.clone(),
            code: status.code(),
            out: text(&mut self.out),
            err: text(&mut self.err),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until there is something to read.
pub fn readable(fd: impl AsFd) -> bool {
    let timeout = Timespec {
        tv_sec: PATIENCE.as_secs() as i64,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut fds, Some(&timeout))).unwrap() > 0
}

fn text(file: &mut File) -> String {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}
