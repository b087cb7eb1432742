//! Conditions under which a command runs: another user, lower limits, fewer
//! processors, system calls refused.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use nix::sys::signal::{SigHandler, SigSet, Signal};
use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

use crate::skip;

const NOBODY: u32 = 65534;

/// Name of the copied program.
const COPY: &str = "program";

/// A copy of a program that every user may run, since the directory of the
/// original may be closed to others.
#[derive(Debug)]
pub struct ForAll(TempDir);

impl ForAll {
    /// Copies the program. `None`, with a skip, if this is root and can't become
    /// another user.
    pub fn new(program: &str) -> Option<Self> {
        let mut probe = Command::new("true");
        let probe = ordinary(&mut probe).stdout(Stdio::null()).status();
        if !probe.is_ok_and(|status| status.success()) {
            skip("can't become an ordinary user here");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(program, directory.path().join(COPY)).unwrap();
        Some(ForAll(directory))
    }

    /// The program as an ordinary user without capabilities, with arguments
    /// separated by blanks.
    pub fn command(&self, args: &str) -> Command {
        let mut command = crate::command(self.0.path().join(COPY), args);
        ordinary(&mut command);
        command
    }
}

/// As an ordinary user without capabilities, where this is root.
pub fn ordinary(command: &mut Command) -> &mut Command {
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Runs `act` in the child process before exec.
fn before(command: &mut Command, act: impl FnMut() -> io::Result<()> + Send + Sync + 'static) {
    // SAFETY: all callers below only make system calls that are safe after a fork:
    // they allocate nothing and take no lock.
    unsafe { command.pre_exec(act) };
}

/// Lowers a limit, soft and hard.
pub fn limit(command: &mut Command, resource: Resource, value: u64) {
    let lowered = Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    before(command, move || {
        setrlimit(resource, lowered).map_err(Into::into)
    });
}

/// Lowers the limit on descriptors, and lets the command inherit none but the
/// standard ones: every other one would count.
pub fn few_descriptors(command: &mut Command, count: u64) {
    before(command, || {
        // SAFETY: a plain system call; no descriptor is closed before exec.
        let set = unsafe { libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
        if set == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    });
    limit(command, Resource::Nofile, count);
}

/// Lowers a soft limit, which the command may raise again.
pub fn soft_limit(command: &mut Command, resource: Resource, value: u64) {
    before(command, move || {
        let lowered = Rlimit {
            current: Some(value),
            ..getrlimit(resource)
        };
        setrlimit(resource, lowered).map_err(Into::into)
    });
}

/// Blocks a signal: a child process inherits the mask.
pub fn blocked(command: &mut Command, signal: Signal) {
    before(command, move || {
        SigSet::from(signal).thread_block().map_err(Into::into)
    });
}

/// Ignores a signal, which exec keeps.
pub fn ignored(command: &mut Command, signal: Signal) {
    before(command, move || {
        // SAFETY: a new process has no handler that this could replace.
        let set = unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) };
        set.map(drop).map_err(Into::into)
    });
}

/// Restricts the command to the first allowed processor.
pub fn one_processor(command: &mut Command) {
    on_processor(command, first_processor());
}

/// Restricts the command to one processor.
pub fn on_processor(command: &mut Command, cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    before(command, move || {
        sched_setaffinity(None, &only).map_err(Into::into)
    });
}

/// The first processor this process may use.
pub fn first_processor() -> usize {
    let allowed = sched_getaffinity(None).unwrap();
    let mut all = 0..CpuSet::MAX_CPU;
    all.find(|cpu| allowed.is_set(*cpu)).unwrap()
}

/// How many processors this process may use.
pub fn processors() -> u32 {
    sched_getaffinity(None).unwrap().count()
}

/// Turns off transparent huge pages for the command.
pub fn no_huge_pages(command: &mut Command) {
    before(command, || {
        // By libc: the kernel requires the last three arguments to be 0, and rustix
        // does not set them.
        // SAFETY: plain numbers.
        let set = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        match set {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    });
}

/// Whether this system grants transparent huge pages to this process.
pub fn huge_pages() -> bool {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    setting.is_ok_and(|text| !text.contains("[never]")) && !status.contains("THP_enabled:\t0")
}

/// Lets vmsplice(2) fail by EPERM, as filters of some containers do. False, with a
/// skip, if filters are not available.
pub fn no_vmsplice(command: &mut Command) -> bool {
    without_call(command, libc::SYS_vmsplice)
}

/// As [`no_vmsplice`], for any system call.
pub fn without_call(command: &mut Command, number: libc::c_long) -> bool {
    failing_call(command, number, libc::EPERM)
}

/// As [`no_vmsplice`], for any system call and error.
pub fn failing_call(command: &mut Command, number: libc::c_long, errno: i32) -> bool {
    let code = |code: u32| code as u16;
    // Load the number of the system call; skip the next return if it differs.
    let program = [
        (code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS), 0, 0, 0),
        (
            code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K),
            0,
            1,
            number as u32,
        ),
        (
            code(libc::BPF_RET | libc::BPF_K),
            0,
            0,
            libc::SECCOMP_RET_ERRNO | errno as u32,
        ),
        (
            code(libc::BPF_RET | libc::BPF_K),
            0,
            0,
            libc::SECCOMP_RET_ALLOW,
        ),
    ]
    .map(|(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k });
    let filtered = move || {
        let filter = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_ptr().cast_mut(),
        };
        rustix::thread::set_no_new_privs(true)?;
        // SAFETY: the filter points to the program, which outlives the call
        // and is only read.
        let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) };
        match set {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    let mut probe = Command::new("true");
    before(&mut probe, filtered);
    if !probe.status().is_ok_and(|status| status.success()) {
        skip("no seccomp filters here");
        return false;
    }
    before(command, filtered);
    true
}

/// A shell script in a mount namespace of its own, with the program as `$0`.
/// `None`, with a skip, if that is not allowed.
pub fn in_mount_namespace(script: &str, program: &str, args: &[&str]) -> Option<Command> {
    let mut probe = unshare();
    let probe = probe.args(["sh", "-c", "mount -t tmpfs none /mnt"]);
    if !probe.output().is_ok_and(|output| output.status.success()) {
        skip("no mount namespaces here");
        return None;
    }
    let mut command = unshare();
    command.args(["sh", "-c", script, program]);
    command.args(args);
    Some(command)
}

/// A program with arguments separated by blanks, as root of a user namespace of
/// its own. `None`, with a skip, if that is not allowed.
pub fn in_user_namespace(program: &str, args: &str) -> Option<Command> {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["-U", "-r"]);
        command
    };
    let probe = unshare().arg("true").output();
    if !probe.is_ok_and(|output| output.status.success()) {
        skip("no user namespaces here");
        return None;
    }
    let mut command = unshare();
    command.arg(program);
    command.args(args.split_whitespace());
    Some(command)
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(if geteuid().is_root() {
        &["-m"][..]
    } else {
        &["-r", "-m"][..]
    });
    command
}
