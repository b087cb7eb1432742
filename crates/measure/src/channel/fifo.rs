//! A FIFO: a named pipe, whose name is removed once both ends are open.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};

use super::name::PrivateName;

/// Creates a FIFO in a private directory, opens both ends and removes it. Returns the
/// reading end and the writing end.
///
/// # Errors
/// Those of mkdir(2), mknod(2) and open(2).
pub fn open() -> io::Result<(OwnedFd, OwnedFd)> {
    let name = PrivateName::new("fifo")?;
    let mode = Mode::RUSR | Mode::WUSR;
    mknodat(CWD, name.path(), FileType::Fifo, mode, 0)?;
    let end = |flags| rustix::fs::open(name.path(), flags | OFlags::CLOEXEC, Mode::empty());
    // Opening an end blocks until the other end is open (fifo(7)), except for a
    // non-blocking reader. That one is closed once both ends are open.
    let nonblocking = end(OFlags::RDONLY | OFlags::NONBLOCK)?;
    let write_end = end(OFlags::WRONLY)?;
    let read_end = end(OFlags::RDONLY)?;
    drop(nonblocking);
    Ok((read_end, write_end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_belong_to_one_pipe_without_a_name() {
        let (read_end, write_end) = open().unwrap();
        rustix::io::write(&write_end, b"abc").unwrap();
        drop(write_end);
        let mut buffer = [0; 8];
        assert_eq!(rustix::io::read(&read_end, &mut buffer).unwrap(), 3);
        assert_eq!(rustix::io::read(&read_end, &mut buffer).unwrap(), 0);
        let stat = rustix::fs::fstat(&read_end).unwrap();
        assert_eq!(stat.st_nlink, 0);
    }
}
