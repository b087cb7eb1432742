//! The header shared by both ends: its layout, and how an end publishes its
//! position, sleeps, and wakes its peer.
//!
//! The peer may write anything here at any time, so every word is an atomic, is
//! loaded once per use, and checked before it is used.
//!
//! In tests, `model.rs` compiles this file and `word.rs` a second time, with loom's
//! atomics in place of `sync.rs`; so neither has tests of its own.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use super::cursor::{Cursor, Role, has_reached};
use super::error::Corrupt;
use super::sync::{AtomicU32, AtomicU64, fence};
use super::word::Word;
use crate::wait::Bound;

/// "fastring" on a little-endian processor.
const MAGIC: u64 = u64::from_le_bytes(*b"fastring");
const VERSION: u64 = 3;

/// A pair of cache lines, since x86 processors prefetch lines in pairs.
#[derive(Debug, Default)]
#[repr(C, align(128))]
struct Line<T>(T);

/// Start of the file. The rest of its page is unused.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct Header {
    identity: Line<Identity>,
    /// Number of bytes committed so far.
    head: Line<AtomicU64>,
    /// Number of bytes released so far.
    tail: Line<AtomicU64>,
    producer: Line<EndFields>,
    consumer: Line<EndFields>,
}

/// Written before the file is shared, and read once by each end.
#[derive(Debug, Default)]
#[repr(C)]
struct Identity {
    magic: AtomicU64,
    version: AtomicU64,
    capacity: AtomicU64,
}

/// State of an end. Rarely written; read by the peer at each commit or release.
#[derive(Debug, Default)]
#[repr(C)]
struct EndFields {
    state: AtomicU32,
    /// How this end waits: [`AWAKE`], [`ASLEEP`] or [`ARMED`].
    asleep: Word,
    /// 1 while this end never sleeps, so that the peer need not wake it.
    spins: AtomicU32,
    /// A [`Bound`].
    bound_to: AtomicU32,
    /// Position of the peer at which this end wants to be woken.
    wants: AtomicU64,
    /// How many times this end was passed on.
    generation: AtomicU32,
}

/// Values of [`EndFields::asleep`].
const AWAKE: u32 = 0;
/// Asleep on the word, or about to be.
const ASLEEP: u32 = 1;
/// Waits for its descriptor to become readable.
const ARMED: u32 = 2;

/// How an end was woken by its peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub(super) enum Woken {
    /// It need not be.
    No,
    /// By futex(2).
    ByWord,
    /// Its descriptor has to be made readable.
    ByDescriptor,
}

/// Values of [`EndFields::state`].
const FREE: u32 = 0;
const ATTACHED: u32 = 1;
const CLOSED: u32 = 2;
const ABANDONED: u32 = 3;

/// State of the peer's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndState {
    /// In use, or on its way to its next owner.
    Open,
    /// Dropped.
    Closed,
    /// Dropped while panicking.
    Abandoned,
}

/// Error: the header is not of a ring of this version and capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WrongHeader;

impl Header {
    /// Initializes a header of zeroes for a new ring.
    pub(super) fn initialize(&self, capacity: u64) {
        let identity = &self.identity.0;
        identity.magic.store(MAGIC, Relaxed);
        identity.version.store(VERSION, Relaxed);
        identity.capacity.store(capacity, Relaxed);
    }

    /// Checks the values written by `initialize`.
    pub(super) fn check(&self, capacity: u64) -> Result<(), WrongHeader> {
        let identity = &self.identity.0;
        let found = (
            identity.magic.load(Relaxed),
            identity.version.load(Relaxed),
            identity.capacity.load(Relaxed),
        );
        if found == (MAGIC, VERSION, capacity) {
            Ok(())
        } else {
            Err(WrongHeader)
        }
    }

    fn index(&self, role: Role) -> &AtomicU64 {
        match role {
            Role::Producer => &self.head.0,
            Role::Consumer => &self.tail.0,
        }
    }

    fn end(&self, role: Role) -> &EndFields {
        match role {
            Role::Producer => &self.producer.0,
            Role::Consumer => &self.consumer.0,
        }
    }

    /// Attaches the end `role` and returns its position, or `None` if the end is in
    /// use or closed.
    ///
    /// Reads the positions after the end is ours, since its last owner could still
    /// move before, and a position from before that would overwrite committed bytes.
    /// Acquire: everything that owner did happens before.
    pub(super) fn attach(&self, role: Role, capacity: u64) -> Result<Option<Cursor>, Corrupt> {
        let state = &self.end(role).state;
        if state
            .compare_exchange(FREE, ATTACHED, Acquire, Relaxed)
            .is_err()
        {
            return Ok(None);
        }
        // Our position does not change now. The peer may still move, but only as
        // far as ours allows.
        let head = self.index(Role::Producer).load(Acquire);
        let tail = self.index(Role::Consumer).load(Acquire);
        let cursor = Cursor::attach(role, head, tail, capacity);
        if cursor.is_err() {
            self.free(role);
        }
        cursor.map(Some)
    }

    /// Publishes whether the end `role` never sleeps.
    ///
    /// A peer that is just publishing may miss the change and not wake us if we
    /// fall asleep at that moment. Sleeps are limited, so this costs at most 250 ms,
    /// once. An end that begins to wait by its descriptor has been rung before, and so
    /// calls once more before it waits.
    pub(super) fn set_spins(&self, role: Role, spins: bool) {
        self.end(role).spins.store(u32::from(spins), Relaxed);
        fence(SeqCst);
    }

    /// Publishes the processor to which the end `role` is bound.
    pub(super) fn set_bound(&self, role: Role, bound_to: Bound) {
        self.end(role).bound_to.store(bound_to.0, Relaxed);
    }

    /// Whether both ends are bound to the same processor, so that the peer of
    /// `role` can't run while `role` spins.
    pub(super) fn shares_processor(&self, role: Role) -> bool {
        let [mine, theirs] = [role, role.other()].map(|role| {
            let end = self.end(role);
            Bound(end.bound_to.load(Relaxed))
        });
        mine.shares_with(theirs)
    }

    /// Passes the end `role` on, to the next that attaches it.
    ///
    /// Release, and before anything else its owner does: whoever then notices the
    /// owner's death also sees that it had passed the end on.
    pub(super) fn pass_on(&self, role: Role) {
        let generation = &self.end(role).generation;
        let next = generation.load(Relaxed).wrapping_add(1);
        generation.store(next, Release);
        self.free(role);
    }

    /// Returns how many times the peer of `role` passed its end on. A process that
    /// had that end at another count does not own it now.
    pub(super) fn peer_generation(&self, role: Role) -> u32 {
        self.end(role.other()).generation.load(Acquire)
    }

    fn free(&self, role: Role) {
        self.set_spins(role, false);
        self.set_bound(role, Bound::default());
        self.disarm(role);
        self.end(role).state.store(FREE, Release);
    }

    /// Reads the position of the peer of `role` into `cursor`. Acquire: our accesses
    /// to the bytes that this makes available happen after.
    #[inline]
    pub(super) fn refresh(&self, role: Role, cursor: &mut Cursor) -> Result<(), Corrupt> {
        cursor.update_peer(self.index(role.other()).load(Acquire))
    }

    /// Advances `role` by `n` bytes and publishes its position. Release: our accesses
    /// to these bytes happen before. Wakes the peer if it waits for them.
    #[inline]
    pub(super) fn publish(&self, role: Role, cursor: &mut Cursor, n: usize) -> Woken {
        let position = cursor.advance(n);
        self.index(role).store(position, Release);
        self.wake_peer(role, Some(position))
    }

    /// Closes the end `role`. The peer must read this before the position, and so
    /// finds all bytes published before.
    pub(super) fn close(&self, role: Role, cleanly: bool) -> Woken {
        let state = if cleanly { CLOSED } else { ABANDONED };
        self.end(role).state.store(state, Release);
        self.wake_peer(role, None)
    }

    /// Returns the state of the peer of `role`.
    #[inline]
    pub(super) fn peer(&self, role: Role) -> Result<EndState, Corrupt> {
        match self.end(role.other()).state.load(Acquire) {
            FREE | ATTACHED => Ok(EndState::Open),
            CLOSED => Ok(EndState::Closed),
            ABANDONED => Ok(EndState::Abandoned),
            _ => Err(Corrupt),
        }
    }

    /// Wakes the peer of `role` if it sleeps and has what it waits for: our
    /// `position`, or our end being closed (`None`).
    ///
    /// The sleeper announces its sleep and then reads the position (`sleep`); we
    /// write the position and then look for the announcement. With a fence between
    /// the two steps on both sides, at least one side sees what the other wrote.
    #[inline]
    fn wake_peer(&self, role: Role, position: Option<u64>) -> Woken {
        let peer = self.end(role.other());
        // Checked before the fence, which waits until all our writes are visible.
        if peer.spins.load(Relaxed) != 0 {
            return Woken::No;
        }
        fence(SeqCst);
        let word = &peer.asleep;
        let asleep = word.get();
        if asleep == AWAKE {
            return Woken::No;
        }
        // Acquire, in `get`: `wants` belongs to this sleep or to a later one.
        let wants = peer.wants.load(Relaxed);
        if position.is_some_and(|position| !has_reached(position, wants)) {
            return Woken::No;
        }
        // Nothing has to be woken until it sleeps again, and it will not fall asleep
        // if it was only about to.
        word.set(AWAKE);
        if asleep == ARMED {
            return Woken::ByDescriptor;
        }
        word.wake();
        Woken::ByWord
    }

    /// Sleeps until the peer of `role` has made `at_least` bytes available or has
    /// closed its end, for `limit` at most; may return early. Returns false without
    /// sleeping if that is already so.
    pub(super) fn sleep(
        &self,
        role: Role,
        cursor: &mut Cursor,
        at_least: usize,
        limit: Duration,
    ) -> Result<bool, Corrupt> {
        let sleeps = self.announce(role, cursor, at_least, ASLEEP);
        if sleeps == Ok(true) {
            self.end(role).asleep.wait(ASLEEP, limit);
        }
        self.disarm(role);
        sleeps
    }

    /// Asks the peer of `role` to make the end's descriptor readable once `at_least` bytes are
    /// available, or it has closed its end. Returns false if that is already so.
    pub(super) fn arm(
        &self,
        role: Role,
        cursor: &mut Cursor,
        at_least: usize,
    ) -> Result<bool, Corrupt> {
        let waits = self.announce(role, cursor, at_least, ARMED);
        if waits != Ok(true) {
            self.disarm(role);
        }
        waits
    }

    /// The end `role` is awake.
    pub(super) fn disarm(&self, role: Role) {
        self.end(role).asleep.set(AWAKE);
    }

    /// Announces that the end `role` is going to wait, and how. Returns whether there is anything
    /// to wait for.
    fn announce(
        &self,
        role: Role,
        cursor: &mut Cursor,
        at_least: usize,
        how: u32,
    ) -> Result<bool, Corrupt> {
        let end = self.end(role);
        end.wants.store(cursor.wake_position(at_least), Relaxed);
        end.asleep.set(how);
        fence(SeqCst);
        let state = self.peer(role)?;
        self.refresh(role, cursor)?;
        Ok(state == EndState::Open && cursor.available() < at_least)
    }
}
