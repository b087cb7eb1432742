//! Regular files: replaced by renaming, or written in place.

use std::fs::{self, File, Metadata};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::attributes::copy_attributes;
use super::new_name::create_unused;
use pipespeed_base::failure::say;
use pipespeed_base::interrupt::without_signals;
use pipespeed_base::output::check_by_closing;
use pipespeed_host::Root;
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, Gid, IFlags, Mode, OFlags, RenameFlags, Stat,
    StatxAttributes, StatxFlags, fallocate, fchmod, fchown, fcntl_setfl, fstat, ioctl_getflags,
    openat, renameat, renameat_with, statat, statx, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;
use rustix::process::{Resource, geteuid, getpid, getrlimit};

/// The mode that open(2) gives a new file, less the umask.
const NEW: Mode = Mode::from_raw_mode(0o666);

/// Nobody else may open a file before it has the mode of the old one.
const PRIVATE: Mode = Mode::from_raw_mode(0o600);

/// A regular file, which may be new.
#[derive(Debug)]
pub(super) struct Regular {
    /// Its directory, which stays the same if it is moved.
    directory: OwnedFd,
    name: PathBuf,
    /// Whether a complete temporary file is renamed, so that readers see the old file or the new
    /// one. Otherwise the file itself is written: it belongs to another user, has other names, or
    /// can't be replaced in its directory.
    is_replaced: bool,
    /// Whether it had contents when it was opened.
    had_contents: bool,
}

impl Regular {
    /// Checks that the file can be saved, and decides how. It stays as it is.
    pub(super) fn open(directory: &Path, name: &Path) -> io::Result<Self> {
        let mut file = Regular {
            directory: open_directory(directory)?,
            name: name.to_owned(),
            is_replaced: true,
            had_contents: false,
        };
        file.is_replaced = file.may_replace()?;
        file.had_contents = file.existing()?.is_some_and(|old| old.st_size > 0);
        Ok(file)
    }

    fn may_replace(&self) -> io::Result<bool> {
        let can_create = check_directory(&self.directory);
        // Nothing can be renamed in an append-only directory, nor a temporary file removed.
        let can_rename = !self.has_attribute(".", StatxAttributes::APPEND);
        Ok(match self.existing()? {
            None => {
                can_create?;
                can_rename
            }
            Some(old) => {
                // Nothing else of it is tried: truncating a file at its end would change its times and its mode,
                // and cut off what another process adds meanwhile.
                self.open_existing()?;
                let is_mounted = self.has_attribute(&self.name, StatxAttributes::MOUNT_ROOT);
                can_create.is_ok()
                    && can_rename
                    && is_sole_and_own(&old)
                    && !is_mounted
                    && self.check_renaming().is_ok()
            }
        })
    }

    /// Checks that the file may be replaced, by renaming it to its own name, which does nothing
    /// (rename(2)). Where that is refused (by Landlock, say), a temporary file can't be removed,
    /// either.
    fn check_renaming(&self) -> io::Result<()> {
        let (directory, name) = (&self.directory, &self.name);
        Ok(renameat(directory, name, directory, name)?)
    }

    /// Saves the file, and returns it, open for [`append`]. A signal that ends the process comes before
    /// or after, so that it leaves no part of a file.
    pub(super) fn save(&self, bytes: &[u8]) -> io::Result<File> {
        without_signals(|| self.save_now(bytes))?
    }

    fn save_now(&self, bytes: &[u8]) -> io::Result<File> {
        if self.is_replaced {
            match self.replace(bytes) {
                Err(error) if may_write_in_place(&error) => {}
                outcome => return outcome,
            }
        }
        match self.open_existing() {
            Ok(file) => write_in_place(&file, bytes).map(|()| file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(bytes),
            Err(error) => Err(error),
        }
    }

    /// Saves the file if nothing has its name, and returns it as [`save`](Self::save) does.
    ///
    /// # Errors
    /// EEXIST: the name is taken.
    pub(super) fn save_new(&self, bytes: &[u8]) -> io::Result<File> {
        without_signals(|| match self.place_new(bytes) {
            // Not every file system can rename without replacing (renameat2(2)).
            Err(error) if may_write_in_place(&error) => self.create(bytes),
            outcome => outcome,
        })?
    }

    fn place_new(&self, bytes: &[u8]) -> io::Result<File> {
        let (temporary, mut file) = Unfinished::temporary(&self.directory, NEW)?;
        file.write_all(bytes)?;
        check_by_closing(&file)?;
        temporary.rename_new(&self.name)?;
        Ok(file)
    }

    /// Creates the file under its own name.
    fn create(&self, bytes: &[u8]) -> io::Result<File> {
        let (created, mut file) = Unfinished::create(&self.directory, self.name.clone(), NEW)?;
        file.write_all(bytes)?;
        check_by_closing(&file)?;
        created.keep();
        Ok(file)
    }

    fn replace(&self, bytes: &[u8]) -> io::Result<File> {
        let old = match self.open_existing() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened?),
        };
        let mode = if old.is_some() {
            self.check_renaming()?;
            PRIVATE
        } else {
            NEW
        };
        let (temporary, mut file) = Unfinished::temporary(&self.directory, mode)?;
        if let Some(old) = old {
            take_on(&file, &old)?;
        }
        file.write_all(bytes)?;
        check_by_closing(&file)?;
        temporary.rename(&self.name)?;
        Ok(file)
    }

    /// What is there now.
    fn existing(&self) -> io::Result<Option<Stat>> {
        match statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Opens the file for writing; for reading, too, if that is allowed.
    fn open_existing(&self) -> io::Result<File> {
        // Something else may be there meanwhile: a link to a file that is none of ours, a FIFO.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let open = |mode| openat(&self.directory, &self.name, flags | mode, Mode::empty());
        let file = match open(OFlags::RDWR) {
            Err(Errno::ACCESS) => open(OFlags::WRONLY)?,
            // A socket can't be opened.
            Err(Errno::NXIO) => return Err(no_longer_regular()),
            opened => opened?,
        };
        require_regular(&fstat(&file)?)?;
        Ok(file.into())
    }

    /// Its path, if that is no longer `path`, since the directory was moved.
    pub(super) fn moved_path(&self, path: &Path) -> Option<PathBuf> {
        let saved = statat(&self.directory, &self.name, AtFlags::empty()).ok()?;
        let is_saved = |found: Metadata| (found.dev(), found.ino()) == (saved.st_dev, saved.st_ino);
        if fs::metadata(path).is_ok_and(is_saved) {
            return None;
        }
        Some(path_of(&self.directory).ok()?.join(&self.name))
    }

    /// Whether this file, which was saved, can be found neither by `path` nor where the directory is now.
    pub(super) fn is_out_of_reach(&self, saved: &File, path: &Path) -> bool {
        let Ok(saved) = fstat(saved) else {
            return false;
        };
        let is_missing = |path: &Path| match fs::metadata(path) {
            Ok(found) => (found.dev(), found.ino()) != (saved.st_dev, saved.st_ino),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        };
        let now = || path_of(&self.directory).map(|directory| directory.join(&self.name));
        is_missing(path) && now().is_ok_and(|now| is_missing(&now))
    }

    /// Whether a file of the directory has an attribute, as far as it can be known: that it is a
    /// mount point not before Linux 5.8.
    fn has_attribute(&self, name: impl Arg, attribute: StatxAttributes) -> bool {
        let (flags, mask) = (AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BASIC_STATS);
        statx(&self.directory, name, flags, mask)
            .is_ok_and(|found| found.stx_attributes.contains(attribute))
    }

    /// Whether this file, which was saved, is still there; true if that can't be known.
    pub(super) fn is_still(&self, saved: &File) -> bool {
        match (self.existing(), fstat(saved)) {
            (Ok(None), _) => false,
            (Ok(Some(now)), Ok(saved)) => (now.st_dev, now.st_ino) == (saved.st_dev, saved.st_ino),
            _ => true,
        }
    }

    /// Adds a part to the file that has taken the place of one that was saved, and returns it.
    pub(super) fn append_anew(&self, bytes: &[u8]) -> io::Result<File> {
        let file = self.open_existing()?;
        append(&file, bytes).map(|()| file)
    }

    /// Whether saving would have destroyed something when the file was opened.
    pub(super) fn had_contents(&self) -> bool {
        self.had_contents
    }

    /// Whether nothing is there yet.
    pub(super) fn is_new(&self) -> bool {
        !matches!(self.existing(), Ok(Some(_)))
    }

    /// Whether both have the same name in the same directory.
    pub(super) fn is_same_name(&self, other: &Self) -> bool {
        let inode = |directory| {
            fstat(directory)
                .map(|found| (found.st_dev, found.st_ino))
                .ok()
        };
        self.name == other.name && inode(&self.directory) == inode(&other.directory)
    }

    /// The device and the inode number, if it exists.
    pub(super) fn inode(&self) -> Option<(u64, u64)> {
        let found = self.existing().ok()??;
        Some((found.st_dev, found.st_ino))
    }
}

/// Checks that what is there now is a regular file.
///
/// # Errors
/// ELOOP if it is a symbolic link, as that of open(2) with O_NOFOLLOW.
fn require_regular(file: &Stat) -> io::Result<()> {
    match FileType::from_raw_mode(file.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(Errno::LOOP.into()),
        _ => Err(no_longer_regular()),
    }
}

/// The error for what has taken the place of a regular file.
pub(super) fn no_longer_regular() -> io::Error {
    io::Error::other("it is no longer a regular file")
}

/// Whether nobody would notice that a file is another one than before.
fn is_sole_and_own(file: &Stat) -> bool {
    file.st_uid == geteuid().as_raw() && file.st_nlink == 1 && !may_stand_for_others(file.st_uid)
}

/// Whether a number may stand for users, or groups, that have none in this namespace
/// (user_namespaces(7)).
fn may_stand_for_others(id: u32) -> bool {
    let root = Root::default();
    let is_overflow = |name| root.number(format!("proc/sys/kernel/{name}")) == Some(i64::from(id));
    let is_any = is_overflow("overflowuid") || is_overflow("overflowgid");
    is_any && !root.in_first_user_namespace()
}

/// Whether replacing a file failed for a reason that writing it in place may not have: the
/// directory is closed to this user or read-only, the file is a mount point or not one's own,
/// there is no room for a second file, or it can't be renamed there.
fn may_write_in_place(error: &io::Error) -> bool {
    let Some(errno) = Errno::from_io_error(error) else {
        return false;
    };
    let refused = [Errno::ACCESS, Errno::PERM, Errno::ROFS, Errno::BUSY];
    let unable = [Errno::NOSPC, Errno::DQUOT, Errno::INVAL, Errno::NOSYS];
    refused.contains(&errno) || unable.contains(&errno)
}

/// Opens a directory, which need not be readable.
pub(super) fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}

/// The path of an open directory.
fn path_of(directory: &OwnedFd) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", directory.as_raw_fd()))
}

/// Checks that a file can be created in a directory.
pub(super) fn check_directory(directory: &OwnedFd) -> io::Result<()> {
    // The error of creating a file there depends on the file system: EPERM, say.
    if fstat(directory)?.st_nlink == 0 {
        return Err(io::Error::other("the directory was removed"));
    }
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    // It has no name, so not even a signal leaves it behind.
    match openat(directory, ".", flags, PRIVATE) {
        // Some file systems don't have it (open(2)).
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
            Unfinished::temporary(directory, PRIVATE).map(drop)
        }
        opened => Ok(opened.map(drop)?),
    }
}

/// A new file that is removed on drop, unless it was renamed or is to be kept.
#[derive(Debug)]
struct Unfinished<'a> {
    directory: &'a OwnedFd,
    /// `None` once it is not to be removed.
    name: Option<PathBuf>,
}

impl<'a> Unfinished<'a> {
    /// Creates a file with a name that no other has.
    fn temporary(directory: &'a OwnedFd, mode: Mode) -> io::Result<(Self, File)> {
        let pid = getpid().as_raw_pid();
        create_unused(|_| {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            let nanoseconds = now.unwrap_or_default().as_nanos();
            let name = format!(".pipespeed-{pid}-{nanoseconds}");
            Unfinished::create(directory, name.into(), mode)
        })
    }

    fn create(directory: &'a OwnedFd, name: PathBuf, mode: Mode) -> io::Result<(Self, File)> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        match openat(directory, &name, flags, mode) {
            Ok(file) => {
                let name = Some(name);
                Ok((Unfinished { directory, name }, file.into()))
            }
            Err(errno) => {
                // Landlock may let it be created and not be opened. One that was there before is
                // EEXIST.
                if errno == Errno::ACCESS && is_empty_and_own(directory, &name) {
                    remove(directory, &name);
                }
                Err(errno.into())
            }
        }
    }

    fn rename(self, name: &Path) -> io::Result<()> {
        if let Some(old) = &self.name {
            renameat(self.directory, old, self.directory, name)?;
        }
        self.keep();
        Ok(())
    }

    /// Renames the file unless the name is taken (EEXIST).
    fn rename_new(self, name: &Path) -> io::Result<()> {
        if let Some(old) = &self.name {
            let flags = RenameFlags::NOREPLACE;
            renameat_with(self.directory, old, self.directory, name, flags)?;
        }
        self.keep();
        Ok(())
    }

    fn keep(mut self) {
        self.name = None;
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            remove(self.directory, name);
        }
    }
}

/// Removes an unfinished file, or says that it stays: Landlock, say, may let it be created only.
fn remove(directory: &OwnedFd, name: &Path) {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(errno) => {
            let path = path_of(directory).unwrap_or_default().join(name);
            say_if_left(&path, Err(errno.into()));
        }
    }
}

/// Says that an unfinished file was not removed.
pub(super) fn say_if_left(path: &Path, removed: io::Result<()>) {
    if let Err(error) = removed {
        say(&format!(
            "pipespeed: an unfinished file could not be removed: {}: {error}",
            path.display()
        ));
    }
}

fn is_empty_and_own(directory: &OwnedFd, name: &Path) -> bool {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|found| found.st_size == 0 && is_sole_and_own(&found))
}

/// Takes on the group, the attributes and the mode of a file that is to be replaced.
///
/// # Errors
/// EPERM: it must not be replaced.
fn take_on(file: &File, old: &File) -> io::Result<()> {
    Ok(try_take_on(file, old).map_err(|_| Errno::PERM)?)
}

fn try_take_on(file: &File, old: &File) -> rustix::io::Result<()> {
    let found = fstat(old)?;
    let is_own = is_sole_and_own(&found) && !may_stand_for_others(found.st_gid);
    if !is_own || lasting_flags(file) != lasting_flags(old) {
        return Err(Errno::PERM);
    }
    // Before the mode, since these change bits of it (chown(2), acl(5)).
    if fstat(file)?.st_gid != found.st_gid {
        fchown(file, None, Some(Gid::from_raw(found.st_gid)))?;
    }
    copy_attributes(old, file)?;
    fchmod(file, Mode::from_raw_mode(found.st_mode))
}

/// The flags that chattr(1) sets; none where the file system has none.
fn lasting_flags(file: &File) -> IFlags {
    let flags = ioctl_getflags(file).unwrap_or(IFlags::empty());
    flags & IFlags::all()
}

/// Replaces the contents of a file. Reserves the room first, and writes the old contents again
/// if the new ones can't be written all the same.
fn write_in_place(file: &File, bytes: &[u8]) -> io::Result<()> {
    let (old, new) = (file.metadata()?.len(), bytes.len() as u64);
    let limit = getrlimit(Resource::Fsize).current;
    if limit.is_some_and(|limit| new > limit) {
        return Err(Errno::FBIG.into());
    }
    if new < old {
        // A shorter text would leave the end of the old one where that is refused.
        cut(file, old)?;
    }
    // What is behind the new contents is cut off only in the end.
    let mut kept = vec![0; old.min(new) as usize];
    let is_kept = file.read_exact_at(&mut kept, 0).is_ok();
    let reserve = || fallocate(file, FallocateFlags::KEEP_SIZE, 0, new.max(1));
    let reserved = retry_on_intr(reserve);
    // Where nothing is known of the room, only what was read can be written again.
    let is_at_risk = reserved.is_err() && !is_kept;
    if let Err(errno) = reserved
        && (is_at_risk || matches!(errno, Errno::NOSPC | Errno::DQUOT))
    {
        // A part may have been reserved.
        let _ = file.set_len(old);
        return Err(errno.into());
    }
    let mut written = 0;
    let mut outcome = write_counted(file, bytes, &mut written);
    if reserved.is_err() {
        // Unknown to the file system, which may find out later that there is no room.
        outcome = outcome.and_then(|()| file.sync_data());
    }
    // Some file systems find out only when it is closed. What is cut off can't come back.
    let written_all = outcome.and_then(|()| check_by_closing(file));
    let Err(error) = written_all.and_then(|()| if new < old { cut(file, new) } else { Ok(()) })
    else {
        return Ok(());
    };
    let overwritten = &kept[..written.min(kept.len())];
    let is_restored =
        overwritten.is_empty() || is_kept && file.write_all_at(overwritten, 0).is_ok();
    // Gives the reserved room back, too.
    let is_cut = file.set_len(old).is_ok() || file.metadata().is_ok_and(|now| now.len() == old);
    if is_restored && is_cut {
        return Err(error);
    }
    let message = format!("{error}; its old contents are damaged");
    Err(io::Error::new(error.kind(), message))
}

/// Writes at the beginning of a file, and counts the bytes, also of a failure.
fn write_counted(file: &File, bytes: &[u8], written: &mut usize) -> io::Result<()> {
    while *written < bytes.len() {
        match file.write_at(&bytes[*written..], *written as u64) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => *written += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Cuts off what is behind a length.
///
/// # Errors
/// Landlock, say, refuses it.
fn cut(file: &File, len: u64) -> io::Result<()> {
    let cut = file.set_len(len);
    cut.map_err(|error| io::Error::new(error.kind(), format!("it can't be truncated: {error}")))
}

/// Adds a part at the end of a file, or nothing.
pub(super) fn append(file: &File, bytes: &[u8]) -> io::Result<()> {
    // Another process may have shortened it.
    fcntl_setfl(file, OFlags::APPEND)?;
    let before = file.metadata()?.len();
    let mut rest = bytes;
    while !rest.is_empty() {
        match (&*file).write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => rest = &rest[count..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let written = (bytes.len() - rest.len()) as u64;
                // Another process may have added a part of its own.
                if written > 0 && file.metadata()?.len() == before + written {
                    file.set_len(before)?;
                }
                return Err(error);
            }
        }
    }
    Ok(())
}
