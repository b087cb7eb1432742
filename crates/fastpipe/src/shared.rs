//! [`SharedWords`]: a few words of memory shared by several processes.
//!
//! The words are in a memfd that is sealed against resizing, so that no peer
//! can make an access fault, and are accessed as atomics only, so that no peer
//! can break the aliasing rules. Sharing them is therefore safe whatever a peer
//! does. The peers agree on the meaning of the words.
//!
//! The file starts with a header that [`SharedWords::words`] does not expose. It
//! distinguishes the file from others, such as that of a [`ring`](crate::ring).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags};

use crate::pipe::page_size;
use crate::sealed::{self, refused};

/// First word of the header; the others are unused.
const MAGIC: u64 = u64::from_le_bytes(*b"fastwrd1");

/// Two cache lines, so that the words start on one.
const HEADER_WORDS: usize = 16;

/// 64-bit words shared by several processes, initially zero.
#[derive(Debug)]
pub struct SharedWords {
    /// Start of the header, which the words follow.
    start: NonNull<AtomicU64>,
    len: usize,
    /// Length of the mapping in bytes, a multiple of the page size.
    mapped_len: usize,
    file: OwnedFd,
}

// SAFETY: the memory is accessed through atomics only.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Creates `len` words. Pass the descriptor to the peer (see [`AsFd`]).
    ///
    /// # Errors
    /// Those of memfd_create(2), ftruncate(2) and mmap(2); `InvalidInput` if
    /// `len` is 0.
    pub fn create(len: usize) -> io::Result<Self> {
        let file = sealed::create("fastpipe-words", file_len(len)?)?;
        let shared = Self::map(file, len)?;
        shared.magic().store(MAGIC, Ordering::Relaxed);
        Ok(shared)
    }

    /// Maps `len` words created by a peer.
    ///
    /// # Errors
    /// `InvalidData` unless the file is one of shared words and safe to map:
    /// sealed against resizing, of ordinary pages, long enough, with the right
    /// header; `InvalidInput` if `len` is 0; those of mmap(2).
    pub fn open(file: OwnedFd, len: usize) -> io::Result<Self> {
        if sealed::check(&file)? < file_len(len)? {
            return Err(refused("the shared memory is too short"));
        }
        let shared = Self::map(file, len)?;
        if shared.magic().load(Ordering::Relaxed) != MAGIC {
            return Err(refused("the shared memory holds no shared words"));
        }
        Ok(shared)
    }

    /// Maps the file, which must be of ordinary pages and long enough.
    fn map(file: OwnedFd, len: usize) -> io::Result<Self> {
        let mapped_len = usize::try_from(file_len(len)?)
            .ok()
            .and_then(|len| len.checked_next_multiple_of(page_size()))
            .ok_or_else(too_many)?;
        // SAFETY: a new mapping at an address chosen by the kernel does not
        // affect existing memory.
        let address = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                mapped_len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        }?;
        let start = NonNull::new(address.cast())
            .ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(SharedWords {
            start,
            len,
            mapped_len,
            file,
        })
    }

    fn magic(&self) -> &AtomicU64 {
        // SAFETY: the mapping starts with the header, is page-aligned, lives as
        // long as self, can't shrink (sealed), and every bit pattern is a valid
        // AtomicU64.
        unsafe { self.start.as_ref() }
    }

    /// Returns the words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is longer than the header.
        let words = unsafe { self.start.add(HEADER_WORDS) };
        // SAFETY: `len` words follow the header; otherwise as in `magic`.
        unsafe { slice::from_raw_parts(words.as_ptr(), self.len) }
    }
}

impl AsFd for SharedWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and no reference outlives self.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.mapped_len) };
    }
}

/// Returns the length of the file for `len` words, in bytes.
fn file_len(len: usize) -> io::Result<u64> {
    if len == 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no words to share",
        ));
    }
    (len as u64)
        .checked_add(HEADER_WORDS as u64)
        .and_then(|words| words.checked_mul(size_of::<AtomicU64>() as u64))
        .ok_or_else(too_many)
}

fn too_many() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "too many words to share")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring;
    use crate::skip::skip;
    use rustix::fs::{MemfdFlags, SealFlags};

    #[test]
    fn both_mappings_see_the_same_words() {
        let mine = SharedWords::create(4).unwrap();
        let theirs = SharedWords::open(mine.as_fd().try_clone_to_owned().unwrap(), 4).unwrap();
        mine.words()[3].store(42, Ordering::Release);
        assert_eq!(theirs.words()[3].load(Ordering::Acquire), 42);
    }

    #[test]
    fn words_are_initially_zero() {
        let shared = SharedWords::create(3000).unwrap();
        assert_eq!(shared.words().len(), 3000);
        for word in shared.words() {
            assert_eq!(word.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn zero_or_too_many_words_are_refused() {
        for len in [0, usize::MAX / 8, usize::MAX] {
            let error = SharedWords::create(len).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{len}");
        }
    }

    /// Asserts that `file` is refused with a message that contains `reason`.
    fn assert_refused(file: OwnedFd, len: usize, reason: &str) {
        let error = SharedWords::open(file, len).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }

    #[test]
    fn an_unsealed_file_is_refused() {
        let file = sealed::memfd("t", MemfdFlags::empty()).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        assert_refused(file, 4, "not sealed");
        let (reader, _writer) = io::pipe().unwrap();
        assert_refused(reader.into(), 4, "not sealed");
    }

    #[test]
    fn a_file_of_reserved_huge_pages_is_refused() {
        let Ok(file) = sealed::memfd("t", MemfdFlags::HUGETLB) else {
            skip("no reserved huge pages here");
            return;
        };
        rustix::fs::ftruncate(&file, 1 << 30).unwrap();
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        assert_refused(file, 4, "ordinary pages");
    }

    #[test]
    fn a_file_that_is_too_short_is_refused() {
        let mine = SharedWords::create(1).unwrap();
        let file = mine.as_fd().try_clone_to_owned().unwrap();
        assert_refused(file, 2, "too short");
    }

    #[test]
    fn a_file_without_the_header_is_refused() {
        assert_refused(sealed::create("t", 4096).unwrap(), 4, "no shared words");
    }

    #[test]
    fn the_memory_of_a_ring_is_refused() {
        let (producer, _consumer) = ring::pair(1).unwrap();
        let file = producer.as_fd().try_clone_to_owned().unwrap();
        assert_refused(file, 4, "no shared words");
    }
}
