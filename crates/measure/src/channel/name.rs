//! A private path in the file system.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The maximum length of a socket's path in bytes: sun_path without its terminating NUL
/// (unix(7)).
const MAX_SOCKET_NAME: usize = 107;

/// A path in a directory of its own, which other users can't access. Both are removed
/// on drop.
///
/// They are removed by path. [`tempfile::TempDir`] opens the directory to remove it,
/// which fails if this process has run out of descriptors.
#[derive(Debug)]
pub struct PrivateName {
    directory: PathBuf,
    path: PathBuf,
}

impl PrivateName {
    /// Creates the directory, and a path in it at which nothing exists yet.
    ///
    /// # Errors
    /// Those of mkdir(2), with the path in their message.
    pub fn new(name: &str) -> io::Result<Self> {
        Self::new_in(&std::env::temp_dir(), name)
    }

    fn new_in(parent: &Path, name: &str) -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("pipespeed-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(parent)?
            .keep();
        Ok(PrivateName {
            path: directory.join(name),
            directory,
        })
    }

    /// The full path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A path short enough for a socket's address. If the full path is too long, this
    /// one goes through a descriptor of the directory, which must stay open while the
    /// path is used.
    ///
    /// # Errors
    /// Those of open(2).
    pub fn short(&self) -> io::Result<(PathBuf, Option<OwnedFd>)> {
        let file = match self.path.file_name() {
            Some(file) if self.path.as_os_str().as_bytes().len() > MAX_SOCKET_NAME => file,
            _ => return Ok((self.path.clone(), None)),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(&self.directory, flags, Mode::empty())?;
        let number = directory.as_raw_fd().to_string();
        let path = Path::new("/proc/self/fd").join(number).join(file);
        Ok((path, Some(directory)))
    }
}

impl Drop for PrivateName {
    fn drop(&mut self) {
        // Errors can't be reported here.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn the_directory_is_private_and_removed_with_its_file() {
        for made in [false, true] {
            let name = PrivateName::new("fifo").unwrap();
            let directory = name.directory.clone();
            let mode = fs::metadata(&directory).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700);
            if made {
                fs::write(name.path(), "").unwrap();
            }
            drop(name);
            assert!(!directory.exists());
        }
    }

    #[test]
    fn socket_can_be_bound_in_directory_with_a_long_path() {
        let place = tempfile::tempdir().unwrap();
        for length in [1, 100, 200] {
            let long = place.path().join("d".repeat(length));
            fs::create_dir(&long).unwrap();
            let name = PrivateName::new_in(&long, "socket").unwrap();
            let (short, _open) = name.short().unwrap();
            assert!(short.as_os_str().len() <= MAX_SOCKET_NAME);
            let listener = UnixListener::bind(&short).unwrap();
            UnixStream::connect(&short).unwrap();
            listener.accept().unwrap();
            drop(name);
            assert_eq!(fs::read_dir(&long).unwrap().count(), 0);
        }
    }
}
