//! The kernel's information on a process's memory: its mappings, and the page
//! behind each address.
//!
//! | file | content | permission |
//! |---|---|---|
//! | /proc/PID/smaps | mappings, with the amounts in memory and in huge pages | the process's user, or CAP_SYS_PTRACE |
//! | /proc/PID/pagemap | whether a page is in memory | the same |
//! | /proc/PID/pagemap | its frame number | CAP_SYS_ADMIN in addition |
//! | /proc/kpageflags | use of a page frame | root with CAP_SYS_ADMIN |

mod backing;
mod pagemap;
mod smaps;

use std::fmt;

pub use self::backing::{Backing, BackingError, ShownBy, page_bytes};
pub use self::pagemap::{Entry, FrameFlags, PageFlags, Pagemap};
pub use self::smaps::{Amounts, MappedRegion, regions};

/// A process whose memory is examined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExaminedProcess {
    /// The calling process.
    Own,
    /// The process with this id.
    Other(u32),
}

impl fmt::Display for ExaminedProcess {
    /// The name of its directory in /proc.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExaminedProcess::Own => f.write_str("self"),
            ExaminedProcess::Other(pid) => write!(f, "{pid}"),
        }
    }
}
