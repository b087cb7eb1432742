//! The kernel's own benchmark: its file, and calls of it.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fastpipe::buffer::Buffer;
use fastpipe::pipe::page_size;
use rustix::io::Errno;
use serde::Serialize;

use super::GupTest;
use super::ioctl::{Argument, GupFile, Reply};

/// The usual mount point of debugfs.
const DEBUGFS: &str = "/sys/kernel/debug";

/// The type of a debugfs in statfs(2) (DEBUGFS_MAGIC in linux/magic.h).
const DEBUGFS_MAGIC: rustix::fs::FsWord = 0x6462_6720;

/// The name of the file.
const FILE_NAME: &str = "gup_test";

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
    /// The kernel is older, or was built without it.
    #[error(
        "{0} contains no gup_test: this kernel is older than Linux 5.13, or was built without \
         CONFIG_GUP_TEST"
    )]
    NotBuilt(PathBuf),
    /// It has another argument.
    #[error(
        "{0} does not accept the argument that it has since Linux 5.13: this kernel is older, or \
         too new for this program"
    )]
    OtherArgument(PathBuf),
    /// Another error.
    #[error("{0}: {1}")]
    Failed(PathBuf, io::Error),
}

/// The kernel's own benchmark of get_user_pages_fast.
#[derive(Debug, Clone, Serialize)]
pub struct GupBenchmark {
    /// The file.
    pub file: PathBuf,
    #[serde(skip)]
    gup: Rc<RefCell<dyn GupTest>>,
}

impl GupBenchmark {
    /// Opens the file and tries a call.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn find() -> Result<GupBenchmark, Missing> {
        let mounted = rustix::fs::statfs(DEBUGFS).is_ok_and(|found| found.f_type == DEBUGFS_MAGIC);
        if !mounted {
            return Err(Missing::NotMounted);
        }
        let (file, gup) = open_in(Path::new(DEBUGFS))?;
        GupBenchmark::new(file, gup)
    }

    /// Tries a call on a few pages.
    pub(super) fn new(
        file: PathBuf,
        mut gup: impl GupTest + 'static,
    ) -> Result<GupBenchmark, Missing> {
        let range = match Buffer::builder().len(16 * page_size()).map() {
            Ok(range) => range,
            Err(error) => return Err(Missing::Failed(file, error.into())),
        };
        match gup.fast_benchmark(&mut Argument::new(&range, 16)) {
            Ok(()) => {
                let gup = Rc::new(RefCell::new(gup));
                Ok(GupBenchmark { file, gup })
            }
            Err(error) if is_unknown_call(&error) => Err(Missing::OtherArgument(file)),
            Err(error) => Err(Missing::Failed(file, error)),
        }
    }

    /// Pins all of `range`, `pages_per_call` pages at a time, and releases it.
    ///
    /// # Errors
    /// The call fails, or pins nothing, or more than requested.
    pub fn pin(&self, range: &[u8], pages_per_call: u32) -> io::Result<Reply> {
        let mut argument = Argument::new(range, pages_per_call);
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
    let path = directory.join(FILE_NAME);
    let is_root = rustix::process::geteuid().is_root();
    match GupFile::open(&path) {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(match error.kind() {
            io::ErrorKind::NotFound => Missing::NotBuilt(directory.to_owned()),
            io::ErrorKind::PermissionDenied if is_root => Missing::RootNotAllowed(path),
            io::ErrorKind::PermissionDenied => Missing::NotAllowed(directory.to_owned()),
            _ => Missing::Failed(path, error),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pipespeed_testing::says;

    #[test]
    fn the_file_of_older_kernels_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let found = || open_in(directory.path()).map(|(path, _)| path);
        std::fs::write(directory.path().join("gup_benchmark"), "").unwrap();
        let error = found().unwrap_err().to_string();
        says(&error, &["CONFIG_GUP_TEST", "older than Linux 5.13"]);
        let path = directory.path().join("gup_test");
        std::fs::write(&path, "").unwrap();
        assert_eq!(found().unwrap(), path);
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
    fn another_argument_is_an_older_kernels() {
        let path = Path::new("/dev/null");
        let gup = GupFile::open(path).unwrap();
        let missing = GupBenchmark::new(path.to_owned(), gup).unwrap_err();
        assert!(matches!(missing, Missing::OtherArgument(_)), "{missing}");
        says(missing.to_string(), &["since Linux 5.13"]);
    }
}
