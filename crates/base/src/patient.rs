//! Writing that waits for room, also where somebody has set O_NONBLOCK.
//!
//! O_NONBLOCK belongs to the open file, which other processes share, and any of them may set
//! it. A plain write(2) then fails with EAGAIN where it would have waited, and the rest of the
//! text is lost.

use std::io::{self, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};

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

/// Prints text on standard error.
///
/// # Errors
/// Those of write(2).
pub fn print_on_stderr(text: impl AsRef<[u8]>) -> io::Result<()> {
    Patient(io::stderr()).write_all(text.as_ref())
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
