//! Types of descriptors.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketType, recv};

use crate::sys::block_device_len;
use crate::transfer::{is_master, is_terminal};

/// Type of a descriptor, as far as relaying is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FileKind {
    /// A pipe or FIFO.
    Pipe,
    /// A regular file. Files of /proc report a length of 0.
    Regular { says_empty: bool },
    /// A block device.
    BlockDevice,
    /// A stream socket, local (a Unix socket) or not.
    Stream { local: bool },
    /// Any other socket: each write is a message.
    Messages,
    /// /dev/null, /dev/zero and similar devices, which never block.
    Memory,
    /// A terminal, or one end of a pseudo-terminal.
    Terminal,
    /// Anything else: devices, counters, timers.
    Other,
}

/// One end of a relay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Endpoint<'a> {
    pub(super) fd: BorrowedFd<'a>,
    pub(super) kind: FileKind,
    id: FileId,
    /// O_NONBLOCK is set, and whoever set it keeps it: a runtime's socket.
    stays_nonblocking: bool,
}

/// Identity of a file, and its length when it was examined.
#[derive(Debug, Clone, Copy)]
struct FileId {
    device: u64,
    inode: u64,
    len: u64,
}

impl<'a> Endpoint<'a> {
    /// Examines a descriptor.
    ///
    /// # Errors
    /// Those of fstat(2).
    pub(super) fn examine(fd: BorrowedFd<'a>) -> io::Result<Self> {
        let stat = rustix::fs::fstat(fd)?;
        Ok(Endpoint {
            fd,
            kind: kind_of(fd, &stat),
            id: FileId {
                device: stat.st_dev,
                inode: stat.st_ino,
                len: stat.st_size as u64,
            },
            stays_nonblocking: false,
        })
    }

    /// As [`examine`](Self::examine), of a descriptor whose O_NONBLOCK does not change.
    #[cfg(feature = "tokio")]
    pub(super) fn examine_for_runtime(fd: BorrowedFd<'a>) -> io::Result<Self> {
        let mut end = Self::examine(fd)?;
        end.stays_nonblocking = end.is_socket() && end.is_nonblocking();
        Ok(end)
    }

    pub(super) fn is_pipe(&self) -> bool {
        self.kind == FileKind::Pipe
    }

    pub(super) fn is_socket(&self) -> bool {
        matches!(self.kind, FileKind::Stream { .. } | FileKind::Messages)
    }

    /// Whether it has a reader, as an output, that may leave.
    pub(super) fn has_reader(&self) -> bool {
        self.is_pipe() || self.is_socket()
    }

    /// Whether it has a position that can be set back.
    pub(super) fn is_file(&self) -> bool {
        matches!(self.kind, FileKind::Regular { .. } | FileKind::BlockDevice)
    }

    /// Whether calls never wait for another process, so that polling is useless.
    pub(super) fn is_always_ready(&self) -> bool {
        self.is_file() || self.kind == FileKind::Memory
    }

    /// Whether a relay of `most` bytes from here to `output` would read what it
    /// has written: both are the same regular file, which is written at or behind
    /// the position of the input.
    pub(super) fn would_read_back_from(
        &self,
        output: &Endpoint<'_>,
        most: u64,
    ) -> io::Result<bool> {
        let regular = |place: &Endpoint<'_>| matches!(place.kind, FileKind::Regular { .. });
        let (a, b) = (&self.id, &output.id);
        let same = (a.device, a.inode) == (b.device, b.inode);
        if !same || !regular(self) || !regular(output) {
            return Ok(false);
        }
        let flags = [self.fd, output.fd].map(rustix::fs::fcntl_getfl);
        let (from, to) = (flags[0]?, flags[1]?);
        // Wrong access modes are reported by the calls that follow.
        if from & OFlags::ACCMODE == OFlags::WRONLY || to & OFlags::ACCMODE == OFlags::RDONLY {
            return Ok(false);
        }
        let read = rustix::fs::tell(self.fd)?;
        let written = if to.contains(OFlags::APPEND) {
            b.len
        } else {
            rustix::fs::tell(output.fd)?
        };
        // At its end there is nothing to read, and so nothing is written.
        Ok(read < a.len && read <= written && most > written - read)
    }

    /// Whether it is a stream socket at the end of its data. False if unknown.
    ///
    /// # Errors
    /// Those of recv(2), which are not reported again.
    pub(super) fn is_at_end(&self) -> rustix::io::Result<bool> {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        if !matches!(self.kind, FileKind::Stream { .. }) {
            return Ok(false);
        }
        match recv(self.fd, &mut [0; 1], flags) {
            Ok((n, _)) => Ok(n == 0),
            Err(Errno::AGAIN | Errno::INTR) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Returns the number of bytes between the position of a regular file, or a block device, and its
    /// present end; `None` for any other end, and if it is unknown.
    pub(super) fn bytes_to_end(&self) -> Option<u64> {
        let len = match self.kind {
            FileKind::Regular { .. } => rustix::fs::fstat(self.fd).ok()?.st_size as u64,
            FileKind::BlockDevice => block_device_len(self.fd).ok()?,
            _ => return None,
        };
        Some(len.saturating_sub(rustix::fs::tell(self.fd).ok()?))
    }

    /// Whether O_NONBLOCK is set on the open file, and stays set.
    pub(super) fn stays_nonblocking(&self) -> bool {
        self.stays_nonblocking
    }

    /// Whether O_NONBLOCK is set on the open file.
    pub(super) fn is_nonblocking(&self) -> bool {
        self.stays_nonblocking
            || rustix::fs::fcntl_getfl(self.fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK))
    }
}

fn kind_of(fd: BorrowedFd<'_>, stat: &Stat) -> FileKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Fifo => FileKind::Pipe,
        FileType::RegularFile => FileKind::Regular {
            says_empty: stat.st_size == 0,
        },
        FileType::BlockDevice => FileKind::BlockDevice,
        FileType::Socket => match rustix::net::sockopt::socket_type(fd) {
            Ok(SocketType::STREAM) => FileKind::Stream {
                local: rustix::net::sockopt::socket_domain(fd) == Ok(AddressFamily::UNIX),
            },
            Ok(_) => FileKind::Messages,
            // Where a filter refuses the question. What takes messages whole discards bytes of a stream.
            Err(_) => FileKind::Stream { local: false },
        },
        FileType::CharacterDevice => character_device(fd, stat.st_rdev),
        _ => FileKind::Other,
    }
}

/// Classifies a device, by its numbers (Documentation/admin-guide/devices.txt) unless it is a terminal.
fn character_device(fd: BorrowedFd<'_>, device: u64) -> FileKind {
    match (rustix::fs::major(device), rustix::fs::minor(device)) {
        // null, zero, full, random, urandom.
        (1, 3 | 5 | 7 | 8 | 9) => FileKind::Memory,
        _ if is_master(device) || is_terminal(fd, device) => FileKind::Terminal,
        _ => FileKind::Other,
    }
}
