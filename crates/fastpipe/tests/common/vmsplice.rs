//! Another vmsplice(2) for a whole test program. The variable FASTPIPE_TEST_VMSPLICE
//! makes it
//!
//! * copy, as was proposed in 2026: `copies`;
//! * fail: `EPERM`, `ENOSYS`, `EINVAL`;
//! * fail after every third call of a thread, so that most writers are refused in
//!   mid-stream: `EPERM-after-3`.
//!
//! A seccomp filter does this, so the library needs no switch for tests. What a filter
//! can't do is done by a handler of SIGSYS: it makes another system call, and returns
//! its result as that of vmsplice.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use fastpipe::pipe::{PIPE_BUF, is_pipe};
use fastpipe::probe::vmsplice_refers;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::seccomp::{LET_THROUGH, refuse, trap};
use super::skip::skip;

/// Name of the variable.
pub const VARIABLE: &str = "FASTPIPE_TEST_VMSPLICE";

#[derive(Clone, Copy)]
enum Answer {
    Copy,
    Refuse(Errno),
    RefuseAfter { calls: u32, errno: Errno },
}

static ANSWER: OnceLock<Answer> = OnceLock::new();

thread_local! {
    /// Number of calls of this thread since the last refusal.
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Called before `main`, so that the filter applies to every thread.
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = replace_vmsplice;

extern "C" fn replace_vmsplice() {
    let Some(value) = std::env::var_os(VARIABLE) else {
        return;
    };
    let Some(answer) = value.to_str().and_then(parse) else {
        panic!(
            "{VARIABLE}={}: use copies, EPERM, ENOSYS, EINVAL, or EPERM-after-3",
            value.display()
        );
    };
    let calls = libc::SYS_vmsplice;
    let replaced = match answer {
        Answer::Refuse(errno) => refuse(&[calls], errno.raw_os_error()),
        Answer::Copy | Answer::RefuseAfter { .. } => {
            handle_traps();
            trap(calls)
        }
    };
    if replaced {
        let _ = ANSWER.set(answer);
    }
}

fn parse(value: &str) -> Option<Answer> {
    if value == "copies" {
        return Some(Answer::Copy);
    }
    let (name, calls) = match value.split_once("-after-") {
        Some((name, calls)) => (name, Some(calls.parse().ok()?)),
        None => (value, None),
    };
    let errno = match name {
        "EPERM" => Errno::PERM,
        "ENOSYS" => Errno::NOSYS,
        "EINVAL" => Errno::INVAL,
        _ => return None,
    };
    Some(match calls {
        Some(calls) => Answer::RefuseAfter { calls, errno },
        None => Answer::Refuse(errno),
    })
}

fn handle_traps() {
    // SAFETY: all of its fields may be zero.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
    action.sa_sigaction = on_trap as *const () as usize;
    // SAFETY: valid for reading; the handler makes system calls only.
    let set = unsafe { libc::sigaction(libc::SIGSYS, &action, std::ptr::null_mut()) };
    assert_eq!(set, 0);
}

/// Answers a trapped call of vmsplice.
extern "C" fn on_trap(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: what a handler with SA_SIGINFO gets.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let registers = registers::of(context);
    let [fd, pieces, count, flags] = registers::ARGUMENTS.map(|at| registers[at as usize] as usize);
    // SAFETY: the caller's descriptor.
    let fd = unsafe { BorrowedFd::borrow_raw(fd as i32) };
    // SAFETY: the caller's list of iovec, which an IoSlice is.
    let pieces = unsafe { std::slice::from_raw_parts(pieces as *const IoSlice<'_>, count) };
    let result = match ANSWER.get() {
        // An empty call first, which a test's own filter may refuse or delay.
        Some(Answer::Copy) if is_output(fd) => {
            let_through(fd, &[], flags).and_then(|_| copy(fd, pieces, flags))
        }
        Some(Answer::RefuseAfter { calls, errno }) if is_refused(*calls) => {
            let_through(fd, &[], flags).and(Err(*errno))
        }
        _ => let_through(fd, pieces, flags),
    };
    let result = match result {
        Ok(moved) => moved as i64,
        Err(errno) => -i64::from(errno.raw_os_error()),
    };
    registers[registers::RESULT as usize] = result as _;
}

fn is_output(fd: BorrowedFd<'_>) -> bool {
    let flags = rustix::fs::fcntl_getfl(fd);
    is_pipe(fd).unwrap_or(false) && flags.is_ok_and(|f| f & OFlags::ACCMODE != OFlags::RDONLY)
}

fn is_refused(after: u32) -> bool {
    let calls = CALLS.get();
    CALLS.set((calls + 1) % (after + 1));
    calls == after
}

/// Writes the pieces, at most a page without blocking.
fn copy(fd: BorrowedFd<'_>, pieces: &[IoSlice<'_>], flags: usize) -> rustix::io::Result<usize> {
    if flags as u32 & libc::SPLICE_F_NONBLOCK == 0 {
        return rustix::io::writev(fd, pieces);
    }
    let Some(first) = pieces.iter().find(|piece| !piece.is_empty()) else {
        return Ok(0);
    };
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // A pipe that is writable according to poll(2) has a free slot.
    match poll(&mut [PollFd::new(&fd, PollFlags::OUT)], Some(&now))? {
        0 => Err(Errno::AGAIN),
        _ => rustix::io::write(fd, &first[..first.len().min(PIPE_BUF)]),
    }
}

fn let_through(
    fd: BorrowedFd<'_>,
    pieces: &[IoSlice<'_>],
    flags: usize,
) -> rustix::io::Result<usize> {
    // The kernel takes the lower half (fs/splice.c: unsigned int flags).
    let flags = u64::from(LET_THROUGH) << 32 | flags as u64;
    let (call, fd, list, count) = (
        libc::SYS_vmsplice,
        fd.as_raw_fd(),
        pieces.as_ptr(),
        pieces.len(),
    );
    // SAFETY: the arguments of the caller, who answers for them.
    match unsafe { libc::syscall(call, fd, list, count, flags) } {
        -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
        moved => Ok(moved as usize),
    }
}

/// Registers of the arguments and the result of a system call (syscall(2)).
#[cfg(target_arch = "x86_64")]
mod registers {
    pub const ARGUMENTS: [i32; 4] = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10];
    pub const RESULT: i32 = libc::REG_RAX;

    pub fn of(context: &mut libc::ucontext_t) -> &mut [i64] {
        &mut context.uc_mcontext.gregs
    }
}

#[cfg(target_arch = "aarch64")]
mod registers {
    pub const ARGUMENTS: [i32; 4] = [0, 1, 2, 3];
    pub const RESULT: i32 = 0;

    pub fn of(context: &mut libc::ucontext_t) -> &mut [u64] {
        &mut context.uc_mcontext.regs
    }
}

/// Whether [`VARIABLE`] is in effect in this process.
pub fn is_replaced() -> bool {
    ANSWER.get().is_some()
}

/// Whether no call of vmsplice is refused. Otherwise reports a skipped test.
pub fn is_allowed() -> bool {
    let refused = match (ANSWER.get(), vmsplice_refers()) {
        (Some(Answer::RefuseAfter { errno, .. }), _) => (*errno).into(),
        (_, Err(error)) => error,
        (_, Ok(_)) => return true,
    };
    skip(format_args!("vmsplice is refused here: {refused}"));
    false
}

/// Whether vmsplice refers to pages, until it may be refused in mid-stream. Otherwise
/// reports a skipped test.
pub fn is_by_reference() -> bool {
    match vmsplice_refers() {
        Ok(true) => return true,
        Ok(false) => skip("vmsplice copies here"),
        Err(error) => skip(format_args!("vmsplice is refused here: {error}")),
    }
    false
}
