//! Files in memory.

use std::fs::File;
use std::io;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;

/// Creates an empty file in memory that is deleted with its last descriptor, closed on exec, and
/// may be sealed.
///
/// # Errors
/// Those of memfd_create(2).
pub fn create(name: &str) -> io::Result<File> {
    // With vm.memfd_noexec = 2 the second flag is required; kernels before 6.3 do not know it.
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        Err(Errno::INVAL) => Ok(memfd_create(name, flags)?.into()),
        file => Ok(file?.into()),
    }
}
