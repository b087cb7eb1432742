//! Sends with MSG_ZEROCOPY, and their completions.

use std::collections::VecDeque;
use std::os::fd::{AsFd, AsRawFd};

use libc::sock_extended_err;
use nix::cmsg_space;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::channel::Transmitter;
use crate::channel::message::Message;
use crate::channel::socket::{OverSocket, Socket};
use crate::endpoint::outcome::ZerocopyCounts;
use crate::session::refusal_or_failure;
use crate::sys;

/// The flag of send(2) for sending pages without copying them.
const MSG_ZEROCOPY: SendFlags = SendFlags::from_bits_retain(0x400_0000);

/// The maximum number of messages in flight, and of their bytes.
const MAX_PIECES: usize = 64;
const MAX_BYTES: usize = 8 << 20;

/// The number of pieces for messages of this length, which are sent in turn.
pub(crate) fn pieces(message: usize) -> usize {
    (MAX_BYTES / message).clamp(2, MAX_PIECES)
}

/// Sends with MSG_ZEROCOPY on a socket, and tracks which pieces of memory are in use. A
/// piece is not written again before the kernel has reported that its sends are
/// complete (Linux, Documentation/networking/msg_zerocopy.rst).
#[derive(Debug)]
pub struct ZerocopySends {
    socket: Socket,
    /// Whether all available completions are taken at a time, and a hang-up is checked
    /// for while there are none.
    drains: bool,
    /// The number of incomplete sends of each piece.
    pending: Vec<u32>,
    completions: Completions,
    /// The buffer for control messages.
    control: Vec<u8>,
}

impl ZerocopySends {
    /// Allows MSG_ZEROCOPY on a socket, to send from `pieces` pieces. With `drains`,
    /// takes all available completions at a time, else one.
    ///
    /// # Errors
    /// If the kernel refuses SO_ZEROCOPY (setsockopt(2)).
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

    /// Waits for a completion.
    fn await_completion(&mut self) -> rustix::io::Result<()> {
        loop {
            if self.take_completions()? {
                return Ok(());
            }
            let blocks = self.socket.blocks();
            if !blocks {
                if !self.drains {
                    return Err(Errno::AGAIN);
                }
                self.socket.counts.would_blocks += 1;
            }
            // poll(2) always reports errors, and a completion is one.
            let mut fds = [PollFd::new(&self.socket, PollFlags::empty())];
            let no_wait = Timespec::default();
            let polled = poll(&mut fds, (!blocks).then_some(&no_wait));
            let hung_up = fds[0].revents().contains(PollFlags::HUP);
            self.socket.counts.syscalls += 1;
            polled?;
            if hung_up && !self.take_completions()? {
                return Err(Errno::PIPE);
            }
            if !blocks {
                return Err(Errno::AGAIN);
            }
        }
    }

    /// Takes available completions: all with `drains`, else one. Returns whether there
    /// were any.
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

    /// Takes a completion if one is available. Returns whether there was one.
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
                    .record(&completion, |piece| pending[piece] -= 1);
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
                // Completions that have not been taken use up net.core.optmem_max.
                Err(Errno::NOBUFS) if !self.completions.in_flight.is_empty() => {
                    self.await_completion()?;
                }
                outcome => {
                    if outcome.is_ok() {
                        self.pending[message.piece] += 1;
                        self.completions.record_send(message.piece);
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

    /// A pending completion makes poll(2) return at once, and may be the event that is
    /// waited for.
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

/// The sends in flight. The kernel numbers sends from 0; a completion covers a range of
/// them, and ranges may arrive in any order.
#[derive(Debug, Default)]
struct Completions {
    /// The piece of each send from number `first` on; `None` once completed.
    in_flight: VecDeque<Option<usize>>,
    first: u32,
    counts: ZerocopyCounts,
}

impl Completions {
    fn record_send(&mut self, piece: usize) {
        self.in_flight.push_back(Some(piece));
    }

    /// Records the completion of the sends from `ee_info` to `ee_data`. Calls `done`
    /// with the piece of each.
    fn record(&mut self, completion: &sock_extended_err, mut done: impl FnMut(usize)) {
        let count = completion
            .ee_data
            .wrapping_sub(completion.ee_info)
            .wrapping_add(1);
        for at in 0..count {
            let index = completion.ee_info.wrapping_add(at).wrapping_sub(self.first) as usize;
            let Some(piece) = self.in_flight.get_mut(index).and_then(Option::take) else {
                continue;
            };
            done(piece);
            self.counts.completed += 1;
            self.counts.copied += u64::from(completion.ee_code & CODE_COPIED != 0);
        }
        while self.in_flight.front() == Some(&None) {
            self.in_flight.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

/// SO_EE_ORIGIN_ZEROCOPY: a completion. SO_EE_CODE_ZEROCOPY_COPIED: the kernel copied
/// the data anyway (linux/errqueue.h).
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completions_are_counted_once_in_any_order() {
        let mut completions = Completions {
            first: u32::MAX - 1,
            ..Completions::default()
        };
        for piece in [0, 1, 0, 1, 0] {
            completions.record_send(piece);
        }
        let mut pending = [3, 2];
        let mut complete = |first, last, copied| {
            let completion = sock_extended_err {
                ee_errno: 0,
                ee_origin: ORIGIN_ZEROCOPY,
                ee_type: 0,
                ee_code: if copied { CODE_COPIED } else { 0 },
                ee_pad: 0,
                ee_info: first,
                ee_data: last,
            };
            completions.record(&completion, |piece| pending[piece] -= 1);
            // A repeated completion has no effect.
            completions.record(&completion, |piece| pending[piece] -= 1);
        };
        complete(0, 1, true);
        complete(u32::MAX - 1, u32::MAX, false);
        complete(2, 2, true);
        assert_eq!(pending, [0, 0]);
        let counts = completions.counts;
        assert_eq!((counts.completed, counts.copied), (5, 3));
        assert!(completions.in_flight.is_empty());
        assert_eq!(completions.first, 3);
    }
}
