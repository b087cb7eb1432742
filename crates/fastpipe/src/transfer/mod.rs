//! Whole transfers, one technique a file.
//!
//! A system call moves as much as fits and returns. A transfer goes on until
//! everything has been moved, the data or the other end has come to an end, or
//! an error occurs: it resumes after partial results and signals, waits as
//! told by [`Wait`], and never moves a byte twice. Where it can't go on it
//! returns [`Incomplete`], which tells how much was moved, so that the caller
//! can resume or fall back.

mod nowait;
mod read;
mod splice;
mod tee;
mod vmsplice;
mod write;

pub use self::splice::SpliceOptions;
pub use self::vmsplice::VmspliceOptions;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::OFlags;
use rustix::io::Errno;

use self::nowait::Nowait;
use crate::wait::{Interest, Wait, Waiter};

/// The most pieces that one system call takes: IOV_MAX. rustix cuts longer
/// lists without a word.
const MAX_PIECES: usize = 1024;

/// The most bytes that one system call moves (write(2)). splice(2) refuses
/// lengths of 2^63 and more, and so "all there is" as u64::MAX.
const MAX_BYTES: u64 = 0x7fff_f000;

/// What transfers did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Bytes moved.
    pub bytes: u64,
    /// System calls made, to move data or to wait.
    pub syscalls: u64,
    /// Those of them that moved at least one byte.
    pub moving_calls: u64,
    /// Those of them that found the pipe full or empty.
    pub would_blocks: u64,
    /// Those of them that were poll(2).
    pub polls: u64,
}

/// A transfer ended before everything was moved.
#[derive(Debug)]
pub struct Incomplete {
    /// The bytes that were moved.
    pub moved: u64,
    /// Why it ended: [`io::ErrorKind::WouldBlock`] under [`Wait::Never`],
    /// [`io::ErrorKind::BrokenPipe`] if no reader is left, and so on.
    pub source: io::Error,
}

impl Incomplete {
    /// The kind of the error.
    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }
}

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended after {} bytes", self.moved)
    }
}

impl std::error::Error for Incomplete {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl From<Incomplete> for io::Error {
    /// Keeps the kind and the number of the error; loses the count.
    fn from(incomplete: Incomplete) -> Self {
        incomplete.source
    }
}

/// A descriptor to write to, with how to wait and what was done.
///
/// Owns or borrows the descriptor: `Output<OwnedFd>`, `Output<&File>`,
/// `Output<StdoutLock>`.
///
/// # A duplicate of the descriptor
/// The first [`vmsplice`](Self::vmsplice) duplicates the descriptor, and from
/// then on everything is sent through the duplicate. A descriptor *number* can
/// come to refer to another file at any time: safe code may replace standard
/// output (dup2(2)), and vmsplice(2) on the read end of a pipe would write into
/// the memory to be sent. The duplicate is closed with the `Output`; until then
/// a reader does not see the end of the data. [`AsFd`] gives the descriptor
/// itself, as it was at first.
///
/// # fork
/// A forked child inherits the duplicate, and close-on-exec does not help where
/// it does not exec. While such a child lives, a reader does not see the end of
/// the data, unless the child drops its copy of the `Output`.
#[derive(Debug)]
pub struct Output<F> {
    fd: F,
    /// A duplicate of `fd` that only this value knows, shown to be open for
    /// writing.
    duplicate: Option<OwnedFd>,
    waiter: Waiter,
    counts: Counts,
    nowait: Nowait,
}

impl<F: AsFd> Output<F> {
    /// An output that waits as told.
    pub fn new(fd: F, wait: Wait) -> Self {
        Output {
            fd,
            duplicate: None,
            waiter: Waiter::new(wait),
            counts: Counts::default(),
            nowait: Nowait::default(),
        }
    }

    /// What was done so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How it waits.
    pub fn wait(&self) -> Wait {
        self.waiter.wait()
    }

    /// The descriptor.
    pub fn get_ref(&self) -> &F {
        &self.fd
    }

    /// Gives the descriptor back, and closes the duplicate.
    pub fn into_inner(self) -> F {
        self.fd
    }
}

impl<F: AsFd> Output<F> {
    /// Duplicates the descriptor, unless that was done before.
    ///
    /// # Errors
    /// EMFILE where no descriptor is left; EBADF if it is not open for writing.
    pub(crate) fn duplicate(&mut self) -> rustix::io::Result<()> {
        /// Above the standard descriptors: those can be replaced by safe code.
        const MIN: i32 = 3;
        if self.duplicate.is_none() {
            let own = match rustix::io::fcntl_dupfd_cloexec(self.fd.as_fd(), MIN) {
                // fcntl(2): the limit on descriptors allows no such number.
                Err(Errno::INVAL) => Err(Errno::MFILE),
                own => own,
            }?;
            let access = rustix::fs::fcntl_getfl(&own)? & OFlags::ACCMODE;
            if access != OFlags::WRONLY && access != OFlags::RDWR {
                return Err(Errno::BADF);
            }
            self.duplicate = Some(own);
            // It may refer to another open file than the descriptor did before.
            self.nowait = Nowait::default();
        }
        Ok(())
    }

    /// What is written to: the duplicate where there is one.
    pub(crate) fn target(&self) -> BorrowedFd<'_> {
        target(&self.fd, &self.duplicate)
    }
}

/// The duplicate where there is one, else the descriptor.
fn target<'a>(fd: &'a impl AsFd, duplicate: &'a Option<OwnedFd>) -> BorrowedFd<'a> {
    match duplicate {
        Some(own) => own.as_fd(),
        None => fd.as_fd(),
    }
}

/// The descriptor that it was made with, also where a duplicate is written to.
impl<F: AsFd> AsFd for Output<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A descriptor to read from, with how to wait and what was done.
#[derive(Debug)]
pub struct Input<F> {
    fd: F,
    waiter: Waiter,
    counts: Counts,
    nowait: Nowait,
}

impl<F: AsFd> Input<F> {
    /// An input that waits as told.
    pub fn new(fd: F, wait: Wait) -> Self {
        Input {
            fd,
            waiter: Waiter::new(wait),
            counts: Counts::default(),
            nowait: Nowait::default(),
        }
    }

    /// What was done so far. A byte that is spliced on counts once.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How it waits.
    pub fn wait(&self) -> Wait {
        self.waiter.wait()
    }

    /// The descriptor.
    pub fn get_ref(&self) -> &F {
        &self.fd
    }

    /// Gives the descriptor back.
    pub fn into_inner(self) -> F {
        self.fd
    }
}

impl<F: AsFd> AsFd for Input<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What one attempt at moving data is told.
#[derive(Clone, Copy)]
struct Attempt {
    /// Bytes moved before.
    moved: u64,
    /// Whether the call may sleep.
    may_block: bool,
}

/// What a system call's 0 means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    /// The end of the data.
    EndOfData,
    /// That the descriptor takes no more: an error, or it would go on for ever.
    Refusal,
}

/// Repeats `attempt` until `total` bytes have been moved. Returns what was
/// moved: less than `total` at the end of the data only.
///
/// In words:
/// ```text
/// until all is moved:
///     poll, if that is how to wait
///     attempt, letting the call sleep if that is how to wait
///     moved n:      count them
///     moved 0:      the end, or a refusal
///     interrupted:  again
///     would block:  wait as told, or give up with what was moved
///     other errors: give up with what was moved
/// ```
#[inline]
fn transfer(
    total: u64,
    zero: Zero,
    waiter: &mut Waiter,
    counts: &mut Counts,
    interests: &[Interest<'_>],
    mut attempt: impl FnMut(Attempt, &mut Counts) -> rustix::io::Result<usize>,
) -> Result<u64, Incomplete> {
    let mut moved = 0;
    let incomplete = |moved, errno: Errno| Incomplete {
        moved,
        source: errno.into(),
    };
    while moved < total {
        waiter
            .before_attempt(interests, counts)
            .map_err(|errno| incomplete(moved, errno))?;
        counts.syscalls += 1;
        let may_block = waiter.blocks();
        match attempt(Attempt { moved, may_block }, counts) {
            Ok(0) if zero == Zero::EndOfData => break,
            Ok(0) => {
                return Err(Incomplete {
                    moved,
                    source: io::ErrorKind::WriteZero.into(),
                });
            }
            Ok(n) => {
                moved += n as u64;
                counts.bytes += n as u64;
                counts.moving_calls += 1;
                waiter.record_success();
            }
            Err(Errno::INTR) => {}
            // EWOULDBLOCK is the same number on Linux.
            Err(Errno::AGAIN) => waiter
                .would_block(interests, counts)
                .map_err(|errno| incomplete(moved, errno))?,
            Err(errno) => return Err(incomplete(moved, errno)),
        }
    }
    Ok(moved)
}
