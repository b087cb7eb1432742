//! Non-blocking reads and writes on descriptors that may be shared.
//!
//! O_NONBLOCK belongs to the open file, which other processes may share, and a
//! killed process can't restore it. It is therefore never set. Instead:
//!
//! 1. Regular files and block devices: plain calls. They wait for no other
//!    process, poll(2) always reports them ready, and RWF_NOWAIT might fail
//!    forever: btrfs and XFS return EAGAIN for every write that updates a
//!    timestamp. Reads of a few files of the kernel do wait. Before those on a [list](is_pollable_file)
//!    comes poll(2), the others block. What poll(2) reports of most others is useless: that
//!    /proc/bus/input/devices has changed, or that trace_pipe of one processor is half full.
//! 2. Sockets: recv(2) and send(2) with MSG_DONTWAIT, which every kernel has. A socket
//!    reports an error once, and then the end of the data, so there must be nothing to
//!    fall back to: the error could be taken for a refusal of the call.
//! 3. Terminals: an open file of our own, created by opening /proc/thread-self/fd/N with
//!    O_NONBLOCK. A write after poll(2) may block however short it is, since a new line may
//!    become several characters, and a read may wait for more (VTIME). It must be the same
//!    terminal, which /dev/tty may not be in another session, and still be open: one that was
//!    revoked by a hang-up (vhangup(2)) could be opened anew.
//! 4. Anything else: preadv2(2) and pwritev2(2) with RWF_NOWAIT, which works on
//!    pipes since about Linux 6.4, and on /dev/null.
//! 5. Pipes for which these calls fail (EOPNOTSUPP; ENOSYS or EPERM by a seccomp
//!    filter): an open file of our own, too.
//! 6. Otherwise (another device, a terminal that can't be opened again, or no /proc): poll(2),
//!    then a call small enough not to block if poll reported readiness. It may still block if
//!    another writer or reader comes in between, or at a terminal.

use std::io::{IoSlice, IoSliceMut, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::fs::{FileType, FsWord, Mode, OFlags, PROC_SUPER_MAGIC};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::Counts;
use crate::pipe::{PIPE_BUF, is_pipe};
use crate::sys;
use crate::wait::poll_now;

/// Offset for which preadv2 and pwritev2 use the file's own position and accept
/// pipes.
const CURRENT_POSITION: u64 = u64::MAX;

/// Maximum number of bytes per write to a terminal, of which poll(2) reports room but not how much.
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
            FileType::RegularFile if access == OFlags::RDONLY && is_pollable_file(fd) => {
                Nowait::PollFirst(usize::MAX)
            }
            FileType::RegularFile | FileType::BlockDevice => Nowait::Plain,
            FileType::Socket => Nowait::Socket,
            FileType::CharacterDevice if is_terminal(fd, stat.st_rdev) => {
                Self::reopen(fd, access).unwrap_or(Nowait::PollFirst(SMALL))
            }
            _ => Nowait::PerCall,
        }
    }

    fn fallback(fd: BorrowedFd<'_>, access: OFlags) -> Self {
        if is_pipe(fd).unwrap_or(false) {
            Self::reopen(fd, access).unwrap_or(Nowait::PollFirst(PIPE_BUF))
        } else if fd.is_terminal() {
            Nowait::PollFirst(SMALL)
        } else {
            // Another device: shorter writes could split a record (/dev/kmsg).
            Nowait::PollFirst(PIPE_BUF)
        }
    }

    /// Opens the pipe or terminal `fd` again.
    ///
    /// # Errors
    /// Those of open(2); `NXIO` if that was another terminal; `IO` if it has been hung up.
    fn reopen(fd: BorrowedFd<'_>, access: OFlags) -> rustix::io::Result<Self> {
        let mode = rustix::fs::fcntl_getfl(fd)? & OFlags::ACCMODE;
        if mode != access && mode != OFlags::RDWR {
            // The call fails with EBADF.
            return Ok(Nowait::Plain);
        }
        let terminal = match is_pipe(fd) {
            Ok(true) => None,
            _ => Some(sys::terminal_number(fd)?),
        };
        let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let own = rustix::fs::open(link(fd), flags, Mode::empty())?;
        // Numbers are not used again while the first terminal is open, so hang-ups between come out, too.
        if let Some(number) = terminal
            && (sys::terminal_number(own.as_fd())? != number || sys::terminal_number(fd)? != number)
        {
            return Err(Errno::NXIO);
        }
        Ok(Nowait::Reopened(own))
    }
}

/// Path of the link to an open file. Not in /proc/self: this thread may have its own table of descriptors.
fn link(fd: BorrowedFd<'_>) -> String {
    format!("/proc/thread-self/fd/{}", fd.as_raw_fd())
}

/// Whether it is a terminal, and not the master of a pseudo-terminal
/// (Documentation/admin-guide/devices.txt): opening that again would create a new one.
pub(crate) fn is_terminal(fd: BorrowedFd<'_>, device: u64) -> bool {
    !is_master(device) && fd.is_terminal()
}

/// Whether these are the numbers of a master of pseudo-terminals.
pub(crate) fn is_master(device: u64) -> bool {
    matches!(
        (rustix::fs::major(device), rustix::fs::minor(device)),
        (5, 2) | (2 | 128..=135, _)
    )
}

const TRACEFS_MAGIC: FsWord = libc::TRACEFS_MAGIC as FsWord;

/// Whether it is a file of tracefs. False if unknown.
pub(crate) fn is_trace(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|file_system| file_system.f_type == TRACEFS_MAGIC)
}

/// Whether reads of a regular file may wait, and poll(2) reports when they don't: /proc/kmsg, and trace_pipe
/// of a trace (Documentation/trace/ftrace.rst). False if unknown.
///
/// Not trace_pipe of one processor: poll(2) reports it once it is half full (buffer_percent).
pub(crate) fn is_pollable_file(fd: BorrowedFd<'_>) -> bool {
    let Ok(file_system) = rustix::fs::fstatfs(fd) else {
        return false;
    };
    if !matches!(file_system.f_type, PROC_SUPER_MAGIC | TRACEFS_MAGIC) {
        return false;
    }
    let Ok(path) = std::fs::read_link(link(fd)) else {
        return false;
    };
    if file_system.f_type == PROC_SUPER_MAGIC {
        path.ends_with("kmsg")
    } else {
        path.ends_with("trace_pipe") && path.iter().nth_back(2) != Some("per_cpu".as_ref())
    }
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

#[cfg(test)]
mod tests {
    use rustix::pty::OpenptFlags;

    use super::*;
    use crate::skip::skip;

    #[test]
    fn the_log_of_the_kernel_is_a_pollable_file() {
        let open = |path| rustix::fs::open(path, OFlags::PATH, Mode::empty());
        assert!(!is_pollable_file(open("/proc/version").unwrap().as_fd()));
        match open("/proc/kmsg") {
            // Containers hide it behind /dev/null.
            Ok(log) if rustix::fs::fstat(&log).unwrap().st_rdev == 0 => {
                assert!(is_pollable_file(log.as_fd()));
            }
            _ => skip("no /proc/kmsg here"),
        }
    }

    #[test]
    fn only_terminals_are_written_to_in_small_pieces() {
        let most = |fd: BorrowedFd<'_>| match Nowait::fallback(fd, OFlags::WRONLY) {
            Nowait::PollFirst(most) => most,
            other => panic!("{other:?}"),
        };
        let null = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(most(null.as_fd()), PIPE_BUF);
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        assert_eq!(most(master.as_fd()), SMALL);
    }
}
