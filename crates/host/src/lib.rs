//! What this machine is: everything that bears on the speed of pipes and that
//! an ordinary user can read.
//!
//! People publish these records, so nothing in them says whose machine it is:
//! no host or user name, no serial number, no path of a control group, and of
//! the boot parameters only those that bear on speed. (A kernel's release and a
//! product's name are kept, as they are.)
//!
//! All is read from small files below a [`Root`]. What is
//! missing, unreadable
//! or odd is null: a container, an ordinary user and a strange kernel get a
//! record with gaps.
#![forbid(unsafe_code)]

mod available;
mod cgroup;
mod clock;
mod cpu_list;
mod differences;
mod frequency;
mod kernel;
mod memory;
pub mod noise;
mod pairing;
pub mod placement;
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

pub use self::available::{Available, available_memory};
pub use self::cgroup::Cgroup;
pub use self::clock::Clock;
pub use self::cpu_list::CpuList;
pub use self::differences::Difference;
pub use self::frequency::Frequency;
pub use self::kernel::Kernel;
pub use self::memory::{HugePages, Memory, PipeLimits, Transparent, TransparentSize};
pub use self::noise::{NoiseDelta, NoiseProbe, NoiseReading};
pub use self::placement::{
    Chosen, LEFT_TO_THE_SCHEDULER, Placement, PlacementError, choose, explicit, parse_cpus,
    spinning_refused,
};
pub use self::processor::{Cache, Place, Processors};
pub use self::root::Root;
pub use self::topology::{Cpu, Relation, Topology};
pub use self::virtualisation::Virtualisation;
pub use self::warning::{Warning, WarningKind};
pub use self::warnings::{of_run, standing};

use serde::{Deserialize, Serialize};

/// A machine, as it was when a run began.
///
/// Fields that a record lacks, written by another version, are read as unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Machine {
    /// The processors, and where the two chosen ones lie.
    pub processors: Processors,
    /// The kernel, and what every system call pays for.
    pub kernel: Kernel,
    /// Whether this is a guest or a container.
    pub virtualisation: Virtualisation,
    /// Memory and the sizes of its pages.
    pub memory: Memory,
    /// The limits of pipes.
    pub pipes: PipeLimits,
    /// What sets the clock rate of the chosen processors.
    pub frequency: Frequency,
    /// What time is told by.
    pub clock: Clock,
    /// What our control group allows.
    pub cgroup: Cgroup,
    /// The mean number of runnable or waiting tasks over 1, 5 and 15 minutes
    /// before the run (proc_loadavg(5)).
    pub load: Option<[f64; 3]>,
    /// Steal time, throttling and others' load over all trials of the run;
    /// null where none was made.
    pub during: Option<noise::NoiseDelta>,
}

impl Machine {
    /// Reads this machine. The two processors are the writer's and the
    /// reader's; `None` where the scheduler chooses.
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
        // The scheduler may put the ends on any of them.
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
            memory: Memory::read(root),
            pipes: PipeLimits::read(root),
            clock: Clock::read(root),
            cgroup: Cgroup::read(root),
            load: load(root),
            during: None,
        }
    }
}

fn load(root: &Root) -> Option<[f64; 3]> {
    let words = root.words("proc/loadavg")?;
    let mut means = words.iter().map_while(|word| word.parse().ok());
    Some([means.next()?, means.next()?, means.next()?])
}
