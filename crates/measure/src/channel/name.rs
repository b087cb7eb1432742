//! A name in the file system that nobody else can use.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The longest name of a socket, in bytes: sun_path less the 0 that ends it
/// (unix(7)).
const MAX_SOCKET_NAME: usize = 107;

/// A name in a directory of its own, into which nobody else may look. Both are
/// gone when this is dropped.
///
/// They are removed by name: to look into the directory, as
/// [`tempfile::TempDir`] does, takes a descriptor, and the want of one may be
/// why this ends.
#[derive(Debug)]
pub struct PrivateName {
    directory: PathBuf,
    path: PathBuf,
}

impl PrivateName {
    /// A name that stands for nothing yet.
    ///
    /// # Errors
    /// Those of mkdir(2), with the place in their text.
    pub fn new(name: &str) -> io::Result<Self> {
        Self::within(&std::env::temp_dir(), name)
    }

    fn within(place: &Path, name: &str) -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("pipespeed-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(place)?
            .keep();
        Ok(PrivateName {
            path: directory.join(name),
            directory,
        })
    }

    /// The whole name.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The name, short enough for a socket's address wherever the directory is:
    /// if need be by a descriptor of the directory, which must stay open meanwhile.
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
        // There is nobody to tell, and nothing else to be done.
        let _ = fs::remove_file(&self.path);
        let _ = fs::remove_dir(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn a_name_is_private_and_goes_with_whatever_it_stands_for() {
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
    fn a_socket_can_be_bound_however_long_the_name_of_the_directory_is() {
        let place = tempfile::tempdir().unwrap();
        for length in [1, 100, 200] {
            let long = place.path().join("d".repeat(length));
            fs::create_dir(&long).unwrap();
            let name = PrivateName::within(&long, "socket").unwrap();
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
