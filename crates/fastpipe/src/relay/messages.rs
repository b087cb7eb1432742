//! Inputs that preserve message boundaries. The part of a message that does not
//! fit into the buffer is lost, so the length is queried before it is taken.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SocketType, recv, sockopt};

use crate::wait::poll_now;

/// Next item of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// A message with this number of bytes, which may be 0.
    Message(usize),
    /// The end: no further message can come.
    End,
}

/// Examines the next item without taking it.
///
/// # Errors
/// `AGAIN` if there is none yet, and those of recv(2).
pub(super) fn next(fd: BorrowedFd<'_>) -> rustix::io::Result<Next> {
    match length(fd) {
        Ok(0) if is_end(fd) => Ok(Next::End),
        // Receiving datagrams was shut down: a blocking call would return 0. Check
        // again for messages that came before the shutdown.
        Err(Errno::AGAIN) if is_shut_down(fd).unwrap_or(false) => length(fd).map_or_else(
            |errno| match errno {
                Errno::AGAIN => Ok(Next::End),
                errno => Err(errno),
            },
            |len| Ok(Next::Message(len)),
        ),
        length => length.map(Next::Message),
    }
}

/// Takes the next message. Returns the number of bytes stored in `buffer`, and
/// the length of the message before truncation.
///
/// # Errors
/// Those of [`next`].
pub(super) fn take(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> rustix::io::Result<(usize, usize)> {
    receive(fd, buffer, RecvFlags::empty())
}

fn length(fd: BorrowedFd<'_>) -> rustix::io::Result<usize> {
    receive(fd, &mut [], RecvFlags::PEEK).map(|(_, len)| len)
}

/// Calls recv(2) with MSG_TRUNC, which returns the length of the whole message.
fn receive(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    flags: RecvFlags,
) -> rustix::io::Result<(usize, usize)> {
    let flags = flags | RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    loop {
        match recv(fd, &mut *buffer, flags) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Whether a 0 returned by recv(2) means the end, and not an empty message. For
/// datagrams it never does: a non-blocking call returns EAGAIN at their end.
///
/// For SOCK_SEQPACKET both look the same. But if the socket is shut down and has
/// no bytes left, no bytes are lost by assuming the end, even if there are empty
/// messages. Nor if that can't be known: read(2) would say the same.
fn is_end(fd: BorrowedFd<'_>) -> bool {
    let datagrams = [SocketType::DGRAM, SocketType::RAW].map(Ok);
    !datagrams.contains(&sockopt::socket_type(fd))
        && is_shut_down(fd).unwrap_or(true)
        && rustix::io::ioctl_fionread(fd).unwrap_or(0) == 0
}

/// Whether no further message can come, according to poll(2), which a filter may refuse.
fn is_shut_down(fd: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let hang_up = PollFlags::RDHUP | PollFlags::HUP;
    poll_now(fd, PollFlags::RDHUP).map(|found| found.intersects(hang_up))
}
