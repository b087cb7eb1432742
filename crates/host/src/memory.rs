//! Memory: page sizes, huge pages, and the limits of pipes.

use serde::{Deserialize, Serialize};

use super::root::Root;

const HUGE: &str = "sys/kernel/mm/hugepages";
const TRANSPARENT: &str = "sys/kernel/mm/transparent_hugepage";

/// Memory and its pages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryInfo {
    /// The kernel's total memory, in bytes.
    pub total_bytes: Option<u64>,
    /// The size of a base page, in bytes.
    pub base_page_bytes: usize,
    /// The reserved huge pages, smallest first
    /// (Documentation/admin-guide/mm/hugetlbpage.rst).
    pub huge_pages: Vec<HugePages>,
    /// Transparent huge pages (Documentation/admin-guide/mm/transhuge.rst); null
    /// if the kernel has none.
    pub transparent: Option<Transparent>,
}

/// The reserved huge pages of one size.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HugePages {
    /// The size of one page, in bytes.
    pub page_bytes: u64,
    /// Their number.
    pub total: Option<u64>,
    /// The number of free ones.
    pub free: Option<u64>,
    /// How many more the kernel may allocate on demand.
    pub overcommit: Option<u64>,
}

/// When the kernel uses transparent huge pages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Transparent {
    /// For private memory: `always`, `madvise` or `never`.
    pub enabled: Option<String>,
    /// How much work a page fault may spend on getting one.
    pub defrag: Option<String>,
    /// For shared memory, `memfd_create` included.
    pub shmem_enabled: Option<String>,
    /// The size of a page mapped by one entry of a page middle directory, in bytes.
    pub pmd_bytes: Option<u64>,
    /// The setting of each size, smallest first; `inherit` refers to `enabled`
    /// above. Empty before Linux 6.8.
    pub sizes: Vec<TransparentSize>,
}

/// The setting of one size of transparent huge pages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransparentSize {
    /// The size of one page, in bytes.
    pub page_bytes: u64,
    /// For private memory: `always`, `inherit`, `madvise` or `never`.
    pub enabled: Option<String>,
    /// For shared memory.
    pub shmem_enabled: Option<String>,
}

/// The limits of pipes (pipe(7)).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PipeLimits {
    /// The largest capacity an ordinary user may ask for, in bytes.
    pub max_bytes: Option<u64>,
    /// Number of pages in a user's pipes above which new pipes have two slots and
    /// none may grow; 0 is no limit.
    pub user_pages_soft: Option<u64>,
    /// Number of pages above which a user gets no new pipes; 0 is no limit.
    pub user_pages_hard: Option<u64>,
}

impl PipeLimits {
    pub(super) fn read(root: &Root) -> PipeLimits {
        PipeLimits {
            max_bytes: root.number("proc/sys/fs/pipe-max-size"),
            user_pages_soft: root.number("proc/sys/fs/pipe-user-pages-soft"),
            user_pages_hard: root.number("proc/sys/fs/pipe-user-pages-hard"),
        }
    }
}

impl MemoryInfo {
    pub(super) fn read(root: &Root) -> MemoryInfo {
        MemoryInfo {
            total_bytes: meminfo(root, "MemTotal"),
            base_page_bytes: rustix::param::page_size(),
            huge_pages: sizes(root, HUGE)
                .into_iter()
                .map(|(page_bytes, own)| HugePages {
                    page_bytes,
                    total: root.number(format!("{own}/nr_hugepages")),
                    free: root.number(format!("{own}/free_hugepages")),
                    overcommit: root.number(format!("{own}/nr_overcommit_hugepages")),
                })
                .collect(),
            transparent: Transparent::read(root),
        }
    }
}

impl Transparent {
    /// Reads the settings; `None` if the kernel has no transparent huge pages.
    pub fn read(root: &Root) -> Option<Self> {
        root.exists(TRANSPARENT).then(|| Transparent {
            enabled: root.selected(format!("{TRANSPARENT}/enabled")),
            defrag: root.selected(format!("{TRANSPARENT}/defrag")),
            shmem_enabled: root.selected(format!("{TRANSPARENT}/shmem_enabled")),
            pmd_bytes: root.number(format!("{TRANSPARENT}/hpage_pmd_size")),
            sizes: sizes(root, TRANSPARENT)
                .into_iter()
                .map(|(page_bytes, own)| TransparentSize {
                    page_bytes,
                    enabled: root.selected(format!("{own}/enabled")),
                    shmem_enabled: root.selected(format!("{own}/shmem_enabled")),
                })
                .collect(),
        })
    }
}

/// The directories `hugepages-<KiB>kB` in `directory`, with the size in bytes.
fn sizes(root: &Root, directory: &str) -> Vec<(u64, String)> {
    let mut sizes: Vec<(u64, String)> = root
        .names(directory)
        .iter()
        .filter_map(|name| {
            let size = name.strip_prefix("hugepages-")?.strip_suffix("kB")?;
            Some((kib(size)?, format!("{directory}/{name}")))
        })
        .collect();
    sizes.sort();
    sizes
}

/// A value of /proc/meminfo, in bytes.
pub(super) fn meminfo(root: &Root, key: &str) -> Option<u64> {
    kib(root
        .field("proc/meminfo", key)?
        .strip_suffix("kB")?
        .trim_end())
}

fn kib(text: &str) -> Option<u64> {
    text.parse::<u64>().ok()?.checked_mul(1024)
}
