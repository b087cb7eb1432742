//! Saves reports atomically: a run is saved after every round, and may be interrupted
//! while saving.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// Where a report is saved.
#[derive(Debug)]
pub struct Destination {
    path: PathBuf,
    /// A FIFO, device or open descriptor (`/dev/fd/3`): it can't be replaced, and is
    /// written to directly.
    opened: Option<File>,
}

impl Destination {
    /// Checks that a report can be saved at `path`; `-` is standard output. Neither changes
    /// a file nor leaves a new one. Opens what can't be replaced, such as a FIFO, whose
    /// reader would otherwise see its end before the report is saved.
    ///
    /// # Errors
    /// The system's error, with the path in its message.
    pub fn open(path: &Path) -> io::Result<Self> {
        let opened = open(path).map_err(|error| cannot_write(path, &error))?;
        Ok(Destination {
            path: path.to_owned(),
            opened,
        })
    }

    /// Returns a file that is not checked, since its directory does not exist yet.
    pub fn unchecked(path: PathBuf) -> Self {
        Destination { path, opened: None }
    }

    /// Returns the path that was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether this is standard output.
    pub fn is_stdout(&self) -> bool {
        is_stdout(&self.path)
    }

    /// Whether [`save`](Self::save) replaces the file, so that it can be called repeatedly.
    pub fn is_replaceable(&self) -> bool {
        !self.is_stdout() && self.opened.is_none()
    }

    /// Whether both are the same file, or standard output.
    pub fn is_same(&self, other: &Self) -> bool {
        let place = |one: &Self| match resolve(&one.path) {
            Ok((target, _)) => target,
            Err(_) => one.path.clone(),
        };
        match (self.is_stdout(), other.is_stdout()) {
            (false, false) => place(self) == place(other),
            (one, other) => one && other,
        }
    }

    /// Saves a report.
    ///
    /// A regular file is replaced in one step: the bytes go to a temporary file
    /// beside it, which is then renamed. A symbolic link stays one, and an existing
    /// file keeps its permissions.
    ///
    /// # Errors
    /// The system's error, with the path in its message. A regular file is then
    /// unchanged, and no temporary file is left.
    pub fn save(&self, bytes: &[u8]) -> io::Result<()> {
        let outcome = match &self.opened {
            Some(file) => (&*file).write_all(bytes),
            None if self.is_stdout() => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            None => save_file(&self.path, bytes),
        };
        outcome.map_err(|error| cannot_write(&self.path, &error))
    }
}

fn cannot_write(path: &Path, error: &io::Error) -> io::Error {
    let name = if is_stdout(path) {
        "to standard output".to_owned()
    } else {
        path.display().to_string()
    };
    let message = format!("cannot write {name}: {error}");
    io::Error::new(error.kind(), message)
}

/// The directory of a file.
fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Checks that a file can be saved at `path`. Opens it if it can't be replaced.
fn open(path: &Path) -> io::Result<Option<File>> {
    if is_stdout(path) {
        return Ok(None);
    }
    if is_descriptor(path) {
        return open_directly(path).map(Some);
    }
    let (target, existing) = resolve(path)?;
    match existing {
        None => check_directory(directory_of(&target)).map(|()| None),
        Some(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        // Without O_TRUNC it stays as it is.
        Some(found) if found.is_file() => {
            let opened = OpenOptions::new().write(true).open(target);
            opened.map(|_| None)
        }
        Some(found) => match open_directly(&target) {
            Err(error)
                if found.file_type().is_fifo()
                    && Errno::from_io_error(&error) == Some(Errno::NXIO) =>
            {
                Err(io::Error::other(
                    "nobody has opened this FIFO to read it: start its reader first",
                ))
            }
            opened => opened.map(Some),
        },
    }
}

/// Opens a FIFO, device or descriptor. Never waits: a FIFO without a reader is an error
/// (ENXIO in fifo(7)).
fn open_directly(path: &Path) -> io::Result<File> {
    // A descriptor may refer to a file with contents.
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags | OFlags::NONBLOCK, Mode::empty())?;
    rustix::fs::fcntl_setfl(&file, OFlags::APPEND)?;
    Ok(file.into())
}

/// Checks that a file can be created in a directory.
///
/// # Errors
/// Those of open(2).
pub fn check_directory(directory: &Path) -> io::Result<()> {
    // It has no name, so not even a signal leaves it behind.
    tempfile::tempfile_in(directory).map(drop)
}

/// Whether the path means standard output, as `-` and `/dev/stdout` do. Opening
/// `/dev/stdout` would start at the beginning of a file to which standard output is
/// redirected.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdout")
}

/// Returns the path to which `path` leads, without links and dots, and what is there, if
/// anything.
fn resolve(path: &Path) -> io::Result<(PathBuf, Option<Metadata>)> {
    match fs::metadata(path) {
        Ok(found) => return Ok((fs::canonicalize(path)?, Some(found))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let directory = directory_of(path);
    if let Ok(linked) = fs::read_link(path) {
        // A circle of links is another error (ELOOP).
        return resolve(&directory.join(linked));
    }
    let name = path.file_name().ok_or(io::ErrorKind::NotFound)?;
    // `a/` and `a/.` are directories.
    let is_file = path.as_os_str().as_bytes().ends_with(name.as_bytes());
    if !is_file {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok((directory.canonicalize()?.join(name), None))
}

fn save_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let (target, existing) = resolve(path)?;
    match replace(&target, existing.as_ref(), |file| file.write_all(bytes)) {
        // The file is writable but can't be replaced, since its directory is not writable,
        // or it is a mount point: write in place.
        Err(error)
            if existing.is_some()
                && matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ResourceBusy
                ) =>
        {
            let mut file = OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(&target)?;
            file.write_all(bytes)
        }
        outcome => outcome,
    }
}

fn is_descriptor(path: &Path) -> bool {
    ["/dev/fd", "/dev/stderr", "/proc"]
        .iter()
        .any(|prefix| path.starts_with(prefix))
}

/// Fills a temporary file beside `target` and renames it there. If anything fails, the
/// temporary file is removed on drop.
fn replace(
    target: &Path,
    existing: Option<&Metadata>,
    fill: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    // The mode that open(2) gives a new file, less the umask. By default, temporary
    // files are readable only by their owner.
    let mut temporary = tempfile::Builder::new()
        .prefix(".pipespeed-")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(directory_of(target))?;
    if let Some(existing) = existing {
        temporary
            .as_file()
            .set_permissions(existing.permissions())?;
    }
    fill(temporary.as_file_mut())?;
    temporary.persist(target).map_err(|failed| failed.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<_> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn save(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
        Destination::open(path.as_ref())?.save(bytes)
    }

    fn error(path: impl AsRef<Path>) -> String {
        Destination::open(path.as_ref()).unwrap_err().to_string()
    }

    #[test]
    fn a_new_file_has_the_bytes_and_no_temporary_file_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let new = Destination::open(&dir.path().join("a.json")).unwrap();
        assert!(new.is_replaceable() && names(dir.path()).is_empty());
        new.save(b"one").unwrap();
        new.save(b"two").unwrap();
        assert_eq!(fs::read(dir.path().join("a.json")).unwrap(), b"two");
        assert_eq!(names(dir.path()), ["a.json"]);
    }

    #[test]
    fn an_existing_file_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let existing = Destination::open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        existing.save(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_link_stays_a_link_whether_or_not_its_file_exists() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        symlink("file", &link).unwrap();
        for bytes in [b"one", b"two"] {
            save(&link, bytes).unwrap();
            assert!(link.is_symlink());
            assert_eq!(fs::read(&file).unwrap(), bytes);
        }
        assert_eq!(names(dir.path()), ["file", "link"]);
    }

    #[test]
    fn one_file_is_recognised_under_several_names() {
        let dir = tempfile::tempdir().unwrap();
        symlink("missing", dir.path().join("link")).unwrap();
        let open = |name: &str| Destination::open(&dir.path().join(name)).unwrap();
        assert!(open("link").is_same(&open("./missing")));
        assert!(!open("link").is_same(&open("other")));
        let [dash, device] = ["-", "/dev/stdout"].map(|name| Destination::open(Path::new(name)));
        assert!(dash.unwrap().is_same(&device.unwrap()));
    }

    #[test]
    fn a_failure_leaves_the_old_file_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        fs::write(&path, "old").unwrap();
        let full = replace(&path, None, |file| {
            file.write_all(b"half of")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(dir.path()), ["a.json"]);
    }

    #[test]
    fn a_device_is_written_to_and_its_error_names_it() {
        save("/dev/null", b"bytes").unwrap();
        let error = save("/dev/full", b"bytes").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }

    #[test]
    fn a_fifo_needs_a_reader_which_stays_connected() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RWXU).unwrap();
        let text = error(&path);
        assert!(text.contains("start its reader first"), "{text}");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let mut reader = File::from(rustix::fs::open(&path, flags, Mode::empty()).unwrap());
        let fifo = Destination::open(&path).unwrap();
        assert!(!fifo.is_replaceable());
        let mut buffer = [0; 9];
        // Not the end of the stream, which would be Ok(0).
        let early = io::Read::read(&mut reader, &mut buffer).unwrap_err();
        assert_eq!(early.kind(), io::ErrorKind::WouldBlock);
        fifo.save(b"bytes").unwrap();
        assert_eq!(io::Read::read(&mut reader, &mut buffer).unwrap(), 5);
    }

    #[test]
    fn an_unwritable_path_is_rejected_beforehand() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path();
        symlink("no/such", there.join("dangling")).unwrap();
        symlink("circle", there.join("circle")).unwrap();
        fs::write(there.join("file"), "").unwrap();
        for (bad, reason) in [
            (".", "is a directory"),
            ("new/", "is a directory"),
            ("no/such", "No such file"),
            ("dangling", "No such file"),
            ("circle", "symbolic links"),
            ("file/new", "Not a directory"),
            (&"n".repeat(256), "too long"),
        ] {
            let text = error(there.join(bad));
            assert!(text.contains(bad) && text.contains(reason), "{text}");
        }
        assert_eq!(names(there), ["circle", "dangling", "file"]);
        let error = error("/dev/fd/999");
        assert!(error.contains("/dev/fd/999: No such file"), "{error}");
    }
}
