//! Why sampling is refused, and what would allow it.

use std::io;

use rustix::io::Errno;

use super::symbols::SymbolsError;
use pipespeed_host::Root;

/// What a refused user can do instead.
const INSTEAD: &str = "pipespeed profile CASE then counts, and pipespeed costs works without it";

/// Why there is no profile: the setting, and the way out.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// perf_event_open(2) fails by the paranoid level
    /// (Documentation/admin-guide/sysctl/kernel.rst).
    #[error(
        "sampling the kernel is refused: /proc/sys/kernel/perf_event_paranoid is {level}, which \
         asks for CAP_PERFMON; be root, give the program that capability \
         (setcap cap_perfmon,cap_syslog+ep), or set the level to 1{}; {INSTEAD}",
        too(*and_filter)
    )]
    Paranoid {
        /// The level.
        level: i64,
        /// Whether a seccomp filter seems to refuse it as well.
        and_filter: bool,
    },
    /// The same to somebody in whose user namespace no capability counts for it.
    #[error(
        "sampling the kernel is refused: /proc/sys/kernel/perf_event_paranoid is {level}, which \
         asks for CAP_PERFMON, and capabilities within a user namespace, as a container's, don't \
         count; run it outside, or set the level to 1{}; {INSTEAD}",
        too(*and_filter)
    )]
    Within {
        /// The level.
        level: i64,
        /// Whether a seccomp filter seems to refuse it as well.
        and_filter: bool,
    },
    /// It fails although nothing is known that would refuse it.
    #[error(
        "sampling the kernel is refused ({errno}) though perf_event_paranoid and capabilities \
         allow it and no seccomp filter is in place: a security module or kernel lockdown does \
         it; run it outside the container; {INSTEAD}"
    )]
    Elsewhere {
        /// The system's error.
        errno: Errno,
    },
    /// It fails although all other settings would allow it, and there is a filter
    /// on system calls. What that lets pass can't be looked up.
    #[error(
        "sampling the kernel is refused ({errno}); perf_event_paranoid and capabilities allow it, \
         but a seccomp filter, as of a container, is in place and may be the cause: let \
         perf_event_open(2) pass ({}); {INSTEAD}",
        docker(*capable)
    )]
    Seccomp {
        /// The system's error.
        errno: Errno,
        /// Whether the process has the capability already.
        capable: bool,
    },
    /// A filter answers that there is no such call, which the kernel has.
    #[error(
        "sampling the kernel is refused (ENOSYS) by a seccomp filter, as of a container: the \
         kernel has perf_event_open(2), or /proc/sys/kernel/perf_event_paranoid would not exist; \
         let the call pass ({}){}; {INSTEAD}",
        docker(*capable),
        asked_besides(*level, *within)
    )]
    Filter {
        /// Whether the process has the capability already.
        capable: bool,
        /// The level, where it would refuse as well.
        level: Option<i64>,
        /// Whether capabilities don't count, as in a user namespace.
        within: bool,
    },
    /// It fails where the level can't be read.
    #[error(
        "sampling the kernel is refused ({errno}), and why can't be told as \
         /proc/sys/kernel/perf_event_paranoid can't be read: above 1 it asks for CAP_PERFMON{}; {INSTEAD}",
        too(*and_filter)
    )]
    Unread {
        /// The system's error.
        errno: Errno,
        /// Whether a seccomp filter may be what refuses.
        and_filter: bool,
    },
    /// The kernel has no such call.
    #[error("this kernel was built without perf events (CONFIG_PERF_EVENTS); {INSTEAD}")]
    NotBuilt,
    /// The memory for samples is not granted (perf_event_mmap(2) of
    /// perf_event_open(2): EPERM past the limits).
    #[error(
        "memory for samples is refused: /proc/sys/kernel/perf_event_mlock_kb is too small, or too \
         much of it is in use, and so is the limit of locked memory (ulimit -l); raise either; \
         {INSTEAD}"
    )]
    Memory,
    /// Kernel functions have no names.
    #[error(
        "kernel symbols are hidden: /proc/sys/kernel/kptr_restrict is {kptr_restrict} and \
         perf_event_paranoid is {paranoid}; {}; {INSTEAD}",
        to_see_symbols(*kptr_restrict, *paranoid, *within)
    )]
    SymbolsHidden {
        /// The setting that hides them.
        kptr_restrict: i64,
        /// The other one (kernel/ksyms_common.c, `kallsyms_show_value`).
        paranoid: i64,
        /// Whether capabilities don't count, as in a user namespace.
        within: bool,
    },
    /// There are none.
    #[error("kernel functions have no names here: {0}; {INSTEAD}")]
    NoSymbols(SymbolsError),
    /// No descriptor is left: every stage takes one a processor, and a few more.
    #[error(
        "there are too few file descriptors ({0}): sampling takes one for each process and \
         processor; raise their limit (ulimit -n)"
    )]
    Files(Errno),
    /// Anything else.
    #[error("can't sample the kernel: {0}; {INSTEAD}")]
    Other(io::Error),
}

/// What bears on the permission to sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Facts {
    /// /proc/sys/kernel/perf_event_paranoid.
    pub paranoid: Option<i64>,
    /// /proc/sys/kernel/kptr_restrict.
    pub kptr_restrict: Option<i64>,
    /// Whether this process has CAP_PERFMON or CAP_SYS_ADMIN
    /// (capabilities(7)).
    pub capable: bool,
    /// Whether it is in a user namespace, where they don't count (perfmon_capable()
    /// in include/linux/capability.h asks for the first one's).
    pub within: bool,
    /// Whether a filter looks at its system calls.
    pub filtered: bool,
}

/// CAP_PERFMON (Linux 5.8) and CAP_SYS_ADMIN, which held its place before.
const CAPABILITIES: [u32; 2] = [38, 21];

/// What the level must not exceed (kernel/events/core.c, `perf_allow_kernel`).
const KERNEL_ALLOWED: i64 = 1;

impl Facts {
    /// Reads them.
    pub fn read(root: &Root) -> Self {
        let number = |file| root.number(file);
        let effective = root
            .field("proc/self/status", "CapEff")
            .and_then(|mask| u64::from_str_radix(&mask, 16).ok())
            .unwrap_or(0);
        Facts {
            paranoid: number("proc/sys/kernel/perf_event_paranoid"),
            kptr_restrict: number("proc/sys/kernel/kptr_restrict"),
            capable: CAPABILITIES.iter().any(|bit| effective >> bit & 1 == 1),
            within: !root.in_first_user_namespace(),
            filtered: root.field("proc/self/status", "Seccomp").as_deref() == Some("2"),
        }
    }
}

/// What is said beside a cause that will do where a filter shows as well.
fn too(and_filter: bool) -> &'static str {
    if and_filter {
        "; a seccomp filter is in place and may refuse it, too"
    } else {
        ""
    }
}

/// How to let perf_event_open(2) pass Docker's filter. Its default one does for
/// whoever has the capability; where that doesn't help, another filter is at work.
fn docker(capable: bool) -> &'static str {
    if capable {
        "Docker: --security-opt seccomp=FILE, with a profile that allows it"
    } else {
        "Docker: --cap-add PERFMON"
    }
}

/// What the level asks for besides the filter.
fn asked_besides(level: Option<i64>, within: bool) -> String {
    let Some(level) = level else {
        return String::new();
    };
    let way = if within {
        ", and capabilities within a user namespace don't count: set it to 1, or run it outside"
    } else {
        ""
    };
    format!("; besides, perf_event_paranoid is {level}, which asks for CAP_PERFMON{way}")
}

/// What would show the kernel's symbols. `kallsyms_show_value` asks for
/// CAP_SYSLOG in the first user namespace, in vain where kptr_restrict is 2, and
/// for nothing where it is 0 and the level lets everybody sample.
fn to_see_symbols(kptr_restrict: i64, paranoid: i64, within: bool) -> String {
    let mut settings = Vec::new();
    if kptr_restrict != 0 {
        settings.push("kptr_restrict to 0");
    }
    if paranoid > KERNEL_ALLOWED {
        settings.push("perf_event_paranoid to 1");
    }
    let for_all = format!("set {}", settings.join(" and "));
    match (within, kptr_restrict >= 2) {
        (true, true) => format!(
            "{for_all}: capabilities within a user namespace, as a container's, don't count"
        ),
        (true, false) => format!(
            "capabilities within a user namespace, as a container's, don't count; {for_all}, or \
             run it outside as root"
        ),
        (false, true) => format!(
            "set kptr_restrict to 1 and be root or give the program CAP_SYSLOG, which does not \
             help while it is 2; or {for_all}"
        ),
        (false, false) => format!("give the program CAP_SYSLOG, be root, or {for_all}"),
    }
}

/// What stands behind an error of perf_event_open(2).
pub fn opening(error: io::Error, facts: &Facts) -> Refusal {
    match Errno::from_io_error(&error) {
        Some(errno @ (Errno::ACCESS | Errno::PERM)) => forbidden(errno, facts),
        Some(Errno::NOSYS) => missing(error, facts),
        Some(errno @ (Errno::MFILE | Errno::NFILE)) => Refusal::Files(errno),
        _ => Refusal::Other(error),
    }
}

/// A setting that refuses by itself is the cause, whatever else there is.
fn forbidden(errno: Errno, facts: &Facts) -> Refusal {
    // The level answers EACCES (kernel/events/core.c); a filter what it likes,
    // which is EPERM most often, and it is asked first.
    let and_filter = facts.filtered && errno != Errno::ACCESS;
    let &Facts {
        capable,
        within,
        filtered,
        ..
    } = facts;
    match facts.paranoid {
        _ if capable && !within && filtered => Refusal::Seccomp { errno, capable },
        _ if capable && !within => Refusal::Elsewhere { errno },
        Some(level) if level > KERNEL_ALLOWED && within => Refusal::Within { level, and_filter },
        Some(level) if level > KERNEL_ALLOWED => Refusal::Paranoid { level, and_filter },
        Some(_) if filtered => Refusal::Seccomp { errno, capable },
        Some(_) => Refusal::Elsewhere { errno },
        None => Refusal::Unread {
            errno,
            and_filter: filtered,
        },
    }
}

/// A kernel with perf events has the level's file (perf_event_open(2)), if its
/// settings can be read at all.
fn missing(error: io::Error, facts: &Facts) -> Refusal {
    let &Facts {
        capable,
        within,
        filtered,
        ..
    } = facts;
    match (facts.paranoid, facts.kptr_restrict) {
        (Some(level), _) if filtered => Refusal::Filter {
            capable,
            level: Some(level).filter(|level| *level > KERNEL_ALLOWED && (within || !capable)),
            within,
        },
        (Some(_), _) => Refusal::Other(error),
        (None, None) if filtered => forbidden(Errno::NOSYS, facts),
        _ => Refusal::NotBuilt,
    }
}

/// A refusal in place of an error that no descriptor is left, wherever it came
/// up; others as they are.
pub fn if_out_of_files(error: anyhow::Error) -> anyhow::Error {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref());
    match causes.find_map(out_of_files) {
        Some(errno) => Refusal::Files(errno).into(),
        None => error,
    }
}

fn out_of_files(error: &io::Error) -> Option<Errno> {
    Errno::from_io_error(error).filter(|errno| matches!(*errno, Errno::MFILE | Errno::NFILE))
}

/// What stands behind an error of mapping the samples' memory.
pub fn mapping(error: io::Error) -> Refusal {
    match Errno::from_io_error(&error) {
        Some(Errno::PERM | Errno::NOMEM) => Refusal::Memory,
        _ => Refusal::Other(error),
    }
}

/// What stands behind missing symbols.
pub fn symbols(error: SymbolsError, facts: &Facts) -> Refusal {
    match (error, facts) {
        (
            SymbolsError::Hidden,
            &Facts {
                paranoid: Some(paranoid),
                kptr_restrict: Some(kptr_restrict),
                within,
                ..
            },
        ) => Refusal::SymbolsHidden {
            kptr_restrict,
            paranoid,
            within,
        },
        (SymbolsError::Unreadable(error), _) if out_of_files(&error).is_some() => {
            opening(error, facts)
        }
        (error, _) => Refusal::NoSymbols(error),
    }
}

#[cfg(test)]
mod tests;
