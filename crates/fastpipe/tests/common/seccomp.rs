//! System calls refused, as the filters of some containers do.

/// Makes these system calls fail with `errno` for the calling thread from now
/// on. False where there are no filters.
pub fn refuse(calls: &[libc::c_long], errno: i32) -> bool {
    set_filter(calls, errno, 0)
}

/// The same for every thread of this process.
pub fn refuse_everywhere(calls: &[libc::c_long], errno: i32) -> bool {
    set_filter(calls, errno, libc::SECCOMP_FILTER_FLAG_TSYNC)
}

fn set_filter(calls: &[libc::c_long], errno: i32, flags: libc::c_ulong) -> bool {
    let op = |code: u32, jt: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf: 0,
        k,
    };
    // Load the number; where it is one of these, jump to the refusal.
    let mut program = vec![op(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0)];
    for (n, call) in calls.iter().enumerate() {
        let jump = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        program.push(op(jump, (calls.len() - n) as u8, *call as u32));
    }
    let answer = libc::BPF_RET | libc::BPF_K;
    program.push(op(answer, 0, libc::SECCOMP_RET_ALLOW));
    program.push(op(answer, 0, libc::SECCOMP_RET_ERRNO | errno as u32));
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    rustix::thread::set_no_new_privs(true).unwrap();
    let mode = libc::SECCOMP_SET_MODE_FILTER;
    // SAFETY: the filter points to the program, which outlives the call.
    let set = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &filter) };
    if set != 0 {
        eprintln!("skipped: no seccomp filters here");
    }
    set == 0
}

/// Whether filters can be set, tried in a thread that is thrown away.
pub fn filters_work() -> bool {
    std::thread::spawn(|| refuse(&[], 0)).join().unwrap()
}
