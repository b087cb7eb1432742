//! Reads and writes that don't sleep, on descriptors that may be shared.
//!
//! O_NONBLOCK belongs to the open file, which other processes may share, and a
//! killed process can't put it back. So it is never set. Instead, in order:
//!
//! 0. A file on a disk: a plain call. It waits for no other process, poll(2)
//!    calls it always ready, and RWF_NOWAIT would never end: btrfs and XFS
//!    answer EAGAIN to every write that has a timestamp to update.
//! 1. preadv2 and pwritev2 with RWF_NOWAIT: per call. Works on pipes since
//!    Linux 6.4 or so, on sockets and /dev/null.
//! 2. On a pipe or FIFO that answers EOPNOTSUPP, or where a seccomp filter
//!    refuses those calls (ENOSYS, EPERM): an open file of our own, made
//!    by opening /proc/self/fd/N again with O_NONBLOCK.
//! 3. Else (a terminal, no /proc): poll first, then a call small enough not to
//!    sleep when poll said so. A second writer or reader may come in between;
//!    then it sleeps.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::Counts;
use crate::pipe::{ATOMIC_WRITE, is_pipe};
use crate::wait::poll_now;

/// With this offset preadv2 and pwritev2 use the file's own position, and
/// accept pipes.
const CURRENT_POSITION: u64 = u64::MAX;

/// Which of these ways a descriptor takes.
#[derive(Debug, Default)]
pub(super) enum Nowait {
    /// Not looked at yet.
    #[default]
    Unknown,
    /// A plain call.
    Plain,
    /// RWF_NOWAIT, until it is refused.
    PerCall,
    /// Our own open file of the same pipe.
    Reopened(OwnedFd),
    /// Poll, then call.
    PollFirst,
}

impl Nowait {
    pub(super) fn write(
        &mut self,
        fd: BorrowedFd<'_>,
        data: &[u8],
        counts: &mut Counts,
    ) -> rustix::io::Result<usize> {
        loop {
            match self {
                Nowait::Unknown => *self = Self::for_kind_of(fd),
                Nowait::Plain => return rustix::io::write(fd, data),
                Nowait::PerCall => {
                    let result = rustix::io::pwritev2(
                        fd,
                        &[IoSlice::new(data)],
                        CURRENT_POSITION,
                        ReadWriteFlags::NOWAIT,
                    );
                    match result {
                        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::ACCESS) => {
                            counts.syscalls += 1;
                            *self = Self::otherwise(fd, OFlags::WRONLY);
                        }
                        result => return result,
                    }
                }
                Nowait::Reopened(own) => return rustix::io::write(own, data),
                Nowait::PollFirst => {
                    ready(fd, PollFlags::OUT, counts)?;
                    let small = &data[..data.len().min(ATOMIC_WRITE)];
                    return rustix::io::write(fd, small);
                }
            }
        }
    }

    pub(super) fn read(
        &mut self,
        fd: BorrowedFd<'_>,
        buffer: &mut [u8],
        counts: &mut Counts,
    ) -> rustix::io::Result<usize> {
        loop {
            match self {
                Nowait::Unknown => *self = Self::for_kind_of(fd),
                Nowait::Plain => return rustix::io::read(fd, buffer),
                Nowait::PerCall => {
                    let result = rustix::io::preadv2(
                        fd,
                        &mut [IoSliceMut::new(buffer)],
                        CURRENT_POSITION,
                        ReadWriteFlags::NOWAIT,
                    );
                    match result {
                        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::ACCESS) => {
                            counts.syscalls += 1;
                            *self = Self::otherwise(fd, OFlags::RDONLY);
                        }
                        result => return result,
                    }
                }
                Nowait::Reopened(own) => return rustix::io::read(own, buffer),
                Nowait::PollFirst => {
                    ready(fd, PollFlags::IN, counts)?;
                    return rustix::io::read(fd, buffer);
                }
            }
        }
    }

    fn for_kind_of(fd: BorrowedFd<'_>) -> Self {
        let kind = rustix::fs::fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
        match kind {
            Ok(FileType::RegularFile | FileType::BlockDevice) => Nowait::Plain,
            _ => Nowait::PerCall,
        }
    }

    fn otherwise(fd: BorrowedFd<'_>, access: OFlags) -> Self {
        if !is_pipe(fd).unwrap_or(false) {
            return Nowait::PollFirst;
        }
        // Of this thread: it may have a table of descriptors of its own.
        let path = format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
        let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(own) => Nowait::Reopened(own),
            Err(_) => Nowait::PollFirst,
        }
    }
}

/// `AGAIN` unless poll says that `events` or the end are there.
fn ready(fd: BorrowedFd<'_>, events: PollFlags, counts: &mut Counts) -> rustix::io::Result<()> {
    counts.syscalls += 1;
    counts.polls += 1;
    if poll_now(fd, events)?.is_empty() {
        return Err(Errno::AGAIN);
    }
    Ok(())
}
