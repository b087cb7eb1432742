//! What is found, as JSON has it. Addresses are text in hexadecimal: JSON's
//! numbers hold 53 bits in many programs. Sizes are in bytes.

use std::fmt;

use fastpipe::memory::PageFlags;
use serde::{Serialize, Serializer};

use super::walk::Walk;
use pipespeed_measure::record::Header;

/// What is saved.
#[derive(Debug, Clone, Serialize)]
pub struct Record {
    /// What every record begins with.
    #[serde(flatten)]
    pub header: Header,
    /// What was found.
    #[serde(flatten)]
    pub report: Report,
}

/// The answer of `pipespeed pages`.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// The walk to the address, or to the range's first.
    pub walk: Walk,
    /// The memory there; `None` where none was looked at.
    pub memory: Option<Memory>,
}

/// A range of a process's memory.
#[derive(Debug, Clone, Serialize)]
pub struct Memory {
    /// The process; `None` for this one.
    pub pid: Option<u32>,
    /// The mappings that the range lies in, in order.
    pub mappings: Vec<Mapping>,
    /// The size of a base page.
    pub page_bytes: u64,
    /// Its base pages, in order.
    pub pages: Vec<Page>,
    /// How many runs of contiguous frames the pages in memory make up: 1 if
    /// they lie in one piece. `None` where frame numbers are hidden, or no
    /// page is in memory.
    pub runs: Option<usize>,
    /// What this process was not allowed to see.
    pub hidden: Vec<Hidden>,
}

/// A mapping, from /proc/PID/smaps or /proc/PID/maps.
#[derive(Debug, Clone, Serialize)]
pub struct Mapping {
    /// Its first address.
    #[serde(serialize_with = "hexadecimal")]
    pub start: u64,
    /// The address after its last.
    #[serde(serialize_with = "hexadecimal")]
    pub end: u64,
    /// As `rw-p`.
    pub permissions: String,
    /// Its file, or as `[heap]`; empty if it has none.
    pub name: String,
    /// In memory.
    pub resident_bytes: Option<u64>,
    /// Of that in huge pages that one entry of the table maps, transparent or
    /// reserved.
    pub huge_bytes: Option<u64>,
    /// The pages the kernel uses for it at least: more than a base page with
    /// reserved huge pages.
    pub kernel_page_bytes: Option<u64>,
}

/// Where a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// In memory.
    Present,
    /// In swap space.
    Swapped,
    /// Nowhere yet, or in its file only: the next use faults.
    Absent,
    /// Not part of any mapping.
    Unmapped,
    /// The kernel does not tell.
    Unknown,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Present => "present",
            State::Swapped => "swapped",
            State::Absent => "absent",
            State::Unmapped => "unmapped",
            State::Unknown => "unknown",
        })
    }
}

/// Whether a huge page backs a page, and how that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Huge {
    /// Whether one does; `None` where nothing tells.
    pub backed: Option<bool>,
    /// `kpageflags` tells of the frame, `smaps` of the whole mapping.
    pub shown_by: Option<&'static str>,
    /// Whether it is a reserved one (hugetlb).
    pub reserved: bool,
    /// The size of the compound page that the frame is part of, up to the size
    /// of a transparent huge page; `None` for a frame on its own or hidden.
    pub compound_bytes: Option<u64>,
}

/// A base page.
#[derive(Debug, Clone, Serialize)]
pub struct Page {
    /// Its first address.
    #[serde(serialize_with = "hexadecimal")]
    pub address: u64,
    /// Where it is.
    pub state: State,
    /// Its frame's number, where shown.
    pub frame: Option<u64>,
    /// Whether that is the number after the one of the page before; `None`
    /// where one of the two is not known.
    pub follows: Option<bool>,
    /// Whether a huge page backs it.
    pub huge: Huge,
    /// What the frame is used for, by the kernel's names.
    #[serde(serialize_with = "names")]
    pub flags: Option<PageFlags>,
}

/// Something this process was not allowed to see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hidden {
    /// Frame numbers read as 0.
    Frames,
    /// /proc/kpageflags, with its error.
    Flags(String),
    /// /proc/PID/pagemap, with its error.
    Pages(String),
    /// The kernel has no smaps.
    Amounts,
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hidden::Frames => f.write_str(
                "hidden: frame numbers and flags, and whether frames are contiguous; as root \
                 (with CAP_SYS_ADMIN) this command shows them",
            ),
            Hidden::Flags(error) => write!(
                f,
                "hidden: what the frames are used for (/proc/kpageflags: {error}); as root, \
                 outside of a container, this command shows it"
            ),
            Hidden::Pages(error) => write!(
                f,
                "hidden: which pages are in memory (pagemap: {error}); as root, outside of a \
                 container, this command shows it"
            ),
            Hidden::Amounts => f.write_str(
                "hidden: how much of the mapping is in huge pages; a kernel with smaps \
                 (CONFIG_PROC_PAGE_MONITOR) shows it",
            ),
        }
    }
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// An address as text.
pub(super) fn hexadecimal<S: Serializer>(address: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{address:#018x}"))
}

fn names<S: Serializer>(flags: &Option<PageFlags>, serializer: S) -> Result<S::Ok, S::Error> {
    match flags {
        Some(flags) => serializer.collect_seq(flags.names()),
        None => serializer.serialize_none(),
    }
}
