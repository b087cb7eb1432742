//! What a machine does not allow is a refusal, not a failure: which errors say
//! so, and in which words.

use std::io;

use rustix::io::Errno;

use super::process::Refused;
use crate::machine::Root;

/// io_uring may be turned off (Documentation/admin-guide/sysctl/kernel.rst).
const IO_URING_DISABLED: &str = "proc/sys/kernel/io_uring_disabled";

/// Whether an error is what filters and missing features answer.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    const REFUSALS: [Errno; 4] = [Errno::PERM, Errno::ACCESS, Errno::NOSYS, Errno::INVAL];
    Errno::from_io_error(error).is_some_and(|errno| REFUSALS.contains(&errno))
}

/// A call that this machine does not allow, with what may refuse it.
pub(crate) fn not_allowed(call: &str, error: &io::Error) -> Refused {
    let disabled = match call.contains("io_uring") {
        true => Root::default().number(IO_URING_DISABLED),
        false => None,
    };
    Refused(in_words(call, error, disabled))
}

/// `disabled`: the setting, where the call is io_uring's.
fn in_words(call: &str, error: &io::Error, disabled: Option<u32>) -> String {
    let by = match disabled {
        Some(setting @ 1..) if Errno::from_io_error(error) == Some(Errno::PERM) => {
            format!("the setting kernel.io_uring_disabled, which is {setting}, refuses it")
        }
        _ => "a seccomp filter, as of a container, may refuse it".to_owned(),
    };
    format!("{call} is not allowed here: {error}; {by}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_refuses_is_named_where_it_is_known() {
        let words = |errno: Errno, disabled| in_words("io_uring_setup", &errno.into(), disabled);
        let set = words(Errno::PERM, Some(2));
        assert!(
            set.contains("kernel.io_uring_disabled, which is 2"),
            "{set}"
        );
        for other in [
            words(Errno::PERM, Some(0)),
            words(Errno::PERM, None),
            words(Errno::NOSYS, Some(2)),
        ] {
            assert!(
                other.starts_with("io_uring_setup is not allowed here: "),
                "{other}"
            );
            assert!(
                other.contains("seccomp") && !other.contains("kernel."),
                "{other}"
            );
        }
    }
}
