//! The page behind an address (/proc/PID/pagemap), and the use of page frames
//! (/proc/kpageflags).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::ExaminedProcess;
use fastpipe::pipe::page_size;

/// Bits of a pagemap entry (Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
const SWAPPED: u64 = 1 << 62;
const FRAME_NUMBER: u64 = (1 << 55) - 1;

/// Page table of a process, as in /proc/PID/pagemap.
#[derive(Debug)]
pub struct Pagemap(File);

impl Pagemap {
    /// Opens /proc/PID/pagemap.
    ///
    /// # Errors
    /// Those of open(2): `PermissionDenied` for another user's process.
    pub fn open(process: ExaminedProcess) -> io::Result<Self> {
        File::open(format!("/proc/{process}/pagemap")).map(Pagemap)
    }

    /// Returns the entries of `pages` base pages, starting with the one at
    /// `address`. There are fewer if the address space ends before, or the process
    /// has ended.
    ///
    /// # Errors
    /// Those of pread(2).
    pub fn entries(&self, address: u64, pages: usize) -> io::Result<Vec<Entry>> {
        let first = address / page_size() as u64;
        Ok(read_words(&self.0, first, pages)?
            .into_iter()
            .map(Entry)
            .collect())
    }
}

/// Page-table entry of one base page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry(u64);

impl Entry {
    /// Whether the page is in memory.
    pub fn is_present(self) -> bool {
        self.0 & PRESENT != 0
    }

    /// Whether the page is in swap space.
    pub fn is_swapped(self) -> bool {
        self.0 & SWAPPED != 0
    }

    /// Returns the number of the page frame, that is, the physical address divided
    /// by the page size. `None` if the page is not in memory, or if the caller has
    /// no CAP_SYS_ADMIN: the kernel then shows 0.
    pub fn frame(self) -> Option<u64> {
        match self.0 & FRAME_NUMBER {
            frame if self.is_present() && frame != 0 => Some(frame),
            _ => None,
        }
    }
}

/// Use of page frames, as in /proc/kpageflags.
#[derive(Debug)]
pub struct FrameFlags(File);

impl FrameFlags {
    /// Opens /proc/kpageflags.
    ///
    /// # Errors
    /// Those of open(2): `PermissionDenied` unless root.
    pub fn open() -> io::Result<Self> {
        File::open("/proc/kpageflags").map(FrameFlags)
    }

    /// Returns the flags of one frame.
    ///
    /// # Errors
    /// Those of pread(2): `PermissionDenied` without CAP_SYS_ADMIN;
    /// `UnexpectedEof` if there is no such frame.
    pub fn get(&self, frame: u64) -> io::Result<PageFlags> {
        let flags = self.of_run(frame, 1)?;
        flags.first().copied().ok_or_else(|| {
            io::Error::new(io::ErrorKind::UnexpectedEof, "there is no such page frame")
        })
    }

    /// Returns the flags of `count` frames, starting with `first`. There are
    /// fewer if memory ends before.
    ///
    /// # Errors
    /// Those of pread(2).
    pub fn of_run(&self, first: u64, count: usize) -> io::Result<Vec<PageFlags>> {
        Ok(read_words(&self.0, first, count)?
            .into_iter()
            .map(PageFlags)
            .collect())
    }
}

/// Flags of a page frame, one bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PageFlags(pub u64);

/// Names in the order of the bits (include/uapi/linux/kernel-page-flags.h), a line each.
const NAMES: &str = include_str!("page-flags.txt");

impl PageFlags {
    const COMPOUND_HEAD: u64 = 1 << 15;
    const COMPOUND_TAIL: u64 = 1 << 16;
    const HUGE: u64 = 1 << 17;
    const THP: u64 = 1 << 22;
    const ZERO_PAGE: u64 = 1 << 24;

    /// Whether the frame is part of a reserved huge page (hugetlb).
    pub fn is_hugetlb(self) -> bool {
        self.0 & Self::HUGE != 0
    }

    /// Whether the frame is part of a transparent huge page. Kernels with several
    /// sizes of them (6.8 and later) set this for each size.
    pub fn is_transparent_huge(self) -> bool {
        self.0 & Self::THP != 0
    }

    /// Whether the frame is the shared page of zeroes. The kernel maps it where
    /// memory is read before it is written, and smaps does not count it.
    pub fn is_zero_page(self) -> bool {
        self.0 & Self::ZERO_PAGE != 0
    }

    /// Whether the frame is the first of several that the kernel manages as one.
    pub fn is_compound_head(self) -> bool {
        self.0 & Self::COMPOUND_HEAD != 0
    }

    /// Whether the frame is one of several managed as one, but not the first.
    pub fn is_compound_tail(self) -> bool {
        self.0 & Self::COMPOUND_TAIL != 0
    }

    /// Returns the kernel's names of the flags that are set, in lower case. Bits
    /// reserved for kernel developers (32 and above) have no names.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        let bits = NAMES.lines().enumerate();
        bits.filter_map(move |(bit, name)| (self.0 >> bit & 1 == 1).then_some(name))
    }
}

/// Size of an entry of either file, in bytes.
const WORD: usize = 8;

/// Number of entries read by one call.
const MAX_WORDS_PER_READ: usize = 32 << 10;

/// Reads `count` 64-bit words from word number `first` on; fewer at the file's
/// end.
fn read_words(file: &File, first: u64, count: usize) -> io::Result<Vec<u64>> {
    // A bounded buffer, since the file may end long before `count` words.
    let mut bytes = vec![0; count.min(MAX_WORDS_PER_READ) * WORD];
    let mut words = Vec::new();
    while words.len() < count {
        let next = first.checked_add(words.len() as u64);
        // There is nothing beyond the largest offset.
        let offset = next.and_then(|next| next.checked_mul(WORD as u64));
        let Some(offset) = offset.filter(|at| *at < i64::MAX as u64) else {
            break;
        };
        let most = (count - words.len()).min(MAX_WORDS_PER_READ) * WORD;
        match file.read_at(&mut bytes[..most], offset) {
            // Both files return whole words.
            Ok(n) if n < WORD => break,
            Ok(n) => words.extend(
                bytes[..n]
                    .as_chunks()
                    .0
                    .iter()
                    .copied()
                    .map(u64::from_ne_bytes),
            ),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_number_needs_a_present_page_and_permission() {
        assert_eq!(Entry(PRESENT | 0x1234).frame(), Some(0x1234));
        assert_eq!(Entry(PRESENT).frame(), None);
        // For a page in swap the same bits are its place there.
        assert_eq!(Entry(SWAPPED | 0x1234).frame(), None);
        assert!(Entry(SWAPPED).is_swapped() && !Entry(SWAPPED).is_present());
        // The bits above the number are not part of it.
        assert_eq!(Entry(PRESENT | 7 << 55 | 1).frame(), Some(1));
    }

    #[test]
    fn flags_have_the_names_of_the_kernel() {
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
    fn the_last_address_has_no_entry() {
        let pagemap = Pagemap::open(ExaminedProcess::Own).unwrap();
        assert_eq!(pagemap.entries(u64::MAX, 3).unwrap(), []);
    }

    #[test]
    fn more_pages_than_the_address_space_has_are_no_error() {
        let pagemap = Pagemap::open(ExaminedProcess::Own).unwrap();
        let beyond_every_process = 1 << 60;
        for pages in [usize::MAX, usize::MAX / 8 + 1, usize::MAX / 16] {
            let entries = pagemap.entries(beyond_every_process, pages).unwrap();
            assert_eq!(entries, []);
        }
    }

    #[test]
    fn a_long_range_has_one_entry_for_each_page() {
        let pages = MAX_WORDS_PER_READ + 3;
        let pagemap = Pagemap::open(ExaminedProcess::Own).unwrap();
        assert_eq!(pagemap.entries(0, pages).unwrap().len(), pages);
    }

    #[test]
    fn a_page_on_the_stack_is_present() {
        let here = 7u8;
        let pagemap = Pagemap::open(ExaminedProcess::Own).unwrap();
        let address = (&raw const here).addr() as u64;
        let entries = pagemap.entries(address, 1).unwrap();
        assert!(entries[0].is_present());
    }
}
