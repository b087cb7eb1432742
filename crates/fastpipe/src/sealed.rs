//! Files of shared memory that nobody can resize: anonymous, of ordinary
//! pages, sealed against shrinking and growing (memfd_create(2)).
//!
//! An access behind a file's end is a SIGBUS, so a file that a peer could
//! shrink is not safe to map.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

/// f_type of tmpfs: TMPFS_MAGIC of linux/magic.h.
const TMPFS: u64 = 0x0102_1994;

/// Makes a file of `len` bytes, all zero. Its pages are allocated when they are
/// first accessed.
pub(crate) fn create(name: &str, len: u64) -> io::Result<OwnedFd> {
    let file = memfd(name)?;
    rustix::fs::ftruncate(&file, len)?;
    rustix::fs::fcntl_add_seals(&file, SEALS | SealFlags::SEAL)?;
    Ok(file)
}

/// Checks that `file`, which somebody else has made, is safe to map. Returns
/// its length in bytes.
///
/// # Errors
/// `InvalidData` if it is not.
pub(crate) fn check(file: impl AsFd) -> io::Result<u64> {
    let file = file.as_fd();
    // EINVAL: no file of a kind that can be sealed.
    let seals = match rustix::fs::fcntl_get_seals(file) {
        Err(Errno::INVAL) => SealFlags::empty(),
        seals => seals?,
    };
    if !seals.contains(SEALS) {
        return Err(refused("the shared memory is not sealed against resizing"));
    }
    // Reserved huge pages can be sealed too, but a hole that the peer punches
    // into them is a SIGBUS when the pool is empty. tmpfs just allocates
    // another page.
    if rustix::fs::fstatfs(file)?.f_type as u64 != TMPFS {
        return Err(refused("the shared memory is not of ordinary pages"));
    }
    Ok(rustix::fs::fstat(file)?.st_size as u64)
}

/// The error for a file that is not what it should be.
pub(crate) fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

fn memfd(name: &str) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Where vm.memfd_noexec is 2 it must be said that it is not to be executed;
    // a kernel before 6.3 does not know how to say that.
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => Ok(rustix::fs::memfd_create(name, flags)?),
        file => Ok(file?),
    }
}
