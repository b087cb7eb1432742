//! The kernel's own benchmark: where it is, which layout it has, and one range
//! pinned by it.

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

/// Where debugfs belongs.
const DEBUGFS: &str = "/sys/kernel/debug";

/// What statfs(2) tells of a debugfs (DEBUGFS_MAGIC of linux/magic.h).
const DEBUGFS_MAGIC: rustix::fs::FsWord = 0x6462_6720;

/// The file's name since 5.11, and before.
const NAMES: [&str; 2] = ["gup_test", "gup_benchmark"];

/// Why there is no benchmark of the kernel's.
#[derive(Debug, thiserror::Error)]
pub enum Missing {
    /// No debugfs where it belongs.
    #[error(
        "debugfs is not mounted on {DEBUGFS}, where it would be \
         (as root: mount -t debugfs none {DEBUGFS})"
    )]
    NotMounted,
    /// An ordinary user.
    #[error("{0} may only be looked into by root")]
    NotAllowed(PathBuf),
    /// Root, and refused all the same.
    #[error(
        "{0} may not be opened, though this is root: a container without the capabilities, \
         or a kernel that is locked down"
    )]
    RootNotAllowed(PathBuf),
    /// Not built in.
    #[error(
        "{0} has neither gup_test nor gup_benchmark: this kernel was built without \
         CONFIG_GUP_TEST (before 5.11: CONFIG_GUP_BENCHMARK)"
    )]
    NotBuilt(PathBuf),
    /// It is there, and understands none of the layouts.
    #[error("{0} is there, but takes none of the arguments known here: a newer kernel's?")]
    NoKnownLayout(PathBuf),
    /// Anything else.
    #[error("{0}: {1}")]
    Failed(PathBuf, io::Error),
}

/// The kernel's own benchmark of get_user_pages_fast.
#[derive(Debug, Clone, Serialize)]
pub struct Kernel {
    /// Its file.
    pub file: PathBuf,
    /// How its argument is laid out.
    pub layout: &'static Layout,
    #[serde(skip)]
    gup: Rc<RefCell<dyn GupTest>>,
}

impl Kernel {
    /// Opens the file and finds out which layout it has.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find() -> Result<Kernel, Missing> {
        let mounted = rustix::fs::statfs(DEBUGFS).is_ok_and(|found| found.f_type == DEBUGFS_MAGIC);
        if !mounted {
            return Err(Missing::NotMounted);
        }
        let (file, gup) = open_in(Path::new(DEBUGFS))?;
        Kernel::new(file, gup)
    }

    /// Finds out the layout by pinning a few pages in each.
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
    /// When the call fails, or pins nothing or more than it was asked to.
    pub fn pin(&self, range: &[u8], pages_per_call: u32) -> io::Result<Reply> {
        let mut argument = Argument::new(self.layout, range, pages_per_call);
        self.gup.borrow_mut().fast_benchmark(&mut argument)?;
        let reply = argument.reply();
        if reply.bytes < page_size() as u64 {
            return Err(io::Error::other("the kernel pinned not a single page"));
        }
        if reply.bytes > range.len() as u64 {
            let what = "the kernel says it pinned more than it was asked to";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(reply)
    }
}

/// The benchmark answers EINVAL to numbers it does not know; what is not it,
/// ENOTTY.
fn is_unknown_call(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::INVAL | Errno::NOTTY))
}

fn open_in(directory: &Path) -> Result<(PathBuf, GupFile), Missing> {
    for name in NAMES {
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
    fn the_newer_name_comes_first_and_the_older_one_is_found_too() {
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
    fn a_directory_that_may_not_be_searched_asks_for_root() {
        if rustix::process::geteuid().is_root() {
            pipespeed_testing::skip("root may look everywhere");
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
    fn a_file_that_is_no_benchmark_has_no_known_layout() {
        let path = Path::new("/dev/null");
        let gup = GupFile::open(path).unwrap();
        let missing = Kernel::new(path.to_owned(), gup).unwrap_err();
        assert!(matches!(missing, Missing::NoKnownLayout(_)), "{missing}");
    }
}
