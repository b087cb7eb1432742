//! The pages of a range of memory, from /proc.

use std::io;
use std::path::Path;

use fastpipe::pipe::page_size;
use itertools::Itertools;
use pipespeed_host::process_memory::{
    Entry, ExaminedProcess, FrameFlags, MappedRegion, Pagemap, regions,
};
use rustix::io::Errno;

use super::huge::{Compounds, from_flags, from_sums};
use super::record::{Hidden, MemoryMapping, MemoryRange, Page, PageState};

/// A range of memory can't be shown.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// There is no such process, or /proc hides it.
    #[error("--pid {0}: there is no such process")]
    NoProcess(u32),
    /// The process belongs to another user.
    #[error(
        "--pid {0}: not allowed to look at this process's memory: be its user, or root \
         (CAP_SYS_PTRACE)"
    )]
    NotAllowed(u32),
    /// The process has ended, or is a kernel thread.
    #[error("process {0} has no memory of its own: it has ended, or is a kernel thread")]
    NoMemory(ExaminedProcess),
    /// No mapping contains the address.
    #[error("{address:#x} is not mapped in process {process}: {nearest}")]
    NotMapped {
        /// The address.
        address: u64,
        /// The process.
        process: ExaminedProcess,
        /// The nearest mappings.
        nearest: String,
    },
    /// A file in /proc can't be read.
    #[error("the mappings of process {process} can't be read: {source}")]
    Unreadable {
        /// The process.
        process: ExaminedProcess,
        /// The error.
        source: io::Error,
    },
}

/// Reads the state of all base pages in `length` bytes from `address` on. Information that
/// needs privileges is listed in [`MemoryRange::hidden`].
///
/// # Errors
/// [`LookError`].
pub fn look(process: ExaminedProcess, address: u64, length: u64) -> Result<MemoryRange, LookError> {
    let regions = regions(process).map_err(|source| unreadable(process, source))?;
    if regions.is_empty() {
        return Err(LookError::NoMemory(process));
    }
    if region_of(&regions, address).is_none() {
        return Err(LookError::NotMapped {
            address,
            process,
            nearest: nearest(&regions, address),
        });
    }
    let page = page_size() as u64;
    let first = address / page * page;
    let last = address.saturating_add(length - 1) / page * page;
    let count = ((last - first) / page + 1) as usize;

    let mut hidden = Vec::new();
    let entries = Pagemap::open(process).and_then(|pagemap| pagemap.entries(first, count));
    let entries = entries.unwrap_or_else(|error| {
        hidden.push(Hidden::Pages(error.to_string()));
        Vec::new()
    });
    let mut pages: Vec<Page> = (0..count)
        .map(|i| {
            let address = first + i as u64 * page;
            let region = region_of(&regions, address);
            plain(address, region, entries.get(i).copied())
        })
        .collect();
    add_flags(&mut pages, &mut hidden);

    let concerned = regions.iter().filter(|r| r.start <= last && first < r.end);
    if concerned.clone().any(|region| region.amounts.is_none()) {
        hidden.push(Hidden::Amounts);
    }
    Ok(MemoryRange {
        pid: match process {
            ExaminedProcess::Own => None,
            ExaminedProcess::Other(pid) => Some(pid),
        },
        mappings: concerned.map(mapping).collect(),
        page_bytes: page,
        runs: runs(&pages),
        pages,
        hidden,
    })
}

/// A page, as described by the page table.
fn plain(address: u64, region: Option<&MappedRegion>, entry: Option<Entry>) -> Page {
    let state = match entry {
        _ if region.is_none() => PageState::Unmapped,
        None => PageState::Unknown,
        Some(entry) if entry.is_present() => PageState::Present,
        Some(entry) if entry.is_swapped() => PageState::Swapped,
        Some(_) => PageState::Absent,
    };
    Page {
        address,
        state,
        frame: entry.and_then(Entry::frame),
        follows: None,
        huge: match state {
            PageState::Present | PageState::Unknown => from_sums(region),
            _ => Default::default(),
        },
        flags: None,
    }
}

/// Adds what the numbers and flags of the frames show.
fn add_flags(pages: &mut [Page], hidden: &mut Vec<Hidden>) {
    let present = |page: &Page| page.state == PageState::Present;
    if pages
        .iter()
        .any(|page| present(page) && page.frame.is_none())
    {
        hidden.push(Hidden::Frames);
    }
    for i in 1..pages.len() {
        if let (Some(before), Some(own)) = (pages[i - 1].frame, pages[i].frame) {
            pages[i].follows = Some(own == before + 1);
        }
    }
    if pages.iter().all(|page| page.frame.is_none()) {
        return;
    }
    if let Err(error) = read_flags(pages) {
        hidden.push(Hidden::Flags(error.to_string()));
    }
}

fn read_flags(pages: &mut [Page]) -> io::Result<()> {
    let file = FrameFlags::open()?;
    let mut compounds = Compounds::new(&file);
    for page in pages {
        let Some(frame) = page.frame else { continue };
        match file.get(frame) {
            Ok(flags) => {
                page.flags = Some(flags);
                let compound = flags.is_compound_head() || flags.is_compound_tail();
                let bytes = compound.then(|| compounds.bytes_around(frame)).flatten();
                page.huge = from_flags(flags, bytes);
            }
            // Memory of devices has frames without flags.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The number of runs of contiguous frames.
fn runs(pages: &[Page]) -> Option<usize> {
    let present = pages.iter().filter(|page| page.state == PageState::Present);
    let frames: Option<Vec<u64>> = present.map(|page| page.frame).collect();
    let frames = frames.filter(|frames| !frames.is_empty())?;
    let breaks = frames.windows(2).filter(|two| two[1] != two[0] + 1).count();
    Some(breaks + 1)
}

/// The mapping that contains an address; they are sorted.
fn region_of(regions: &[MappedRegion], address: u64) -> Option<&MappedRegion> {
    let after = regions.partition_point(|region| region.start <= address);
    let region = regions.get(after.checked_sub(1)?)?;
    region.contains(address).then_some(region)
}

/// The mappings below and above an address that is not mapped.
fn nearest(regions: &[MappedRegion], address: u64) -> String {
    let (below, above) = regions.split_at(regions.partition_point(|r| r.start <= address));
    let sides = [("below", below.last()), ("above", above.first())];
    let mut sides = sides.iter().filter_map(|(side, region)| {
        let MappedRegion { start, end, .. } = (*region)?;
        Some(format!("the next mapping {side} is {start:#x}-{end:#x}"))
    });
    sides.join(", ")
}

fn mapping(region: &MappedRegion) -> MemoryMapping {
    let amounts = region.amounts;
    MemoryMapping {
        start: region.start,
        end: region.end,
        permissions: region.permissions.clone(),
        name: region.name.clone(),
        resident_bytes: amounts.map(|amounts| amounts.resident + amounts.hugetlb),
        huge_bytes: amounts.map(|amounts| amounts.transparent_huge + amounts.hugetlb),
        kernel_page_bytes: amounts.map(|amounts| amounts.page),
    }
}

fn unreadable(process: ExaminedProcess, source: io::Error) -> LookError {
    let ExaminedProcess::Other(pid) = process else {
        return LookError::Unreadable { process, source };
    };
    let exists = Path::new(&format!("/proc/{pid}")).exists();
    match Errno::from_io_error(&source) {
        Some(Errno::NOENT | Errno::SRCH) if !exists => LookError::NoProcess(pid),
        Some(Errno::SRCH) => LookError::NoMemory(process),
        Some(Errno::ACCESS | Errno::PERM) => LookError::NotAllowed(pid),
        _ => LookError::Unreadable { process, source },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(frames: &[Option<u64>]) -> Vec<Page> {
        let page = |frame: &Option<u64>| Page {
            frame: *frame,
            ..plain(0, None, None)
        };
        let mut pages: Vec<Page> = frames.iter().map(page).collect();
        pages
            .iter_mut()
            .for_each(|page| page.state = PageState::Present);
        pages
    }

    #[test]
    fn runs_are_counted_where_the_frames_are_known() {
        assert_eq!(runs(&pages(&[Some(7), Some(8), Some(9)])), Some(1));
        assert_eq!(runs(&pages(&[Some(7), Some(6), Some(7)])), Some(2));
        assert_eq!(runs(&pages(&[Some(7), None])), None);
        assert_eq!(runs(&[]), None);
    }

    #[test]
    fn a_mapping_is_found_by_its_addresses_only() {
        let region = |start, end| MappedRegion {
            start,
            end,
            ..MappedRegion::default()
        };
        let regions = [region(0x1000, 0x3000), region(0x5000, 0x6000)];
        for (address, start) in [(0x1000, 0x1000), (0x2fff, 0x1000), (0x5fff, 0x5000)] {
            assert_eq!(region_of(&regions, address).map(|r| r.start), Some(start));
        }
        for address in [0, 0xfff, 0x3000, 0x4fff, 0x6000] {
            assert_eq!(region_of(&regions, address), None);
        }
        assert_eq!(
            nearest(&regions, 0x3000),
            "the next mapping below is 0x1000-0x3000, the next mapping above is 0x5000-0x6000"
        );
    }
}
