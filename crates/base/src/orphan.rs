//! Processes that are no children of this one.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, setsid};

/// Runs `work` in a copy of this process, and returns while it runs. The copy is no child of
/// this process, belongs to a session without a terminal, and has the same descriptors (see
/// [`close_inherited`](crate::standard::close_inherited)). It ends with `work`, and drops
/// nothing else.
///
/// That takes a fraction of the time in which a program of our size starts.
///
/// # Errors
/// `Unsupported` if this process has several threads: the copy would have only one of them,
/// and perhaps locks of the others. Those of fork(2).
pub fn run_orphan(work: impl FnOnce()) -> io::Result<()> {
    if fs::read_dir("/proc/self/task")?.count() > 1 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: there is one thread, so the child holds no lock of another.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => wait(child),
        ForkResult::Child => {
            // It fails only for the leader of a process group, which a new process is not.
            let _ = setsid();
            // SAFETY: as above.
            let errno = match unsafe { fork() } {
                Ok(ForkResult::Parent { .. }) => 0,
                Ok(ForkResult::Child) => {
                    // A panic must not get to the caller, who goes on in the other process.
                    let _ = catch_unwind(AssertUnwindSafe(work));
                    0
                }
                Err(errno) => errno as i32,
            };
            // SAFETY: it ends the process at once.
            unsafe { libc::_exit(errno) }
        }
    }
}

/// Waits for the process that starts the orphan. It exits with the number of its error.
fn wait(starter: Pid) -> io::Result<()> {
    loop {
        match waitpid(starter, None) {
            Ok(WaitStatus::Exited(_, 0)) => return Ok(()),
            Ok(WaitStatus::Exited(_, errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Ok(_) => return Err(io::Error::other("its starter was killed")),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_several_threads_is_refused() {
        let outcome = std::thread::scope(|scope| {
            let thread = scope.spawn(|| run_orphan(|| panic!("it runs")));
            thread.join().unwrap()
        });
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
