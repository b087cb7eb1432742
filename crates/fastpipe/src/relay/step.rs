//! Outcome of one attempt to move bytes.

use std::io;

use rustix::io::Errno;

use super::report::Side;

/// Ends that must become ready. EAGAIN does not show which one would block.
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

/// Outcome of an attempt. Only `Moved` moves bytes.
#[derive(Debug)]
pub(super) enum Step {
    /// Bytes taken from the input, and bytes given to the output. Both are 0 only
    /// after an empty message.
    Moved { taken: u64, given: u64 },
    /// The call would have blocked.
    Blocked(Needs),
    /// The call reported the end of the input.
    End,
    /// This technique can't continue; another one may.
    Refused(Errno),
    /// No technique can continue.
    Failed(Side, io::Error),
}

impl Step {
    /// Converts the result of a call that moves bytes from input to output.
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

    /// Converts an error of a call that involves both ends.
    ///
    /// Only some errors show which end failed. After any other error the next
    /// technique is tried, and finally read and write, where it is obvious.
    pub(super) fn of_error(errno: Errno, blocked: Needs) -> Self {
        match errno {
            // EWOULDBLOCK is the same number on Linux.
            Errno::AGAIN => Step::Blocked(blocked),
            // Nothing was moved, and there is nothing to wait for.
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
