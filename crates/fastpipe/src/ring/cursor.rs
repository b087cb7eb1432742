//! Where an end of a ring is, and how far it may go. Pure: numbers in, numbers
//! out.

use super::error::Corrupt;

/// The two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Producer,
    Consumer,
}

impl Role {
    #[inline]
    pub(super) fn other(self) -> Self {
        match self {
            Role::Producer => Role::Consumer,
            Role::Consumer => Role::Producer,
        }
    }
}

/// One end's private knowledge. Positions are bytes of the stream, modulo
/// 2^64; the ring never trusts what it published, since the peer can change
/// that as well.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    /// How far we are.
    position: u64,
    /// How far the peer was when we last looked.
    theirs: u64,
    /// Bytes from `position` on that are ours: room or data.
    available: u64,
    capacity: u64,
}

impl Cursor {
    /// Of the end `role`, where the header says that the producer is at `head`
    /// and the consumer at `tail`.
    pub(super) fn attach(role: Role, head: u64, tail: u64, capacity: u64) -> Result<Self, Corrupt> {
        let used = head.wrapping_sub(tail);
        if used > capacity {
            return Err(Corrupt);
        }
        let (position, theirs, available) = match role {
            Role::Producer => (head, tail, capacity - used),
            Role::Consumer => (tail, head, used),
        };
        Ok(Cursor {
            position,
            theirs,
            available,
            capacity,
        })
    }

    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Where the peer is when `n` bytes are available, which are not yet.
    pub(super) fn wanting(&self, n: usize) -> u64 {
        let lack = (n as u64).wrapping_sub(self.available);
        self.theirs.wrapping_add(lack)
    }

    /// Never more than the capacity.
    #[inline]
    pub(super) fn available(&self) -> usize {
        self.available as usize
    }

    /// Takes in where the peer says it is now. It can't have come further than
    /// to us: a consumer to the last byte that was committed, a producer to
    /// where the ring is full; and it can't have gone back.
    #[inline]
    pub(super) fn see(&mut self, theirs: u64) -> Result<(), Corrupt> {
        let by = theirs.wrapping_sub(self.theirs);
        if by > self.capacity - self.available {
            return Err(Corrupt);
        }
        self.theirs = theirs;
        self.available += by;
        Ok(())
    }

    /// Goes `n` bytes further. Returns the new position.
    ///
    /// # Panics
    /// If that is more than is available.
    #[inline]
    pub(super) fn advance(&mut self, n: usize) -> u64 {
        let available = self.available();
        assert!(n <= available, "{n} bytes of {available}");
        self.position = self.position.wrapping_add(n as u64);
        self.available -= n as u64;
        self.position
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn positions_may_pass_the_end_of_the_numbers() {
        let start = u64::MAX - 3;
        let mut producer = Cursor::attach(Role::Producer, start, start, 8).unwrap();
        let mut consumer = Cursor::attach(Role::Consumer, start, start, 8).unwrap();
        for _ in 0..4 {
            consumer.see(producer.advance(8)).unwrap();
            assert_eq!((producer.available(), consumer.available()), (0, 8));
            producer.see(consumer.advance(8)).unwrap();
        }
        assert_eq!(producer.position(), start.wrapping_add(32));
    }

    #[test]
    fn a_peer_that_went_too_far_or_back_is_found_out() {
        for capacity in [1, 8, 1 << 40] {
            let at = 1000;
            for (role, head, tail) in [
                (Role::Producer, at, at - 1),
                (Role::Consumer, at, at - 1),
                (Role::Producer, at, at),
                (Role::Consumer, at, at),
            ] {
                let cursor = Cursor::attach(role, head, tail, capacity).unwrap();
                let theirs = if role == Role::Producer { tail } else { head };
                let most = capacity - cursor.available;
                for bad in [theirs - 1, theirs + most + 1, theirs ^ (1 << 63)] {
                    let mut cursor = cursor;
                    assert_eq!(cursor.see(bad), Err(Corrupt));
                    assert_eq!(cursor.available, capacity - most, "changed by an error");
                }
                let mut cursor = cursor;
                cursor.see(theirs + most).unwrap();
                assert_eq!(cursor.available, capacity);
            }
        }
        assert!(Cursor::attach(Role::Producer, 9, 0, 8).is_err());
        assert!(Cursor::attach(Role::Consumer, 0, 1, 8).is_err());
    }

    proptest! {
        #[test]
        fn whatever_the_peer_says_no_more_than_the_capacity_is_available(
            consumer: bool,
            head: u64,
            used in 0u64..20,
            said in prop::collection::vec((0u64..40, 0usize..20), 0..40),
        ) {
            let role = if consumer { Role::Consumer } else { Role::Producer };
            let Ok(mut cursor) = Cursor::attach(role, head, head.wrapping_sub(used), 16) else {
                prop_assert!(used > 16);
                return Ok(());
            };
            for (further, n) in said {
                let _ = cursor.see(cursor.theirs.wrapping_add(further).wrapping_sub(4));
                prop_assert!(cursor.available() <= 16);
                cursor.advance(n.min(cursor.available()));
            }
        }
    }
}
