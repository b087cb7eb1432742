//! A few words of memory that several processes share.
//!
//! The words lie in a memfd that is sealed against shrinking, so that no peer
//! can make an access fault, and are only ever reached as atomics, so that no
//! peer can break the aliasing rules: sharing them is safe, whatever the peer
//! does. What they mean is between the peers.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// Shared 64-bit words, zero at first.
#[derive(Debug)]
pub struct SharedWords {
    words: NonNull<AtomicU64>,
    len: usize,
    file: OwnedFd,
}

// SAFETY: the memory is reached through atomics only.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// Makes `len` words. Hand the descriptor to the peer (see [`AsFd`]).
    ///
    /// # Errors
    /// Those of memfd_create(2), ftruncate(2) and mmap(2); `InvalidInput` for
    /// no words at all.
    pub fn create(len: usize) -> io::Result<Self> {
        let bytes = byte_len(len)?;
        let file = rustix::fs::memfd_create(
            "fastpipe-words",
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
        )?;
        rustix::fs::ftruncate(&file, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&file, SEALS | SealFlags::SEAL)?;
        Self::map(file, len)
    }

    /// Maps `len` words that a peer has made.
    ///
    /// # Errors
    /// `InvalidData` if the file is not sealed against resizing or is too
    /// short; those of mmap(2).
    pub fn open(file: OwnedFd, len: usize) -> io::Result<Self> {
        let bytes = byte_len(len)?;
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        if !seals.contains(SEALS) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the shared memory is not sealed against resizing",
            ));
        }
        if rustix::fs::fstat(&file)?.st_size < bytes as i64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the shared memory is too short",
            ));
        }
        Self::map(file, len)
    }

    fn map(file: OwnedFd, len: usize) -> io::Result<Self> {
        // SAFETY: a new mapping at an address of the kernel's choice disturbs
        // no memory of ours.
        let address = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                byte_len(len)?,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        }?;
        let words = NonNull::new(address.cast())
            .ok_or_else(|| io::Error::other("mmap returned address 0"))?;
        Ok(SharedWords { words, len, file })
    }

    /// The words.
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is `len` words long, page-aligned, lives as long
        // as self, can't shrink (sealed), and any bit pattern is an AtomicU64.
        unsafe { slice::from_raw_parts(self.words.as_ptr(), self.len) }
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
        let _ = unsafe { rustix::mm::munmap(self.words.as_ptr().cast(), self.len * 8) };
    }
}

fn byte_len(len: usize) -> io::Result<usize> {
    len.checked_mul(size_of::<AtomicU64>())
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no words to share"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn what_one_mapping_stores_the_other_loads() {
        let mine = SharedWords::create(4).unwrap();
        let theirs = SharedWords::open(mine.as_fd().try_clone_to_owned().unwrap(), 4).unwrap();
        mine.words()[3].store(42, Ordering::Release);
        assert_eq!(theirs.words()[3].load(Ordering::Acquire), 42);
    }

    #[test]
    fn a_file_that_could_still_shrink_is_refused() {
        let file = rustix::fs::memfd_create("t", MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&file, 4096).unwrap();
        let error = SharedWords::open(file, 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn a_file_too_short_for_the_words_is_refused() {
        let mine = SharedWords::create(1).unwrap();
        let file = mine.as_fd().try_clone_to_owned().unwrap();
        let error = SharedWords::open(file, 2).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
