//! A double fork: a process that is nobody's child.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::SigSet;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, setsid};
use rustix::{stdio, thread};

use crate::standard;

/// Forks twice. `prepare` runs in the child, and what it returns runs in the grandchild: a
/// process in a session without a terminal, which exits when the work is done and runs no
/// destructors. The child has exited on return, so what `prepare` closes is closed.
///
/// That takes a fraction of the time in which a program of our size starts.
///
/// # Errors
/// `Unsupported` if this process has several threads: a fork has only one of them, and
/// perhaps locks of the others. Also if its next child would be process 1 of a PID namespace, which ends with
/// that child. Those of `prepare` and of fork(2).
pub fn run_orphan<W: FnOnce()>(prepare: impl FnOnce() -> io::Result<W>) -> io::Result<()> {
    if fs::read_dir("/proc/self/task")?.count() > 1 || starts_namespace() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    // SAFETY: there is one thread, so the child holds no lock of another.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => wait(child),
        ForkResult::Child => {
            // A panic must not get to the caller, who goes on in the other process.
            let outcome = catch_unwind(AssertUnwindSafe(|| fork_again(prepare)));
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

/// Whether the next child is the first process of a PID namespace (pid_namespaces(7)): of one that has no process
/// yet, the link can't be read.
pub fn starts_namespace() -> bool {
    let children = Path::new("/proc/self/ns/pid_for_children");
    children.symlink_metadata().is_ok()
        && children
            .read_link()
            .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Whether children would belong to another PID namespace than this process, in which no process can start any
/// more once the first one has ended.
pub(crate) fn namespace_has_ended() -> bool {
    let link = |name: &str| Path::new("/proc/self/ns").join(name).read_link().ok();
    let of_children = link("pid_for_children");
    of_children.is_some() && of_children != link("pid")
}

/// Gives up the name, the directory and all descriptors but these of the process that was copied. For `prepare` of
/// [`run_orphan`].
///
/// # Errors
/// There is no /dev/null, or no name can be set.
pub fn leave_all_but(kept: &[BorrowedFd<'_>], name: &CStr) -> io::Result<()> {
    let null = File::options().read(true).write(true).open("/dev/null")?;
    stdio::dup2_stdin(&null)?;
    stdio::dup2_stdout(&null)?;
    stdio::dup2_stderr(&null)?;
    drop(null);
    standard::close_inherited(kept);
    std::env::set_current_dir("/")?;
    // The process that is forked next inherits it.
    Ok(thread::set_name(name)?)
}

/// Blocks all signals but SIGKILL and SIGSTOP: their handlers would write to descriptors of the process that was
/// copied. For `prepare` of [`run_orphan`].
///
/// # Errors
/// Those of sigprocmask(2).
pub fn block_signals() -> io::Result<()> {
    Ok(SigSet::all().thread_block()?)
}

/// Runs in the child, and returns in the grandchild once the work is done.
fn fork_again<W: FnOnce()>(prepare: impl FnOnce() -> io::Result<W>) -> io::Result<()> {
    let work = prepare()?;
    setsid()?;
    // SAFETY: a forked process has one thread.
    if unsafe { fork() }?.is_child() {
        work();
    }
    Ok(())
}

/// Waits for the child, which exits with the number of its error.
fn wait(child: Pid) -> io::Result<()> {
    loop {
        match waitpid(child, None) {
            Ok(WaitStatus::Exited(_, 0)) => return Ok(()),
            Ok(WaitStatus::Exited(_, errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Ok(_) => return Err(io::Error::other("the forked child was killed")),
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
