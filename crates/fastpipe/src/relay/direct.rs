//! splice(2) from one end to the other: references to pages move, or a copy is
//! made once, in the kernel.

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::ends::Place;
use super::step::{Needs, Step};
use super::waiting::is_ready;

/// Moves at most `most` bytes. One of the two must be a pipe.
pub(super) fn step(input: &Place<'_>, output: &Place<'_>, most: u64) -> Step {
    if let Some(blocked) = would_sleep(input, output) {
        return blocked;
    }
    // A file is always ready; the other end alone may have to be waited for.
    let blocked = Needs {
        input: !input.is_always_ready(),
        output: !output.is_always_ready(),
    };
    Step::of_both(splice(input.fd, output.fd, most), blocked)
}

/// What keeps a call from being made, since SPLICE_F_NONBLOCK speaks of the
/// pipe only.
pub(super) fn would_sleep(input: &Place<'_>, output: &Place<'_>) -> Option<Step> {
    if input.is_socket() && !is_ready(input.fd, PollFlags::IN) {
        return Some(Step::Blocked(Needs::INPUT));
    }
    // Whoever shares the open file may have made it a blocking one since.
    if output.is_socket() && !output.is_nonblocking() {
        return Some(Step::Refused(Errno::WOULDBLOCK));
    }
    None
}

pub(super) fn splice(
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    most: u64,
) -> rustix::io::Result<usize> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    rustix::pipe::splice(from, None, to, None, most, SpliceFlags::NONBLOCK)
}
