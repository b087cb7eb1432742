//! Non-blocking reads and writes on descriptors that may be shared.
//!
//! O_NONBLOCK belongs to the open file, which other processes may share, and a
//! killed process can't restore it. It is therefore never set. Instead:
//!
//! 1. Regular files and block devices: plain calls. They wait for no other
//!    process, poll(2) always reports them ready, and RWF_NOWAIT might fail
//!    forever: btrfs and XFS return EAGAIN for every write that updates a
//!    timestamp.
//! 2. Sockets: recv(2) and send(2) with MSG_DONTWAIT, which every kernel has. A socket
//!    reports an error once, and then the end of the data, so there must be nothing to
//!    fall back to: the error could be taken for a refusal of the call.
//! 3. Terminals: an open file of our own, created by opening /proc/thread-self/fd/N with
//!    O_NONBLOCK. A write after poll(2) may block however short it is, since a new line may
//!    become several characters, and a read may wait for more (VTIME).
//! 4. Anything else: preadv2(2) and pwritev2(2) with RWF_NOWAIT, which works on
//!    pipes since about Linux 6.4, and on /dev/null.
//! 5. Pipes for which these calls fail (EOPNOTSUPP; ENOSYS or EPERM by a seccomp
//!    filter): an open file of our own, too.
//! 6. Otherwise (another device, or no /proc): poll(2), then a call small enough not
//!    to block if poll reported readiness. It may still block if another writer
//!    or reader comes in between.

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::Counts;
use crate::pipe::{PIPE_BUF, is_pipe};
use crate::wait::poll_now;

/// Offset for which preadv2 and pwritev2 use the file's own position and accept
/// pipes.
const CURRENT_POSITION: u64 = u64::MAX;

/// Maximum number of bytes per write if poll(2) reports room but not how much.
const SMALL: usize = 512;

/// Technique for non-blocking calls on a descriptor.
#[derive(Debug, Default)]
pub(crate) enum Nowait {
    /// Not determined yet.
    #[default]
    Unknown,
    /// Plain calls.
    Plain,
    /// MSG_DONTWAIT.
    Socket,
    /// RWF_NOWAIT.
    PerCall,
    /// Plain calls on our own, non-blocking open file of the same pipe or terminal.
    Reopened(OwnedFd),
    /// poll(2) before each call, with the maximum number of bytes per write.
    PollFirst(usize),
}

impl Nowait {
    pub(crate) fn write(
        &mut self,
        fd: BorrowedFd<'_>,
        data: &[u8],
        counts: &mut Counts,
    ) -> rustix::io::Result<usize> {
        loop {
            match self {
                Nowait::Unknown => *self = Self::for_file(fd, OFlags::WRONLY),
                Nowait::Plain => return rustix::io::write(fd, data),
                Nowait::Socket => return send(fd, data, SendFlags::DONTWAIT | SendFlags::NOSIGNAL),
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
                            *self = Self::fallback(fd, OFlags::WRONLY);
                        }
                        result => return result,
                    }
                }
                Nowait::Reopened(own) => return rustix::io::write(own, data),
                Nowait::PollFirst(most) => {
                    check_ready(fd, PollFlags::OUT, counts)?;
                    let small = &data[..data.len().min(*most)];
                    return rustix::io::write(fd, small);
                }
            }
        }
    }

    pub(crate) fn read(
        &mut self,
        fd: BorrowedFd<'_>,
        buffer: &mut [u8],
        counts: &mut Counts,
    ) -> rustix::io::Result<usize> {
        loop {
            match self {
                Nowait::Unknown => *self = Self::for_file(fd, OFlags::RDONLY),
                Nowait::Plain => return rustix::io::read(fd, buffer),
                Nowait::Socket => return recv(fd, buffer, RecvFlags::DONTWAIT).map(|(n, _)| n),
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
                            *self = Self::fallback(fd, OFlags::RDONLY);
                        }
                        result => return result,
                    }
                }
                Nowait::Reopened(own) => return rustix::io::read(own, buffer),
                Nowait::PollFirst(_) => {
                    check_ready(fd, PollFlags::IN, counts)?;
                    return rustix::io::read(fd, buffer);
                }
            }
        }
    }

    fn for_file(fd: BorrowedFd<'_>, access: OFlags) -> Self {
        let Ok(stat) = rustix::fs::fstat(fd) else {
            return Nowait::PerCall;
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::BlockDevice => Nowait::Plain,
            FileType::Socket => Nowait::Socket,
            FileType::CharacterDevice if is_terminal(stat.st_rdev) => {
                Self::reopen(fd, access).unwrap_or(Nowait::PollFirst(SMALL))
            }
            _ => Nowait::PerCall,
        }
    }

    fn fallback(fd: BorrowedFd<'_>, access: OFlags) -> Self {
        if !is_pipe(fd).unwrap_or(false) {
            return Nowait::PollFirst(SMALL);
        }
        Self::reopen(fd, access).unwrap_or(Nowait::PollFirst(PIPE_BUF))
    }

    fn reopen(fd: BorrowedFd<'_>, access: OFlags) -> rustix::io::Result<Self> {
        // Not /proc/self: this thread may have its own table of descriptors.
        let path = format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
        let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        rustix::fs::open(path, flags, Mode::empty()).map(Nowait::Reopened)
    }
}

/// Whether these are the numbers of a terminal (Documentation/admin-guide/devices.txt), except for the
/// master of a pseudo-terminal: opening that again would create a new one.
pub(crate) fn is_terminal(device: u64) -> bool {
    matches!(
        (rustix::fs::major(device), rustix::fs::minor(device)),
        // Consoles and serial lines, Unix98 slaves, tty and console.
        (4 | 136..=143, _) | (5, 0 | 1)
    )
}

/// Fails with `AGAIN` unless `events`, an error or a hang-up are pending.
fn check_ready(
    fd: BorrowedFd<'_>,
    events: PollFlags,
    counts: &mut Counts,
) -> rustix::io::Result<()> {
    counts.syscalls += 1;
    counts.polls += 1;
    if poll_now(fd, events)?.is_empty() {
        return Err(Errno::AGAIN);
    }
    Ok(())
}
