//! The page behind an address (/proc/PID/pagemap), and what a page frame is
//! used for (/proc/kpageflags).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Process;
use crate::pipe::page_size;

/// Bits of a pagemap entry (Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FRAME_NUMBER: u64 = (1 << 55) - 1;

/// A process's page table, as the kernel shows it.
#[derive(Debug)]
pub struct Pagemap(File);

impl Pagemap {
    /// Opens /proc/PID/pagemap.
    ///
    /// # Errors
    /// The system's: `PermissionDenied` for another user's process.
    pub fn open(process: Process) -> io::Result<Self> {
        File::open(format!("/proc/{process}/pagemap")).map(Pagemap)
    }

    /// The entries of `pages` base pages from the one at `address` on: fewer,
    /// where the address space ends before that or the process has ended.
    ///
    /// # Errors
    /// The system's.
    pub fn entries(&self, address: u64, pages: usize) -> io::Result<Vec<Entry>> {
        let first = address / page_size() as u64;
        Ok(read_words(&self.0, first, pages)?
            .into_iter()
            .map(Entry)
            .collect())
    }
}

/// What the page table says of one base page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// Whether the page is in memory.
    pub fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// Whether it is in swap space.
    pub fn is_swapped(self) -> bool {
        self.0 & SWAPPED != 0
    }

    /// The number of its page frame: its physical address over the size of a
    /// page. `None` where it is not in memory, or where the number is hidden:
    /// the kernel shows 0 to those without CAP_SYS_ADMIN.
    pub fn frame(self) -> Option<u64> {
        match self.0 & FRAME_NUMBER {
            frame if self.is_present() && frame != 0 => Some(frame),
            _ => None,
        }
    }
}

/// What page frames are used for: /proc/kpageflags.
#[derive(Debug)]
pub struct FrameFlags(File);

impl FrameFlags {
    /// Opens /proc/kpageflags.
    ///
    /// # Errors
    /// The system's: `PermissionDenied` for all but root.
    pub fn open() -> io::Result<Self> {
        File::open("/proc/kpageflags").map(FrameFlags)
    }

    /// The flags of one frame.
    ///
    /// # Errors
    /// The system's: `PermissionDenied` without CAP_SYS_ADMIN, `UnexpectedEof`
    /// if there is no such frame.
    pub fn of(&self, frame: u64) -> io::Result<PageFlags> {
        let flags = self.of_run(frame, 1)?;
        flags.first().copied().ok_or_else(|| {
            io::Error::new(io::ErrorKind::UnexpectedEof, "there is no such page frame")
        })
    }

    /// The flags of `count` frames from `first` on: fewer, where memory ends
    /// before that.
    ///
    /// # Errors
    /// The system's.
    pub fn of_run(&self, first: u64, count: usize) -> io::Result<Vec<PageFlags>> {
        Ok(read_words(&self.0, first, count)?
            .into_iter()
            .map(PageFlags)
            .collect())
    }
}

/// What the kernel knows of a page frame, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageFlags(pub u64);

/// Names in the order of the bits (include/uapi/linux/kernel-page-flags.h).
const NAMES: [&str; 27] = [
    "locked",
    "error",
    "referenced",
    "uptodate",
    "dirty",
    "lru",
    "active",
    "slab",
    "writeback",
    "reclaim",
    "buddy",
    "mmap",
    "anon",
    "swapcache",
    "swapbacked",
    "compound_head",
    "compound_tail",
    "huge",
    "unevictable",
    "hwpoison",
    "nopage",
    "ksm",
    "thp",
    "offline",
    "zero_page",
    "idle",
    "pgtable",
];

impl PageFlags {
    const COMPOUND_HEAD: u64 = 1 << 15;
    const COMPOUND_TAIL: u64 = 1 << 16;
    const HUGE: u64 = 1 << 17;
    const THP: u64 = 1 << 22;
    const ZERO_PAGE: u64 = 1 << 24;

    /// Whether it is part of a reserved huge page (hugetlb).
    pub fn is_hugetlb(self) -> bool {
        self.0 & Self::HUGE != 0
    }

    /// Whether it is part of a transparent huge page. Kernels that make them
    /// in several sizes (6.8 and later) set this for each size.
    pub fn is_transparent_huge(self) -> bool {
        self.0 & Self::THP != 0
    }

    /// Whether it is the kernel's page of zeroes, which all processes share: it
    /// is mapped where memory is read before it was written, and smaps does
    /// not count it.
    pub fn is_zero_page(self) -> bool {
        self.0 & Self::ZERO_PAGE != 0
    }

    /// Whether it is the first frame of several that the kernel handles as one.
    pub fn is_compound_head(self) -> bool {
        self.0 & Self::COMPOUND_HEAD != 0
    }

    /// Whether it is one of the others of those.
    pub fn is_compound_tail(self) -> bool {
        self.0 & Self::COMPOUND_TAIL != 0
    }

    /// The kernel's names, in lower case, of the flags that are set. Bits for
    /// the kernel's own developers (32 and up) have none.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let bits = NAMES.iter().enumerate();
        bits.filter_map(move |(bit, name)| (self.0 >> bit & 1 == 1).then_some(*name))
    }
}

/// Words of 8 bytes, from the one numbered `first` on; fewer at the file's end.
fn read_words(file: &File, first: u64, count: usize) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; count * 8];
    let mut filled = 0;
    // Beyond what an offset can say there is nothing.
    let Some(start) = first.checked_mul(8).filter(|at| *at < i64::MAX as u64) else {
        return Ok(Vec::new());
    };
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], start + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let words = bytes[..filled].chunks_exact(8).map(|chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    });
    Ok(words.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_a_frame_only_if_present_and_shown() {
        assert_eq!(Entry(PRESENT | 0x1234).frame(), Some(0x1234));
        assert_eq!(Entry(PRESENT).frame(), None);
        // Of a page in swap the same bits say where it is there.
        assert_eq!(Entry(SWAPPED | 0x1234).frame(), None);
        assert!(Entry(SWAPPED).is_swapped() && !Entry(SWAPPED).is_present());
        // The bits above the number are no part of it.
        assert_eq!(Entry(PRESENT | 7 << 55 | 1).frame(), Some(1));
    }

    #[test]
    fn flags_are_called_as_the_kernel_calls_them() {
        let flags = PageFlags(1 << 3 | 1 << 16 | 1 << 22 | 1 << 40);
        assert_eq!(
            flags.names().collect::<Vec<_>>(),
            ["uptodate", "compound_tail", "thp"]
        );
        assert!(flags.is_transparent_huge() && flags.is_compound_tail());
        assert!(!flags.is_hugetlb() && !flags.is_compound_head());
        assert_eq!(PageFlags(1 << 26).names().last(), Some("pgtable"));
    }

    #[test]
    fn an_address_at_the_end_of_all_has_no_entry() {
        let pagemap = Pagemap::open(Process::Own).unwrap();
        assert_eq!(pagemap.entries(u64::MAX, 3).unwrap(), []);
    }

    #[test]
    fn a_page_of_ours_is_present() {
        let here = 7u8;
        let pagemap = Pagemap::open(Process::Own).unwrap();
        let address = (&raw const here).addr() as u64;
        let entries = pagemap.entries(address, 1).unwrap();
        assert!(entries[0].is_present());
    }
}
