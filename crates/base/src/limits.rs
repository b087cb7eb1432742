//! Resource limits of this process (getrlimit(2)).

use nix::libc::RLIM_INFINITY;
pub use nix::sys::resource::Resource;
use nix::sys::resource::getrlimit;

/// The soft value of a limit. `None` if there is none, or if a seccomp filter hides it.
pub fn soft_limit(resource: Resource) -> Option<u64> {
    let (soft, _) = getrlimit(resource).ok()?;
    (soft != RLIM_INFINITY).then_some(soft)
}
