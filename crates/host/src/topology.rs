//! How the processors that we may use lie to each other.
//!
//! Source: Documentation/admin-guide/cputopology.rst and
//! Documentation/ABI/testing/sysfs-devices-system-cpu in the kernel's tree.

use std::fmt;

use super::cpu_list::CpuList;
use super::root::Root;

/// The directory with one entry a processor.
pub(super) const CPUS: &str = "sys/devices/system/cpu";

/// The processors of a machine, as far as this process may use them.
#[derive(Debug, Clone, PartialEq)]
pub struct Topology {
    /// The processors that run; `None` where the kernel doesn't say.
    pub online: Option<CpuList>,
    /// Those of them this process may run on, by affinity and cpuset.
    pub allowed: CpuList,
    /// The allowed ones, in the order of their numbers.
    pub cpus: Vec<Cpu>,
}

/// One processor: what the scheduler calls a CPU, so one hardware thread.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Cpu {
    /// Its number.
    pub number: usize,
    /// Its package (socket).
    pub package: Option<u32>,
    /// Its core's number, unique only within a package.
    pub core: Option<u32>,
    /// The processors of its core, itself included; empty where unknown.
    pub siblings: CpuList,
    /// Its memory node.
    pub numa_node: Option<u32>,
    /// The caches that hold its data, innermost first, with who shares them.
    pub caches: Vec<(u8, CpuList)>,
    /// Its speed relative to the fastest, which has 1,024, on machines with
    /// unlike cores.
    pub capacity: Option<u32>,
}

impl Topology {
    /// Reads the topology of the allowed processors.
    pub fn read(root: &Root) -> Topology {
        let online = root
            .text(format!("{CPUS}/online"))
            .and_then(|text| CpuList::parse(&text));
        let allowed = allowed(root, online.as_ref());
        let cpus = allowed
            .as_slice()
            .iter()
            .map(|&number| Cpu::read(root, number))
            .collect();
        Topology {
            online,
            allowed,
            cpus,
        }
    }

    /// The allowed processor of this number.
    pub fn cpu(&self, number: usize) -> Option<&Cpu> {
        let at = self
            .cpus
            .binary_search_by_key(&number, |cpu| cpu.number)
            .ok()?;
        self.cpus.get(at)
    }

    /// How two allowed processors lie to each other.
    pub fn relation(&self, a: usize, b: usize) -> Relation {
        match (self.cpu(a), self.cpu(b)) {
            (Some(a), Some(b)) => a.relation(b),
            _ if a == b => Relation::One,
            _ => Relation::Unknown,
        }
    }
}

/// The processors this process may use. sched_getaffinity(2) tells it; a set of
/// more than 1,024 doesn't fit rustix's `CpuSet`, and a fixture has no calls,
/// so `Cpus_allowed_list` of proc_pid_status(5) is the second way.
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
        // Unlike the system call's, this list may name processors that are
        // offline.
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
        let list = |file: String| root.text(file).and_then(|text| CpuList::parse(&text));
        Cpu {
            number,
            // Some firmware leaves these at -1, which doesn't parse: unknown.
            package: root.number(topology("physical_package_id")),
            core: root.number(topology("core_id")),
            // The first name is the newer one (Linux 5.3).
            siblings: list(topology("core_cpus_list"))
                .or_else(|| list(topology("thread_siblings_list")))
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

    /// How this processor and another lie to each other.
    pub fn relation(&self, other: &Cpu) -> Relation {
        if self.number == other.number {
            return Relation::One;
        }
        if self.siblings.contains(other.number) {
            return Relation::Siblings;
        }
        // The innermost is what data pass through.
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
    let own = format!("{CPUS}/cpu{number}/cache");
    let indices = root
        .names(&own)
        .into_iter()
        .filter(|name| name.starts_with("index"));
    let mut caches: Vec<(u8, CpuList)> = indices
        .filter(|index| root.text(format!("{own}/{index}/type")).as_deref() != Some("Instruction"))
        .filter_map(|index| {
            let level = root.number(format!("{own}/{index}/level"))?;
            let cpus = CpuList::parse(&root.text(format!("{own}/{index}/shared_cpu_list"))?)?;
            Some((level, cpus))
        })
        .collect();
    caches.sort_by_key(|(level, _)| *level);
    caches
}

/// x86-64 kernels before 6.12 have no `cpu_capacity`, but an own event source
/// for each kind of core (Documentation/admin-guide/perf/ and perf_event_open:
/// `cpu_core`, `cpu_atom`). The small kind's value is a mere "less".
fn hybrid_capacity(root: &Root, number: usize) -> Option<u32> {
    let in_source = |source: &str| {
        let cpus = root.text(format!("sys/devices/{source}/cpus"))?;
        CpuList::parse(&cpus)?.contains(number).then_some(())
    };
    in_source("cpu_core")
        .map(|()| 1024)
        .or_else(|| in_source("cpu_atom").map(|()| 512))
}

/// How two processors lie to each other; shown in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Relation {
    /// They are one and the same.
    One,
    /// Hardware threads of one core.
    Siblings,
    /// Different cores; the innermost cache they share has this level.
    SharedCache(u8),
    /// Different cores of one package, no shared cache known.
    Package,
    /// Different packages.
    Packages,
    /// The kernel doesn't say.
    Unknown,
}

impl Relation {
    /// The level of the innermost data cache of two different cores that both
    /// use; `None` where there is none, or where they are one core.
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
