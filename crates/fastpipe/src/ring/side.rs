//! What both ends of a ring have in common: an end attached to a memory, which
//! waits for its peer.

use std::hint;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpid};

use super::cursor::{Cursor, Role};
use super::error::{Corrupt, RingError};
use super::header::{EndState, Header};
use super::memory::Memory;
use super::peer::{Peer, PeerState};
use crate::transfer::Counts;
use crate::wait::{Backoff, Bound, Wait};

/// How often a waiting end looks whether its peer is still there.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// So many looks at the peer's index, about a microsecond, come before a look at
/// the clock or a system call.
const TURNS: u32 = 64;

/// What waiting came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// At least what was asked for.
    Enough,
    /// Less, and it will not become more.
    Ended(RingError),
}

#[derive(Debug)]
pub(super) struct Side {
    role: Role,
    memory: Memory,
    cursor: Cursor,
    wait: Wait,
    backoff: Backoff,
    timeout: Option<Duration>,
    peer: Option<Peer>,
    /// Of the other end, while `peer` has it.
    peer_generation: u32,
    /// When we last looked at `peer`.
    looked: Instant,
    /// Where we began, and what we did since but for the bytes.
    begun: u64,
    counts: Counts,
    /// What can't be taken back.
    died: bool,
    corrupt: bool,
    /// A fork's child has a copy of us, which is not to close the end.
    /// `None`: the end was given away.
    owner: Option<Pid>,
}

impl Side {
    /// Takes the end `role` of the ring that lies in `memory`.
    pub(super) fn attach(memory: Memory, role: Role) -> io::Result<Self> {
        let cursor = memory.header().attach(role, memory.capacity() as u64);
        let cursor = cursor
            .map_err(|Corrupt| RingError::Corrupt)?
            .ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::ResourceBusy,
                    "that end of the ring is in use, or was closed",
                )
            })?;
        memory.header().set_bound(role, Bound::of_this_thread());
        Ok(Side {
            role,
            peer_generation: memory.header().peer_generation(role),
            memory,
            cursor,
            wait: Wait::default(),
            backoff: Backoff::with_peer(Wait::default(), true),
            timeout: None,
            peer: None,
            looked: Instant::now(),
            begun: cursor.position(),
            counts: Counts::default(),
            died: false,
            corrupt: false,
            owner: Some(getpid()),
        })
    }

    pub(super) fn set_wait(&mut self, wait: Wait) {
        self.wait = wait;
        self.backoff = Backoff::with_peer(wait, true);
        let spins = matches!(wait, Wait::Spin | Wait::Never);
        self.header().set_spins(self.role, spins);
        // It may have been bound to a processor since it was attached.
        let bound_to = Bound::of_this_thread();
        self.header().set_bound(self.role, bound_to);
    }

    pub(super) fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// Watches the process that has the other end now, or takes it next.
    pub(super) fn watch(&mut self, peer: Peer) {
        self.peer_generation = self.header().peer_generation(self.role);
        self.watch_first(peer);
    }

    /// Watches the process that had the other end when this one was attached,
    /// or took it next, even if it has given it on since.
    pub(super) fn watch_first(&mut self, peer: Peer) {
        self.peer = Some(peer);
        self.died = false;
    }

    #[inline]
    pub(super) fn memory(&self) -> &Memory {
        &self.memory
    }

    #[inline]
    pub(super) fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    #[inline]
    fn header(&self) -> &Header {
        self.memory.header()
    }

    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.memory.capacity()
    }

    #[inline]
    pub(super) fn position(&self) -> u64 {
        self.cursor.position()
    }

    /// The bytes that are ours, as far as is known.
    #[inline]
    pub(super) fn available(&self) -> usize {
        self.cursor.available()
    }

    /// Leaves the next `n` bytes to the peer.
    #[inline]
    pub(super) fn leave(&mut self, n: usize) {
        if self.memory.header().leave(self.role, &mut self.cursor, n) {
            self.counts.syscalls += 1;
        }
    }

    /// What this end did since it was attached.
    pub(super) fn counts(&self) -> Counts {
        Counts {
            bytes: self.position().wrapping_sub(self.begun),
            ..self.counts
        }
    }

    /// What of the peer's state ends us, if anything.
    #[inline]
    pub(super) fn ended(&mut self) -> io::Result<Option<RingError>> {
        if self.corrupt {
            return Err(RingError::Corrupt.into());
        }
        match self.header().peer(self.role) {
            Ok(EndState::Open) if self.died => Ok(Some(RingError::PeerDied)),
            Ok(EndState::Open) => Ok(None),
            Ok(EndState::Closed) => Ok(Some(RingError::PeerClosed)),
            Ok(EndState::Abandoned) => Ok(Some(RingError::PeerDied)),
            Err(Corrupt) => self.give_up(),
        }
    }

    #[cold]
    fn give_up<T>(&mut self) -> io::Result<T> {
        self.corrupt = true;
        Err(RingError::Corrupt.into())
    }

    /// Takes in how far the peer has come, unless `wanted` bytes are known of.
    #[inline]
    pub(super) fn look_for(&mut self, wanted: usize) -> io::Result<()> {
        if self.cursor.available() >= wanted && !self.corrupt {
            return Ok(());
        }
        self.look()
    }

    #[inline]
    fn look(&mut self) -> io::Result<()> {
        if self.corrupt {
            return self.give_up();
        }
        match self.memory.header().look(self.role, &mut self.cursor) {
            Ok(()) => Ok(()),
            Err(Corrupt) => self.give_up(),
        }
    }

    /// Waits until `at_least` bytes are available. Looks once for `wanted`,
    /// which may be more.
    #[inline]
    pub(super) fn wait_for(&mut self, at_least: usize, wanted: usize) -> io::Result<Found> {
        self.look_for(wanted.max(at_least))?;
        // With more, both ends could wait for each other.
        if at_least > self.capacity() / 2 {
            return too_much();
        }
        if self.cursor.available() >= at_least {
            self.backoff.record_success();
            return Ok(Found::Enough);
        }
        self.wait_slowly(at_least)
    }

    #[cold]
    fn wait_slowly(&mut self, at_least: usize) -> io::Result<Found> {
        self.counts.would_blocks += 1;
        let mut since = None;
        loop {
            // Before the index: what was left to us before the end counts.
            let ended = self.ended()?;
            if self.spin_for(at_least)? {
                self.backoff.record_success();
                return Ok(Found::Enough);
            }
            if let Some(end) = ended {
                return Ok(Found::Ended(end));
            }
            let since = *since.get_or_insert_with(Instant::now);
            match self.wait {
                Wait::Never | Wait::Spin => {}
                Wait::Adaptive if self.peer_moves() && self.backoff.should_retry() => {}
                Wait::Block | Wait::Poll | Wait::Adaptive => self.sleep(at_least, since)?,
            }
            let now = Instant::now();
            if self.look_at_peer(now) {
                continue;
            }
            if self.wait == Wait::Never {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if self.timeout.is_some_and(|limit| now - since >= limit) {
                // It may have come at the last moment.
                self.look_for(at_least)?;
                if self.cursor.available() < at_least {
                    return Err(RingError::TimedOut.into());
                }
            }
        }
    }

    /// Looks a few times. Even who means to sleep does, since waking him takes
    /// longer.
    fn spin_for(&mut self, at_least: usize) -> io::Result<bool> {
        let turns = match self.wait {
            Wait::Never => 1,
            Wait::Spin => TURNS,
            _ if self.peer_moves() => TURNS,
            _ => 1,
        };
        for turn in 0..turns {
            if turn > 0 {
                hint::spin_loop();
            }
            self.look()?;
            if self.cursor.available() >= at_least {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the peer may move while we spin.
    fn peer_moves(&self) -> bool {
        !self.header().shares_processor(self.role)
    }

    fn sleep(&mut self, at_least: usize, since: Instant) -> io::Result<()> {
        let limit = match self.timeout {
            Some(timeout) => LOOK_EVERY.min(timeout.saturating_sub(since.elapsed())),
            None => LOOK_EVERY,
        };
        let header = self.memory.header();
        match header.sleep(self.role, &mut self.cursor, at_least, limit) {
            Ok(slept) => {
                self.counts.syscalls += u64::from(slept);
                Ok(())
            }
            Err(Corrupt) => self.give_up(),
        }
    }

    /// Looks whether the peer is still there, now and then. True if it has been
    /// found to be gone.
    fn look_at_peer(&mut self, now: Instant) -> bool {
        if now - self.looked < LOOK_EVERY {
            return false;
        }
        self.looked = now;
        let died_before = self.died;
        if self.peer.is_some() {
            self.counts.syscalls += 1;
            self.counts.polls += 1;
            self.died = self.peer_is(Peer::is_dead);
        }
        self.died && !died_before
    }

    /// Whether `state` holds of the peer, if one is watched that has not given
    /// its end on.
    fn peer_is(&self, state: impl Fn(&Peer) -> bool) -> bool {
        // In this order: it may give its end on, and die, at any time.
        self.peer.as_ref().is_some_and(state)
            && self.header().peer_generation(self.role) == self.peer_generation
    }

    pub(super) fn peer_state(&self) -> io::Result<PeerState> {
        if self.corrupt {
            return Err(RingError::Corrupt.into());
        }
        let dead = self.died || self.peer_is(Peer::is_dead);
        // After that: a peer that ended may have closed its end before.
        match self.header().peer(self.role) {
            Err(Corrupt) => Err(RingError::Corrupt.into()),
            Ok(EndState::Closed) => Ok(PeerState::Closed),
            Ok(EndState::Abandoned) => Ok(PeerState::Died),
            Ok(EndState::Open) if dead => Ok(PeerState::Died),
            Ok(EndState::Open) if self.peer_is(Peer::is_stopped) => Ok(PeerState::Stopped),
            Ok(EndState::Open) => Ok(PeerState::Running),
        }
    }

    /// Leaves the end to whoever attaches it next, by the descriptor.
    pub(super) fn into_fd(mut self) -> io::Result<OwnedFd> {
        let file = self.memory.as_fd().try_clone_to_owned()?;
        self.header().give_on(self.role);
        self.owner = None;
        Ok(file)
    }

    /// Ends it as a panic would: the peer is not to take it for a proper end.
    pub(super) fn abandon(mut self) {
        self.header().close(self.role, false);
        self.owner = None;
    }
}

#[cold]
fn too_much<T>() -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "more than half of the ring's capacity was asked for at once",
    ))
}

impl Drop for Side {
    fn drop(&mut self) {
        if self.owner == Some(getpid()) {
            self.header().close(self.role, !thread::panicking());
        }
    }
}
