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

/// "fastring" on a little-endian machine.
const MAGIC: u64 = u64::from_le_bytes(*b"fastring");
const VERSION: u64 = 1;

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
}

#[cfg(not(loom))]
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

    /// Takes an end. False where somebody else has it, or had and closed it.
    pub(super) fn claim(&self, role: Role) -> bool {
        let state = &self.end(role).state;
        state
            .compare_exchange(FREE, ATTACHED, Acquire, Relaxed)
            .is_ok()
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

    /// Gives an end back, for whoever claims it next.
    pub(super) fn unclaim(&self, role: Role) {
        self.set_spins(role, false);
        self.end(role).state.store(FREE, Release);
    }

    /// Where the end `role` goes on.
    pub(super) fn cursor(&self, role: Role, capacity: u64) -> Result<Cursor, Corrupt> {
        let head = self.index(Role::Producer).load(Acquire);
        let tail = self.index(Role::Consumer).load(Acquire);
        Cursor::attach(role, head, tail, capacity)
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
        self.wake_peer(role)
    }

    /// Ends it for `role`. To be looked at before the index, by which the peer
    /// then finds all that was left to it.
    pub(super) fn close(&self, role: Role, cleanly: bool) {
        let state = if cleanly { CLOSED } else { ABANDONED };
        self.end(role).state.store(state, Release);
        self.wake_peer(role);
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

    /// Wakes the peer of `role` if it sleeps: then true.
    ///
    /// A sleeper says so and then looks at the index (`sleep`); we wrote the
    /// index and then look whether it said so. With a fence between the two on
    /// either side at least one of us sees what the other wrote.
    #[inline]
    fn wake_peer(&self, role: Role) -> bool {
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
        // So that nothing more is to be woken until it sleeps again, and
        // that it does not fall asleep if it was only about to.
        word.set(0);
        word.wake();
        true
    }

    /// Sleeps until the peer of `role` has moved or ended, `limit` at most, or
    /// for no reason; not at all, and then false, where `at_least` bytes are
    /// available.
    pub(super) fn sleep(
        &self,
        role: Role,
        cursor: &mut Cursor,
        at_least: usize,
        limit: Duration,
    ) -> Result<bool, Corrupt> {
        let word = &self.end(role).asleep;
        word.set(1);
        fence(SeqCst);
        let looked = self
            .peer(role)
            .and_then(|state| self.look(role, cursor).map(|()| state));
        let sleeps = looked == Ok(EndState::Open) && cursor.available() < at_least;
        if sleeps {
            word.wait(1, limit);
        }
        word.set(0);
        looked.map(|_| sleeps)
    }
}
