//! Shared-memory files that nobody can resize: anonymous, of ordinary pages,
//! sealed against shrinking and growing (memfd_create(2)).
//!
//! An access beyond a file's end raises SIGBUS, so a file that a peer could
//! shrink is not safe to map.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// f_type of tmpfs: TMPFS_MAGIC in linux/magic.h.
const TMPFS: u64 = 0x0102_1994;

/// Creates a file of `len` zero bytes. Pages are allocated at the first access.
pub(crate) fn create(name: &str, len: u64) -> io::Result<OwnedFd> {
    let file = above_standard(memfd(name, MemfdFlags::empty())?)?;
    rustix::fs::ftruncate(&file, len)?;
    rustix::fs::fcntl_add_seals(&file, SEALS | SealFlags::SEAL)?;
    Ok(file)
}

/// The descriptor, or a duplicate of it, with a number that is not of a standard stream. In a program that was
/// started without one of these, what is printed would go there.
pub(crate) fn above_standard(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() < 3 {
        return Ok(rustix::io::fcntl_dupfd_cloexec(&fd, 3)?);
    }
    Ok(fd)
}

/// Allocates the pages of the first `len` bytes.
///
/// On older kernels a signal interrupts fallocate(2), which then releases what it has
/// allocated (signal_pending in shmem_fallocate, mm/shmem.c; on 6.18 only a fatal
/// one does). Short calls get done between two signals.
pub(crate) fn allocate(file: impl AsFd, len: u64) -> io::Result<()> {
    const MAX_CHUNK: u64 = 128 << 10;
    let mut from = 0;
    while from < len {
        let chunk = MAX_CHUNK.min(len - from);
        let none = FallocateFlags::empty();
        rustix::io::retry_on_intr(|| rustix::fs::fallocate(&file, none, from, chunk))?;
        from += chunk;
    }
    Ok(())
}

/// Checks that `file`, created by somebody else, is safe to map. Returns its
/// length in bytes.
///
/// # Errors
/// `InvalidData` if it is not.
pub(crate) fn check(file: impl AsFd) -> io::Result<u64> {
    let file = file.as_fd();
    // EINVAL: a file that can't be sealed, such as a pipe.
    let seals = match rustix::fs::fcntl_get_seals(file) {
        Err(Errno::INVAL) => SealFlags::empty(),
        seals => seals?,
    };
    if !seals.contains(SEALS) {
        return Err(refused("the shared memory is not sealed against resizing"));
    }
    // Files of reserved huge pages can be sealed too, but if the peer punches a
    // hole an access raises SIGBUS when the pool is empty. tmpfs allocates
    // another page instead.
    if rustix::fs::fstatfs(file)?.f_type as u64 != TMPFS {
        return Err(refused("the shared memory is not of ordinary pages"));
    }
    Ok(rustix::fs::fstat(file)?.st_size as u64)
}

/// Returns the error for a file that is not safe to map or of another kind.
pub(crate) fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

/// Creates an empty file in memory that can be sealed, with `more` flags.
pub(crate) fn memfd(name: &str, more: MemfdFlags) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | more;
    // With vm.memfd_noexec = 2 the flag is required; kernels before 6.3 do not
    // know it.
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => Ok(rustix::fs::memfd_create(name, flags)?),
        file => Ok(file?),
    }
}
