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
    /// For a process that the kernel then could not make.
    ForNobody,
    /// For a process that was made, did nothing, and was reaped.
    ForAChild,
}

/// Has the kernel duplicate this process's memory, copy on write, and drop the
/// duplicate again.
///
/// What stays is that no private page counts as this process's own any more:
/// the next write to each faults, and the kernel then copies the page unless
/// nobody else refers to it (Linux 5.19 and later, do_wp_page).
///
/// No process is needed for that. clone(2) duplicates the memory (copy_mm of
/// copy_process) before it stores the descriptor that CLONE_PIDFD asks for;
/// where that can't be stored it undoes everything and answers EFAULT. Nobody
/// else answers that: not a limit on processes, and hardly a seccomp filter. A
/// kernel before 5.2 knows no CLONE_PIDFD and makes a child. It exits at once,
/// sends no signal, and only a wait for it by number finds it.
///
/// # Errors
/// Those of clone(2): EAGAIN at a limit on processes, EMFILE at one on
/// descriptors, EPERM or ENOSYS by a seccomp filter, ENOMEM.
pub(crate) fn duplicate_memory() -> io::Result<Duplicated> {
    /// Within the kernel's part of every address space.
    const NOWHERE: libc::c_long = -8;
    clone(libc::CLONE_PIDFD, NOWHERE)
}

/// `descriptor_at` is where CLONE_PIDFD would store.
fn clone(more: libc::c_int, descriptor_at: libc::c_long) -> io::Result<Duplicated> {
    // Tables of files are not worth copying for a process that is not to be.
    let flags = libc::c_long::from(libc::CLONE_FS | libc::CLONE_FILES | more);
    // SAFETY: without CLONE_VM a child, if there is one, has memory of its own,
    // and it calls nothing but exit_group. The first three arguments (flags,
    // stack, where to store) come in this order on x86-64 and aarch64; the
    // others are not used with these flags.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, descriptor_at, 0, 0) } {
        0 => exit_at_once(),
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EFAULT) => Ok(Duplicated::ForNobody),
            error => Err(error),
        },
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
            -1 if error.raw_os_error() == Some(libc::ECHILD) => return Ok(Duplicated::ForAChild),
            -1 => return Err(error),
            _ => return Ok(Duplicated::ForAChild),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_duplicated_without_a_process_or_with_one_that_is_gone() {
        duplicate_memory().unwrap();
        assert_eq!(clone(0, 0).unwrap(), Duplicated::ForAChild);
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
