//! State inherited from the parent process: descriptors, blocked and ignored signals, and what the
//! environment says of the terminal.
//!
//! Before `main` the standard library opens /dev/null in place of a closed
//! standard descriptor. Writing there succeeds though the data is lost, so closed
//! ones are detected earlier.
#![allow(unsafe_code)]

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::ptr::null;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use nix::libc;
use nix::sys::signal::{SigHandler, SigSet, Signal};
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_getfd};

/// Bit mask of the standard descriptors that were closed.
static CLOSED: AtomicU8 = AtomicU8::new(0);
/// Whether SIGPIPE was ignored. The standard library ignores it before `main`.
static SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
/// Whether SIGCHLD was ignored.
static SIGCHLD_IGNORED: AtomicBool = AtomicBool::new(false);
/// The signals that were blocked.
static BLOCKED: OnceLock<SigSet> = OnceLock::new();

/// Called by the loader before the standard library's start-up code.
#[used]
// SAFETY: the section holds pointers to functions like this one.
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = record;

extern "C" fn record() {
    SIGPIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    SIGCHLD_IGNORED.store(is_ignored(libc::SIGCHLD), Ordering::Relaxed);
    if let Ok(blocked) = SigSet::thread_get_mask() {
        let _ = BLOCKED.set(blocked);
    }
    for fd in 0..3 {
        // SAFETY: the descriptor is only passed to F_GETFD, which fails if it is
        // not open.
        let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
        // Any other error, by a seccomp filter, does not mean that it is closed.
        if fcntl_getfd(descriptor) == Err(Errno::BADF) {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Whether a signal is ignored, perhaps from the start of this process on.
pub fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only fills in the old one.
    let outcome = unsafe { libc::sigaction(signal, null(), action.as_mut_ptr()) };
    // SAFETY: a structure of numbers, which was zeroed.
    let action = unsafe { action.assume_init() };
    outcome == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Resets SIGCHLD to its default. A parent may have ignored it, which exec keeps;
/// the kernel then reaps children itself and wait(2) fails with ECHILD.
pub fn reset_sigchld() {
    // SAFETY: the default action runs no code of ours, and `main` calls this
    // before any handler is installed.
    let _ = unsafe { nix::sys::signal::signal(Signal::SIGCHLD, SigHandler::SigDfl) };
}

/// Replaces this process by a program, which gets the arguments after the first, its own name,
/// and finds signals and standard descriptors as this process found them. Looks for it in
/// PATH as shells do. Returns only if that fails. No handler of a signal may be installed
/// but for signals that were not ignored.
pub fn exec(program: &OsStr, args: &[OsString]) -> io::Error {
    let in_c = |text: &OsStr| CString::new(text.as_bytes());
    let words = args.iter().map(|arg| in_c(arg)).collect();
    let (program, args): (CString, Vec<CString>) = match (in_c(program), words) {
        (Ok(program), Ok(args)) => (program, args),
        (Err(error), _) | (_, Err(error)) => return error.into(),
    };
    restore_signals();
    close_on_exec();
    let Err(error) = nix::unistd::execvp(&program, &args);
    // SAFETY: as above; the rest of this program expects it.
    let _ = unsafe { nix::sys::signal::signal(Signal::SIGPIPE, SigHandler::SigIgn) };
    error.into()
}

/// Has a command start as by [`exec`]. It finds signals as this process found them: the
/// standard library resets SIGPIPE, and [`crate::interrupt`] changes which are blocked. And a text
/// without `#!` is run by /bin/sh, as execvp(3)
/// does, and as posix_spawn(3), which the standard library uses without a hook, does not.
pub fn start_as_by_exec(command: &mut Command) {
    let restore = || {
        restore_signals();
        Ok(())
    };
    // SAFETY: between fork and exec only sigaction(2) and sigprocmask(2) are called, which is
    // allowed there (signal-safety(7)).
    unsafe { command.pre_exec(restore) };
}

fn restore_signals() {
    for (signal, ignored) in [
        (Signal::SIGPIPE, &SIGPIPE_IGNORED),
        (Signal::SIGCHLD, &SIGCHLD_IGNORED),
    ] {
        let handler = if ignored.load(Ordering::Relaxed) {
            SigHandler::SigIgn
        } else {
            SigHandler::SigDfl
        };
        // SAFETY: neither action runs code of ours.
        let _ = unsafe { nix::sys::signal::signal(signal, handler) };
    }
    // With a valid set this can't fail.
    let _ = BLOCKED.get().map(SigSet::thread_set_mask);
}

/// Has programs that inherit the standard descriptors find those closed that this process
/// found closed.
pub fn close_on_exec() {
    for fd in (0..3).filter(|fd| is_closed(*fd)) {
        // SAFETY: the standard library has opened /dev/null there, for the whole process.
        let descriptor = unsafe { BorrowedFd::borrow_raw(fd.into()) };
        let _ = rustix::io::fcntl_setfd(descriptor, FdFlags::CLOEXEC);
    }
}

/// Closes all descriptors but the standard ones and those to `keep`: another process may wait
/// for the end of a pipe that this one has inherited. No other may be in use.
pub fn close_inherited(keep: &[BorrowedFd<'_>]) {
    let mut kept: Vec<u32> = keep.iter().map(|fd| fd.as_raw_fd() as u32).collect();
    kept.sort_unstable();
    let mut first = 3;
    let mut is_done = true;
    for fd in kept.into_iter().filter(|fd| *fd > 2) {
        is_done &= first == fd || close_range(first, fd - 1).is_ok();
        first = fd + 1;
    }
    // Linux 5.9 has it, and a filter of system calls may not allow it.
    if !(is_done && close_range(first, u32::MAX).is_ok()) {
        close_each(keep);
    }
}

/// Closes the descriptors from one number to another.
fn close_range(first: u32, last: u32) -> nix::Result<()> {
    // SAFETY: the caller says that none of them is in use.
    let done = unsafe { nix::libc::syscall(nix::libc::SYS_close_range, first, last, 0) };
    nix::errno::Errno::result(done).map(drop)
}

/// The same as [`close_inherited`], by the numbers that /proc lists.
fn close_each(keep: &[BorrowedFd<'_>]) {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten();
    let names = entries.flatten().map(|entry| entry.file_name());
    let numbers = names.filter_map(|name| name.to_str()?.parse::<i32>().ok());
    // One of them was that of the directory, which is closed by now.
    let is_kept = |fd: i32| fd <= 2 || keep.iter().any(|kept| kept.as_raw_fd() == fd);
    let numbers: Vec<i32> = numbers.filter(|fd| !is_kept(*fd)).collect();
    for fd in numbers {
        let _ = nix::unistd::close(fd);
    }
}

/// Whether standard input (0), output (1) or error (2) was closed.
pub fn is_closed(fd: u8) -> bool {
    CLOSED.load(Ordering::Relaxed) & (1 << fd) != 0
}

/// Duplicates a descriptor that this process was started with. One that it opened itself is
/// closed on exec, unlike any that came by exec.
///
/// # Errors
/// EBADF: it was not open.
pub fn duplicate_inherited(fd: RawFd) -> io::Result<File> {
    let was_closed = u8::try_from(fd).is_ok_and(|fd| fd < 3 && is_closed(fd));
    if was_closed || fd < 0 {
        return Err(Errno::BADF.into());
    }
    // SAFETY: the number is only passed to fcntl(2), which fails if it is not open.
    let descriptor = unsafe { BorrowedFd::borrow_raw(fd) };
    if fcntl_getfd(descriptor)?.contains(FdFlags::CLOEXEC) {
        return Err(Errno::BADF.into());
    }
    Ok(fcntl_dupfd_cloexec(descriptor, 3)?.into())
}

/// Opens /dev/null for reading and writing.
///
/// # Errors
/// Those of open(2); the message says if it does not exist.
pub fn open_null() -> io::Result<File> {
    let opened = File::options().read(true).write(true).open("/dev/null");
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::new(error.kind(), "/dev/null does not exist"),
        _ => error,
    })
}

/// Whether there is no /dev/null, which the standard library opens for programs that it starts.
pub fn lacks_null() -> bool {
    !Path::new("/dev/null").exists()
}

/// Whether terminals understand escape sequences: TERM is set, and not to `dumb`
/// (terminfo(5)).
pub fn has_escapes() -> bool {
    variable("TERM").is_some_and(|term| term != "dumb")
}

/// Whether text on a terminal may be coloured: [`has_escapes`], and NO_COLOR is unset or
/// empty (no-color.org).
pub fn has_colours() -> bool {
    has_escapes() && variable("NO_COLOR").is_none()
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}
