//! What `write`, `read` and `get-user-pages` have in common.

use anyhow::anyhow;

use crate::cli::EndArgs;
use pipespeed_base::failure::say;
use pipespeed_base::size;
use pipespeed_host::process_memory::{Backing, BackingError};
use pipespeed_measure::endpoint::huge_pages_refused;
use pipespeed_measure::record::EndCounters;

/// Whose rules an end follows where they differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// The published programs': only the writer sets the pipe's size, and the kernel must
    /// grant it exactly.
    Published,
    /// The subcommands': either end sets the pipe's size, and warns if the kernel rounds it.
    Subcommand,
}

/// Adds the name of the wrong option to an error of a buffer.
pub(super) fn buffer_error(end: &EndArgs, error: fastpipe::buffer::BufferError) -> anyhow::Error {
    use fastpipe::buffer::BufferError;
    match &error {
        BufferError::Lock { .. } => anyhow!("--lock-memory: {error}"),
        _ => anyhow!("--buf-size {}: {error}", end.buf_size),
    }
}

/// Fails if --check-huge-page is given and the buffer is not known to be in huge pages.
pub(super) fn check_huge_pages(
    end: &EndArgs,
    backing: impl FnOnce() -> Result<Backing, BackingError>,
) -> anyhow::Result<()> {
    if !end.check_huge_page || !end.huge_page {
        return Ok(());
    }
    let found = backing().map_err(|error| {
        anyhow!(
            "--check-huge-page: can't determine the buffer's kind of pages: {error}; \
             mount /proc, or omit the option"
        )
    })?;
    if !found.all_huge() {
        return Err(anyhow!(
            "--check-huge-page: {}",
            huge_pages_refused(found.huge, found.mapped)
        ));
    }
    if end.verbose {
        say(&format!(
            "huge pages: all of {} (shown by {})",
            size::format(found.mapped),
            found.shown_by.name()
        ));
    }
    Ok(())
}

/// Says what an end has used for the bytes that it has `moved`: sent, say.
pub(super) fn say_used(program: &str, moved: &str, used: &EndCounters) {
    say(&format!(
        "{program}: {} {moved} in {:.3} s, {} system calls, {} would-blocks, {} page faults",
        size::format(used.bytes),
        used.seconds,
        used.syscalls,
        used.would_blocks,
        used.page_faults,
    ));
}
