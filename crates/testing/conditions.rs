//! Conditions under which a command runs: another user, lower limits, fewer
//! processors, refused system calls.
//!
//! The conditions are set up in the child process before exec and hold for the
//! program and its descendants. Functions that may lack a permission try it first:
//! on failure they print a skip (see [`skip()`]) and return `None` or false.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{SigHandler, SigSet, Signal};
use rustix::process::{
    Resource, Rlimit, geteuid, getpid, getrlimit, set_child_subreaper, setrlimit,
};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

use crate::procs::eventually;
use crate::skip;

/// User and group id of `nobody`.
const NOBODY: u32 = 65534;

/// Name of the copied program.
const COPY: &str = "program";

/// A copy of a program that every user may run: the directory of the original may be
/// inaccessible to other users.
#[derive(Debug)]
pub struct ForAll(TempDir);

impl ForAll {
    /// Copies the program to a temporary directory. `None`, with a skip, if this process
    /// is root but can't run a program as [`ordinary`] user.
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

    /// The copy, run as [`ordinary`] user, with arguments separated by blanks.
    pub fn command(&self, args: &str) -> Command {
        let mut command = crate::command(self.0.path().join(COPY), args);
        ordinary(&mut command);
        command
    }
}

/// A program by which an [`ordinary`] user starts another one as root, as by sudo.
#[derive(Debug)]
pub struct AsRoot(TempDir);

impl AsRoot {
    /// Makes the program. `None`, with a skip, if that is not possible.
    pub fn new() -> Option<Self> {
        if !geteuid().is_root() {
            skip("only root can make a setuid program of root's");
            return None;
        }
        let made = AsRoot(tempfile::tempdir().unwrap());
        let mode = fs::Permissions::from_mode;
        fs::set_permissions(made.0.path(), mode(0o755)).unwrap();
        let copy = made.0.path().join(COPY);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut found = std::env::split_paths(&path).map(|directory| directory.join("setpriv"));
        if !found.any(|setpriv| fs::copy(setpriv, &copy).is_ok()) {
            skip("no setpriv");
            return None;
        }
        fs::set_permissions(&copy, mode(0o4755)).unwrap();
        let mut probe = Command::new("sh");
        probe.args(["-c", &made.line("id -ru")]);
        let probe = ordinary(&mut probe).output();
        if !probe.is_ok_and(|output| output.stdout == b"0\n") {
            skip("setuid has no effect here");
            return None;
        }
        Some(made)
    }

    /// The words of a shell that start a program as root.
    pub fn line(&self, program: &str) -> String {
        format!("{}/{COPY} --reuid 0 {program}", self.0.path().display())
    }
}

/// Runs the command as user and group `nobody`, without capabilities, if this process
/// is root. Otherwise changes nothing.
pub fn ordinary(command: &mut Command) -> &mut Command {
    if geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Runs `action` in the child process before exec.
fn before_exec(
    command: &mut Command,
    action: impl FnMut() -> io::Result<()> + Send + Sync + 'static,
) {
    // SAFETY: all callers below only make system calls that are safe after a fork:
    // they allocate nothing and take no lock.
    unsafe { command.pre_exec(action) };
}

/// Sets both the soft and the hard value of a resource limit.
pub fn limit(command: &mut Command, resource: Resource, value: u64) {
    let lowered = Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    before_exec(command, move || {
        setrlimit(resource, lowered).map_err(Into::into)
    });
}

/// Sets both values of RLIMIT_NOFILE, so that descriptors must be below `count`. The
/// command inherits only the standard descriptors, since others would use up the limit.
pub fn few_descriptors(command: &mut Command, count: u64) {
    before_exec(command, || {
        // SAFETY: a plain system call; no descriptor is closed before exec. Before
        // Linux 5.11 it fails: then those inherited count, too.
        unsafe { libc::close_range(3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC as i32) };
        Ok(())
    });
    limit(command, Resource::Nofile, count);
}

/// Sets the soft value of a resource limit, which the command may raise up to the hard
/// one.
pub fn soft_limit(command: &mut Command, resource: Resource, value: u64) {
    before_exec(command, move || {
        let lowered = Rlimit {
            current: Some(value),
            ..getrlimit(resource)
        };
        setrlimit(resource, lowered).map_err(Into::into)
    });
}

/// Blocks a signal in the command: exec keeps the signal mask.
pub fn blocked(command: &mut Command, signal: Signal) {
    before_exec(command, move || {
        SigSet::from(signal).thread_block().map_err(Into::into)
    });
}

/// Makes the command the parent of what its descendants leave behind
/// (PR_SET_CHILD_SUBREAPER).
pub fn adopts_orphans(command: &mut Command) {
    before_exec(command, || {
        set_child_subreaper(Some(getpid())).map_err(Into::into)
    });
}

/// Ignores a signal in the command: exec keeps that too.
pub fn ignored(command: &mut Command, signal: Signal) {
    before_exec(command, move || {
        // SAFETY: a new process has no handler that this could replace.
        let set = unsafe { nix::sys::signal::signal(signal, SigHandler::SigIgn) };
        set.map(drop).map_err(Into::into)
    });
}

/// Restricts the command to the [`first_processor`].
pub fn one_processor(command: &mut Command) {
    on_processor(command, first_processor());
}

/// Restricts the command to one processor.
pub fn on_processor(command: &mut Command, cpu: usize) {
    let mut only = CpuSet::new();
    only.set(cpu);
    before_exec(command, move || {
        sched_setaffinity(None, &only).map_err(Into::into)
    });
}

/// The lowest number of a processor that this process may use.
pub fn first_processor() -> usize {
    let allowed = sched_getaffinity(None).unwrap();
    let mut all = 0..CpuSet::MAX_CPU;
    all.find(|cpu| allowed.is_set(*cpu)).unwrap()
}

/// The number of processors that this process may use.
pub fn processors() -> u32 {
    sched_getaffinity(None).unwrap().count()
}

/// Disables transparent huge pages for the command (PR_SET_THP_DISABLE of prctl(2)).
pub fn no_huge_pages(command: &mut Command) {
    before_exec(command, || {
        // Not by rustix, which leaves the last three arguments unset: the kernel requires 0.
        // SAFETY: plain numbers.
        let set = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        match set {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    });
}

/// Whether transparent huge pages are enabled for this process: always or by madvise(2).
pub fn huge_pages() -> bool {
    let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    setting.is_ok_and(|text| !text.contains("[never]")) && !status.contains("THP_enabled:\t0")
}

/// Makes vmsplice(2) fail with EPERM, as the seccomp filters of some containers do.
/// False, with a skip, if a filter can't be installed.
pub fn no_vmsplice(command: &mut Command) -> bool {
    without_call(command, libc::SYS_vmsplice)
}

/// As [`no_vmsplice`], for any system call.
pub fn without_call(command: &mut Command, number: libc::c_long) -> bool {
    failing_call(command, number, libc::EPERM)
}

/// As [`no_vmsplice`], for any system call and error. The filter also sets
/// `no_new_privs`, and compares only the number of the system call.
pub fn failing_call(command: &mut Command, number: libc::c_long, errno: i32) -> bool {
    filter(command, number, None, errno)
}

/// As [`failing_call`], if the lower half of an argument has this value.
pub fn failing_call_with(
    command: &mut Command,
    number: libc::c_long,
    argument: (u32, u32),
    errno: i32,
) -> bool {
    filter(command, number, Some(argument), errno)
}

/// Denies the command these rights everywhere (LANDLOCK_ACCESS_FS_* of linux/landlock.h). False,
/// with a skip, without Landlock or the rights.
pub fn without_rights(command: &mut Command, rights: u64) -> bool {
    let restrict = move || {
        rustix::thread::set_no_new_privs(true)?;
        let size = size_of_val(&rights);
        // SAFETY: it reads a struct landlock_ruleset_attr, which begins with these 8 bytes.
        let rules = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &rights, size, 0) };
        // SAFETY: it has no pointers.
        match unsafe { libc::syscall(libc::SYS_landlock_restrict_self, rules, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    let mut probe = Command::new("true");
    before_exec(&mut probe, restrict);
    if !probe.status().is_ok_and(|status| status.success()) {
        skip("Landlock can't deny these rights here");
        return false;
    }
    before_exec(command, restrict);
    true
}

/// Makes pidfd_open(2) fail for all processes but the command's own: a first try succeeds, and
/// that for a child does not. False, with a skip, if a filter can't be installed.
pub fn no_pidfd_of_others(command: &mut Command, errno: i32) -> bool {
    if !without_call(&mut Command::new("true"), libc::SYS_pidfd_open) {
        return false;
    }
    before_exec(command, move || {
        let own = Match::OtherArgument(0, getpid().as_raw_pid() as u32);
        install(&filter_program(libc::SYS_pidfd_open, own, errno))
    });
    true
}

fn filter(
    command: &mut Command,
    number: libc::c_long,
    argument: Option<(u32, u32)>,
    errno: i32,
) -> bool {
    let calls = argument.map_or(Match::All, |(at, value)| Match::Argument(at, value));
    let program = filter_program(number, calls, errno);
    let mut probe = Command::new("true");
    before_exec(&mut probe, move || install(&program));
    if !probe.status().is_ok_and(|status| status.success()) {
        skip("seccomp filters can't be installed here");
        return false;
    }
    before_exec(command, move || install(&program));
    true
}

/// The calls that fail.
#[derive(Debug, Clone, Copy)]
enum Match {
    All,
    /// The lower half of the argument with this number has this value.
    Argument(u32, u32),
    /// It has another one.
    OtherArgument(u32, u32),
}

fn filter_program(number: libc::c_long, calls: Match, errno: i32) -> [libc::sock_filter; 6] {
    /// Offset of the arguments in struct seccomp_data.
    const ARGUMENTS: u32 = 16;
    let code = |code: u32| code as u16;
    let load = |offset| {
        (
            code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS),
            0,
            0,
            offset,
        )
    };
    // Skips as many steps if the loaded value differs.
    let equals = |value, skipped| {
        let compare = code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K);
        (compare, 0, skipped, value)
    };
    let end = |action| (code(libc::BPF_RET | libc::BPF_K), 0, 0, action);
    // Without an argument to compare, the number is compared twice.
    let (offset, value) = match calls {
        Match::Argument(at, value) | Match::OtherArgument(at, value) => {
            let is_first = cfg!(target_endian = "little");
            (ARGUMENTS + 8 * at + if is_first { 0 } else { 4 }, value)
        }
        Match::All => (0, number as u32),
    };
    let fail = end(libc::SECCOMP_RET_ERRNO | errno as u32);
    let allow = end(libc::SECCOMP_RET_ALLOW);
    let (steps_to_allow, ends) = match calls {
        Match::OtherArgument(..) => (2, [allow, fail]),
        _ => (3, [fail, allow]),
    };
    [
        load(0),
        equals(number as u32, steps_to_allow),
        load(offset),
        equals(value, 1),
        ends[0],
        ends[1],
    ]
    .map(|(code, jt, jf, k)| libc::sock_filter { code, jt, jf, k })
}

fn install(program: &[libc::sock_filter]) -> io::Result<()> {
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_ptr().cast_mut(),
    };
    rustix::thread::set_no_new_privs(true)?;
    // SAFETY: the filter points to the program, which outlives the call and is only read.
    let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter) };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A shell script in its own mount namespace, with the program as `$0` and the
/// arguments as `$1` and so on. Without root it also gets its own user namespace.
/// `None`, with a skip, if that is not allowed.
pub fn in_mount_namespace(script: &str, program: &str, args: &[&str]) -> Option<Command> {
    let mut probe = unshare("-m");
    let probe = probe.args(["sh", "-c", "mount -t tmpfs none /mnt"]);
    if !probe.output().is_ok_and(|output| output.status.success()) {
        skip("mount namespaces are not allowed here");
        return None;
    }
    let mut command = unshare("-m");
    command.args(["sh", "-c", script, program]);
    command.args(args);
    Some(command)
}

/// A program in a PID namespace of its own, which is not that of /proc. `None`, with a skip, if
/// that is not allowed.
pub fn in_pid_namespace(program: &str, args: &[&str]) -> Option<Command> {
    let probe = unshare("-p").args(["-f", "true"]).output();
    if !probe.is_ok_and(|output| output.status.success()) {
        skip("PID namespaces are not allowed here");
        return None;
    }
    let mut command = unshare("-p");
    // The first process of a namespace is unlike others.
    command.args(["-f", "sh", "-c", "\"$0\" \"$@\"; exit $?", program]);
    command.args(args);
    Some(command)
}

/// A program whose children start a PID namespace, in which it is not itself. `None`, with a skip, if that is
/// not allowed.
pub fn starting_pid_namespace(program: &str) -> Option<Command> {
    let probe = unshare("-p").arg("true").output();
    if !probe.is_ok_and(|output| output.status.success()) {
        skip("PID namespaces are not allowed here");
        return None;
    }
    let mut command = unshare("-p");
    command.arg(program);
    Some(command)
}

/// A program with arguments separated by blanks, as root of its own user namespace.
/// `None`, with a skip, if that is not allowed.
pub fn in_user_namespace(program: &str, args: &str) -> Option<Command> {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["-U", "-r"]);
        command
    };
    let probe = unshare().arg("true").output();
    if !probe.is_ok_and(|output| output.status.success()) {
        skip("user namespaces are not allowed here");
        return None;
    }
    let mut command = unshare();
    command.arg(program);
    command.args(args.split_whitespace());
    Some(command)
}

/// `unshare` with a new namespace; without root in a new user namespace, too.
fn unshare(namespace: &str) -> Command {
    let mut command = Command::new("unshare");
    if !geteuid().is_root() {
        command.arg("-r");
    }
    command.arg(namespace);
    command
}

/// A control group, removed by the end of the test: its processes must have ended by then.
pub struct ControlGroup(PathBuf);

impl ControlGroup {
    /// A group of a controller with those of these settings that the version of the hierarchy has: files and texts.
    /// Skips the test and returns `None` if that can't be made here.
    pub fn new(controller: &str, settings: &[(&str, &str)]) -> Option<Self> {
        let made = ControlGroup::make(controller, settings);
        if made.is_none() {
            skip("no control group can be made here");
        }
        made
    }

    fn make(controller: &str, settings: &[(&str, &str)]) -> Option<Self> {
        let root = Path::new("/sys/fs/cgroup");
        let parent = if root.join("cgroup.controllers").exists() {
            let _ = fs::write(
                root.join("cgroup.subtree_control"),
                format!("+{controller}"),
            );
            root.to_owned()
        } else {
            let mut mounts = fs::read_dir(root).ok()?.flatten();
            let has_controller = |name: &str| name.split(',').any(|name| name == controller);
            mounts
                .find(|mount| mount.file_name().to_str().is_some_and(has_controller))?
                .path()
        };
        let name = format!("pipespeed-test-{}-{controller}", std::process::id());
        let group = ControlGroup(parent.join(name));
        fs::create_dir(&group.0).ok()?;
        let mut is_limited = false;
        for (file, text) in settings {
            let file = group.0.join(file);
            if file.exists() {
                fs::write(file, text).ok()?;
                is_limited = true;
            }
        }
        is_limited.then_some(group)
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Its processes have just been killed.
        eventually(|| fs::remove_dir(&self.0).ok());
    }
}
