//! System calls that are refused, as in some containers, or delayed.

use super::skip::skip;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Makes these system calls fail with `errno` in the calling thread, permanently.
/// Returns false if filters can't be set.
pub fn refuse(calls: &[libc::c_long], errno: i32) -> bool {
    set_filter(calls, libc::SECCOMP_RET_ERRNO | errno as u32, 0).is_some()
}

/// As [`refuse`], for every thread of this process.
pub fn refuse_everywhere(calls: &[libc::c_long], errno: i32) -> bool {
    let answer = libc::SECCOMP_RET_ERRNO | errno as u32;
    set_filter(calls, answer, libc::SECCOMP_FILTER_FLAG_TSYNC).is_some()
}

/// Delays system calls of one thread until another thread lets them continue.
pub struct Gate(OwnedFd);

/// A delayed system call.
pub struct Waiting(u64);

impl Gate {
    /// Delays these calls of the calling thread while the gate exists; afterwards
    /// they fail. `None` before Linux 5.5.
    pub fn close(calls: &[libc::c_long]) -> Option<Self> {
        let flags = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
        let listener = set_filter(calls, libc::SECCOMP_RET_USER_NOTIF, flags)?;
        // SAFETY: a new descriptor that nothing else owns.
        Some(Gate(unsafe { OwnedFd::from_raw_fd(listener as i32) }))
    }

    /// Lets calls continue up to the first one whose arguments are `wanted`.
    pub fn pass_until(&self, wanted: impl Fn(&[u64; 6]) -> bool) -> Waiting {
        loop {
            let limit = Timespec {
                tv_sec: 60,
                tv_nsec: 0,
            };
            let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
            poll(&mut ready, Some(&limit)).unwrap();
            assert!(ready[0].revents() == PollFlags::IN, "no call came");
            // SAFETY: all zeroes are a valid seccomp_notif; the call requires zeroes.
            let mut call: libc::seccomp_notif = unsafe { mem::zeroed() };
            let receive = libc::SECCOMP_IOCTL_NOTIF_RECV;
            // SAFETY: valid for writing a seccomp_notif.
            let received = unsafe { libc::ioctl(self.0.as_raw_fd(), receive, &mut call) };
            assert_eq!(received, 0, "{}", std::io::Error::last_os_error());
            let waiting = Waiting(call.id);
            if wanted(&call.data.args) {
                return waiting;
            }
            self.answer(waiting);
        }
    }

    /// Lets a call continue. Every later call fails.
    pub fn pass_last(self, waiting: Waiting) {
        self.answer(waiting);
    }

    fn answer(&self, Waiting(id): Waiting) {
        let answer = libc::seccomp_notif_resp {
            id,
            val: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        };
        let send = libc::SECCOMP_IOCTL_NOTIF_SEND;
        // SAFETY: valid for reading a seccomp_notif_resp.
        let sent = unsafe { libc::ioctl(self.0.as_raw_fd(), send, &answer) };
        assert_eq!(sent, 0, "{}", std::io::Error::last_os_error());
    }
}

/// Upper half of the fourth argument of a call that [`trap`] lets through.
pub const LET_THROUGH: u32 = 0x7061_7373;

/// Makes a system call raise SIGSYS in the calling thread and in all threads that it
/// starts, unless its fourth argument has [`LET_THROUGH`]. Returns false if filters
/// can't be set.
pub fn trap(call: libc::c_long) -> bool {
    let upper_half = mem::offset_of!(libc::seccomp_data, args) as u32 + 3 * 8 + 4;
    let program = [
        op(LOAD, 0, mem::offset_of!(libc::seccomp_data, nr) as u32),
        // If it is another call, jump over two operations.
        libc::sock_filter {
            jf: 2,
            ..op(JUMP_IF_EQUAL, 0, call as u32)
        },
        op(LOAD, 0, upper_half),
        libc::sock_filter {
            jf: 1,
            ..op(JUMP_IF_EQUAL, 0, LET_THROUGH)
        },
        op(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        op(RETURN, 0, libc::SECCOMP_RET_TRAP),
    ];
    install(&program, 0).is_some()
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const JUMP_IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

/// An operation of a filter's program; `jt` is how many it skips if a comparison is true.
fn op(code: u32, jt: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: code as u16,
        jt,
        jf: 0,
        k,
    }
}

/// Makes ioctl(2) with this request fail with `errno` in the calling thread, permanently. Returns false if
/// filters can't be set.
pub fn refuse_ioctl(request: u32, errno: i32) -> bool {
    let second = mem::offset_of!(libc::seccomp_data, args) as u32 + 8;
    let program = [
        op(LOAD, 0, mem::offset_of!(libc::seccomp_data, nr) as u32),
        // If it is another call, jump over two operations.
        libc::sock_filter {
            jf: 2,
            ..op(JUMP_IF_EQUAL, 0, libc::SYS_ioctl as u32)
        },
        op(LOAD, 0, second),
        op(JUMP_IF_EQUAL, 1, request),
        op(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        op(RETURN, 0, libc::SECCOMP_RET_ERRNO | errno as u32),
    ];
    install(&program, 0).is_some()
}

/// Returns the result of seccomp(2), or `None` if it failed.
fn set_filter(calls: &[libc::c_long], answer: u32, flags: libc::c_ulong) -> Option<libc::c_long> {
    // Load the number of the call; if it is one of these, jump to the answer.
    let mut program = vec![op(LOAD, 0, 0)];
    for (n, call) in calls.iter().enumerate() {
        program.push(op(JUMP_IF_EQUAL, (calls.len() - n) as u8, *call as u32));
    }
    program.push(op(RETURN, 0, libc::SECCOMP_RET_ALLOW));
    program.push(op(RETURN, 0, answer));
    install(&program, flags)
}

/// Returns the result of seccomp(2), or `None` if it failed.
fn install(program: &[libc::sock_filter], flags: libc::c_ulong) -> Option<libc::c_long> {
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    rustix::thread::set_no_new_privs(true).unwrap();
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the filter points to the program, which outlives the call.
    let set = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &filter) };
    if set < 0 {
        skip("no seccomp filters here");
        return None;
    }
    Some(set)
}

/// Whether filters can be set, tested in a temporary thread.
pub fn filters_work() -> bool {
    std::thread::spawn(|| refuse(&[], 0)).join().unwrap()
}
