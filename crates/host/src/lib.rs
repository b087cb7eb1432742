//! Description of this machine: everything that affects the speed of pipes and
//! that an ordinary user can read.
//!
//! Users publish these records, so they don't identify the machine: no host or
//! user name, serial number or path of a control group, and only the boot
//! parameters that affect speed. (The kernel's release and the product's name are
//! recorded unchanged.)
//!
//! Everything is read from small files below a [`Root`]. Missing, unreadable and
//! malformed values become null, so that containers, ordinary users and unusual
//! kernels get a record with gaps.
#![forbid(unsafe_code)]

mod available;
mod busy;
mod cache;
mod cgroup;
mod cpu_list;
mod differences;
mod frequency;
mod kernel;
mod memory;
pub mod noise;
pub mod placement;
pub mod process_memory;
mod processor;
pub mod refusals;
mod root;
pub mod topology;
mod virtualisation;
mod warning;
pub mod warnings;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod noise_tests;
#[cfg(test)]
mod placement_tests;
#[cfg(test)]
mod tests;

pub use self::available::{Available, TooMuchMemory, available_memory, check_memory, memory_left};
pub use self::busy::Busy;
pub use self::cache::{Cache, CacheKind};
pub use self::cgroup::{Cgroup, Throttling, limits_bytes};
pub use self::cpu_list::CpuList;
pub use self::differences::Difference;
pub use self::frequency::{ClockSource, Frequency};
pub use self::kernel::Kernel;
pub use self::memory::{HugePages, MemoryInfo, PipeLimits, Transparent, TransparentSize};
pub use self::noise::{NoiseDelta, NoiseProbe, NoiseReading};
pub use self::placement::{
    Chosen, Placement, PlacementError, choose, parse_cpus, pin_to, spinning_refused,
};
pub use self::processor::Processors;
pub use self::root::Root;
pub use self::topology::{Cpu, Relation, Topology};
pub use self::virtualisation::Virtualisation;
pub use self::warning::{Warning, WarningKind, WarningScope};
use serde::{Deserialize, Serialize};

/// A machine at the beginning of a run.
///
/// Fields missing from a record of another version are read as unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processors, and the two chosen ones.
    pub processors: Processors,
    /// The kernel, and its settings that affect the cost of system calls.
    pub kernel: Kernel,
    /// Whether this is a guest or a container.
    pub virtualisation: Virtualisation,
    /// Memory and the sizes of its pages.
    pub memory: MemoryInfo,
    /// The limits of pipes.
    pub pipes: PipeLimits,
    /// Clock rate and idling of the chosen processors.
    pub frequency: Frequency,
    /// The kernel's clock source.
    pub clock: ClockSource,
    /// CPU quota of our control group.
    pub cgroup: Cgroup,
    /// The mean number of runnable or waiting tasks over 1, 5 and 15 minutes
    /// before the run (proc_loadavg(5)).
    pub load: Option<[f64; 3]>,
    /// Steal time, throttling and load by other processes during all trials of
    /// the run; null if there were none.
    pub during: Option<noise::NoiseDelta>,
}

impl Machine {
    /// Reads this machine. The two processors are the writer's and the
    /// reader's; `None` if the scheduler chooses.
    pub fn read(writer_cpu: Option<usize>, reader_cpu: Option<usize>) -> Machine {
        Machine::read_below(&Root::default(), writer_cpu, reader_cpu)
    }

    /// Reads the machine described below a root.
    pub fn read_below(
        root: &Root,
        writer_cpu: Option<usize>,
        reader_cpu: Option<usize>,
    ) -> Machine {
        let processors = Processors::read(root, writer_cpu, reader_cpu);
        let chosen: Vec<usize> = writer_cpu.into_iter().chain(reader_cpu).collect();
        // Without a choice, the ends may run on any allowed processor.
        let running_on = if chosen.is_empty() {
            processors.allowed.as_slice()
        } else {
            &chosen
        };
        Machine {
            frequency: Frequency::read(root, running_on),
            processors,
            kernel: Kernel::read(root),
            virtualisation: Virtualisation::read(root),
            memory: MemoryInfo::read(root),
            pipes: PipeLimits::read(root),
            clock: ClockSource::read(root),
            cgroup: Cgroup::read(root),
            load: load(root),
            during: None,
        }
    }
}

fn load(root: &Root) -> Option<[f64; 3]> {
    let words = root.words("proc/loadavg");
    let mut means = words.iter().map_while(|word| word.parse().ok());
    Some([means.next()?, means.next()?, means.next()?])
}
