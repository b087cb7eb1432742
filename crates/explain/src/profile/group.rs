//! The costs that wall time is shared out to.

use serde::{Deserialize, Serialize};

/// A cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
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
    /// Finding and holding a caller's pages (get_user_pages).
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
    /// Page faults and zeroing of pages.
    PageFaults,
    /// The process's own code.
    UserCode,
    /// Interrupts that came meanwhile.
    Interrupts,
    /// What sampling itself costs, as far as it can be seen.
    Sampling,
    /// All other kernel code.
    Other,
}

impl Group {
    /// All, in the order in which they are shown.
    pub const ALL: [Group; 18] = [
        Group::Asleep,
        Group::RunDelay,
        Group::Spinning,
        Group::CopyToKernel,
        Group::CopyToUser,
        Group::PageAllocation,
        Group::MemoryCgroup,
        Group::PagePinning,
        Group::PageRelease,
        Group::PipeLock,
        Group::PipeSlots,
        Group::Scheduling,
        Group::EntryExit,
        Group::PageFaults,
        Group::UserCode,
        Group::Interrupts,
        Group::Sampling,
        Group::Other,
    ];

    /// The words people read.
    pub fn name(self) -> &'static str {
        match self {
            Group::Asleep => "asleep, waiting for the other end",
            Group::RunDelay => "woken, waiting for a processor",
            Group::Spinning => "spinning on would-block (estimate)",
            Group::CopyToKernel => "copy to kernel",
            Group::CopyToUser => "copy to user",
            Group::PageAllocation => "page allocation and freeing",
            Group::MemoryCgroup => "memory-cgroup accounting",
            Group::PagePinning => "page pinning (get_user_pages)",
            Group::PageRelease => "page release",
            Group::PipeLock => "pipe lock",
            Group::PipeSlots => "pipe slots, splice's own code",
            Group::Scheduling => "waking and scheduling",
            Group::EntryExit => "system-call entry and exit",
            Group::PageFaults => "page faults and zeroing",
            Group::UserCode => "user code",
            Group::Interrupts => "interrupts",
            Group::Sampling => "sampling itself",
            Group::Other => "other kernel",
        }
    }

    /// The same in a pipeline of somebody's own, whose stages may sleep for
    /// anything.
    pub fn name_in_pipeline(self) -> &'static str {
        match self {
            Group::Asleep => "asleep",
            group => group.name(),
        }
    }

    /// The group of a section of the table, by its name in data.
    pub(super) fn from_section(section: &str) -> Option<Self> {
        Some(match section {
            "copy_to_kernel" => Group::CopyToKernel,
            "copy_to_user" => Group::CopyToUser,
            "page_allocation" => Group::PageAllocation,
            "memory_cgroup" => Group::MemoryCgroup,
            "page_pinning" => Group::PagePinning,
            "page_release" => Group::PageRelease,
            "pipe_lock" => Group::PipeLock,
            "pipe_slots" => Group::PipeSlots,
            "scheduling" => Group::Scheduling,
            "entry_exit" => Group::EntryExit,
            "page_faults" => Group::PageFaults,
            "interrupts" => Group::Interrupts,
            "sampling" => Group::Sampling,
            _ => return None,
        })
    }
}
