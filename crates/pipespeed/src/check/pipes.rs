//! What checks do to pipes of their own. All of these never block, so that no
//! check can hang on a pipe that is not as it should be.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use anyhow::Context;
use fastpipe::pipe::page_size;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::Outcome;

/// What stands before the error of pipe2(2), so that it is known by.
#[derive(Debug, thiserror::Error)]
#[error("pipe2(2)")]
pub(super) struct NoPipe;

/// The reading and the writing end of a new pipe, neither of which has
/// O_NONBLOCK: for the few checks that need it so.
///
/// # Errors
/// Those of pipe2(2).
pub(super) fn blocking() -> anyhow::Result<(OwnedFd, OwnedFd)> {
    fastpipe::pipe::create().context(NoPipe)
}

/// The ends of a new pipe.
pub(super) struct Ends {
    pub read: OwnedFd,
    pub write: OwnedFd,
}

impl Ends {
    /// A new pipe, both of whose ends have O_NONBLOCK.
    ///
    /// # Errors
    /// Those of pipe2(2).
    pub fn new() -> anyhow::Result<Ends> {
        Ends::with(PipeFlags::empty())
    }

    /// The same, with more flags.
    ///
    /// # Errors
    /// Those of pipe2(2).
    pub fn with(flags: PipeFlags) -> anyhow::Result<Ends> {
        let flags = flags | PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (read, write) = pipe_with(flags).context(NoPipe)?;
        Ok(Ends { read, write })
    }

    /// Writes pieces of `piece` bytes until one is not taken whole. Returns the
    /// bytes that went in.
    ///
    /// # Errors
    /// Those of write(2), but for EAGAIN.
    pub fn fill(&self, piece: usize) -> anyhow::Result<usize> {
        fill(&self.write, piece)
    }

    /// A pipe as it is when all its slots are in use, a page in each.
    ///
    /// # Errors
    /// Those of pipe2(2) and write(2).
    pub fn full() -> anyhow::Result<Ends> {
        let ends = Ends::new()?;
        ends.fill(page_size())?;
        Ok(ends)
    }

    /// Writes once.
    ///
    /// # Errors
    /// Those of write(2), but for EAGAIN.
    pub fn write(&self, bytes: usize) -> anyhow::Result<Moved> {
        write(&self.write, &vec![0x5a; bytes])
    }

    /// Reads once.
    ///
    /// # Errors
    /// Those of read(2), but for EAGAIN.
    pub fn read(&self, bytes: usize) -> anyhow::Result<Moved> {
        let mut into = vec![0; bytes];
        moved(rustix::io::read(&self.read, &mut into)).context("read")
    }

    /// The bytes unread.
    ///
    /// # Errors
    /// Those of ioctl(2).
    pub fn unread(&self) -> anyhow::Result<usize> {
        fastpipe::pipe::unread(&self.read).context("ioctl FIONREAD")
    }
}

/// What a call that does not wait came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moved {
    /// So many bytes were moved.
    Bytes(usize),
    /// EAGAIN: it would have had to wait.
    WouldWait,
}

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Moved::Bytes(bytes) => write!(f, "{bytes}"),
            Moved::WouldWait => f.write_str("EAGAIN"),
        }
    }
}

pub(super) fn moved(result: Result<usize, Errno>) -> io::Result<Moved> {
    match result {
        Ok(bytes) => Ok(Moved::Bytes(bytes)),
        Err(Errno::AGAIN) => Ok(Moved::WouldWait),
        Err(errno) => Err(errno.into()),
    }
}

/// Writes once.
///
/// # Errors
/// Those of write(2), but for EAGAIN.
pub(super) fn write(fd: impl AsFd, bytes: &[u8]) -> anyhow::Result<Moved> {
    moved(rustix::io::write(fd, bytes)).context("write")
}

/// See [`Ends::fill`].
///
/// # Errors
/// Those of write(2), but for EAGAIN.
pub(super) fn fill(fd: impl AsFd, piece: usize) -> anyhow::Result<usize> {
    let bytes = vec![0x5a; piece];
    let mut filled = 0;
    loop {
        match write(&fd, &bytes)? {
            Moved::Bytes(some) => filled += some,
            Moved::WouldWait => return Ok(filled),
        }
    }
}

/// What poll(2) reports at once.
///
/// # Errors
/// Those of poll(2).
pub(super) fn ready(fd: impl AsFd, events: PollFlags) -> anyhow::Result<PollFlags> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let mut fds = [PollFd::new(&fd, events)];
    rustix::io::retry_on_intr(|| poll(&mut fds, Some(&now))).context("poll")?;
    Ok(fds[0].revents())
}

/// Waits until a descriptor is readable, but no longer than so many seconds in
/// which this process runs. Returns whether it is.
///
/// # Errors
/// Those of poll(2).
pub(super) fn readable_within(fd: impl AsFd, seconds: u32) -> anyhow::Result<bool> {
    // In parts: one in which the process stands still (SIGSTOP) is one only.
    const A_SECOND: u32 = 10;
    let part = Timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000_000 / i64::from(A_SECOND),
    };
    for _ in 0..seconds * A_SECOND {
        let mut fds = [PollFd::new(&fd, PollFlags::IN)];
        if rustix::io::retry_on_intr(|| poll(&mut fds, Some(&part))).context("poll")? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Flags of poll(2) by their names.
pub(super) fn names(flags: PollFlags) -> String {
    let known = [
        (PollFlags::IN, "POLLIN"),
        (PollFlags::OUT, "POLLOUT"),
        (PollFlags::HUP, "POLLHUP"),
        (PollFlags::ERR, "POLLERR"),
        (PollFlags::NVAL, "POLLNVAL"),
    ];
    let there = known.iter().filter(|(flag, _)| flags.contains(*flag));
    let names: Vec<&str> = there.map(|(_, name)| *name).collect();
    match names.is_empty() {
        true => "nothing".to_owned(),
        false => names.join(" and "),
    }
}

/// Another error than the one that must come: a failure of the statement, unless
/// it is how system calls are refused, or the want of descriptors.
///
/// # Errors
/// The refusal, or the want.
pub(super) fn unexpected(errno: Errno) -> anyhow::Result<Outcome> {
    match errno {
        Errno::PERM | Errno::ACCESS | Errno::NOSYS | Errno::MFILE | Errno::NFILE => {
            Err(errno.into())
        }
        _ => Ok(Outcome::fail(errno.to_string())),
    }
}

/// What a check comes to where no FIFO can be made: a name needs a place.
///
/// # Errors
/// The error, where it is the want of descriptors, which is told as such.
pub(super) fn no_fifo(error: io::Error) -> anyhow::Result<Outcome> {
    match Errno::from_io_error(&error) {
        Some(Errno::MFILE | Errno::NFILE) => Err(anyhow::Error::new(error).context("a FIFO")),
        _ => Ok(Outcome::refused(format!("no FIFO can be made: {error}"))
            .noting("have TMPDIR name a directory in which this user may make files")),
    }
}
