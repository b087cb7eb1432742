//! A process's mappings, from /proc/PID/smaps or /proc/PID/maps.

use std::fs;
use std::io;

use super::Process;

/// One mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Region {
    /// Its first address.
    pub start: u64,
    /// The address after its last.
    pub end: u64,
    /// As `rw-p`: read, write, execute, private or shared.
    pub permissions: String,
    /// Its file, or as `[heap]`; empty for memory without a name.
    pub name: String,
    /// What it is made of; `None` where only /proc/PID/maps is there.
    pub amounts: Option<Amounts>,
}

/// What a mapping is made of, in bytes (proc_pid_smaps(5)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    /// In memory, reserved huge pages left out.
    pub resident: u64,
    /// Of that in transparent huge pages that one entry of a page middle
    /// directory maps: anonymous, shared and of files.
    pub transparent_huge: u64,
    /// Of `transparent_huge` that which is anonymous.
    pub anonymous_huge: u64,
    /// In reserved huge pages.
    pub hugetlb: u64,
    /// The size of the pages that the kernel uses for the mapping at least:
    /// more than a base page's with reserved huge pages.
    pub page: u64,
}

impl Region {
    /// Whether the address lies in it.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// The mappings of a process, in the order of their addresses: from smaps, or
/// from maps where the kernel has no smaps. None at all for a kernel thread.
///
/// # Errors
/// The system's: `NotFound` if there is no such process, `PermissionDenied`
/// for another user's.
pub fn regions(process: Process) -> io::Result<Vec<Region>> {
    let directory = format!("/proc/{process}");
    // A file's name need not be UTF-8.
    let text = match fs::read(format!("{directory}/smaps")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::read(format!("{directory}/maps"))?
        }
        outcome => outcome?,
    };
    Ok(parse(&String::from_utf8_lossy(&text)))
}

/// The mappings in the text of smaps or maps.
pub(crate) fn parse(text: &str) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    for line in text.lines() {
        if let Some(region) = heading(line) {
            regions.push(region);
        } else if let Some(region) = regions.last_mut() {
            amount(line, region);
        }
    }
    regions
}

/// The line at the head of a mapping: `7f00-7f10 rw-p 00000000 00:00 0  name`.
fn heading(line: &str) -> Option<Region> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    // Permissions, offset, device, inode; then blanks, and a name that may
    // have some itself.
    let mut fields = rest.splitn(5, ' ');
    let permissions = fields.next()?.to_owned();
    let name = fields.nth(3).unwrap_or_default().trim_start().to_owned();
    Some(Region {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        permissions,
        name,
        amounts: None,
    })
}

/// A line below it: `Rss:    2048 kB`.
fn amount(line: &str, region: &mut Region) {
    let mut words = line.split_ascii_whitespace();
    let (Some(key), Some(value)) = (words.next(), words.next()) else {
        return;
    };
    let Ok(kib) = value.parse::<u64>() else {
        return;
    };
    let amounts = region.amounts.get_or_insert_default();
    let bytes = kib * 1024;
    match key {
        "Rss:" => amounts.resident = bytes,
        "AnonHugePages:" => {
            amounts.anonymous_huge = bytes;
            amounts.transparent_huge += bytes;
        }
        "ShmemPmdMapped:" | "FilePmdMapped:" => amounts.transparent_huge += bytes,
        "Private_Hugetlb:" | "Shared_Hugetlb:" => amounts.hugetlb += bytes,
        "KernelPageSize:" => amounts.page = bytes,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000200000-7f0000600000 rw-p 00000000 00:00 0
Size:               4096 kB
KernelPageSize:        4 kB
Rss:                3072 kB
AnonHugePages:      2048 kB
FilePmdMapped:         0 kB
VmFlags: rd wr mr mw me ac sd hg
7f0000600000-7f0000800000 r-xs 00001000 08:01 1234                       /a b-c/d (deleted)
KernelPageSize:     2048 kB
Rss:                   0 kB
Shared_Hugetlb:     2048 kB
";

    #[test]
    fn a_mapping_has_its_name_and_its_amounts() {
        let regions = parse(SMAPS);
        assert_eq!(regions.len(), 2);
        assert!(regions[0].contains(0x7f00_0020_0000) && !regions[0].contains(0x7f00_0060_0000));
        assert_eq!(regions[0].name, "");
        let amounts = regions[0].amounts.unwrap();
        assert_eq!((amounts.resident, amounts.page), (3 << 20, 4096));
        assert_eq!(amounts.transparent_huge, 2 << 20);
        assert_eq!(regions[1].name, "/a b-c/d (deleted)");
        assert_eq!(regions[1].permissions, "r-xs");
        assert_eq!(regions[1].amounts.unwrap().hugetlb, 2 << 20);
    }

    #[test]
    fn maps_alone_gives_the_mappings_without_amounts() {
        let maps: String = SMAPS
            .lines()
            .filter(|line| line.contains('-'))
            .map(|line| format!("{line}\n"))
            .collect();
        let regions = parse(&maps);
        assert_eq!(regions.len(), 2);
        assert!(regions.iter().all(|region| region.amounts.is_none()));
    }

    #[test]
    fn our_own_stack_is_among_our_mappings() {
        let regions = regions(Process::Own).unwrap();
        assert!(regions.iter().any(|region| region.name == "[stack]"));
    }
}
