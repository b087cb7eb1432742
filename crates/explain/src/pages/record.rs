//! The saved record. Addresses are hexadecimal text, since many programs read numbers in
//! JSON with only 53 bits. Sizes are in bytes.

use fastpipe::buffer::huge_page_size;
use serde::{Deserialize, Serialize, Serializer};

use super::hexadecimal::{from_hexadecimal, hexadecimal};
use super::walk::Walk;
use pipespeed_host::process_memory::PageFlags;
use pipespeed_measure::record::RecordHeader;

/// The saved record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PagesRecord {
    /// The header of every record.
    #[serde(flatten)]
    pub header: RecordHeader,
    /// The result.
    #[serde(flatten)]
    pub report: PagesReport,
}

/// The result of `pipespeed pages`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PagesReport {
    /// The walk to the (first) address; `None` if the machine's page tables are not known.
    pub walk: Option<Walk>,
    /// The memory at the address; `None` if only the address was given.
    pub memory: Option<MemoryRange>,
}

/// A range of a process's memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryRange {
    /// The process; `None` for this one.
    pub pid: Option<u32>,
    /// The mappings that contain the range, in order.
    pub mappings: Vec<MemoryMapping>,
    /// The size of a base page.
    pub page_bytes: u64,
    /// Its base pages, in order.
    pub pages: Vec<Page>,
    /// Number of runs of contiguous frames: 1 if all pages are contiguous. `None` if
    /// frame numbers are hidden or no page is in memory.
    pub runs: Option<usize>,
    /// What this process may not see, in words; not loaded from a saved record.
    #[serde(skip_deserializing)]
    pub hidden: Vec<Hidden>,
}

impl MemoryRange {
    /// The size of the huge page that holds the first page, if it is certainly mapped by one
    /// entry: a compound page may also be mapped page by page, but not if smaps counts the
    /// whole mapping as huge.
    pub fn huge_page(&self) -> Option<u64> {
        let first = self.pages.first()?;
        let mapping = self.mappings.first()?;
        if first.huge.backed != Some(true) {
            return None;
        }
        if first.huge.reserved {
            return mapping.kernel_page_bytes;
        }
        let all = mapping.huge_bytes == mapping.resident_bytes;
        all.then_some(huge_page_size() as u64)
    }
}

/// A mapping, from /proc/PID/smaps or /proc/PID/maps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemoryMapping {
    /// Its first address.
    #[serde(serialize_with = "hexadecimal", deserialize_with = "from_hexadecimal")]
    pub start: u64,
    /// The address after its last.
    #[serde(serialize_with = "hexadecimal", deserialize_with = "from_hexadecimal")]
    pub end: u64,
    /// As `rw-p`.
    pub permissions: String,
    /// Its file, or as `[heap]`; empty if it has none.
    pub name: String,
    /// Bytes in memory.
    pub resident_bytes: Option<u64>,
    /// Bytes in huge pages mapped by one entry, transparent or reserved.
    pub huge_bytes: Option<u64>,
    /// The page size of the mapping: larger than a base page for reserved huge pages.
    pub kernel_page_bytes: Option<u64>,
}

pipespeed_base::named! {
    /// Where a page is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum PageState {
        /// In memory.
        Present = "present",
        /// In swap space.
        Swapped = "swapped",
        /// Not in memory, possibly in a file: the next access faults.
        Absent = "absent",
        /// Not in a mapping.
        Unmapped = "unmapped",
        /// Not shown by the kernel.
        Unknown = "unknown",
    }
}

/// The file that shows whether a huge page backs a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HugePageSource {
    /// `/proc/kpageflags`, which describes page frames.
    Kpageflags,
    /// `/proc/PID/smaps`, which describes mappings.
    Smaps,
}

/// Whether a huge page backs a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Huge {
    /// Whether one does; `None` if unknown.
    pub backed: Option<bool>,
    /// The file that shows it.
    pub shown_by: Option<HugePageSource>,
    /// Whether it is a reserved huge page (hugetlb).
    pub reserved: bool,
    /// The size of the compound page that contains the frame, up to the size of a
    /// transparent huge page; `None` if there is none or it is hidden.
    pub compound_bytes: Option<u64>,
}

/// A base page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// Its first address.
    #[serde(serialize_with = "hexadecimal", deserialize_with = "from_hexadecimal")]
    pub address: u64,
    /// Where it is.
    pub state: PageState,
    /// The number of its frame, if shown.
    pub frame: Option<u64>,
    /// Whether its frame follows that of the page before, if both are known.
    pub follows: Option<bool>,
    /// Whether a huge page backs it.
    pub huge: Huge,
    /// The flags of the frame, by the kernel's names; not loaded from a saved record.
    #[serde(serialize_with = "names", skip_deserializing)]
    pub flags: Option<PageFlags>,
}

/// Information that this process may not see.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Hidden {
    /// Frame numbers, which read as 0.
    #[error(
        "hidden: frame numbers and flags, and whether frames are contiguous; as root (with \
         CAP_SYS_ADMIN) this command shows them"
    )]
    Frames,
    /// /proc/kpageflags, with its error.
    #[error(
        "hidden: what the frames are used for (/proc/kpageflags: {0}); as root, outside of a \
         container, this command shows it"
    )]
    Flags(String),
    /// /proc/PID/pagemap, with its error.
    #[error(
        "hidden: which pages are in memory (pagemap: {0}); as root, outside of a container, this \
         command shows it"
    )]
    Pages(String),
    /// The kernel has no smaps.
    #[error(
        "hidden: how much of the mapping is in huge pages; a kernel with smaps \
         (CONFIG_PROC_PAGE_MONITOR) shows it"
    )]
    Amounts,
}

impl Serialize for Hidden {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

fn names<S: Serializer>(flags: &Option<PageFlags>, serializer: S) -> Result<S::Ok, S::Error> {
    match flags {
        Some(flags) => serializer.collect_seq(flags.names()),
        None => serializer.serialize_none(),
    }
}
