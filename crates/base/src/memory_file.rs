//! Files in memory.

use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

/// Creates an empty file in memory that is deleted with its last descriptor, and closed on exec.
///
/// # Errors
/// Those of memfd_create(2).
pub fn create(name: &str) -> io::Result<File> {
    // With vm.memfd_noexec = 2 the second flag is required; kernels before 6.3 do not know it.
    match memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => Ok(memfd_create(name, MemfdFlags::CLOEXEC)?.into()),
        file => Ok(file?.into()),
    }
}
