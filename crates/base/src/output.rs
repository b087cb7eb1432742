//! Text on standard output and standard error, and writing that waits for room.
//!
//! O_NONBLOCK belongs to the open file, which other processes share, and any of them may set
//! it. A plain write(2) then fails with EAGAIN where it would have waited, and the rest of the
//! text is lost. All text of this program goes through [`print()`], [`print_on_stderr`] or
//! [`Patient`].

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};

use crate::failure::to_stdout;

/// A descriptor that is written to as if it had no O_NONBLOCK.
#[derive(Debug)]
pub struct Patient<F>(pub F);

impl<F: AsFd> Write for Patient<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match retry_on_intr(|| rustix::io::write(&self.0, bytes)) {
                Err(Errno::AGAIN) => {
                    let mut fds = [PollFd::new(&self.0, PollFlags::OUT)];
                    retry_on_intr(|| poll(&mut fds, None))?;
                }
                outcome => return Ok(outcome?),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints text on standard output.
///
/// # Errors
/// Those of [`to_stdout`].
pub fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    to_stdout(Patient(io::stdout()).write_all(text.as_ref()))
}

/// Prints text on standard error.
///
/// # Errors
/// Those of write(2).
pub fn print_on_stderr(text: impl AsRef<[u8]>) -> io::Result<()> {
    Patient(io::stderr()).write_all(text.as_ref())
}

/// Returns the error that a file system finds only when a file is closed: NFS and FUSE send
/// data to a server then, and may learn that its disk is full. The file stays open.
///
/// # Errors
/// Those of close(2).
pub fn check_by_closing(file: &File) -> io::Result<()> {
    match file.try_clone() {
        Ok(duplicate) => Ok(nix::unistd::close(duplicate)?),
        // No descriptor is left for the check.
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::thread;

    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};

    #[test]
    fn all_text_is_written_to_a_full_pipe_with_o_nonblock() {
        let (mut from, into) = io::pipe().unwrap();
        fcntl_setfl(&into, OFlags::NONBLOCK).unwrap();
        let text = vec![b'x'; 1 << 20];
        let expected = text.len();
        let writer = thread::spawn(move || Patient(into).write_all(&text));
        let mut read = Vec::new();
        from.read_to_end(&mut read).unwrap();
        writer.join().unwrap().unwrap();
        assert_eq!(read.len(), expected);
    }

    #[test]
    fn a_reader_that_leaves_ends_the_wait() {
        let (from, into) = io::pipe().unwrap();
        fcntl_setfl(&into, OFlags::NONBLOCK).unwrap();
        while rustix::io::write(&into, &[0; 4096]).is_ok() {}
        let writer = thread::spawn(move || Patient(into).write_all(b"more"));
        drop(from);
        let error = writer.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
