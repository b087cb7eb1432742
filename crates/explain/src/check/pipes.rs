//! Parts of checks: pipes, pages and child processes.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ExitStatus};
use std::time::Duration;

use anyhow::{Context, bail};
use fastpipe::buffer::{Buffer, PageSlice};
use fastpipe::pipe::{self, page_size};
use fastpipe::transfer::{Input, Output, SpliceOptions, VmspliceOptions};
use fastpipe::wait::Wait;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use pipespeed_base::process;
use pipespeed_host::process_memory::{ExaminedProcess as Target, Pagemap};
use pipespeed_host::refusals::{self, RefusableCall, Refusal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;

/// A system call that failed.
#[derive(Debug, thiserror::Error)]
#[error("{call}: {error}")]
pub(super) struct CallError {
    /// The call.
    pub call: RefusableCall,
    /// Its error.
    pub error: io::Error,
}

impl CallError {
    /// Who refused the call, if it was refused.
    pub fn refusal(&self) -> Option<Refusal> {
        refusals::explain(self.call.clone(), &self.error)
    }
}

/// Names the call that a result comes from.
pub(super) fn at<T>(
    call: impl Into<RefusableCall>,
    result: Result<T, impl Into<io::Error>>,
) -> Result<T, CallError> {
    result.map_err(|error| CallError {
        call: call.into(),
        error: error.into(),
    })
}

/// Outcome of a non-blocking call that moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MoveOutcome {
    Bytes(usize),
    /// EAGAIN.
    WouldBlock,
}

impl fmt::Display for MoveOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MoveOutcome::Bytes(bytes) => write!(f, "{bytes}"),
            MoveOutcome::WouldBlock => f.write_str("EAGAIN"),
        }
    }
}

fn moved(call: &'static str, result: Result<usize, Errno>) -> Result<MoveOutcome, CallError> {
    match result {
        Err(Errno::AGAIN) => Ok(MoveOutcome::WouldBlock),
        other => at(call, other).map(MoveOutcome::Bytes),
    }
}

/// Writes once.
pub(super) fn write(fd: impl AsFd, bytes: &[u8]) -> Result<MoveOutcome, CallError> {
    moved("write(2)", rustix::io::write(fd, bytes))
}

/// Makes one read of up to this many bytes.
pub(super) fn read(fd: impl AsFd, bytes: usize) -> Result<MoveOutcome, CallError> {
    let mut buffer = vec![0; bytes];
    moved("read(2)", rustix::io::read(fd, &mut buffer))
}

/// Both ends of a pipe. The errors of its methods are those of the calls that
/// they make.
pub(super) struct PipePair {
    pub read: OwnedFd,
    pub write: OwnedFd,
}

impl PipePair {
    /// A pipe whose calls never wait, so that no check can hang on one that is
    /// not as it should be.
    pub fn new() -> Result<Self, CallError> {
        PipePair::with(PipeFlags::NONBLOCK)
    }

    /// A pipe without O_NONBLOCK.
    pub fn blocking() -> Result<Self, CallError> {
        PipePair::with(PipeFlags::empty())
    }

    fn with(flags: PipeFlags) -> Result<Self, CallError> {
        let (read, write) = at(RefusableCall::Pipe2, pipe_with(flags | PipeFlags::CLOEXEC))?;
        Ok(PipePair { read, write })
    }

    /// A pipe that is full, with a page in each slot.
    pub fn full() -> Result<Self, CallError> {
        let pipe = PipePair::new()?;
        pipe.fill(page_size())?;
        Ok(pipe)
    }

    /// A pipe that refers to a page, or has a copy of it.
    pub fn holding(page: &Buffer, options: VmspliceOptions) -> Result<Self, CallError> {
        let pipe = PipePair::new()?;
        let mut output = Output::new(&pipe.write, Wait::Never);
        at("vmsplice(2)", output.vmsplice(&[page.slice(..)], options))?;
        Ok(pipe)
    }

    pub fn write(&self, bytes: usize) -> Result<MoveOutcome, CallError> {
        write(&self.write, &vec![0x5a; bytes])
    }

    pub fn read(&self, bytes: usize) -> Result<MoveOutcome, CallError> {
        read(&self.read, bytes)
    }

    /// Writes pieces of `piece` bytes until one is refused. Returns the bytes
    /// written.
    pub fn fill(&self, piece: usize) -> Result<usize, CallError> {
        let mut filled = 0;
        while let MoveOutcome::Bytes(bytes) = self.write(piece)? {
            filled += bytes;
        }
        Ok(filled)
    }

    /// Adds pieces by vmsplice until it would block. Returns the bytes added.
    pub fn vmsplice(&self, pieces: &[PageSlice<'_>]) -> Result<u64, CallError> {
        let mut output = Output::new(&self.write, Wait::Never);
        match output.vmsplice(pieces, VmspliceOptions::default()) {
            Ok(()) => Ok(output.counts().bytes),
            Err(end) if end.kind() == io::ErrorKind::WouldBlock => Ok(end.moved),
            Err(end) => at("vmsplice(2)", Err(end)),
        }
    }

    /// Moves a page from the pipe to another file.
    pub fn splice(&self, to: impl AsFd, options: SpliceOptions) -> Result<(), CallError> {
        splice_page(&self.read, to, options)
    }

    /// Duplicates a page of the pipe into another pipe.
    pub fn tee(&self, to: &PipePair) -> Result<(), CallError> {
        let mut input = Input::new(&self.read, Wait::Never);
        at("tee(2)", input.tee(&to.write, page_size())).map(drop)
    }

    /// Reads a page. Returns its first byte.
    pub fn first_byte(&self) -> Result<u8, CallError> {
        let mut bytes = vec![0; page_size()];
        let mut input = Input::new(&self.read, Wait::Never);
        at("read(2)", input.read_some(&mut bytes))?;
        Ok(bytes[0])
    }

    pub fn unread(&self) -> Result<usize, CallError> {
        at("ioctl(2) FIONREAD", pipe::unread(&self.read))
    }

    pub fn capacity(&self) -> Result<usize, CallError> {
        at("fcntl(2) F_GETPIPE_SZ", pipe::capacity(&self.write))
    }

    pub fn slots(&self) -> Result<usize, CallError> {
        at("fcntl(2) F_GETPIPE_SZ", pipe::slots(&self.write))
    }

    /// Returns the capacity granted.
    pub fn set_capacity(&self, bytes: usize) -> Result<usize, CallError> {
        let granted = pipe::set_capacity(&self.write, bytes);
        at(RefusableCall::SetPipeSize, granted)
    }
}

/// A base page.
pub(super) fn page() -> Result<Buffer, CallError> {
    at("mmap(2)", Buffer::builder().len(page_size()).map())
}

/// The number of the page's frame; `None` if this process may not see it.
pub(super) fn frame(page: &Buffer) -> io::Result<Option<u64>> {
    let pagemap = Pagemap::open(Target::Own)?;
    let entries = pagemap.entries(page.as_ptr().addr() as u64, 1)?;
    Ok(entries.first().and_then(|entry| entry.frame()))
}

/// Moves a page from one file to another, one of which is a pipe.
pub(super) fn splice_page(
    from: impl AsFd,
    to: impl AsFd,
    options: SpliceOptions,
) -> Result<(), CallError> {
    let mut input = Input::new(from, Wait::Never);
    let spliced = input.splice(to, page_size() as u64, options);
    at("splice(2)", spliced).map(drop)
}

/// The events that poll(2) reports now.
pub(super) fn ready(fd: impl AsFd, events: PollFlags) -> Result<PollFlags, CallError> {
    poll_for(fd, events, Timespec::default())
}

fn poll_for(fd: impl AsFd, events: PollFlags, time: Timespec) -> Result<PollFlags, CallError> {
    let mut fds = [PollFd::new(&fd, events)];
    let polled = rustix::io::retry_on_intr(|| poll(&mut fds, Some(&time)));
    at("poll(2)", polled)?;
    Ok(fds[0].revents())
}

/// Waits until a descriptor is readable, up to this many seconds in which this
/// process is not stopped. Returns whether it is.
pub(super) fn readable_within(fd: impl AsFd, seconds: u32) -> Result<bool, CallError> {
    // In parts: a stop (SIGSTOP) costs one of them.
    const PARTS_PER_SECOND: u32 = 10;
    let part = Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000_000 / i64::from(PARTS_PER_SECOND),
    };
    for _ in 0..seconds * PARTS_PER_SECOND {
        if !poll_for(&fd, PollFlags::IN, part)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Waits until nobody keeps the closed other end of a pipe open, at most a second: who reads fdinfo or a link of
/// /proc/PID/fd holds the file for a moment (seq_show() in fs/proc/fd.c).
pub(super) fn wait_for_last_close(fd: impl AsFd) -> Result<(), CallError> {
    let second = Timespec {
        tv_sec: 1,
        tv_nsec: 0,
    };
    // POLLHUP and POLLERR are reported unasked.
    poll_for(&fd, PollFlags::empty(), second).map(drop)
}

/// A child process. It is killed and reaped when it is dropped.
#[derive(Debug)]
pub(super) struct ChildGuard(Child);

impl ChildGuard {
    /// Timeout of [`wait`](Self::wait).
    const MAX_WAIT: Duration = Duration::from_secs(2);

    /// Starts a shell script with these standard descriptors and no others. Standard input
    /// is a pipe. Returns once the shell is executed.
    pub fn shell(script: &str, stdin: OwnedFd, stdout: OwnedFd) -> Result<Self, CallError> {
        // Whatever a shell or its loader prints by itself, of a library or a working directory
        // that is missing, is lost: the end of a pipe to read from can't be written to.
        let stderr = at("dup(2)", stdin.try_clone())?;
        let mut command = process::shell(script);
        let command = command.current_dir("/");
        let command = command.stdin(stdin).stdout(stdout).stderr(stderr);
        // Children inherit the signal mask, in which our parent may have blocked it.
        let pipe = SigSet::from(Signal::SIGPIPE);
        let before = pipe.thread_swap_mask(SigmaskHow::SIG_UNBLOCK);
        let spawned = command.process_group(0).spawn();
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
        spawned.map(ChildGuard).map_err(|error| CallError {
            call: match error.kind() {
                io::ErrorKind::NotFound => RefusableCall::Other(process::SHELL.to_owned()),
                _ => RefusableCall::Clone,
            },
            error,
        })
    }

    /// Its process id.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Waits for its end.
    pub fn wait(&mut self) -> anyhow::Result<ExitStatus> {
        let process = at("pidfd_open(2)", process::ProcessHandle::open(self.pid()))?;
        if !process.ends_within(Self::MAX_WAIT)? {
            bail!(
                "a child has not ended within {} s",
                Self::MAX_WAIT.as_secs()
            );
        }
        self.0.wait().context("wait")
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Neither does anything if it was reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
