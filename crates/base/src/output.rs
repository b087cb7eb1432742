//! Text on standard output and standard error. All text of this program goes through [`print()`],
//! [`print_on_stderr`] or [`Patient`], which wait where somebody has set O_NONBLOCK, until a signal
//! arrives.

use std::io::{self, Write};
use std::os::fd::AsFd;

use crate::failure::to_stdout;
pub use crate::patient::{Patient, print_on_stderr};

/// Prints text on standard output.
///
/// # Errors
/// Those of [`to_stdout`].
pub fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    to_stdout(Patient::new(io::stdout()).write_all(text.as_ref()))
}

/// Returns the error that a file system finds only when a file is closed: NFS and FUSE send
/// data to a server then, and may learn that its disk is full. The file stays open.
///
/// # Errors
/// Those of close(2).
pub fn check_by_closing(file: impl AsFd) -> io::Result<()> {
    match file.as_fd().try_clone_to_owned() {
        Ok(duplicate) => Ok(nix::unistd::close(duplicate)?),
        // No descriptor is left for the check.
        Err(_) => Ok(()),
    }
}
