//! Topology of the processors that this process may use.
//!
//! Source: Documentation/admin-guide/cputopology.rst and
//! Documentation/ABI/testing/sysfs-devices-system-cpu in the kernel's tree.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::cache::{self, CacheKind};
use super::cpu_list::CpuList;
use super::root::{CPUS, Root};

/// The processors that this process may use.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// The processors that are online; `None` if unknown.
    pub online: Option<CpuList>,
    /// The processors this process may run on, by affinity and cpuset.
    pub allowed: CpuList,
    /// The allowed processors, in the order of their numbers.
    pub cpus: Vec<Cpu>,
}

/// One processor in the scheduler's sense: a hardware thread
/// (Documentation/admin-guide/cputopology.rst).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// Its number.
    #[serde(rename = "cpu")]
    pub number: usize,
    /// Its package (socket).
    pub package: Option<u32>,
    /// Its core's number, unique only within a package.
    pub core: Option<u32>,
    /// The processors of its core, itself included; empty if unknown.
    pub siblings: CpuList,
    /// Its memory node.
    pub numa_node: Option<u32>,
    /// Level and sharers of its data caches, innermost first; not recorded.
    #[serde(skip)]
    pub caches: Vec<(u8, CpuList)>,
    /// Its speed relative to the fastest, which has 1,024, on hybrid machines.
    pub capacity: Option<u32>,
}

impl Topology {
    /// Reads the topology of the allowed processors.
    pub fn read(root: &Root) -> Topology {
        let online = root.cpus(format!("{CPUS}/online"));
        let allowed = allowed(root, online.as_ref());
        let numbers = allowed.as_slice().iter();
        Topology {
            cpus: numbers.map(|&number| Cpu::read(root, number)).collect(),
            online,
            allowed,
        }
    }

    /// The allowed processor with this number.
    pub fn cpu(&self, number: usize) -> Option<&Cpu> {
        self.cpus.iter().find(|cpu| cpu.number == number)
    }

    /// The relation of two allowed processors.
    pub fn relation(&self, a: usize, b: usize) -> Relation {
        match (self.cpu(a), self.cpu(b)) {
            (Some(a), Some(b)) => a.relation(b),
            _ if a == b => Relation::One,
            _ => Relation::Unknown,
        }
    }
}

/// The processors this process may use: by sched_getaffinity(2), else by
/// `Cpus_allowed_list` of proc_pid_status(5), in fixtures and for more than the
/// 1,024 processors of rustix's `CpuSet`.
fn allowed(root: &Root, online: Option<&CpuList>) -> CpuList {
    let called = || {
        let set = root
            .is_system()
            .then(|| rustix::thread::sched_getaffinity(None))?
            .ok()?;
        Some(
            (0..rustix::thread::CpuSet::MAX_CPU)
                .filter(|&cpu| set.is_set(cpu))
                .collect(),
        )
    };
    let written = || {
        let list = CpuList::parse(&root.field("proc/self/status", "Cpus_allowed_list")?)?;
        // Unlike the system call's, this list may contain offline processors.
        let runs = |cpu: &usize| online.is_none_or(|online| online.contains(*cpu));
        Some(list.as_slice().iter().copied().filter(runs).collect())
    };
    called()
        .or_else(written)
        .or_else(|| online.cloned())
        .unwrap_or_default()
}

impl Cpu {
    fn read(root: &Root, number: usize) -> Cpu {
        let own = format!("{CPUS}/cpu{number}");
        let topology = |name: &str| format!("{own}/topology/{name}");
        Cpu {
            number,
            // Some firmware leaves these at -1, which doesn't parse.
            package: root.number(topology("physical_package_id")),
            core: root.number(topology("core_id")),
            // The first name exists since Linux 5.3.
            siblings: root
                .cpus(topology("core_cpus_list"))
                .or_else(|| root.cpus(topology("thread_siblings_list")))
                .unwrap_or_default(),
            numa_node: root
                .names(&own)
                .iter()
                .find_map(|name| name.strip_prefix("node")?.parse().ok()),
            caches: data_caches(root, number),
            capacity: root
                .number(format!("{own}/cpu_capacity"))
                .or_else(|| hybrid_capacity(root, number)),
        }
    }

    /// The relation of this processor to another.
    pub fn relation(&self, other: &Cpu) -> Relation {
        if self.number == other.number {
            return Relation::One;
        }
        if self.siblings.contains(other.number) {
            return Relation::Siblings;
        }
        // Data pass through the innermost shared cache.
        let shared = self
            .caches
            .iter()
            .find(|(_, cpus)| cpus.contains(other.number));
        if let Some((level, _)) = shared {
            return Relation::SharedCache(*level);
        }
        match (self.package, other.package) {
            (Some(a), Some(b)) if a == b => Relation::Package,
            (Some(_), Some(_)) => Relation::Packages,
            _ => Relation::Unknown,
        }
    }
}

/// Level and sharers of the caches that hold data, innermost first.
fn data_caches(root: &Root, number: usize) -> Vec<(u8, CpuList)> {
    let mut caches: Vec<(u8, CpuList)> = cache::read(root, number)
        .into_iter()
        .filter(|cache| cache.kind != CacheKind::Instruction)
        .map(|cache| (cache.level, cache.cpus))
        .collect();
    caches.sort_by_key(|(level, _)| *level);
    caches
}

/// The capacity on x86-64 kernels before 6.12, which lack `cpu_capacity` but have
/// an event source for each kind of core, `cpu_core` and `cpu_atom`
/// (Documentation/admin-guide/perf/ and perf_event_open(2)). 512 for the small
/// kind only means "less".
fn hybrid_capacity(root: &Root, number: usize) -> Option<u32> {
    let sources = [("cpu_core", 1024), ("cpu_atom", 512)];
    let lists = |(source, _): &(&str, u32)| {
        let cpus = root.cpus(format!("sys/devices/{source}/cpus"));
        cpus.is_some_and(|cpus| cpus.contains(number))
    };
    let found = sources.into_iter().find(lists);
    found.map(|(_, capacity)| capacity)
}

/// Relation of two processors, printed in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    /// The same processor.
    One,
    /// Hardware threads of one core.
    Siblings,
    /// Different cores; the innermost cache they share has this level.
    SharedCache(u8),
    /// Different cores of one package without a known shared cache.
    Package,
    /// Different packages.
    Packages,
    /// Unknown to the kernel.
    Unknown,
}

impl Relation {
    /// The level of the innermost data cache shared by two different cores.
    pub fn shared_cache_level(self) -> Option<u8> {
        match self {
            Relation::SharedCache(level) => Some(level),
            _ => None,
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Relation::One => f.write_str("one processor"),
            Relation::Siblings => f.write_str("siblings of one core"),
            Relation::SharedCache(level) => write!(f, "different cores sharing L{level}"),
            Relation::Package => f.write_str("different cores of one package"),
            Relation::Packages => f.write_str("different packages"),
            Relation::Unknown => f.write_str("different processors, relation unknown"),
        }
    }
}
