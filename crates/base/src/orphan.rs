//! Processes that are no children of this one.
#![allow(unsafe_code)]

use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nix::errno::Errno;
use nix::libc;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, setsid};

/// Copies this process twice. `prepare` runs in the first copy, and what it returns runs in
/// the second: no child of this process, in a session without a terminal, which ends with it
/// and drops nothing else. This process waits for the first copy, so what `prepare` closes is
/// closed on return.
///
/// That takes a fraction of the time in which a program of our size starts.
///
/// # Errors
/// `Unsupported` if this process has several threads: a copy would have only one of them, and
/// perhaps locks of the others. Those of `prepare` and of fork(2).
pub fn run_orphan<W: FnOnce()>(prepare: impl FnOnce() -> io::Result<W>) -> io::Result<()> {
    if fs::read_dir("/proc/self/task")?.count() > 1 {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: there is one thread, so the child holds no lock of another.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => wait(child),
        ForkResult::Child => {
            // A panic must not get to the caller, who goes on in the other process.
            let outcome = catch_unwind(AssertUnwindSafe(|| copy_again(prepare)));
            let status = match outcome {
                Ok(Ok(())) => 0,
                Ok(Err(error)) => error.raw_os_error().unwrap_or(libc::EIO),
                Err(_) => libc::EIO,
            };
            // SAFETY: it ends the process at once.
            unsafe { libc::_exit(status) }
        }
    }
}

/// In the first copy, and in the second, where it returns once the work is done.
fn copy_again<W: FnOnce()>(prepare: impl FnOnce() -> io::Result<W>) -> io::Result<()> {
    let work = prepare()?;
    setsid()?;
    // SAFETY: a copy has one thread.
    if unsafe { fork() }?.is_child() {
        work();
    }
    Ok(())
}

/// Waits for the first copy, which exits with the number of its error.
fn wait(copy: Pid) -> io::Result<()> {
    loop {
        match waitpid(copy, None) {
            Ok(WaitStatus::Exited(_, 0)) => return Ok(()),
            Ok(WaitStatus::Exited(_, errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Ok(_) => return Err(io::Error::other("its copy was killed")),
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
            let thread = scope.spawn(|| run_orphan(|| Ok(|| panic!("it runs"))));
            thread.join().unwrap()
        });
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::Unsupported);
    }
}
