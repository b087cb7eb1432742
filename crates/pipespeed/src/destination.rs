//! Where a command saves what it measured. Everything is looked at before measuring, so that
//! what can't be saved is refused before it costs anything.
//!
//! | destination | how it is saved |
//! |---|---|
//! | a regular file, new or of this user's, with one link, in a writable directory | a complete temporary file is renamed |
//! | a new file in the default directory | as the first, under a name that no other run has |
//! | any other regular file | in place, once there is room; the old contents come back if that fails |
//! | a descriptor of this process: `-`, /dev/stderr, /dev/fd/3, or the file that standard output is | through a duplicate, at its own position; never opened again |
//! | a FIFO, a character device, a descriptor of another process | opened before measuring |
//!
//! A regular file that can't be saved after all goes to the directory for temporary files.

mod attributes;
mod new_name;
mod regular;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pipespeed_base::failure::{say, with_remedy};
use pipespeed_base::interrupt::without_signals;
use pipespeed_base::output::Patient;
use pipespeed_base::standard::duplicate_inherited;
use rustix::fs::{Mode, OFlags, Stat, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::Errno;

pub(crate) use self::new_name::{NewStem, create_unused, numbered};
use self::regular::{Regular, append, no_longer_regular, say_if_left};

/// Characters of a name that are kept where a record is saved elsewhere: with what is added to it, it is no longer
/// than file systems allow.
const MAX_STEM: usize = 50;

/// Symbolic links are followed at most this often, as by the kernel (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Where a report is saved.
#[derive(Debug)]
pub(crate) struct Destination {
    path: PathBuf,
    place: DestinationKind,
    /// The file that [`append`](Self::append) has begun.
    begun: Option<File>,
    /// Whether it was said that this file is gone.
    is_loss_said: bool,
    /// Whether it was said that there can't be a new file.
    is_failure_said: bool,
    /// Whether anything was lost since there could be none.
    has_lost: bool,
}

/// What is at the path.
#[derive(Debug)]
enum DestinationKind {
    /// A descriptor that this process was started with, by its number, and its duplicate.
    Descriptor(RawFd, File),
    /// A FIFO, a character device or a file of another process, which stays open.
    Stream(File),
    /// A regular file, which may be new.
    Regular(Regular),
    /// A file with this extension in a directory that does not exist yet. The first file of the
    /// stem that is saved settles the name.
    Later(Arc<NewStem>, &'static str),
}

impl Destination {
    /// Checks that a report can be saved at `path`; `-` is standard output. Neither changes
    /// a file nor leaves a new one. Opens what can't be replaced, such as a FIFO, whose
    /// reader would otherwise see its end before the report is saved.
    ///
    /// # Errors
    /// The system's error, with the path in its message.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let place = DestinationKind::find(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Destination {
            path: path.to_owned(),
            place,
            begun: None,
            is_loss_said: false,
            is_failure_said: false,
            has_lost: false,
        })
    }

    /// Returns a file that is not checked, since its directory does not exist yet.
    pub(crate) fn later(stem: &Arc<NewStem>, extension: &'static str) -> Self {
        Destination {
            path: stem.path(extension),
            place: DestinationKind::Later(Arc::clone(stem), extension),
            begun: None,
            is_loss_said: false,
            is_failure_said: false,
            has_lost: false,
        }
    }

    /// The path that was given, or the one that was chosen.
    fn path(&self) -> PathBuf {
        match &self.place {
            DestinationKind::Later(stem, extension) => stem.path(extension),
            _ => self.path.clone(),
        }
    }

    /// Returns where the report lies: not at the path that was given if its directory was moved.
    pub(crate) fn saved_path(&self) -> PathBuf {
        let moved = match &self.place {
            DestinationKind::Regular(file) => file.moved_path(&self.path),
            _ => None,
        };
        moved.unwrap_or_else(|| self.path())
    }

    /// Whether this is standard output, by whichever name.
    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self.place, DestinationKind::Descriptor(1, _))
    }

    /// Whether this is a regular file, so that [`save`](Self::save) can be called repeatedly.
    pub(crate) fn is_regular(&self) -> bool {
        matches!(
            self.place,
            DestinationKind::Regular(_) | DestinationKind::Later(..)
        )
    }

    /// Whether parts of a run may be saved: in a regular file that had no contents. An older record is
    /// replaced by a complete one only.
    pub(crate) fn takes_parts(&self) -> bool {
        match &self.place {
            DestinationKind::Regular(file) => !file.had_contents(),
            _ => self.is_regular(),
        }
    }

    /// The device and the inode number of a file or stream that is there.
    pub(crate) fn inode(&self) -> Option<(u64, u64)> {
        self.place.inode()
    }

    /// Whether both are the same file or descriptor.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.place, &other.place) {
            (DestinationKind::Descriptor(one, _), DestinationKind::Descriptor(other, _)) => {
                one == other
            }
            (DestinationKind::Regular(one), DestinationKind::Regular(other))
                if one.is_new() || other.is_new() =>
            {
                one.is_same_name(other)
            }
            (DestinationKind::Later(..), _) | (_, DestinationKind::Later(..)) => {
                self.path() == other.path()
            }
            (one, other) => one.inode().is_some() && one.inode() == other.inode(),
        }
    }

    /// Saves a report. What was saved before is replaced in a regular file; elsewhere
    /// the report follows it.
    ///
    /// # Errors
    /// The system's error, with the path in its message. A regular file then has its old
    /// contents, and no temporary file is left.
    pub(crate) fn save(&self, bytes: &[u8]) -> io::Result<()> {
        let saved = match &self.place {
            DestinationKind::Descriptor(_, file) | DestinationKind::Stream(file) => {
                Patient::new(file).write_all(bytes)
            }
            _ => self.save_regular(bytes).map(drop),
        };
        saved.map_err(|error| cannot_write(&self.path(), &error))
    }

    /// Saves a report in a directory for temporary files, for this user only, where its regular file can't be
    /// saved. Returns its path there; `None` if that fails, too.
    pub(crate) fn save_elsewhere(&self, bytes: &[u8]) -> Option<PathBuf> {
        if !self.is_regular() {
            return None;
        }
        let path = self.path();
        let stem = path.file_stem()?.to_string_lossy();
        let stem: String = stem.chars().take(MAX_STEM).collect();
        let extension = path.extension();
        let extension = extension.map(|extension| format!(".{}", extension.display()));
        let save = |directory: &Path| {
            create_unused(|number| {
                let stem = numbered(&format!("pipespeed-{stem}"), number);
                let path = directory.join(stem + extension.as_deref().unwrap_or_default());
                let mut new = OpenOptions::new();
                let mut file = new.write(true).create_new(true).mode(0o600).open(&path)?;
                let written = file.write_all(bytes);
                if written.is_err() {
                    say_if_left(&path, fs::remove_file(&path));
                }
                written.map(|()| path)
            })
        };
        let directories = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
        let save_in_first = || {
            let mut directories = directories.iter();
            directories.find_map(|directory| save(directory).ok())
        };
        without_signals(save_in_first).ok()?
    }

    /// Adds a part of a report: the first one replaces the old contents of a regular file, and
    /// later ones follow it. Readers see each as soon as it is complete. If the file was removed
    /// or replaced meanwhile, says so once, and goes on in a new one, or in that which is there now.
    ///
    /// # Errors
    /// As for [`save`](Self::save). A regular file then has the parts before this one. None if there
    /// can't be a new file: that is said.
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if !self.is_regular() {
            return self.save(bytes);
        }
        let appended = match &self.begun {
            Some(file) if self.is_still(file) => append(file, bytes),
            Some(_) => {
                self.say_loss();
                match self.begin_anew(bytes) {
                    Ok(file) => {
                        self.begun = Some(file);
                        self.is_failure_said = false;
                    }
                    Err(error) => self.say_failure(&error),
                }
                Ok(())
            }
            None => self.save_regular(bytes).map(|file| self.begun = Some(file)),
        };
        appended.map_err(|error| cannot_write(&self.path(), &error))
    }

    /// Whether the file that was begun is still where it was.
    fn is_still(&self, begun: &File) -> bool {
        match &self.place {
            DestinationKind::Regular(file) => {
                file.is_still(begun) && !file.is_out_of_reach(begun, &self.path)
            }
            _ => true,
        }
    }

    fn say_loss(&mut self) {
        if !std::mem::replace(&mut self.is_loss_said, true) {
            say(&format!(
                "pipespeed: {} was removed or replaced: what follows goes to a new file, or to the one \
                 that is there now, where that is possible",
                self.path().display()
            ));
        }
    }

    /// Whether anything that was appended is lost, which was said.
    pub(crate) fn has_lost(&self) -> bool {
        self.has_lost
    }

    fn say_failure(&mut self, error: &io::Error) {
        self.has_lost = true;
        if !std::mem::replace(&mut self.is_failure_said, true) {
            let error = cannot_write(&self.path(), error);
            say(&format!(
                "pipespeed: {error}: what would be written is lost until that is possible"
            ));
        }
    }

    /// Goes on in a new file, or in the one that is there now.
    fn begin_anew(&self, bytes: &[u8]) -> io::Result<File> {
        match &self.place {
            DestinationKind::Regular(file) if !file.is_new() => file.append_anew(bytes),
            _ => self.save_regular(bytes),
        }
    }

    /// Saves to a regular file, and returns it.
    fn save_regular(&self, bytes: &[u8]) -> io::Result<File> {
        if let DestinationKind::Regular(file) = &self.place {
            match file.save(bytes) {
                // The directory was removed, and may have been made anew; or the file has become
                // a symbolic link.
                Err(error) if is_elsewhere(&error) => {}
                Ok(saved) if file.is_out_of_reach(&saved, &self.path) => {
                    return Err(io::Error::other(
                        "the directory's file system was unmounted, or another one is mounted over it",
                    ));
                }
                outcome => return outcome,
            }
        }
        if let DestinationKind::Later(stem, extension) = &self.place
            && let Some(file) = stem.settle(extension, |path| {
                Regular::open(directory_of(path), name_of(path)?)?.save_new(bytes)
            })?
        {
            return Ok(file);
        }
        match DestinationKind::find(&self.path())? {
            DestinationKind::Regular(file) => file.save(bytes),
            _ => Err(no_longer_regular()),
        }
    }
}

impl DestinationKind {
    fn find(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return DestinationKind::descriptor(1);
        }
        let path = match resolve(path)? {
            Resolved::Descriptor(number) => return DestinationKind::descriptor(number),
            Resolved::OfAnotherProcess(path) => {
                return open_directly(&path).map(DestinationKind::Stream);
            }
            Resolved::Path(path) => path,
        };
        let found = match fs::metadata(&path) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Regular::open(directory_of(&path), name_of(&path)?)
                    .map(DestinationKind::Regular);
            }
            Err(error) => return Err(error),
        };
        let kind = found.file_type();
        if let Some(number) = standard_descriptor(&found) {
            DestinationKind::descriptor(number)
        } else if kind.is_file() {
            Regular::open(directory_of(&path), name_of(&path)?).map(DestinationKind::Regular)
        } else if kind.is_dir() {
            Err(io::ErrorKind::IsADirectory.into())
        } else if kind.is_block_device() {
            Err(io::Error::other(
                "it is a block device, whose data would be lost",
            ))
        } else if kind.is_socket() {
            Err(io::Error::other(
                "it is a socket, which can't be opened: connect it by '-' or /dev/fd/N",
            ))
        } else {
            open_directly(&path).map(DestinationKind::Stream)
        }
    }

    /// Duplicates a descriptor that this process was started with.
    fn descriptor(number: RawFd) -> io::Result<Self> {
        let file =
            duplicate_inherited(number).map_err(|error| match Errno::from_io_error(&error) {
                Some(Errno::BADF) => io::Error::other(format!("descriptor {number} is not open")),
                _ => error,
            })?;
        let flags = fcntl_getfl(&file)?;
        // O_PATH allows neither.
        if flags & OFlags::ACCMODE == OFlags::RDONLY || flags.contains(OFlags::PATH) {
            return Err(io::Error::other(format!(
                "descriptor {number} is open for reading only"
            )));
        }
        Ok(DestinationKind::Descriptor(number, file))
    }

    /// The device and the inode number.
    fn inode(&self) -> Option<(u64, u64)> {
        let found = match self {
            DestinationKind::Regular(file) => return file.inode(),
            DestinationKind::Stream(file) => file.metadata().ok()?,
            DestinationKind::Descriptor(_, file) => {
                file.metadata().ok().filter(fs::Metadata::is_file)?
            }
            DestinationKind::Later(..) => return None,
        };
        Some((found.dev(), found.ino()))
    }
}

/// The number of standard output or error if it is this regular file: what is printed there would
/// be lost with the old file.
fn standard_descriptor(file: &fs::Metadata) -> Option<RawFd> {
    let is_same = |stat: rustix::io::Result<Stat>| {
        file.is_file()
            && stat.is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (file.dev(), file.ino()))
    };
    if is_same(fstat(io::stdout())) {
        Some(1)
    } else {
        is_same(fstat(io::stderr())).then_some(2)
    }
}

/// Whether a file that was not saved may be found by its path.
fn is_elsewhere(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::NOENT | Errno::LOOP)
    )
}

fn cannot_write(path: &Path, error: &io::Error) -> io::Error {
    let name = if [Path::new("-"), Path::new("/dev/stdout")].contains(&path) {
        "to standard output".to_owned()
    } else {
        path.display().to_string()
    };
    let message = format!("cannot write {name}: {}", with_remedy(error));
    io::Error::new(error.kind(), message)
}

/// Where a path leads, without a link at its end.
enum Resolved {
    /// An open descriptor of this process.
    Descriptor(RawFd),
    /// A descriptor of another process, by its path in /proc.
    OfAnotherProcess(PathBuf),
    Path(PathBuf),
}

/// Follows symbolic links, but not those in /proc that stand for open files: what a descriptor
/// refers to may have no name, and opening it again would start at its beginning.
fn resolve(path: &Path) -> io::Result<Resolved> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if let Some(found) = find_descriptor(&path) {
            return Ok(found);
        }
        match fs::read_link(&path) {
            Ok(linked) => {
                // The kernel follows none that another user has put into a directory like /tmp
                // (protected_symlinks in proc_sys_fs(5)).
                if let Err(error) = fs::metadata(&path)
                    && error.kind() == io::ErrorKind::PermissionDenied
                {
                    return Err(error);
                }
                path = directory_of(&path).join(linked);
            }
            // No link, or nothing.
            Err(_) => return Ok(Resolved::Path(path)),
        }
    }
    Err(Errno::LOOP.into())
}

/// Recognises a path to a descriptor, also where /proc is not mounted.
fn find_descriptor(path: &Path) -> Option<Resolved> {
    let standard = ["/dev/stdin", "/dev/stdout", "/dev/stderr"];
    if let Some(number) = standard.iter().position(|name| path == Path::new(name)) {
        return Some(Resolved::Descriptor(number as RawFd));
    }
    let number = path.file_name()?.to_str()?.parse().ok()?;
    let own = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"].map(Path::new);
    let directory = directory_of(path);
    if own.contains(&directory) {
        return Some(Resolved::Descriptor(number));
    }
    let directory = directory.canonicalize().ok()?;
    if own
        .iter()
        .any(|own| own.canonicalize().ok().as_ref() == Some(&directory))
    {
        return Some(Resolved::Descriptor(number));
    }
    let is_in_proc = directory.starts_with("/proc") && directory.ends_with("fd");
    is_in_proc.then(|| Resolved::OfAnotherProcess(path.to_owned()))
}

/// Opens a FIFO, device or descriptor of another process. Never waits: a FIFO without a reader
/// is an error (ENXIO in fifo(7)).
fn open_directly(path: &Path) -> io::Result<File> {
    // A descriptor may refer to a file with contents.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::empty());
    let file = opened.map_err(|errno| match errno {
        Errno::NXIO if fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) => {
            io::Error::other("nobody has opened this FIFO to read it: start its reader first")
        }
        _ => errno.into(),
    })?;
    fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file.into())
}

/// The directory of a file.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The name of a file in its directory.
fn name_of(path: &Path) -> io::Result<&Path> {
    let name = path.file_name().ok_or(io::ErrorKind::NotFound)?;
    // `a/` and `a/.` are directories.
    let is_file = path.as_os_str().as_bytes().ends_with(name.as_bytes());
    if is_file {
        Ok(Path::new(name))
    } else {
        Err(io::ErrorKind::IsADirectory.into())
    }
}

/// Checks that a file can be created in a directory.
///
/// # Errors
/// Those of open(2).
pub(crate) fn check_directory(directory: &Path) -> io::Result<()> {
    regular::check_directory(&regular::open_directory(directory)?)
}

#[cfg(test)]
mod tests;
