//! Causes of refused system calls: a setting, a limit, a seccomp filter, the
//! kernel or a security module.
//!
//! A setting or a limit is named only if it certainly refuses the call. Of a
//! seccomp filter one can only know that it is in force, so it is named as a
//! possible cause.

use std::error::Error;
use std::fmt;
use std::io;

use rustix::io::Errno;
use rustix::thread::CapabilitySet;

use super::Root;
use pipespeed_base::limits::{Resource, soft_limit};
use pipespeed_base::size;

/// A system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RefusableCall {
    /// clone(2), for a process or a thread.
    Clone,
    /// io_uring_setup(2) or io_uring_enter(2).
    IoUring,
    /// mlock(2).
    Mlock,
    /// perf_event_open(2).
    PerfEventOpen,
    /// mmap(2) of the memory for samples.
    PerfMmap,
    /// pipe2(2).
    Pipe2,
    /// fcntl(2) F_SETPIPE_SZ.
    SetPipeSize,
    /// One that no setting or limit of its own refuses, by its name.
    Other(String),
}

/// Channels name their calls in words: `write by io_uring`.
impl From<&str> for RefusableCall {
    fn from(name: &str) -> Self {
        if name.contains("io_uring") {
            RefusableCall::IoUring
        } else {
            RefusableCall::Other(name.to_owned())
        }
    }
}

impl fmt::Display for RefusableCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RefusableCall::Clone => "clone(2)",
            RefusableCall::IoUring => "io_uring",
            RefusableCall::Mlock => "mlock(2)",
            RefusableCall::PerfEventOpen => "perf_event_open(2)",
            RefusableCall::PerfMmap => "memory for samples",
            RefusableCall::Pipe2 => "pipe2(2)",
            RefusableCall::SetPipeSize => "fcntl(2) F_SETPIPE_SZ",
            RefusableCall::Other(name) => name,
        })
    }
}

/// Privileges and limits of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Privileges {
    /// Its effective capabilities.
    pub capabilities: CapabilitySet,
    /// Whether it is in the initial user namespace. In others, capabilities don't
    /// apply to system-wide resources.
    pub in_first_user_namespace: bool,
    /// Whether a seccomp filter checks its system calls.
    pub filtered: bool,
    /// RLIMIT_MEMLOCK in bytes; `None` if unlimited.
    pub max_locked: Option<u64>,
}

impl Privileges {
    /// Reads them from `/proc`; without it, no capabilities.
    pub fn current(root: &Root) -> Self {
        const STATUS: &str = "proc/thread-self/status";
        let effective = root
            .field(STATUS, "CapEff")
            .and_then(|mask| u64::from_str_radix(&mask, 16).ok());
        Privileges {
            capabilities: CapabilitySet::from_bits_retain(effective.unwrap_or(0)),
            in_first_user_namespace: root.in_first_user_namespace(),
            filtered: root.field(STATUS, "Seccomp").as_deref() == Some("2"),
            max_locked: soft_limit(Resource::RLIMIT_MEMLOCK),
        }
    }

    /// Whether it has one of these capabilities in the initial user namespace.
    pub fn has_system_wide(&self, any_of: CapabilitySet) -> bool {
        self.in_first_user_namespace && self.capabilities.intersects(any_of)
    }
}

/// A setting that refuses a system call.
struct Setting {
    /// The call.
    call: RefusableCall,
    /// Its file below the root.
    file: &'static str,
    /// Whether all kernels with the call have the file, and no others.
    always_exists: bool,
    /// The lowest value that refuses processes without `exempt`.
    refuses_from: i64,
    /// The lowest value that refuses every process.
    refuses_all_from: i64,
    /// Capabilities that exempt a process (any of them suffices), and their name.
    exempt: (CapabilitySet, &'static str),
    /// The capability with which Docker's default filter allows the call.
    docker: Option<&'static str>,
    /// How to lift it.
    lift: &'static str,
}

static SETTINGS: [Setting; 2] = [
    // Documentation/admin-guide/sysctl/kernel.rst
    Setting {
        call: RefusableCall::IoUring,
        file: "proc/sys/kernel/io_uring_disabled",
        always_exists: false,
        refuses_from: 1,
        refuses_all_from: 2,
        exempt: (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
        docker: None,
        lift: "set it to 0",
    },
    // kernel/events/core.c, perf_allow_kernel; perf_event_open(2)
    Setting {
        call: RefusableCall::PerfEventOpen,
        file: "proc/sys/kernel/perf_event_paranoid",
        always_exists: true,
        refuses_from: 2,
        refuses_all_from: i64::MAX,
        exempt: (
            CapabilitySet::PERFMON.union(CapabilitySet::SYS_ADMIN),
            "CAP_PERFMON (setcap cap_perfmon,cap_syslog+ep)",
        ),
        docker: Some("PERFMON"),
        lift: "set it to 1",
    },
];

/// A system call that was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{call} is refused ({}): {cause}; {remedy}", self.errno_name())]
pub struct Refusal {
    /// The call.
    pub call: RefusableCall,
    /// Its error.
    pub errno: Errno,
    /// The cause in a few words.
    pub cause: String,
    /// How to allow the call.
    pub remedy: String,
}

/// The error number of an error, also if a library has wrapped it.
pub fn errno_of(error: &io::Error) -> Option<Errno> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = cause {
        let own = error.downcast_ref().and_then(Errno::from_io_error);
        if own.is_some() {
            return own;
        }
        // `source()` of an io::Error skips the error it wraps.
        cause = match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    None
}

/// Whether seccomp filters, security modules or kernels without a feature refuse
/// calls with this error.
pub fn is_refusal(error: &io::Error) -> bool {
    const REFUSALS: [Errno; 4] = [Errno::PERM, Errno::ACCESS, Errno::NOSYS, Errno::INVAL];
    Errno::from_io_error(error).is_some_and(|errno| REFUSALS.contains(&errno))
}

/// The refusal that caused a system call's error: one of [`is_refusal`], a limit
/// or a missing file. `None` for other errors.
pub fn explain(call: impl Into<RefusableCall>, error: &io::Error) -> Option<Refusal> {
    let root = Root::default();
    find(
        call.into(),
        errno_of(error)?,
        &root,
        Privileges::current(&root),
    )
}

fn find(call: RefusableCall, errno: Errno, root: &Root, process: Privileges) -> Option<Refusal> {
    let setting = SETTINGS.iter().find(|setting| setting.call == call);
    let by_setting = setting.and_then(|setting| setting.refuses(root, process));
    let (cause, remedy) = match (errno, &call) {
        (Errno::MFILE, _) => because(
            limit("RLIMIT_NOFILE", soft_limit(Resource::RLIMIT_NOFILE)),
            "raise it (ulimit -n)",
        ),
        (Errno::NFILE, _) => because(
            "fs.file-max, or fs.pipe-user-pages-hard",
            "close files and pipes, or raise it",
        ),
        // clone(2): too many processes and threads of the user or control group.
        (Errno::AGAIN, RefusableCall::Clone) => because(
            format!(
                "{}, or pids.max of a control group",
                limit("RLIMIT_NPROC", soft_limit(Resource::RLIMIT_NPROC))
            ),
            "raise the one that is reached (ulimit -u, TasksMax, --pids-limit)",
        ),
        // perf_event_open(2): EPERM of mmap(2).
        (Errno::PERM | Errno::NOMEM, RefusableCall::PerfMmap) => because(
            format!(
                "/proc/sys/kernel/perf_event_mlock_kb is too small or in use, and {}",
                max_locked(process)
            ),
            "raise either (ulimit -l)",
        ),
        (Errno::NOMEM, RefusableCall::Mlock | RefusableCall::IoUring) => cant_lock(process),
        // mlock(2): EPERM means that the limit is 0.
        (Errno::PERM, RefusableCall::Mlock) if process.max_locked == Some(0) => cant_lock(process),
        (Errno::PERM, RefusableCall::SetPipeSize) => because(
            "fs.pipe-max-size or fs.pipe-user-pages-soft",
            "close pipes, have CAP_SYS_RESOURCE, or raise them",
        ),
        (Errno::PERM | Errno::ACCESS, _) => match by_setting {
            // Filters usually answer EPERM.
            Some((cause, remedy)) if process.filtered && errno == Errno::PERM => {
                let too = "a seccomp filter is in force, too";
                because(cause, format!("{remedy}; {too}"))
            }
            Some(by_setting) => by_setting,
            None if process.filtered => because(
                "a seccomp filter is in force and may be the cause",
                pass_filter(&call, setting, process),
            ),
            None => because(
                "no seccomp filter is seen: a security module or a user namespace",
                "try it outside the container",
            ),
        },
        (Errno::NOSYS, _) if process.filtered => {
            let remedy = pass_filter(&call, setting, process);
            let proof =
                setting.filter(|setting| setting.always_exists && root.exists(setting.file));
            match (proof, by_setting) {
                (None, _) => because(
                    "a seccomp filter may be the cause, or the kernel lacks it",
                    remedy,
                ),
                (Some(proof), None) => because(proof.has_call(), remedy),
                (Some(proof), Some((cause, lift))) => because(
                    proof.has_call(),
                    format!("{remedy}; besides, {cause}: {lift}"),
                ),
            }
        }
        (Errno::NOSYS | Errno::INVAL, _) => because(
            "this kernel does not support it",
            "use a newer kernel, or one that is configured with it",
        ),
        (Errno::NOENT, _) => because(
            "it does not exist here",
            "in a container, use an image that has it",
        ),
        _ => return None,
    };
    Some(Refusal {
        call,
        errno,
        cause,
        remedy,
    })
}

/// A cause and its remedy.
fn because(cause: impl Into<String>, remedy: impl Into<String>) -> (String, String) {
    (cause.into(), remedy.into())
}

fn cant_lock(process: Privileges) -> (String, String) {
    let remedy = "raise it (ulimit -l), or have CAP_IPC_LOCK";
    because(max_locked(process), remedy)
}

fn max_locked(process: Privileges) -> String {
    limit("RLIMIT_MEMLOCK", process.max_locked.map(size::format))
}

fn limit(name: &str, value: Option<impl fmt::Display>) -> String {
    match value {
        Some(value) => format!("{name} is {value}"),
        None => name.to_owned(),
    }
}

/// How to get a call past a seccomp filter. Docker's default one allows some calls
/// to processes with a capability.
fn pass_filter(call: &RefusableCall, setting: Option<&Setting>, process: Privileges) -> String {
    let lacked = setting.filter(|setting| !process.capabilities.intersects(setting.exempt.0));
    let docker = match lacked.and_then(|setting| setting.docker) {
        Some(capability) => format!("--cap-add {capability}"),
        None => "--security-opt seccomp=FILE, with a profile that allows it".to_owned(),
    };
    format!("allow {call} in the filter, usually the container's (Docker: {docker})")
}

impl Setting {
    /// The cause of ENOSYS if the file exists.
    fn has_call(&self) -> String {
        let file = self.file;
        format!("a seccomp filter: the kernel has the call, as /{file} shows")
    }

    /// Cause and remedy, if it refuses this process; or if it may, being
    /// unreadable.
    fn refuses(&self, root: &Root, process: Privileges) -> Option<(String, String)> {
        let (capabilities, name) = self.exempt;
        let counts = process.in_first_user_namespace;
        let exempt = counts && process.capabilities.intersects(capabilities);
        let value: Option<i64> = root.number(self.file);
        let for_all = value.is_some_and(|value| value >= self.refuses_all_from);
        let refuses = value.map_or(self.always_exists, |value| value >= self.refuses_from);
        if !refuses || exempt && !for_all {
            return None;
        }
        let file = self.file;
        let cause = match value {
            Some(value) => format!("/{file} is {value}"),
            None => format!("/{file} can't be read and may be the cause"),
        };
        Some((cause, remedy(for_all, counts, name, self.lift)))
    }
}

/// A capability that helps, or how to lift the settings.
fn remedy(for_all: bool, counts: bool, capability: &str, lift: &str) -> String {
    if for_all {
        format!("no capability helps; {lift}")
    } else if counts {
        format!("have {capability}, or {lift}")
    } else {
        format!("capabilities within a user namespace don't count; {lift}")
    }
}

/// Why the kernel shows its symbols' addresses as zero, and how to see them
/// (`kallsyms_show_value` in kernel/ksyms_common.c).
pub fn hidden_symbols(root: &Root) -> String {
    let setting = |name: &str| root.number::<i64>(format!("proc/sys/kernel/{name}"));
    let restrict = setting("kptr_restrict").unwrap_or(0);
    let paranoid = setting("perf_event_paranoid").unwrap_or(0);
    let mut lift = Vec::new();
    if restrict != 0 {
        lift.push("kptr_restrict to 0");
    }
    if paranoid > 1 {
        lift.push("perf_event_paranoid to 1");
    }
    let counts = root.in_first_user_namespace();
    let lift = format!("set {}", lift.join(" and "));
    let remedy = remedy(restrict >= 2, counts, "CAP_SYSLOG", &lift);
    format!(
        "/proc/sys/kernel/kptr_restrict is {restrict} and perf_event_paranoid is {paranoid}; {remedy}"
    )
}

impl Refusal {
    /// The error's name: `EPERM`.
    pub fn errno_name(&self) -> String {
        let errno = nix::errno::Errno::from_raw(self.errno.raw_os_error());
        format!("{errno:?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RefusableCall::{Clone, IoUring, Mlock, PerfEventOpen, PerfMmap, Pipe2, SetPipeSize};

    const ORDINARY: Privileges = Privileges {
        capabilities: CapabilitySet::empty(),
        in_first_user_namespace: true,
        filtered: false,
        max_locked: Some(65_536),
    };
    const FILTERED: Privileges = Privileges {
        filtered: true,
        ..ORDINARY
    };

    /// A root with these files.
    fn root(files: &[(&str, i64)]) -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root(directory.path().to_owned());
        for (file, value) in files {
            std::fs::create_dir_all(root.path(file).parent().unwrap()).unwrap();
            std::fs::write(root.path(file), format!("{value}\n")).unwrap();
        }
        (directory, root)
    }

    fn tee() -> RefusableCall {
        RefusableCall::Other("tee(2)".to_owned())
    }

    fn cause(call: RefusableCall, errno: Errno, root: &Root, process: Privileges) -> String {
        find(call, errno, root, process).map_or("none".to_owned(), |refusal| refusal.cause)
    }

    #[test]
    fn a_filter_is_suspected_only_if_one_is_in_force() {
        let (_directory, root) = root(&[]);
        for errno in [Errno::PERM, Errno::ACCESS, Errno::NOSYS] {
            let filtered = cause(tee(), errno, &root, FILTERED);
            assert!(filtered.contains("a seccomp filter"), "{filtered}");
        }
        let plain = |errno| cause(tee(), errno, &root, ORDINARY);
        assert!(plain(Errno::PERM).contains("a security module"));
        assert!(plain(Errno::NOSYS).contains("this kernel"));
        assert!(plain(Errno::INVAL).contains("this kernel"));
        assert!(plain(Errno::NOENT).contains("does not exist"));
        for errno in [Errno::AGAIN, Errno::NOMEM, Errno::BADF] {
            assert_eq!(plain(errno), "none");
        }
    }

    #[test]
    fn a_setting_is_blamed_only_if_it_certainly_refuses() {
        for setting in &SETTINGS {
            let blamed = |value, process| {
                let (_directory, root) = root(&[(setting.file, value)]);
                let cause = cause(setting.call.clone(), Errno::PERM, &root, process);
                cause == format!("/{} is {value}", setting.file)
            };
            let (low, high) = (setting.refuses_from, setting.refuses_all_from);
            let capable = Privileges {
                capabilities: setting.exempt.0,
                ..ORDINARY
            };
            let within = Privileges {
                in_first_user_namespace: false,
                ..capable
            };
            assert!(!blamed(low - 1, ORDINARY), "{}", setting.file);
            assert!(blamed(low, ORDINARY) && blamed(low, FILTERED));
            assert!(!blamed(low, capable));
            assert!(blamed(high, capable));
            assert!(blamed(low, within));
            // It does not affect other calls.
            let (_directory, root) = root(&[(setting.file, low)]);
            let other = cause(tee(), Errno::PERM, &root, FILTERED);
            assert!(other.contains("filter"), "{other}");
        }
    }

    const LEVEL: &str = "proc/sys/kernel/perf_event_paranoid";

    #[test]
    fn messages_name_cause_and_remedy() {
        let capable = Privileges {
            capabilities: CapabilitySet::PERFMON,
            ..FILTERED
        };
        let within = Privileges {
            in_first_user_namespace: false,
            ..capable
        };
        let mut text = String::new();
        for (call, errno, value, process) in [
            (IoUring, Errno::PERM, Some(2), FILTERED),
            (PerfEventOpen, Errno::ACCESS, Some(2), FILTERED),
            (PerfEventOpen, Errno::PERM, Some(2), FILTERED),
            (PerfEventOpen, Errno::PERM, Some(2), capable),
            (PerfEventOpen, Errno::PERM, Some(1), FILTERED),
            (PerfEventOpen, Errno::ACCESS, Some(2), within),
            (PerfEventOpen, Errno::ACCESS, None, ORDINARY),
            (PerfEventOpen, Errno::NOSYS, Some(2), FILTERED),
            (PerfEventOpen, Errno::NOSYS, None, FILTERED),
            (PerfMmap, Errno::PERM, None, ORDINARY),
            (tee(), Errno::PERM, None, ORDINARY),
        ] {
            let setting = SETTINGS.iter().find(|setting| setting.call == call);
            let files = setting.map(|setting| setting.file).zip(value);
            let (_directory, root) = root(files.as_slice());
            let refusal = find(call, errno, &root, process).unwrap();
            text += &format!("{refusal}\n");
        }
        insta::assert_snapshot!(text, @r"
        io_uring is refused (EPERM): /proc/sys/kernel/io_uring_disabled is 2; no capability helps; set it to 0; a seccomp filter is in force, too
        perf_event_open(2) is refused (EACCES): /proc/sys/kernel/perf_event_paranoid is 2; have CAP_PERFMON (setcap cap_perfmon,cap_syslog+ep), or set it to 1
        perf_event_open(2) is refused (EPERM): /proc/sys/kernel/perf_event_paranoid is 2; have CAP_PERFMON (setcap cap_perfmon,cap_syslog+ep), or set it to 1; a seccomp filter is in force, too
        perf_event_open(2) is refused (EPERM): a seccomp filter is in force and may be the cause; allow perf_event_open(2) in the filter, usually the container's (Docker: --security-opt seccomp=FILE, with a profile that allows it)
        perf_event_open(2) is refused (EPERM): a seccomp filter is in force and may be the cause; allow perf_event_open(2) in the filter, usually the container's (Docker: --cap-add PERFMON)
        perf_event_open(2) is refused (EACCES): /proc/sys/kernel/perf_event_paranoid is 2; capabilities within a user namespace don't count; set it to 1
        perf_event_open(2) is refused (EACCES): /proc/sys/kernel/perf_event_paranoid can't be read and may be the cause; have CAP_PERFMON (setcap cap_perfmon,cap_syslog+ep), or set it to 1
        perf_event_open(2) is refused (ENOSYS): a seccomp filter: the kernel has the call, as /proc/sys/kernel/perf_event_paranoid shows; allow perf_event_open(2) in the filter, usually the container's (Docker: --cap-add PERFMON); besides, /proc/sys/kernel/perf_event_paranoid is 2: have CAP_PERFMON (setcap cap_perfmon,cap_syslog+ep), or set it to 1
        perf_event_open(2) is refused (ENOSYS): a seccomp filter may be the cause, or the kernel lacks it; allow perf_event_open(2) in the filter, usually the container's (Docker: --cap-add PERFMON)
        memory for samples is refused (EPERM): /proc/sys/kernel/perf_event_mlock_kb is too small or in use, and RLIMIT_MEMLOCK is 64KiB; raise either (ulimit -l)
        tee(2) is refused (EPERM): no seccomp filter is seen: a security module or a user namespace; try it outside the container
        ");
    }

    #[test]
    fn hidden_symbols_name_what_shows_them() {
        let hidden = |restrict, paranoid| {
            let restrict = ("proc/sys/kernel/kptr_restrict", restrict);
            let (_directory, root) = root(&[restrict, (LEVEL, paranoid)]);
            hidden_symbols(&root)
        };
        let text = [hidden(1, 2), hidden(0, 2), hidden(1, 1), hidden(2, 2)].join("\n");
        insta::assert_snapshot!(text, @r"
            /proc/sys/kernel/kptr_restrict is 1 and perf_event_paranoid is 2; have CAP_SYSLOG, or set kptr_restrict to 0 and perf_event_paranoid to 1
            /proc/sys/kernel/kptr_restrict is 0 and perf_event_paranoid is 2; have CAP_SYSLOG, or set perf_event_paranoid to 1
            /proc/sys/kernel/kptr_restrict is 1 and perf_event_paranoid is 1; have CAP_SYSLOG, or set kptr_restrict to 0
            /proc/sys/kernel/kptr_restrict is 2 and perf_event_paranoid is 2; no capability helps; set kptr_restrict to 0 and perf_event_paranoid to 1
            ");
    }

    #[test]
    fn channels_calls_are_known_by_their_words() {
        assert_eq!(RefusableCall::from("write by io_uring"), IoUring);
        assert_eq!(RefusableCall::from("tee(2)"), tee());
    }

    #[test]
    fn a_wrapped_error_number_is_found() {
        let pipe = fastpipe::pipe::create().unwrap();
        let busy = {
            rustix::io::write(&pipe.1, &[0; 65_536 / 2]).unwrap();
            fastpipe::pipe::set_capacity(&pipe.1, 1).unwrap_err()
        };
        assert_eq!(errno_of(&busy.into()), Some(Errno::BUSY));
        assert_eq!(errno_of(&Errno::PERM.into()), Some(Errno::PERM));
        assert_eq!(errno_of(&io::Error::other("odd")), None);
    }

    #[test]
    fn limits_are_named_with_their_value() {
        let (_directory, root) = root(&[]);
        let none = Privileges {
            max_locked: Some(0),
            ..ORDINARY
        };
        for (call, errno, process, word) in [
            (Mlock, Errno::NOMEM, ORDINARY, "RLIMIT_MEMLOCK is 64KiB"),
            (Mlock, Errno::PERM, none, "RLIMIT_MEMLOCK is 0B"),
            (Mlock, Errno::PERM, ORDINARY, "security module"),
            (IoUring, Errno::NOMEM, ORDINARY, "ulimit -l"),
            (Clone, Errno::AGAIN, ORDINARY, "pids.max"),
            (Pipe2, Errno::MFILE, ORDINARY, "ulimit -n"),
            (Pipe2, Errno::NFILE, ORDINARY, "pipe-user-pages-hard"),
            (SetPipeSize, Errno::PERM, ORDINARY, "fs.pipe-max-size"),
        ] {
            let text = find(call, errno, &root, process).unwrap().to_string();
            assert!(text.contains(word), "{text}");
        }
    }
}
