//! One process that reads or writes a block of memory repeatedly, without a channel:
//! the reference for all channels.
//!
//! The fast operations are those of a program's libraries: a search for a byte that
//! does not occur, which reads every byte with the widest loads available, memset(3)
//! and memcpy(3). The scalar operations load or store 8 bytes at a time, as `sysbench
//! memory` does.

use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use fastpipe::buffer::{Buffer, BufferError};

use super::alone::timed_alone;
use super::control::Control;
use super::outcome::Outcome;
use super::pages::require_huge;
use crate::record::{NotRun, Setup};
use crate::spec::{Act, EndSpec, MemorySpec, PageKind};
use crate::sys::as_words;
use pipespeed_base::size;
use pipespeed_host::process_memory::Backing;
use pipespeed_host::{Root, check_memory};

/// A small block is processed repeatedly, up to this many bytes per check of the clock,
/// so that the checks cost nothing.
const BYTES_PER_CHECK: usize = 256 << 10;

/// The byte that fills the block, and one that does not occur in it.
const PRESENT: u8 = 0x5a;
const ABSENT: u8 = 0xa5;

/// Applies the operation repeatedly for the duration of a trial.
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
        _ => Some(huge_bytes(&blocks)?),
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
    let times = (BYTES_PER_CHECK / memory.block_bytes).max(1);
    timed_alone(spec, || {
        for _ in 0..times {
            apply(memory.act, &mut block[0], other);
        }
        Ok(times * memory.block_bytes)
    })
}

/// Applies the operation to the block once.
fn apply(act: Act, block: &mut Buffer, other: &mut [Buffer]) {
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
            black_box(load_each(black_box(as_words(block))));
        }
        Act::WriteScalar => store_each(black_box(as_words(block)), u64::from(PRESENT)),
    }
}

// Compilers don't merge atomic loads and stores into wider ones.

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

/// Maps a block and fills it.
fn map(memory: &MemorySpec) -> anyhow::Result<Buffer> {
    let mut block = memory
        .pages
        .buffer()
        .len(memory.block_bytes)
        .touched(false)
        .map()
        .map_err(map_error)?;
    block.fill(PRESENT);
    Ok(block)
}

/// Converts an error of mapping a block: [`NotRun`] if the address space is exhausted
/// or limited, else a failure.
fn map_error(error: BufferError) -> anyhow::Error {
    let reason = error.to_string();
    match io::Error::from(error).kind() {
        io::ErrorKind::OutOfMemory => NotRun::refused(reason).into(),
        _ => anyhow::anyhow!(reason),
    }
}

/// Checks that the blocks consist of huge pages only. Returns their size in bytes.
fn huge_bytes(blocks: &[Buffer]) -> anyhow::Result<u64> {
    let mut bytes = 0;
    for block in blocks {
        // Checking each page would take long for large blocks.
        let backing = Backing::from_smaps(block)?;
        bytes += backing.huge;
        require_huge(backing)?;
    }
    Ok(bytes)
}

/// Checks that enough memory is available.
fn check_room(memory: &MemorySpec) -> anyhow::Result<()> {
    check_memory(&Root::default(), memory.memory_bytes()).map_err(|error| {
        let what = match memory.blocks() {
            1 => "a block",
            _ => "two blocks",
        };
        let bytes = size::format(memory.block_bytes as u64);
        NotRun::refused(format!("{what} of {bytes}: {error}")).into()
    })
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
    fn each_operation_covers_the_whole_block() {
        for bytes in [64, 4096, 100_032] {
            let mut block = map(&spec(Act::Write, bytes)).unwrap();
            assert!(block.iter().all(|byte| *byte == PRESENT));
            assert_eq!(memchr::memchr(ABSENT, &block), None);
            block.fill(1);
            apply(Act::Write, &mut block, &mut []);
            assert!(block.iter().all(|byte| *byte == PRESENT));
            apply(Act::WriteScalar, &mut block, &mut []);
            assert_eq!(as_words(&mut block).len() * 8, bytes);
            let sum = load_each(as_words(&mut block));
            assert_eq!(sum, (bytes / 8) as u64 * u64::from(PRESENT));
            let mut copy = vec![map(&spec(Act::Copy, bytes)).unwrap()];
            apply(Act::Copy, &mut block, &mut copy);
            assert_eq!(&copy[0][..], &block[..]);
        }
    }

    #[test]
    fn a_copy_takes_two_blocks() {
        assert_eq!(spec(Act::Copy, 64).blocks(), 2);
        assert_eq!(spec(Act::ReadScalar, 64).blocks(), 1);
    }

    #[test]
    fn blocks_larger_than_available_memory_are_refused() {
        let error = check_room(&spec(Act::Copy, 1 << 60)).unwrap_err();
        let Some(NotRun { reason, .. }) = error.downcast_ref() else {
            panic!("{error:#}");
        };
        assert!(reason.starts_with("two blocks of 1048576TiB"), "{reason}");
        assert!(reason.contains("80 % of what is available"), "{reason}");
        let error = map(&spec(Act::Read, usize::MAX - 5000)).unwrap_err();
        assert!(error.downcast_ref::<NotRun>().is_some(), "{error:#}");
    }
}
