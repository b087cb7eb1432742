//! Complete transfers by write, read, vmsplice, splice and tee.
//!
//! A system call may move only a part of the data. A transfer continues until
//! everything has been moved, the data ends, or an error occurs. It resumes after
//! partial results and signals, waits as set by [`Wait`], and never moves a byte
//! twice. On an error it returns [`Incomplete`] with the number of bytes moved,
//! so that the caller can resume or use another technique.

mod nowait;
mod read;
mod splice;
mod tee;
mod vmsplice;
mod write;

pub use self::splice::SpliceOptions;
pub use self::vmsplice::VmspliceOptions;
pub use crate::counts::Counts;

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

#[cfg(feature = "tokio")]
pub(crate) use self::nowait::is_pollable_file;
pub(crate) use self::nowait::{Nowait, is_master, is_terminal, is_trace};
use crate::wait::{Interest, Wait, Waiter};

/// Maximum number of pieces for one system call: IOV_MAX. rustix silently
/// truncates longer lists.
const MAX_PIECES: usize = 1024;

/// Maximum number of bytes that one system call moves (write(2)). splice(2)
/// refuses lengths of 2^63 and more, and so u64::MAX for "everything".
const MAX_BYTES: u64 = 0x7fff_f000;

/// Whether an error means that a system call does not work here, so that another
/// technique may. Any other error is that of a file. So may these be, of a socket, which
/// reports an error only once: a real refusal is repeated.
pub(crate) fn is_refusal(errno: Errno) -> bool {
    matches!(
        errno,
        Errno::INVAL
            | Errno::NOSYS
            | Errno::OPNOTSUPP
            // A seccomp filter, or a security module.
            | Errno::PERM
            | Errno::ACCESS
            | Errno::NOMEM
            | Errno::FAULT
            // Of another file: read(2) or write(2) will show which one.
            | Errno::BADF
            | Errno::ISDIR
            | Errno::SPIPE
            // copy_file_range(2): other file systems, a swap file, a position too large.
            | Errno::XDEV
            | Errno::TXTBSY
            | Errno::OVERFLOW
    )
}

/// Error of a transfer that ended before everything was moved.
#[derive(Debug)]
pub struct Incomplete {
    /// Number of bytes moved.
    pub moved: u64,
    /// The reason: [`io::ErrorKind::WouldBlock`] under [`Wait::Never`],
    /// [`io::ErrorKind::BrokenPipe`] if there is no reader, and so on.
    pub source: io::Error,
}

impl Incomplete {
    /// Returns the kind of the error.
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
    /// Keeps the kind and number of the error, and drops the count.
    fn from(incomplete: Incomplete) -> Self {
        incomplete.source
    }
}

/// A descriptor to write to, with its [`Wait`] and its [`Counts`].
///
/// Owns or borrows the descriptor: `Output<OwnedFd>`, `Output<&File>`,
/// `Output<StdoutLock>`.
///
/// # The private duplicate
/// The first [`vmsplice`](Self::vmsplice) duplicates the descriptor, and from
/// then on everything is sent through the duplicate. The reason is safety: any
/// code can make a descriptor *number* refer to another file (dup2(2)), and
/// vmsplice(2) on the read end of a pipe would write into the memory to be sent.
/// The duplicate is closed with the `Output`; until then a reader sees no end of
/// file. [`AsFd`] always returns the original descriptor.
///
/// # fork
/// A forked child inherits the duplicate. Unless it execs, or drops its copy of
/// the `Output`, a reader sees no end of file while the child lives.
#[derive(Debug)]
pub struct Output<F> {
    fd: F,
    /// Duplicate of `fd` whose number no other code knows, checked to be open
    /// for writing.
    duplicate: Option<OwnedFd>,
    waiter: Waiter,
    counts: Counts,
    nowait: Nowait,
}

impl<F: AsFd> Output<F> {
    /// Creates an output.
    pub fn new(fd: F, wait: Wait) -> Self {
        Output {
            fd,
            duplicate: None,
            waiter: Waiter::new(wait),
            counts: Counts::default(),
            nowait: Nowait::default(),
        }
    }

    /// Lets a handled signal end a wait, with [`io::ErrorKind::Interrupted`]; default false.
    pub fn interruptible(mut self, interruptible: bool) -> Self {
        self.waiter.set_interruptible(interruptible);
        self
    }

    /// Returns the numbers of bytes and system calls so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Waits in another way from now on.
    pub(crate) fn set_wait(&mut self, wait: Wait) {
        self.waiter = Waiter::new(wait);
    }

    /// Returns how this output waits.
    pub fn wait(&self) -> Wait {
        self.waiter.wait()
    }

    /// Returns the original descriptor.
    pub fn get_ref(&self) -> &F {
        &self.fd
    }

    /// Returns the original descriptor and closes the duplicate.
    pub fn into_inner(self) -> F {
        self.fd
    }
}

impl<F: AsFd> Output<F> {
    /// Duplicates the descriptor, unless this has been done before.
    ///
    /// # Errors
    /// EMFILE if no descriptor is available; EBADF if `fd` is not open for writing.
    pub(crate) fn duplicate(&mut self) -> rustix::io::Result<()> {
        /// Above the standard descriptors, which safe code can replace.
        const MIN: i32 = 3;
        if self.duplicate.is_none() {
            let own = match rustix::io::fcntl_dupfd_cloexec(self.fd.as_fd(), MIN) {
                // The limit on descriptors allows no such number (fcntl(2)).
                Err(Errno::INVAL) => Err(Errno::MFILE),
                own => own,
            }?;
            Interest::Writable(own.as_fd()).check_access()?;
            self.duplicate = Some(own);
            // By now `fd` may refer to another open file.
            self.nowait = Nowait::default();
        }
        Ok(())
    }

    /// Returns the duplicate if there is one, otherwise the original descriptor.
    pub(crate) fn target(&self) -> BorrowedFd<'_> {
        target(&self.fd, &self.duplicate)
    }
}

/// Returns the duplicate if there is one, otherwise the original descriptor.
fn target<'a>(fd: &'a impl AsFd, duplicate: &'a Option<OwnedFd>) -> BorrowedFd<'a> {
    match duplicate {
        Some(own) => own.as_fd(),
        None => fd.as_fd(),
    }
}

/// Returns the original descriptor, even if a duplicate is written to.
impl<F: AsFd> AsFd for Output<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A descriptor to read from, with its [`Wait`] and its [`Counts`].
#[derive(Debug)]
pub struct Input<F> {
    fd: F,
    waiter: Waiter,
    counts: Counts,
    nowait: Nowait,
}

impl<F: AsFd> Input<F> {
    /// Creates an input.
    pub fn new(fd: F, wait: Wait) -> Self {
        Input {
            fd,
            waiter: Waiter::new(wait),
            counts: Counts::default(),
            nowait: Nowait::default(),
        }
    }

    /// Lets a handled signal end a wait, with [`io::ErrorKind::Interrupted`]; default false.
    pub fn interruptible(mut self, interruptible: bool) -> Self {
        self.waiter.set_interruptible(interruptible);
        self
    }

    /// Makes plain calls to read, which may block, however it waits.
    pub(crate) fn with_plain_reads(mut self) -> Self {
        self.nowait = Nowait::Plain;
        self
    }

    /// Returns the numbers of bytes and system calls so far. A spliced byte
    /// counts once.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns how this input waits.
    pub fn wait(&self) -> Wait {
        self.waiter.wait()
    }

    /// Returns the descriptor.
    pub fn get_ref(&self) -> &F {
        &self.fd
    }

    /// Returns the descriptor.
    pub fn into_inner(self) -> F {
        self.fd
    }
}

impl<F: AsFd> AsFd for Input<F> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Parameters of one attempt to move data.
#[derive(Clone, Copy)]
struct Attempt {
    /// Bytes moved by earlier attempts.
    moved: u64,
    /// Whether the system call may block.
    may_block: bool,
}

/// Meaning of a system call's return value 0.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Zero {
    /// End of the data.
    EndOfData,
    /// The descriptor accepts no more. An error, to avoid an endless loop.
    Refusal,
}

/// Repeats `attempt` until `total` bytes have been moved, and returns the number
/// of bytes moved, which is less than `total` only at the end of the data.
///
/// ```text
/// until all bytes are moved:
///     under Wait::Poll: poll
///     attempt (may block only under Wait::Block)
///     moved n:      count them
///     moved 0:      end of data, or refusal
///     interrupted:  retry, or fail if asked for
///     would block:  wait, or fail under Wait::Never
///     other errors: fail
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
            Err(Errno::INTR) if !waiter.is_interruptible() => {}
            // EWOULDBLOCK has the same number on Linux.
            Err(Errno::AGAIN) => waiter
                .would_block(interests, counts)
                .map_err(|errno| incomplete(moved, errno))?,
            Err(errno) => return Err(incomplete(moved, errno)),
        }
    }
    Ok(moved)
}
