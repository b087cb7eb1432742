//! System calls that rustix lacks.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;

/// The page faults of this thread that needed no disk (getrusage(2)).
pub(crate) fn minor_faults() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writing a rusage.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // It can't fail with these arguments; zeroes would be initialised too.
    debug_assert_eq!(result, 0);
    // SAFETY: all zeroes, or written by the kernel.
    unsafe { usage.assume_init() }.ru_minflt as u64
}

/// How [`duplicate_memory`] went about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicated {
    /// By a process that the kernel refused to make only after it had
    /// duplicated the memory for it.
    Refused,
    /// By a process that was made, did nothing, and was reaped.
    Reaped,
}

/// Has the kernel duplicate this process's memory, copy on write, and drop the
/// duplicate again.
///
/// What stays is that no private page counts as this process's own any more:
/// the next write to each faults, and the kernel then copies the page unless
/// nobody else refers to it (Linux 5.19 and later, do_wp_page).
///
/// No process is needed for that. clone3(2) duplicates the memory (copy_mm)
/// before it looks at the wish for a certain process number (alloc_pid), and a
/// number that is taken is refused, with EEXIST, or with EPERM for lack of
/// privilege. Where clone3 is not to be had, or succeeds (in a process whose
/// children are numbered apart), a child is made that exits at once; it sends
/// no signal, and only a wait for it by number finds it.
///
/// # Errors
/// Those of clone(2): EAGAIN at a limit on processes, EPERM or ENOSYS by a
/// seccomp filter, ENOMEM.
pub(crate) fn duplicate_memory() -> io::Result<Duplicated> {
    let taken: libc::pid_t = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: all zeroes is a valid clone_args: no flag, no signal, no stack.
    let mut wish: libc::clone_args = unsafe { MaybeUninit::zeroed().assume_init() };
    // Not worth copying for a process that is not to be.
    wish.flags = (libc::CLONE_FS | libc::CLONE_FILES) as u64;
    wish.set_tid = (&raw const taken).addr() as u64;
    wish.set_tid_size = 1;
    // SAFETY: the arguments are valid and outlive the call. Without CLONE_VM
    // a child, if there is one after all, has memory of its own.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            &raw const wish,
            size_of::<libc::clone_args>(),
        )
    };
    match outcome {
        0 => exit_at_once(),
        -1 => {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EEXIST | libc::EPERM) => Ok(Duplicated::Refused),
                Some(libc::ENOSYS | libc::EINVAL | libc::E2BIG) => with_a_child(),
                _ => Err(error),
            }
        }
        child => reap(child as libc::pid_t),
    }
}

fn with_a_child() -> io::Result<Duplicated> {
    let flags = (libc::CLONE_FS | libc::CLONE_FILES) as libc::c_long;
    // SAFETY: without CLONE_VM the child has memory of its own, and it calls
    // nothing but exit_group. The zeroes (no stack, no ids) mean the same in
    // whatever order the architecture takes them.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) } {
        0 => exit_at_once(),
        -1 => Err(io::Error::last_os_error()),
        child => reap(child as libc::pid_t),
    }
}

/// Ends a child without running anything that the parent's memory holds.
fn exit_at_once() -> ! {
    loop {
        // SAFETY: it takes a number and does not return.
        unsafe { libc::syscall(libc::SYS_exit_group, 0) };
    }
}

fn reap(child: libc::pid_t) -> io::Result<Duplicated> {
    loop {
        // SAFETY: no status is wanted. __WALL: the child sends no signal.
        let reaped = unsafe { libc::waitpid(child, std::ptr::null_mut(), libc::__WALL) };
        let error = io::Error::last_os_error();
        match reaped {
            -1 if error.kind() == io::ErrorKind::Interrupted => {}
            -1 if error.raw_os_error() == Some(libc::ECHILD) => return Ok(Duplicated::Reaped),
            -1 => return Err(error),
            _ => return Ok(Duplicated::Reaped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_duplicated_without_a_process_or_with_one_that_is_gone() {
        duplicate_memory().unwrap();
        assert_eq!(with_a_child().unwrap(), Duplicated::Reaped);
        // SAFETY: no status is wanted.
        let left = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
        assert!(left <= 0, "a child is left");
    }

    #[test]
    fn a_write_after_duplicating_faults_and_the_one_after_that_does_not() {
        let mut memory = vec![1u8; 64 << 10];
        // SAFETY: in bounds.
        let at = unsafe { memory.as_mut_ptr().add(32 << 10) };
        duplicate_memory().unwrap();
        let before = minor_faults();
        // SAFETY: within a live allocation that nothing else refers to.
        unsafe { at.write_volatile(2) };
        let between = minor_faults();
        // SAFETY: as above.
        unsafe { at.write_volatile(3) };
        let after = minor_faults();
        assert!(between > before);
        assert_eq!(after, between);
    }
}
