//! What a pipe is like, asked through either of its ends.
//!
//! All functions take a borrowed descriptor and change nothing but what their
//! name says. Sizes are in bytes. See pipe(7) for the notions.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::wait::poll_now;

/// Writes of at most so many bytes are atomic on Linux: PIPE_BUF of pipe(7).
pub const ATOMIC_WRITE: usize = 4096;

/// The size of a base page in bytes.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// A new pipe: its read end and its write end, both close-on-exec.
///
/// # Errors
/// EMFILE or ENFILE when no descriptor is left.
pub fn create() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?)
}

/// Whether the descriptor is an end of a pipe or a FIFO.
///
/// # Errors
/// Those of fstat(2).
pub fn is_pipe(fd: impl AsFd) -> io::Result<bool> {
    let stat = rustix::fs::fstat(fd)?;
    Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Fifo)
}

/// The capacity in bytes: F_GETPIPE_SZ.
///
/// # Errors
/// EBADF if it is no pipe.
pub fn capacity(fd: impl AsFd) -> io::Result<usize> {
    Ok(rustix::pipe::fcntl_getpipe_size(fd)?)
}

/// The number of slots. Each holds one page or a part of one, so a pipe can
/// be full with far fewer bytes than its capacity.
///
/// # Errors
/// EBADF if it is no pipe.
pub fn slots(fd: impl AsFd) -> io::Result<usize> {
    Ok(capacity(fd)? / page_size())
}

/// The bytes written and not yet read: FIONREAD.
///
/// What is unread *here*. A page may live on in another pipe that the reader
/// spliced it to.
///
/// # Errors
/// Those of ioctl(2).
pub fn unread(fd: impl AsFd) -> io::Result<usize> {
    Ok(rustix::io::ioctl_fionread(fd)? as usize)
}

/// Whether anybody has the read end open: without one, poll(2) reports
/// POLLERR at the write end.
///
/// # Errors
/// Those of poll(2).
pub fn has_reader(fd: impl AsFd) -> io::Result<bool> {
    let found = poll_now(fd.as_fd(), PollFlags::empty())?;
    Ok(!found.contains(PollFlags::ERR))
}

/// Sets the capacity to at least `bytes` and returns what was granted: the
/// kernel rounds up to a power of two of pages. Another process that has the
/// pipe may have changed it again by then.
///
/// # Errors
/// [`CapacityError`], which tells the limit.
pub fn set_capacity(fd: impl AsFd, bytes: usize) -> Result<usize, CapacityError> {
    // The kernel takes an int-sized argument; more is over any limit.
    if bytes == 0 || bytes > i32::MAX as usize {
        return Err(CapacityError::new(bytes, Errno::INVAL));
    }
    rustix::pipe::fcntl_setpipe_size(fd, bytes).map_err(|errno| CapacityError::new(bytes, errno))
}

/// Brings the capacity as close to `bytes` as is allowed: halves the wish
/// while the kernel answers EPERM (over a limit) or EBUSY (more than that is
/// queued). Never makes the pipe smaller than it is where `bytes` is larger.
/// Returns the capacity that resulted.
///
/// # Errors
/// EBADF if it is no pipe.
pub fn set_capacity_up_to(fd: impl AsFd, bytes: usize) -> io::Result<usize> {
    let before = capacity(&fd)?;
    let mut wish = bytes;
    loop {
        match set_capacity(&fd, wish) {
            Ok(granted) => return Ok(granted),
            Err(error) if error.may_be_less() => wish /= 2,
            Err(error) => return Err(error.into()),
        }
        if wish <= before {
            return capacity(&fd);
        }
    }
}

/// F_SETPIPE_SZ was refused.
#[derive(Debug)]
pub struct CapacityError {
    /// The bytes asked for.
    pub asked: usize,
    /// /proc/sys/fs/pipe-max-size, where it can be read.
    pub limit: Option<usize>,
    /// What the kernel said.
    pub source: io::Error,
}

impl CapacityError {
    fn new(asked: usize, errno: Errno) -> Self {
        CapacityError {
            asked,
            limit: Limits::read().max_size,
            source: errno.into(),
        }
    }

    /// Whether asking for less may succeed.
    fn may_be_less(&self) -> bool {
        let raw = self.source.raw_os_error();
        raw == Some(Errno::PERM.raw_os_error())
            || raw == Some(Errno::BUSY.raw_os_error())
            || raw == Some(Errno::INVAL.raw_os_error())
            || raw == Some(Errno::NOMEM.raw_os_error())
    }
}

impl fmt::Display for CapacityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a pipe of {} bytes was refused", self.asked)?;
        match (self.source.kind(), self.limit) {
            // EINVAL: more than any limit could be.
            (io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput, Some(limit))
                if self.asked > limit =>
            {
                write!(
                    f,
                    ": the limit is {limit} bytes; ask for less, or have \
                     /proc/sys/fs/pipe-max-size raised"
                )
            }
            (io::ErrorKind::PermissionDenied, _) => write!(
                f,
                ": this user's pipes already hold as many pages as \
                 /proc/sys/fs/pipe-user-pages-soft allows"
            ),
            (io::ErrorKind::ResourceBusy, _) => write!(f, ": more than that is queued in it"),
            _ => write!(f, ": {}", self.source),
        }
    }
}

impl std::error::Error for CapacityError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl From<CapacityError> for io::Error {
    fn from(error: CapacityError) -> Self {
        io::Error::new(error.source.kind(), error)
    }
}

/// The system's limits on pipes (proc_sys_fs(5)). A limit that can't be read
/// is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The largest capacity an unprivileged process may set, in bytes.
    pub max_size: Option<usize>,
    /// The pages that all pipes of a user may hold before new pipes get two
    /// slots only; 0 is no limit.
    pub user_pages_soft: Option<usize>,
    /// The pages past which a user can't make a pipe at all; 0 is no limit.
    pub user_pages_hard: Option<usize>,
}

impl Limits {
    /// Reads them from /proc/sys/fs.
    pub fn read() -> Self {
        let number = |name: &str| {
            fs::read_to_string(format!("/proc/sys/fs/{name}"))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        Limits {
            max_size: number("pipe-max-size"),
            user_pages_soft: number("pipe-user-pages-soft"),
            user_pages_hard: number("pipe-user-pages-hard"),
        }
    }
}
