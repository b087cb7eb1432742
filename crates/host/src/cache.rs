//! The caches of a processor.

use serde::{Deserialize, Serialize};

use super::cpu_list::CpuList;
use super::root::{CPUS, Root};

/// One cache (Documentation/ABI/testing/sysfs-devices-system-cpu).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u8,
    /// What it caches.
    pub kind: CacheKind,
    /// Its total size in bytes.
    pub bytes: Option<u64>,
    /// The processors that share it.
    pub cpus: CpuList,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data.
    Data,
    /// Instructions.
    Instruction,
    /// Both.
    #[default]
    #[serde(other)]
    Unified,
}

/// The caches of a processor.
pub(super) fn read(root: &Root, cpu: usize) -> Vec<Cache> {
    let own = format!("{CPUS}/cpu{cpu}/cache");
    let indices = root
        .names(&own)
        .into_iter()
        .filter(|name| name.starts_with("index"));
    indices
        .filter_map(|index| {
            let file = |name: &str| root.text(format!("{own}/{index}/{name}"));
            Some(Cache {
                level: file("level")?.parse().ok()?,
                kind: match &*file("type")? {
                    "Data" => CacheKind::Data,
                    "Instruction" => CacheKind::Instruction,
                    _ => CacheKind::Unified,
                },
                bytes: file("size").and_then(|size| cache_bytes(&size)),
                cpus: root
                    .cpus(format!("{own}/{index}/shared_cpu_list"))
                    .unwrap_or_default(),
            })
        })
        .collect()
}

/// Parses a size in KiB with the suffix `K` (drivers/base/cacheinfo.c).
fn cache_bytes(size: &str) -> Option<u64> {
    let kib: u64 = size.strip_suffix('K')?.parse().ok()?;
    // 0 means that the driver doesn't know the size.
    (kib > 0).then(|| kib.checked_mul(1024))?
}
