//! Messages, and the memory that they are sent from. Their contents reveal lost, torn
//! and mixed-up messages.
//!
//! vmsplice doesn't copy a message when it is sent: the receiver takes it from the
//! sender's memory later. So messages use several slots in turn. Before
//! message n is sent, all answers up to number n - slots have arrived: the previous
//! message in this slot, and the answer in the same slot of the other end, have been
//! copied by their readers.

use fastpipe::buffer::BufferError;
use fastpipe::pipe::page_size;

use super::spec::ExchangeMode;
use crate::channel::message::{Message, Pieces};
use crate::spec::Channel;

/// Maximum number of messages in flight in an open loop, and of their bytes, where
/// the channel refers to their memory.
const MAX_SLOTS: usize = 64;
const MAX_BYTES: usize = 8 << 20;

/// Messages, each in pages of its own. A message contains its number, as far as there
/// is room, followed by bytes that depend on their position.
#[derive(Debug)]
pub(super) struct Messages {
    pieces: Pieces,
    channel: Channel,
    size: usize,
}

/// The number of slots that a channel needs.
pub(super) fn slots(channel: Channel, size: usize, mode: ExchangeMode) -> usize {
    match mode {
        _ if !channel.refers_to_memory() => 1,
        // The answer shows that the message was read.
        ExchangeMode::Closed => 1,
        // Each end writes before it reads: the peer's message n shows that it has read
        // ours up to n - 1.
        ExchangeMode::Naive(_) => 2,
        ExchangeMode::Open(_) => (MAX_BYTES / size).clamp(2, MAX_SLOTS),
    }
}

impl Messages {
    /// Maps and fills the slots.
    ///
    /// # Errors
    /// If the memory can't be mapped.
    pub(super) fn new(channel: Channel, size: usize, slots: usize) -> Result<Self, BufferError> {
        let stride = size.next_multiple_of(page_size());
        let mut pieces = Pieces::new(size, stride, slots)?;
        for slot in 0..slots {
            for (at, byte) in pieces.bytes_mut(slot).iter_mut().enumerate() {
                *byte = filling(at);
            }
        }
        let mut messages = Messages {
            pieces,
            channel,
            size,
        };
        if channel == Channel::Eventfd {
            // The value is added to the counter.
            messages.bytes_mut(0).copy_from_slice(&1_u64.to_ne_bytes());
        }
        Ok(messages)
    }

    /// Number of slots.
    pub(super) fn slots(&self) -> usize {
        self.pieces.count
    }

    /// The slot of a message.
    pub(super) fn slot(&self, number: u64) -> usize {
        (number % self.slots() as u64) as usize
    }

    /// Produces a message in its slot.
    pub(super) fn make(&mut self, number: u64) {
        if self.channel == Channel::Eventfd {
            return;
        }
        let slot = self.slot(number);
        let len = self.size.min(8);
        self.bytes_mut(slot)[..len].copy_from_slice(&number.to_le_bytes()[..len]);
    }

    /// The message in a slot, starting at its byte `from`.
    pub(super) fn message(&self, slot: usize, from: usize) -> Message<'_> {
        self.pieces.message(slot, from)
    }

    fn bytes(&self, slot: usize) -> &[u8] {
        self.message(slot, 0).bytes()
    }

    /// The bytes of a slot, mutably.
    pub(super) fn bytes_mut(&mut self, slot: usize) -> &mut [u8] {
        self.pieces.bytes_mut(slot)
    }

    /// Whether the number and the last byte received are those of the message `number`.
    pub(super) fn has_same_ends(&self, number: u64, received: &[u8]) -> bool {
        if self.channel == Channel::Eventfd {
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

    /// Whether all bytes received are those of the message `number`.
    pub(super) fn is_intact(&self, number: u64, received: &[u8]) -> bool {
        let rest = self.size.min(8)..;
        self.has_same_ends(number, received) && received[rest.clone()] == self.bytes(0)[rest]
    }
}

fn filling(at: usize) -> u8 {
    (at ^ (at >> 8)) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::spec::Naive;

    #[test]
    fn wrong_numbers_lengths_and_bytes_are_detected() {
        for (size, slots) in [(1, 1), (7, 3), (8, 2), (9, 1), (70_000, 3)] {
            let mut messages = Messages::new(Channel::PIPE, size, slots).unwrap();
            messages.make(5);
            let sent = messages.bytes(messages.slot(5)).to_vec();
            assert!(messages.has_same_ends(5, &sent) && messages.is_intact(5, &sent));
            assert!(!messages.has_same_ends(6, &sent), "{size}");
            assert!(!messages.has_same_ends(5, &sent[1..]), "{size}");
            for at in [0, size / 2, size - 1] {
                let mut wrong = sent.clone();
                wrong[at] ^= 1;
                assert!(!messages.is_intact(5, &wrong), "{size}, {at}");
            }
        }
    }

    #[test]
    fn a_message_is_kept_until_its_slot_is_used_again() {
        let mut messages = Messages::new(Channel::VMSPLICE, 9, 3).unwrap();
        for number in 0..3 {
            messages.make(number);
        }
        for number in 0..3 {
            let bytes = messages.bytes(messages.slot(number));
            assert!(messages.is_intact(number, bytes));
        }
        assert_eq!(messages.slot(3), messages.slot(0));
    }

    #[test]
    fn only_channels_that_refer_to_memory_need_several_slots() {
        let (open, naive) = (
            ExchangeMode::Open(10.0),
            ExchangeMode::Naive(Naive::WriteFirst),
        );
        for mode in [ExchangeMode::Closed, naive, open] {
            assert_eq!(slots(Channel::PIPE, 8, mode), 1);
        }
        let of = |size| {
            [ExchangeMode::Closed, naive, open].map(|mode| slots(Channel::VMSPLICE, size, mode))
        };
        assert_eq!(of(8), [1, 2, 64]);
        assert_eq!(of(16 << 20), [1, 2, 2]);
    }
}
