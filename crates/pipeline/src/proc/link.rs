//! Links, and the descriptors of their ends.

use serde::Serialize;

/// What joins processes: data that one writes there can be read by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum LinkId {
    /// A pipe without a name.
    Pipe {
        /// The inode number.
        inode: u64,
    },
    /// A FIFO, which has a name.
    Fifo {
        /// Its file system.
        device: u64,
        /// The inode number.
        inode: u64,
    },
    /// One direction of a connection of two sockets: what this one receives.
    Socket {
        /// The inode number of the socket that receives.
        inode: u64,
    },
    /// One direction of a pseudo-terminal.
    Terminal {
        /// Its devpts file system.
        device: u64,
        /// Its number there.
        number: u64,
        /// Whether it is what programs write to the terminal and the holder of its master reads, or
        /// the other way round.
        is_output: bool,
    },
}

impl LinkId {
    /// A pipe without a name.
    pub fn pipe(inode: u64) -> Self {
        LinkId::Pipe { inode }
    }

    /// What a socket receives.
    pub fn socket(inode: u64) -> Self {
        LinkId::Socket { inode }
    }

    /// The inode number; of a pseudo-terminal its number.
    pub fn inode(self) -> u64 {
        match self {
            LinkId::Pipe { inode } | LinkId::Fifo { inode, .. } | LinkId::Socket { inode } => inode,
            LinkId::Terminal { number, .. } => number,
        }
    }

    /// Whether it is a pipe without a name.
    pub fn is_pipe(self) -> bool {
        matches!(self, LinkId::Pipe { .. })
    }

    /// Whether it is a FIFO, which has a name.
    pub fn is_fifo(self) -> bool {
        matches!(self, LinkId::Fifo { .. })
    }

    /// Whether it is a direction of a connection of sockets.
    pub fn is_socket(self) -> bool {
        matches!(self, LinkId::Socket { .. })
    }

    /// Whether it is a direction of a pseudo-terminal.
    pub fn is_terminal(self) -> bool {
        matches!(self, LinkId::Terminal { .. })
    }

    /// Whether it is one direction of something that carries data both ways.
    pub fn is_direction(self) -> bool {
        self.is_socket() || self.is_terminal()
    }
}

/// A descriptor of a link. One of a socket or a pseudo-terminal has an end of two: of what it receives,
/// and of what its peer does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LinkFd {
    /// Its number.
    pub fd: i32,
    /// The pipe.
    pub pipe: LinkId,
    /// Whether the process can read from it.
    pub reads: bool,
    /// Whether the process can write to it.
    pub writes: bool,
    /// The path of a FIFO.
    pub path: Option<String>,
}
