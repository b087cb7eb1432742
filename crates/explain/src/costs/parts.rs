//! What probes are made of: pipes of a certain capacity, memory of certain pages.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use fastpipe::buffer::{Buffer, Pages, huge_page_size};
use fastpipe::pipe;
use pipespeed_host::process_memory::Backing;

/// Nanoseconds per item, for `count` items.
pub(super) fn ns_per(time: Duration, count: f64) -> f64 {
    time.as_nanos() as f64 / count
}

/// A new pipe with exactly this capacity in bytes.
///
/// # Errors
/// The capacity is not granted.
pub(crate) fn pipe_of(bytes: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let ends = pipe::create()?;
    let granted = pipe::set_capacity(&ends.1, bytes)?;
    if granted != bytes {
        let why = format!("a pipe of {bytes} bytes was requested and one of {granted} granted");
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(ends)
}

/// Maps memory, and verifies that its pages are of this kind.
///
/// # Errors
/// Those of mmap(2); huge pages are not granted.
pub(super) fn mapped(bytes: usize, pages: Pages, touched: bool) -> io::Result<Buffer> {
    let map = |bytes: usize, touched: bool| {
        Buffer::builder()
            .len(bytes)
            .pages(pages)
            .touched(touched)
            .map()
            .map_err(io::Error::from)
    };
    if pages != Pages::Base && !touched {
        // Untouched memory has no pages yet, so another buffer is verified.
        check_huge_pages(&map(huge_page_size(), true)?)?;
    }
    let buffer = map(bytes, touched)?;
    if touched {
        check_huge_pages(&buffer)?;
    }
    Ok(buffer)
}

/// Returns an error if huge pages were requested and not granted, or can't be verified.
pub(super) fn check_huge_pages(buffer: &Buffer) -> io::Result<()> {
    let requested = buffer.pages() != Pages::Base;
    if requested && !Backing::examine(buffer).is_ok_and(|found| found.all_huge()) {
        let why = "this system grants no huge pages, or does not show them";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(())
}
