//! Writing to an output without blocking.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;

use super::ends::{Endpoint, FileKind};
use crate::transfer::Output;
use crate::wait::Wait;

/// Maximum number of bytes per write if poll(2) reports room but not how much: a
/// terminal blocks until everything is written.
const SMALL: usize = 512;

/// Technique for writing to an output.
#[derive(Debug)]
pub(super) enum RelaySink<'a> {
    /// A socket. MSG_DONTWAIT applies to one call, and exists on every kernel.
    Socket(BorrowedFd<'a>),
    /// A terminal, opened again with O_NONBLOCK: an open file of our own.
    Own(OwnedFd),
    /// Any other output, with the maximum number of bytes per write.
    Plain(Output<BorrowedFd<'a>>, usize),
}

impl<'a> RelaySink<'a> {
    pub(super) fn new(output: &Endpoint<'a>) -> Self {
        let most = match output.kind {
            FileKind::Stream { .. } | FileKind::Messages => return RelaySink::Socket(output.fd),
            FileKind::Terminal { master: false } => match reopen(output.fd) {
                Ok(own) => return RelaySink::Own(own),
                Err(_) => SMALL,
            },
            // Opening a master again would create a new pseudo-terminal.
            FileKind::Terminal { master: true } | FileKind::Other => SMALL,
            _ => usize::MAX,
        };
        RelaySink::Plain(Output::new(output.fd, Wait::Never), most)
    }

    /// Writes a part of `data`. Returns the number of bytes written.
    ///
    /// # Errors
    /// `WouldBlock`, and those of write(2) and send(2).
    pub(super) fn give(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            RelaySink::Socket(fd) => retry_on_signal(|| {
                rustix::net::send(*fd, data, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }),
            RelaySink::Own(own) => retry_on_signal(|| rustix::io::write(&*own, data)),
            RelaySink::Plain(output, most) => {
                let data = &data[..data.len().min(*most)];
                match output.write(data) {
                    Ok(()) => Ok(data.len()),
                    // The cause will occur again in the next call.
                    Err(incomplete) if incomplete.moved > 0 => Ok(incomplete.moved as usize),
                    Err(incomplete) => Err(incomplete.source),
                }
            }
        }
    }
}

fn retry_on_signal(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

fn reopen(fd: BorrowedFd<'_>) -> rustix::io::Result<OwnedFd> {
    // Not /proc/self: this thread may have its own table of descriptors.
    let path = format!("/proc/thread-self/fd/{}", fd.as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let own = rustix::fs::open(path, flags, Mode::empty())?;
    let (theirs, ours) = (rustix::fs::fstat(fd)?, rustix::fs::fstat(&own)?);
    if theirs.st_rdev == ours.st_rdev && theirs.st_ino == ours.st_ino {
        Ok(own)
    } else {
        Err(Errno::NXIO)
    }
}
