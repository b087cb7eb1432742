//! Position of an end, and how far it may advance. Pure computation.

use super::error::Corrupt;

/// One of the two ends.
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

/// Private state of one end. Positions are stream offsets modulo 2^64. They are
/// never read back from shared memory, since the peer can change it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    /// Our position.
    position: u64,
    /// Where it is in the ring: less than the capacity.
    offset: usize,
    /// The peer's position when it was last read.
    theirs: u64,
    /// Bytes from `position` on that we may access: room or data.
    available: u64,
    capacity: u64,
}

impl Cursor {
    /// Creates the state of the end `role` from the header's positions of the
    /// producer (`head`) and the consumer (`tail`).
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
            offset: (position % capacity) as usize,
            theirs,
            available,
            capacity,
        })
    }

    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns where the position is in the ring. No division: that would cost as much as the rest of a small
    /// transfer.
    #[inline]
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// Returns the peer's position at which `n` bytes are available to us; `n` must
    /// be more than is available now.
    pub(super) fn wake_position(&self, n: usize) -> u64 {
        let lack = (n as u64).wrapping_sub(self.available);
        self.theirs.wrapping_add(lack)
    }

    /// Returns the number of available bytes, at most the capacity.
    #[inline]
    pub(super) fn available(&self) -> usize {
        self.available as usize
    }

    /// Records the peer's position. It can't have moved back, nor past us: a consumer
    /// not beyond the committed bytes, a producer not beyond a full ring.
    #[inline]
    pub(super) fn update_peer(&mut self, theirs: u64) -> Result<(), Corrupt> {
        let by = theirs.wrapping_sub(self.theirs);
        if by > self.capacity - self.available {
            return Err(Corrupt);
        }
        self.theirs = theirs;
        self.available += by;
        Ok(())
    }

    /// Advances by `n` bytes. Returns the new position.
    ///
    /// # Panics
    /// If fewer are available.
    #[inline]
    pub(super) fn advance(&mut self, n: usize) -> u64 {
        let available = self.available();
        assert!(n <= available, "{n} bytes of {available}");
        self.position = self.position.wrapping_add(n as u64);
        self.available -= n as u64;
        let capacity = self.capacity as usize;
        self.offset += n;
        if self.offset >= capacity {
            self.offset -= capacity;
        }
        self.position
    }
}

/// Whether `position` has reached `wanted`, modulo 2^64. The two are never more
/// than a ring's capacity apart, which is far less than 2^63.
#[inline]
pub(super) fn has_reached(position: u64, wanted: u64) -> bool {
    position.wrapping_sub(wanted) < 1 << 63
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn positions_may_overflow() {
        let start = u64::MAX - 3;
        let mut producer = Cursor::attach(Role::Producer, start, start, 8).unwrap();
        let mut consumer = Cursor::attach(Role::Consumer, start, start, 8).unwrap();
        for _ in 0..4 {
            consumer.update_peer(producer.advance(8)).unwrap();
            assert_eq!((producer.available(), consumer.available()), (0, 8));
            producer.update_peer(consumer.advance(8)).unwrap();
        }
        assert_eq!(producer.position(), start.wrapping_add(32));
    }

    #[test]
    fn a_peer_that_moved_too_far_or_back_is_detected() {
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
                    assert_eq!(cursor.update_peer(bad), Err(Corrupt));
                    assert_eq!(cursor.available, capacity - most, "changed by an error");
                }
                let mut cursor = cursor;
                cursor.update_peer(theirs + most).unwrap();
                assert_eq!(cursor.available, capacity);
            }
        }
        assert!(Cursor::attach(Role::Producer, 9, 0, 8).is_err());
        assert!(Cursor::attach(Role::Consumer, 0, 1, 8).is_err());
    }

    proptest! {
        #[test]
        fn available_bytes_never_exceed_the_capacity(
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
                let _ = cursor.update_peer(cursor.theirs.wrapping_add(further).wrapping_sub(4));
                prop_assert!(cursor.available() <= 16);
                cursor.advance(n.min(cursor.available()));
                prop_assert_eq!(cursor.offset() as u64, cursor.position() % 16);
            }
        }
    }

    #[test]
    fn positions_are_compared_across_the_overflow() {
        for (position, wanted, reached) in [
            (7, 7, true),
            (7, 8, false),
            (3, u64::MAX - 3, true),
            (u64::MAX - 3, 3, false),
        ] {
            assert_eq!(has_reached(position, wanted), reached);
        }
    }
}
