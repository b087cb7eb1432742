//! Properties of a pipe (capacity, slots, unread bytes), and the system's limits.
//!
//! Functions take a descriptor of either end. Sizes are in bytes. See pipe(7).

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::fs::FileType;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::wait::poll_now;

/// Maximum size of an atomic write to a pipe on Linux, in bytes: larger writes may be
/// interleaved with those of other processes (pipe(7)).
#[doc(alias = "atomic write")]
pub const PIPE_BUF: usize = 4096;

/// Returns the size of a base page in bytes.
pub fn page_size() -> usize {
    rustix::param::page_size()
}

/// Creates a pipe; returns its read end and its write end, both close-on-exec.
///
/// # Errors
/// Those of pipe2(2): EMFILE or ENFILE if no descriptor is available.
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

/// Returns the capacity in bytes (F_GETPIPE_SZ of fcntl(2)).
///
/// # Errors
/// EBADF if it is not a pipe.
pub fn capacity(fd: impl AsFd) -> io::Result<usize> {
    Ok(rustix::pipe::fcntl_getpipe_size(fd)?)
}

/// Returns the number of slots. A slot holds one page or a part of one, so a pipe
/// can be full with far fewer bytes than its capacity.
///
/// # Errors
/// EBADF if it is not a pipe.
pub fn slots(fd: impl AsFd) -> io::Result<usize> {
    Ok(capacity(fd)? / page_size())
}

/// Returns the number of bytes written and not yet read (FIONREAD of pipe(7)).
///
/// Only bytes in this pipe are counted. The reader may have spliced pages into
/// another pipe, where they are still in use.
///
/// # Errors
/// Those of ioctl(2).
pub fn unread(fd: impl AsFd) -> io::Result<usize> {
    Ok(rustix::io::ioctl_fionread(fd)? as usize)
}

/// Whether the read end is open somewhere. `fd` must be the write end, for which
/// poll(2) reports POLLERR if there is no reader.
///
/// # Errors
/// Those of poll(2).
pub fn has_reader(fd: impl AsFd) -> io::Result<bool> {
    let found = poll_now(fd.as_fd(), PollFlags::empty())?;
    Ok(!found.contains(PollFlags::ERR))
}

/// Sets the capacity to at least `bytes` (F_SETPIPE_SZ of fcntl(2)) and returns
/// the capacity granted.
///
/// The kernel rounds up to a power of two of pages. Another process that has the
/// pipe open may change the capacity at any time.
///
/// # Errors
/// [`CapacityError`], which names the limit.
pub fn set_capacity(fd: impl AsFd, bytes: usize) -> Result<usize, CapacityError> {
    // The kernel takes an int; larger values exceed every limit.
    if bytes == 0 || bytes > i32::MAX as usize {
        return Err(CapacityError::new(bytes, Errno::INVAL));
    }
    rustix::pipe::fcntl_setpipe_size(fd, bytes).map_err(|errno| CapacityError::new(bytes, errno))
}

/// Sets the capacity to `bytes` or as close to it as the system allows, and
/// returns the resulting capacity.
///
/// Halves the request while the kernel refuses it (EPERM: over a limit; EBUSY:
/// more bytes are queued). Never makes a pipe smaller if `bytes` is larger than
/// its capacity.
///
/// # Errors
/// EBADF if it is not a pipe.
pub fn set_capacity_up_to(fd: impl AsFd, bytes: usize) -> io::Result<usize> {
    let before = capacity(&fd)?;
    let mut request = bytes;
    loop {
        match set_capacity(&fd, request) {
            Ok(granted) => return Ok(granted),
            Err(error) if error.smaller_may_succeed() => request /= 2,
            Err(error) => return Err(error.into()),
        }
        if request <= before {
            return capacity(&fd);
        }
    }
}

/// Error of setting a pipe's capacity.
#[derive(Debug)]
pub struct CapacityError {
    /// Capacity requested, in bytes.
    pub asked: usize,
    /// Value of /proc/sys/fs/pipe-max-size, if readable.
    pub limit: Option<usize>,
    /// Error of the system call.
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

    /// Whether a smaller request may succeed.
    fn smaller_may_succeed(&self) -> bool {
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
            // EINVAL: the request exceeds every possible limit.
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

/// The system's limits on pipes (proc_sys_fs(5)); `None` if not readable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest capacity that an unprivileged process may set, in bytes.
    pub max_size: Option<usize>,
    /// Number of pages in all pipes of a user above which new pipes get two
    /// slots only; 0 means no limit.
    pub user_pages_soft: Option<usize>,
    /// Number of pages in all pipes of a user above which no pipe can be
    /// created; 0 means no limit.
    pub user_pages_hard: Option<usize>,
}

impl Limits {
    /// Reads the limits from /proc/sys/fs.
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
