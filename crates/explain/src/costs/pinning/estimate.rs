//! An estimate of the cost of pinning, which needs no privileges.
//!
//! For each page vmsplice(2) walks the page table, takes a reference and fills a slot of
//! the pipe. splice(2) from another pipe that holds the same pages fills a slot, too, but
//! moves an existing reference. The difference is an upper estimate of the cost of
//! pinning, since it includes everything else that vmsplice does for each page. The
//! difference between base and huge pages does not include that.
//!
//! tee(2) would be the wrong baseline: it takes a reference for every page, while pinning
//! takes all references of a huge page at once. This can make tee more expensive than
//! vmsplice of huge pages (docs/pinning.md).

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use fastpipe::buffer::{Buffer, Pages};
use fastpipe::pipe::page_size;
use fastpipe::transfer::{Input, Output, SpliceOptions, VmspliceOptions};
use fastpipe::wait::Wait;

use crate::costs::PIECE;
use crate::costs::parts::{mapped, ns_per, pipe_of};
use pipespeed_base::standard::open_null;

/// A sample fills and drains the pipe this many times in each way.
const FILLS: u32 = 48;

/// Number of pages that vmsplice(2) pins at a time (`iter_to_pipe` in fs/splice.c).
pub const PIPE_PAGES_PER_CALL: u32 = 16;

/// Nanoseconds per page.
pub(in crate::costs) struct PageTimes {
    pub(super) vmsplice_ns: f64,
    pub(in crate::costs) splice_ns: f64,
    /// The difference of the two.
    pub(in crate::costs) estimate_ns: f64,
}

/// A pipe to fill and drain, and another one to fill it from.
pub(in crate::costs) struct Pipes {
    reader: OwnedFd,
    writer: OwnedFd,
    other: (OwnedFd, OwnedFd),
    pages: Buffer,
    null: std::fs::File,
}

impl Pipes {
    pub(in crate::costs) fn new(pages: Pages, untouched: bool) -> io::Result<Pipes> {
        let (reader, writer) = pipe_of(PIECE)?;
        let pages = mapped(PIECE, pages, !untouched)?;
        Ok(Pipes {
            reader,
            writer,
            other: pipe_of(PIECE)?,
            pages,
            null: open_null()?,
        })
    }

    fn vmsplice(&self, into: &OwnedFd) -> io::Result<Duration> {
        let mut out = Output::new(into, Wait::Never);
        let started = Instant::now();
        out.vmsplice(&[self.pages.slice(..)], VmspliceOptions::default())?;
        Ok(started.elapsed())
    }

    fn splice(&self) -> io::Result<Duration> {
        let mut other = Input::new(&self.other.0, Wait::Never);
        let started = Instant::now();
        other.splice(&self.writer, PIECE as u64, SpliceOptions::default())?;
        Ok(started.elapsed())
    }

    fn drain(&self) -> io::Result<()> {
        let mut input = Input::new(&self.reader, Wait::Never);
        input.splice(&self.null, PIECE as u64, SpliceOptions::default())?;
        Ok(())
    }

    pub(in crate::costs) fn sample(&self) -> io::Result<PageTimes> {
        let (mut vmsplicing, mut splicing) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..FILLS {
            vmsplicing += self.vmsplice(&self.writer)?;
            self.drain()?;
            self.vmsplice(&self.other.1)?;
            splicing += self.splice()?;
            self.drain()?;
        }
        let pages = f64::from(FILLS) * (PIECE / page_size()) as f64;
        let [vmsplice_ns, splice_ns] = [vmsplicing, splicing].map(|time| ns_per(time, pages));
        Ok(PageTimes {
            vmsplice_ns,
            splice_ns,
            estimate_ns: vmsplice_ns - splice_ns,
        })
    }
}
