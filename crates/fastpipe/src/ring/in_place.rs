//! Bytes of a ring, made and used where they lie.
#![allow(unsafe_code)] // To declare what is unsafe to call.

use std::ops::Range;
use std::sync::atomic::AtomicU8;

use super::side::Side;

/// Room for the next bytes of a ring, lent by [`Producer::lend`](super::Producer::lend). Dropped, it
/// adds nothing. It holds zeroes, or bytes of earlier laps.
///
/// The consumer's process can read and write this memory, so there is no
/// `&mut [u8]` to be had without `unsafe`.
#[derive(Debug)]
#[must_use = "a slot that is not committed adds nothing"]
pub struct Slot<'a> {
    side: &'a mut Side,
}

impl<'a> Slot<'a> {
    pub(super) fn new(side: &'a mut Side) -> Self {
        Slot { side }
    }

    /// Bytes.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a slot is never empty")]
    pub fn len(&self) -> usize {
        self.side.available()
    }

    /// Copies `data` to `at` of the slot and on.
    ///
    /// # Panics
    /// If it does not fit.
    pub fn write_at(&mut self, at: usize, data: &[u8]) {
        let position = position(self.side, at, data.len());
        self.side.memory_mut().copy_in(position, data);
    }

    /// All bytes of `range` become `value`.
    ///
    /// # Panics
    /// If the range is not within the slot.
    pub fn fill(&mut self, range: Range<usize>, value: u8) {
        let len = range.end.saturating_sub(range.start);
        let position = position(self.side, range.start, len);
        self.side.memory_mut().fill(position, len, value);
    }

    /// The slot as what it is: bytes that another process may change. Loads and
    /// stores of them cost what those of a `u8` cost, but are not put together
    /// to vectors.
    pub fn atomics(&self) -> &[AtomicU8] {
        self.side
            .memory()
            .atomics(self.side.position(), self.side.available())
    }

    /// The slot as plain memory, for a consumer that is trusted.
    ///
    /// # Safety
    /// While the slice lives, no other process and nobody else in this one reads
    /// or writes the slot's bytes. A [`Consumer`](super::Consumer) does not,
    /// whatever is done with it in safe code: it keeps to what was committed.
    /// What may is a process that maps the memory for itself, or that writes
    /// through wild pointers.
    #[inline]
    pub unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        let (position, len) = (self.side.position(), self.side.available());
        // SAFETY: as promised by the caller; `&mut self` is exclusive here.
        unsafe { self.side.memory_mut().bytes_mut(position, len) }
    }

    /// Leaves the first `n` bytes to the consumer.
    ///
    /// # Panics
    /// If the slot has fewer bytes than that.
    #[inline]
    pub fn commit(self, n: usize) {
        self.side.leave(n);
    }
}

/// The next bytes of a ring, lent by [`Consumer::peek`](super::Consumer::peek). Dropped, it takes
/// nothing out.
///
/// The producer's process can write to this memory, so there is no `&[u8]` to be
/// had without `unsafe`: what was checked may be something else when it is
/// used. Copy first, then check.
#[derive(Debug)]
#[must_use = "a view that is not released takes nothing out"]
pub struct View<'a> {
    side: &'a mut Side,
}

impl<'a> View<'a> {
    pub(super) fn new(side: &'a mut Side) -> Self {
        View { side }
    }

    /// Bytes; none at the end of the data.
    #[inline]
    pub fn len(&self) -> usize {
        self.side.available()
    }

    /// Whether this is the end of the data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes from `at` on to `into`.
    ///
    /// # Panics
    /// If the view has fewer bytes than that.
    pub fn read_at(&mut self, at: usize, into: &mut [u8]) {
        let position = position(self.side, at, into.len());
        self.side.memory_mut().copy_out(position, into);
    }

    /// The view as what it is: bytes that another process may change.
    pub fn atomics(&self) -> &[AtomicU8] {
        self.side
            .memory()
            .atomics(self.side.position(), self.side.available())
    }

    /// The view as plain memory, for a producer that is trusted.
    ///
    /// # Safety
    /// While the slice lives, no other process and nobody else in this one
    /// writes to the view's bytes. A [`Producer`](super::Producer) does not,
    /// whatever is done with it in safe code: it keeps to what was released.
    /// What may is a process that maps the memory for itself, or that writes
    /// through wild pointers.
    #[inline]
    pub unsafe fn bytes(&self) -> &[u8] {
        let (position, len) = (self.side.position(), self.side.available());
        // SAFETY: as promised by the caller.
        unsafe { self.side.memory().bytes(position, len) }
    }

    /// The same for as long as the consumer is not used otherwise, for a caller
    /// that returns it. It takes nothing out: the next view begins with these
    /// bytes, and can release them.
    ///
    /// # Safety
    /// That of [`bytes`](Self::bytes).
    #[inline]
    pub unsafe fn into_bytes(self) -> &'a [u8] {
        let side: &'a Side = self.side;
        // SAFETY: as promised by the caller.
        unsafe { side.memory().bytes(side.position(), side.available()) }
    }

    /// Takes the first `n` bytes out: their room is the producer's again.
    ///
    /// # Panics
    /// If the view has fewer bytes than that.
    #[inline]
    pub fn release(self, n: usize) {
        self.side.leave(n);
    }
}

/// Where `at` is, which must have `len` bytes behind it.
fn position(side: &Side, at: usize, len: usize) -> u64 {
    let available = side.available();
    assert!(
        at <= available && len <= available - at,
        "{len} bytes at {at} of {available}"
    );
    side.position().wrapping_add(at as u64)
}
