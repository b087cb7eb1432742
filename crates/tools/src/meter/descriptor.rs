//! Another process's descriptors, as /proc shows them (proc_pid_fd(5),
//! proc_pid_fdinfo(5)).

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::fs::OFlags;

use super::stream::size_of_device;

/// What tells one open file from another behind the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    /// How it is open, for reading or writing.
    access: u32,
}

/// A descriptor of a regular file or a block device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Which file.
    pub identity: Identity,
    /// Its position in bytes.
    pub position: u64,
    /// The file's size, where it is only read: one that is written to grows.
    pub size: Option<u64>,
    /// Its path, as well as it is known.
    pub path: String,
}

/// The numbers of all descriptors of a process.
///
/// # Errors
/// Those of reading /proc: no such process, or it is somebody else's.
pub fn all(pid: i32) -> io::Result<Vec<i32>> {
    let mut numbers: Vec<i32> = fs::read_dir(format!("/proc/{pid}/fd"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Looks at one. None if it is neither a regular file nor a block device.
///
/// # Errors
/// Those of reading /proc: the descriptor or the process is gone.
pub fn look(pid: i32, fd: i32) -> io::Result<Option<Seen>> {
    let link = format!("/proc/{pid}/fd/{fd}");
    // Through the link: it works for files that were removed as well.
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
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let position = field("pos:")
        .and_then(|text| text.parse().ok())
        .ok_or_else(wrong)?;
    let flags = field("flags:").and_then(|text| u32::from_str_radix(text, 8).ok());
    let access = flags.ok_or_else(wrong)? & OFlags::ACCMODE.bits();
    let size = if access != OFlags::RDONLY.bits() {
        None
    } else if about.is_file() {
        Some(about.len())
    } else {
        let disk = fs::File::open(&link).ok();
        disk.and_then(|disk| size_of_device(disk.as_fd()))
    };
    Ok(Some(Seen {
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
    fn our_own_descriptors_are_seen_where_they_are() {
        let pid = std::process::id() as i32;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&[0; 5000]).unwrap();
        let mut reading = fs::File::open(file.path()).unwrap();
        reading.seek(SeekFrom::Start(1234)).unwrap();
        let seen = look(pid, reading.as_raw_fd()).unwrap().unwrap();
        assert_eq!((seen.position, seen.size), (1234, Some(5000)));
        assert_eq!(seen.path, file.path().to_str().unwrap());
        // Open for reading and writing: it may grow.
        let written = look(pid, file.as_raw_fd()).unwrap().unwrap();
        assert_eq!((written.position, written.size), (5000, None));
        assert_ne!(written.identity, seen.identity);
        assert!(all(pid).unwrap().contains(&reading.as_raw_fd()));
    }

    #[test]
    fn what_is_no_file_is_told_from_what_is_not_there() {
        let pid = std::process::id() as i32;
        let (reader, _writer) = io::pipe().unwrap();
        assert_eq!(look(pid, reader.as_raw_fd()).unwrap(), None);
        assert!(look(pid, 1_000_000).is_err());
        assert!(all(-1).is_err());
    }
}
