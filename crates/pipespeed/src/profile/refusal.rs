//! Why sampling is refused, and what would allow it.

use std::io;

use rustix::io::Errno;

use super::symbols::SymbolsError;
use crate::machine::Root;

/// What a refused user can do instead.
const INSTEAD: &str = "pipespeed costs works without it";

/// Why there is no profile: the setting, and the way out.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// perf_event_open(2) fails by the paranoid level
    /// (Documentation/admin-guide/sysctl/kernel.rst).
    #[error(
        "sampling the kernel is refused: /proc/sys/kernel/perf_event_paranoid is {level}, which \
         asks for CAP_PERFMON; be root, give the program that capability \
         (setcap cap_perfmon,cap_syslog+ep), or set the level to 1; {INSTEAD}"
    )]
    Paranoid {
        /// The level.
        level: i64,
    },
    /// It fails although the level would allow it, or the capability is there.
    #[error(
        "sampling the kernel is refused ({errno}) though perf_event_paranoid and capabilities \
         allow it: a security module, kernel lockdown or a container's user namespace does it; \
         run it outside the container; {INSTEAD}"
    )]
    Elsewhere {
        /// The system's error.
        errno: Errno,
    },
    /// A filter on system calls refuses it.
    #[error(
        "sampling the kernel is refused ({errno}): a seccomp filter, as of a container, does not \
         let perf_event_open(2) pass; allow that call (Docker: --cap-add PERFMON); {INSTEAD}"
    )]
    Seccomp {
        /// The system's error.
        errno: Errno,
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
         perf_event_paranoid is {paranoid}; give the program CAP_SYSLOG, be root, or set \
         kptr_restrict to 0 and perf_event_paranoid to 1; {INSTEAD}"
    )]
    SymbolsHidden {
        /// The setting that hides them.
        kptr_restrict: i64,
        /// The other one (kernel/ksyms_common.c, `kallsyms_show_value`).
        paranoid: i64,
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
            filtered: root.field("proc/self/status", "Seccomp").as_deref() == Some("2"),
        }
    }
}

/// What stands behind an error of perf_event_open(2).
pub fn opening(error: io::Error, facts: &Facts) -> Refusal {
    let Some(errno) = Errno::from_io_error(&error) else {
        return Refusal::Other(error);
    };
    match errno {
        Errno::NOSYS if facts.filtered => Refusal::Seccomp { errno },
        Errno::NOSYS => Refusal::NotBuilt,
        Errno::ACCESS | Errno::PERM => match facts.paranoid {
            Some(level) if level > KERNEL_ALLOWED && !facts.capable => Refusal::Paranoid { level },
            _ if facts.filtered => Refusal::Seccomp { errno },
            _ => Refusal::Elsewhere { errno },
        },
        Errno::MFILE | Errno::NFILE => Refusal::Files(errno),
        _ => Refusal::Other(error),
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
                ..
            },
        ) => Refusal::SymbolsHidden {
            kptr_restrict,
            paranoid,
        },
        (SymbolsError::Unreadable(error), _) if out_of_files(&error).is_some() => {
            opening(error, facts)
        }
        (error, _) => Refusal::NoSymbols(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(errno: Errno, facts: Facts) -> String {
        opening(errno.into(), &facts).to_string()
    }

    #[test]
    fn the_paranoid_level_is_blamed_only_where_it_decides() {
        let ordinary = Facts {
            paranoid: Some(2),
            ..Facts::default()
        };
        assert!(said(Errno::ACCESS, ordinary).contains("perf_event_paranoid is 2"));
        let debian = Facts {
            paranoid: Some(3),
            ..ordinary
        };
        assert!(said(Errno::ACCESS, debian).contains("perf_event_paranoid is 3"));
        let root = Facts {
            capable: true,
            ..ordinary
        };
        assert!(said(Errno::PERM, root).contains("lockdown"));
        let lenient = Facts {
            paranoid: Some(1),
            ..ordinary
        };
        assert!(said(Errno::PERM, lenient).contains("lockdown"));
    }

    #[test]
    fn a_filter_is_named_where_there_is_one() {
        let container = Facts {
            paranoid: Some(1),
            filtered: true,
            ..Facts::default()
        };
        assert!(said(Errno::PERM, container).contains("seccomp"));
        assert!(said(Errno::NOSYS, container).contains("seccomp"));
        assert!(said(Errno::NOSYS, Facts::default()).contains("CONFIG_PERF_EVENTS"));
    }

    #[test]
    fn whoever_runs_out_of_descriptors_hears_of_their_limit() {
        let said = said(Errno::MFILE, Facts::default());
        assert!(said.contains("ulimit -n"), "{said}");
        let within = |errno: Errno| {
            let error = anyhow::Error::new(io::Error::from(errno)).context("a pipe");
            if_out_of_files(error).to_string()
        };
        assert_eq!(within(Errno::MFILE), said);
        assert_eq!(within(Errno::NOENT), "a pipe");
    }

    #[test]
    fn hidden_symbols_name_the_setting_that_hides_them() {
        let facts = Facts {
            paranoid: Some(2),
            kptr_restrict: Some(1),
            ..Facts::default()
        };
        let said = symbols(SymbolsError::Hidden, &facts).to_string();
        assert!(said.contains("kptr_restrict is 1"), "{said}");
        let said = symbols(SymbolsError::Empty, &facts).to_string();
        assert!(said.contains("no names"), "{said}");
    }

    #[test]
    fn every_refusal_is_one_line_and_offers_a_way_that_works() {
        let errno = Errno::PERM;
        let refusals = [
            Refusal::Paranoid { level: 2 },
            Refusal::Elsewhere { errno },
            Refusal::Seccomp { errno },
            Refusal::NotBuilt,
            Refusal::Memory,
            Refusal::NoSymbols(SymbolsError::Empty),
            Refusal::Other(errno.into()),
        ];
        for refusal in refusals {
            let said = refusal.to_string();
            assert!(said.ends_with(INSTEAD) && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn facts_are_read_from_the_files_that_hold_them() {
        let dir = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = dir.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/sys/kernel/perf_event_paranoid", "3\n");
        write("proc/sys/kernel/kptr_restrict", "1\n");
        write(
            "proc/self/status",
            "CapEff:\t0000004000000000\nSeccomp:\t2\n",
        );
        let facts = Facts::read(&Root(dir.path().to_owned()));
        let expected = Facts {
            paranoid: Some(3),
            kptr_restrict: Some(1),
            capable: true,
            filtered: true,
        };
        assert_eq!(facts, expected);
    }
}
