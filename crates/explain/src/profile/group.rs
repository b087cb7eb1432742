//! The costs that wall time is split into.

use pipespeed_base::{Named, named};
use serde::{Deserialize, Serialize};

named! {
    /// One cost: a part of the wall time, in the order of reports, and its name there.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum CostGroup {
        /// Asleep: the wall time neither spent running nor waiting for a processor.
        Asleep = "asleep, waiting for the other end",
        /// Runnable, but without a processor.
        RunDelay = "waiting for a processor",
        /// In system calls that found the pipe full or empty: an estimate.
        Spinning = "spinning on would-block (estimate)",
        /// Copying the writer's bytes into the pipe's pages.
        CopyToKernel = "copy to kernel",
        /// Copying bytes out to the reader.
        CopyToUser = "copy to user",
        /// Getting pages from the allocator and giving them back.
        PageAllocation = "page allocation and freeing",
        /// Accounting of pages to control groups.
        MemoryCgroup = "memory-cgroup accounting",
        /// Pinning a caller's pages (get_user_pages).
        PagePinning = "page pinning (get_user_pages)",
        /// Dropping references to pages.
        PageRelease = "page release",
        /// The pipe's mutex, spinning on it included.
        PipeLock = "pipe lock",
        /// The pipe's and splice's own code.
        PipeSlots = "pipe slots, splice's own code",
        /// Waking the other end, going to sleep, switching.
        Scheduling = "waking and scheduling",
        /// System-call entry and exit, and the checks of files on the way.
        EntryExit = "system-call entry and exit",
        /// Page faults, without zeroing.
        PageFaults = "page faults",
        /// Zeroing of new pages: after a page fault, or of every page with init_on_alloc.
        PageZeroing = "zeroing of pages",
        /// The process's own code.
        UserCode = "user code",
        /// Interrupts.
        Interrupts = "interrupts",
        /// The visible part of the cost of sampling.
        Sampling = "sampling itself",
        /// All other kernel code.
        Other = "other kernel",
        /// All of the running time, if there are too few samples to divide it.
        Running = "running (not divided)",
    }
}

impl CostGroup {
    /// All groups, in the order of reports.
    pub fn all() -> impl Iterator<Item = CostGroup> + Clone {
        CostGroup::values()
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
