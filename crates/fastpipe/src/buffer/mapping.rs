//! One anonymous mapping with guard pages on both sides.
//!
//! The guards keep the kernel from merging the mapping with another one, so that
//! smaps lists it alone, and turn an overrun into a fault. Mappings of reserved
//! huge pages have no guards: they are never merged, and mapping them over a
//! reservation is not safe. Kernels before 6.12 leave a hole in the reservation
//! if the pool is too small, into which another thread may map memory before it
//! is unmapped here.

use std::ffi::c_void;
use std::io;
use std::ptr::{self, NonNull};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

use super::{BufferError, Pages, huge_page_size};
use crate::pipe::page_size;
use crate::sys;

#[derive(Debug)]
pub(super) struct Mapping {
    /// The whole reservation, including guards.
    reserved: NonNull<u8>,
    reserved_len: usize,
    /// The usable part, a multiple of the page size asked for.
    start: NonNull<u8>,
    mapped_len: usize,
    pages: Pages,
    /// Size of huge pages, where it was asked for.
    page_bytes: Option<usize>,
    wiped_on_fork: bool,
}

// SAFETY: a mapping is plain memory, owned by one value and accessed only
// through borrows of that value.
unsafe impl Send for Mapping {}
// SAFETY: as above; `&Mapping` provides no write access.
unsafe impl Sync for Mapping {}

impl Mapping {
    pub(super) fn new(
        asked: usize,
        pages: Pages,
        page_bytes: Option<usize>,
        wiped_on_fork: bool,
    ) -> Result<Self, BufferError> {
        let unit = match pages {
            Pages::Base => page_size(),
            Pages::Huge => page_bytes.unwrap_or_else(huge_page_size),
            Pages::HugeTlb => page_bytes.unwrap_or_else(hugetlb_size),
        };
        if !unit.is_power_of_two() || unit < page_size() {
            return Err(BufferError::PageSize { asked: unit });
        }
        let too_large = BufferError::TooLarge { asked };
        let Some(mapped_len) = asked.checked_next_multiple_of(unit) else {
            return Err(too_large);
        };
        let hugetlb = pages == Pages::HugeTlb;
        let (margin, protection, flags) = if hugetlb {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            (0, protection, MapFlags::HUGETLB | hugetlb_flags(page_bytes))
        } else {
            // Space for alignment, and a guard on each side.
            let margin = unit + 2 * page_size();
            (margin, ProtFlags::empty(), MapFlags::NORESERVE)
        };
        let Some(reserved_len) = mapped_len.checked_add(margin) else {
            return Err(too_large);
        };
        let failed = |source| match pages {
            Pages::HugeTlb => BufferError::NoHugeTlb { asked, source },
            _ => BufferError::Map { asked, source },
        };

        // SAFETY: a new mapping at an address chosen by the kernel.
        let reserved = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                reserved_len,
                protection,
                MapFlags::PRIVATE | flags,
            )
        }
        .map_err(|errno| failed(errno.into()))?
        .cast::<u8>();
        let offset = if hugetlb {
            0
        } else {
            (reserved.addr() + page_size()).next_multiple_of(unit) - reserved.addr()
        };
        // SAFETY: offset is at most unit + page_size, which is within the
        // reservation by its length above.
        let start = unsafe { reserved.add(offset) };
        let mapping = Mapping {
            reserved: NonNull::new(reserved).ok_or(BufferError::TooLarge { asked })?,
            reserved_len,
            start: NonNull::new(start).ok_or(BufferError::TooLarge { asked })?,
            mapped_len,
            pages,
            page_bytes,
            wiped_on_fork,
        };
        mapping.open().map_err(failed)?;
        if hugetlb {
            mapping.populate().map_err(failed)?;
        }
        if wiped_on_fork {
            mapping
                .set_inherited(false)
                .map_err(|source| BufferError::NoWipe { source })?;
        }
        Ok(mapping)
    }

    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(super) fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    pub(super) fn mapped_len(&self) -> usize {
        self.mapped_len
    }

    pub(super) fn pages(&self) -> Pages {
        self.pages
    }

    fn pointer(&self) -> *mut c_void {
        self.start.as_ptr().cast()
    }

    /// Makes the usable part accessible, with the kind of pages asked for.
    fn open(&self) -> io::Result<()> {
        if self.pages != Pages::HugeTlb {
            // SAFETY: the range is part of our own reservation.
            unsafe {
                rustix::mm::mprotect(
                    self.pointer(),
                    self.mapped_len,
                    MprotectFlags::READ | MprotectFlags::WRITE,
                )
            }?;
        }
        self.advise();
        Ok(())
    }

    /// Takes the reserved pages of the mapping. A control group may forbid them (hugetlb.*.max),
    /// which mmap(2) does not check: the first access would raise SIGBUS.
    ///
    /// # Errors
    /// Those of MADV_POPULATE_WRITE (madvise(2)).
    fn populate(&self) -> io::Result<()> {
        match self.madvise(Advice::LinuxPopulateWrite) {
            // Unknown before Linux 5.14.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            populated => populated,
        }
    }

    fn advise(&self) {
        match self.pages {
            // EINVAL: a kernel without transparent huge pages.
            Pages::Base => drop(self.madvise(Advice::LinuxNoHugepage)),
            // `touch` advises huge pages of a certain size, one by one.
            Pages::Huge if self.page_bytes.is_some() => drop(self.madvise(Advice::LinuxNoHugepage)),
            Pages::Huge => drop(self.madvise(Advice::LinuxHugepage)),
            Pages::HugeTlb => {}
        }
    }

    fn madvise(&self, advice: Advice) -> io::Result<()> {
        self.madvise_part(0, self.mapped_len, advice)
    }

    fn madvise_part(&self, offset: usize, len: usize, advice: Advice) -> io::Result<()> {
        assert!(offset + len <= self.mapped_len);
        // SAFETY: within the mapping.
        let start = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: the range is ours. Of the advices used here only DONTNEED
        // changes the contents, and `release` has exclusive access. POPULATE_WRITE
        // fails where an access would raise a signal.
        Ok(unsafe { rustix::mm::madvise(start.cast(), len, advice) }?)
    }

    /// Maps huge pages by one page-table entry per base page, without moving them.
    ///
    /// A mapping that ends within a huge page can't be mapped by the entry of the
    /// whole page (vma_adjust_trans_huge in mm/huge_memory.c). The first base page
    /// becomes a mapping of its own for a moment, by an advice that only concerns
    /// core dumps.
    pub(super) fn split_entries(&self) -> io::Result<()> {
        // khugepaged would join them again.
        self.madvise(Advice::LinuxNoHugepage)?;
        for offset in (0..self.mapped_len).step_by(huge_page_size()) {
            self.madvise_part(offset, page_size(), Advice::LinuxDontDump)?;
        }
        self.madvise(Advice::LinuxDoDump)
    }

    pub(super) fn lock(&self) -> Result<(), BufferError> {
        // SAFETY: the range is ours; locking changes no byte.
        unsafe { rustix::mm::mlock(self.pointer(), self.mapped_len) }.map_err(|errno| {
            BufferError::Lock {
                asked: self.mapped_len,
                limit: sys::max_locked_bytes(),
                source: errno.into(),
            }
        })
    }

    /// Writes a zero to every base page. Reading would only map the shared zero
    /// page.
    pub(super) fn touch(&mut self) {
        match self.page_bytes {
            Some(bytes) if self.pages == Pages::Huge => self.touch_each(bytes),
            _ => self.touch_part(0, self.mapped_len),
        }
    }

    /// Populates the memory with transparent huge pages of one size: the kernel
    /// takes the largest one that is enabled and fits into the mapping, and while
    /// only one piece is advised, it is a mapping of its own.
    fn touch_each(&mut self, bytes: usize) {
        for offset in (0..self.mapped_len).step_by(bytes) {
            // Without transparent huge pages (EINVAL) the pages are base pages.
            drop(self.madvise_part(offset, bytes, Advice::LinuxHugepage));
            self.touch_part(offset, bytes);
            drop(self.madvise_part(offset, bytes, Advice::LinuxNoHugepage));
        }
    }

    fn touch_part(&mut self, start: usize, len: usize) {
        assert!(start + len <= self.mapped_len);
        for offset in (start..start + len).step_by(page_size()) {
            // SAFETY: within the mapping.
            let at = unsafe { self.start.as_ptr().add(offset) };
            // SAFETY: valid for writes, and exclusive by `&mut self`.
            unsafe { at.write_volatile(0) };
        }
    }

    /// Writes the byte at `offset` unchanged, so that its page is populated and
    /// private to this process.
    pub(super) fn fault_in(&mut self, offset: usize) {
        assert!(offset < self.mapped_len);
        // SAFETY: within the mapping.
        let at = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: valid for reads, and exclusive by `&mut self`.
        let byte = unsafe { at.read_volatile() };
        // SAFETY: as above, and for writes.
        unsafe { at.write_volatile(byte) };
    }

    /// As `fault_in`, for memory that is known to be new. Reading it first would
    /// map the shared zero page and take two faults.
    pub(super) fn fault_in_new(&mut self, offset: usize) {
        assert!(offset < self.mapped_len);
        // SAFETY: within the mapping.
        let at = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: valid for writes, and exclusive by `&mut self`.
        unsafe { at.write_volatile(0) };
    }

    /// Write-protects the memory. No code of this process may write to it later.
    pub(super) fn set_read_only(&self) -> io::Result<()> {
        // SAFETY: the range is ours, and stays readable.
        Ok(unsafe { rustix::mm::mprotect(self.pointer(), self.mapped_len, MprotectFlags::READ) }?)
    }

    /// Sets whether a forked child temporarily inherits memory that is wiped on
    /// fork.
    ///
    /// Not done by MADV_DONTFORK, which leaves a hole in the child, where another
    /// mapping could be placed and mistaken for this one. Reserved huge pages
    /// support neither advice and are always inherited.
    pub(super) fn set_inherited(&self, inherited: bool) -> io::Result<()> {
        if self.pages == Pages::HugeTlb || !self.wiped_on_fork {
            Ok(())
        } else if inherited {
            self.madvise(Advice::LinuxKeepOnFork)
        } else {
            self.madvise(Advice::LinuxWipeOnFork)
        }
    }

    /// Replaces the pages by new ones; pipes and processes that refer to old ones keep them.
    ///
    /// # Errors
    /// EINVAL if the memory is locked (madvise(2)).
    pub(super) fn release(&mut self) -> io::Result<()> {
        self.madvise(Advice::LinuxDontNeed)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the reservation is ours and there is no borrow of it.
        let _ = unsafe { rustix::mm::munmap(self.reserved.as_ptr().cast(), self.reserved_len) };
    }
}

/// Returns the flags of mmap(2) that choose a size of reserved huge pages: its
/// logarithm, from bit 26 on (MAP_HUGE_SHIFT).
fn hugetlb_flags(page_bytes: Option<usize>) -> MapFlags {
    const MAP_HUGE_SHIFT: u32 = 26;
    let size = page_bytes.map_or(0, usize::trailing_zeros);
    MapFlags::from_bits_retain(size << MAP_HUGE_SHIFT)
}

/// Returns the default size of reserved huge pages: Hugepagesize in
/// /proc/meminfo.
fn hugetlb_size() -> usize {
    std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find(|line| line.starts_with("Hugepagesize:"))?;
            let kib: usize = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
            Some(kib * 1024)
        })
        .filter(|size| size.is_power_of_two())
        .unwrap_or_else(huge_page_size)
}
