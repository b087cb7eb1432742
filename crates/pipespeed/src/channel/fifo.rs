//! A FIFO: a pipe with a name, which is taken away once both ends are open.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

/// Makes a FIFO in a private directory, opens both ends and removes it: the
/// reading end, and the writing end.
///
/// # Errors
/// Those of mkdir(2), mknod(2) and open(2).
pub fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let directory = private_directory()?;
    let path = directory.path().join("fifo");
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, &path, FileType::Fifo, mode, 0)?;
    let end = |flags| rustix::fs::open(&path, flags | OFlags::CLOEXEC, Mode::empty());
    // To open an end waits for the other (fifo(7)), but for this one, which is
    // there only until both are.
    let first = end(OFlags::RDONLY | OFlags::NONBLOCK)?;
    let write_end = end(OFlags::WRONLY)?;
    let read_end = end(OFlags::RDONLY)?;
    drop(first);
    directory.close()?;
    Ok((read_end, write_end))
}

/// A directory that nobody else may look into, removed when it is dropped.
///
/// # Errors
/// Those of mkdir(2), with the place in their text.
pub(super) fn private_directory() -> io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("pipespeed-").tempdir()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_are_of_one_pipe_that_has_no_name_any_more() {
        let (read_end, write_end) = open().unwrap();
        rustix::io::write(&write_end, b"abc").unwrap();
        drop(write_end);
        let mut got = [0; 8];
        assert_eq!(rustix::io::read(&read_end, &mut got).unwrap(), 3);
        assert_eq!(rustix::io::read(&read_end, &mut got).unwrap(), 0);
        let stat = rustix::fs::fstat(&read_end).unwrap();
        assert_eq!(stat.st_nlink, 0);
    }
}
