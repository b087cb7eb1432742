//! Outcome of one attempt to move bytes.

use std::io;

use rustix::io::Errno;

use super::report::Side;
use crate::transfer::is_refusal;

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
    /// No pipe of our own could be created.
    pub(super) fn refused(error: &io::Error) -> Self {
        Step::Refused(Errno::from_io_error(error).unwrap_or(Errno::IO))
    }

    /// Converts the result of a call that moves bytes from input to output. An error is
    /// that of [`of_error`](Self::of_error).
    pub(super) fn of_both(
        result: rustix::io::Result<usize>,
        blocked: Needs,
        failed: Option<Side>,
    ) -> Self {
        match result {
            Ok(0) => Step::End,
            Ok(n) => Step::Moved {
                taken: n as u64,
                given: n as u64,
            },
            Err(errno) => Step::of_error(errno, blocked, failed),
        }
    }

    /// Converts an error of a call that involves both ends. `failed` is the end that has
    /// failed unless the call was refused.
    ///
    /// A socket reports an error once, and then the end of the data: the next technique
    /// would take a broken input for a complete one. So the call is repeated before it counts
    /// as refused at a socket. Where `failed` is `None`, neither end is a broken socket. Other
    /// files report an error again, so the next technique is tried, and finally read and
    /// write, where it is obvious which end failed.
    pub(super) fn of_error(errno: Errno, blocked: Needs, failed: Option<Side>) -> Self {
        match (errno, failed) {
            // EWOULDBLOCK is the same number on Linux.
            (Errno::AGAIN, _) => Step::Blocked(blocked),
            // Nothing was moved, and there is nothing to wait for.
            (Errno::INTR, _) => Step::Blocked(Needs {
                input: false,
                output: false,
            }),
            (errno, _) if is_refusal(errno) => Step::Refused(errno),
            (errno, Some(side)) => Step::Failed(side, errno.into()),
            (Errno::PIPE | Errno::NOSPC | Errno::FBIG | Errno::DQUOT, None) => {
                Step::Failed(Side::Output, errno.into())
            }
            (errno, None) => Step::Refused(errno),
        }
    }
}
