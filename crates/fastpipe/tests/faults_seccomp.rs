//! vmsplice forbidden, as in some containers.

mod common;

use common::{ALL_WAITS, buffer_with, pipe_of};
use fastpipe::transfer::{Input, Output};

/// Makes vmsplice(2) fail with EPERM for the calling thread from now on, as
/// the filters of some containers do.
fn forbid_vmsplice() -> bool {
    let code = |code: u32| code as u16;
    // Load the number of the system call; if it is not vmsplice, skip one.
    let mut program = [
        (code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), 0, 0, 0),
        (
            code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K),
            0,
            1,
            libc::SYS_vmsplice as u32,
        ),
        (
            code(libc::BPF_RET | libc::BPF_K),
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        ),
        (
            code(libc::BPF_RET | libc::BPF_K),
            0,
            0,
            libc::SECCOMP_RET_ALLOW,
        ),
    ]
    .map(|(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k });
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    rustix::thread::set_no_new_privs(true).unwrap();
    // SAFETY: the filter points to the program, which outlives the call; it
    // binds this thread only.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) };
    if set != 0 {
        eprintln!("skipped: no seccomp filters here");
    }
    set == 0
}

#[test]
fn where_a_filter_forbids_vmsplice_nothing_is_moved_and_write_still_works() {
    // A thread of its own, since a filter can't be taken off again.
    let filtered = std::thread::spawn(|| {
        if !forbid_vmsplice() {
            return;
        }
        let pages = buffer_with(b"abcdef", 0);
        for wait in ALL_WAITS {
            let (reader, writer) = pipe_of(65_536);
            let mut out = Output::new(&writer, wait);
            let refused = out.vmsplice(&[pages.slice(..)], Default::default());
            let refused = refused.unwrap_err();
            assert_eq!(refused.source.raw_os_error(), Some(libc::EPERM));
            assert_eq!(refused.moved, 0);
            out.write(&pages).unwrap();
            let mut got = [0; 6];
            Input::new(&reader, wait).read(&mut got).unwrap();
            assert_eq!(&got, b"abcdef");
        }
    });
    filtered.join().unwrap();
}
