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
use rustix::process::{Resource, getrlimit};
use rustix::thread::CapabilitySet;

use super::Root;
use pipespeed_base::size;

/// Privileges of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its effective capabilities.
    pub capabilities: CapabilitySet,
    /// Whether it is in the initial user namespace. In others, capabilities don't
    /// apply to system-wide resources.
    pub in_first_user_namespace: bool,
    /// Whether a seccomp filter checks its system calls.
    pub filtered: bool,
}

impl Process {
    /// Reads them from `/proc`; without it, no capabilities.
    pub fn current(root: &Root) -> Self {
        const STATUS: &str = "proc/thread-self/status";
        let effective = root
            .field(STATUS, "CapEff")
            .and_then(|mask| u64::from_str_radix(&mask, 16).ok());
        Process {
            capabilities: CapabilitySet::from_bits_retain(effective.unwrap_or(0)),
            in_first_user_namespace: root.in_first_user_namespace(),
            filtered: root.field(STATUS, "Seccomp").as_deref() == Some("2"),
        }
    }

    /// Whether it has one of these capabilities in the initial user namespace.
    pub fn has_system_wide(&self, any_of: CapabilitySet) -> bool {
        self.in_first_user_namespace && self.capabilities.intersects(any_of)
    }
}

/// A setting that refuses system calls.
struct Setting {
    /// Common prefix of the calls it refuses.
    call: &'static str,
    /// Its file below the root.
    file: &'static str,
    /// The lowest value that refuses processes without `exempt`.
    refuses_from: i64,
    /// The lowest value that refuses every process.
    refuses_all_from: i64,
    /// Capabilities that exempt a process (any of them suffices), and their name.
    exempt: (CapabilitySet, &'static str),
    /// Whether capabilities within a user namespace count.
    within_namespace: bool,
    /// How to lift it.
    lift: &'static str,
}

const SETTINGS: [Setting; 3] = [
    // Documentation/admin-guide/sysctl/kernel.rst
    Setting {
        call: "io_uring",
        file: "proc/sys/kernel/io_uring_disabled",
        refuses_from: 1,
        refuses_all_from: 2,
        exempt: (CapabilitySet::SYS_ADMIN, "CAP_SYS_ADMIN"),
        within_namespace: false,
        lift: "set it to 0",
    },
    // Documentation/admin-guide/LSM/Yama.rst
    Setting {
        call: "process_vm_readv",
        file: "proc/sys/kernel/yama/ptrace_scope",
        refuses_from: 2,
        refuses_all_from: 3,
        exempt: (CapabilitySet::SYS_PTRACE, "CAP_SYS_PTRACE"),
        within_namespace: true,
        lift: "set it to 1 (3 stays until the next boot)",
    },
    // kernel/events/core.c, perf_allow_kernel
    Setting {
        call: "perf_event_open",
        file: "proc/sys/kernel/perf_event_paranoid",
        refuses_from: 2,
        refuses_all_from: i64::MAX,
        exempt: (
            CapabilitySet::PERFMON.union(CapabilitySet::SYS_ADMIN),
            "CAP_PERFMON",
        ),
        within_namespace: false,
        lift: "set it to 1",
    },
];

/// Cause of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum By {
    /// A setting below `/proc/sys`.
    Setting {
        /// Its file.
        file: &'static str,
        /// Its value.
        value: i64,
        /// How to allow the call.
        remedy: String,
    },
    /// A resource limit: its name and value, and how to raise it.
    Limit(String, &'static str),
    /// The limits on the pipes of a user.
    PipeLimits,
    /// Possibly the seccomp filter in force.
    Filter,
    /// The kernel lacks the call, or this use of it.
    Kernel,
    /// A required file does not exist.
    Missing,
    /// None of these: a security module or the user namespace.
    SecurityModule,
}

/// A system call that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The call: `vmsplice(2)`.
    pub call: String,
    /// Its error.
    pub errno: Errno,
    /// The cause.
    pub by: By,
    /// Whether a seccomp filter is in force, which may refuse the call as well.
    pub filtered: bool,
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
pub fn of(call: &str, error: &io::Error) -> Option<Refusal> {
    let root = Root::default();
    let memlock = getrlimit(Resource::Memlock).current;
    find(
        call,
        errno_of(error)?,
        &root,
        Process::current(&root),
        memlock,
    )
}

fn find(
    call: &str,
    errno: Errno,
    root: &Root,
    process: Process,
    memlock: Option<u64>,
) -> Option<Refusal> {
    let locks_memory = call.starts_with("mlock") || call.starts_with("io_uring");
    let by = match errno {
        Errno::MFILE => {
            let limit = getrlimit(Resource::Nofile).current;
            By::Limit(limit_text("RLIMIT_NOFILE", limit), "raise it (ulimit -n)")
        }
        Errno::NFILE => By::Limit(
            "fs.file-max, or fs.pipe-user-pages-hard".to_owned(),
            "close files and pipes, or raise it",
        ),
        // clone(2): too many processes and threads of the user or control group.
        Errno::AGAIN if call.starts_with("clone") => By::Limit(
            limit_text("RLIMIT_NPROC", getrlimit(Resource::Nproc).current),
            "raise it (ulimit -u), or pids.max of the control group",
        ),
        Errno::NOMEM if locks_memory => locked_memory(memlock),
        // mlock(2): EPERM means that the limit is 0.
        Errno::PERM if call.starts_with("mlock") && memlock == Some(0) => locked_memory(memlock),
        Errno::PERM if call.contains("F_SETPIPE_SZ") => By::PipeLimits,
        Errno::PERM | Errno::ACCESS => match setting(call, root, process) {
            Some(by) => by,
            None if process.filtered => By::Filter,
            None => By::SecurityModule,
        },
        Errno::NOSYS if process.filtered => By::Filter,
        Errno::NOSYS | Errno::INVAL => By::Kernel,
        Errno::NOENT => By::Missing,
        _ => return None,
    };
    Some(Refusal {
        call: call.to_owned(),
        errno,
        by,
        filtered: process.filtered,
    })
}

fn locked_memory(limit: Option<u64>) -> By {
    By::Limit(
        match limit {
            Some(bytes) => format!("RLIMIT_MEMLOCK is {}", size::format(bytes)),
            None => "RLIMIT_MEMLOCK".to_owned(),
        },
        "raise it (ulimit -l), or have CAP_IPC_LOCK",
    )
}

fn limit_text(name: &str, value: Option<u64>) -> String {
    match value {
        Some(value) => format!("{name} is {value}"),
        None => name.to_owned(),
    }
}

/// The setting that certainly refuses this call, if any.
fn setting(call: &str, root: &Root, process: Process) -> Option<By> {
    let setting = SETTINGS
        .iter()
        .find(|setting| call.starts_with(setting.call))?;
    let value: i64 = root.number(setting.file)?;
    let (capabilities, name) = setting.exempt;
    let exempt = if setting.within_namespace {
        process.capabilities.intersects(capabilities)
    } else {
        process.has_system_wide(capabilities)
    };
    let for_all = value >= setting.refuses_all_from;
    if value < setting.refuses_from || exempt && !for_all {
        return None;
    }
    let lift = setting.lift;
    let remedy = if for_all {
        format!("no capability helps; {lift}")
    } else if setting.within_namespace || process.in_first_user_namespace {
        format!("have {name}, or {lift}")
    } else {
        format!("capabilities within a user namespace don't count; {lift}")
    };
    Some(By::Setting {
        file: setting.file,
        value,
        remedy,
    })
}

impl Refusal {
    /// The error's name: `EPERM`.
    pub fn errno_name(&self) -> String {
        let errno = nix::errno::Errno::from_raw(self.errno.raw_os_error());
        format!("{errno:?}")
    }

    /// The cause in a few words.
    pub fn cause(&self) -> String {
        match &self.by {
            By::Setting { file, value, .. } => format!("/{file} is {value}"),
            By::Limit(limit, _) => limit.clone(),
            By::PipeLimits => "fs.pipe-max-size or fs.pipe-user-pages-soft".to_owned(),
            By::Filter => "a seccomp filter is in force and may be the cause".to_owned(),
            By::Kernel => "this kernel does not support it".to_owned(),
            By::Missing => "it does not exist here".to_owned(),
            By::SecurityModule => {
                "no seccomp filter: a security module or a user namespace".to_owned()
            }
        }
    }

    /// How to allow the call.
    pub fn remedy(&self) -> String {
        let call = &self.call;
        let remedy = match &self.by {
            By::Setting { remedy, .. } => remedy.clone(),
            By::Limit(_, remedy) => (*remedy).to_owned(),
            By::PipeLimits => "close pipes, have CAP_SYS_RESOURCE, or raise them".to_owned(),
            By::Filter => {
                return format!("allow {call} in the filter, usually the container's");
            }
            By::Kernel => return "use a newer kernel".to_owned(),
            By::Missing => return "in a container, use an image that has it".to_owned(),
            By::SecurityModule => return "try it outside the container".to_owned(),
        };
        let refuses_too = self.filtered && matches!(self.by, By::Setting { .. });
        let also = "; a seccomp filter is in force, too";
        format!("{remedy}{}", if refuses_too { also } else { "" })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (call, errno) = (&self.call, self.errno_name());
        let (cause, remedy) = (self.cause(), self.remedy());
        write!(f, "{call} is refused ({errno}): {cause}; {remedy}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDINARY: Process = Process {
        capabilities: CapabilitySet::empty(),
        in_first_user_namespace: true,
        filtered: false,
    };
    const FILTERED: Process = Process {
        filtered: true,
        ..ORDINARY
    };

    /// A root with one setting.
    fn root(file: &str, value: i64) -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root(directory.path().to_owned());
        std::fs::create_dir_all(root.path(file).parent().unwrap()).unwrap();
        std::fs::write(root.path(file), format!("{value}\n")).unwrap();
        (directory, root)
    }

    fn by(call: &str, errno: Errno, root: &Root, process: Process) -> Option<By> {
        find(call, errno, root, process, Some(65_536)).map(|refusal| refusal.by)
    }

    #[test]
    fn a_filter_is_suspected_only_if_one_is_in_force() {
        let (_directory, root) = root("none", 0);
        for errno in [Errno::PERM, Errno::ACCESS, Errno::NOSYS] {
            assert_eq!(by("tee(2)", errno, &root, FILTERED), Some(By::Filter));
        }
        let plain = |errno| by("tee(2)", errno, &root, ORDINARY);
        assert_eq!(plain(Errno::PERM), Some(By::SecurityModule));
        assert_eq!(plain(Errno::NOSYS), Some(By::Kernel));
        assert_eq!(plain(Errno::INVAL), Some(By::Kernel));
        assert_eq!(plain(Errno::NOENT), Some(By::Missing));
        assert_eq!(plain(Errno::AGAIN), None);
        assert_eq!(plain(Errno::NOMEM), None);
        assert_eq!(plain(Errno::BADF), None);
    }

    #[test]
    fn a_setting_is_blamed_only_if_it_certainly_refuses() {
        for setting in &SETTINGS {
            let blamed = |value, process| {
                let (_directory, root) = root(setting.file, value);
                let by = by(setting.call, Errno::PERM, &root, process);
                matches!(by, Some(By::Setting { value: found, .. }) if found == value)
            };
            let (low, high) = (setting.refuses_from, setting.refuses_all_from);
            let capable = Process {
                capabilities: setting.exempt.0,
                ..ORDINARY
            };
            let within = Process {
                in_first_user_namespace: false,
                ..capable
            };
            assert!(!blamed(low - 1, ORDINARY), "{}", setting.file);
            assert!(blamed(low, ORDINARY) && blamed(low, FILTERED));
            assert!(!blamed(low, capable));
            assert!(blamed(high, capable));
            assert_eq!(blamed(low, within), !setting.within_namespace);
            let (_directory, root) = root(setting.file, low);
            assert_eq!(
                by(setting.call, Errno::NOSYS, &root, ORDINARY),
                Some(By::Kernel)
            );
            // It does not affect other calls.
            assert_eq!(by("tee(2)", Errno::PERM, &root, FILTERED), Some(By::Filter));
        }
    }

    #[test]
    fn messages_name_the_setting_with_its_value_and_the_filter() {
        let file = "proc/sys/kernel/io_uring_disabled";
        let (_directory, root) = root(file, 2);
        let refusal = find("io_uring_setup(2)", Errno::PERM, &root, FILTERED, None).unwrap();
        assert_eq!(
            refusal.to_string(),
            "io_uring_setup(2) is refused (EPERM): /proc/sys/kernel/io_uring_disabled is 2; \
             no capability helps; set it to 0; a seccomp filter is in force, too"
        );
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
        let (_directory, root) = root("none", 0);
        let shown = |call, errno, memlock| {
            let refusal = find(call, errno, &root, ORDINARY, memlock)?;
            Some(refusal.to_string())
        };
        let words = [
            (
                "mlock(2)",
                Errno::NOMEM,
                Some(65_536),
                "RLIMIT_MEMLOCK is 64KiB",
            ),
            ("mlock(2)", Errno::PERM, Some(0), "RLIMIT_MEMLOCK is 0B"),
            ("mlock(2)", Errno::PERM, Some(65_536), "security module"),
            ("io_uring_setup(2)", Errno::NOMEM, None, "ulimit -l"),
            ("clone(2)", Errno::AGAIN, None, "pids.max"),
            ("pipe2(2)", Errno::MFILE, None, "ulimit -n"),
            ("pipe2(2)", Errno::NFILE, None, "pipe-user-pages-hard"),
            (
                "fcntl(2) F_SETPIPE_SZ",
                Errno::PERM,
                None,
                "fs.pipe-max-size",
            ),
        ];
        for (call, errno, memlock, word) in words {
            let text = shown(call, errno, memlock).unwrap();
            assert!(text.contains(word), "{text}");
        }
    }
}
