//! The costs that wall time is split into.

use serde::{Deserialize, Serialize};

/// One cost: a part of the wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CostGroup {
    /// Asleep: the wall time neither spent running nor waiting for a processor.
    Asleep,
    /// Runnable, but without a processor.
    RunDelay,
    /// In system calls that found the pipe full or empty: an estimate.
    Spinning,
    /// Copying the writer's bytes into the pipe's pages.
    CopyToKernel,
    /// Copying bytes out to the reader.
    CopyToUser,
    /// Getting pages from the allocator and giving them back.
    PageAllocation,
    /// Accounting of pages to control groups.
    MemoryCgroup,
    /// Pinning a caller's pages (get_user_pages).
    PagePinning,
    /// Dropping references to pages.
    PageRelease,
    /// The pipe's mutex, spinning on it included.
    PipeLock,
    /// The pipe's and splice's own code.
    PipeSlots,
    /// Waking the other end, going to sleep, switching.
    Scheduling,
    /// System-call entry and exit, and the checks of files on the way.
    EntryExit,
    /// Page faults, without zeroing.
    PageFaults,
    /// Zeroing of new pages: after a page fault, or of every page with init_on_alloc.
    PageZeroing,
    /// The process's own code.
    UserCode,
    /// Interrupts.
    Interrupts,
    /// The visible part of the cost of sampling.
    Sampling,
    /// All other kernel code.
    Other,
    /// All of the running time, if there are too few samples to divide it.
    Running,
}

/// All groups in the order of reports, with their names.
const NAMES: [(CostGroup, &str); 20] = [
    (CostGroup::Asleep, "asleep, waiting for the other end"),
    (CostGroup::RunDelay, "waiting for a processor"),
    (CostGroup::Spinning, "spinning on would-block (estimate)"),
    (CostGroup::CopyToKernel, "copy to kernel"),
    (CostGroup::CopyToUser, "copy to user"),
    (CostGroup::PageAllocation, "page allocation and freeing"),
    (CostGroup::MemoryCgroup, "memory-cgroup accounting"),
    (CostGroup::PagePinning, "page pinning (get_user_pages)"),
    (CostGroup::PageRelease, "page release"),
    (CostGroup::PipeLock, "pipe lock"),
    (CostGroup::PipeSlots, "pipe slots, splice's own code"),
    (CostGroup::Scheduling, "waking and scheduling"),
    (CostGroup::EntryExit, "system-call entry and exit"),
    (CostGroup::PageFaults, "page faults"),
    (CostGroup::PageZeroing, "zeroing of pages"),
    (CostGroup::UserCode, "user code"),
    (CostGroup::Interrupts, "interrupts"),
    (CostGroup::Sampling, "sampling itself"),
    (CostGroup::Other, "other kernel"),
    (CostGroup::Running, "running (not divided)"),
];

impl CostGroup {
    /// All groups, in the order of reports.
    pub fn all() -> impl Iterator<Item = CostGroup> + Clone {
        NAMES.iter().map(|(group, _)| *group)
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }

    /// The name in reports of a user's pipeline, whose stages may sleep for any
    /// reason.
    pub fn name_in_pipeline(self) -> &'static str {
        match self {
            CostGroup::Asleep => "asleep",
            group => group.name(),
        }
    }
}
