//! sendfile(2) and copy_file_range(2).

use super::direct::would_block;
use super::ends::Endpoint;
use super::step::{Needs, Step};

/// Calls sendfile(2) for at most `most` bytes.
pub(super) fn sendfile(input: &Endpoint<'_>, output: &Endpoint<'_>, most: u64) -> Step {
    if let Some(blocked) = would_block(input, output) {
        return blocked;
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let result = rustix::fs::sendfile(output.fd, input.fd, None, most);
    Step::of_both(result, Needs::OUTPUT)
}

/// Calls copy_file_range(2) for at most `most` bytes. If the file system supports
/// it, both files share the blocks and nothing is copied.
pub(super) fn copy_file_range(input: &Endpoint<'_>, output: &Endpoint<'_>, most: u64) -> Step {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let result = rustix::fs::copy_file_range(input.fd, None, output.fd, None, most);
    Step::of_both(result, Needs::OUTPUT)
}
