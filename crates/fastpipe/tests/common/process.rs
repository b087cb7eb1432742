//! Tests that need a process of their own: this test binary again, with one
//! test selected.

use super::skip::skip;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

const ROLE: &str = "FASTPIPE_TEST_CHILD";

/// Runs `body` in a process of its own, which runs nothing but the calling
/// test, named `test`.
pub fn in_own_process(test: &str, body: impl FnOnce()) {
    if is_child(test) {
        return body();
    }
    let output = command(test, test).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    super::skip::forward(test, &stderr);
    assert!(output.status.success(), "{}\n{stdout}", output.status);
    assert!(stdout.contains("1 passed"), "{test} is no test:\n{stdout}");
}

/// Starts the test named `test` as a child that plays `role`, with its
/// standard input and error as given.
pub fn spawn(test: &str, role: &str, stdin: OwnedFd, stderr: Stdio) -> Child {
    command(test, role)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .unwrap()
}

/// Whether this process is a child that plays `role`.
pub fn is_child(role: &str) -> bool {
    std::env::var_os(ROLE).is_some_and(|value| value == role)
}

/// This test binary again, to run the test named `test` as `role`. Which module
/// it is in is left open: names are sentences, and none contains another.
pub fn command(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--nocapture", "--test-threads=1"])
        .env(ROLE, role);
    command
}

/// Whether `body` is true in a forked child.
pub fn in_child(body: impl FnOnce() -> bool) -> bool {
    Forked::running(body).join()
}

/// A forked child. It exits without running destructors, and is ended if it
/// hangs.
pub struct Forked(libc::pid_t);

impl Forked {
    pub fn running(body: impl FnOnce() -> bool) -> Self {
        // SAFETY: glibc's allocator works in the child of a threaded process,
        // and the bodies need nothing else that another thread may have locked.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            end_if_it_hangs();
            let status = i32::from(!body());
            // SAFETY: it does not return.
            unsafe { libc::_exit(status) };
        }
        Forked(child)
    }

    /// Whether the child's body was true.
    pub fn join(self) -> bool {
        let mut status = 0;
        // SAFETY: valid for writing; a child of ours that was not reaped.
        assert_eq!(unsafe { libc::waitpid(self.0, &mut status, 0) }, self.0);
        status == 0
    }
}

/// Ends this process by SIGALRM unless it ends soon. The limit is a watchdog,
/// not a promise about time.
pub fn end_if_it_hangs() {
    const LIMIT_S: libc::c_uint = 30;
    // SAFETY: a plain number.
    unsafe { libc::alarm(LIMIT_S) };
}

/// Becomes nobody where this process is root: without capabilities and with
/// limits that hold. False where the system has no such user.
pub fn become_ordinary() -> bool {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    // rustix changes the calling thread only; libc changes all of them, and
    // with the test's harness there are two.
    // SAFETY: no pointers but a null list of length 0.
    let groups = unsafe { libc::setgroups(0, std::ptr::null()) };
    // SAFETY: plain numbers.
    let group = unsafe { libc::setresgid(NOBODY, NOBODY, NOBODY) };
    // SAFETY: plain numbers.
    let user = unsafe { libc::setresuid(NOBODY, NOBODY, NOBODY) };
    if (groups, group, user) != (0, 0, 0) {
        skip("can't become an ordinary user here");
        return false;
    }
    // Else /proc/self would belong to root.
    let readable = rustix::process::DumpableBehavior::Dumpable;
    rustix::process::set_dumpable_behavior(readable).unwrap();
    true
}
