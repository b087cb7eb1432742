//! What pages a range of memory is made of.

use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use crate::pipe::page_size;

/// The pages behind a buffer, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backing {
    /// The bytes looked at: the buffer rounded up to whole pages.
    pub mapped: u64,
    /// Those present in memory.
    pub resident: u64,
    /// Those in huge pages, transparent or reserved.
    pub huge: u64,
    /// How this was found.
    pub shown_by: ShownBy,
}

impl Backing {
    /// Whether every byte is in a huge page.
    pub fn all_huge(&self) -> bool {
        self.huge == self.mapped
    }
}

/// How a [`Backing`] was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownBy {
    /// /proc/self/smaps: the sums of the mapping. Needs no privilege.
    Smaps,
    /// /proc/self/pagemap and /proc/kpageflags: page by page. Needs
    /// CAP_SYS_ADMIN.
    Pagemap,
}

impl ShownBy {
    /// The name of the file.
    pub fn name(self) -> &'static str {
        match self {
            ShownBy::Smaps => "smaps",
            ShownBy::Pagemap => "pagemap",
        }
    }
}

/// Nothing tells what pages the memory is made of.
#[derive(Debug)]
pub struct BackingError {
    /// What was asked last.
    pub file: &'static str,
    /// Why it did not answer.
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

/// Bits of a pagemap entry (Documentation/admin-guide/mm/pagemap.rst).
const PRESENT: u64 = 1 << 63;
const FRAME_NUMBER: u64 = (1 << 55) - 1;
/// Bits of /proc/kpageflags (include/uapi/linux/kernel-page-flags.h).
const KPF_HUGE: u64 = 1 << 17;
const KPF_THP: u64 = 1 << 22;

/// `None` where the frame numbers are hidden, which is how the kernel answers
/// a process without CAP_SYS_ADMIN.
fn from_pagemap(address: usize, len: usize) -> io::Result<Option<Backing>> {
    let page = page_size();
    let pages = len / page;
    let mut entries = vec![0; pages * 8];
    File::open("/proc/self/pagemap")?.read_exact_at(&mut entries, (address / page * 8) as u64)?;

    let flags = File::open("/proc/kpageflags")?;
    let mut backing = Backing {
        mapped: len as u64,
        resident: 0,
        huge: 0,
        shown_by: ShownBy::Pagemap,
    };
    for entry in words(&entries) {
        if entry & PRESENT == 0 {
            continue;
        }
        let frame = entry & FRAME_NUMBER;
        if frame == 0 {
            return Ok(None);
        }
        backing.resident += page as u64;
        let mut word = [0; 8];
        flags.read_exact_at(&mut word, frame * 8)?;
        if u64::from_ne_bytes(word) & (KPF_THP | KPF_HUGE) != 0 {
            backing.huge += page as u64;
        }
    }
    Ok(Some(backing))
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.chunks_exact(8).map(|chunk| {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        u64::from_ne_bytes(word)
    })
}

pub(super) fn from_smaps(address: usize, len: usize) -> Result<Backing, BackingError> {
    const FILE: &str = "/proc/self/smaps";
    let fail = |source| BackingError { file: FILE, source };
    let smaps = fs::read_to_string(FILE).map_err(fail)?;
    parse_smaps(&smaps, address, len).ok_or_else(|| {
        fail(io::Error::new(
            io::ErrorKind::InvalidData,
            "the mapping is not in it",
        ))
    })
}

/// Sums over the mappings that lie within the range. proc_pid_smaps(5).
fn parse_smaps(smaps: &str, address: usize, len: usize) -> Option<Backing> {
    let mut backing = Backing {
        mapped: len as u64,
        resident: 0,
        huge: 0,
        shown_by: ShownBy::Smaps,
    };
    let mut within = false;
    let mut found = false;
    for line in smaps.lines() {
        if let Some((start, end)) = address_range(line) {
            within = start >= address && end <= address + len;
            found |= within;
        } else if within {
            let mut words = line.split_ascii_whitespace();
            let (Some(key), Some(value)) = (words.next(), words.next()) else {
                continue;
            };
            let Ok(kib) = value.parse::<u64>() else {
                continue;
            };
            match key {
                "Rss:" => backing.resident += kib * 1024,
                "AnonHugePages:" => backing.huge += kib * 1024,
                // Reserved huge pages are not part of Rss.
                "Private_Hugetlb:" | "Shared_Hugetlb:" => {
                    backing.huge += kib * 1024;
                    backing.resident += kib * 1024;
                }
                _ => {}
            }
        }
    }
    found.then_some(backing)
}

/// The range at the head of a mapping's entry: `7f00-7f10 rw-p ...`.
fn address_range(line: &str) -> Option<(usize, usize)> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    Some((
        usize::from_str_radix(start, 16).ok()?,
        usize::from_str_radix(end, 16).ok()?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn smaps_counts_the_mapping_asked_for_and_not_its_neighbours() {
        let backing = parse_smaps(SMAPS, 0x7f00_0020_0000, 4 << 20).unwrap();
        assert_eq!(backing.resident, 3 << 20);
        assert_eq!(backing.huge, 2 << 20);
        assert!(!backing.all_huge());
    }

    #[test]
    fn smaps_without_the_mapping_is_no_answer() {
        assert_eq!(parse_smaps(SMAPS, 0x1000, 4096), None);
    }
}
