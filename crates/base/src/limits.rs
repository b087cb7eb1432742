//! Resource limits of this process (getrlimit(2)).

use std::fs::File;
use std::io;

use nix::libc::RLIM_INFINITY;
pub use nix::sys::resource::Resource;
use nix::sys::resource::getrlimit;

/// The soft value of a limit. `None` if there is none, or if a seccomp filter hides it.
pub fn soft_limit(resource: Resource) -> Option<u64> {
    let (soft, _) = getrlimit(resource).ok()?;
    (soft != RLIM_INFINITY).then_some(soft)
}

/// Checks that this process can open `count` more files. With fewer, files of /proc can't be opened, and their
/// processes seem to have ended.
///
/// # Errors
/// Those of open(2) and dup(2): EMFILE if the limit is too low.
pub fn check_descriptors(count: usize) -> io::Result<()> {
    // It is always there.
    let root = File::open("/")?;
    let all = (1..count).map(|_| root.try_clone());
    all.collect::<io::Result<Vec<_>>>().map(drop)
}
