//! Page-aligned memory of its own mapping, and proof of the pages it got.
//!
//! A [`Buffer`] is mapped by mmap(2), never allocated: a pipe may hold
//! references to its pages long after it is gone, and memory given back to an
//! allocator would be written by its next owner while somebody still reads it.
//! Unmapping is safe: whoever holds a page keeps it.
#![allow(unsafe_code)]

mod backing;
mod mapping;

pub use self::backing::{Backing, BackingError, ShownBy};

use std::fmt;
use std::io;
use std::ops::{Deref, DerefMut, RangeBounds};
use std::slice;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use self::mapping::Mapping;
use crate::pipe::page_size;
use crate::sys::minor_faults;

/// The size of a transparent huge page that one page-table entry maps, in
/// bytes: 2 MiB on x86-64 and on aarch64 with 4 KiB pages. Read from
/// /sys/kernel/mm/transparent_hugepage/hpage_pmd_size where that exists.
pub fn huge_page_size() -> usize {
    // 0 is not known yet. No OnceLock, which a child that is forked while another
    // thread reads the file would wait for.
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

/// What kind of pages a buffer asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Pages {
    /// Base pages, 4 KiB on most machines; transparent huge pages are refused
    /// (MADV_NOHUGEPAGE), so that a comparison with them is one.
    #[default]
    Base,
    /// Transparent huge pages: aligned to [`huge_page_size`], MADV_HUGEPAGE.
    /// A wish, which the system may not grant: see [`Buffer::backing`].
    Huge,
    /// Pages of the pool that the administrator reserved
    /// (/proc/sys/vm/nr_hugepages), of the default huge page size.
    HugeTlb,
}

/// How a [`Buffer`] is to be made.
#[derive(Debug, Clone, Copy)]
pub struct BufferBuilder {
    len: usize,
    pages: Pages,
    touched: bool,
    locked: bool,
    wiped_on_fork: bool,
}

impl BufferBuilder {
    /// The length in bytes. Needed.
    pub fn len(mut self, bytes: usize) -> Self {
        self.len = bytes;
        self
    }

    /// The kind of pages; base pages if not said.
    pub fn pages(mut self, pages: Pages) -> Self {
        self.pages = pages;
        self
    }

    /// Whether every page is written once, so that it is there before the
    /// first use; so if not said.
    pub fn touched(mut self, touched: bool) -> Self {
        self.touched = touched;
        self
    }

    /// Whether the pages are locked in memory (mlock(2)); not if not said.
    pub fn locked(mut self, locked: bool) -> Self {
        self.locked = locked;
        self
    }

    /// Whether a forked child finds zeroes in place of the bytes
    /// (MADV_WIPEONFORK, Linux 4.14); if not said it inherits a copy, as of any
    /// memory. Reserved huge pages are always inherited.
    ///
    /// For memory that is vmspliced: while it is shared with a child, the next
    /// write to each page copies the page.
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
        let mapping = Mapping::new(self.len, self.pages, self.wiped_on_fork)?;
        let mut buffer = Buffer {
            mapping,
            len: self.len,
            locked: self.locked,
        };
        if self.locked {
            buffer.mapping.lock()?;
        }
        if self.touched {
            buffer.mapping.touch();
        }
        Ok(buffer)
    }
}

/// Page-aligned memory. See the [module](self).
#[derive(Debug)]
pub struct Buffer {
    mapping: Mapping,
    len: usize,
    locked: bool,
}

impl Buffer {
    /// A buffer of touched base pages, to be changed by the builder's methods.
    pub fn builder() -> BufferBuilder {
        BufferBuilder {
            len: 0,
            pages: Pages::Base,
            touched: true,
            locked: false,
            wiped_on_fork: false,
        }
    }

    /// The kind of pages asked for.
    pub fn pages(&self) -> Pages {
        self.mapping.pages()
    }

    /// The largest power of two the buffer's address is a multiple of, in
    /// bytes.
    pub fn alignment(&self) -> usize {
        1 << self.mapping.address().trailing_zeros()
    }

    /// A part of the buffer, to be handed to
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

    /// The buffer as 64-bit words, less a rest that makes no word: loads and
    /// stores of atomics stay what they are, where a compiler would put plain
    /// ones together into wide ones.
    pub fn words(&mut self) -> &[AtomicU64] {
        let words = self.len / size_of::<AtomicU64>();
        // SAFETY: within the mapping, which is page-aligned, readable and
        // writable, and lives as long as self; `&mut self` keeps every other
        // access by reference away, and any bit pattern is an AtomicU64.
        unsafe { slice::from_raw_parts(self.mapping.start().cast(), words) }
    }

    /// Lets all pages go and takes new ones, which read as zero. Whoever holds
    /// an old page (a pipe, another program behind it) keeps it unchanged.
    ///
    /// By MADV_DONTNEED, or by a new mapping where that is refused, as on
    /// locked memory. Locked pages are locked again.
    ///
    /// # Errors
    /// When no new mapping can be had; the old pages are then still there.
    pub fn renew(&mut self) -> io::Result<()> {
        self.mapping.renew(self.locked)
    }

    /// Makes sure that the page at `offset` is there and this process's own;
    /// changes no byte. Returns whether that took a page fault.
    ///
    /// # Panics
    /// If the offset is not within the buffer.
    pub(crate) fn fault_in(&mut self, offset: usize) -> bool {
        let before = minor_faults();
        self.mapping.fault_in(offset);
        minor_faults() != before
    }

    /// As `fault_in`, on memory that was not written since it was mapped or
    /// renewed.
    pub(crate) fn fault_in_new(&mut self, offset: usize) -> bool {
        let before = minor_faults();
        self.mapping.fault_in_new(offset);
        minor_faults() != before
    }

    /// Whether a buffer that is [wiped on fork](BufferBuilder::wiped_on_fork) is
    /// inherited for the time being.
    pub(crate) fn set_inherited(&self, inherited: bool) -> io::Result<()> {
        self.mapping.set_inherited(inherited)
    }

    /// Forbids writing to the pages (mprotect(2)). For a buffer that is never
    /// borrowed mutably again: a write would be a SIGSEGV.
    pub(crate) fn set_read_only(&self) -> io::Result<()> {
        self.mapping.set_read_only()
    }

    /// What pages the buffer is made of now, from
    /// /proc/self/pagemap with /proc/kpageflags where this process may read
    /// them, else from /proc/self/smaps.
    ///
    /// # Errors
    /// [`BackingError`] where none of them can be read.
    pub fn backing(&self) -> Result<Backing, BackingError> {
        backing::examine(self.mapping.address(), self.mapping.mapped_len())
    }

    /// As [`backing`](Self::backing), but only from what needs no privilege.
    ///
    /// # Errors
    /// [`BackingError`] where smaps can't be read.
    pub fn backing_from_smaps(&self) -> Result<Backing, BackingError> {
        backing::from_smaps(self.mapping.address(), self.mapping.mapped_len())
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is readable, at least `len` bytes long, and
        // lives as long as self; anonymous memory is initialised.
        unsafe { slice::from_raw_parts(self.mapping.start(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `deref`; `&mut self` makes it exclusive within this
        // process, and the kernel only reads the pages it refers to.
        unsafe { slice::from_raw_parts_mut(self.mapping.start(), self.len) }
    }
}

/// A part of a [`Buffer`]: memory that is never handed to an allocator, which
/// is what makes it safe to vmsplice.
///
/// The kernel takes references to the pages, not copies. Until the reader,
/// and whoever the reader splices them on to, is done with them, a write to
/// the buffer changes what is read. That breaks data, not memory.
#[derive(Debug, Clone, Copy)]
pub struct PageSlice<'a> {
    bytes: &'a [u8],
}

impl<'a> PageSlice<'a> {
    /// The bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The slots of a pipe that these bytes take: the pages they touch.
    pub fn slots(&self) -> usize {
        if self.bytes.is_empty() {
            return 0;
        }
        let first = self.bytes.as_ptr().addr() / page_size();
        let last = (self.bytes.as_ptr().addr() + self.bytes.len() - 1) / page_size();
        last - first + 1
    }
}

/// A [`Buffer`] could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum BufferError {
    /// No length was given, or 0.
    Empty,
    /// The length, rounded up to whole pages, is beyond the address space.
    TooLarge {
        /// The bytes asked for.
        asked: usize,
    },
    /// mmap(2) or madvise(2) refused.
    Map {
        /// The bytes asked for.
        asked: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// The pool of reserved huge pages has not enough left.
    NoHugeTlb {
        /// The bytes asked for.
        asked: usize,
        /// What the kernel said.
        source: io::Error,
    },
    /// madvise(2) refused MADV_WIPEONFORK.
    NoWipe {
        /// What the kernel said.
        source: io::Error,
    },
    /// mlock(2) refused.
    Lock {
        /// The bytes to be locked.
        asked: usize,
        /// RLIMIT_MEMLOCK in bytes, unless unlimited.
        limit: Option<u64>,
        /// What the kernel said.
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
            BufferError::Map { asked, source } => {
                write!(f, "no memory for a buffer of {asked} bytes: {source}")
            }
            BufferError::NoHugeTlb { asked, source } => write!(
                f,
                "not enough reserved huge pages for {asked} bytes \
                 (/proc/sys/vm/nr_hugepages): {source}"
            ),
            BufferError::NoWipe { source } => write!(
                f,
                "memory can't be wiped in forked children here (MADV_WIPEONFORK): {source}"
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
            BufferError::Empty | BufferError::TooLarge { .. } => None,
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
            BufferError::Empty => io::ErrorKind::InvalidInput,
            BufferError::TooLarge { .. } => io::ErrorKind::OutOfMemory,
            // EAGAIN of mmap(2) means RLIMIT_MEMLOCK, where all memory to come
            // is locked, and waiting does not help.
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
