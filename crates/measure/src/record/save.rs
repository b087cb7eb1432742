//! Saves reports atomically: a run is saved after every round, and may be interrupted
//! while saving.

use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Writes `bytes` to `path`; `-` is standard output.
///
/// A regular file is replaced in one step: the bytes go to a temporary file
/// beside it, which is then renamed. A symbolic link stays one, and an existing
/// file keeps its permissions. Terminals, FIFOs, devices and open descriptors
/// (`/dev/fd/3`) can't be replaced and are written to directly.
///
/// # Errors
///
/// The system's error, with the path in its message. A file at `path` is then
/// unchanged, and no temporary file is left.
pub fn save(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let path = path.as_ref();
    let outcome = if is_stdout(path) {
        let mut out = io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    } else {
        save_file(path, bytes)
    };
    outcome.map_err(|error| cannot_write(path, &error))
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

/// Checks before a measurement that its record can be saved at this path.
///
/// # Errors
/// Those of [`save`] if the path is a directory, or its directory is missing or not
/// writable.
pub fn check_place(path: &Path) -> io::Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    if path.is_dir() {
        return Err(cannot_write(path, &io::ErrorKind::IsADirectory.into()));
    }
    if path.exists() {
        return Ok(());
    }
    rustix::fs::access(directory_of(path), rustix::fs::Access::WRITE_OK)
        .map_err(|errno| cannot_write(path, &errno.into()))
}

/// Whether [`save`] replaces the file, so that it can be called repeatedly: true for
/// regular files and for files that don't exist yet.
pub fn is_replaceable(path: impl AsRef<Path>) -> bool {
    let path = path.as_ref();
    !is_stdout(path)
        && !is_descriptor(path)
        && fs::metadata(path).map_or(true, |found| found.is_file())
}

/// Whether the path means standard output, as `-` and `/dev/stdout` do. Opening
/// `/dev/stdout` would start at the beginning of a file to which standard output is
/// redirected.
pub fn is_stdout(path: &Path) -> bool {
    path == Path::new("-") || path == Path::new("/dev/stdout")
}

fn save_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let existing = match fs::metadata(path) {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if is_descriptor(path) || existing.as_ref().is_some_and(|found| !found.is_file()) {
        // Append, since a descriptor may refer to a file with contents.
        return OpenOptions::new().append(true).open(path)?.write_all(bytes);
    }
    if existing.is_none() && path.is_symlink() {
        // A link to a file that does not exist yet: there is nothing to protect.
        return File::create(path)?.write_all(bytes);
    }
    let target = match existing {
        Some(_) => fs::canonicalize(path)?,
        None => path.to_owned(),
    };
    match replace(&target, existing.as_ref(), |file| file.write_all(bytes)) {
        // The file is writable but its directory is not: write in place.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied && existing.is_some() => {
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

    #[test]
    fn a_new_file_has_the_bytes_and_no_temporary_file_is_left() {
        let dir = tempfile::tempdir().unwrap();
        save(dir.path().join("a.json"), b"one").unwrap();
        save(dir.path().join("a.json"), b"two").unwrap();
        assert_eq!(fs::read(dir.path().join("a.json")).unwrap(), b"two");
        assert_eq!(names(dir.path()), ["a.json"]);
    }

    #[test]
    fn an_existing_file_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        save(&path, b"new").unwrap();
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o640);
    }

    #[test]
    fn a_link_stays_a_link_whether_or_not_its_file_exists() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        symlink(&file, &link).unwrap();
        for bytes in [b"one", b"two"] {
            save(&link, bytes).unwrap();
            assert!(link.is_symlink());
            assert_eq!(fs::read(&file).unwrap(), bytes);
        }
        assert_eq!(names(dir.path()), ["file", "link"]);
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
    fn an_unwritable_path_is_rejected_beforehand() {
        let directory = tempfile::tempdir().unwrap();
        let there = directory.path();
        assert!(check_place(&there.join("new")).is_ok());
        assert!(check_place(Path::new("-")).is_ok());
        for bad in [there.to_owned(), there.join("no/such")] {
            let error = check_place(&bad).unwrap_err().to_string();
            assert!(error.contains(&bad.display().to_string()), "{error}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let error = save("/nonexistent/a.json", b"").unwrap_err();
        assert!(error.to_string().contains("/nonexistent/a.json"), "{error}");
    }
}
