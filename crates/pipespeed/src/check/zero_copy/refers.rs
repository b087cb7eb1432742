//! Whether vmsplice refers to pages or copies them, in either direction.

use std::hint::black_box;

use fastpipe::buffer::Buffer;
use fastpipe::memory::{Pagemap, Process};
use fastpipe::pipe::page_size;
use fastpipe::transfer::{Input, VmspliceOptions};
use fastpipe::wait::Wait;

use super::steps::{NEW, OLD, Pipe, at, found, needs_references, old_page, vmsplice_refers};
use crate::check::Outcome;

pub(super) fn from_memory() -> anyhow::Result<Outcome> {
    found(|| {
        Ok(match vmsplice_refers()? {
            true => Outcome::seen("yes, a later change is read"),
            false => Outcome::seen("no, it copies: a later change is not read")
                .noting("vmsplice(2) has nothing over write(2) on this kernel"),
        })
    })
}

pub(super) fn to_memory() -> anyhow::Result<Outcome> {
    needs_references(|| {
        let mut from = old_page()?;
        let mut to = at("mmap(2)", Buffer::builder().len(page_size()).map())?;
        let pipe = Pipe::holding(&from, VmspliceOptions::default())?;
        let mut input = Input::new(&pipe.reader, Wait::Never);
        at("vmsplice(2)", input.vmsplice(&mut to))?;
        let came = to[0] == OLD;
        let same_frame = frame(&from).zip(frame(&to)).map(|(from, to)| from == to);
        from[0] = NEW;
        // They may be the same memory, which the compiler does not expect.
        let shared = black_box(&to)[0] == NEW;
        Ok(match (came, shared, same_frame) {
            (false, ..) => Outcome::fail("other bytes came out than were put in"),
            (_, true, _) | (_, _, Some(true)) => {
                Outcome::seen("no, memory and pipe share the page")
            }
            (.., Some(false)) => Outcome::seen("yes, into another page frame"),
            (.., None) => Outcome::seen("yes, a later change does not show"),
        })
    })
}

/// The number of the page's frame, where this process may see it.
fn frame(page: &Buffer) -> Option<u64> {
    let pagemap = Pagemap::open(Process::Own).ok()?;
    let entries = pagemap.entries(page.as_ptr().addr() as u64, 1).ok()?;
    entries.first()?.frame()
}
