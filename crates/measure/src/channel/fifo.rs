//! A FIFO: a pipe with a name, which is taken away once both ends are open.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use super::name::PrivateName;

/// Makes a FIFO in a private directory, opens both ends and removes it: the
/// reading end, and the writing end.
///
/// # Errors
/// Those of mkdir(2), mknod(2) and open(2).
pub fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let name = PrivateName::new("fifo")?;
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, name.path(), FileType::Fifo, mode, 0)?;
    let end = |flags| rustix::fs::open(name.path(), flags | OFlags::CLOEXEC, Mode::empty());
    // To open an end waits for the other (fifo(7)), but for this one, which is
    // there only until both are.
    let first = end(OFlags::RDONLY | OFlags::NONBLOCK)?;
    let write_end = end(OFlags::WRONLY)?;
    let read_end = end(OFlags::RDONLY)?;
    drop(first);
    Ok((read_end, write_end))
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
