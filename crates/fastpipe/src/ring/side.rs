//! [`RingSide`]: an end attached to a ring's memory, which waits for its peer. Common
//! part of both ends.

use std::hint;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use super::bell::{Bell, Connection};
use super::cursor::{Cursor, Role};
use super::error::{Corrupt, RingError};
use super::header::{EndState, Header, Woken};
use super::memory::Memory;
use super::peer::{Peer, PeerState};
use crate::fork::Origin;
use crate::transfer::Counts;
use crate::wait::{Backoff, Bound, Wait};

/// How often a waiting end checks whether its peer is alive.
const PEER_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Number of reads of the peer's position, about a microsecond, before reading the
/// clock or making a system call.
const SPINS_PER_CHECK: u32 = 64;

/// Outcome of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitOutcome {
    /// At least the requested number of bytes is available.
    Enough,
    /// Fewer are available, and there will be no more.
    Ended(RingError),
}

#[derive(Debug)]
pub(super) struct RingSide {
    role: Role,
    memory: Memory,
    cursor: Cursor,
    wait: Wait,
    backoff: Backoff,
    timeout: Option<Duration>,
    peer: Option<Peer>,
    /// Generation of the other end for which `peer` is valid.
    peer_generation: u32,
    /// Of an end that was offered or accepted.
    bell: Option<Bell>,
    /// When `peer` was last checked.
    last_check: Instant,
    /// Position at the start, and the counts since, without bytes.
    start_position: u64,
    counts: Counts,
    /// States that are final.
    died: bool,
    corrupt: bool,
    /// Process of origin: a forked child has a copy, which must not close the end.
    /// `None` after the end was passed on.
    owner: Option<Origin>,
}

impl RingSide {
    /// Attaches the end `role` of the ring in `memory`.
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
        Ok(RingSide {
            role,
            peer_generation: memory.header().peer_generation(role),
            memory,
            cursor,
            wait: Wait::default(),
            backoff: Backoff::of_ring(Wait::default()),
            timeout: None,
            peer: None,
            bell: None,
            last_check: Instant::now(),
            start_position: cursor.position(),
            counts: Counts::default(),
            died: false,
            corrupt: false,
            owner: Some(Origin::this_process()),
        })
    }

    pub(super) fn set_wait(&mut self, wait: Wait) {
        self.wait = wait;
        self.backoff = Backoff::of_ring(wait);
        self.publish_spins();
        // The thread may have been bound since.
        let bound_to = Bound::of_this_thread();
        self.header().set_bound(self.role, bound_to);
    }

    fn publish_spins(&self) {
        let spins = match self.wait {
            Wait::Spin => true,
            Wait::Never => !self.bell.as_ref().is_some_and(|bell| bell.in_use),
            _ => false,
        };
        self.header().set_spins(self.role, spins);
    }

    /// Adopts the bell by which the peer, which has the other end now, wakes this one.
    pub(super) fn set_bell(&mut self, mut bell: Bell) {
        bell.generation = self.header().peer_generation(self.role);
        self.bell = Some(bell);
    }

    /// Returns the descriptor that becomes readable. See `ready_fd` of the ends.
    pub(super) fn ready_fd(&mut self) -> io::Result<BorrowedFd<'_>> {
        match &mut self.bell {
            Some(bell) => bell.in_use = true,
            None => {
                return Err(io::Error::new(
                    io::ErrorKind::Unsupported,
                    "only an end of a ring that was offered and accepted has a descriptor to wait on",
                ));
            }
        }
        self.publish_spins();
        match &self.bell {
            Some(bell) => Ok(bell.as_fd()),
            None => unreachable!("it was found above"),
        }
    }

    pub(super) fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    /// Watches the process that has the other end now, or takes it next.
    pub(super) fn watch(&mut self, peer: Peer) {
        self.peer_generation = self.header().peer_generation(self.role);
        self.watch_first(peer);
    }

    /// Watches the process that had the other end when this one was attached, or took
    /// it next, even if it has passed it on since.
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
    pub(super) fn offset(&self) -> usize {
        self.cursor.offset()
    }

    /// Returns the number of bytes known to be available.
    #[inline]
    pub(super) fn available(&self) -> usize {
        self.cursor.available()
    }

    /// Makes the next `n` bytes available to the peer.
    #[inline]
    pub(super) fn publish(&mut self, n: usize) {
        let header = self.memory.header();
        let woken = header.publish(self.role, &mut self.cursor, n);
        if woken != Woken::No {
            self.complete_wake_up(woken);
        }
    }

    /// Rings the peer's bell if it waits by its descriptor.
    #[cold]
    fn complete_wake_up(&mut self, woken: Woken) {
        self.counts.syscalls += 1;
        if woken == Woken::ByDescriptor
            && let Some(bell) = &mut self.bell
        {
            // It asks whether the peer is there, and writes.
            self.counts.syscalls += 1;
            bell.ring();
        }
    }

    /// Returns the counts since this end was attached.
    pub(super) fn counts(&self) -> Counts {
        Counts {
            bytes: self.cursor.position().wrapping_sub(self.start_position),
            ..self.counts
        }
    }

    /// Returns the peer state that terminates this end, if any.
    #[inline]
    pub(super) fn check_end(&mut self) -> io::Result<Option<RingError>> {
        if self.corrupt {
            return Err(RingError::Corrupt.into());
        }
        match self.header().peer(self.role) {
            Ok(EndState::Open) if self.died => Ok(Some(RingError::PeerDied)),
            Ok(EndState::Open) => Ok(None),
            Ok(EndState::Closed) => Ok(Some(RingError::PeerClosed)),
            Ok(EndState::Abandoned) => Ok(Some(RingError::PeerDied)),
            Err(Corrupt) => self.mark_corrupt(),
        }
    }

    #[cold]
    fn mark_corrupt<T>(&mut self) -> io::Result<T> {
        self.corrupt = true;
        Err(RingError::Corrupt.into())
    }

    /// Reads the peer's position, unless `wanted` bytes are known to be available.
    #[inline]
    pub(super) fn refresh_for(&mut self, wanted: usize) -> io::Result<()> {
        if self.cursor.available() >= wanted && !self.corrupt {
            return Ok(());
        }
        self.refresh()
    }

    #[inline]
    fn refresh(&mut self) -> io::Result<()> {
        if self.corrupt {
            return self.mark_corrupt();
        }
        match self.memory.header().refresh(self.role, &mut self.cursor) {
            Ok(()) => Ok(()),
            Err(Corrupt) => self.mark_corrupt(),
        }
    }

    /// Waits until `at_least` bytes are available. If fewer than `wanted` are known to
    /// be available, reads the peer's position once.
    #[inline]
    pub(super) fn wait_for(&mut self, at_least: usize, wanted: usize) -> io::Result<WaitOutcome> {
        self.refresh_for(wanted.max(at_least))?;
        // With larger requests both ends could wait for each other.
        if at_least > self.capacity() / 2 {
            return too_large_request();
        }
        self.wait_until_available(at_least)
    }

    /// Waits until the whole capacity is available: for room, that the peer has taken all bytes.
    pub(super) fn wait_for_all(&mut self) -> io::Result<WaitOutcome> {
        self.refresh()?;
        self.wait_until_available(self.capacity())
    }

    #[inline]
    fn wait_until_available(&mut self, at_least: usize) -> io::Result<WaitOutcome> {
        if self.cursor.available() >= at_least {
            self.backoff.record_success();
            return Ok(WaitOutcome::Enough);
        }
        self.wait_slowly(at_least)
    }

    #[cold]
    fn wait_slowly(&mut self, at_least: usize) -> io::Result<WaitOutcome> {
        self.counts.would_blocks += 1;
        let mut since = None;
        loop {
            // Before reading the position: bytes published before the end count.
            let ended = self.check_end()?;
            if self.spin_for(at_least)? {
                self.backoff.record_success();
                return Ok(WaitOutcome::Enough);
            }
            if let Some(end) = ended {
                return Ok(WaitOutcome::Ended(end));
            }
            let since = *since.get_or_insert_with(Instant::now);
            match self.wait {
                // Spinning pauses between looks anyway.
                Wait::Never | Wait::Spin => {}
                Wait::Block | Wait::Adaptive
                    if self.peer_runs_in_parallel() && self.backoff.should_retry() => {}
                Wait::Block | Wait::Poll | Wait::Adaptive => self.sleep(at_least, since)?,
            }
            let now = Instant::now();
            if self.check_peer(now) {
                continue;
            }
            if self.wait == Wait::Never {
                if !self.arm(at_least)? {
                    continue;
                }
                return Err(io::ErrorKind::WouldBlock.into());
            }
            if self.timeout.is_some_and(|limit| now - since >= limit) {
                // They may have come at the last moment.
                self.refresh_for(at_least)?;
                if self.cursor.available() < at_least {
                    return Err(RingError::TimedOut.into());
                }
            }
        }
    }

    /// Reads the peer's position a few times. Also done before sleeping, since being
    /// woken takes longer.
    fn spin_for(&mut self, at_least: usize) -> io::Result<bool> {
        let turns = match self.wait {
            Wait::Never => 1,
            Wait::Spin => SPINS_PER_CHECK,
            _ if self.peer_runs_in_parallel() => SPINS_PER_CHECK,
            _ => 1,
        };
        for turn in 0..turns {
            if turn > 0 {
                hint::spin_loop();
            }
            self.refresh()?;
            if self.cursor.available() >= at_least {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether the peer can run while we spin.
    fn peer_runs_in_parallel(&self) -> bool {
        !self.header().shares_processor(self.role)
    }

    fn sleep(&mut self, at_least: usize, since: Instant) -> io::Result<()> {
        let limit = match self.timeout {
            Some(timeout) => PEER_CHECK_INTERVAL.min(timeout.saturating_sub(since.elapsed())),
            None => PEER_CHECK_INTERVAL,
        };
        let header = self.memory.header();
        match header.sleep(self.role, &mut self.cursor, at_least, limit) {
            Ok(slept) => {
                self.counts.syscalls += u64::from(slept);
                Ok(())
            }
            Err(Corrupt) => self.mark_corrupt(),
        }
    }

    /// Asks the peer to make the descriptor readable, if somebody waits on it. Returns false if there
    /// is nothing to wait for.
    fn arm(&mut self, at_least: usize) -> io::Result<bool> {
        let Some(bell) = self.bell.as_mut().filter(|bell| bell.in_use) else {
            return Ok(true);
        };
        // Before arming: afterwards it is rung for good.
        let connection = bell.silence();
        let generation = bell.generation;
        self.counts.syscalls += 1;
        let header = self.memory.header();
        match header.arm(self.role, &mut self.cursor, at_least) {
            Err(Corrupt) => self.mark_corrupt(),
            Ok(true) if connection == Connection::Gone => {
                header.disarm(self.role);
                // The bell is dropped after its end was closed or passed on.
                if header.peer_generation(self.role) != generation {
                    return Err(io::Error::new(
                        io::ErrorKind::Unsupported,
                        "the other end was passed on by its descriptor, and can't wake this one: \
                         use another Wait",
                    ));
                }
                self.died = true;
                Ok(false)
            }
            Ok(waits) => Ok(waits),
        }
    }

    /// Checks from time to time whether the peer is alive. Returns true when it is
    /// found to have died.
    fn check_peer(&mut self, now: Instant) -> bool {
        if now - self.last_check < PEER_CHECK_INTERVAL {
            return false;
        }
        self.last_check = now;
        let died_before = self.died;
        if self.peer.is_some() {
            self.counts.syscalls += 1;
            self.counts.polls += 1;
            self.died = self.peer_is(Peer::is_dead);
            if !self.died && self.peer.as_ref().is_some_and(Peer::is_dead) {
                // It has passed its end on, or something has overwritten the header.
                let intact = self.header().check(self.capacity() as u64).is_ok();
                self.corrupt |= !intact;
            }
        }
        self.died && !died_before
    }

    /// Whether `state` holds for the peer, provided that one is watched and has not
    /// passed its end on.
    fn peer_is(&self, state: impl Fn(&Peer) -> bool) -> bool {
        // In this order, since it may pass its end on, and die, at any time.
        self.peer.as_ref().is_some_and(state)
            && self.header().peer_generation(self.role) == self.peer_generation
    }

    pub(super) fn peer_state(&self) -> io::Result<PeerState> {
        if self.corrupt {
            return Err(RingError::Corrupt.into());
        }
        let dead = self.died || self.peer_is(Peer::is_dead);
        // Read afterwards, since a peer that ended may have closed its end before.
        match self.header().peer(self.role) {
            Err(Corrupt) => Err(RingError::Corrupt.into()),
            Ok(EndState::Closed) => Ok(PeerState::Closed),
            Ok(EndState::Abandoned) => Ok(PeerState::Died),
            Ok(EndState::Open) if dead => Ok(PeerState::Died),
            Ok(EndState::Open) if self.peer_is(Peer::is_stopped) => Ok(PeerState::Stopped),
            Ok(EndState::Open) => Ok(PeerState::Running),
        }
    }

    /// Passes the end on, to the next that attaches it by the descriptor.
    pub(super) fn into_fd(mut self) -> io::Result<OwnedFd> {
        match self.memory.as_fd().try_clone_to_owned() {
            Ok(file) => {
                self.header().pass_on(self.role);
                self.owner = None;
                Ok(file)
            }
            Err(error) => {
                self.abandon();
                Err(error)
            }
        }
    }

    /// Closes the end, unless it was passed on or is a forked child's copy.
    fn close_own(&mut self, cleanly: bool) {
        if !self.owner.is_some_and(Origin::is_this_process) {
            return;
        }
        let woken = self.header().close(self.role, cleanly);
        self.complete_wake_up(woken);
    }

    /// Closes the end; its memory stays mapped for ever.
    pub(super) fn close_and_leak(mut self) {
        self.memory.leak();
    }

    /// Closes the end as a panic would: the peer must not take it for a proper end. A forked child's copy
    /// closes nothing.
    pub(super) fn abandon(mut self) {
        self.close_own(false);
        self.owner = None;
    }
}

#[cold]
fn too_large_request<T>() -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::InvalidInput,
        "more than half of the ring's capacity was asked for at once",
    ))
}

impl Drop for RingSide {
    fn drop(&mut self) {
        self.close_own(!thread::panicking());
    }
}
