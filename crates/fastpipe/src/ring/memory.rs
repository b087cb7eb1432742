//! The mapping of a ring. Only this module and `copying` use raw pointers.
//!
//! The file consists of a page for the [`Header`] and the data. The data is mapped
//! twice in a row, so that any part of the ring is contiguous. The file is sealed
//! against resizing, since an access beyond its end would raise SIGBUS.
//!
//! A hostile peer may write to these pages at any time. References to memory that
//! changes are undefined behaviour, so safe code gets only references to atomics.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU8;

use rustix::mm::{MapFlags, ProtFlags};

use super::MAX_CAPACITY;
use super::copying;
use super::error::RingError;
use super::header::Header;
use crate::pipe::page_size;
use crate::sealed::{self, refused};

// Both processes must see the same layout.
const _: () = assert!(size_of::<Header>() == 5 * 128);

#[derive(Debug)]
pub(super) struct Memory {
    /// The header's page, the data, and the data again.
    start: NonNull<u8>,
    /// Start of the data.
    data: NonNull<u8>,
    /// A multiple of the page size.
    capacity: usize,
    file: OwnedFd,
    /// Whether it stays mapped for ever.
    is_leaked: bool,
}

// SAFETY: it owns its mapping and accesses it as atomics; callers of `bytes` and
// `bytes_mut` promise the rest.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Lets it stay mapped for ever.
    pub(super) fn leak(&mut self) {
        self.is_leaked = true;
    }

    /// Creates the memory of a ring. `capacity` is rounded up to whole pages.
    pub(super) fn create(capacity: usize) -> io::Result<Self> {
        if capacity == 0 || capacity > MAX_CAPACITY {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a ring's capacity is 1 byte to 1 GiB",
            ));
        }
        let capacity = capacity.next_multiple_of(page_size());
        let len = (page_size() + capacity) as u64;
        let file = sealed::create("fastpipe-ring", len)?;
        // Allocates the pages, so that a lack of memory is an error now and not a
        // SIGBUS later.
        sealed::allocate(&file, len)?;
        let memory = Self::map(file, capacity)?;
        memory.header().initialize(capacity as u64);
        Ok(memory)
    }

    /// Maps a file created by somebody who need not be trusted.
    pub(super) fn open(file: OwnedFd) -> io::Result<Self> {
        Self::open_up_to(file, MAX_CAPACITY)
    }

    /// As [`open`](Self::open), unless the capacity is above `limit`.
    pub(super) fn open_up_to(file: OwnedFd, limit: usize) -> io::Result<Self> {
        let size = sealed::check(&file)?;
        let capacity = usize::try_from(size)
            .ok()
            .and_then(|size| size.checked_sub(page_size()))
            .filter(|capacity| {
                capacity.is_multiple_of(page_size())
                    && (page_size()..=MAX_CAPACITY).contains(capacity)
            })
            .ok_or_else(|| refused("not a ring: the file has an impossible size"))?;
        if capacity > limit {
            let offered = capacity;
            return Err(RingError::TooLarge { offered, limit }.into());
        }
        let memory = Self::map(file, capacity)?;
        if memory.header().check(capacity as u64).is_err() {
            return Err(refused("not a ring of this version: the header differs"));
        }
        Ok(memory)
    }

    /// Maps the file, whose size must be a page and `capacity` bytes.
    fn map(file: OwnedFd, capacity: usize) -> io::Result<Self> {
        let none = ProtFlags::empty();
        // SAFETY: a new mapping at an address chosen by the kernel does not affect
        // existing memory.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                reserved(capacity),
                none,
                MapFlags::PRIVATE | MapFlags::NORESERVE,
            )
        }?;
        let start = NonNull::new(start.cast::<u8>())
            .ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        let memory = Memory {
            start,
            // SAFETY: the reservation starts with a page for the header.
            data: unsafe { start.add(page_size()) },
            capacity,
            file,
            is_leaked: false,
        };
        memory.map_at(0, page_size() + capacity, 0)?;
        memory.map_at(page_size() + capacity, capacity, page_size())?;
        Ok(memory)
    }

    /// Maps `len` bytes of the file, starting at `from`, at offset `at` of the
    /// reservation.
    fn map_at(&self, at: usize, len: usize, from: usize) -> io::Result<()> {
        assert!(at + len <= reserved(self.capacity));
        // SAFETY: within the reservation.
        let address = unsafe { self.start.as_ptr().add(at) };
        // SAFETY: it replaces pages of our own reservation, to which there are no
        // references yet.
        unsafe {
            rustix::mm::mmap(
                address.cast(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::FIXED,
                &self.file,
                from as u64,
            )
        }?;
        Ok(())
    }

    #[inline]
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    pub(super) fn header(&self) -> &Header {
        // SAFETY: the first page is mapped as long as self lives, can't fault
        // (sealed), is aligned and larger than a Header, for which every bit
        // pattern is valid, since it consists of atomics.
        unsafe { self.start.cast::<Header>().as_ref() }
    }

    /// Returns the address of the byte at `offset` of the data and its copy, which is followed
    /// by `len - 1` more.
    #[inline]
    fn at(&self, offset: usize, len: usize) -> *mut u8 {
        let mapped = 2 * self.capacity;
        assert!(offset <= mapped && len <= mapped - offset);
        // SAFETY: offset + len is within the two mappings of the data.
        unsafe { self.data.as_ptr().add(offset) }
    }

    /// Copies `from` to `offset`. It must not be longer than the capacity.
    #[inline]
    pub(super) fn copy_in(&mut self, offset: usize, from: &[u8]) {
        copying::copy_in(from, self.atomics(offset, from.len()));
    }

    /// Copies the bytes at `offset` to `to`.
    #[inline]
    pub(super) fn copy_out(&mut self, offset: usize, to: &mut [u8]) {
        copying::copy_out(self.atomics(offset, to.len()), to);
    }

    /// Sets `len` bytes at `offset` to `value`.
    #[inline]
    pub(super) fn fill(&mut self, offset: usize, len: usize, value: u8) {
        copying::fill(self.atomics(offset, len), value);
    }

    /// Returns `len` bytes at `offset`, as atomics since they may change.
    #[inline]
    pub(super) fn atomics(&self, offset: usize, len: usize) -> &[AtomicU8] {
        let from = self.at(offset, len).cast::<AtomicU8>();
        // SAFETY: `at` checked the length; the memory lives as long as self; and
        // concurrent writes to atomics are defined.
        unsafe { slice::from_raw_parts(from, len) }
    }

    /// Returns `len` bytes at `offset`.
    ///
    /// # Safety
    /// Nobody may write to them while the slice lives.
    #[inline]
    pub(super) unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        let from = self.at(offset, len);
        // SAFETY: `at` checked the length; the rest is the caller's promise.
        unsafe { slice::from_raw_parts(from, len) }
    }

    /// Returns `len` bytes at `offset`.
    ///
    /// # Safety
    /// Nobody else may read or write them while the slice lives.
    #[inline]
    pub(super) unsafe fn bytes_mut(&mut self, offset: usize, len: usize) -> &mut [u8] {
        let from = self.at(offset, len);
        // SAFETY: `at` checked the length; the rest is the caller's promise.
        unsafe { slice::from_raw_parts_mut(from, len) }
    }
}

impl AsFd for Memory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.is_leaked {
            return;
        }
        // SAFETY: the reservation is ours and there is no borrow of it.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), reserved(self.capacity)) };
    }
}

fn reserved(capacity: usize) -> usize {
    page_size() + 2 * capacity
}
