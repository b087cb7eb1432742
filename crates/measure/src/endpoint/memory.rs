//! One process going over a block of memory, again and again, without a
//! channel: the yardstick of all channels.
//!
//! The fast ways are those that a program gets from its libraries: a search for
//! a byte that isn't there, which looks at every byte by the widest loads there
//! are, memset(3) and memcpy(3). The scalar ones load or store a word of 8 bytes
//! at a time, as `sysbench memory` does.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::bail;
use fastpipe::buffer::{Buffer, BufferError};
use serde::{Deserialize, Serialize};

use super::alone::timed_alone;
use super::ends::all_huge;
use super::outcome::{Outcome, Setup};
use super::spec::{EndSpec, PageKind};
use crate::record::NotRun;
use crate::session::Control;
use pipespeed_base::{named, size};
use pipespeed_host::{Root, available_memory};

/// A small block is gone over so many bytes at a time, so that looking at the
/// clock costs nothing.
const AT_A_TIME: usize = 256 << 10;

/// What stands in the block, and a byte that does not.
const PRESENT: u8 = 0x5a;
const ABSENT: u8 = 0xa5;

/// What is done with the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Every byte is looked at, by wide loads.
    Read,
    /// memset(3).
    Write,
    /// memcpy(3) to another block.
    Copy,
    /// A word of 8 bytes is loaded, then the next.
    ReadScalar,
    /// A word of 8 bytes is stored, then the next.
    WriteScalar,
}

named!(Act {
    Read = "read": "every byte looked at by wide loads, in search of one that is not there",
    Write = "write": "filled by memset",
    Copy = "copy": "copied to another block by memcpy; bytes copied, not moved",
    ReadScalar = "read_scalar": "read 8 bytes at a time, one load after the other",
    WriteScalar = "write_scalar": "written 8 bytes at a time, one store after the other",
});

impl Act {
    /// Its name for people.
    pub fn title(self) -> &'static str {
        match self {
            Act::ReadScalar => "scalar read",
            Act::WriteScalar => "scalar write",
            _ => self.name(),
        }
    }

    /// How many blocks it takes.
    pub fn blocks(self) -> usize {
        1 + usize::from(self == Act::Copy)
    }
}

/// What a process without a channel does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemorySpec {
    /// What is done.
    pub act: Act,
    /// Bytes in the block.
    pub block_bytes: usize,
    /// The kind of pages.
    pub pages: PageKind,
}

impl MemorySpec {
    /// The blocks it takes.
    pub fn blocks(&self) -> usize {
        self.act.blocks()
    }
}

/// Goes over the block for the time of a trial.
pub(super) fn run(
    control: &mut Control,
    spec: &EndSpec,
    memory: &MemorySpec,
) -> anyhow::Result<Outcome> {
    check_room(memory)?;
    let mut blocks = (0..memory.blocks())
        .map(|_| map(memory))
        .collect::<anyhow::Result<Vec<Buffer>>>()?;
    let huge = match memory.pages {
        PageKind::Base => None,
        PageKind::Huge | PageKind::HugeTlb => Some(huge_bytes(&blocks)?),
    };
    let setup = Setup {
        pieces: Some(blocks.len()),
        alignment: Some(blocks[0].alignment()),
        huge_bytes: huge,
        huge_shown_by: huge.map(|_| "smaps".to_owned()),
        ..Setup::default()
    };
    control.wait_for_start(setup)?;
    let (block, other) = blocks.split_at_mut(1);
    let times = (AT_A_TIME / memory.block_bytes).max(1);
    timed_alone(spec, || {
        for _ in 0..times {
            once(memory.act, &mut block[0], other);
        }
        Ok(times * memory.block_bytes)
    })
}

/// Goes over the block once.
fn once(act: Act, block: &mut Buffer, other: &mut [Buffer]) {
    match act {
        Act::Read => {
            black_box(memchr::memchr(ABSENT, black_box(block)));
        }
        Act::Write => black_box(&mut block[..]).fill(black_box(PRESENT)),
        Act::Copy => {
            for other in other {
                black_box(&mut other[..]).copy_from_slice(black_box(block));
            }
        }
        Act::ReadScalar => {
            black_box(load_each(black_box(block.words())));
        }
        Act::WriteScalar => store_each(black_box(block.words()), u64::from(PRESENT)),
    }
}

// Loads and stores of atomics are made one by one: a compiler does not put
// them together into wide ones.

fn load_each(words: &[AtomicU64]) -> u64 {
    words.iter().fold(0, |sum, word| {
        sum.wrapping_add(word.load(Ordering::Relaxed))
    })
}

fn store_each(words: &[AtomicU64], value: u64) {
    for word in words {
        word.store(value, Ordering::Relaxed);
    }
}

/// A block that was written before the start.
fn map(memory: &MemorySpec) -> anyhow::Result<Buffer> {
    let mut block = Buffer::builder()
        .len(memory.block_bytes)
        .pages(memory.pages.into())
        .touched(false)
        .map()
        .map_err(no_memory)?;
    block.fill(PRESENT);
    Ok(block)
}

/// Too little address space, or a limit on it, is a refusal; other errors are
/// failures.
fn no_memory(error: BufferError) -> anyhow::Error {
    let reason = error.to_string();
    match io::Error::from(error).kind() {
        io::ErrorKind::OutOfMemory => NotRun::refused(reason).into(),
        _ => anyhow::anyhow!(reason),
    }
}

/// Shows that all of it lies in huge pages; how many bytes of them.
fn huge_bytes(blocks: &[Buffer]) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for block in blocks {
        // Page by page it would take long for large blocks.
        let backing = block.backing_from_smaps()?;
        bytes += backing.huge;
        all_huge(backing)?;
    }
    Ok(bytes)
}

/// Memory that is not there would be taken from somebody, or end in the
/// kernel's killing a process: better not to begin.
fn check_room(memory: &MemorySpec) -> anyhow::Result<()> {
    let Some(room) = available_memory(&Root::default()) else {
        return Ok(());
    };
    let blocks = memory.blocks() as u64;
    let needed = blocks.saturating_mul(memory.block_bytes as u64);
    // Something is left for page tables and everybody else.
    if needed.saturating_add(needed / 8) > room.bytes {
        let what = match blocks {
            1 => "a block",
            _ => "two blocks",
        };
        bail!(NotRun::refused(format!(
            "{what} of {} and an eighth more are needed, but only {} of memory are available here ({})",
            size::format(memory.block_bytes as u64),
            size::format(room.bytes),
            room.limit
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(act: Act, block_bytes: usize) -> MemorySpec {
        MemorySpec {
            act,
            block_bytes,
            pages: PageKind::Base,
        }
    }

    #[test]
    fn each_act_goes_over_the_whole_block() {
        for bytes in [64, 4096, 100_032] {
            let mut block = map(&spec(Act::Write, bytes)).unwrap();
            assert!(block.iter().all(|byte| *byte == PRESENT));
            assert_eq!(memchr::memchr(ABSENT, &block), None);
            block.fill(1);
            once(Act::Write, &mut block, &mut []);
            assert!(block.iter().all(|byte| *byte == PRESENT));
            once(Act::WriteScalar, &mut block, &mut []);
            assert_eq!(block.words().len() * 8, bytes);
            let sum = load_each(block.words());
            assert_eq!(sum, (bytes / 8) as u64 * u64::from(PRESENT));
            let mut copy = vec![map(&spec(Act::Copy, bytes)).unwrap()];
            once(Act::Copy, &mut block, &mut copy);
            assert_eq!(&copy[0][..], &block[..]);
        }
    }

    #[test]
    fn a_copy_takes_two_blocks() {
        assert_eq!(spec(Act::Copy, 64).blocks(), 2);
        assert_eq!(spec(Act::ReadScalar, 64).blocks(), 1);
    }

    #[test]
    fn more_memory_than_there_is_is_refused_with_the_reason() {
        let error = check_room(&spec(Act::Copy, 1 << 60)).unwrap_err();
        let Some(NotRun { reason, .. }) = error.downcast_ref() else {
            panic!("{error:#}");
        };
        assert!(reason.starts_with("two blocks of 1048576TiB"), "{reason}");
        assert!(reason.contains("are available here ("), "{reason}");
        let error = map(&spec(Act::Read, usize::MAX - 5000)).unwrap_err();
        assert!(error.downcast_ref::<NotRun>().is_some(), "{error:#}");
    }
}
