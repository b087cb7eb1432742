//! Memory that is known to be of the pages asked for.

use std::io;

use fastpipe::buffer::{Buffer, Pages, huge_page_size};

/// A buffer of those pages.
///
/// # Errors
/// When it can't be had, or huge pages were asked for and are not granted.
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
        // What nobody has written to shows nothing: one that was stands for it.
        huge_pages_or_refuse(&map(huge_page_size(), true)?)?;
    }
    let buffer = map(bytes, touched)?;
    if touched {
        huge_pages_or_refuse(&buffer)?;
    }
    Ok(buffer)
}

/// Refuses a buffer that should be in huge pages and is not, or can't be shown
/// to be.
fn huge_pages_or_refuse(buffer: &Buffer) -> io::Result<()> {
    let asked = buffer.pages() != Pages::Base;
    if asked && !buffer.backing().is_ok_and(|backing| backing.all_huge()) {
        let why = "this system grants no huge pages, or does not show them";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(())
}
