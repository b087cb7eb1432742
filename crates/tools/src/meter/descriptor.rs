//! Another process's descriptors, as /proc shows them (proc_pid_fd(5),
//! proc_pid_fdinfo(5)).

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::fs::OFlags;

use super::stream::size_of_device;

/// Identifies an open file, since a descriptor's number may be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    /// Access mode (O_ACCMODE).
    access: u32,
}

/// State of a descriptor of a regular file or a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileState {
    /// The open file.
    pub identity: Identity,
    /// Its position in bytes.
    pub position: u64,
    /// The file's size, if it is open only for reading: otherwise it may grow.
    pub size: Option<u64>,
    /// Its path, as far as known.
    pub path: String,
}

/// Lists all descriptors of a process.
///
/// # Errors
/// Those of reading /proc: no such process, or no permission.
pub fn list(pid: i32) -> io::Result<Vec<i32>> {
    let mut numbers: Vec<i32> = fs::read_dir(format!("/proc/{pid}/fd"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads the state of a descriptor. `None` if it is neither a regular file nor a
/// block device.
///
/// # Errors
/// Those of reading /proc: the descriptor or the process does not exist.
pub fn read(pid: i32, fd: i32) -> io::Result<Option<FileState>> {
    let link = format!("/proc/{pid}/fd/{fd}");
    // Follows the link, which also works for deleted files.
    let about = fs::metadata(&link)?;
    if !about.is_file() && !about.file_type().is_block_device() {
        return Ok(None);
    }
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}"))?;
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
    };
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let position = field("pos:")
        .and_then(|text| text.parse().ok())
        .ok_or_else(malformed)?;
    let flags = field("flags:").and_then(|text| u32::from_str_radix(text, 8).ok());
    let access = flags.ok_or_else(malformed)? & OFlags::ACCMODE.bits();
    let size = if access != OFlags::RDONLY.bits() {
        None
    } else if about.is_file() {
        Some(about.len())
    } else {
        let disk = fs::File::open(&link).ok();
        disk.and_then(|disk| size_of_device(disk.as_fd()))
    };
    Ok(Some(FileState {
        identity: Identity {
            device: about.dev(),
            inode: about.ino(),
            access,
        },
        position,
        size: size.filter(|size| *size > 0),
        path: fs::read_link(&link)?.to_string_lossy().into_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Seek, SeekFrom, Write};
    use std::os::fd::AsRawFd;

    #[test]
    fn positions_of_our_own_descriptors_are_read() {
        let pid = std::process::id() as i32;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[0; 5000]).unwrap();
        let mut reading = fs::File::open(file.path()).unwrap();
        reading.seek(SeekFrom::Start(1234)).unwrap();
        let seen = read(pid, reading.as_raw_fd()).unwrap().unwrap();
        assert_eq!((seen.position, seen.size), (1234, Some(5000)));
        assert_eq!(seen.path, file.path().to_str().unwrap());
        // Open for reading and writing: it may grow.
        let written = read(pid, file.as_raw_fd()).unwrap().unwrap();
        assert_eq!((written.position, written.size), (5000, None));
        assert_ne!(written.identity, seen.identity);
        assert!(list(pid).unwrap().contains(&reading.as_raw_fd()));
    }

    #[test]
    fn pipes_are_none_and_missing_descriptors_errors() {
        let pid = std::process::id() as i32;
        let (reader, _writer) = io::pipe().unwrap();
        assert_eq!(read(pid, reader.as_raw_fd()).unwrap(), None);
        assert!(read(pid, 1_000_000).is_err());
        assert!(list(-1).is_err());
    }
}
