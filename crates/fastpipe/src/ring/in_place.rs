//! [`Slot`] and [`View`]: bytes of a ring, made and used in place.
#![allow(unsafe_code)] // For declarations of unsafe functions.

use std::ops::Range;
use std::sync::atomic::AtomicU8;

use super::side::RingSide;

/// Room for the next bytes of a ring, from
/// [`Producer::lend`](super::Producer::lend). It holds zeroes or old bytes.
/// Dropping it adds nothing to the ring.
///
/// The consumer's process can read and write this memory, so a `&mut [u8]` of it
/// is available only by `unsafe`.
#[derive(Debug)]
#[must_use = "a slot that is not committed adds nothing"]
pub struct Slot<'a> {
    side: &'a mut RingSide,
}

impl<'a> Slot<'a> {
    #[inline]
    pub(super) fn new(side: &'a mut RingSide) -> Self {
        Slot { side }
    }

    /// Returns the length in bytes.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "a slot is never empty")]
    pub fn len(&self) -> usize {
        self.side.available()
    }

    /// Copies `data` to offset `at` of the slot.
    ///
    /// # Panics
    /// If it does not fit.
    #[inline]
    pub fn write_at(&mut self, at: usize, data: &[u8]) {
        let offset = offset(self.side, at, data.len());
        self.side.memory_mut().copy_in(offset, data);
    }

    /// Sets all bytes of `range` to `value`.
    ///
    /// # Panics
    /// If the range exceeds the slot.
    #[inline]
    pub fn fill(&mut self, range: Range<usize>, value: u8) {
        let len = range.end.saturating_sub(range.start);
        let offset = offset(self.side, range.start, len);
        self.side.memory_mut().fill(offset, len, value);
    }

    /// Returns the slot as atomics, since another process may access it. Relaxed
    /// loads and stores cost as much as those of a `u8`, but are not vectorized.
    #[inline]
    pub fn atomics(&self) -> &[AtomicU8] {
        self.side
            .memory()
            .atomics(self.side.offset(), self.side.available())
    }

    /// Returns the slot as plain memory, for trusted consumers.
    ///
    /// # Safety
    /// While the slice lives, no other process, and no other code in this one, may
    /// read or write the slot's bytes. A [`Consumer`](super::Consumer) used by
    /// safe code never does, since it only accesses committed bytes. A process
    /// that maps the memory itself, or writes through wild pointers, may.
    #[inline]
    pub unsafe fn bytes_mut(&mut self) -> &mut [u8] {
        let (offset, len) = (self.side.offset(), self.side.available());
        // SAFETY: as promised by the caller; `&mut self` is exclusive here.
        unsafe { self.side.memory_mut().bytes_mut(offset, len) }
    }

    /// Makes the first `n` bytes available to the consumer.
    ///
    /// # Panics
    /// If the slot is shorter than `n` bytes.
    #[inline]
    pub fn commit(self, n: usize) {
        self.side.publish(n);
    }
}

/// The next bytes of a ring, from [`Consumer::peek`](super::Consumer::peek).
/// Dropping it takes nothing out of the ring.
///
/// The producer's process can write to this memory, so a `&[u8]` of it is
/// available only by `unsafe`: bytes could change between check and use. Copy
/// them first, then check.
#[derive(Debug)]
#[must_use = "a view that is not released takes nothing out"]
pub struct View<'a> {
    side: &'a mut RingSide,
}

impl<'a> View<'a> {
    #[inline]
    pub(super) fn new(side: &'a mut RingSide) -> Self {
        View { side }
    }

    /// Returns the length in bytes, 0 at the end of the data.
    #[inline]
    pub fn len(&self) -> usize {
        self.side.available()
    }

    /// Whether this is the end of the data.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the bytes at offset `at` to `into`.
    ///
    /// # Panics
    /// If the view has too few bytes.
    #[inline]
    pub fn read_at(&mut self, at: usize, into: &mut [u8]) {
        let offset = offset(self.side, at, into.len());
        self.side.memory_mut().copy_out(offset, into);
    }

    /// Returns the view as atomics, since another process may change it.
    #[inline]
    pub fn atomics(&self) -> &[AtomicU8] {
        self.side
            .memory()
            .atomics(self.side.offset(), self.side.available())
    }

    /// Returns the view as plain memory, for trusted producers.
    ///
    /// # Safety
    /// While the slice lives, no other process, and no other code in this one, may
    /// write to the view's bytes. A [`Producer`](super::Producer) used by safe
    /// code never does, since it only accesses released bytes. A process that maps
    /// the memory itself, or writes through wild pointers, may.
    #[inline]
    pub unsafe fn bytes(&self) -> &[u8] {
        let (offset, len) = (self.side.offset(), self.side.available());
        // SAFETY: as promised by the caller.
        unsafe { self.side.memory().bytes(offset, len) }
    }

    /// As [`bytes`](Self::bytes), but borrows the consumer, so that a function can
    /// return the slice. Releases nothing: the next view starts with these bytes.
    ///
    /// # Safety
    /// That of [`bytes`](Self::bytes).
    #[inline]
    pub unsafe fn into_bytes(self) -> &'a [u8] {
        let side: &'a RingSide = self.side;
        // SAFETY: as promised by the caller.
        unsafe { side.memory().bytes(side.offset(), side.available()) }
    }

    /// Takes the first `n` bytes out of the ring and frees their room.
    ///
    /// # Panics
    /// If the view is shorter than `n` bytes.
    #[inline]
    pub fn release(self, n: usize) {
        self.side.publish(n);
    }
}

/// Returns the offset of `at` in the ring, from which `len` bytes must be available.
#[inline]
fn offset(side: &RingSide, at: usize, len: usize) -> usize {
    let available = side.available();
    assert!(
        at <= available && len <= available - at,
        "{len} bytes at {at} of {available}"
    );
    side.offset() + at
}
