//! Unsafe code that belongs to no channel: system calls that rustix lacks (message queues), memory as
//! words, and words that two processes share.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_int, c_long};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::atomic::AtomicU64;

use pipespeed_base::memory_file;
use rustix::fs::{SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// Opens or creates a message queue for `messages` messages of `message_bytes` bytes
/// (mq_open(2)). Unlike the C function, the system call takes the name without its
/// leading slash.
///
/// # Errors
/// Those of mq_open(2).
pub(crate) fn mq_open(
    name: &CStr,
    flags: c_int,
    messages: usize,
    message_bytes: usize,
) -> rustix::io::Result<OwnedFd> {
    // SAFETY: a struct of numbers, of which all bits may be 0.
    let mut shape: libc::mq_attr = unsafe { std::mem::zeroed() };
    shape.mq_maxmsg = messages as _;
    shape.mq_msgsize = message_bytes as _;
    // SAFETY: the name ends with a 0 and the shape is a struct mq_attr; both
    // are only read, during the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_mq_open,
            name.as_ptr(),
            flags | libc::O_CLOEXEC,
            0o600 as libc::mode_t,
            &raw const shape,
        )
    };
    let fd = checked(fd)?;
    // SAFETY: the kernel has just created this descriptor; nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as c_int) })
}

/// Removes the name of a message queue (mq_unlink(2)).
///
/// # Errors
/// Those of mq_unlink(2).
pub(crate) fn mq_unlink(name: &CStr) -> rustix::io::Result<()> {
    // SAFETY: the name ends with a 0 and is only read.
    let outcome = unsafe { libc::syscall(libc::SYS_mq_unlink, name.as_ptr()) };
    checked(outcome).map(drop)
}

/// Sends a message (mq_timedsend(2)). Times out at `deadline`, on CLOCK_REALTIME.
///
/// # Errors
/// Those of mq_timedsend(2).
pub(crate) fn mq_send(
    queue: BorrowedFd<'_>,
    message: &[u8],
    deadline: Option<libc::timespec>,
) -> rustix::io::Result<()> {
    let deadline = deadline.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the message has the length passed, and the deadline is a timespec or
    // null; both are only read, during the call.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mq_timedsend,
            queue.as_raw_fd(),
            message.as_ptr(),
            message.len(),
            0,
            deadline,
        )
    };
    checked(outcome).map(drop)
}

/// Receives a message (mq_timedreceive(2)) and returns its length. The buffer must be
/// at least as long as the queue's maximum message.
///
/// # Errors
/// Those of mq_timedreceive(2).
pub(crate) fn mq_receive(queue: BorrowedFd<'_>, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    // SAFETY: the kernel writes no more than the buffer's length to it; a null
    // priority and a null deadline are allowed.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mq_timedreceive,
            queue.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
            ptr::null_mut::<u32>(),
            ptr::null::<libc::timespec>(),
        )
    };
    checked(outcome).map(|n| n as usize)
}

fn checked(outcome: c_long) -> rustix::io::Result<c_long> {
    match outcome {
        -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        value => Ok(value),
    }
}

/// Returns the memory as 64-bit words, without incomplete ones. Compilers don't merge atomic
/// accesses into wider ones.
pub(crate) fn as_words(bytes: &mut [u8]) -> &[AtomicU64] {
    // SAFETY: every bit pattern is a valid AtomicU64, and there is no other reference.
    unsafe { bytes.align_to_mut() }.1
}

/// 64-bit words shared by the processes of a trial, initially zero.
///
/// Their file is sealed against resizing, since an access beyond its end would raise SIGBUS.
#[derive(Debug)]
pub(crate) struct SharedWords {
    start: NonNull<AtomicU64>,
    len: usize,
    file: OwnedFd,
}

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

impl SharedWords {
    /// Creates `len` words. The peer gets the descriptor (see [`AsFd`]).
    ///
    /// # Errors
    /// Those of memfd_create(2), ftruncate(2), fcntl(2) and mmap(2).
    pub(crate) fn create(len: usize) -> io::Result<Self> {
        let file = memory_file::create("pipespeed-words")?;
        ftruncate(&file, bytes(len) as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        Self::map(file.into(), len)
    }

    /// Maps `len` words that another process created.
    ///
    /// # Errors
    /// `InvalidData` unless the file is sealed and long enough; those of fstat(2) and mmap(2).
    pub(crate) fn open(file: OwnedFd, len: usize) -> io::Result<Self> {
        let is_sealed = fcntl_get_seals(&file).is_ok_and(|seals| seals.contains(SEALS));
        if !is_sealed || fstat(&file)?.st_size < bytes(len) as i64 {
            let why = "the shared memory is not sealed, or too short";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Self::map(file, len)
    }

    /// Maps a file that is sealed and long enough.
    fn map(file: OwnedFd, len: usize) -> io::Result<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the kernel chooses.
        let address = unsafe {
            mmap(
                ptr::null_mut(),
                bytes(len),
                protection,
                MapFlags::SHARED,
                &file,
                0,
            )
        }?;
        let start = NonNull::new(address.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(SharedWords { start, len, file })
    }

    /// The words.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, lives as long as self, has `len` words, and can't
        // shrink (sealed); every bit pattern is a valid AtomicU64.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl AsFd for SharedWords {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference outlives self.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), bytes(self.len)) };
    }
}

fn bytes(words: usize) -> usize {
    words * size_of::<AtomicU64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;

    #[test]
    fn both_processes_see_the_same_words() {
        let mine = SharedWords::create(6).unwrap();
        let file = || mine.as_fd().try_clone_to_owned().unwrap();
        let theirs = SharedWords::open(file(), 6).unwrap();
        assert!(
            theirs
                .words()
                .iter()
                .all(|word| word.load(Ordering::Relaxed) == 0)
        );
        mine.words()[5].store(42, Ordering::Release);
        assert_eq!(theirs.words()[5].load(Ordering::Acquire), 42);
        // Longer than the file.
        let error = SharedWords::open(file(), 7).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn words_in_a_file_that_may_shrink_are_refused() {
        let unsealed = memory_file::create("test").unwrap();
        ftruncate(&unsealed, 4096).unwrap();
        let (reader, _writer) = io::pipe().unwrap();
        for file in [unsealed.into(), OwnedFd::from(reader)] {
            let error = SharedWords::open(file, 4).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        }
    }

    #[test]
    fn words_are_the_bytes_without_an_incomplete_one() {
        let mut numbers = [0_u64; 6];
        // SAFETY: bytes have no alignment, and none of these is uninitialised.
        let (_, memory, _) = unsafe { numbers.align_to_mut::<u8>() };
        let words = as_words(&mut memory[..8 * 5 + 3]);
        assert_eq!(words.len(), 5);
        words[4].store(u64::MAX, Ordering::Relaxed);
        assert_eq!(numbers, [0, 0, 0, 0, u64::MAX, 0]);
    }
}
