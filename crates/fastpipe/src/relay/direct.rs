//! One call from one end to the other: splice(2), which moves references to pages or
//! copies once, sendfile(2) and copy_file_range(2).

use std::os::fd::BorrowedFd;

use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::ends::Endpoint;
use super::report::Side;
use super::step::{Needs, Step};
use super::waiting::{is_hung_up, is_ready};

/// Moves at most `most` bytes. One end must be a pipe.
pub(super) fn step(input: &Endpoint<'_>, output: &Endpoint<'_>, most: u64) -> Step {
    if let Some(blocked) = would_block(input, output) {
        return blocked;
    }
    // Files are always ready, so only the other end has to be waited for.
    let blocked = Needs {
        input: !input.is_always_ready(),
        output: !output.is_always_ready(),
    };
    let result = splice(input.fd, output.fd, most);
    // A pipe fails only as an output, for lack of a reader.
    let failed = if output.is_pipe() && result != Err(Errno::PIPE) {
        Side::Input
    } else {
        Side::Output
    };
    Step::of_both(result, blocked, Some(failed))
}

/// Returns why a call must not be made now, since SPLICE_F_NONBLOCK affects only
/// pipes.
pub(super) fn would_block(input: &Endpoint<'_>, output: &Endpoint<'_>) -> Option<Step> {
    if input.is_socket() && !input.stays_nonblocking() && !is_ready(input.fd, PollFlags::IN) {
        return Some(Step::Blocked(Needs::INPUT));
    }
    // Another process that shares the open file may have made it blocking.
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

/// Calls sendfile(2) for at most `most` bytes.
pub(super) fn sendfile(input: &Endpoint<'_>, output: &Endpoint<'_>, most: u64) -> Step {
    if let Some(blocked) = would_block(input, output) {
        return blocked;
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let result = rustix::fs::sendfile(output.fd, input.fd, None, most);
    let failed = match result {
        // The input, a file, may have failed too, but reports it again.
        Err(_) if output.is_socket() && is_hung_up(output.fd) => Some(Side::Output),
        _ => None,
    };
    Step::of_both(result, Needs::OUTPUT, failed)
}

/// Calls copy_file_range(2) for at most `most` bytes. If the file system supports
/// it, both files share the blocks and nothing is copied.
pub(super) fn copy_file_range(input: &Endpoint<'_>, output: &Endpoint<'_>, most: u64) -> Step {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let result = rustix::fs::copy_file_range(input.fd, None, output.fd, None, most);
    // Neither end is a socket.
    Step::of_both(result, Needs::OUTPUT, None)
}
