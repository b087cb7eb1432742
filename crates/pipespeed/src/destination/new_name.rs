//! Names of new files and directories that nobody else has chosen.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::io::Errno;

/// At most this many names are tried. A process with the same number in another container may
/// have chosen the same.
const MAX_NAMES: u32 = 100;

/// Creates something under the first of the names 1, 2, ... that is not taken.
///
/// # Errors
/// Those of `create`; EEXIST if all names are taken.
pub(crate) fn create_unused<T>(mut create: impl FnMut(u32) -> io::Result<T>) -> io::Result<T> {
    for number in 1..=MAX_NAMES {
        match create(number) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            outcome => return outcome,
        }
    }
    Err(Errno::EXIST.into())
}

/// The common name of the files of one run, without their extensions.
#[derive(Debug)]
pub(crate) struct NewStem {
    directory: PathBuf,
    name: String,
    /// Once a file was saved, the number of its name.
    number: OnceLock<u32>,
}

impl NewStem {
    /// A name that may get a number.
    pub(crate) fn new(directory: &Path, name: String) -> Self {
        NewStem {
            directory: directory.to_owned(),
            name,
            number: OnceLock::new(),
        }
    }

    /// The path of the file with this extension.
    pub(super) fn path(&self, extension: &str) -> PathBuf {
        self.numbered(*self.number.get().unwrap_or(&1), extension)
    }

    fn numbered(&self, number: u32, extension: &str) -> PathBuf {
        let name = numbered(&self.name, number);
        self.directory.join(format!("{name}.{extension}"))
    }

    /// Creates the first file of the run by `create`, under a name that is not taken, which
    /// settles the names of the others. `None` if the name was settled before.
    pub(super) fn settle<T>(
        &self,
        extension: &str,
        create: impl Fn(&Path) -> io::Result<T>,
    ) -> io::Result<Option<T>> {
        if self.number.get().is_some() {
            return Ok(None);
        }
        let (created, number) = create_unused(|number| {
            let path = self.numbered(number, extension);
            if path.symlink_metadata().is_ok() {
                return Err(Errno::EXIST.into());
            }
            Ok((create(&path)?, number))
        })?;
        let _ = self.number.set(number);
        Ok(Some(created))
    }
}

/// Adds a number to a name, except to the first one.
pub(crate) fn numbered(name: &str, number: u32) -> String {
    match number {
        1 => name.to_owned(),
        _ => format!("{name}-{number}"),
    }
}
