//! Page sizes behind a range of memory.

use std::fmt;
use std::io;

use crate::memory::{FrameFlags, Pagemap, Process, Region, regions};
use crate::pipe::page_size;

/// Page sizes behind a buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Whether all of it is in huge pages.
    pub fn all_huge(&self) -> bool {
        self.huge == self.mapped
    }
}

/// Source of a [`Backing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownBy {
    /// /proc/self/smaps: sums per mapping. Needs no privilege.
    Smaps,
    /// /proc/self/pagemap and /proc/kpageflags: page by page. Needs
    /// CAP_SYS_ADMIN.
    Pagemap,
}

impl ShownBy {
    /// Returns the name of the file.
    pub fn name(self) -> &'static str {
        match self {
            ShownBy::Smaps => "smaps",
            ShownBy::Pagemap => "pagemap",
        }
    }
}

/// Error: the page sizes behind the memory can't be determined.
#[derive(Debug)]
pub struct BackingError {
    /// File read last.
    pub file: &'static str,
    /// Error of reading it.
    pub source: io::Error,
}

impl fmt::Display for BackingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} can't be read: {}", self.file, self.source)
    }
}

impl std::error::Error for BackingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

pub(super) fn examine(address: usize, len: usize) -> Result<Backing, BackingError> {
    match from_pagemap(address, len) {
        Ok(Some(backing)) => Ok(backing),
        Ok(None) | Err(_) => from_smaps(address, len),
    }
}

/// Returns `None` if the frame numbers are hidden, as they are from a process
/// without CAP_SYS_ADMIN.
fn from_pagemap(address: usize, len: usize) -> io::Result<Option<Backing>> {
    let page = page_size();
    let entries = Pagemap::open(Process::Own)?.entries(address as u64, len / page)?;
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
    for entry in entries {
        if !entry.is_present() {
            continue;
        }
        let Some(frame) = entry.frame() else {
            return Ok(None);
        };
        backing.resident += page as u64;
        let flags = flags.of(frame)?;
        if flags.is_transparent_huge() || flags.is_hugetlb() {
            backing.huge += page as u64;
        }
    }
    Ok(Some(backing))
}

/// Returns the size of the pages that the kernel manages as one, if all are of the
/// same size and the range consists of them, else `None`. Pages of more than one
/// base page are contiguous in memory.
pub(super) fn page_bytes(address: usize, len: usize) -> Result<Option<usize>, BackingError> {
    let failed = |file| move |source| BackingError { file, source };
    let pagemap = failed("/proc/self/pagemap");
    let map = Pagemap::open(Process::Own).map_err(pagemap)?;
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

pub(super) fn from_smaps(address: usize, len: usize) -> Result<Backing, BackingError> {
    let fail = |source| BackingError {
        file: "/proc/self/smaps",
        source,
    };
    let regions = regions(Process::Own).map_err(fail)?;
    sum_amounts(&regions, address, len).ok_or_else(|| {
        fail(io::Error::new(
            io::ErrorKind::InvalidData,
            "the mapping is not listed",
        ))
    })
}

/// Sums over the mappings within the range.
fn sum_amounts(regions: &[Region], address: usize, len: usize) -> Option<Backing> {
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
    use crate::memory::parse;

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
}
