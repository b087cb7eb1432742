//! What a message holds, so that a lost, torn or mixed-up one is noticed.

use super::channels::Kind;

/// Message number `number` of a stream, in `buffer`: its number, as far as it
/// has room, and after it bytes that depend on their place.
#[derive(Debug)]
pub(super) struct Message {
    buffer: Vec<u8>,
    kind: Kind,
}

impl Message {
    /// The first one.
    pub(super) fn new(kind: Kind, size: usize) -> Self {
        let buffer = match kind {
            // Adds 1 to a counter.
            Kind::Eventfd => 1_u64.to_ne_bytes().to_vec(),
            _ => (0..size).map(|at| (at ^ (at >> 8)) as u8).collect(),
        };
        let mut message = Message { buffer, kind };
        message.number(0);
        message
    }

    /// Makes it the one with this number.
    pub(super) fn number(&mut self, number: u64) {
        if self.kind == Kind::Eventfd {
            return;
        }
        let len = self.buffer.len().min(8);
        self.buffer[..len].copy_from_slice(&number.to_le_bytes()[..len]);
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// Whether this one came back: its number and its last byte.
    pub(super) fn came_back(&self, received: &[u8]) -> bool {
        let len = self.buffer.len().min(8);
        received.len() == self.buffer.len()
            && received[..len] == self.buffer[..len]
            && received.last() == self.buffer.last()
    }

    /// The same of every byte.
    pub(super) fn came_back_whole(&self, received: &[u8]) -> bool {
        received == self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_number_a_torn_end_and_a_wrong_byte_are_noticed() {
        for size in [1, 7, 8, 9, 70_000] {
            let mut message = Message::new(Kind::Pipe, size);
            message.number(5);
            let before = message.bytes().to_vec();
            assert!(message.came_back(&before) && message.came_back_whole(&before));
            message.number(6);
            assert!(!message.came_back(&before), "{size}");
            message.number(5);
            assert!(!message.came_back(&before[1..]), "{size}");
            let mut wrong = before.clone();
            wrong[size / 2] ^= 1;
            assert!(!message.came_back_whole(&wrong), "{size}");
        }
    }
}
