//! One process that goes over a block of memory.

use serde::{Deserialize, Serialize};

use super::pages::PageKind;
use pipespeed_base::named;

/// An operation on a block of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Reads every byte, with wide loads.
    Read,
    /// memset(3).
    Write,
    /// memcpy(3) to another block.
    Copy,
    /// Loads one word of 8 bytes after the other.
    ReadScalar,
    /// Stores one word of 8 bytes after the other.
    WriteScalar,
}

named!(Act {
    Read = "read": "every byte read by wide loads, searching for one that does not occur",
    Write = "write": "filled by memset",
    Copy = "copy": "copied to another block by memcpy; bytes copied, not moved",
    ReadScalar = "read_scalar": "read 8 bytes at a time, one load after the other",
    WriteScalar = "write_scalar": "written 8 bytes at a time, one store after the other",
});

impl Act {
    /// The name in tables.
    pub fn title(self) -> &'static str {
        match self {
            Act::ReadScalar => "scalar read",
            Act::WriteScalar => "scalar write",
            _ => self.name(),
        }
    }

    /// The number of blocks that it uses.
    pub fn blocks(self) -> usize {
        1 + usize::from(self == Act::Copy)
    }
}

/// The specification of a process without a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySpec {
    /// The operation.
    pub act: Act,
    /// Bytes in the block.
    pub block_bytes: usize,
    /// The kind of pages.
    pub pages: PageKind,
}

impl MemorySpec {
    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        self.act.blocks()
    }

    /// The memory of all blocks in bytes.
    pub fn memory_bytes(&self) -> u64 {
        (self.blocks() as u64).saturating_mul(self.block_bytes as u64)
    }
}
