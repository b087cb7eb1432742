//! [`Buffer`]: page-aligned memory.
//!
//! A buffer is a mapping of its own (mmap(2)), never allocated from a heap. A
//! pipe may refer to its pages long after the buffer is gone; memory given back
//! to an allocator would be overwritten by its next owner while somebody still
//! reads it. Unmapping is safe: pages that are referred to remain unchanged.
#![allow(unsafe_code)]

mod mapping;

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut, RangeBounds};
use std::slice;
use std::sync::atomic::{AtomicUsize, Ordering};

use self::mapping::Mapping;
use crate::pipe::page_size;
use crate::sys::minor_faults;

/// Returns the size of a transparent huge page in bytes: 2 MiB on x86-64, and on
/// aarch64 with base pages of 4 KiB.
///
/// Read from /sys/kernel/mm/transparent_hugepage/hpage_pmd_size if that exists.
pub fn huge_page_size() -> usize {
    // 0 means unknown. Not a OnceLock: a child forked while another thread reads
    // the file would wait for that thread forever.
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    let known = SIZE.load(Ordering::Relaxed);
    if known > 0 {
        return known;
    }
    let size = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .filter(|size: &usize| size.is_power_of_two())
        .unwrap_or(2 << 20);
    SIZE.store(size, Ordering::Relaxed);
    size
}

/// Kind of pages for a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Pages {
    /// Base pages, 4 KiB on most machines. Transparent huge pages are disabled
    /// (MADV_NOHUGEPAGE), so that comparisons with them are valid.
    #[default]
    Base,
    /// Transparent huge pages: aligned to their size, with
    /// MADV_HUGEPAGE. The system may not grant them: AnonHugePages in
    /// /proc/self/smaps shows how many it did.
    Huge,
    /// Reserved huge pages of the default size, from the administrator's pool
    /// (/proc/sys/vm/nr_hugepages).
    HugeTlb,
}

/// Settings of a [`Buffer`].
#[derive(Debug, Clone, Copy)]
pub struct BufferBuilder {
    len: usize,
    pages: Pages,
    page_bytes: Option<usize>,
    split: bool,
    touched: bool,
    locked: bool,
    wiped_on_fork: bool,
}

impl BufferBuilder {
    /// Sets the length in bytes. Required.
    pub fn len(mut self, bytes: usize) -> Self {
        self.len = bytes;
        self
    }

    /// Sets the kind of pages; default [`Pages::Base`].
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// Sets the size of huge pages in bytes, a power of two; default
    /// [`huge_page_size`], and for reserved ones the system's default.
    ///
    /// [`Pages::Huge`] of other sizes take Linux 6.8, where the administrator enabled
    /// them (/sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled). They are
    /// mapped only if the buffer is [touched](Self::touched); pages populated later
    /// are base pages.
    pub fn page_bytes(mut self, bytes: usize) -> Self {
        self.page_bytes = Some(bytes);
        self
    }

    /// Sets whether [`Pages::Huge`] are mapped by one page-table entry per base page,
    /// for experiments: the memory remains contiguous; default false. Only if the
    /// buffer is [touched](Self::touched).
    pub fn split(mut self, split: bool) -> Self {
        self.split = split;
        self
    }

    /// Sets whether every page is written once, and so populated, when mapped;
    /// default true.
    pub fn touched(mut self, touched: bool) -> Self {
        self.touched = touched;
        self
    }

    /// Sets whether the pages are locked in memory (mlock(2)), and so populated;
    /// default false.
    pub fn locked(mut self, locked: bool) -> Self {
        self.locked = locked;
        self
    }

    /// Sets whether a forked child sees zeroes instead of the contents
    /// (MADV_WIPEONFORK, Linux 4.14); default false. Reserved huge pages do not
    /// support this and are always inherited.
    ///
    /// For memory that is vmspliced: while a page is shared with a child, the
    /// next write to it makes a copy.
    pub fn wiped_on_fork(mut self, wiped: bool) -> Self {
        self.wiped_on_fork = wiped;
        self
    }

    /// Maps the buffer.
    ///
    /// # Errors
    /// [`BufferError`], which names the limit.
    pub fn map(self) -> Result<Buffer, BufferError> {
        if self.len == 0 {
            return Err(BufferError::Empty);
        }
        let mapping = Mapping::new(self.len, self.pages, self.page_bytes, self.wiped_on_fork)?;
        let mut buffer = Buffer {
            mapping,
            settings: self,
        };
        if self.touched {
            buffer.mapping.touch();
        }
        if self.split && self.touched && self.pages == Pages::Huge {
            let asked = self.len;
            let failed = |source| BufferError::Map { asked, source };
            buffer.mapping.split_entries().map_err(failed)?;
        }
        if self.locked {
            // Last, since mlock(2) populates with pages of any size.
            buffer.mapping.lock()?;
        }
        Ok(buffer)
    }
}

/// Page-aligned memory with a mapping of its own. See the [module](self).
#[derive(Debug)]
pub struct Buffer {
    mapping: Mapping,
    settings: BufferBuilder,
}

impl Buffer {
    /// Returns a builder with the default settings: populated base pages.
    pub fn builder() -> BufferBuilder {
        BufferBuilder {
            len: 0,
            pages: Pages::Base,
            page_bytes: None,
            split: false,
            touched: true,
            locked: false,
            wiped_on_fork: false,
        }
    }

    /// Returns the kind of pages asked for.
    pub fn pages(&self) -> Pages {
        self.mapping.pages()
    }

    /// Returns the length of the buffer's memory in bytes: its length, rounded up to
    /// whole pages of the kind asked for.
    pub fn mapped_len(&self) -> usize {
        self.mapping.mapped_len()
    }

    /// Returns the alignment of the buffer's address, in bytes: the largest power
    /// of two that divides it.
    pub fn alignment(&self) -> usize {
        1 << self.mapping.address().trailing_zeros()
    }

    /// Returns a part of the buffer, for
    /// [`Output::vmsplice`](crate::transfer::Output::vmsplice).
    ///
    /// # Panics
    /// If the range is not within the buffer.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> PageSlice<'_> {
        let bounds = (range.start_bound().cloned(), range.end_bound().cloned());
        PageSlice {
            bytes: &self[bounds],
        }
    }

    /// Replaces all pages by new ones, which read as zero. A pipe or process that refers
    /// to an old page keeps it unchanged.
    ///
    /// Uses MADV_DONTNEED, after which the pages are populated on demand. Where that
    /// is refused or would lose a setting (locked memory, reserved huge pages, a
    /// size of huge pages, split ones), maps the buffer again with all its
    /// settings.
    ///
    /// # Errors
    /// Those of mmap(2) and mlock(2); the old pages are then still in place.
    pub fn renew(&mut self) -> io::Result<()> {
        let BufferBuilder {
            locked,
            pages,
            page_bytes,
            split,
            ..
        } = self.settings;
        // A reserved huge page that is released while a pipe refers to it does not
        // return to the pool. The next access could then find the pool empty
        // and raise SIGBUS, whereas mmap(2) fails with an error.
        let in_place = !locked && pages != Pages::HugeTlb && page_bytes.is_none() && !split;
        // EINVAL: the memory is locked by mlockall(MCL_FUTURE).
        if in_place && self.mapping.release().is_ok() {
            return Ok(());
        }
        self.map_anew()
    }

    /// As [`renew`](Self::renew), but never in place.
    ///
    /// # Errors
    /// As for `renew`.
    pub(crate) fn map_anew(&mut self) -> io::Result<()> {
        // The new memory is mapped before the old is released, so that a failure
        // loses nothing.
        *self = self.settings.map()?;
        Ok(())
    }

    /// Makes sure that the page at `offset` is populated and private to this
    /// process, without changing a byte. Returns whether that took a page fault.
    ///
    /// # Panics
    /// If the offset is not within the buffer.
    pub(crate) fn fault_in(&mut self, offset: usize) -> bool {
        let before = minor_faults();
        self.mapping.fault_in(offset);
        minor_faults() != before
    }

    /// As [`fault_in`](Self::fault_in), for memory not written since it was
    /// mapped or renewed.
    pub(crate) fn fault_in_new(&mut self, offset: usize) -> bool {
        let before = minor_faults();
        self.mapping.fault_in_new(offset);
        minor_faults() != before
    }

    /// Sets whether a forked child temporarily inherits a buffer that is [wiped
    /// on fork](BufferBuilder::wiped_on_fork).
    pub(crate) fn set_inherited(&self, inherited: bool) -> io::Result<()> {
        self.mapping.set_inherited(inherited)
    }

    /// Write-protects the pages (mprotect(2)). The buffer must never be borrowed
    /// mutably again: a write would raise SIGSEGV.
    pub(crate) fn set_read_only(&self) -> io::Result<()> {
        self.mapping.set_read_only()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, at least `len` bytes long, and
        // lives as long as self; anonymous memory is initialised.
        unsafe { slice::from_raw_parts(self.mapping.start(), self.settings.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; `&mut self` makes it exclusive within this
        // process, and the kernel only reads the pages it refers to.
        unsafe { slice::from_raw_parts_mut(self.mapping.start(), self.settings.len) }
    }
}

/// A part of a [`Buffer`]. Safe to vmsplice, since its memory is never given to an
/// allocator.
///
/// The kernel takes references to the pages, not copies. Until the reader, and
/// everybody the reader splices them to, has finished, a write to the buffer
/// changes what is read. That corrupts data, not memory.
#[derive(Debug, Clone, Copy)]
pub struct PageSlice<'a> {
    bytes: &'a [u8],
}

impl<'a> PageSlice<'a> {
    /// Returns the bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the number of pipe slots these bytes take: the pages they touch.
    pub fn slots(&self) -> usize {
        if self.bytes.is_empty() {
            return 0;
        }
        let first = self.bytes.as_ptr().addr() / page_size();
        let last = (self.bytes.as_ptr().addr() + self.bytes.len() - 1) / page_size();
        last - first + 1
    }
}

/// Error of mapping a [`Buffer`].
#[derive(Debug)]
#[non_exhaustive]
pub enum BufferError {
    /// The length is 0 or missing.
    Empty,
    /// The length, rounded up to whole pages, exceeds the address space.
    TooLarge {
        /// Length asked for, in bytes.
        asked: usize,
    },
    /// The size of a huge page is no power of two, or below a base page.
    PageSize {
        /// Size asked for, in bytes.
        asked: usize,
    },
    /// mmap(2) or mprotect(2) failed.
    Map {
        /// Length asked for, in bytes.
        asked: usize,
        /// Error of the system call.
        source: io::Error,
    },
    /// The pool of reserved huge pages is too small, or a control group forbids them.
    NoHugeTlb {
        /// Length asked for, in bytes.
        asked: usize,
        /// Error of the system call.
        source: io::Error,
    },
    /// madvise(2) does not support MADV_WIPEONFORK.
    NoWipe {
        /// Error of the system call.
        source: io::Error,
    },
    /// mlock(2) failed.
    Lock {
        /// Length to be locked, in bytes.
        asked: usize,
        /// RLIMIT_MEMLOCK in bytes, unless unlimited.
        limit: Option<u64>,
        /// Error of the system call.
        source: io::Error,
    },
}

impl fmt::Display for BufferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferError::Empty => write!(f, "a buffer needs a length above 0"),
            BufferError::TooLarge { asked } => {
                write!(f, "a buffer of {asked} bytes is beyond the address space")
            }
            BufferError::PageSize { asked } => {
                write!(f, "there are no pages of {asked} bytes")
            }
            BufferError::Map { asked, source } => {
                write!(f, "no memory for a buffer of {asked} bytes: {source}")
            }
            BufferError::NoHugeTlb { asked, source } => {
                let limit = match source.kind() {
                    io::ErrorKind::OutOfMemory => "/proc/sys/vm/nr_hugepages",
                    _ => {
                        "a control group allows fewer: hugetlb.*.max, in Kubernetes the limit of hugepages"
                    }
                };
                write!(
                    f,
                    "not enough reserved huge pages for {asked} bytes ({limit}): {source}"
                )
            }
            BufferError::NoWipe { source } => write!(
                f,
                "memory can't be wiped in forked children (MADV_WIPEONFORK): {source}"
            ),
            BufferError::Lock {
                asked,
                limit: Some(limit),
                source,
            } => write!(
                f,
                "can't lock {asked} bytes in memory: the limit is {limit} bytes \
                 (RLIMIT_MEMLOCK, ulimit -l): {source}"
            ),
            BufferError::Lock { asked, source, .. } => {
                write!(f, "can't lock {asked} bytes in memory: {source}")
            }
        }
    }
}

impl std::error::Error for BufferError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BufferError::Empty | BufferError::TooLarge { .. } | BufferError::PageSize { .. } => {
                None
            }
            BufferError::Map { source, .. }
            | BufferError::NoHugeTlb { source, .. }
            | BufferError::NoWipe { source }
            | BufferError::Lock { source, .. } => Some(source),
        }
    }
}

impl From<BufferError> for io::Error {
    fn from(error: BufferError) -> Self {
        let kind = match &error {
            BufferError::Empty | BufferError::PageSize { .. } => io::ErrorKind::InvalidInput,
            BufferError::TooLarge { .. } => io::ErrorKind::OutOfMemory,
            // EAGAIN of mmap(2) means RLIMIT_MEMLOCK under
            // mlockall(MCL_FUTURE), so retrying does not help.
            BufferError::Map { .. } | BufferError::NoHugeTlb { .. } => io::ErrorKind::OutOfMemory,
            BufferError::NoWipe { .. } => io::ErrorKind::Unsupported,
            BufferError::Lock { source, .. } => match source.kind() {
                io::ErrorKind::WouldBlock => io::ErrorKind::OutOfMemory,
                kind => kind,
            },
        };
        io::Error::new(kind, error)
    }
}
