//! The system calls that copy from file to file, or send a file, by themselves.

use super::direct::would_sleep;
use super::ends::Place;
use super::step::{Needs, Step};

/// sendfile(2), at most `most` bytes.
pub(super) fn sendfile(input: &Place<'_>, output: &Place<'_>, most: u64) -> Step {
    if let Some(blocked) = would_sleep(input, output) {
        return blocked;
    }
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let result = rustix::fs::sendfile(output.fd, input.fd, None, most);
    Step::of_both(result, Needs::OUTPUT)
}

/// copy_file_range(2), at most `most` bytes. Where the file system can, the two
/// files share the blocks and nothing is copied.
pub(super) fn copy_file_range(input: &Place<'_>, output: &Place<'_>, most: u64) -> Step {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let result = rustix::fs::copy_file_range(input.fd, None, output.fd, None, most);
    Step::of_both(result, Needs::OUTPUT)
}
