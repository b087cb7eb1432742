//! A process's mappings, from /proc/PID/smaps or /proc/PID/maps.

use std::fs;
use std::io;

use super::ExaminedProcess;

/// One mapping of a process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MappedRegion {
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Permissions such as `rw-p`: read, write, execute, private or shared.
    pub permissions: String,
    /// Path of the mapped file, or a name such as `[heap]`; may be empty.
    pub name: String,
    /// Amounts of memory; `None` if the kernel has no /proc/PID/smaps.
    pub amounts: Option<Amounts>,
}

/// Amounts of memory in a mapping, in bytes (proc_pid_smaps(5)).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Resident in memory, without reserved huge pages.
    pub resident: u64,
    /// Part of `resident` in transparent huge pages that one page-table entry
    /// maps: anonymous, shared or of files.
    pub transparent_huge: u64,
    /// Part of `transparent_huge` that is anonymous.
    pub anonymous_huge: u64,
    /// In reserved huge pages.
    pub hugetlb: u64,
    /// Page size of the mapping (KernelPageSize): larger than a base page only
    /// for reserved huge pages.
    pub page: u64,
}

impl MappedRegion {
    /// Whether the address is in the mapping.
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// Returns the mappings of a process in ascending order, from smaps, or from
/// maps if the kernel has no smaps. Empty for a kernel thread.
///
/// # Errors
/// Those of open(2) and read(2): `NotFound` if there is no such process,
/// `PermissionDenied` for another user's.
pub fn regions(process: ExaminedProcess) -> io::Result<Vec<MappedRegion>> {
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

/// Parses the text of smaps or maps.
pub(super) fn parse(text: &str) -> Vec<MappedRegion> {
    let mut regions: Vec<MappedRegion> = Vec::new();
    for line in text.lines() {
        if let Some(region) = parse_heading(line) {
            regions.push(region);
        } else if let Some(region) = regions.last_mut() {
            parse_amount(line, region);
        }
    }
    regions
}

/// Parses the first line of a mapping: `7f00-7f10 rw-p 00000000 00:00 0  name`.
fn parse_heading(line: &str) -> Option<MappedRegion> {
    let (range, rest) = line.split_once(' ')?;
    let (start, end) = range.split_once('-')?;
    // Permissions, offset, device, inode; then blanks, and a name that may
    // contain blanks.
    let mut fields = rest.splitn(5, ' ');
    let permissions = fields.next()?.to_owned();
    let name = fields.nth(3).unwrap_or_default().trim_start().to_owned();
    Some(MappedRegion {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        permissions,
        name,
        amounts: None,
    })
}

/// Parses one of the following lines, such as `Rss:    2048 kB`.
fn parse_amount(line: &str, region: &mut MappedRegion) {
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
    fn a_mapping_has_a_name_and_amounts() {
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
    fn maps_gives_mappings_without_amounts() {
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
    fn the_stack_is_among_our_mappings() {
        let regions = regions(ExaminedProcess::Own).unwrap();
        assert!(regions.iter().any(|region| region.name == "[stack]"));
    }
}
