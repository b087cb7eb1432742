//! Sends with MSG_ZEROCOPY, and their completions.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fastpipe::buffer::Buffer;
use fastpipe::transfer::{Counts, Incomplete};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::channel::attempt::{Attempts, unsent};
use crate::channel::socket::{filled, send_flags};
use crate::channel::{Sink, ZerocopyCounts, sys};
use crate::endpoint::data::Producer;
use crate::endpoint::spec::SinkSpec;

/// The flag of send(2) that sends pages instead of copying them.
const MSG_ZEROCOPY: SendFlags = SendFlags::from_bits_retain(0x400_0000);

/// How many messages are under way at most, and how many bytes of them.
const MAX_PIECES: usize = 64;
const MAX_BYTES: usize = 8 << 20;

/// A socket's sends with MSG_ZEROCOPY, by the piece of memory each sends from. A
/// piece is not written again before the kernel has said that it is done with it
/// (Linux, Documentation/networking/msg_zerocopy.rst).
#[derive(Debug)]
pub(crate) struct ZerocopySends {
    fd: OwnedFd,
    /// Of each piece, the sends that are not completed.
    pending: Vec<u32>,
    completions: Completions,
}

impl ZerocopySends {
    /// Sends from so many pieces.
    ///
    /// # Errors
    /// Those of setsockopt(2): the kernel refuses SO_ZEROCOPY.
    pub(crate) fn new(fd: OwnedFd, pieces: usize) -> rustix::io::Result<Self> {
        sys::allow_zerocopy(fd.as_fd())?;
        Ok(ZerocopySends {
            fd,
            pending: vec![0; pieces],
            completions: Completions::default(),
        })
    }

    /// One call, from the memory of `piece`. Returns what it sent.
    ///
    /// # Errors
    /// Those of send(2); `NOBUFS` where completions have to be taken first.
    pub(crate) fn send(
        &mut self,
        piece: usize,
        bytes: &[u8],
        flags: SendFlags,
    ) -> rustix::io::Result<usize> {
        let sent = send(&self.fd, bytes, flags | MSG_ZEROCOPY)?;
        self.pending[piece] += 1;
        self.completions.sent_of(piece);
        Ok(sent)
    }

    /// Whether nobody needs the piece any more, as far as is known.
    pub(crate) fn is_free(&self, piece: usize) -> bool {
        self.pending[piece] == 0
    }

    /// Whether completions are still to come.
    pub(crate) fn awaits_some(&self) -> bool {
        !self.completions.under_way.is_empty()
    }

    /// Takes a completion that has come. Returns whether there was any.
    ///
    /// # Errors
    /// Those of recvmsg(2).
    pub(crate) fn take_completion(&mut self) -> rustix::io::Result<bool> {
        let mut control = [0; 16];
        match sys::error_message(self.fd.as_fd(), &mut control) {
            Ok(bytes) => {
                let words = (bytes / 8).min(control.len());
                if let Some(told) = told(&control[..words]) {
                    let pending = &mut self.pending;
                    self.completions.note(told, |piece| pending[piece] -= 1);
                }
                Ok(true)
            }
            Err(Errno::AGAIN) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// What the completions say.
    pub(crate) fn counts(&self) -> ZerocopyCounts {
        self.completions.counts
    }
}

impl AsFd for ZerocopySends {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The writing end with MSG_ZEROCOPY.
#[derive(Debug)]
pub struct ZerocopySink {
    sends: ZerocopySends,
    attempts: Attempts,
    buffer: Buffer,
    /// Bytes of a message.
    piece: usize,
    pieces: usize,
    next: usize,
}

impl ZerocopySink {
    /// A sink with its buffers mapped and filled.
    ///
    /// # Errors
    /// When the buffers can't be had, or the kernel refuses SO_ZEROCOPY.
    pub fn new(fd: OwnedFd, spec: &SinkSpec) -> anyhow::Result<Self> {
        let pieces = (MAX_BYTES / spec.buffer_bytes).clamp(2, MAX_PIECES);
        Ok(ZerocopySink {
            sends: ZerocopySends::new(fd, pieces)?,
            attempts: Attempts::new(spec.wait),
            buffer: filled(spec.buffer_bytes * pieces)?,
            piece: spec.buffer_bytes,
            pieces,
            next: 0,
        })
    }

    /// How many pieces are sent in turn.
    pub fn pieces(&self) -> usize {
        self.pieces
    }

    /// Waits until a completion has come at least.
    fn await_completion(&mut self) -> rustix::io::Result<()> {
        loop {
            if self.take_completions()? > 0 {
                return Ok(());
            }
            if self.attempts.spins() {
                self.attempts.counts.would_blocks += 1;
                std::hint::spin_loop();
            }
            // Errors are always asked for (poll(2)), and nothing else is here.
            let mut fds = [PollFd::new(&self.sends, PollFlags::empty())];
            let at_once = rustix::event::Timespec::default();
            let timeout = self.attempts.spins().then_some(&at_once);
            self.attempts.call(|| poll(&mut fds, timeout))?;
            let gone = fds[0].revents().contains(PollFlags::HUP);
            if gone && self.take_completions()? == 0 {
                return Err(Errno::PIPE);
            }
        }
    }

    /// Takes the completions that have come. Returns how many sends they are.
    fn take_completions(&mut self) -> rustix::io::Result<u64> {
        let before = self.sends.counts().completed;
        loop {
            self.attempts.counts.syscalls += 1;
            match self.sends.take_completion() {
                Ok(true) | Err(Errno::INTR) => {}
                Ok(false) => return Ok(self.sends.counts().completed - before),
                Err(errno) => return Err(errno),
            }
        }
    }
}

impl Sink for ZerocopySink {
    fn send(&mut self, producer: &mut Producer) -> Result<(), Incomplete> {
        while !self.sends.is_free(self.next) {
            self.await_completion().map_err(|errno| unsent(0, errno))?;
        }
        let start = self.next * self.piece;
        if !producer.is_idle() {
            producer.produce(&mut self.buffer[start..start + self.piece]);
        }
        let mut sent = 0;
        while sent < self.piece {
            let rest = &self.buffer[start + sent..start + self.piece];
            let (sends, piece) = (&mut self.sends, self.next);
            let flags = send_flags(&self.attempts);
            match self.attempts.call(|| sends.send(piece, rest, flags)) {
                Ok(n) => {
                    self.attempts.moved(n);
                    sent += n;
                }
                // The completions that wait to be taken use up net.core.optmem_max.
                Err(Errno::NOBUFS) if self.sends.awaits_some() => {
                    self.await_completion()
                        .map_err(|errno| unsent(sent, errno))?;
                }
                Err(errno) => return Err(unsent(sent, errno)),
            }
        }
        self.next = (self.next + 1) % self.pieces;
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.attempts.counts
    }

    fn call(&self) -> &'static str {
        "send with MSG_ZEROCOPY"
    }

    fn zerocopy(&self) -> Option<ZerocopyCounts> {
        Some(self.sends.counts())
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

    fn note(&mut self, told: Told, mut done: impl FnMut(usize)) {
        let count = told.last.wrapping_sub(told.first).wrapping_add(1);
        for at in 0..count {
            let index = told.first.wrapping_add(at).wrapping_sub(self.first) as usize;
            let Some(piece) = self.under_way.get_mut(index).and_then(Option::take) else {
                continue;
            };
            done(piece);
            self.counts.completed += 1;
            self.counts.copied += u64::from(told.copied);
        }
        while self.under_way.front() == Some(&None) {
            self.under_way.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }
}

/// What one completion tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told {
    first: u32,
    last: u32,
    copied: bool,
}

/// SO_EE_ORIGIN_ZEROCOPY and SO_EE_CODE_ZEROCOPY_COPIED (linux/errqueue.h).
const ORIGIN_ZEROCOPY: u8 = 5;
const CODE_COPIED: u8 = 1;

/// The completion in a control message: behind its header, a cmsghdr of 16
/// bytes, stands a struct sock_extended_err.
fn told(control: &[u64]) -> Option<Told> {
    const HEADER: usize = 2;
    // errno; origin, type, code, padding; info; data.
    let error = control.get(HEADER)?.to_ne_bytes();
    let range = control.get(HEADER + 1)?.to_ne_bytes();
    let number =
        |at: usize| u32::from_ne_bytes([range[at], range[at + 1], range[at + 2], range[at + 3]]);
    (error[4] == ORIGIN_ZEROCOPY).then(|| Told {
        first: number(0),
        last: number(4),
        copied: error[6] & CODE_COPIED != 0,
    })
}

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
            let told = Told {
                first,
                last,
                copied,
            };
            completions.note(told, |piece| pending[piece] -= 1);
            // Told twice: the second time says nothing.
            completions.note(told, |piece| pending[piece] -= 1);
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

    #[test]
    fn a_completion_is_read_from_its_control_message_and_nothing_else_is() {
        let mut range = [0; 8];
        range[..4].copy_from_slice(&7_u32.to_ne_bytes());
        range[4..].copy_from_slice(&9_u32.to_ne_bytes());
        let message = |origin, code| {
            let error = [0, 0, 0, 0, origin, 0, code, 0];
            [0, 0, u64::from_ne_bytes(error), u64::from_ne_bytes(range)]
        };
        let expected = |copied| Told {
            first: 7,
            last: 9,
            copied,
        };
        let copied = message(ORIGIN_ZEROCOPY, CODE_COPIED);
        assert_eq!(told(&copied), Some(expected(true)));
        assert_eq!(told(&message(ORIGIN_ZEROCOPY, 0)), Some(expected(false)));
        assert_eq!(told(&message(2, CODE_COPIED)), None);
        assert_eq!(told(&copied[..3]), None);
    }
}
