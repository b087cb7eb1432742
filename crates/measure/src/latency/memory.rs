//! Messages, and the memory that they are sent from: what they hold lets a
//! lost, torn or mixed-up one be noticed.
//!
//! Some channels don't copy a message when it is sent: the receiver, or the
//! kernel, takes it from the sender's memory later on. So messages have places
//! in turn. Who sends message n has received all answers up to that to
//! n - turns: the message that was there before, and the answer that the other
//! end had in the same place, have been copied by their readers.

use fastpipe::buffer::BufferError;
use fastpipe::pipe::page_size;

use super::spec::Mode;
use crate::channel::message::{Message, Pieces};
use crate::channel::transport::Transport;

/// In an open loop, how many messages are under way at most where the channel
/// refers to their memory, and how many bytes of them.
const MAX_TURNS: usize = 64;
const MAX_BYTES: usize = 8 << 20;

/// Messages in pages of their own. One holds its number, as far as it has
/// room, and after it bytes that depend on their place.
#[derive(Debug)]
pub(super) struct Messages {
    pieces: Pieces,
    kind: Transport,
    size: usize,
}

/// How many places it takes.
pub(super) fn turns(kind: Transport, size: usize, mode: Mode) -> usize {
    match mode {
        _ if !kind.refers_to_memory() => 1,
        // The answer says that the message was read.
        Mode::Closed => 1,
        // Each end writes before it reads: the other one's message n says that
        // it has read ours up to n - 1.
        Mode::Naive => 2,
        Mode::Open(_) => (MAX_BYTES / size).clamp(2, MAX_TURNS),
    }
}

impl Messages {
    /// Mapped and filled.
    ///
    /// # Errors
    /// When the memory can't be had.
    pub(super) fn new(kind: Transport, size: usize, turns: usize) -> Result<Self, BufferError> {
        let stride = size.next_multiple_of(page_size());
        let mut pieces = Pieces::new(size, stride, turns)?;
        for turn in 0..turns {
            for (at, byte) in pieces.bytes_mut(turn).iter_mut().enumerate() {
                *byte = filling(at);
            }
        }
        let mut messages = Messages { pieces, kind, size };
        if kind == Transport::Eventfd {
            // Adds 1 to a counter.
            messages.bytes_mut(0).copy_from_slice(&1_u64.to_ne_bytes());
        }
        Ok(messages)
    }

    /// How many messages there is room for.
    pub(super) fn turns(&self) -> usize {
        self.pieces.count()
    }

    /// Where a message lies.
    pub(super) fn turn(&self, number: u64) -> usize {
        (number % self.turns() as u64) as usize
    }

    /// Makes a message.
    pub(super) fn make(&mut self, number: u64) {
        if self.kind == Transport::Eventfd {
            return;
        }
        let turn = self.turn(number);
        let len = self.size.min(8);
        self.bytes_mut(turn)[..len].copy_from_slice(&number.to_le_bytes()[..len]);
    }

    /// What lies in a place, from its byte `from` on.
    pub(super) fn message(&self, turn: usize, from: usize) -> Message<'_> {
        self.pieces.message(turn, from)
    }

    fn bytes(&self, turn: usize) -> &[u8] {
        self.message(turn, 0).bytes()
    }

    /// The same, to be written.
    pub(super) fn bytes_mut(&mut self, turn: usize) -> &mut [u8] {
        self.pieces.bytes_mut(turn)
    }

    /// Whether a message came back: its number and its last byte.
    pub(super) fn came_back(&self, number: u64, received: &[u8]) -> bool {
        if self.kind == Transport::Eventfd {
            return received == self.bytes(0);
        }
        let len = self.size.min(8);
        let last = match self.size {
            ..=8 => number.to_le_bytes()[self.size - 1],
            size => filling(size - 1),
        };
        received.len() == self.size
            && received[..len] == number.to_le_bytes()[..len]
            && received.last() == Some(&last)
    }

    /// The same of every byte.
    pub(super) fn came_back_whole(&self, number: u64, received: &[u8]) -> bool {
        let rest = self.size.min(8)..;
        self.came_back(number, received) && received[rest.clone()] == self.bytes(0)[rest]
    }
}

fn filling(at: usize) -> u8 {
    (at ^ (at >> 8)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_number_a_torn_end_and_a_wrong_byte_are_noticed() {
        for (size, turns) in [(1, 1), (7, 3), (8, 2), (9, 1), (70_000, 3)] {
            let mut messages = Messages::new(Transport::Pipe, size, turns).unwrap();
            messages.make(5);
            let sent = messages.bytes(messages.turn(5)).to_vec();
            assert!(messages.came_back(5, &sent) && messages.came_back_whole(5, &sent));
            assert!(!messages.came_back(6, &sent), "{size}");
            assert!(!messages.came_back(5, &sent[1..]), "{size}");
            for at in [0, size / 2, size - 1] {
                let mut wrong = sent.clone();
                wrong[at] ^= 1;
                assert!(!messages.came_back_whole(5, &wrong), "{size}, {at}");
            }
        }
    }

    #[test]
    fn a_message_is_left_alone_until_its_turn_comes_again() {
        let mut messages = Messages::new(Transport::Vmsplice, 9, 3).unwrap();
        for number in 0..3 {
            messages.make(number);
        }
        for number in 0..3 {
            let lies = messages.bytes(messages.turn(number));
            assert!(messages.came_back_whole(number, lies));
        }
        assert_eq!(messages.turn(3), messages.turn(0));
    }

    #[test]
    fn only_channels_that_refer_to_memory_need_more_than_one_place() {
        let open = Mode::Open(10.0);
        for mode in [Mode::Closed, Mode::Naive, open] {
            assert_eq!(turns(Transport::Pipe, 8, mode), 1);
        }
        let of = |size| {
            [Mode::Closed, Mode::Naive, open].map(|mode| turns(Transport::VmReadv, size, mode))
        };
        assert_eq!(of(8), [1, 2, 64]);
        assert_eq!(of(16 << 20), [1, 2, 2]);
    }
}
