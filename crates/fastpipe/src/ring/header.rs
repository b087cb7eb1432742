//! What both ends of a ring share: its layout, and how an end moves on, sleeps
//! and wakes its peer.
//!
//! The peer may write anything here at any time, so every word is an atomic,
//! is loaded once where it is used, and is checked before it is believed.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use super::cursor::{Cursor, Role};
use super::error::Corrupt;
use super::sync::{AtomicU32, AtomicU64, Word, fence};
use crate::wait::Bound;

/// "fastring" on a little-endian machine.
const MAGIC: u64 = u64::from_le_bytes(*b"fastring");
const VERSION: u64 = 2;

/// Two cache lines: x86 processors fetch them in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Line<T>(T);

/// At the start of the file. The rest of its page is not used.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Header {
    identity: Line<Identity>,
    /// Bytes that were ever committed.
    head: Line<AtomicU64>,
    /// Bytes that were ever released.
    tail: Line<AtomicU64>,
    producer: Line<End>,
    consumer: Line<End>,
}

/// Written before anybody else has the file, and read once, when an end is
/// attached.
#[derive(Debug, Default)]
#[repr(C)]
struct Identity {
    magic: AtomicU64,
    version: AtomicU64,
    capacity: AtomicU64,
}

/// Written rarely, and read by the peer with each commit or release.
#[derive(Debug, Default)]
#[repr(C)]
struct End {
    state: AtomicU32,
    /// 1 while this end sleeps, or is about to.
    asleep: Word,
    /// 1 while this end never sleeps, so that its peer need not care.
    spins: AtomicU32,
    /// A [`Bound`].
    bound_to: AtomicU32,
    /// Where the peer is when it has left enough to wake this end for.
    wants: AtomicU64,
    /// How many times this end was given on.
    generation: AtomicU32,
}

#[cfg(not(fastpipe_loom))]
const _: () = assert!(size_of::<Header>() == 5 * 128);

/// Of `End::state`.
const FREE: u32 = 0;
const ATTACHED: u32 = 1;
const CLOSED: u32 = 2;
const ABANDONED: u32 = 3;

/// How the peer's end is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndState {
    /// In use, or on its way to whoever will use it.
    Open,
    /// Dropped.
    Closed,
    /// Dropped by a panic.
    Abandoned,
}

/// The header is not of a ring with this capacity, and of this version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Foreign;

impl Header {
    /// Of a header of zeroes makes one of a new ring.
    pub(super) fn identify(&self, capacity: u64) {
        let identity = &self.identity.0;
        identity.magic.store(MAGIC, Relaxed);
        identity.version.store(VERSION, Relaxed);
        identity.capacity.store(capacity, Relaxed);
    }

    /// Checks what `identify` wrote.
    pub(super) fn check(&self, capacity: u64) -> Result<(), Foreign> {
        let identity = &self.identity.0;
        let found = (
            identity.magic.load(Relaxed),
            identity.version.load(Relaxed),
            identity.capacity.load(Relaxed),
        );
        if found == (MAGIC, VERSION, capacity) {
            Ok(())
        } else {
            Err(Foreign)
        }
    }

    fn index(&self, role: Role) -> &AtomicU64 {
        match role {
            Role::Producer => &self.head.0,
            Role::Consumer => &self.tail.0,
        }
    }

    fn end(&self, role: Role) -> &End {
        match role {
            Role::Producer => &self.producer.0,
            Role::Consumer => &self.consumer.0,
        }
    }

    /// Takes the end `role`, and says where it goes on; `None` where somebody else
    /// has it, or had and closed it.
    ///
    /// The indices are looked at once the end is ours: until then its last owner
    /// may still have moved, and who went on from before that would write over
    /// what was committed. Acquire: all that it did comes before.
    pub(super) fn attach(&self, role: Role, capacity: u64) -> Result<Option<Cursor>, Corrupt> {
        let state = &self.end(role).state;
        if state
            .compare_exchange(FREE, ATTACHED, Acquire, Relaxed)
            .is_err()
        {
            return Ok(None);
        }
        // Ours stays as it is now. The peer may go on meanwhile, but only as far
        // as ours lets it.
        let head = self.index(Role::Producer).load(Acquire);
        let tail = self.index(Role::Consumer).load(Acquire);
        let cursor = Cursor::attach(role, head, tail, capacity);
        if cursor.is_err() {
            self.free(role);
        }
        cursor.map(Some)
    }

    /// Says whether the end `role` may sleep.
    ///
    /// A peer that is just leaving something may not have seen that yet, and not
    /// wake us if we fall asleep within that moment. Sleeping is limited, so
    /// that costs a quarter of a second at most, once.
    pub(super) fn set_spins(&self, role: Role, spins: bool) {
        self.end(role).spins.store(u32::from(spins), Relaxed);
        fence(SeqCst);
    }

    /// Says to which processor the end `role` is bound.
    pub(super) fn set_bound(&self, role: Role, bound_to: Bound) {
        self.end(role).bound_to.store(bound_to.0, Relaxed);
    }

    /// Whether the peer of `role` can't move while `role` spins, since both are
    /// bound to the same processor.
    pub(super) fn shares_processor(&self, role: Role) -> bool {
        let [mine, theirs] = [role, role.other()].map(|role| {
            let end = self.end(role);
            Bound(end.bound_to.load(Relaxed))
        });
        mine.shares_with(theirs)
    }

    /// Gives the end `role` on, to whoever attaches it next.
    ///
    /// Release, and before whatever its owner does next: who then sees the
    /// owner die sees that it had given the end on.
    pub(super) fn give_on(&self, role: Role) {
        let generation = &self.end(role).generation;
        let next = generation.load(Relaxed).wrapping_add(1);
        generation.store(next, Release);
        self.free(role);
    }

    /// How many times the peer of `role` gave its end on. Whoever had that end
    /// at another count does not have it now.
    pub(super) fn peer_generation(&self, role: Role) -> u32 {
        self.end(role.other()).generation.load(Acquire)
    }

    fn free(&self, role: Role) {
        self.set_spins(role, false);
        self.set_bound(role, Bound::default());
        self.end(role).state.store(FREE, Release);
    }

    /// Takes in how far the peer of `role` has come. Acquire: after it come our
    /// accesses to the bytes that it left to us.
    #[inline]
    pub(super) fn look(&self, role: Role, cursor: &mut Cursor) -> Result<(), Corrupt> {
        cursor.see(self.index(role.other()).load(Acquire))
    }

    /// Leaves the next `n` bytes to the peer. Release: before it go our accesses
    /// to them. True if that took a system call, to wake it.
    #[inline]
    pub(super) fn leave(&self, role: Role, cursor: &mut Cursor, n: usize) -> bool {
        let position = cursor.advance(n);
        self.index(role).store(position, Release);
        self.wake_peer(role, Some(position))
    }

    /// Ends it for `role`. To be looked at before the index, by which the peer
    /// then finds all that was left to it.
    pub(super) fn close(&self, role: Role, cleanly: bool) {
        let state = if cleanly { CLOSED } else { ABANDONED };
        self.end(role).state.store(state, Release);
        self.wake_peer(role, None);
    }

    /// How the peer of `role` is.
    #[inline]
    pub(super) fn peer(&self, role: Role) -> Result<EndState, Corrupt> {
        match self.end(role.other()).state.load(Acquire) {
            FREE | ATTACHED => Ok(EndState::Open),
            CLOSED => Ok(EndState::Closed),
            ABANDONED => Ok(EndState::Abandoned),
            _ => Err(Corrupt),
        }
    }

    /// Wakes the peer of `role` if it sleeps and what it waits for has come: we
    /// are at `position` by now, or have ended. True if it was woken.
    ///
    /// A sleeper says so and then looks at the index (`sleep`); we wrote the
    /// index and then look whether it said so. With a fence between the two on
    /// either side at least one of us sees what the other wrote.
    #[inline]
    fn wake_peer(&self, role: Role, position: Option<u64>) -> bool {
        let peer = self.end(role.other());
        // The fence would wait until all that we wrote to the ring is out.
        if peer.spins.load(Relaxed) != 0 {
            return false;
        }
        fence(SeqCst);
        let word = &peer.asleep;
        if word.get() == 0 {
            return false;
        }
        // Acquire, in `get`: what it wants is of this sleep or of a later one.
        let wants = peer.wants.load(Relaxed);
        if position.is_some_and(|position| !has_reached(position, wants)) {
            return false;
        }
        // So that nothing more is to be woken until it sleeps again, and that it
        // does not fall asleep if it was only about to.
        word.set(0);
        word.wake();
        true
    }

    /// Sleeps until the peer of `role` has moved far enough or ended, `limit` at
    /// most, or for no reason; not at all, and then false, where `at_least` bytes
    /// are available.
    pub(super) fn sleep(
        &self,
        role: Role,
        cursor: &mut Cursor,
        at_least: usize,
        limit: Duration,
    ) -> Result<bool, Corrupt> {
        let end = self.end(role);
        end.wants.store(cursor.wanting(at_least), Relaxed);
        end.asleep.set(1);
        fence(SeqCst);
        let looked = self
            .peer(role)
            .and_then(|state| self.look(role, cursor).map(|()| state));
        let sleeps = looked == Ok(EndState::Open) && cursor.available() < at_least;
        if sleeps {
            end.asleep.wait(1, limit);
        }
        end.asleep.set(0);
        looked.map(|_| sleeps)
    }
}

/// Whether `position` is `wanted` or further, modulo 2^64. Half of the numbers
/// lie ahead; a ring needs a billion.
#[inline]
fn has_reached(position: u64, wanted: u64) -> bool {
    position.wrapping_sub(wanted) < 1 << 63
}

#[cfg(all(test, not(fastpipe_loom)))]
mod tests {
    use super::*;

    #[test]
    fn ends_that_are_bound_to_one_processor_share_it_and_no_others_do() {
        let header = Header::default();
        for (one, other, shared) in [(1, 1, true), (1, 2, false), (1, 0, false), (0, 0, false)] {
            header.set_bound(Role::Producer, Bound(one));
            header.set_bound(Role::Consumer, Bound(other));
            assert_eq!(header.shares_processor(Role::Producer), shared);
            assert_eq!(header.shares_processor(Role::Consumer), shared);
        }
        // Not of whoever takes the end next.
        header.set_bound(Role::Producer, Bound(1));
        header.set_bound(Role::Consumer, Bound(1));
        header.give_on(Role::Producer);
        assert!(!header.shares_processor(Role::Consumer));
    }

    #[test]
    fn a_position_is_reached_also_beyond_the_end_of_the_numbers() {
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
