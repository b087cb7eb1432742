//! System calls that rustix lacks.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, ioctl, opcode};

/// Number of minor page faults of this thread so far (getrusage(2)).
pub(crate) fn minor_faults() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writing a rusage.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // It can't fail with these arguments. If it did, the struct would be zeroes.
    debug_assert_eq!(result, 0);
    // SAFETY: all zeroes, or written by the kernel.
    unsafe { usage.assume_init() }.ru_minflt as u64
}

/// Soft value of RLIMIT_MEMLOCK; `None` if there is none, or if it is unknown.
pub(crate) fn max_locked_bytes() -> Option<u64> {
    let mut limit = MaybeUninit::<libc::rlimit>::zeroed();
    // SAFETY: the pointer is valid for writing an rlimit.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, limit.as_mut_ptr()) };
    // SAFETY: all zeroes, or written by the kernel.
    let soft = unsafe { limit.assume_init() }.rlim_cur;
    // A seccomp filter may refuse the call.
    (result == 0 && soft != libc::RLIM_INFINITY).then_some(soft)
}

/// Returns the device number of the terminal itself, also for /dev/tty and /dev/console; for the master
/// of a pseudo-terminal that of its slave (TIOCGDEV; ioctl_tty(2)).
///
/// # Errors
/// `NOTTY` if it is no terminal; `IO` if the terminal was hung up.
pub(crate) fn terminal_number(fd: BorrowedFd<'_>) -> rustix::io::Result<u32> {
    let mut number: libc::c_uint = 0;
    // SAFETY: the pointer is valid for writing an unsigned int.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCGDEV, &raw mut number) };
    if result != 0 {
        let error = io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::NOTTY));
    }
    Ok(number)
}

/// The bytes in the buffers of a socket that its peer has not received yet (TIOCOUTQ: SIOCOUTQ in unix(7), tcp(7)).
///
/// # Errors
/// Those of ioctl(2), as `NOTTY` for most other files.
pub(crate) fn unsent(fd: BorrowedFd<'_>) -> rustix::io::Result<libc::c_int> {
    const TIOCOUTQ: Opcode = libc::TIOCOUTQ as Opcode;
    // SAFETY: the kernel writes an int.
    let getter = unsafe { Getter::<TIOCOUTQ, libc::c_int>::new() };
    // SAFETY: as above.
    unsafe { ioctl(fd, getter) }
}

/// The size of a block device in bytes (BLKGETSIZE64; `<linux/fs.h>`).
///
/// # Errors
/// Those of ioctl(2), as `NOTTY` for any other file.
pub(crate) fn block_device_len(fd: BorrowedFd<'_>) -> rustix::io::Result<u64> {
    const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);
    // SAFETY: the kernel writes a u64, whatever the type in the number says (blkdev_ioctl in block/ioctl.c).
    let getter = unsafe { Getter::<BLKGETSIZE64, u64>::new() };
    // SAFETY: as above.
    unsafe { ioctl(fd, getter) }
}

/// Method used by [`duplicate_memory`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicated {
    /// The kernel duplicated the memory and then failed to create the process.
    WithoutChild,
    /// A child was created, exited at once, and was reaped.
    WithChild,
}

/// Makes the kernel duplicate this process's memory copy-on-write, as fork(2)
/// does, and drop the duplicate.
///
/// Afterwards the kernel treats every private page as possibly shared: the next
/// write to each page faults, and the kernel copies the page if a pipe or another
/// process refers to it, or keeps it otherwise (do_wp_page in mm/memory.c, Linux 5.19 and
/// later).
///
/// Usually no process is created. clone(2) duplicates the memory (copy_mm in
/// copy_process, kernel/fork.c) before it stores the descriptor requested by
/// CLONE_PIDFD. If the address for it is invalid, the call undoes everything and
/// fails with EFAULT, which no limit on processes and hardly any seccomp filter
/// returns. Kernels before 5.2 ignore CLONE_PIDFD and create a child. It exits at
/// once, sends no signal, and only a wait for its process id finds it.
///
/// Each call uses up a process id, since clone(2) allocates one before it fails.
///
/// # Errors
/// `Unsupported` on architectures where the order of the arguments has not been
/// tried: s390x, for one, takes the stack first (clone(2)). Those of clone(2):
/// EAGAIN for a limit on processes, EMFILE for one on
/// descriptors, EPERM or ENOSYS by a seccomp filter, ENOMEM.
pub(crate) fn duplicate_memory() -> io::Result<Duplicated> {
    /// Invalid in every process: in the kernel's part of the address space.
    const INVALID_ADDRESS: libc::c_long = -8;
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    clone(libc::CLONE_PIDFD, INVALID_ADDRESS)
}

/// Calls clone(2) with `more_flags`; CLONE_PIDFD would store to `pidfd_address`.
fn clone(more_flags: libc::c_int, pidfd_address: libc::c_long) -> io::Result<Duplicated> {
    // Sharing the file tables saves copying them.
    let flags = libc::c_long::from(libc::CLONE_FS | libc::CLONE_FILES | more_flags);
    // SAFETY: without CLONE_VM a child, if there is one, has memory of its own,
    // and it calls nothing but exit_group. The first three arguments (flags,
    // stack, where to store) come in this order on x86-64 and aarch64; the
    // others are not used with these flags.
    match unsafe { libc::syscall(libc::SYS_clone, flags, 0, pidfd_address, 0, 0) } {
        0 => exit_at_once(),
        -1 => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::EFAULT) => Ok(Duplicated::WithoutChild),
            error => Err(error),
        },
        child => reap(child as libc::pid_t),
    }
}

/// Exits the child without running any destructor or handler.
fn exit_at_once() -> ! {
    loop {
        // SAFETY: the call takes a number and does not return.
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
            -1 if error.raw_os_error() == Some(libc::ECHILD) => return Ok(Duplicated::WithChild),
            -1 => return Err(error),
            _ => return Ok(Duplicated::WithChild),
        }
    }
}

/// Whether this process has no other thread. False if /proc can't be read.
///
/// The link count of /proc/self/task is 2 plus the number of threads
/// (proc_task_getattr in fs/proc/base.c).
pub(crate) fn is_single_threaded() -> bool {
    rustix::fs::stat("/proc/self/task").is_ok_and(|stat| stat.st_nlink == 3)
}

/// Resident private memory of this process, in bytes (proc_pid_statm(5): resident less
/// shared pages).
pub(crate) fn private_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split(' ').skip(1).map(str::parse::<u64>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * crate::pipe::page_size() as u64)
}

/// Whether a filter judges the system calls of this thread (seccomp(2)), as far as is known: if /proc
/// can't be read, one may.
pub(crate) fn has_seccomp_filter() -> bool {
    let Ok(text) = std::fs::read_to_string("/proc/thread-self/status") else {
        return true;
    };
    let mode = text.lines().find_map(|line| line.strip_prefix("Seccomp:"));
    // A kernel without seccomp has no such line.
    mode.is_some_and(|mode| mode.trim() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicating_memory_leaves_no_child() {
        duplicate_memory().unwrap();
        assert_eq!(clone(0, 0).unwrap(), Duplicated::WithChild);
        // SAFETY: no status is wanted.
        let left = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::__WALL | libc::WNOHANG) };
        assert!(left <= 0, "a child remains");
    }

    #[test]
    fn only_the_first_write_after_duplicating_faults() {
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
