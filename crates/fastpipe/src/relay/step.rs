//! What one attempt of a technique is asked, and what it comes to.

use std::io;

use rustix::io::Errno;

use super::report::Side;

/// Which ends are to become ready. EAGAIN does not say which would have blocked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) input: bool,
    pub(super) output: bool,
}

impl Needs {
    pub(super) const INPUT: Needs = Needs {
        input: true,
        output: false,
    };
    pub(super) const OUTPUT: Needs = Needs {
        input: false,
        output: true,
    };
}

/// What an attempt came to. No byte has been moved but by `Moved`.
#[derive(Debug)]
pub(super) enum Step {
    /// So many bytes left the input, so many reached the output; both are 0 only
    /// where a message without bytes was taken.
    Moved { taken: u64, given: u64 },
    /// It would have slept.
    Blocked(Needs),
    /// The call said that the input has no more.
    End,
    /// This technique can't go on. Another may.
    Refused(Errno),
    /// No technique can go on.
    Failed(Side, io::Error),
}

impl Step {
    /// What a call that moves from the input right to the output returned.
    pub(super) fn of_both(result: rustix::io::Result<usize>, blocked: Needs) -> Self {
        match result {
            Ok(0) => Step::End,
            Ok(n) => Step::Moved {
                taken: n as u64,
                given: n as u64,
            },
            Err(errno) => Step::of_error(errno, blocked),
        }
    }

    /// An error of a call that may be the fault of either end.
    ///
    /// Only a few say whose. After any other the next technique is tried, down
    /// to read and write, which tell by themselves.
    pub(super) fn of_error(errno: Errno, blocked: Needs) -> Self {
        match errno {
            // EWOULDBLOCK is the same number on Linux.
            Errno::AGAIN => Step::Blocked(blocked),
            // Nothing was moved: as if nothing had been tried.
            Errno::INTR => Step::Blocked(Needs {
                input: false,
                output: false,
            }),
            Errno::PIPE | Errno::NOSPC | Errno::FBIG | Errno::DQUOT => {
                Step::Failed(Side::Output, errno.into())
            }
            errno => Step::Refused(errno),
        }
    }
}
