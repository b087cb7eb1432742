//! What the kernel tells of a process's memory: its mappings, and the page
//! behind each address.
//!
//! | file | tells | needs |
//! |---|---|---|
//! | /proc/PID/smaps | mappings, with how much of each is in memory and in huge pages | to be the process's user, or CAP_SYS_PTRACE |
//! | /proc/PID/pagemap | whether a page is in memory | the same |
//! | the same | its frame number | CAP_SYS_ADMIN as well |
//! | /proc/kpageflags | what a frame is used for | root, and CAP_SYS_ADMIN |

mod pagemap;
mod smaps;

use std::fmt;

pub use self::pagemap::{Entry, FrameFlags, PageFlags, Pagemap};
#[cfg(test)]
pub(crate) use self::smaps::parse;
pub use self::smaps::{Amounts, Region, regions};

/// Whose memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// The calling process's own.
    Own,
    /// That of the process with this number.
    Other(u32),
}

impl fmt::Display for Process {
    /// As the directory in /proc is called.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Process::Own => f.write_str("self"),
            Process::Other(pid) => write!(f, "{pid}"),
        }
    }
}
