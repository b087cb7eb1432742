//! A name in the file system that nobody else can use.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A name in a directory of its own, into which nobody else may look. Both are
/// gone when this is dropped.
///
/// They are removed by name: to look into the directory, as
/// [`tempfile::TempDir`] does, takes a descriptor, and the want of one may be
/// why this ends.
#[derive(Debug)]
pub(crate) struct PrivateName {
    directory: PathBuf,
    path: PathBuf,
}

impl PrivateName {
    /// A name that stands for nothing yet.
    ///
    /// # Errors
    /// Those of mkdir(2), with the place in their text.
    pub fn new(name: &str) -> io::Result<Self> {
        let directory = tempfile::Builder::new()
            .prefix("pipespeed-")
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir()?
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
}
