//! What the two ends are.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, OFlags, Stat};
use rustix::net::{AddressFamily, SocketType};

/// What a descriptor is, as far as moving bytes is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A pipe or FIFO.
    Pipe,
    /// A regular file. Those of /proc say that they hold nothing.
    Regular { says_empty: bool },
    /// A disk.
    BlockDevice,
    /// A connected stream, within this machine (a Unix socket) or not.
    Stream { local: bool },
    /// Another socket, where each write is a message.
    Messages,
    /// /dev/null, /dev/zero and their kin: never wait for anybody.
    Memory,
    /// A terminal, or one end of a pseudo-terminal.
    Terminal { master: bool },
    /// Anything else: devices, counters, timers.
    Other,
}

/// One end of a relay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) fd: BorrowedFd<'a>,
    pub(super) kind: Kind,
    id: FileId,
}

/// Which file it is, and how long it was when it was looked at.
#[derive(Debug, Clone, Copy)]
struct FileId {
    device: u64,
    inode: u64,
    len: u64,
}

impl<'a> Place<'a> {
    /// # Errors
    /// Those of fstat(2).
    pub(super) fn look_at(fd: BorrowedFd<'a>) -> io::Result<Self> {
        let stat = rustix::fs::fstat(fd)?;
        Ok(Place {
            fd,
            kind: kind_of(fd, &stat),
            id: FileId {
                device: stat.st_dev,
                inode: stat.st_ino,
                len: stat.st_size as u64,
            },
        })
    }

    pub(super) fn is_pipe(&self) -> bool {
        self.kind == Kind::Pipe
    }

    pub(super) fn is_socket(&self) -> bool {
        matches!(self.kind, Kind::Stream { .. } | Kind::Messages)
    }

    /// Whether there is a position that can be put back.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.kind, Kind::Regular { .. } | Kind::BlockDevice)
    }

    /// Whether a call waits for no other process, so that polling is idle.
    pub(super) fn is_always_ready(&self) -> bool {
        self.is_file() || self.kind == Kind::Memory
    }

    /// Whether it is the same regular file as `output`, which is written at or
    /// after the place that is read, so that `most` bytes are more than can be
    /// read before what was written is read again: without end, if `most` is.
    pub(super) fn feeds_on(&self, output: &Place<'_>, most: u64) -> io::Result<bool> {
        let regular = |place: &Place<'_>| matches!(place.kind, Kind::Regular { .. });
        let (a, b) = (&self.id, &output.id);
        let same = (a.device, a.inode) == (b.device, b.inode);
        if !same || !regular(self) || !regular(output) {
            return Ok(false);
        }
        let flags = [self.fd, output.fd].map(rustix::fs::fcntl_getfl);
        let (from, to) = (flags[0]?, flags[1]?);
        // The wrong way round: the calls that follow will tell.
        if from & OFlags::ACCMODE == OFlags::WRONLY || to & OFlags::ACCMODE == OFlags::RDONLY {
            return Ok(false);
        }
        let read = rustix::fs::tell(self.fd)?;
        let written = if to.contains(OFlags::APPEND) {
            b.len
        } else {
            rustix::fs::tell(output.fd)?
        };
        // At its end there is nothing to read, and so nothing to write.
        Ok(read < a.len && read <= written && most > written - read)
    }

    /// Whether its open file was made non-blocking by whoever made it.
    pub(super) fn is_nonblocking(&self) -> bool {
        rustix::fs::fcntl_getfl(self.fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
    }
}

fn kind_of(fd: BorrowedFd<'_>, stat: &Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => Kind::Pipe,
        FileType::RegularFile => Kind::Regular {
            says_empty: stat.st_size == 0,
        },
        FileType::BlockDevice => Kind::BlockDevice,
        FileType::Socket => match rustix::net::sockopt::socket_type(fd) {
            Ok(SocketType::STREAM) => Kind::Stream {
                local: rustix::net::sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX),
            },
            _ => Kind::Messages,
        },
        FileType::CharacterDevice => character_device(stat.st_rdev),
        _ => Kind::Other,
    }
}

/// By the numbers of Documentation/admin-guide/devices.txt.
fn character_device(device: u64) -> Kind {
    match (rustix::fs::major(device), rustix::fs::minor(device)) {
        // null, zero, full, random, urandom.
        (1, 3 | 5 | 7 | 8 | 9) => Kind::Memory,
        (5, 2) | (128..=135, _) => Kind::Terminal { master: true },
        // Consoles and serial lines, tty and console, Unix98 slaves.
        (4 | 136..=143, _) | (5, 0 | 1) => Kind::Terminal { master: false },
        _ => Kind::Other,
    }
}
