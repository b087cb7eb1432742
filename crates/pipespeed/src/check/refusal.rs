//! Who refuses a system call.

use std::io;

use rustix::io::Errno;

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

/// Whether a filter looks at this thread's system calls (proc_pid_status(5)).
pub(super) fn is_filtered(root: &Root) -> bool {
    root.field("proc/thread-self/status", "Seccomp").as_deref() == Some("2")
}

fn because(call: &str, errno: Errno, filtered: bool) -> Option<Outcome> {
    let name = name(errno)?;
    Some(match (errno, filtered) {
        (_, true) => {
            Outcome::refused(format!("refused by a seccomp filter ({name})")).noting(format!(
                "Seccomp is 2 in /proc/self/status; the filter, usually a container's, has to let \
                 {call} pass"
            ))
        }
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
    fn a_filter_is_blamed_only_where_there_is_one() {
        let seen = |errno, filtered| because("tee(2)", errno, filtered).unwrap().seen;
        assert_eq!(
            seen(Errno::PERM, true),
            "refused by a seccomp filter (EPERM)"
        );
        assert_eq!(
            seen(Errno::NOSYS, true),
            "refused by a seccomp filter (ENOSYS)"
        );
        assert_eq!(seen(Errno::NOSYS, false), "not in this kernel (ENOSYS)");
        assert!(seen(Errno::ACCESS, false).contains("no seccomp filter (EACCES)"));
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
