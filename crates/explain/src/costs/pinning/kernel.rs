//! The kernel's own benchmark: its file, its layout, and calls of it.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fastpipe::buffer::Buffer;
use fastpipe::pipe::page_size;
use rustix::io::Errno;
use serde::Serialize;

use super::GupTest;
use super::ioctl::GupFile;
use super::layout::{Argument, LAYOUTS, Layout, Reply};

/// The usual mount point of debugfs.
const DEBUGFS: &str = "/sys/kernel/debug";

/// The type of a debugfs in statfs(2) (DEBUGFS_MAGIC in linux/magic.h).
const DEBUGFS_MAGIC: rustix::fs::FsWord = 0x6462_6720;

/// The name of the file since Linux 5.11, and before.
const FILE_NAMES: [&str; 2] = ["gup_test", "gup_benchmark"];

/// Why the kernel's own benchmark can't be used.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// debugfs is not mounted on its usual mount point.
    #[error("debugfs is not mounted (as root: mount -t debugfs none {DEBUGFS})")]
    NotMounted,
    /// This user is not root.
    #[error("only root may read {0}")]
    NotAllowed(PathBuf),
    /// Even root is refused.
    #[error(
        "root may not open {0}: this container lacks the capabilities, or the kernel is \
         locked down"
    )]
    RootNotAllowed(PathBuf),
    /// The kernel was built without it.
    #[error(
        "{0} contains neither gup_test nor gup_benchmark: this kernel was built without \
         CONFIG_GUP_TEST (before 5.11: CONFIG_GUP_BENCHMARK)"
    )]
    NotBuilt(PathBuf),
    /// It accepts none of the layouts.
    #[error("{0} accepts none of the known arguments; the kernel may be too new for this program")]
    NoKnownLayout(PathBuf),
    /// Another error.
    #[error("{0}: {1}")]
    Failed(PathBuf, io::Error),
}

/// The kernel's own benchmark of get_user_pages_fast.
#[derive(Debug, Clone, Serialize)]
pub struct Kernel {
    /// The file.
    pub file: PathBuf,
    /// The layout of its argument.
    pub layout: &'static Layout,
    #[serde(skip)]
    gup: Rc<RefCell<dyn GupTest>>,
}

impl Kernel {
    /// Opens the file and detects its layout.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn find() -> Result<Kernel, Missing> {
        let mounted = rustix::fs::statfs(DEBUGFS).is_ok_and(|found| found.f_type == DEBUGFS_MAGIC);
        if !mounted {
            return Err(Missing::NotMounted);
        }
        let (file, gup) = open_in(Path::new(DEBUGFS))?;
        Kernel::new(file, gup)
    }

    /// Detects the layout by trying each of them on a few pages.
    pub(super) fn new(file: PathBuf, mut gup: impl GupTest + 'static) -> Result<Kernel, Missing> {
        let failed = |error| Missing::Failed(file.clone(), error);
        let range = Buffer::builder()
            .len(16 * page_size())
            .map()
            .map_err(|error| failed(error.into()))?;
        for layout in &LAYOUTS {
            match gup.fast_benchmark(&mut Argument::new(layout, &range, 16)) {
                Ok(()) => {
                    let gup = Rc::new(RefCell::new(gup));
                    return Ok(Kernel { file, layout, gup });
                }
                Err(error) if is_unknown_call(&error) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(Missing::NoKnownLayout(file))
    }

    /// Pins all of `range`, `pages_per_call` pages at a time, and releases it.
    ///
    /// # Errors
    /// The call fails, or pins nothing, or more than requested.
    pub fn pin(&self, range: &[u8], pages_per_call: u32) -> io::Result<Reply> {
        let mut argument = Argument::new(self.layout, range, pages_per_call);
        self.gup.borrow_mut().fast_benchmark(&mut argument)?;
        let reply = argument.reply();
        if reply.bytes < page_size() as u64 {
            return Err(io::Error::other("the kernel pinned no pages"));
        }
        if reply.bytes > range.len() as u64 {
            let what = "the kernel reports that it pinned more than requested";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(reply)
    }
}

/// Whether an error means an unknown ioctl number: EINVAL from the benchmark, ENOTTY from
/// other files.
fn is_unknown_call(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::INVAL | Errno::NOTTY))
}

fn open_in(directory: &Path) -> Result<(PathBuf, GupFile), Missing> {
    for name in FILE_NAMES {
        let path = directory.join(name);
        let is_root = rustix::process::geteuid().is_root();
        match GupFile::open(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound => {}
                io::ErrorKind::PermissionDenied if is_root => {
                    return Err(Missing::RootNotAllowed(path));
                }
                io::ErrorKind::PermissionDenied => {
                    return Err(Missing::NotAllowed(directory.to_owned()));
                }
                _ => return Err(Missing::Failed(path, error)),
            },
        }
    }
    Err(Missing::NotBuilt(directory.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_file_names_are_found_the_newer_one_first() {
        let directory = tempfile::tempdir().unwrap();
        let found = || open_in(directory.path()).map(|(path, _)| path);
        let error = found().unwrap_err().to_string();
        assert!(error.contains("CONFIG_GUP_TEST"), "{error}");
        for name in ["gup_benchmark", "gup_test"] {
            let path = directory.path().join(name);
            std::fs::write(&path, "").unwrap();
            assert_eq!(found().unwrap(), path);
        }
    }

    #[test]
    fn an_unsearchable_directory_asks_for_root() {
        if rustix::process::geteuid().is_root() {
            pipespeed_testing::skip("root may search every directory");
            return;
        }
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let closed = std::fs::Permissions::from_mode(0o0);
        std::fs::set_permissions(directory.path(), closed).unwrap();
        let refused = open_in(directory.path()).unwrap_err();
        let open = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(directory.path(), open).unwrap();
        assert!(matches!(refused, Missing::NotAllowed(_)), "{refused}");
        assert!(refused.to_string().contains("root"));
    }

    #[test]
    fn another_file_has_no_known_layout() {
        let path = Path::new("/dev/null");
        let gup = GupFile::open(path).unwrap();
        let missing = Kernel::new(path.to_owned(), gup).unwrap_err();
        assert!(matches!(missing, Missing::NoKnownLayout(_)), "{missing}");
    }
}
