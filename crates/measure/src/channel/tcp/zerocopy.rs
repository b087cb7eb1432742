//! Sends with MSG_ZEROCOPY, and their completions.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};

use libc::sock_extended_err;
use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::channel::message::Message;
use crate::channel::socket::{OverSocket, Socket};
use crate::channel::{Transmitter, ZerocopyCounts, sys};
use crate::session::refusal_or_failure;

/// The flag of send(2) that sends pages instead of copying them.
const MSG_ZEROCOPY: SendFlags = SendFlags::from_bits_retain(0x400_0000);

/// At most this many messages are under way, and this many bytes of them.
const MAX_PIECES: usize = 64;
const MAX_BYTES: usize = 8 << 20;

/// The number of pieces that messages of this length are sent from in turn.
pub(crate) fn pieces(message: usize) -> usize {
    (MAX_BYTES / message).clamp(2, MAX_PIECES)
}

/// A socket's sends with MSG_ZEROCOPY, by the piece of memory each sends from. A
/// piece is not written again before the kernel has said that it is done with it
/// (Linux, Documentation/networking/msg_zerocopy.rst).
#[derive(Debug)]
pub struct ZerocopySends {
    socket: Socket,
    /// Whether all completions that have come are taken at a time, and the peer's
    /// end is looked for while none has.
    drains: bool,
    /// Of each piece, the sends that are not completed.
    pending: Vec<u32>,
    completions: Completions,
    /// Where control messages are put.
    control: Vec<u8>,
}

impl ZerocopySends {
    /// Sends from `pieces` pieces. `drains`: takes all completions that have come
    /// at a time, else one.
    ///
    /// # Errors
    /// Those of setsockopt(2): the kernel refuses SO_ZEROCOPY.
    pub fn new(socket: Socket, pieces: usize, drains: bool) -> anyhow::Result<Self> {
        sys::allow_zerocopy(socket.as_fd())
            .map_err(|errno| refusal_or_failure("SO_ZEROCOPY", errno))?;
        Ok(ZerocopySends {
            socket,
            drains,
            pending: vec![0; pieces],
            completions: Completions::default(),
            control: cmsg_space!(sock_extended_err, libc::sockaddr_in),
        })
    }

    /// Waits until a completion has come.
    fn await_completion(&mut self) -> rustix::io::Result<()> {
        loop {
            if self.take_completions()? {
                return Ok(());
            }
            let sleeps = self.socket.sleeps();
            if !sleeps {
                if !self.drains {
                    return Err(Errno::AGAIN);
                }
                self.socket.counts.would_blocks += 1;
            }
            // Errors are always asked for (poll(2)), and nothing else is here.
            let mut fds = [PollFd::new(&self.socket, PollFlags::empty())];
            let at_once = Timespec::default();
            let polled = poll(&mut fds, (!sleeps).then_some(&at_once));
            let gone = fds[0].revents().contains(PollFlags::HUP);
            self.socket.counts.syscalls += 1;
            polled?;
            if gone && !self.take_completions()? {
                return Err(Errno::PIPE);
            }
            if !sleeps {
                return Err(Errno::AGAIN);
            }
        }
    }

    /// Takes completions that have come. Returns whether there were any.
    fn take_completions(&mut self) -> rustix::io::Result<bool> {
        let mut any = false;
        loop {
            match self.take_completion() {
                Ok(true) => any = true,
                Ok(false) => return Ok(any),
                Err(Errno::INTR) if self.drains => continue,
                Err(errno) => return Err(errno),
            }
            if !self.drains {
                return Ok(any);
            }
        }
    }

    /// Takes a completion that has come. Returns whether there was any.
    fn take_completion(&mut self) -> rustix::io::Result<bool> {
        self.socket.counts.syscalls += 1;
        let fd = self.socket.as_fd().as_raw_fd();
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let message = match recvmsg::<()>(fd, &mut [], Some(&mut self.control), flags) {
            Err(nix::Error::EAGAIN) => return Ok(false),
            message => message.map_err(|errno| Errno::from_raw_os_error(errno as i32))?,
        };
        for control in message.cmsgs().into_iter().flatten() {
            if let ControlMessageOwned::Ipv4RecvErr(completion, _) = control
                && completion.ee_origin == ORIGIN_ZEROCOPY
            {
                let pending = &mut self.pending;
                self.completions
                    .note(&completion, |piece| pending[piece] -= 1);
            }
        }
        Ok(true)
    }
}

impl OverSocket for ZerocopySends {
    fn socket(&self) -> &Socket {
        &self.socket
    }

    fn socket_mut(&mut self) -> &mut Socket {
        &mut self.socket
    }
}

impl Transmitter for ZerocopySends {
    fn send(&mut self, message: Message<'_>) -> rustix::io::Result<usize> {
        loop {
            match self.socket.send_bytes(message.bytes(), MSG_ZEROCOPY) {
                // The completions that wait to be taken use up net.core.optmem_max.
                Err(Errno::NOBUFS) if !self.completions.under_way.is_empty() => {
                    self.await_completion()?;
                }
                outcome => {
                    if outcome.is_ok() {
                        self.pending[message.piece] += 1;
                        self.completions.sent_of(message.piece);
                    }
                    return outcome;
                }
            }
        }
    }

    fn reclaim(&mut self, piece: usize) -> rustix::io::Result<()> {
        while self.pending[piece] > 0 {
            self.await_completion()?;
        }
        Ok(())
    }

    /// A completion that waits to be taken would not let poll sleep, and may be what
    /// is waited for.
    fn take_notices(&mut self) -> rustix::io::Result<bool> {
        self.take_completion()
    }

    fn call(&self) -> &'static str {
        "send with MSG_ZEROCOPY"
    }

    fn zerocopy(&self) -> Option<ZerocopyCounts> {
        Some(self.completions.counts)
    }
}

/// Sends are numbered from 0 by the kernel; a completion tells of a range of
/// them, and ranges may come in any order.
#[derive(Debug, Default)]
struct Completions {
    /// The piece of each send since number `first`; none once completed.
    under_way: VecDeque<Option<usize>>,
    first: u32,
    counts: ZerocopyCounts,
}

impl Completions {
    fn sent_of(&mut self, piece: usize) {
        self.under_way.push_back(Some(piece));
    }

    /// Takes note of a completion: that of the sends from `ee_info` to `ee_data`.
    fn note(&mut self, completion: &sock_extended_err, mut done: impl FnMut(usize)) {
        let count = completion
            .ee_data
            .wrapping_sub(completion.ee_info)
            .wrapping_add(1);
        for at in 0..count {
            let index = completion.ee_info.wrapping_add(at).wrapping_sub(self.first) as usize;
            let Some(piece) = self.under_way.get_mut(index).and_then(Option::take) else {
                continue;
            };
            done(piece);
            self.counts.completed += 1;
            self.counts.copied += u64::from(completion.ee_code & CODE_COPIED != 0);
        }
        while self.under_way.front() == Some(&None) {
            self.under_way.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

/// SO_EE_ORIGIN_ZEROCOPY: a completion. SO_EE_CODE_ZEROCOPY_COPIED: the kernel copied
/// the data all the same (linux/errqueue.h).
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_counted_once_in_whatever_order_they_come() {
        let mut completions = Completions {
            first: u32::MAX - 1,
            ..Completions::default()
        };
        for piece in [0, 1, 0, 1, 0] {
            completions.sent_of(piece);
        }
        let mut pending = [3, 2];
        let mut note = |first, last, copied| {
            let completion = sock_extended_err {
                ee_errno: 0,
                ee_origin: ORIGIN_ZEROCOPY,
                ee_type: 0,
                ee_code: if copied { CODE_COPIED } else { 0 },
                ee_pad: 0,
                ee_info: first,
                ee_data: last,
            };
            completions.note(&completion, |piece| pending[piece] -= 1);
            // Told twice: the second time says nothing.
            completions.note(&completion, |piece| pending[piece] -= 1);
        };
        note(0, 1, true);
        note(u32::MAX - 1, u32::MAX, false);
        note(2, 2, true);
        assert_eq!(pending, [0, 0]);
        let counts = completions.counts;
        assert_eq!((counts.completed, counts.copied), (5, 3));
        assert!(completions.under_way.is_empty());
        assert_eq!(completions.first, 3);
    }
}
