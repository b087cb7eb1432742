//! Who refuses a system call.

use std::io;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::Outcome;
use crate::machine::Root;

/// The refusal that an error of this system call is, if it is one.
pub(super) fn of(call: &str, error: &io::Error) -> Option<Outcome> {
    let errno = Errno::from_io_error(error)?;
    because(call, errno, is_filtered(&Root::default()))
}

/// A call that is refused is an outcome; whatever else keeps it from working is
/// an error.
///
/// # Errors
/// The error, where it is no refusal.
pub(super) fn or_error(call: &str, error: io::Error) -> anyhow::Result<Outcome> {
    match of(call, &error) {
        Some(refused) => Ok(refused),
        None => Err(anyhow::Error::new(error).context(call.to_owned())),
    }
}

/// Whether there are too few file descriptors, which is told for all checks
/// alike: they hand that error on.
pub(super) fn out_of_descriptors(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

/// What stands before the error of starting a thread, so that it is known by.
#[derive(Debug, thiserror::Error)]
#[error("a thread that writes")]
pub(super) struct NoThread;

/// What to do where clone(2) answers EAGAIN: there are no more threads and
/// processes.
pub(super) fn out_of_processes() -> String {
    format!(
        "there are as many processes and threads as there may be of this user, or in this control \
         group: {}, or pids.max",
        to_be_raised("ulimit -u", Resource::Nproc)
    )
}

/// A limit that has to be raised, with its value.
pub(super) fn to_be_raised(command: &str, limit: Resource) -> String {
    match getrlimit(limit).current {
        Some(now) => format!("raise the limit ({command}, now {now})"),
        None => format!("raise the limit ({command})"),
    }
}

/// Whether a filter looks at this thread's system calls (proc_pid_status(5)).
pub(super) fn is_filtered(root: &Root) -> bool {
    root.field("proc/thread-self/status", "Seccomp").as_deref() == Some("2")
}

fn because(call: &str, errno: Errno, filtered: bool) -> Option<Outcome> {
    match (call, errno) {
        // A plain page is all that is ever sent here.
        ("vmsplice(2)", Errno::INVAL) => {
            return Some(Outcome::refused("refused (EINVAL)").noting(
                "even of a plain page: this kernel, or what stands in for it, has it not",
            ));
        }
        ("clone(2)", Errno::AGAIN) => {
            return Some(Outcome::refused("refused (EAGAIN)").noting(out_of_processes()));
        }
        _ => {}
    }
    let name = name(errno)?;
    Some(match (errno, filtered) {
        // A filter leaves no other trace than that it is there.
        (_, true) => Outcome::refused(format!(
            "refused ({name}); a seccomp filter is in force and may be what refuses"
        ))
        .noting(format!(
            "Seccomp is 2 in /proc/self/status; the filter, usually a container's, has to let \
             {call} pass{}",
            match errno {
                Errno::NOSYS => ", and the kernel has to have it",
                _ => "; if it does, a security module or a user namespace refuses",
            }
        )),
        (Errno::NOSYS, false) => Outcome::refused(format!("not in this kernel ({name})")),
        (_, false) => Outcome::refused(format!("refused, by no seccomp filter ({name})")).noting(
            "a security module (SELinux, AppArmor) or the bounds of a user namespace are left; try \
             it outside the container",
        ),
    })
}

/// The name of an error by which calls are refused.
fn name(errno: Errno) -> Option<&'static str> {
    match errno {
        Errno::PERM => Some("EPERM"),
        Errno::ACCESS => Some("EACCES"),
        Errno::NOSYS => Some("ENOSYS"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Verdict;

    #[test]
    fn a_filter_is_suspected_only_where_there_is_one() {
        let seen = |errno, filtered| because("tee(2)", errno, filtered).unwrap().seen;
        assert_eq!(
            seen(Errno::PERM, true),
            "refused (EPERM); a seccomp filter is in force and may be what refuses"
        );
        assert!(seen(Errno::NOSYS, true).starts_with("refused (ENOSYS); a seccomp filter"));
        assert_eq!(seen(Errno::NOSYS, false), "not in this kernel (ENOSYS)");
        assert!(seen(Errno::ACCESS, false).contains("no seccomp filter (EACCES)"));
    }

    #[test]
    fn calls_have_refusals_of_their_own() {
        let refused = |call, errno: Errno| of(call, &errno.into()).map(|outcome| outcome.seen);
        let einval = refused("vmsplice(2)", Errno::INVAL).unwrap();
        assert!(einval.contains("EINVAL"), "{einval}");
        assert_eq!(refused("tee(2)", Errno::INVAL), None);
        let note = of("clone(2)", &Errno::AGAIN.into()).unwrap().note.unwrap();
        assert!(note.contains("pids.max"), "{note}");
        assert_eq!(refused("vmsplice(2)", Errno::AGAIN), None);
    }

    #[test]
    fn what_is_no_refusal_stays_an_error() {
        assert_eq!(of("tee(2)", &Errno::MFILE.into()), None);
        let error = or_error("tee(2)", Errno::MFILE.into()).unwrap_err();
        assert!(error.to_string().contains("tee(2)"), "{error}");
        let refused = or_error("tee(2)", Errno::PERM.into()).unwrap();
        assert_eq!(refused.verdict, Verdict::Refused);
    }
}
