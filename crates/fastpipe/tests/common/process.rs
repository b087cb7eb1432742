//! Tests in their own process: it runs this test program with one test selected.

use super::skip::{self, skip};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

const ROLE: &str = "FASTPIPE_TEST_CHILD";

/// Runs the calling test's `body`, a closure, in its own process, which runs only that test.
pub fn in_own_process<F: FnOnce()>(body: F) {
    in_own_process_with(&[], body);
}

/// As [`in_own_process`], with these environment variables.
pub fn in_own_process_with<F: FnOnce()>(variables: &[(&str, &str)], body: F) {
    // The closure's path begins with the crate and the path of the test.
    let closure = std::any::type_name::<F>();
    let (_, path) = closure.split_once("::").unwrap();
    let test = path.split("::{{closure}}").next().unwrap();
    if is_child(test) {
        return body();
    }
    let mut command = command(test, test);
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    forward_skips(test, &stderr);
    assert!(output.status.success(), "{}\n{stdout}", output.status);
    assert!(
        stdout.contains("1 passed"),
        "no test is named {test}:\n{stdout}"
    );
}

/// Passes on the skips that the test named `test` has reported in its own process.
fn forward_skips(test: &str, stderr: &str) {
    for line in stderr.lines() {
        match line.strip_prefix(skip::MARK) {
            Some(reason) if reason.contains(test) => skip::report(reason),
            Some(reason) => skip::report(&format!("{test}: {reason}")),
            None => eprintln!("{line}"),
        }
    }
}

/// Starts the test named `test` as a child in `role`, with the given standard input and
/// error.
pub fn spawn(test: &str, role: &str, stdin: OwnedFd, stderr: Stdio) -> Child {
    command(test, role)
        .stdin(stdin)
        .stdout(Stdio::null())
        .stderr(stderr)
        .spawn()
        .unwrap()
}

/// Whether this process is a child in `role`.
pub fn is_child(role: &str) -> bool {
    std::env::var_os(ROLE).is_some_and(|value| value == role)
}

/// Returns a command that runs the test named `test` as `role`. The module is not
/// specified, so no test's name may contain that of another.
pub fn command(test: &str, role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args([test, "--nocapture", "--test-threads=1"])
        .env(ROLE, role);
    command
}

/// The numbers of mappings and of descriptors of this process.
pub fn mappings_and_descriptors() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let descriptors = std::fs::read_dir("/proc/self/fd").unwrap();
    (maps.lines().count(), descriptors.count())
}

/// Enables or disables transparent huge pages for this process. Affects only pages
/// allocated later. Returns false if that is refused.
pub fn set_huge_pages(enabled: bool) -> bool {
    let disabled = libc::c_ulong::from(!enabled);
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, disabled, 0, 0, 0) == 0 }
}

/// Returns the result of `body` in a forked child.
pub fn in_child(body: impl FnOnce() -> bool) -> bool {
    Forked::running(body).join()
}

/// A forked child. It exits without running destructors, and is killed if it
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

    /// Returns the result of the child's body.
    pub fn join(self) -> bool {
        let mut status = 0;
        // SAFETY: the pointer is valid for writing.
        assert_eq!(unsafe { libc::waitpid(self.0, &mut status, 0) }, self.0);
        status == 0
    }
}

/// Kills this process by SIGALRM if it runs too long. The limit is a watchdog and
/// not an expectation.
pub fn end_if_it_hangs() {
    const LIMIT_S: libc::c_uint = 120;
    // SAFETY: a plain number.
    unsafe { libc::alarm(LIMIT_S) };
}

/// Becomes the user nobody if this process is root, so that limits apply. Returns
/// false, and reports a skipped test, if that is not permitted.
pub fn become_ordinary() -> bool {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return true;
    }
    // By libc, which changes all threads; rustix changes only the calling one. The test
    // harness has two.
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
    // Otherwise /proc/self would belong to root.
    let readable = rustix::process::DumpableBehavior::Dumpable;
    rustix::process::set_dumpable_behavior(readable).unwrap();
    true
}
