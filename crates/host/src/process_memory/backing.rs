//! Page sizes behind a buffer.

use std::io;

use fastpipe::buffer::{Buffer, huge_page_size};
use fastpipe::pipe::page_size;
use pipespeed_base::named;

use super::{ExaminedProcess, FrameFlags, MappedRegion, PageFlags, Pagemap, regions};

/// Page sizes behind a buffer, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backing {
    /// Length examined: the buffer, rounded up to whole pages.
    pub mapped: u64,
    /// Part of it that is resident in memory.
    pub resident: u64,
    /// Part of it that is in huge pages, transparent or reserved.
    pub huge: u64,
    /// Source of these figures.
    pub shown_by: ShownBy,
}

impl Backing {
    /// Determines the current page sizes behind a buffer.
    ///
    /// Reads /proc/self/pagemap and /proc/kpageflags if permitted, otherwise
    /// /proc/self/smaps.
    ///
    /// # Errors
    /// [`BackingError`] if none of them can be read.
    pub fn examine(buffer: &Buffer) -> Result<Self, BackingError> {
        match from_pagemap(address(buffer), buffer.mapped_len()) {
            Ok(Some(backing)) => Ok(backing),
            Ok(None) | Err(_) => Backing::from_smaps(buffer),
        }
    }

    /// As [`examine`](Self::examine), but only from smaps, which needs no
    /// privilege.
    ///
    /// # Errors
    /// [`BackingError`] if smaps can't be read.
    pub fn from_smaps(buffer: &Buffer) -> Result<Self, BackingError> {
        let fail = |source| BackingError {
            file: "/proc/self/smaps",
            source,
        };
        let regions = regions(ExaminedProcess::Own).map_err(fail)?;
        sum_amounts(&regions, address(buffer), buffer.mapped_len()).ok_or_else(|| {
            fail(io::Error::new(
                io::ErrorKind::InvalidData,
                "the mapping is not listed",
            ))
        })
    }

    /// Whether all of it is in huge pages.
    pub fn all_huge(&self) -> bool {
        self.huge == self.mapped
    }
}

named! {
    /// Source of a [`Backing`].
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
    pub enum ShownBy {
        /// /proc/self/smaps: sums per mapping. Needs no privilege.
        #[default]
        Smaps = "smaps",
        /// /proc/self/pagemap and /proc/kpageflags: page by page. Needs
        /// CAP_SYS_ADMIN.
        Pagemap = "pagemap",
    }
}

/// Error: the page sizes behind the memory can't be determined.
#[derive(Debug, thiserror::Error)]
#[error("{file} can't be read: {source}")]
pub struct BackingError {
    /// File read last.
    pub file: &'static str,
    /// Error of reading it.
    pub source: io::Error,
}

fn address(buffer: &Buffer) -> usize {
    buffer.as_ptr().addr()
}

/// Returns `None` if the frame numbers are hidden, as they are from a process
/// without CAP_SYS_ADMIN.
fn from_pagemap(address: usize, len: usize) -> io::Result<Option<Backing>> {
    let page = page_size();
    let entries = Pagemap::open(ExaminedProcess::Own)?.entries(address as u64, len / page)?;
    if entries.len() < len / page {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let flags = FrameFlags::open()?;
    let mut backing = Backing {
        mapped: len as u64,
        resident: 0,
        huge: 0,
        shown_by: ShownBy::Pagemap,
    };
    let mut frames = Vec::with_capacity(entries.len());
    for entry in entries {
        if !entry.is_present() {
            frames.push(None);
            continue;
        }
        let Some(frame) = entry.frame() else {
            return Ok(None);
        };
        backing.resident += page as u64;
        let flags = flags.get(frame)?;
        if flags.is_hugetlb() {
            backing.huge += page as u64;
        }
        frames.push(Some((frame, flags)));
    }
    let before_first = (address.next_multiple_of(huge_page_size()) - address) / page;
    let pages = frames.get(before_first..).unwrap_or_default();
    let huge = pages.chunks_exact(huge_page_size() / page);
    let huge = huge.filter(|pages| is_transparent_huge_page(pages)).count();
    backing.huge += (huge * huge_page_size()) as u64;
    Ok(Some(backing))
}

/// Whether these pages are one transparent huge page. The kernel's flag alone is also set for
/// smaller ones.
fn is_transparent_huge_page(pages: &[Option<(u64, PageFlags)>]) -> bool {
    let Some(Some((first, head))) = pages.first() else {
        return false;
    };
    let is_tail = |(frame, page): (u64, &Option<(u64, PageFlags)>)| {
        page.is_some_and(|(found, flags)| found == frame && flags.is_compound_tail())
    };
    head.is_transparent_huge()
        && head.is_compound_head()
        && (first + 1..).zip(&pages[1..]).all(is_tail)
}

/// Determines the size of the pages behind a buffer that the kernel manages as one, in
/// bytes: `None` if the buffer consists of several sizes or is not resident. A page of
/// more than one base page is contiguous in memory.
///
/// Unlike a [`Backing`] this shows transparent huge pages of all sizes, however they are
/// mapped.
///
/// # Errors
/// [`BackingError`] without CAP_SYS_ADMIN.
pub fn page_bytes(buffer: &Buffer) -> Result<Option<usize>, BackingError> {
    let (address, len) = (address(buffer), buffer.mapped_len());
    let failed = |file| move |source| BackingError { file, source };
    let pagemap = failed("/proc/self/pagemap");
    let map = Pagemap::open(ExaminedProcess::Own).map_err(pagemap)?;
    let entries = map.entries(address as u64, len / page_size());
    let entries = entries.map_err(pagemap)?;
    if entries.iter().any(|entry| !entry.is_present()) {
        return Ok(None);
    }
    let frames: Option<Vec<u64>> = entries.iter().map(|entry| entry.frame()).collect();
    let hidden = || pagemap(io::ErrorKind::PermissionDenied.into());
    let frames = frames.ok_or_else(hidden)?;
    let flags = FrameFlags::open()
        .and_then(|flags| {
            let of = |&frame: &u64| flags.of_run(frame, 2);
            frames.iter().map(of).collect::<io::Result<Vec<_>>>()
        })
        .map_err(failed("/proc/kpageflags"))?;
    let is_tail = |frame: usize, next: usize| {
        let flags = flags[frame].get(next);
        flags.is_some_and(|flags| flags.is_compound_tail())
    };
    let mut sizes = Vec::new();
    let mut start = 0;
    while start < frames.len() {
        let belongs = |at: &usize| frames[*at] == frames[*at - 1] + 1 && is_tail(*at, 0);
        let others = (start + 1..frames.len()).take_while(belongs).count();
        let last = start + others;
        if is_tail(start, 0) || is_tail(last, 1) {
            // The rest of the page is elsewhere.
            return Ok(None);
        }
        sizes.push((1 + others) * page_size());
        start = last + 1;
    }
    sizes.dedup();
    Ok(if let [size] = sizes[..] {
        Some(size)
    } else {
        None
    })
}

/// Sums over the mappings within the range.
fn sum_amounts(regions: &[MappedRegion], address: usize, len: usize) -> Option<Backing> {
    let mut backing = Backing {
        mapped: len as u64,
        resident: 0,
        huge: 0,
        shown_by: ShownBy::Smaps,
    };
    let mut found = false;
    let (start, end) = (address as u64, (address + len) as u64);
    for region in regions {
        let Some(amounts) = region.amounts else {
            continue;
        };
        if region.start >= start && region.end <= end {
            found = true;
            // smaps does not count reserved huge pages as resident.
            backing.resident += amounts.resident + amounts.hugetlb;
            backing.huge += amounts.anonymous_huge + amounts.hugetlb;
        }
    }
    found.then_some(backing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process_memory::smaps::parse;
    use crate::{Root, Transparent};
    use fastpipe::buffer::{BufferBuilder, Pages};
    use pipespeed_testing::skip;

    const SMAPS: &str = "\
7f0000000000-7f0000200000 ---p 00000000 00:00 0
Size:               2048 kB
Rss:                   0 kB
AnonHugePages:         0 kB
7f0000200000-7f0000600000 rw-p 00000000 00:00 0
Size:               4096 kB
KernelPageSize:        4 kB
Rss:                3072 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac sd hg
7f0000600000-7f0000800000 rw-p 00000000 00:00 0
Rss:                2048 kB
AnonHugePages:      2048 kB
";

    /// The pages of folios of this many pages each.
    fn folios(pages: usize) -> Vec<Option<(u64, PageFlags)>> {
        let (head, tail, thp) = (1 << 15, 1 << 16, 1 << 22);
        let flags = |at: usize| if at.is_multiple_of(pages) { head } else { tail };
        (0..512)
            .map(|at| Some((7 * 512 + at as u64, PageFlags(thp | flags(at)))))
            .collect()
    }

    #[test]
    fn smaller_folios_are_no_huge_page() {
        assert!(is_transparent_huge_page(&folios(512)));
        assert!(!is_transparent_huge_page(&folios(16)));
        let mut other = folios(512);
        other[300] = Some((5, PageFlags(1 << 22 | 1 << 16)));
        assert!(!is_transparent_huge_page(&other));
        other[300] = None;
        assert!(!is_transparent_huge_page(&other));
    }

    #[test]
    fn smaps_counts_only_the_mapping_asked_for() {
        let backing = sum_amounts(&parse(SMAPS), 0x7f00_0020_0000, 4 << 20).unwrap();
        assert_eq!(backing.resident, 3 << 20);
        assert_eq!(backing.huge, 2 << 20);
        assert!(!backing.all_huge());
    }

    #[test]
    fn a_mapping_missing_from_smaps_has_no_backing() {
        assert_eq!(sum_amounts(&parse(SMAPS), 0x1000, 4096), None);
    }

    fn huge(len: usize) -> BufferBuilder {
        Buffer::builder().len(len).pages(Pages::Huge)
    }

    #[test]
    fn smaps_and_pagemap_both_show_huge_pages() {
        let len = 2 * huge_page_size();
        for (buffer, kind) in [
            (huge(len).map().unwrap(), "huge"),
            (Buffer::builder().len(len).map().unwrap(), "base"),
        ] {
            let smaps = Backing::from_smaps(&buffer).unwrap();
            assert_eq!((smaps.mapped, smaps.resident), (len as u64, len as u64));
            assert_eq!(smaps.shown_by, ShownBy::Smaps);
            match kind {
                "base" => assert_eq!(smaps.huge, 0),
                _ if smaps.huge == 0 => skip("this system grants no huge pages"),
                _ => assert_eq!(smaps.all_huge(), smaps.huge == len as u64),
            }
            let best = Backing::examine(&buffer).unwrap();
            if best.shown_by == ShownBy::Smaps {
                return skip("this process may not read page frame numbers");
            }
            let shown_by = ShownBy::Smaps;
            assert_eq!(Backing { shown_by, ..best }, smaps);
        }
    }

    /// Returns the size of the pages, if this process may know it.
    fn bytes_of_pages(buffer: &Buffer) -> Option<usize> {
        match page_bytes(buffer) {
            Ok(bytes) => Some(bytes.expect("pages of one size")),
            Err(error) => {
                skip(error);
                None
            }
        }
    }

    #[test]
    fn split_huge_pages_stay_whole_in_memory_only() {
        let len = 2 * huge_page_size();
        let whole = huge(len).map().unwrap();
        if Backing::from_smaps(&whole).unwrap().huge == 0 {
            return skip("this system grants no huge pages");
        }
        let split = huge(len).split(true).map().unwrap();
        let mut renewed = huge(len).split(true).map().unwrap();
        renewed.renew().unwrap();
        for (buffer, expected) in [
            (&whole, huge_page_size()),
            (&split, huge_page_size()),
            (&renewed, huge_page_size()),
            (&Buffer::builder().len(len).map().unwrap(), page_size()),
        ] {
            let Some(bytes) = bytes_of_pages(buffer) else {
                return;
            };
            assert_eq!(bytes, expected);
        }
        assert_eq!(Backing::from_smaps(&split).unwrap().huge, 0);
    }

    /// Whether transparent huge pages of this size are granted to those who ask.
    fn is_enabled(bytes: usize) -> bool {
        let Some(settings) = Transparent::read(&Root::default()) else {
            return false;
        };
        let mut sizes = settings.sizes.iter();
        let own = sizes.find(|size| size.page_bytes == bytes as u64);
        let setting = match own.and_then(|size| size.enabled.as_deref()) {
            // Before Linux 6.8 there is no setting for each size, nor pages of other sizes.
            None if bytes != huge_page_size() => None,
            None | Some("inherit") => settings.enabled.as_deref(),
            own => own,
        };
        matches!(setting, Some("always" | "madvise"))
    }

    #[test]
    fn huge_pages_have_the_requested_size_where_it_is_enabled() {
        // The usual size is granted in the same way as the smaller ones.
        for bytes in (14..=20).map(|bits| 1 << bits).chain([huge_page_size()]) {
            let buffer = huge(2 * bytes + 1).page_bytes(bytes).map().unwrap();
            let backing = Backing::from_smaps(&buffer).unwrap();
            if !is_enabled(bytes) {
                skip(format_args!("pages of {bytes} bytes are not enabled"));
                assert_eq!(backing.huge, 0);
            } else if bytes == huge_page_size() {
                assert!(backing.all_huge(), "{backing:?}");
            }
            match bytes_of_pages(&buffer) {
                Some(found) => assert_eq!(found == bytes, is_enabled(bytes), "{bytes}"),
                None => return,
            }
        }
    }
}
